// Where each detector stands: how far from firing, also when nothing fires.
import { h, icon } from "./dom.js";
import { number } from "./format.js";

const phases = { firing: "critical", pending: "warning", learning: "info", watching: "ok", unknown: "unknown" };

// most is how many detectors are listed one by one.
const most = 40;

// detectors renders the section. A detector that just watches, without a
// number to show, is counted with the others of its alert: there is one for
// each target.
export function detectors(fleet) {
  if (fleet.detectors.length === 0) return [];
  const watching = new Map();
  const single = [];
  for (const d of fleet.detectors) {
    if (d.phase !== "watching" || judged(d)) single.push(d);
    else watching.set(d.alertname, [...(watching.get(d.alertname) ?? []), d]);
  }
  return [
    h("h2", null, "How far from firing"),
    h("ul", { class: "detectors" },
      single.slice(0, most).map((d) => row(d, of(d.labels), d.text)),
      single.length > most && h("li", { "data-key": "more" }, `${single.length - most} more are at `, h("a", { href: "api/v1/kvwatch/explain" }, "/api/v1/kvwatch/explain")),
      [...watching.values()].map((group) => group.length === 1
        ? row(group[0], of(group[0].labels), group[0].text)
        : row({ ...group[0], labels: {} }, "", `${group.length} are watched`))),
  ];
}

function row(detector, subject, text) {
  const phase = phases[detector.phase] ?? "unknown";
  return h("li", { "data-key": JSON.stringify([detector.alertname, detector.labels]) },
    h("span", { class: "name" }, h("b", null, detector.alertname), " ", h("small", { class: "muted" }, subject)),
    h("span", { class: `badge ${phase}` }, icon(phase), detector.phase),
    h("span", { class: "text" }, text),
    progress(detector),
    detector.runbook ? h("a", { href: detector.runbook, "aria-label": `Runbook of ${detector.alertname}` }, "Runbook") : h("span"));
}

function of(labels) {
  return labels.pool ?? [labels.job, labels.instance].filter(Boolean).join(" ");
}

// progress draws the judged number against its threshold, where both are told.
function progress(detector) {
  const found = judged(detector);
  if (!found) return h("span");
  const share = found.value.value / found.threshold.value;
  return h("span", { class: "progress" },
    h("span", { class: "bar", "aria-hidden": "true" }, h("i", { class: share >= 1 ? "over" : "", style: { width: `${Math.min(100, share * 100)}%` } })),
    h("small", null, `${number(share, "ratio")} of the threshold`));
}

// judged finds the number that is held against a threshold: threshold_<what>
// belongs to the first other number of its unit.
function judged(detector) {
  const numbers = detector.numbers ?? [];
  const threshold = numbers.find((n) => n.name.startsWith("threshold") && n.value > 0);
  const value = threshold && numbers.find((n) => n !== threshold && n.unit === threshold.unit);
  return value ? { value, threshold } : null;
}
