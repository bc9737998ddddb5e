package rules

import (
	"fmt"
	"time"

	"kvwatch/collector"
)

// stallWindow is how long nothing may move on an engine until it counts as stalled.
const stallWindow = 30 * time.Second

// moved says whether the engine made progress within the window: a token was
// generated, a prompt got its first, or a request finished.
func (w unitWindow) moved(d time.Duration) bool {
	return w.admitted(d) || w.Increase(totalGenerated, d)+w.Increase(totalFinished, d) > 0
}

// admitted says whether a request got as far as its first token within the
// window: what was admitted before that does not show.
func (w unitWindow) admitted(d time.Duration) bool {
	return w.Requests(d)+w.Increase(totalPrompt, d) > 0
}

// stalled says whether requests ran on every page of the window while nothing
// moved.
func (w unitWindow) stalled(d time.Duration) bool {
	return w.throughout(gaugeRunning, d, func(v float64) bool { return v > 0 }) && !w.moved(w.atLeastTwo(d))
}

// livelocked says whether requests waited for capacity on every page of the
// window while none ran, or none was admitted.
func (w unitWindow) livelocked(d time.Duration) bool {
	g := gaugeWaiting
	if _, split := w.Gauge(gaugeWaitingCapacity); split {
		g = gaugeWaitingCapacity
	}
	if !w.throughout(g, d, func(v float64) bool { return v > 0 }) {
		return false
	}
	idle := w.throughout(gaugeRunning, d, func(v float64) bool { return v == 0 })
	return idle || !w.admitted(w.atLeastTwo(d))
}

// unjudged says why nothing can be told of the engine's progress, "" where it can.
func (w EngineWindow) unjudged() string {
	switch _, ok := w.Gauge(gaugeRunning); {
	case !w.Fresh():
		return staleReason(w.unit.target, w.ms)
	case !ok:
		return "the page has no " + collector.VLLMRunning + ": an engine that has not run yet does not set it"
	case w.sampled():
		return sampledReason
	case w.sleptWithin(stallWindow):
		return "the engine sleeps"
	case w.Increase(totalCovered, w.atLeastTwo(stallWindow)) <= 0:
		return "no two pages were read within " + spell(w.atLeastTwo(stallWindow))
	default:
		return ""
	}
}

// queueText says what runs and waits on the engine now.
func (w unitWindow) queueText() string {
	running, _ := w.Gauge(gaugeRunning)
	waiting, _ := w.waitingForCapacity()
	text := fmt.Sprintf("%s running and %s waiting", amount(running), amount(waiting))
	if usage, ok := w.usage(); ok {
		text += fmt.Sprintf(", KV usage %s", percent(usage))
	}
	return text
}
