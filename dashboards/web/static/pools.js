// One section per pool: tiles, the places of its charts, and its engines.
import { h, icon } from "./dom.js";
import { poolID } from "./alerts.js";
import { dash, number } from "./format.js";
import { meter, provenance, stateBadge, tile } from "./tiles.js";

// fewRows is how many engines a pool shows before one asks for all.
const fewRows = 24;

// pools renders the section. `view` holds what the reader opened (open rows,
// whole tables) and the window of the hit rates; `recent` what was counted
// within the time shown.
export function pools(fleet, recent, view) {
  if (fleet.pools.length === 0 && fleet.unpooled.length === 0) {
    return h("p", { class: "empty", "data-key": "empty" }, fleet.targets.up > 0
      ? "No engine was seen yet. Pools appear with the second scrape of a vLLM page."
      : "No pool yet: no vLLM page could be read.");
  }
  const firing = new Map();
  for (const a of fleet.alerts.firing) if (a.pool && !firing.has(a.pool)) firing.set(a.pool, a.severity);
  return [
    inOrder(fleet.pools, firing).map((p) => poolSection(p, firing.get(p.name), recent, view)),
    fleet.unpooled.length > 0 && h("article", { class: "card", "data-key": "unpooled" },
      h("header", { class: "cardhead" }, h("h2", null, "Engines without a pool")),
      engines("unpooled", fleet.unpooled, null, recent, view)),
  ];
}

// inOrder puts pools with an alert first; their order among themselves stays.
export function inOrder(pools, firing) {
  return [...pools].sort((a, b) => firing.has(b.name) - firing.has(a.name));
}

function poolSection(pool, severity, recent, view) {
  const baseline = pool.values.prefix_cache_hit_ratio_baseline?.value;
  return h("article", { class: "card pool", id: poolID(pool.name), "data-key": `pool ${pool.name}` },
    h("header", { class: "cardhead" },
      h("h2", null, pool.name),
      h("small", { class: "muted" }, pool.model_name),
      severity && h("span", { class: `badge ${severity}` }, icon(severity), severity)),
    pool.problem && h("p", { class: "problem" }, icon("warning"), pool.problem),
    h("div", { class: "tiles" }, poolTiles(pool.values, baseline, severity, view.window)),
    h("div", { class: "charts", "data-keep": true, "data-pool": pool.name, "data-key": "charts" }),
    engines(pool.name, pool.engines, baseline, recent, view));
}

function poolTiles(values, baseline, severity, window) {
  const hit = values[`prefix_cache_hit_ratio:${window}`];
  const usual = values.prefix_cache_hit_ratio_baseline;
  const excess = values.reprefill_excess_prompts;
  const capacity = values.kv_capacity_tokens;
  const seats = values.kv_free_seats;
  const drain = values.queue_drain_seconds;
  const p50 = values["ttft_seconds:0.5"] ?? values.ttft_seconds;
  const p95 = values["ttft_seconds:0.95"];
  return [
    tile(`Hit rate, ${window.replace("m", " min")}`, hit, {
      note: baseline != null ? `usual ${number(baseline, "ratio")}` : `usual: ${usual?.reason ?? "not known"}`,
      bar: hit?.value, mark: baseline, state: severity && hit?.value < baseline ? severity : "",
    }),
    tile("Computed again", excess, { text: excess?.value != null ? `${number(excess.value)} prompts` : dash, note: "beyond the usual, since the onset" }),
    tile("KV in use", values.kv_usage_ratio, {
      note: [capacity?.value != null && `of ${number(capacity.value)} tokens`, seats?.value != null && `${number(seats.value)} seats free`].filter(Boolean).join(", "),
      bar: values.kv_usage_ratio?.value, warnAt: 0.95,
    }),
    tile("Waiting", values.queue_waiting_requests, { note: drain?.value != null ? `drains in ${number(drain.value, "seconds")}` : "requests in the queue" }),
    tile("TTFT p50 / p95", p95 ?? p50, {
      text: p95?.value != null ? `${number(p50?.value, "seconds")} / ${number(p95.value, "seconds")}` : dash,
      note: "to the first token, 5 min",
    }),
  ];
}

const columns = [
  { title: "Hit 1 min", key: "prefix_cache_hit_ratio:1m", bar: true },
  { title: "Hit 5 min", key: "prefix_cache_hit_ratio:5m", bar: true },
  { title: "Hit 30 min", key: "prefix_cache_hit_ratio:30m", bar: true },
  { title: "KV in use", key: "kv_usage_ratio", bar: true, warnAt: 0.95 },
  { title: "Waiting", key: "queue_waiting_requests" },
  { title: "Running", recent: "running" },
  { title: "Preempted", recent: "preempted", key: "preemptions_total" },
  { title: "KV tokens", key: "kv_capacity_tokens" },
];

