package fleet

import (
	"slices"
	"time"
)

const (
	// sampleEvery is how often the simulator looks at itself: as often as it is
	// usually scraped.
	sampleEvery = 15 * time.Second
	// A queue is sustained when requests wait in so large a share of all pairs
	// of an engine and a look at it, over so many looks.
	sustainedShare = 0.4
	sustainedLooks = int(10 * time.Minute / sampleEvery)
	// ExcessFactor is by how much the share of recomputed tokens must exceed
	// the usual one to be an excess that a detector may fire on.
	ExcessFactor = 1.6
	// excessWindow is over what that share is taken.
	excessWindow = 15
)

// Minute is what really happened in one minute.
type Minute struct {
	// End is the simulated time at which it ends.
	End time.Duration
	// Engines has one entry for each, those included that are down.
	Engines []EngineMinute
}

// EngineMinute is one engine's part of a minute.
type EngineMinute struct {
	// LookedUp are the prompt tokens of the calls that were first scheduled,
	// Missed those of them that had to be computed, and what was computed again
	// after a preemption.
	LookedUp, Missed, Generated uint64
	// Admitted are the calls first scheduled, Delayed those that waited for over
	// a second before.
	Admitted, Delayed uint64
}

// History is the truth over time that detectors are judged by.
type History struct {
	Minutes []Minute
	// Queues are the sustained queues: from when, over 10 minutes, requests had
	// waited in at least 40 % of all pairs of an engine and a 15 s look at it,
	// until that was no longer so. The End of one that lasts is 0.
	Queues []Span
	// Quiet is the part of the run before the first incident: what is usual.
	Quiet Span
}

// history is what the fleet keeps while it runs.
type history struct {
	History
	looks []look
	next  int
	// sums are over looks.
	sums look
	last []EngineTruth
}

// look is how many engines had requests waiting, of how many.
type look struct{ queued, pairs int }

// sample looks at the engines, and writes the minute down when it is over.
func (f *Fleet) sample() {
	h := &f.history
	var now look
	for _, e := range f.engines {
		if e.down {
			continue
		}
		now.pairs++
		if len(e.waiting) > 0 {
			now.queued++
		}
	}
	h.look(now, f.now)
	if f.now%time.Minute == 0 {
		f.closeMinute()
	}
}

// look takes one look into the window of sustained queues.
func (h *history) look(l look, now time.Duration) {
	if len(h.looks) < sustainedLooks {
		h.looks = append(h.looks, l)
	} else {
		h.sums.queued -= h.looks[h.next].queued
		h.sums.pairs -= h.looks[h.next].pairs
		h.looks[h.next] = l
		h.next = (h.next + 1) % sustainedLooks
	}
	h.sums.queued += l.queued
	h.sums.pairs += l.pairs
	sustained := len(h.looks) == sustainedLooks && float64(h.sums.queued) >= sustainedShare*float64(h.sums.pairs) && h.sums.queued > 0
	last := len(h.Queues) - 1
	lasts := last >= 0 && h.Queues[last].End == 0
	switch {
	case sustained && !lasts && now > 0:
		h.Queues = append(h.Queues, Span{Begin: now})
	case !sustained && lasts:
		h.Queues[last].End = now
	}
}

// closeMinute writes down what the minute that ends now brought.
func (f *Fleet) closeMinute() {
	h := &f.history
	first := h.last == nil
	if first {
		h.last = make([]EngineTruth, len(f.engines))
	}
	engines := make([]EngineMinute, len(f.engines))
	for i, e := range f.engines {
		e.book(f.now)
		t, was := e.truth, h.last[i]
		engines[i] = EngineMinute{
			LookedUp: t.LookedUpTokens - was.LookedUpTokens, Missed: t.MissedTokens - was.MissedTokens,
			Generated: t.GeneratedTokens - was.GeneratedTokens,
			Admitted:  t.Admitted - was.Admitted, Delayed: t.Delayed - was.Delayed,
		}
		h.last[i] = t
	}
	if !first && f.now > 0 {
		h.Minutes = append(h.Minutes, Minute{End: f.now, Engines: engines})
	}
}

// History returns what happened until now, from time 0 on.
func (f *Fleet) History() History {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.history.History
	h.Minutes, h.Queues = slices.Clone(h.Minutes), slices.Clone(h.Queues)
	h.Quiet.End = f.now
	if first := f.scenario.Onset; first > 0 && first < f.now {
		h.Quiet.End = first
	}
	return h
}

// FirstQueue is when the first sustained queue from a time on began; false when
// there was none.
func (h *History) FirstQueue(from time.Duration) (time.Duration, bool) {
	for _, q := range h.Queues {
		if q.Begin >= from {
			return q.Begin, true
		}
	}
	return 0, false
}

// MissRatio is the share of prompt tokens looked up in the minutes of a span
// that had to be computed, over all engines: 0 to 1 (over 1 where preempted
// requests were computed again). False when there were none.
func (h *History) MissRatio(s Span) (float64, bool) {
	var lookedUp, missed uint64
	for _, m := range h.minutes(s) {
		for _, e := range m.Engines {
			lookedUp += e.LookedUp
			missed += e.Missed
		}
	}
	return float64(missed) / float64(max(lookedUp, 1)), lookedUp > 0
}

// minutes are those that end in a span, its end included.
func (h *History) minutes(s Span) []Minute {
	begin, _ := slices.BinarySearchFunc(h.Minutes, s.Begin+1, func(m Minute, at time.Duration) int { return int(m.End - at) })
	end, _ := slices.BinarySearchFunc(h.Minutes, s.End+1, func(m Minute, at time.Duration) int { return int(m.End - at) })
	return h.Minutes[begin:end]
}

// UsualMissRatio is the median, over the quiet part of the run, of the share of
// recomputed tokens in 15 minutes. False when nothing was computed in it.
func (h *History) UsualMissRatio() (float64, bool) {
	ratios := h.excessRatios(h.Quiet)
	if len(ratios) == 0 {
		return 0, false
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2], true
}

// excessRatios are the shares of recomputed tokens in the 15 minutes before
// each minute's end in a span.
func (h *History) excessRatios(s Span) []float64 {
	var ratios []float64
	for _, m := range h.minutes(s) {
		if ratio, ok := h.MissRatio(Span{m.End - excessWindow*time.Minute, m.End}); ok {
			ratios = append(ratios, ratio)
		}
	}
	return ratios
}

// Excess says whether a detector that fires at a time has something to fire at:
// whether the share of recomputed tokens in 15 minutes reached ExcessFactor
// times the usual one between 15 minutes before and 20 minutes after. What fires
// without is a false alarm.
func (h *History) Excess(at time.Duration) bool {
	usual, ok := h.UsualMissRatio()
	if !ok {
		return false
	}
	for _, ratio := range h.excessRatios(Span{at - 15*time.Minute, at + 20*time.Minute}) {
		if ratio >= ExcessFactor*usual {
			return true
		}
	}
	return false
}
