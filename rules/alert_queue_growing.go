package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "QueueGrowing",
		Help:     "Requests of a pool waited at every scrape of 5 minutes and their number grows, or the queue needs over a minute to drain.",
		Severity: SeverityWarning, For: 2 * time.Minute,
		Settings: []Setting{
			{Name: "window", Default: 5 * time.Minute, Positive: true, Help: "time over which requests must wait at every scrape"},
			{Name: "slope_window", Default: 10 * time.Minute, Positive: true, Help: "time over which the number that waits must grow"},
			{Name: "drain", Default: 60.0, Positive: true, Help: "drain time that is too long by itself, in seconds"},
		},
		Pool: func(s *settings) detector[PoolWindow] { return queueGrowing{s} },
	})
}

type queueGrowing struct{ *settings }

// leastScrapes is how many intervals a window is stretched to: with fewer
// scrapes "every scrape" and a slope say nothing.
const leastScrapes = 3

// Judge implements detector.
func (d queueGrowing) Judge(w PoolWindow, firing time.Time) Verdict {
	now, told := w.sum(func(e EngineWindow) (float64, bool) { return e.waitingForCapacity() })
	if told == 0 {
		return unknown("no engine of the pool tells lately how many requests wait")
	}
	v := Verdict{
		Phase: PhaseWatching, Value: now, Text: amount(now) + " waiting", Numbers: []Number{{Name: "waiting", Value: now, Unit: "requests"}},
		Over: overText(firing, "Pool %s: the queue no longer grows, %s waiting now", w.pool.name, plural(int(now), "request")),
	}
	if now <= 0 {
		d.deferred(w, &v)
		return v
	}
	q := queue{}
	q.slope, q.sloped = d.slope(w, EngineWindow.waitingAt)
	q.drain, _, q.drains = w.drain(max(d.duration("window"), leastScrapes*w.interval))
	slow := !q.drains || q.drain > d.number("drain")
	if q.sloped {
		v.Numbers = append(v.Numbers, Number{Name: "slope", Value: q.slope * 60, Unit: "requests/min"})
	}
	if q.drains {
		v.Numbers = append(v.Numbers, Number{Name: "drain", Value: q.drain, Unit: "seconds"})
	}
	if v.Active = q.sloped && q.slope > 0 && d.always(w, EngineWindow.waitingAt) || slow && d.anyStarted(w); !v.Active {
		return v
	}
	d.tell(w, &v, q)
	return v
}

// queue is how a pool's queue moves.
type queue struct {
	// slope is its growth in requests per second, where sloped.
	slope  float64
	sloped bool
	// drain is the seconds that it needs to be started, where drains.
	drain  float64
	drains bool
}

// waitingSeries is what waited on an engine at a time.
type waitingSeries func(e EngineWindow, t int64) (float64, bool)

// always says whether requests waited at every scrape of the window.
func (d queueGrowing) always(w PoolWindow, at waitingSeries) bool {
	_, y := w.series(d.duration("window"), leastScrapes, at)
	whole := max(int(d.duration("window")/w.interval), leastScrapes) + 1
	return len(y) >= whole && !slices.ContainsFunc(y, func(n float64) bool { return n <= 0 })
}

// slope is the growth in requests per second; false where there are too few
// scrapes to tell.
func (d queueGrowing) slope(w PoolWindow, at waitingSeries) (float64, bool) {
	x, y := w.series(d.duration("slope_window"), leastScrapes, at)
	return theilSen(x, y)
}

// deferred judges a pool in which nothing waits for capacity: what waits for
// something else may stand there for good reasons (KV that is on its way from
// a prefill engine), but it does not grow.
func (d queueGrowing) deferred(w PoolWindow, v *Verdict) {
	at := func(e EngineWindow, t int64) (float64, bool) { return e.gaugeAt(gaugeWaitingDeferred, t) }
	held, _ := w.sum(func(e EngineWindow) (float64, bool) { return e.Gauge(gaugeWaitingDeferred) })
	if held <= 0 {
		return
	}
	slope, sloped := d.slope(w, at)
	v.Value, v.Text = held, amount(held)+" deferred, none waiting for capacity"
	v.Numbers = []Number{{Name: "deferred", Value: held, Unit: "requests"}, {Name: "slope", Value: slope * 60, Unit: "requests/min"}}
	if v.Active = sloped && slope > 0 && d.always(w, at); !v.Active {
		return
	}
	binds, why, next := w.binding()
	v.Summary = fmt.Sprintf("Pool %s: %s waiting, bound by %s", w.pool.name, plural(int(held), "request"), binds)
	v.Evidence = Evidence{
		Seen: fmt.Sprintf("%s deferred, %+.1f per minute, and none waiting for capacity. By engine: %s.",
			plural(int(held), "request"), slope*60, w.byEngine(func(e EngineWindow) (string, bool) {
				n, ok := e.Gauge(gaugeWaitingDeferred)
				return amount(n), ok
			})),
		Against:   fmt.Sprintf("Fires when requests are deferred at every scrape of %s and grow over %s.", spell(d.duration("window")), spell(d.duration("slope_window"))),
		CauseText: why, Next: next, Numbers: v.Numbers,
		Confidence: "high: the engines' own count",
	}
}

// anyStarted says that the pool has a pace to hold a queue against: pages
// cover enough time for one.
func (d queueGrowing) anyStarted(w PoolWindow) bool {
	covered, _ := w.sum(func(e EngineWindow) (float64, bool) {
		return e.Increase(totalCovered, max(d.duration("window"), leastScrapes*w.interval)), true
	})
	return covered >= (leastScrapes-1)*w.interval.Seconds()
}