function engines(owner, list, baseline, recent, view) {
  if (list.length === 0) return h("p", { class: "empty", "data-key": "engines" }, "No engine of this pool was seen yet.");
  const whole = view.whole.has(owner);
  const shown = whole ? list : list.slice(0, fewRows);
  return h("div", { class: "engines", "data-key": "engines" },
    h("table", null,
      h("caption", { class: "hidden" }, "Engines. Each row opens to show where its numbers come from."),
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "Engine"), h("th", { scope: "col" }, "State"),
        columns.map((c) => h("th", { scope: "col" }, c.title)), h("th", { scope: "col" }, h("span", { class: "hidden" }, "Details")))),
      h("tbody", null, shown.map((e) => engineRows(e, baseline, recent, view)))),
    list.length > fewRows && h("button", { type: "button", "data-action": "whole", "data-owner": owner, "aria-pressed": String(whole) },
      whole ? `Show ${fewRows} only` : `Show all ${list.length} engines`));
}

function engineRows(engine, baseline, recent, view) {
  const key = engineKey(engine);
  const open = view.open.has(key);
  return [
    h("tr", { class: "engine", "data-key": key, "data-action": "open", "data-engine": key },
      h("th", { scope: "row" }, engineName(engine)),
      h("td", { "data-title": "State" }, stateBadge(engine), stalled(engine)),
      columns.map((c) => cell(engine, c, baseline, recent)),
      h("td", { class: "more" }, h("button", {
        type: "button", "aria-expanded": String(open), "aria-label": `Where the numbers of ${engineName(engine)} come from`,
      }, h("svg", { viewBox: "0 0 24 24", class: "chevron", "aria-hidden": "true" }, h("path", { d: "M6 9l6 6 6-6" }))))),
    open && h("tr", { class: "details", "data-key": `${key} details` }, h("td", { colspan: columns.length + 3 }, provenanceList(engine))),
  ];
}

function stalled(engine) {
  return engine.values.engine_stalled?.value === 1 && h("span", { class: "badge critical" }, icon("critical"), "stalled");
}

function cell(engine, column, baseline, recent) {
  const value = engine.values[column.key];
  const counted = recent[column.recent]?.get(engineKey(engine));
  if (column.recent && counted !== undefined) {
    return h("td", { class: "number", "data-title": column.title }, number(Math.round(counted)));
  }
  const known = value?.value != null && !column.recent;
  const mark = column.key?.startsWith("prefix_cache") ? baseline : null;
  return h("td", { class: `number ${known ? "" : "missing"}`, "data-title": column.title, "data-tip": provenance(value) || "not known yet" },
    h("span", null, known ? number(value.value, value.unit) : dash, known && value.trust && h("sup", { title: value.trust }, "*")),
    known && column.bar && meter(value.value, { mark, warnAt: column.warnAt }));
}

function provenanceList(engine) {
  const rows = Object.entries(engine.values).sort(([a], [b]) => a.localeCompare(b));
  return [
    engine.state !== "up" && h("p", null, h("b", null, engine.state_text), ". ", engine.state_reason ?? "", " ", engine.hint ?? ""),
    h("dl", { class: "provenance" }, rows.map(([name, v]) => h("div", { "data-key": name },
      h("dt", null, seriesWords(name)),
      h("dd", null, h("b", null, number(v.value, v.unit)), v.value != null && unitWord(v.unit), " – ", provenance(v))))),
  ];
}

// seriesWords turns a short name such as ttft_seconds:0.95 into words.
function seriesWords(name) {
  const [series, which] = name.split(":");
  const words = series.replace(/_(ratio|seconds|total)$/, "").replaceAll("_", " ").replace("ttft", "time to first token").replace("itl", "time between tokens");
  return which ? `${words}, ${which.startsWith("0.") ? `p${Number(which) * 100}` : which.replaceAll("_", " ")}` : words;
}

function unitWord(unit) {
  return ["tokens", "requests", "seats", "prompts"].includes(unit) ? ` ${unit}` : "";
}

// engineKey identifies an engine by the labels of its series.
export function engineKey(labels) {
  return `${labels.job} ${labels.instance} ${labels.engine}`;
}

// engineName is how people call an engine; the number matters only beyond the first.
export function engineName(labels) {
  return labels.engine === "0" ? labels.instance : `${labels.instance} #${labels.engine}`;
}
