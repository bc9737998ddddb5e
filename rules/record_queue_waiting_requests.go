package rules

import "kvwatch/collector"

func init() {
	record(Recording{
		Name: "kvwatch_queue_waiting_requests", Kind: KindGauge,
		Label: "reason", Values: []string{reasonCapacity, reasonDeferred, reasonUnsplit},
		Help:   "Requests that wait: for capacity, deferred for another reason, or unsplit where the engine does not tell them apart (vLLM before 0.20).",
		Engine: engineWaiting,
		Pool:   poolWaiting,
	})
}

// The reasons to wait.
const (
	reasonCapacity = "capacity"
	reasonDeferred = "deferred"
	reasonUnsplit  = "unsplit"
)

// waiting is the number that waits for a reason; split says whether the engine
// tells the reasons apart.
func (w unitWindow) waiting(reason string) (v float64, ok, split bool) {
	capacity, split := w.Gauge(gaugeWaitingCapacity)
	deferred, okDeferred := w.Gauge(gaugeWaitingDeferred)
	all, okAll := w.Gauge(gaugeWaiting)
	switch reason {
	case reasonCapacity:
		return capacity, split, split
	case reasonDeferred:
		return deferred, okDeferred, split
	default:
		return all, okAll, split
	}
}

func engineWaiting(w EngineWindow, reason string) Result {
	v, ok, split := w.waiting(reason)
	switch {
	case split == (reason == reasonUnsplit):
		if split || w.Fresh() {
			return Result{} // the other reasons tell
		}
		return w.stale()
	case !ok:
		return w.absent("the page has no number of waiting requests: an engine that has not run yet does not set it")
	case reason == reasonUnsplit:
		return w.gaugeResult(v, collector.VLLMWaiting)
	}
	return w.gaugeResult(v, collector.VLLMWaitingByReason)
}

func poolWaiting(w PoolWindow, reason string) Result {
	v, told, fresh := 0.0, 0, 0
	for _, u := range w.pool.members {
		e := w.engine(u)
		n, ok, split := e.waiting(reason)
		if e.Fresh() {
			fresh++
		}
		if ok && split != (reason == reasonUnsplit) {
			v += n
			told++
		}
	}
	if told == 0 && fresh > 0 {
		return Result{}
	}
	if told == 0 {
		return w.absent("no engine of the pool tells how many requests wait")
	}
	return w.known(v, 0, max(told, fresh), "sum over engines")
}
