package rules

import (
	"fmt"
	"time"

	"kvwatch/collector"
)

// longCall is how long all requests may run before it is strange that none
// ended. What a request takes is physical: time_scale does not shorten it.
const longCall = 2 * time.Minute

// gateway is the gateway whose page the target is, if it is one.
func (w TargetWindow) gateway() (GatewayWindow, bool) {
	for _, u := range w.target.units {
		if u.engine == "" {
			return GatewayWindow{unitWindow{now: w.now, ms: w.ms, fresh: w.fresh, unit: u}}, true
		}
	}
	return GatewayWindow{}, false
}

// judgeGateway judges whether a gateway still counts what it does. Its counters
// are written by a logger behind the answers, which an exception can end for
// good, while requests in flight are counted in their own path
// (BerriAI/litellm#17415).
func (d *metricsStalled) judgeGateway(w GatewayWindow, firing time.Time) Verdict {
	window := w.atLeastTwo(max(d.duration("window"), longCall))
	_, from, told := w.inFlight()
	switch {
	case w.unrated() != "":
		return unknown(w.unrated())
	case !w.unit.has(totalRequests):
		return unknown("the page has no " + collector.LiteLLMRequests)
	case !told:
		return unknown("the page has no " + collector.LiteLLMInFlight + ", which would tell a gateway that counts no more from one that has nothing to do")
	case w.Increase(totalCovered, window) < (window - 2*w.interval()).Seconds():
		return Verdict{Phase: PhaseLearning, Text: "pages of less than " + spell(window) + " were read"}
	}
	counted := w.Increase(totalRequests, window)
	own := 1.0 // the scrape itself
	if w.unit.target.gateway.DedicatedPort {
		own = 0
	}
	busy := w.throughout(gaugeInFlight, window, func(v float64) bool { return v > own })
	held, _, _ := w.inFlight()
	v := Verdict{
		Active: busy && counted == 0, Phase: PhaseWatching, Value: held,
		Text:    fmt.Sprintf("%s counted within %s, %s in flight", plural(int(counted), "request"), spell(window), amount(held)),
		Numbers: []Number{{Name: "counted", Value: counted, Unit: "requests"}, {Name: "in_flight", Value: held, Unit: "requests"}},
	}
	if !firing.IsZero() {
		v.Over = fmt.Sprintf("Gateway %s is well again: %s", w.unit.target.instance, v.Text)
	}
	if !v.Active {
		return v
	}
	v.Summary = fmt.Sprintf("Gateway %s counts no more: requests are in flight, and for %s none was counted", w.unit.target.instance, spell(window))
	v.Evidence = Evidence{
		Seen:       fmt.Sprintf("On every page of %s requests are in flight (%s, now %s), while %s did not grow.", spell(window), from, amount(held), collector.LiteLLMRequests),
		Against:    fmt.Sprintf("Fires when requests are in flight on every page of %s and none of them is counted as ended.", spell(window)),
		CauseText:  "LiteLLM's counters are written by a logger behind the answers, and an exception in it ends them for good (BerriAI/litellm#17415). The other reading: every request of that time is still running.",
		Next:       "Send one request through the gateway and look whether its counter moves. If not, look for exceptions of the prometheus callback in its log and restart it; until then believe the engines' own counters.",
		Confidence: "medium: requests that all run longer than that look the same", Numbers: v.Numbers,
	}
	return v
}
