package rules

import (
	"fmt"
	"time"
)

// frozenAfter is how long no token may move until the gauges of an engine are
// not believed any more: it sets them when it takes a step, and none leaves
// them as they were, also when all requests were aborted.
const frozenAfter = 5 * time.Minute

// frozen says why the gauges of an engine are older than its page; empty where
// they are not.
func (w unitWindow) frozen() string {
	running, _ := w.Gauge(gaugeRunning)
	waiting, _ := w.Gauge(gaugeWaiting)
	usage, _ := w.Gauge(gaugeUsage)
	slack := 2 * w.fresh.Seconds() / 3 / frozenAfter.Seconds()
	switch {
	case running <= 0 && waiting <= 0 && usage <= 0, !w.unit.has(totalGenerated):
		return ""
	case w.Increase(totalPrompt, frozenAfter)+w.Increase(totalGenerated, frozenAfter) > 0, w.Covered(frozenAfter)+slack < 1:
		return ""
	case running > 0 || waiting > 0:
		return fmt.Sprintf("no token moved in %s while %s running and %s waiting: the engine is stuck, or its gauges froze when they were aborted",
			spell(frozenAfter), amount(running), amount(waiting))
	default:
		return fmt.Sprintf("the engine took no step in %s: this is what it told at its last one", spell(frozenAfter))
	}
}

// gaugeResult is a result that was read from a gauge of the last page.
func (w unitWindow) gaugeResult(v float64, from string) Result {
	r := w.known(v, 0, from)
	if text := w.frozen(); text != "" && r.Quality == QualityOK {
		r.Quality, r.Reason = QualityStale, text
	}
	return r
}
