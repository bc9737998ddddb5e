// The gateways: in flight, overhead with its coverage, rejections, cooldowns.
import { h } from "./dom.js";
import { dash, number } from "./format.js";
import { stateBadge, tile } from "./tiles.js";

// gateways renders the section. `recent` holds what was counted within the time shown.
export function gateways(fleet, recent, rangeText) {
  if (fleet.gateways.length === 0) return [];
  return [
    h("h2", null, fleet.gateways.length === 1 ? "Gateway" : "Gateways"),
    fleet.gateways.map((g) => {
      const key = `${g.job} ${g.instance}`;
      return h("article", { class: "card", "data-key": key },
        h("header", { class: "cardhead" }, h("h3", null, g.instance), h("small", { class: "muted" }, g.job), stateBadge(g)),
        h("div", { class: "tiles" },
          inFlight(g.values),
          overhead(g.values),
          counted("Rejected", g.values.gateway_rejected_requests_total, recent.rejected?.get(key), rangeText),
          counted("Cooldowns", g.values.gateway_cooldowns_total, recent.cooldowns?.get(key), rangeText)));
    }),
  ];
}

function inFlight(values) {
  const now = values.gateway_in_flight_requests;
  const saturation = values.gateway_saturation_ratio;
  const known = now?.value > 0 && saturation?.value > 0;
  const cap = known ? Math.round(now.value / saturation.value) : null;
  let note = saturation?.reason ? `share of the cap: ${saturation.reason}` : "";
  if (saturation?.value != null) note = cap ? `of ${cap} at once, ${number(saturation.value, "ratio")}` : `${number(saturation.value, "ratio")} of the cap`;
  return tile("In flight", now, { note, bar: saturation?.value, warnAt: 0.8 });
}

function overhead(values) {
  const p50 = values["gateway_overhead_seconds:0.5"] ?? values.gateway_overhead_seconds;
  const p95 = values["gateway_overhead_seconds:0.95"];
  const coverage = values.gateway_overhead_coverage_ratio;
  const text = p95?.value != null ? `${number(p50?.value, "seconds")} / ${number(p95.value, "seconds")}` : dash;
  let note = p50?.reason ?? "";
  if (coverage?.value != null) note = `measured for ${number(coverage.value, "ratio")} of the requests${coverage.value < 0.2 ? ": streamed calls carry none" : ""}`;
  return tile("Overhead p50 / p95", { ...(p95 ?? p50), trust: coverage?.value != null ? "" : (p95 ?? p50)?.trust }, { text, note });
}

function counted(title, total, recent, rangeText) {
  if (recent !== undefined) return tile(title, { ...total, value: Math.round(recent) }, { note: `in the last ${rangeText}` });
  return tile(title, total, { note: total?.value != null ? "since it started" : "" });
}
