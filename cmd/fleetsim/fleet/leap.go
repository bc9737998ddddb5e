package fleet

import (
	"math"
	"time"
)

// leap is a run of steps that all do the same: every sequence of the batch
// decodes one token. The steps are not simulated one by one, but what is
// counted, and when each of them ends, is the same as if they were: step n
// (from 0) takes first + n x growth, since every context is n x 1 token longer.
type leap struct {
	began  time.Duration
	first  time.Duration
	growth time.Duration
	steps  int
	// sequences decode in it; booked of its steps are on the page already.
	sequences, booked int
}

// after is when so many steps of it are done.
func (l *leap) after(steps int) time.Duration {
	n := time.Duration(steps)
	return l.began + n*l.first + l.growth*(n*(n-1)/2)
}

func (l *leap) end() time.Duration { return l.after(l.steps) }

// done is how many of its steps are over at a time.
func (l *leap) done(now time.Duration) int {
	elapsed := float64(now - l.began)
	n := int(elapsed / float64(l.first))
	if g := float64(l.growth); g > 0 {
		b := float64(l.first) - g/2
		n = int((math.Sqrt(b*b+2*g*elapsed) - b) / g)
	}
	n = min(max(n, 0), l.steps)
	for n > 0 && l.after(n) > now {
		n--
	}
	for n < l.steps && l.after(n+1) <= now {
		n++
	}
	return n
}

// lengthen makes the step that was scheduled a leap, up to the first sequence
// that finishes, if all that it does is to decode and the memory lasts.
func (e *engine) lengthen() {
	steps := math.MaxInt
	for i, r := range e.running {
		if e.chunk[i] != 1 || !r.decoding() || r.aborted {
			return
		}
		steps = min(steps, r.outputTokens-r.generated)
	}
	if e.fleet.singleSteps || e.recounts() {
		return
	}
	// Whoever waits was kept out by a lack of memory or of slots, and both last
	// until somebody finishes.
	for steps > 1 && e.cache.pinned+e.leapBlocks(steps) > e.cache.usable {
		steps /= 2
	}
	if steps > 1 {
		e.leap.steps, e.leap.sequences = steps, len(e.running)
		e.leap.growth = time.Duration(len(e.running)) * e.fleet.config.Hardware.StepPerContextToken
	}
}

// leapBlocks are the blocks that so many steps need beyond those held now.
func (e *engine) leapBlocks(steps int) int {
	blocks := 0
	for _, r := range e.running {
		blocks += e.cache.missing(&r.lease, r.computed+steps)
	}
	return blocks
}

// cutLeap ends a leap with the step of it that is under way.
func (e *engine) cutLeap() {
	if !e.stepping || e.leap.steps <= 1 {
		return
	}
	under := e.leap.done(e.fleet.now) + 1
	if under >= e.leap.steps {
		return
	}
	e.leap.steps = under
	e.turn++
	e.fleet.queue.at(e.leap.end(), e, occasionStepEnds, e.turn)
}

// book puts the steps of a leap that are over on the page.
func (e *engine) book(now time.Duration) {
	l := &e.leap
	if l.sequences == 0 {
		return
	}
	for done := l.done(now); l.booked < done; {
		duration := l.first + time.Duration(l.booked)*l.growth
		alike := min(e.metrics.alike(duration, l.growth), done-l.booked)
		e.metrics.decodedSteps(duration, l.growth, l.sequences, alike)
		e.truth.GeneratedTokens += uint64(l.sequences * alike)
		l.booked += alike
	}
}

// land ends a leap: every sequence is as many tokens further as it had steps.
func (e *engine) land() {
	now := e.fleet.now
	e.book(now)
	steps := e.leap.steps
	kept := e.running[:0]
	for _, r := range e.running {
		// The memory was there when the leap was planned, and nothing else took
		// any since.
		e.cache.grow(&r.lease, r.computed+steps, now)
		r.computed += steps
		r.generated += steps
		r.lastToken = now
		switch {
		case r.aborted:
			e.drop(r)
		case r.generated >= r.outputTokens:
			e.finished = append(e.finished, r)
		default:
			kept = append(kept, r)
		}
	}
	clear(e.running[len(kept):])
	e.running = kept
}

// usage is the referenced share of the KV memory at a time.
func (e *engine) usage(now time.Duration) float64 {
	if e.leap.steps <= 1 {
		return e.cache.usage()
	}
	pinned := e.cache.pinned + e.leapBlocks(min(e.leap.done(now)+1, e.leap.steps))
	return float64(pinned) / float64(e.cache.usable)
}
