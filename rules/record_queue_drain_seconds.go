package rules

import "time"

func init() {
	record(Recording{
		Name: "kvwatch_queue_drain_seconds", Kind: KindGauge,
		Help: "Time that the requests which wait for capacity now need to be started, at the pace of the last 5 minutes.",
		Engine: func(w EngineWindow, _ string) Result {
			waiting, ok := w.waitingForCapacity()
			if !ok {
				return w.absent("the page has no number of waiting requests: an engine that has not run yet does not set it")
			}
			v, ok := drain(waiting, w.Requests(drainWindow), w.Increase(totalCovered, drainWindow))
			if !ok {
				return w.absent("requests wait and none was started in 5 minutes")
			}
			return w.known(v, drainWindow, drainFrom)
		},
		Pool: func(w PoolWindow, _ string) Result {
			v, told, ok := w.drain(drainWindow)
			switch {
			case told == 0:
				return w.absent("no engine of the pool tells how many requests wait")
			case !ok:
				return w.absent("requests wait and none was started in 5 minutes")
			}
			return w.known(v, drainWindow, told, drainFrom)
		},
	})
}

const (
	drainWindow = 5 * time.Minute
	drainFrom   = "waiting for capacity / first tokens per second"
)

// waitingForCapacity is what waits, without what is deferred where that is told.
func (w unitWindow) waitingForCapacity() (float64, bool) {
	if v, ok, split := w.waiting(reasonCapacity); split {
		return v, ok
	}
	v, ok, _ := w.waiting(reasonUnsplit)
	return v, ok
}

// drain is how long a queue lasts when so many were started in so many seconds.
func drain(waiting, started, seconds float64) (float64, bool) {
	switch {
	case waiting <= 0:
		return 0, true
	case started <= 0 || seconds <= 0:
		return 0, false
	default:
		return waiting * seconds / started, true
	}
}

// drain is that of the pool's queues together: the requests that wait over the
// starts per second of all engines.
func (w PoolWindow) drain(d time.Duration) (seconds float64, told int, ok bool) {
	waiting, told := w.sum(func(e EngineWindow) (float64, bool) { return e.waitingForCapacity() })
	starts, engines := 0.0, 0.0
	for _, u := range w.pool.members {
		e := w.engine(u)
		if covered := e.Increase(totalCovered, d); covered > 0 {
			starts += e.Requests(d) / covered
			engines++
		}
	}
	seconds, ok = drain(waiting, starts, min(engines, 1))
	return seconds, told, ok
}
