package rules

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
)

const (
	loadHeadroomLow = "LoadHeadroomLow"

	// headroomWindow is the span that the headroom is predicted from, and
	// headroomEvery how often.
	headroomWindow = 30 * time.Minute
	headroomEvery  = 5 * time.Minute
	// leastHeadroomTime is the covered replica-seconds that it needs, and
	// leastHeadroomPrompts the prompted tokens in heavy prompts.
	leastHeadroomTime    = 10 * time.Minute
	leastHeadroomPrompts = 32
)

// poolHeadroom predicts now and then how much more load a pool bears.
type poolHeadroom struct {
	scale, least, prompts float64
	window                time.Duration
	// at is the time that it was last predicted as of, in Unix milliseconds, and
	// offset how far its times are from full five minutes: pools take turns.
	at, offset int64
	poolLoad
}

// poolLoad is how a pool is used, and what follows from that.
type poolLoad struct {
	// reason says why nothing is known; "" when residency and boundary are.
	reason string
	// noRatio says why the headroom is not known all the same; "" when it is.
	noRatio string
	load    engineLoad
	// residency is T0 in seconds, boundary the share of the pauses between turns
	// that a block survives then, 1 - fb(T0).
	residency, boundary float64
	headroom            headroom
	// told counts the engines that it rests on, covered is in replica-seconds,
	// prompted in tokens.
	told              int
	covered, prompted float64
}

func newPoolHeadroom(name string, rules map[string]*settings) poolHeadroom {
	s := rules[loadHeadroomLow]
	return poolHeadroom{
		offset: int64(xxhash.Sum64String(name) % uint64(headroomEvery.Milliseconds())),
		scale:  s.timeScale, window: s.duration("window"), least: s.duration("least_time").Seconds(), prompts: s.number("least_prompts"),
		poolLoad: poolLoad{reason: "the load was not looked at yet"},
	}
}

// span is the window, but long enough to hold some scrapes.
func (h *poolHeadroom) span(w PoolWindow) time.Duration {
	return max(h.window, leastScrapes*w.interval)
}

// tick predicts anew when it is time to. It does so as of a time that the
// clock gives, so that after a restart it says what it said before.
func (h *poolHeadroom) tick(w PoolWindow) {
	every := max(scaled(headroomEvery, h.scale), w.interval).Milliseconds()
	at := w.ms - (w.ms-h.offset)%every
	if at == h.at {
		return
	}
	h.at, w.ms, w.now = at, at, time.UnixMilli(at)
	h.poolLoad = h.look(w)
}

// look reads how the pool is used now.
func (h *poolHeadroom) look(w PoolWindow) poolLoad {
	d := h.span(w)
	external, _ := w.sum(func(e EngineWindow) (float64, bool) { return e.Increase(totalExternalHits, d), true })
	if external > 0 {
		return poolLoad{reason: fmt.Sprintf("n/a: an external prefix tier served %s tokens in %s, so that what the GPU's cache drops is not lost; %s tells whether there is room",
			amount(external), spell(d), kvSeatShortage)}
	}
	in, told := w.residencyInputs(func(e EngineWindow) (residencyInputs, bool) { return e.residency(w.ms-d.Milliseconds(), w.ms) })
	heavy := w.pool.heavyPrompt()
	switch {
	case told == 0:
		return poolLoad{reason: "no engine of the pool tells its capacity, usage and cached tokens"}
	case heavy == 0:
		return poolLoad{reason: fmt.Sprintf("the usual size of prompts is not known before %d calls", heavyCalls)}
	case in.covered < h.least || in.prompted < h.prompts*heavy:
		return poolLoad{reason: fmt.Sprintf("insufficient evidence: %s of engine time and %.1f heavy prompts in %s, it takes %s and %g",
			spellSeconds(in.covered), in.prompted/heavy, spell(d), spellSeconds(h.least), h.prompts)}
	}
	residency, ok := in.seconds()
	if !ok {
		return poolLoad{reason: "nothing was allocated in the window: blocks stay"}
	}
	l := engineLoad{
		missed: in.missed / in.covered, generated: in.generated / in.covered, prompted: in.prompted / in.covered,
		capacity: in.capacity, usage: in.usage, gap: w.idleGap(),
	}
	p := poolLoad{residency: residency, boundary: 1 - l.gap.lost(residency), told: told, covered: in.covered, prompted: in.prompted}
	busy, timed := w.prefillShare(d)
	if timed == 0 {
		p.load, p.noRatio = l, "no engine of the pool tells first tokens and queue times"
		return p
	}
	l.occupancy = busy.ratio()
	if p.headroom, ok = l.headroom(); !ok {
		p.noRatio = "nothing was missed or prefilled in the window: there is nothing to extrapolate"
	}
	p.load = l
	return p
}

// result is one of the pool's figures, or why it is not known.
func (h *poolHeadroom) result(w PoolWindow, v float64, reason, from string) Result {
	if reason != "" || w.Fresh() == 0 {
		return w.absent(reason)
	}
	return w.known(v, h.span(w), h.told, from)
}
