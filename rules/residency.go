package rules

import (
	"slices"
	"time"
)

const (
	// residencyFactor corrects F/A, which is an upper bound: blocks in the
	// queue of the free are used again.
	residencyFactor = 0.75
	// residencyWindow is the span that residency is told over.
	residencyWindow = 30 * time.Minute
	// residencyEvery and residencyKept say how often it is noted, for how long.
	residencyEvery = 5 * time.Minute
	residencyKept  = 24 * time.Hour
)

// residencyInputs are what residency is computed from, over one window.
type residencyInputs struct {
	// missed, generated and prompted are tokens, covered replica-seconds.
	missed, generated, prompted, covered float64
	// capacity is tokens, usage a ratio.
	capacity, usage float64
}

// seconds is T_C = 0.75 C (1 - usage) / A, the time that a freed block stays
// in the cache, with A in tokens per covered replica-second.
func (r residencyInputs) seconds() (float64, bool) {
	allocated := r.missed + r.generated
	if allocated <= 0 || r.covered <= 0 || r.capacity <= 0 {
		return 0, false
	}
	return residencyFactor * r.capacity * (1 - r.usage) * r.covered / allocated, true
}

// residency reads the inputs of one engine on the pages in (from, to].
func (w unitWindow) residency(from, to int64) (residencyInputs, bool) {
	s, ok, trusted := w.unit.windowSource(from, to)
	covered := w.IncreaseIn(totalCovered, from, to)
	usageTime := covered - w.IncreaseIn(totalUsageUnknown, from, to)
	capacity, okCapacity := w.capacity()
	// Hybrid models hold states beside blocks: the formula does not hold for them.
	if !ok || !trusted || !okCapacity || usageTime <= 0 || w.unit.hitStep > 0 {
		return residencyInputs{}, false
	}
	missed, prompted := w.unit.missed(s, from, to)
	return residencyInputs{
		missed: max(missed, 0), prompted: prompted,
		generated: w.IncreaseIn(totalGenerated, from, to),
		covered:   covered,
		capacity:  capacity,
		usage:     w.IncreaseIn(totalUsage, from, to) / usageTime,
	}, true
}

// residencyNow reads them in the window that ends now; engine and pool ask for
// the same one within one Eval.
func (w unitWindow) residencyNow(d time.Duration) (residencyInputs, bool) {
	f := w.facts(d)
	if !f.residencyKnown {
		f.residency, f.resides = w.residency(w.ms-d.Milliseconds(), w.ms)
		f.residencyKnown = true
	}
	return f.residency, f.resides
}

// residency is that of the pool's mean engine on the pages in (from, to].
func (w PoolWindow) residency(from, to int64) (seconds float64, told int, ok bool) {
	return w.meanResidency(func(e EngineWindow) (residencyInputs, bool) { return e.residency(from, to) })
}

// meanResidency is that of the pool's mean engine.
func (w PoolWindow) meanResidency(of func(EngineWindow) (residencyInputs, bool)) (seconds float64, told int, ok bool) {
	all, told := w.residencyInputs(of)
	seconds, ok = all.seconds()
	return seconds, told, ok
}

// residencyInputs are those of the pool's mean engine: sums of tokens and time,
// the mean capacity and usage.
func (w PoolWindow) residencyInputs(of func(EngineWindow) (residencyInputs, bool)) (all residencyInputs, told int) {
	for _, u := range w.pool.members {
		r, ok := of(w.engine(u))
		if !ok {
			continue
		}
		all.missed += r.missed
		all.generated += r.generated
		all.prompted += r.prompted
		all.covered += r.covered
		all.capacity += r.capacity
		all.usage += r.usage
		told++
	}
	if told > 0 {
		all.capacity /= float64(told)
		all.usage /= float64(told)
	}
	return all, told
}

// residencies notes the pool's residency over the last day.
type residencies struct {
	Notes []residencyNote `json:"notes,omitempty"`
}

type residencyNote struct {
	// At is Unix milliseconds.
	At      int64   `json:"at"`
	Seconds float64 `json:"seconds"`
}

// tick notes the residency when it is time to.
func (r *residencies) tick(w PoolWindow, scale float64) {
	if n := len(r.Notes); n > 0 && w.ms-r.Notes[n-1].At < scaled(residencyEvery, scale).Milliseconds() {
		return
	}
	v, _, ok := w.residency(w.ms-scaled(residencyWindow, scale).Milliseconds(), w.ms)
	if !ok {
		return
	}
	r.Notes = append(r.Notes, residencyNote{At: w.ms, Seconds: v})
	oldest := w.ms - scaled(residencyKept, scale).Milliseconds()
	r.Notes = slices.DeleteFunc(r.Notes, func(n residencyNote) bool { return n.At < oldest })
}

// median is that of the day that ended at the given time, with its number of notes.
func (r *residencies) median(at int64, scale float64) (float64, int) {
	from := at - scaled(residencyKept, scale).Milliseconds()
	var day []float64
	for _, n := range r.Notes {
		if n.At > from && n.At <= at {
			day = append(day, n.Seconds)
		}
	}
	return median(day), len(day)
}
