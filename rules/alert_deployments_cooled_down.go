package rules

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "DeploymentsCooledDown",
		Help:     "A gateway has put a deployment aside after failures; critical when under half of a model's deployments are left.",
		Severity: SeverityWarning, For: time.Minute,
		Settings: []Setting{{Name: "ratio", Default: 0.5, Positive: true, Help: "share of a model's deployments that must be well, else it is critical"}},
		Gateway:  func(s *settings) detector[GatewayWindow] { return deploymentsCooledDown{s} },
	})
}

type deploymentsCooledDown struct{ *settings }

// Judge implements detector.
func (d deploymentsCooledDown) Judge(w GatewayWindow, _ time.Time) Verdict {
	t := w.unit.target
	if !w.Fresh() {
		return unknown(gatewayUnread)
	}
	var out []string
	since := int64(0)
	all := 0
	well, groups := map[string]int{}, map[string]int{}
	for _, id := range slices.Sorted(maps.Keys(t.backends)) {
		b := t.backends[id]
		if b.page != t.page {
			continue
		}
		all++
		for _, g := range b.groups {
			groups[g]++
			if b.state < backendOutage {
				well[g]++
			}
		}
		if b.state >= backendOutage {
			out = append(out, b.name())
			if since == 0 || b.since < since {
				since = b.since
			}
		}
	}
	if all == 0 {
		return unknown("the page tells of no deployment: none was called yet, or LiteLLM lost the family, as it does under custom labels")
	}
	v := Verdict{
		Active: len(out) > 0, Phase: PhaseWatching, Value: float64(len(out)),
		Text:    fmt.Sprintf("%d of %s put aside", len(out), plural(all, "deployment")),
		Numbers: []Number{{Name: "put_aside", Value: float64(len(out)), Unit: "deployments"}, {Name: "deployments", Value: float64(all), Unit: "deployments"}},
	}
	if !v.Active {
		return v
	}
	v.Since = time.UnixMilli(since).UTC()
	d.tell(w, &v, out, all, d.short(well, groups))
	return v
}

// short names the models with too few deployments left, and how many those are.
func (d deploymentsCooledDown) short(well, groups map[string]int) []string {
	var names []string
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		if float64(well[g]) < d.number("ratio")*float64(groups[g]) {
			names = append(names, fmt.Sprintf("%s (%d of %d left)", g, well[g], groups[g]))
		}
	}
	return names
}

// shownOut is how many deployments an alert names.
const shownOut = 6

func (d deploymentsCooledDown) tell(w GatewayWindow, v *Verdict, out []string, all int, short []string) {
	named := out
	if len(named) > shownOut {
		named = append(slices.Clone(named[:shownOut]), "and more")
	}
	v.Summary = fmt.Sprintf("Gateway %s has put %d of %s aside", w.unit.target.instance, len(out), plural(all, "deployment"))
	v.Evidence = Evidence{
		Seen: fmt.Sprintf("Put aside for %s: %s (the beginning of the model_id), by the series of each that moved last.", spell(w.now.Sub(v.Since)), list(named)),
		Against: fmt.Sprintf("Every deployment should be well; critical when under %s of a model's are.",
			percent(d.number("ratio"))),
		CauseText:  "Calls to it failed so often that the gateway leaves it out for a while; the others carry its sessions, with cold caches.",
		Next:       "Look at the engine behind it: down, overloaded, or answering with errors (wrong model name, context too long). A gateway that never gets it back may need a restart.",
		Confidence: "high: the gateway's own state", Numbers: v.Numbers,
	}
	if len(short) > 0 {
		v.Severity = SeverityCritical
		v.Evidence.Seen += " Too few are left of " + list(short) + "."
	}
}
