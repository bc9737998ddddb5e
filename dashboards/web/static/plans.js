// Sizing plans, held against what was measured: which assumptions hold, what the
// load needs, what it costs. The verdict is a word with a sign; the bar shows the
// ratio of measured to planned, the tick where the two are equal.
import { h, icon } from "./dom.js";
import { clock, dash, plural } from "./format.js";
import { meter } from "./tiles.js";

const signs = { "holds": "ok", "drifted": "warning", "cannot tell": "unknown" };

// plans renders the section; it is empty where the configuration names none.
export function plans(fleet) {
  if (fleet.plans.length === 0) return [];
  return [h("h2", null, "Sizing plans"), fleet.plans.map((plan) => card(plan, fleet))];
}

function card(plan, fleet) {
  const told = fleet.plan_events.filter((e) => e.plan === plan.plan).slice(-4).reverse();
  const untold = plan.assumptions.filter((a) => a.verdict === "cannot tell");
  return h("article", { class: "card", "data-key": `plan ${plan.plan}` },
    h("header", { class: "cardhead" },
      h("h3", null, plan.plan),
      h("small", { class: "muted" }, `pool ${plan.pool}; ${plural(plan.hours, "hour")} that pages cover, worked out ${clock(plan.at, fleet.now)}; `,
        h("a", { href: "api/v1/kvwatch/plans" }, "JSON, with the plan written anew"))),
    assumptions("Assumptions", plan.assumptions.filter((a) => a.verdict !== "cannot tell")),
    untold.length > 0 && h("details", { class: "minor" },
      h("summary", null, `${plural(untold.length, "assumption")} cannot be told`), assumptions(null, untold)),
    resources(plan),
    h("ul", { class: "facts" },
      h("li", { "data-key": "knee" }, h("b", null, "Passive knee: "), plan.knee.text, plan.knee.confidence && ` (confidence ${plan.knee.confidence})`),
      h("li", { "data-key": "growth" }, h("b", null, "Growth: "), plan.growth_text),
      h("li", { "data-key": "costs" }, h("b", null, "Cost: "), plan.costs ? costs(plan.costs) : plan.costs_text),
      told.map((e) => h("li", { "data-key": e.at + e.kind }, h("b", null, `${e.kind}: `), h("time", { datetime: e.at }, clock(e.at, fleet.now)), ` ${e.text}`))));
}

// assumptions lists verdicts; the bar ends at four times what is planned.
function assumptions(title, list) {
  if (list.length === 0) return title && h("p", { class: "muted" }, "No assumption can be judged yet.");
  return h("div", { "data-key": title ?? "untold" },
    title && h("h4", null, title, h("small", { class: "muted" }, " measured / planned")),
    h("ul", { class: "regimes verdicts" }, list.map((a) => {
      const sign = signs[a.verdict] ?? "unknown";
      return h("li", { "data-key": a.assumption },
        h("span", { class: "name" }, breakable(a.assumption), " ", h("span", { class: `badge ${sign}` }, icon(sign), a.verdict)),
        h("span", { class: `value ${a.live == null ? "missing" : ""}`, "data-tip": a.unit ? `measured / planned, ${a.unit}` : "measured / planned" }, `${figure(a.live)} / ${figure(a.planned)}`),
        a.ratio != null ? meter(a.ratio / 4, { mark: 0.25 }) : h("span"),
        h("span", { class: "muted" }, a.why, a.samples > 0 && ` (${figure(a.samples)} samples in ${plural(a.hours, "hour")})`));
    })));
}

// breakable lets a key be broken after its dots and underscores.
function breakable(key) {
  return key.split(/(?<=[._])/).flatMap((part, i) => (i > 0 ? [h("wbr"), part] : [part]));
}

// resourceNames are those whose key is no word.
const resourceNames = { gpus: "GPUs", kv_gb: "KV memory, GB", db_connections: "database connections", max_num_seqs: "sequences (max_num_seqs)" };

// resources compares what is needed with what is planned.
function resources(plan) {
  const names = Object.keys({ ...plan.required, ...plan.planned });
  if (names.length === 0) return h("p", { class: "muted" }, "The plan works out no resource: it lacks what the formulas need.");
  return h("table", { "data-key": "resources" },
    h("thead", null, h("tr", null, ["resource", "needed, as measured", "needed, by the plan", "planned", ""].map((t) => h("th", null, t)))),
    h("tbody", null, names.map((name) => {
      const need = plan.required[name], has = plan.planned[name];
      // Of sequences more is too many, of all else less is too few.
      const short = need != null && has != null && (name === "max_num_seqs" ? has > need : need > has);
      return h("tr", { "data-key": name },
        h("td", null, resourceNames[name] ?? name.replaceAll("_", " ")), h("td", null, figure(need)), h("td", null, figure(plan.before[name])), h("td", null, figure(has)),
        h("td", null, short && h("span", { class: "badge warning" }, icon("warning"), name === "max_num_seqs" ? "too many" : "short")));
    })));
}

function costs(c) {
  const parts = ["prefill_new", "prefill_repeated", "decode", "idle"].filter((p) => c.per_million_tokens[p] != null)
    .map((p) => `${p.replaceAll("_", " ")} ${figure(c.per_million_tokens[p])}`);
  return [
    `${figure(c.per_million_tokens.total)} ${c.currency} per million output tokens within the SLO`,
    parts.length > 0 && ` (${parts.join(", ")})`,
    c.planned_per_million_tokens != null && `, planned ${figure(c.planned_per_million_tokens)}`,
    c.cloud_per_million_tokens != null && `, rented ${figure(c.cloud_per_million_tokens)}`,
    `. Engines ran no request ${(100 * c.idle_share).toFixed(0)} % of the time. `, c.text,
  ];
}

// figure is a number with three digits that count.
function figure(v) {
  if (v == null) return dash;
  return Math.abs(v) >= 1000 ? Math.round(v).toLocaleString("en-GB") : String(Number(v.toPrecision(3)));
}
