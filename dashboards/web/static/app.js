// The page: asks, shows, and asks again. Nothing here judges; it shows what the
// daemon says.
import * as api from "./api.js";
import { alerts } from "./alerts.js";
import { detectorKey, detectors } from "./detectors.js";
import { h, icon, show } from "./dom.js";
import { events } from "./events.js";
import { ago, duration, plural, zone } from "./format.js";
import { gateways } from "./gateways.js";
import { plans } from "./plans.js";
import { PoolCharts } from "./poolcharts.js";
import { pools } from "./pools.js";
import { recent } from "./recent.js";
import { reviews } from "./reviews.js";
import { sessions } from "./sessions.js";
import { targets } from "./targets.js";

const root = document.documentElement;
const place = (id) => document.getElementById(id);

const state = {
  fleet: null,
  recent: {},
  seconds: 0, // how far back the charts look; 0 until the first answer
  view: { open: new Set(), whole: new Set(), window: "5m" },
  why: new Map(), // by detector whose panel is open: what explain said, or null
  charts: new Map(), // by the element that holds them
  troubles: new Map(), // what does not work now, in words, by what it concerns
  next: 0,
};

// trouble notes or clears what does not work; the page says it in words.
function trouble(about, text) {
  if (text) state.troubles.set(about, text);
  else state.troubles.delete(about);
  const box = place("trouble");
  box.hidden = state.troubles.size === 0;
  show(box, icon("critical"), h("span", null, [...state.troubles.values()].join(" ")));
}

function failed(error) {
  root.dataset.errors = String(Number(root.dataset.errors) + 1);
  trouble("page", `This page has a fault: ${error?.message ?? error}. Reload it; if that does not help, please report it.`);
}

window.addEventListener("error", (e) => failed(e.error ?? e.message));
window.addEventListener("unhandledrejection", (e) => failed(e.reason));

// refresh asks for the present and draws it; then it waits one interval.
async function refresh() {
  clearTimeout(state.next);
  if (await askFleet()) {
    if (!state.seconds) {
      choose(fleetRange(state.fleet));
      openAsked();
    }
    render();
    try {
      await Promise.all([drawCharts(), askRecent(), ...[...state.why.keys()].map(askWhy)]);
      trouble("history", null);
    } catch (e) {
      trouble("history", `The charts cannot be drawn: ${e.message}.`);
    }
    root.dataset.ready = "true";
  }
  state.next = setTimeout(refresh, Math.max(2, state.fleet?.interval_seconds ?? 5) * 1000);
}

// fleetRange is how far back the charts look at first: a demo has no past.
function fleetRange(fleet) {
  return fleet.demo ? 900 : 3600;
}

// openAsked opens the panels of the detectors that the address asks for: ?why=<alert>.
function openAsked() {
  const alert = new URLSearchParams(location.search).get("why");
  for (const d of state.fleet.detectors) if (d.alertname === alert) state.why.set(detectorKey(d), null);
}

// choose sets how far back the charts look.
function choose(seconds) {
  state.seconds = seconds;
  state.view.window = seconds <= 900 ? "1m" : "5m";
  for (const b of document.querySelectorAll("[data-range]")) b.setAttribute("aria-pressed", String(Number(b.dataset.range) === seconds));
}

// askFleet asks for the present. While there is none, what stands on the page
// is old, and looks so: a green "No alert" must not outlive its truth.
async function askFleet() {
  try {
    state.fleet = await api.fleet();
    trouble("fleet", null);
    delete root.dataset.old;
    return true;
  } catch (e) {
    const since = state.fleet ? ` What you see is of ${new Date(state.fleet.now).toLocaleTimeString("en-GB")}.` : "";
    trouble("fleet", `${e.message}. The page tries again by itself.${since}`);
    root.dataset.old = "true";
    return false;
  }
}

async function askRecent() {
  state.recent = await recent(state.fleet, state.seconds);
  render();
}

// askWhy asks for the panel of a detector.
async function askWhy(key) {
  const [alert, labels] = JSON.parse(key);
  const { detectors: found } = await api.explain(alert, labels);
  if (!state.why.has(key)) return; // closed meanwhile
  state.why.set(key, found.find((d) => detectorKey(d) === key) ?? null);
  render();
}

// change asks the daemon for a change, and says what came of it.
async function change(doing) {
  try {
    place("said").textContent = await doing();
    trouble("change", null);
    await refresh();
  } catch (e) {
    trouble("change", `${e.message}.`);
  }
}

