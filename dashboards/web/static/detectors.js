// Where each detector stands: how far from firing, also when nothing fires.
import { h, icon } from "./dom.js";
import { number } from "./format.js";

const phases = { firing: "critical", pending: "warning", learning: "info", watching: "ok", unknown: "unknown" };

// detectors renders the section.
export function detectors(fleet) {
  if (fleet.detectors.length === 0) return [];
  return [
    h("h2", null, "How far from firing"),
    h("ul", { class: "detectors" }, fleet.detectors.map((d) => h("li", { "data-key": JSON.stringify([d.alertname, d.labels]) },
      h("span", { class: "name" }, h("b", null, d.alertname), " ", h("small", { class: "muted" }, of(d.labels))),
      h("span", { class: `badge ${phases[d.phase] ?? "unknown"}` }, icon(phases[d.phase] ?? "unknown"), d.phase),
      h("span", { class: "text" }, d.text),
      progress(d),
      d.runbook ? h("a", { href: d.runbook, "aria-label": `Runbook of ${d.alertname}` }, "Runbook") : h("span")))),
  ];
}

function of(labels) {
  return labels.pool ?? [labels.job, labels.instance].filter(Boolean).join(" ");
}

// progress draws the judged number against its threshold, where both are told.
function progress(detector) {
  const { value, threshold } = judged(detector.numbers ?? []);
  if (value === undefined || !(threshold.value > 0)) return h("span");
  const share = value.value / threshold.value;
  return h("span", { class: "progress", title: `${number(value.value, value.unit)} of ${number(threshold.value, threshold.unit)} ${threshold.unit}` },
    h("span", { class: "bar" }, h("i", { class: share >= 1 ? "over" : "", style: { width: `${Math.min(100, share * 100)}%` } })),
    h("small", null, `${number(share, "ratio")} of the threshold`));
}

// judged finds the number that is held against a threshold: threshold_x belongs to x.
function judged(numbers) {
  for (const threshold of numbers) {
    if (!threshold.name.includes("threshold")) continue;
    const value = numbers.find((n) => n !== threshold && n.unit === threshold.unit);
    if (value) return { value, threshold };
  }
  return {};
}
