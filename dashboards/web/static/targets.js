// Targets that are not up, with their state in words, the reason and a hint.
import { h, icon } from "./dom.js";
import { ago, duration } from "./format.js";

// targets renders the section; it is empty when all targets are up.
export function targets(fleet) {
  const list = fleet.targets.not_up;
  if (list.length === 0) return [];
  return [
    h("h2", null, `Targets that are not up (${list.length})`),
    h("ul", { class: "targets" }, list.map((t) => h("li", { "data-key": `${t.job} ${t.instance}` },
      icon(t.state === "unknown" ? "unknown" : "warning"),
      h("div", null,
        h("p", null, h("b", null, t.instance), " ", h("small", { class: "muted" }, t.job), " – ", h("strong", null, t.state_text),
          t.since && t.state !== "unknown" && h("small", { class: "muted" }, ` for ${duration(ago(t.since, fleet.now))}`)),
        t.state_reason && h("p", null, t.state_reason),
        t.hint && h("p", { class: "muted" }, t.hint))))),
  ];
}
