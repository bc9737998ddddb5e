// The charts of one pool: what is asked of history, and which lines it gives.
import { queryRange } from "./api.js";
import { Chart } from "./chart.js";
import { words } from "./alerts.js";
import { engineKey, engineName } from "./pools.js";

// manyEngines is from where on a pool shows its lowest and highest engine only.
const manyEngines = 9;

// PoolCharts owns the four charts of one pool.
export class PoolCharts {
  constructor(host) {
    this.hit = new Chart(host, { title: "Prefix-cache hit rate", unit: "ratio", top: 1 });
    this.usage = new Chart(host, { title: "KV in use", unit: "ratio", top: 1 });
    this.waiting = new Chart(host, { title: "Waiting requests", unit: "requests" });
    this.ttft = new Chart(host, { title: "Time to first token", unit: "seconds" });
    this.host = host;
  }

  // draw asks history for the pool and shows what it answers.
  async draw(pool, fleet, seconds, ratioWindow) {
    const window = { end: Date.parse(fleet.now) / 1000, seconds };
    const many = pool.engines.length >= manyEngines;
    const names = "prefix_cache_hit_ratio|kv_usage_ratio|queue_waiting_requests";
    const own = `{__name__=~"kvwatch_pool_(${names}|prefix_cache_hit_ratio_baseline|ttft_seconds)",pool=${quote(pool.name)},window=~"|${ratioWindow}",quantile=~"|0.5|0.95"}`;
    const each = `{__name__=~"kvwatch_(${names})",${members(pool.engines)},window=~"|${ratioWindow}"}`;
    const asked = [queryRange(own, window, fleet.interval_seconds)];
    if (pool.engines.length > 0) {
      for (const expression of many ? [`min by (__name__) (${each})`, `max by (__name__) (${each})`] : [each]) {
        asked.push(queryRange(expression, window, fleet.interval_seconds));
      }
    }
    const [answer, ...engines] = await Promise.all(asked);
    const times = [];
    for (let t = answer.end - Math.floor(seconds / answer.step) * answer.step; t <= answer.end; t += answer.step) times.push(t);
    const spans = spansOf(pool.name, fleet, window);
    const engineLines = (name) => many
      ? engines.map((e, i) => ({ label: i === 0 ? "lowest engine" : "highest engine", index: i, points: sum(e.series, `kvwatch_${name}`) }))
      : pool.engines.map((e, i) => ({
        label: engineName(e), index: i,
        points: sum(engines[0]?.series ?? [], `kvwatch_${name}`, (m) => engineKey(m) === engineKey(e)),
      }));
    const poolLine = (name, filter) => sum(answer.series, `kvwatch_pool_${name}`, filter);
    const nameless = spans.map((s) => ({ ...s, name: "" }));

    this.hit.draw({
      times, spans, title: `Prefix-cache hit rate, ${ratioWindow.replace("m", " min")} window`,
      lines: [
        ...engineLines("prefix_cache_hit_ratio"),
        { label: "usual (baseline)", role: "baseline", points: poolLine("prefix_cache_hit_ratio_baseline") },
        { label: "pool", role: "pool", points: poolLine("prefix_cache_hit_ratio") },
      ],
    });
    this.usage.draw({ times, spans: nameless, lines: [...engineLines("kv_usage_ratio"), { label: "pool", role: "pool", points: poolLine("kv_usage_ratio") }] });
    this.waiting.draw({ times, spans: nameless, lines: [...engineLines("queue_waiting_requests"), { label: "pool", role: "pool", points: poolLine("queue_waiting_requests") }] });
    this.ttft.draw({ times, spans: nameless, lines: [
      { label: "p95", role: "second", points: poolLine("ttft_seconds", (m) => m.quantile === "0.95") },
      { label: "p50", role: "pool", points: poolLine("ttft_seconds", (m) => m.quantile === "0.5") },
    ] });
  }

  destroy() {
    for (const chart of [this.hit, this.usage, this.waiting, this.ttft]) chart.destroy();
  }
}

// members selects the series of a pool's engines.
function members(engines) {
  const anyOf = (label) => `${label}=~${quote([...new Set(engines.map((e) => escapeRegex(e[label])))].join("|"))}`;
  return [anyOf("job"), anyOf("instance"), anyOf("engine"), anyOf("model_name")].join(",");
}

// quote writes a PromQL string; its escapes are those of JSON.
function quote(text) {
  return JSON.stringify(text);
}

function escapeRegex(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

// sum adds up the series of one name per moment (a queue's reasons, say).
function sum(series, name, filter = () => true) {
  const points = new Map();
  for (const { metric, values } of series) {
    if (metric.__name__ !== name || !filter(metric)) continue;
    for (const [t, v] of values) {
      const value = Number(v);
      if (Number.isFinite(value)) points.set(t, (points.get(t) ?? 0) + value);
    }
  }
  return points;
}

// spansOf lists the cache alerts of a pool within the window, from onset to
// end; the gravest last, so that it lies on top.
function spansOf(pool, fleet, window) {
  return [...fleet.alerts.firing, ...fleet.alerts.resolved]
    .filter((a) => a.pool === pool && a.alertname.startsWith("PrefixCache") && a.active_at)
    .map((a) => ({
      from: Date.parse(a.active_at) / 1000,
      to: Date.parse(a.resolved_at ?? fleet.now) / 1000,
      severity: a.severity,
      name: [a.alertname, words(a.evidence.cause)].filter(Boolean).join(": "),
    }))
    .filter((s) => s.to > window.end - window.seconds)
    .sort((a, b) => (a.severity === "critical") - (b.severity === "critical") || b.from - a.from)
    .concat(eventSpans(pool, fleet, window));
}

// mostEvents is how many events of the window are drawn, the newest.
const mostEvents = 3;

// eventSpans lists what people told of the pool; most have no length.
function eventSpans(pool, fleet, window) {
  return fleet.events
    .filter((e) => !e.pool || e.pool === pool)
    .map((e) => ({
      from: Date.parse(e.at) / 1000,
      to: Math.min(Date.parse(e.until ?? e.at), Date.parse(fleet.now)) / 1000,
      severity: "event",
      name: [e.kind, e.text].filter(Boolean).join(": ").slice(0, 40),
    }))
    .filter((s) => s.to > window.end - window.seconds)
    .slice(-mostEvents);
}
