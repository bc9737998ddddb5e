// The targets: those that are not up, with their state in words, the reason and
// a hint; then all of them, with what each says of itself.
import { h, icon } from "./dom.js";
import { ago, dash, duration, number, plural } from "./format.js";
import { stateBadge } from "./tiles.js";

// fewRows is how many targets the table shows before one asks for all.
const fewRows = 24;

// targets renders the section. `view` holds the whole tables that the reader asked for.
export function targets(fleet, view) {
  const list = fleet.targets.list;
  return [troubled(list.filter((t) => t.state !== "up"), fleet.now), list.length > 0 && table(list, fleet.now, view)];
}

// troubled lists the targets that need a look; it is empty when all are up.
function troubled(list, now) {
  if (list.length === 0) return [];
  return [
    h("h2", null, `Targets that are not up (${list.length})`),
    h("ul", { class: "targets" }, list.map((t) => h("li", { "data-key": key(t) },
      icon(t.state === "unknown" ? "unknown" : "warning"),
      h("div", null,
        h("p", null, h("b", null, t.instance), " ", h("small", { class: "muted" }, t.job), " – ", h("strong", null, t.state_text),
          t.since && t.state !== "unknown" && h("small", { class: "muted" }, ` for ${duration(ago(t.since, now))}`)),
        t.state_reason && h("p", null, t.state_reason),
        t.hint && h("p", { class: "muted" }, t.hint))))),
  ];
}

function table(list, now, view) {
  const whole = view.whole.has("targets");
  const shown = whole ? list : list.slice(0, fewRows);
  return h("details", { class: "minor rows", "data-key": "table" },
    h("summary", null, `All targets (${list.length})`),
    h("table", null,
      h("caption", { class: "hidden" }, "All targets, with the version that each says it is."),
      h("thead", null, h("tr", null, ["Target", "State", "Version", "Samples", "Last scrape", "Took", "It says"].map((c) => h("th", { scope: "col" }, c)))),
      h("tbody", null, shown.map((t) => row(t, now)))),
    list.length > fewRows && h("button", { type: "button", "data-action": "whole", "data-owner": "targets", "aria-pressed": String(whole) },
      whole ? `Show ${fewRows} only` : `Show all ${list.length} targets`));
}

function row(t, now) {
  const cell = (title, known, text) => h("td", { class: known ? "" : "missing", "data-title": title }, h("span", null, known ? text() : dash));
  return h("tr", { class: "row", "data-key": key(t) },
    h("th", { scope: "row" }, t.instance, " ", h("small", { class: "muted" }, [t.job, t.source].filter(Boolean).join(", "))),
    h("td", { "data-title": "State" }, stateBadge(t)),
    cell("Version", t.version, () => t.version),
    cell("Samples", t.last_scrape, () => number(t.samples)),
    cell("Last scrape", t.last_scrape, () => `${duration(ago(t.last_scrape, now))} ago`),
    cell("Took", t.last_scrape, () => number(t.scrape_seconds, "seconds")),
    h("td", { class: "said", "data-title": "It says" },
      t.warning && h("p", { class: "problem" }, icon("warning"), t.warning),
      t.backlog && h("p", null, backlog(t.backlog, now))));
}

// backlog says what one worker of a gateway held, whichever answered.
function backlog(b, now) {
  const parts = [`${plural(b.in_flight_requests, "request")} in flight`];
  for (const kind of ["admitted", "queued", "rejected"]) {
    if (b[`${kind}_requests`] != null) parts.push(`${b[`${kind}_requests`]} ${kind}`);
  }
  return `${parts.join(", ")} on the worker that answered ${duration(ago(b.at, now))} ago`;
}

function key(t) {
  return `${t.job} ${t.instance}`;
}
