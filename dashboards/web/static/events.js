// What people told of: deploys, maintenance, notes. Events never silence.
import { h } from "./dom.js";
import { clock, plural } from "./format.js";

// events lists those of the last day, newest first, and takes new ones.
export function events(fleet) {
  const told = fleet.events.filter((e) => !e.plan).reverse(); // what is advised about plans stands with them
  return [
    h("h2", null, "Told by people"),
    h("form", { class: "tell", "data-mark": "" },
      h("select", { name: "kind", "aria-label": "What happens" }, ["deploy", "maintenance", "note"].map((k) => h("option", { value: k }, k))),
      h("select", { name: "pool", "aria-label": "Pool" }, h("option", { value: "" }, "all pools"), fleet.pools.map((p) => h("option", { value: p.name }, p.name))),
      h("input", { name: "text", maxlength: "300", placeholder: "What: vLLM 0.33 on agents", "aria-label": "What it is, in one line", autocomplete: "off" }),
      h("button", { type: "submit" }, "Mark now"),
      h("small", { class: "muted" }, "Drawn in the charts and quoted in alerts of the next 30 minutes. It silences nothing.")),
    told.length > 0 && h("details", { class: "minor", open: told.length < 4 },
      h("summary", null, `${plural(told.length, "event")} within 24 h`),
      h("ul", null, told.map((e) => h("li", { "data-key": e.at + e.kind },
        h("span", null, h("time", { datetime: e.at, title: e.at }, clock(e.at, fleet.now)), " ", h("b", null, e.kind), " ",
          e.pool ? `pool ${e.pool}` : "all pools", e.text && `: ${e.text}`,
          e.until && ` (until ${clock(e.until, fleet.now)})`))))),
  ];
}