func (d queueGrowing) tell(w PoolWindow, v *Verdict, q queue) {
	binds, why, next := w.binding()
	v.Summary = fmt.Sprintf("Pool %s: %s waiting, bound by %s", w.pool.name, plural(int(v.Value), "request"), binds)
	drainText, slopeText := "none was started lately", ""
	if q.drains {
		drainText = "at the present pace they need " + spellSeconds(q.drain)
	}
	if q.sloped {
		slopeText = fmt.Sprintf(", %+.1f per minute", q.slope*60)
	}
	v.Evidence = Evidence{
		Seen: fmt.Sprintf("%s waiting for capacity%s; %s; %s. By engine: %s.",
			plural(int(v.Value), "request"), slopeText, drainText, w.queueAgeText(EngineWindow.waitingAt), w.byEngine(func(e EngineWindow) (string, bool) {
				n, ok := e.waitingForCapacity()
				return amount(n), ok
			})),
		Against: fmt.Sprintf("Fires when requests wait at every scrape of %s and grow over %s, or when the queue needs over %g s.",
			spell(d.duration("window")), spell(d.duration("slope_window")), d.number("drain")),
		CauseText: why, Next: next, Numbers: v.Numbers,
		Confidence: "high: the engines' own count",
	}
}

// What a queue waits for.
const (
	boundKV       = "kv"
	boundSlots    = "slots"
	boundPrefill  = "prefill"
	boundDeferred = "deferred"
)

// binding names what the pool's queue waits for: kv, slots, prefill or deferred.
func (w PoolWindow) binding() (name, why, next string) {
	engines := make([]EngineWindow, 0, len(w.pool.members))
	for _, u := range w.pool.members {
		engines = append(engines, w.engine(u))
	}
	return bindingOf(engines, w.pool.maxNumSeqs())
}

// binding names what the engine's own queue waits for.
func (w EngineWindow) binding() (name, why, next string) {
	return bindingOf([]EngineWindow{w}, w.pool.maxNumSeqs())
}

func bindingOf(engines []EngineWindow, maxNumSeqs int) (name, why, next string) {
	deferred, capacity, preempted, told := 0.0, 0.0, 0.0, false
	worst, worstOK, full := 0.0, false, 0
	for _, e := range engines {
		n, _ := e.Gauge(gaugeWaitingDeferred)
		deferred += n
		if n, ok := e.preempted(); ok {
			preempted, told = preempted+n, true
		}
		n, ok := e.waitingForCapacity()
		if !ok || n <= 0 {
			continue
		}
		capacity += n
		if usage, ok := e.usage(); ok {
			worst, worstOK = max(worst, usage), true
		}
		if running, ok := e.Gauge(gaugeRunning); ok && maxNumSeqs > 0 && running >= float64(maxNumSeqs) {
			full++
		}
	}
	switch {
	case deferred > capacity:
		return boundDeferred, fmt.Sprintf("Deferred: %s wait for something else than capacity (grammar, remote KV, LoRA).", amount(deferred)),
			"Look at what is deferred: structured output, a KV connector or the LoRA limit; more engines do not help."
	case worst > 0.9 || preempted > 0:
		return boundKV, kvBinds(worst, worstOK, preempted, told),
			"Room for contexts binds: add an engine, raise gpu-memory-utilization, use an fp8 KV cache, or shorten outputs and contexts."
	case full > 0:
		return boundSlots, fmt.Sprintf("Slots: %s at max_num_seqs %d while the KV cache has room.", plural(full, "engine"), maxNumSeqs),
			"Raise --max-num-seqs if the inter-token latency allows it, or add an engine."
	case !worstOK:
		return boundPrefill, "Prefill is what remains: the engines tell no KV usage.", "Check the engines' KV usage metric; else add an engine."
	default:
		return boundPrefill, fmt.Sprintf("Prefill: the KV cache has room (%s in use) and requests wait to be computed.", percent(worst)),
			"Prompt tokens bind: look at the prefix cache's hit ratio first, then at max-num-batched-tokens, then add an engine."
	}
}

// kvBinds says what shows that the KV cache binds, of what is known.
func kvBinds(usage float64, usageOK bool, preempted float64, preemptedOK bool) string {
	var parts []string
	if usageOK {
		parts = append(parts, fmt.Sprintf("the cache of a waiting engine is %s in use", percent(usage)))
	}
	if preemptedOK {
		parts = append(parts, plural(int(preempted), "preemption")+" in 5 min")
	}
	return "KV: " + strings.Join(parts, ", ") + "."
}

// preempted counts the preemptions of the last 5 minutes; false where no
// engine counts them.
func (w PoolWindow) preempted() (float64, bool) {
	n, told := w.sum(func(e EngineWindow) (float64, bool) { return e.preempted() })
	return n, told > 0
}

// preempted counts the engine's.
func (w EngineWindow) preempted() (float64, bool) {
	return w.Increase(totalPreemptions, 5*time.Minute), w.Fresh() && w.unit.has(totalPreemptions)
}

// byEngine lists a figure by engine, of at most six engines.
func (w PoolWindow) byEngine(f func(EngineWindow) (string, bool)) string {
	var parts []string
	for _, u := range w.pool.members {
		s, ok := f(w.engine(u))
		if !ok {
			continue
		}
		if len(parts) == 6 {
			parts = append(parts, "and more")
			break
		}
		parts = append(parts, u.name()+" "+s)
	}
	return strings.Join(parts, ", ")
}
