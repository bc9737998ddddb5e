// Where each detector stands: how far from firing, also when nothing fires.
import { h, icon } from "./dom.js";
import { clock, duration, number } from "./format.js";

const phases = { firing: "critical", pending: "warning", learning: "info", watching: "ok", unknown: "unknown" };

// most is how many detectors are listed one by one.
const most = 40;

// detectors renders the section. A detector that just watches, without a
// number to show, is counted with the others of its alert: there is one for
// each target.
export function detectors(fleet, why) {
  if (fleet.detectors.length === 0) return [];
  const watching = new Map();
  const single = [];
  for (const d of fleet.detectors) {
    if (d.phase !== "watching" || d.share !== undefined) single.push(d);
    else watching.set(d.alertname, [...(watching.get(d.alertname) ?? []), d]);
  }
  return [
    h("h2", null, "How far from firing"),
    h("ul", { class: "detectors" },
      single.slice(0, most).map((d) => row(d, of(d.labels), d.text, why, fleet.now)),
      single.length > most && h("li", { "data-key": "more" }, `${single.length - most} more are at `, h("a", { href: "api/v1/kvwatch/explain" }, "/api/v1/kvwatch/explain")),
      [...watching.values()].map((group) => group.length === 1
        ? row(group[0], of(group[0].labels), group[0].text, why, fleet.now)
        : row({ ...group[0], labels: {} }, "", `${group.length} are watched`, null, fleet.now))),
  ];
}

// row is one detector. why holds, by key, what was asked of those whose panel
// is open; null where there is no panel, because the row stands for several.
function row(detector, subject, text, why, now) {
  const phase = phases[detector.phase] ?? "unknown";
  const key = detectorKey(detector);
  const open = why?.has(key);
  return h("li", { "data-key": key },
    h("span", { class: "name" }, h("b", null, detector.alertname), " ", h("small", { class: "muted" }, subject)),
    h("span", { class: `badge ${phase}` }, icon(phase), detector.phase),
    h("span", { class: "text" }, text),
    progress(detector),
    h("span", { class: "more" },
      why && h("button", { type: "button", "data-action": "why", "data-detector": key, "aria-expanded": String(open), "aria-label": `Why ${detector.alertname} ${subject} stands so` }, "Why"),
      detector.runbook && h("a", { href: detector.runbook, "aria-label": `Runbook of ${detector.alertname}` }, "Runbook")),
    open && panel(why.get(key), now));
}

// detectorKey tells a detector from all others.
export function detectorKey(detector) {
  return JSON.stringify([detector.alertname, detector.labels]);
}

// panel says when the alert fires, what its numbers are, and how near it came.
function panel(found, now) {
  if (!found) return h("div", { class: "panel muted" }, "Asking…");
  const hold = found.for_seconds > 0 && ` It must hold for ${duration(found.for_seconds)}.`;
  return h("div", { class: "panel" },
    h("p", null, h("b", null, "Fires when: "), found.fires, hold),
    found.numbers?.length > 0 && h("dl", null, found.numbers.map((n) => h("div", null, h("dt", null, n.name.replaceAll("_", " ")), h("dd", null, figure(n))))),
    found.past?.length > 1 && sparkline(found.past, now));
}

// figure writes a number with its unit.
function figure({ value, unit }) {
  const text = number(value, unit);
  return ["ratio", "seconds", "tokens/s"].includes(unit) ? text : `${text} ${unit ?? ""}`;
}

const [sparkWidth, sparkHeight] = [600, 60];

// sparkline draws the share of the threshold over the last hours; the dashed
// line is the threshold.
function sparkline(past, now) {
  const times = past.map((p) => Date.parse(p.at));
  const [from, to] = [times[0], Math.max(times.at(-1), times[0] + 1)];
  const top = Math.max(1.1, ...past.map((p) => p.share));
  const x = (t) => ((t - from) / (to - from)) * sparkWidth;
  const y = (share) => sparkHeight - (Math.max(share, 0) / top) * (sparkHeight - 4) - 2;
  const line = past.map((p, i) => `${i ? "L" : "M"}${x(times[i]).toFixed(1)} ${y(p.share).toFixed(1)}`).join("");
  const highest = past.reduce((a, b) => b.share > a.share ? b : a);
  return h("figure", { class: "spark" },
    h("svg", { viewBox: `0 0 ${sparkWidth} ${sparkHeight}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      h("path", { class: "limit", d: `M0 ${y(1).toFixed(1)}H${sparkWidth}`, "vector-effect": "non-scaling-stroke" }),
      h("path", { class: "line", d: line, "vector-effect": "non-scaling-stroke" })),
    h("figcaption", null, `Share of the threshold (dashed) since ${clock(past[0].at, now)}; highest ${number(highest.share, "ratio")} at ${clock(highest.at, now)}.`));
}

function of(labels) {
  return labels.pool ?? [labels.job, labels.instance].filter(Boolean).join(" ");
}

// progress draws the judged number against its threshold, where both are told.
function progress(detector) {
  const { share } = detector;
  if (share === undefined) return h("span");
  return h("span", { class: "progress" },
    h("span", { class: "bar", "aria-hidden": "true" }, h("i", { class: share >= 1 ? "over" : "", style: { width: `${Math.min(100, share * 100)}%` } })),
    h("small", null, `${number(share, "ratio")} of the threshold`));
}
