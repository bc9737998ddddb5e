package rules

import (
	"fmt"
	"strings"
	"time"

	"kvwatch/collector"
)

func init() {
	alert(Alerting{
		Name:     "TargetDown",
		Help:     "A target gives no page that can be read; critical when over half of its pool is so.",
		Severity: SeverityWarning, For: time.Minute,
		Target: func(*settings) detector[TargetWindow] { return targetDown{} },
	})
}

type targetDown struct{}

// Judge implements detector.
func (targetDown) Judge(w TargetWindow, firing time.Time) Verdict {
	t := w.target
	switch {
	case w.unseen() != "":
		return unknown(w.unseen())
	case !isDown(t.state):
		return watchingState(t, firing)
	}
	v := Verdict{Active: true, Phase: PhaseWatching, Since: t.stateSince, Value: 1, Text: "state " + string(t.state)}
	if t.lastGood > 0 {
		v.Since = time.UnixMilli(t.firstBad).UTC()
	}
	v.Summary = fmt.Sprintf("%s of job %s: %s", t.instance, t.job, stateWords(t.state))
	down, all := w.poolIn(isDown)
	v.Evidence = Evidence{
		Seen:    fmt.Sprintf("For %s no page of %s could be read: %s", spell(w.now.Sub(v.Since)), t.instance, t.because()),
		Against: "Every scrape should give a metrics page.", Next: stateNext(t.state, all > 0 && 2*down <= all),
		Confidence: "high: every scrape since then failed",
	}
	if t.state == collector.StateOverloaded {
		v.Evidence.CauseText = "Saturation, not an outage: who answers 503 runs, and refuses work because it has too much. Only a proxy with nothing behind it answers so too."
	}
	if all > 0 {
		v.Evidence.Numbers = []Number{{Name: "pool_down", Value: float64(down), Unit: "engines"}, {Name: "pool", Value: float64(all), Unit: "engines"}}
		v.Evidence.Seen += fmt.Sprintf(" %d of %s of pool %s cannot be read.", down, plural(all, "engine"), w.pool.name)
		if 2*down > all {
			v.Severity = SeverityCritical
		}
	}
	return v
}

// because says why the last scrape failed, to the end of a sentence: as the
// collector says it, else by its state.
func (t *target) because() string {
	switch {
	case t.reason == "":
		return stateWords(t.state) + "."
	case strings.HasSuffix(t.reason, ".") || strings.HasSuffix(t.reason, "?"):
		return t.reason
	default:
		return t.reason + "."
	}
}

// watchingState is the verdict on a target that is well; what a person reads of
// an alert's end is only made where there is one to end.
func watchingState(t *target, firing time.Time) Verdict {
	v := Verdict{Phase: PhaseWatching, Text: "state " + string(t.state)}
	if !firing.IsZero() {
		v.Over = overState(t)
	}
	return v
}

// overState says how things are with a target whose alert is over.
func overState(t *target) string {
	who := fmt.Sprintf("%s of job %s", t.instance, t.job)
	switch t.state {
	case collector.StateUp:
		return who + " can be read again"
	case collector.StateUnauthorised:
		return who + " answers again, but refuses kvwatch's key"
	case collector.StateMetricsDisabled:
		return who + " answers again, with its metrics switched off"
	default:
		return fmt.Sprintf("%s no longer answers 401 or 403: %s", who, stateWords(t.state))
	}
}

// poolIn counts the pool's engines whose target is in such a state, and all of them.
func (w TargetWindow) poolIn(such func(collector.State) bool) (n, all int) {
	if w.pool == nil {
		return 0, 0
	}
	for _, u := range w.pool.members {
		if such(u.target.state) {
			n++
		}
	}
	return n, len(w.pool.members)
}

// isDown says whether TargetDown speaks for the state; a missing key and
// switched-off metrics have alerts of their own.
func isDown(s collector.State) bool {
	switch s {
	case collector.StateUp, collector.StateUnknown, collector.StateUnauthorised, collector.StateMetricsDisabled:
		return false
	default:
		return true
	}
}

// stateWords says what a state means.
func stateWords(s collector.State) string {
	switch s {
	case collector.StateDown:
		return "nobody answers at its address"
	case collector.StateTimeout:
		return "it does not answer in time"
	case collector.StateRedirect:
		return "it redirects to where there is no page"
	case collector.StateNotFound:
		return "it has no metrics page at this path (404)"
	case collector.StateOverloaded:
		return "it is overloaded and answers 503, which is saturation and no outage"
	case collector.StateNoMetrics:
		return "its page has none of the known metrics"
	case collector.StateNotMetrics:
		return "it answers with something else than a metrics page"
	case collector.StateTruncated:
		return "its page ends early"
	case collector.StateTooLarge:
		return "its page is over the limit"
	case collector.StateUnauthorised:
		return "it asks for a key that kvwatch does not have"
	default:
		return "state " + string(s)
	}
}

// stateNext says what to do about it; carried says that enough of the pool is
// left to carry the target's load.
func stateNext(s collector.State, carried bool) string {
	switch s {
	case collector.StateDown, collector.StateTimeout:
		if carried {
			return "Look whether the process runs and the address is right. The rest of the pool carries its load meanwhile, with colder caches."
		}
		return "Look whether the process runs and the address is right."
	case collector.StateOverloaded:
		return "Look at the queue and at admission control, and shed or delay load. Do not restart it: that empties its cache and makes the load larger."
	case collector.StateTooLarge:
		return "Raise the body limit of the scrape configuration, or find out what made the page grow."
	default:
		return "Check address, port and metrics_path of the scrape configuration against what the server serves."
	}
}
