// A tile is one number to look at: its name, the value, and a line that says
// against what. Unknown shows as a dash with its reason.
import { h, icon } from "./dom.js";
import { dash, number } from "./format.js";

// tile renders a value. Options: text (instead of the formatted value), note,
// bar (0..1), mark (0..1, a tick on the bar), warnAt (from there the bar warns),
// state (a severity word that colours the number).
export function tile(title, value, { text, note, bar, mark, warnAt, state } = {}) {
  const known = text !== undefined ? text !== dash : value?.value != null;
  const shown = text ?? number(value?.value, value?.unit);
  return h("div", { class: `tile ${known ? (state ?? "") : "missing"}`, "data-key": title, "data-tip": known ? provenance(value) : null },
    h("span", { class: "title" }, title),
    h("span", { class: "value" }, shown),
    bar != null && meter(bar, { mark, warnAt }),
    h("span", { class: "note" }, known ? note : (value?.reason || "not computed yet")),
    known && value?.trust && h("span", { class: "note" }, value.trust));
}

// meter draws a share of one as a bar; the number beside it says the same.
export function meter(share, { mark, warnAt } = {}) {
  const width = `${Math.min(100, Math.max(0, share * 100)).toFixed(1)}%`;
  return h("span", { class: "bar", "aria-hidden": "true" },
    h("i", { class: warnAt !== undefined && share >= warnAt ? "over" : "", style: { width } }),
    mark != null && h("b", { style: { left: `${(mark * 100).toFixed(1)}%` } }));
}

// provenance says in words where a number comes from and how far to trust it.
export function provenance(value) {
  if (!value) return "";
  if (value.value == null) return value.reason ?? "";
  return [value.trust || "measured", value.reason, value.from && `read from ${value.from}`].filter(Boolean).join("; ");
}

// stateBadge shows a target's state as sign, word and colour.
export function stateBadge(owner) {
  const kind = owner.state === "up" ? "ok" : owner.state === "unknown" ? "unknown" : "warning";
  return h("span", { class: `badge ${kind}`, "data-tip": owner.state_reason || null }, icon(kind), owner.state_text);
}
