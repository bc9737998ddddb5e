// The alerts: what fires first, then what is pending, then what is over.
import { h, icon } from "./dom.js";
import { ago, clock, duration, plural } from "./format.js";

// wholeCards is how many alerts show their evidence unasked; a flood of alerts
// must not push the charts out of reach.
const wholeCards = 2;

// alerts renders the whole section.
export function alerts(fleet) {
  const { firing, pending, resolved } = fleet.alerts;
  return [
    headline(fleet, firing, pending),
    firing.map((a, i) => card(a, fleet.now, i < wholeCards && !covered(a, firing))),
    pending.length > 0 && h("div", { class: "minor", "data-key": "pending" },
      h("h3", null, "Pending"), h("ul", null, pending.map((a) => line(a, fleet.now)))),
    resolved.length > 0 && h("details", { class: "minor", "data-key": "resolved", open: firing.length === 0 },
      h("summary", null, `Resolved lately (${resolved.length})`), h("ul", null, resolved.map((a) => line(a, fleet.now)))),
  ];
}

// covered tells an early warning whose page has come: it says the same again.
function covered(alert, firing) {
  return alert.alertname === "PrefixCacheMissRising" && firing.some((a) => a.alertname === "PrefixCacheCollapse" && a.pool === alert.pool);
}

function headline(fleet, firing, pending) {
  if (firing.length > 0) {
    const worst = firing[0].severity;
    const parts = ["critical", "warning", "info"]
      .map((s) => [s, firing.filter((a) => a.severity === s).length])
      .filter(([, n]) => n > 0)
      .map(([s, n]) => `${n} ${s}`);
    return h("h2", { class: `headline ${worst}`, "data-key": "headline" }, icon(worst),
      `${plural(firing.length, "alert")} firing: ${parts.join(", ")}`);
  }
  if (fleet.targets.total > 0 && fleet.targets.up === 0) {
    return h("h2", { class: "headline warning", "data-key": "headline" }, icon("unknown"), "No alert, but no target is up: nothing is known");
  }
  if (fleet.targets.total === 0) {
    return h("h2", { class: "headline info", "data-key": "headline" }, icon("info"), "No targets: add them to scrape_configs in the configuration");
  }
  return h("h2", { class: "headline ok", "data-key": "headline" }, icon("ok"),
    pending.length > 0 ? `No alert firing, ${pending.length} pending` : "No alert");
}

function card(alert, now, whole) {
  return h("article", { class: `alert ${alert.severity}`, "data-key": keyOf(alert), "data-alert": alert.alertname },
    h("header", null,
      h("span", { class: `badge ${alert.severity}` }, icon(alert.severity), alert.severity),
      h("h3", null, alert.summary),
      h("p", { class: "meta" },
        h("b", null, alert.alertname), " · ", subject(alert), " · since ", moment(alert.active_at, now),
        ` (${duration(ago(alert.active_at, now))})`,
        alert.fired_at && [", fired ", moment(alert.fired_at, now)]),
      alert.muted && h("p", { class: "unheard" }, h("b", null, "Nobody is told: "), alert.muted.text)),
    whole ? evidence(alert) : h("details", null, h("summary", null, "What was seen, the cause and the next step"), evidence(alert)));
}

function evidence(alert) {
  const e = alert.evidence;
  return h("div", { class: "evidence" },
    h("dl", null,
      row("What was seen", e.seen),
      row("Told by people", e.events?.join("; ")),
      row("Against", e.against),
      row("Likely cause", e.cause_text || words(e.cause)),
      e.runners_up?.length > 0 && row("Also possible", h("ul", null, e.runners_up.map((r) => h("li", null, r))))),
    h("dl", null,
      h("div", { class: "next" }, h("dt", null, "Next step"), h("dd", null, e.next, " ",
        alert.runbook && h("a", { href: alert.runbook }, "Runbook"))),
      row("Cost", e.cost),
      row("Confidence", e.confidence)),
    alert.pool && learned.includes(alert.alertname) && h("p", { class: "normal" },
      "If this is how the pool is from now on: ",
      h("button", { type: "button", "data-action": "accept", "data-pool": alert.pool }, "Take it as the new normal")));
}

// learned are the alerts that hold a pool against what it was learned to be.
const learned = ["PrefixCacheCollapse", "PrefixCacheMissRising", "PrefixCacheDrift", "ReprefillShareHigh", "SessionAffinityLost", "PromptPrefixChanged"];

function line(alert, now) {
  const end = alert.resolved_at;
  return h("li", { "data-key": keyOf(alert) }, icon(end ? "ok" : alert.severity),
    h("span", null, h("b", null, alert.summary),
      h("small", { class: "muted" }, `${alert.alertname} · `, subject(alert), ` · ${alert.severity} · `,
        end
          ? [moment(alert.active_at, now), " to ", moment(end, now), ` (${duration(ago(alert.active_at, end))})`]
          : ["since ", moment(alert.active_at, now)],
        alert.muted && ` · nobody is told: ${alert.muted.text}`)));
}

function row(term, detail) {
  return detail ? h("div", null, h("dt", null, term), h("dd", null, detail)) : null;
}

function subject(alert) {
  if (alert.pool) return h("a", { href: `#${poolID(alert.pool)}` }, `pool ${alert.pool}`);
  return alert.labels.instance ? `${alert.labels.job} ${alert.labels.instance}` : "fleet";
}

function moment(t, now) {
  return h("time", { datetime: t, title: t }, clock(t, now));
}

function keyOf(alert) {
  return JSON.stringify(Object.entries(alert.labels).sort()) + alert.active_at;
}

// words turns a name such as routing_or_content into words.
export function words(name) {
  return name ? name.replaceAll("_", " ") : "";
}

// poolID is the id of a pool's section on the page.
export function poolID(name) {
  return `pool-${encodeURIComponent(name)}`;
}