function render() {
  const { fleet, view } = state;
  const range = duration(state.seconds);
  place("version").textContent = fleet.version;
  document.title = fleet.alerts.firing.length > 0 ? `(${fleet.alerts.firing.length}) kvwatch` : "kvwatch";
  show(place("state"), chips(fleet));
  place("demo").hidden = !fleet.demo;
  if (fleet.demo) show(place("demo"), icon("info"), h("span", null, fleet.note ? `Demo: simulated fleet, rules run ${fleet.note}.` : "Demo: simulated fleet."));
  // While nothing fires, the distance from firing is what there is to see.
  const quiet = fleet.alerts.firing.length === 0;
  show(place("alerts"), alerts(fleet), quiet && detectors(fleet, state.why));
  show(place("pools"), pools(fleet, state.recent, view));
  show(place("sessions"), sessions(fleet));
  show(place("plans"), plans(fleet));
  show(place("reviews"), reviews(fleet));
  show(place("gateways"), gateways(fleet, state.recent, range));
  show(place("targets"), targets(fleet, view));
  show(place("detectors"), !quiet && detectors(fleet, state.why));
  show(place("events"), events(fleet));
  show(place("foot"), h("span", null, `Times are in ${zone()}. Refreshes every ${duration(fleet.interval_seconds)}. A dash is a value that is not known; `,
    "open a row or point at it for the reason. Dotted marks on bars show the usual. "),
  h("a", { href: "metrics" }, "/metrics"), " ", h("a", { href: "api/v1/kvwatch/fleet" }, "JSON"));
  watchCharts();
}

function chips(fleet) {
  const { total, up, unknown, last_scrape: last } = fleet.targets;
  const well = total > 0 && up === total;
  const late = last && ago(last, fleet.now) > 3 * fleet.interval_seconds;
  return [
    h(well ? "span" : "a", { class: `chip ${well ? "ok" : "warning"}`, href: well ? null : "#targets", "data-key": "targets" },
      icon(well ? "ok" : "warning"), `${up} of ${plural(total, "target")} up`, unknown > 0 && `, ${unknown} not scraped yet`),
    h("span", { class: `chip ${late ? "warning" : ""}`, "data-key": "last" }, late && icon("warning"), last ? `last scrape ${duration(ago(last, fleet.now))} ago` : "nothing scraped yet"),
  ];
}

// Charts far below the fold are drawn when one scrolls to them.
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    entry.target.dataset.near = String(entry.isIntersecting);
    if (entry.isIntersecting && !state.charts.has(entry.target)) {
      drawChart(entry.target).catch((e) => trouble("history", `The charts cannot be drawn: ${e.message}.`));
    }
  }
}, { rootMargin: "600px" });

// watchCharts looks after new chart places and lets go of those that went.
function watchCharts() {
  const places = new Set(document.querySelectorAll(".charts[data-pool]"));
  for (const [host, charts] of state.charts) {
    if (places.has(host)) continue;
    charts.destroy();
    seen.unobserve(host);
    state.charts.delete(host);
  }
  for (const host of places) if (!host.dataset.near) {
    host.dataset.near = "false";
    seen.observe(host);
  }
}

// atOnce is how many pools are drawn without waiting for the reader to scroll.
const atOnce = 2;

function drawCharts() {
  const hosts = [...document.querySelectorAll(".charts[data-pool]")];
  return Promise.all(hosts.filter((host, i) => i < atOnce || host.dataset.near === "true").map(drawChart));
}

async function drawChart(host) {
  const pool = state.fleet.pools.find((p) => p.name === host.dataset.pool);
  if (!pool) return;
  if (!state.charts.has(host)) state.charts.set(host, new PoolCharts(host));
  await state.charts.get(host).draw(pool, state.fleet, state.seconds, state.view.window);
}

const actions = {
  open(element) {
    toggle(state.view.open, element.dataset.engine);
  },
  whole(element) {
    toggle(state.view.whole, element.dataset.owner);
  },
  why(element) {
    const key = element.dataset.detector;
    if (state.why.delete(key)) return;
    state.why.set(key, null);
    askWhy(key).catch((e) => trouble("history", `The detector cannot be explained: ${e.message}.`));
  },
  accept(element) {
    const { pool } = element.dataset;
    const sure = confirm(`Take what the prefix cache of pool ${pool} does now as its new normal?\n\nIts cache alerts end, and it stays silent until it has learned anew (6 hours of traffic).`);
    if (sure) change(() => api.accept(pool));
  },
  theme() {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-mark]")) return;
  event.preventDefault();
  const form = event.target;
  const { kind, pool, text } = Object.fromEntries(new FormData(form));
  change(async () => {
    const said = await api.mark({ kind, pool, text });
    form.reset();
    return said;
  });
});

matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("kvwatch-theme", root.dataset.theme);
    } catch {
      // Storage may be forbidden: the choice then lasts as long as the page.
    }
    drawCharts();
  },
};

function toggle(set, key) {
  if (!set.delete(key)) set.add(key);
}

document.addEventListener("click", (event) => {
  const range = event.target.closest("[data-range]");
  if (range) {
    choose(Number(range.dataset.range));
    refresh();
    return;
  }
  const element = event.target.closest("[data-action]");
  if (!element || event.target.closest("a")) return;
  actions[element.dataset.action]?.(element);
  if (state.fleet) render();
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state.fleet && drawCharts());
document.addEventListener("visibilitychange", () => document.hidden ? clearTimeout(state.next) : refresh());

refresh();
