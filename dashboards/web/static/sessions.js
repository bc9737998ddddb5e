// Sessions, as the gateways log the calls: how the cache does by where in its
// session a call stands, how long turns and tasks take, and what all that rests on.
import { h, icon } from "./dom.js";
import { dash, number, plural } from "./format.js";
import { meter, provenance, tile } from "./tiles.js";

// fewCalls is why a distribution of the report is not there.
const fewCalls = "fewer than 5 such calls in the last hour";

// sessions renders the section; it is empty where no log of calls is read.
export function sessions(fleet) {
  const told = new Map(fleet.sessions.map((s) => [s.pool, s]));
  const logged = told.size > 0 || fleet.targets.list.some((t) => t.source === "spend_logs");
  if (!logged || fleet.pools.length === 0) return [];
  return [
    h("h2", null, "Sessions"),
    fleet.pools.map((pool) => card(pool, told.get(pool.name))),
  ];
}

function card(pool, report) {
  const values = pool.values;
  const problem = report ? report.reason : values.session_coverage_ratio?.reason;
  return h("article", { class: "card", "data-key": `sessions ${pool.name}` },
    h("header", { class: "cardhead" },
      h("h3", null, pool.name),
      report && h("small", { class: "muted" }, `${plural(report.calls, "call")} with tokens in the last hour`)),
    problem && h("p", { class: "problem" }, icon("warning"), h("span", null, h("b", null, "Sessions tell nothing: "), problem)),
    report && [
      !problem && regimes(values),
      h("div", { class: "tiles" },
        tile("Coverage", values.session_coverage_ratio, { note: "of the calls have a place in a session and tell their cached tokens", bar: values.session_coverage_ratio?.value }),
        !problem && ofSessions(values, report), ofCalls(report)),
    ]);
}

const positions = [
  ["first_call", "First call of a session", "only the system prompt can hit"],
  ["within_turn", "Within a turn", "the calls of a loop of tools"],
  ["turn_boundary", "Turn boundary", "the first call after a pause: affinity and residency show here"],
];

const switches = [
  ["model", "After another model", "the session's call before went to another model"],
  ["replica", "After another replica", "the session's call before went to another replica"],
];

// regimes are the hit rates by position, and those just after a switch.
function regimes(values) {
  const row = (name, title, meaning) => {
    const value = values[name];
    const known = value?.value != null;
    return h("li", { "data-key": name },
      h("span", { class: "name" }, title),
      h("span", { class: `value ${known ? "" : "missing"}`, "data-tip": provenance(value) || null }, number(value?.value, "ratio"), known && value.trust && h("sup", { title: value.trust }, "*")),
      known ? meter(value.value) : h("span"),
      h("span", { class: "muted" }, known ? [meaning, value.trust, value.reason].filter(Boolean).join("; ") : (value?.reason ?? "not computed yet")));
  };
  return h("div", { "data-key": "regimes" },
    h("h4", null, "Prefix-cache hit rate by place in the session"),
    h("ul", { class: "regimes" },
      positions.map(([position, title, meaning]) => row(`session_hit_ratio:${position}`, title, meaning)),
      switches.map(([kind, title, meaning]) => row(`session_switch_hit_ratio:${kind}`, title, meaning))));
}

function ofSessions(values, report) {
  const gap = `a turn begins after ${number(report.turn_gap_seconds, "seconds")}, ${report.turn_gap_found ? "seen in the calls" : "as configured"}`;
  return [
    pair("Turn gap p50 / p90", values, "turn_gap_seconds", gap),
    pair("Calls of a session p50 / p90", values, "session_calls", "of sessions that went quiet"),
    tile("Full task P90", values["session_task_seconds:0.9"] ?? values.session_task_seconds, { note: "9 of 10 tasks end sooner, from first call to last answer" }),
  ];
}

// pair shows two quantiles of a summary.
function pair(title, values, name, note) {
  const p50 = values[`${name}:0.5`], p90 = values[`${name}:0.9`];
  const known = p50?.value != null && p90?.value != null;
  return tile(title, p90 ?? values[name], { text: known ? `${number(p50.value, p50.unit)} / ${number(p90.value, p90.unit)}` : dash, note });
}

// ofCalls is what holds without sessions too.
function ofCalls(report) {
  const prompt = (q) => at(report.prompt_tokens, q);
  const speed = at(report.tokens_per_second, 0.1);
  const lost = report.arrived_share == null ? null : 1 - report.arrived_share;
  return [
    tile("Interactivity P90", { value: speed, unit: "tokens/s", reason: fewCalls }, { note: "9 of 10 streamed calls are at least so fast" }),
    tile("Prompt p50 / p90", { reason: fewCalls }, {
      text: prompt(0.5) == null ? dash : `${number(prompt(0.5), "tokens")} / ${number(prompt(0.9), "tokens")}`,
      note: `tokens; p95 ${number(prompt(0.95), "tokens")}, p99 ${number(prompt(0.99), "tokens")}`,
    }),
    tile("Rows that never arrived", { value: lost, unit: "ratio", reason: "no gateway whose page is read tells how many calls it answered" }, {
      note: "of the calls that the gateway counted are not in its log", state: lost > 0.05 ? "warning" : "",
    }),
  ];
}

// at finds a quantile; null where there are too few values for any.
function at(quantiles, q) {
  return quantiles?.find((one) => one.q === q)?.value ?? null;
}
