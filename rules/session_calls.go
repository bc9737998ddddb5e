package rules

import (
	"math"
	"slices"
	"time"

	"kvwatch/collector"
)

const (
	// quarter and hour are the windows of what is told of sessions: the first
	// where it holds enough, else the second.
	quarter = 15 * time.Minute
	hour    = time.Hour
	// callSlots is how many minutes are kept: the longer window, and a few for
	// calls that come late.
	callSlots = 64
	// mostAsked bounds the names by which clients ask for a pool's model.
	mostAsked = 32
	// singleShare is the share of sessions of a single call from which session
	// ids are taken for invented ones.
	singleShare = 0.8
	// leastSessions is how many sessions must have rested before that is told.
	leastSessions = 5
)

// The positions of a call in its session: they partition the calls.
const (
	positionFirstCall    = "first_call"
	positionWithinTurn   = "within_turn"
	positionTurnBoundary = "turn_boundary"
)

// place is where a call stands: the pause before it, or one of the values below.
type place struct {
	gap   time.Duration
	fixed int
}

var (
	positionFirst   = place{fixed: binFirst}   //nolint:gochecknoglobals // a constant
	positionOverlap = place{fixed: binOverlap} //nolint:gochecknoglobals // a constant
	positionUnknown = place{fixed: binUnknown} //nolint:gochecknoglobals // a constant
)

// callCell sums up calls of one kind.
type callCell struct {
	// calls are all, reported those that tell their cached tokens; the tokens
	// are those of the latter.
	calls, reported uint32
	prompt, cached  uint64
}

func (c *callCell) take(call *collector.Call) {
	c.calls++
	if call.CachedKnown {
		c.reported++
		c.prompt += uint64(call.PromptTokens)
		c.cached += uint64(call.CachedTokens)
	}
}

func (c *callCell) add(o callCell) {
	c.calls += o.calls
	c.reported += o.reported
	c.prompt += o.prompt
	c.cached += o.cached
}

// callCells are the calls of a span of time by the pause before them, and by
// what changed since the call before.
type callCells struct {
	bins     [bins]callCell
	switches [2]callCell
	// arrived are all calls that were answered, of any kind.
	arrived uint32
}

func (c *callCells) add(o *callCells) {
	for i := range c.bins {
		c.bins[i].add(o.bins[i])
	}
	for i := range c.switches {
		c.switches[i].add(o.switches[i])
	}
	c.arrived += o.arrived
}

// The kinds of a switch.
const (
	switchModel = iota
	switchReplica
)

type callSlot struct {
	minute int64
	callCells
}

// poolCalls is what is known of the calls of one pool: minutes of an hour, in
// memory that does not grow with the traffic.
type poolCalls struct {
	name    string
	turnGap time.Duration
	slots   [callSlots]*callSlot
	// asked are the names by which clients asked for the model, logs those in
	// which they did.
	asked map[string]bool
	logs  map[string]*callSource

	// placed are the calls that were put in their place since the last Eval, for
	// the detectors; heavy is the heavy prompt of all of them.
	placed []placedCall
	heavy  heavyPrompt

	gaps, tasks, prompts, speeds recent
	// What follows is cumulative.
	sessions, sessionCalls uint64
	taskSum, gapSum        float64
	taskCount, gapCount    uint64

	// rested and singles are the sessions of the last hour that rest, and those
	// of them with a single call; callsEach has the calls of those that are over.
	rested, singles int
	callsEach       []float64

	// What follows is as of the last Eval.
	now      int64
	short    callCells // of quarter
	long     callCells // of hour
	boundary turnBoundary
	// arrivedShare is the part of the calls that the gateway counted whose rows
	// came; NaN is not known.
	arrivedShare float64
	stale        string
}

func newPoolCalls(name string, turnGap time.Duration) *poolCalls {
	return &poolCalls{name: name, turnGap: turnGap, asked: map[string]bool{}, logs: map[string]*callSource{}, boundary: turnBoundary{bin: binZero, gap: turnGap}, arrivedShare: math.NaN()}
}

// slot is where the calls of a minute are counted; nil when it is over.
func (p *poolCalls) slot(end int64) *callSlot {
	if p.turnGap == 0 {
		return nil // no pool serves it
	}
	minute := end / time.Minute.Milliseconds()
	at := &p.slots[minute%callSlots]
	switch {
	case *at == nil:
		*at = &callSlot{minute: minute}
	case (*at).minute > minute:
		return nil
	case (*at).minute < minute:
		**at = callSlot{minute: minute}
	}
	return *at
}

// arrive counts the row of a call that was answered, whatever it was.
func (p *poolCalls) arrive(c *collector.Call) {
	if c.Failed {
		return
	}
	if s := p.slot(c.End.UnixMilli()); s != nil {
		s.arrived++
	}
	name := c.RequestedModel
	if name == "" {
		name = c.ModelGroup
	}
	if len(p.asked) < mostAsked {
		p.asked[name] = true
	}
}

// count takes a call into the windows.
func (p *poolCalls) count(c *collector.Call, at place) {
	end := c.End.UnixMilli()
	s := p.slot(end)
	if s == nil {
		return
	}
	s.bins[p.bin(at)].take(c)
	p.prompts.add(end, float64(c.PromptTokens))
	if d := c.End.Sub(c.FirstToken).Seconds(); !c.FirstToken.IsZero() && d > 0 && c.OutputTokens > 1 && c.FirstToken.After(c.Start) {
		p.speeds.add(end, float64(c.OutputTokens-1)/d)
	}
	if at.gap == 0 {
		return
	}
	p.gaps.add(end, at.gap.Seconds())
	if p.bin(at) >= p.boundary.bin {
		p.gapSum += at.gap.Seconds()
		p.gapCount++
	}
}

// switched counts what changed since the session's call before. Calls that
// overlap have no call before them.
func (p *poolCalls) switched(c *collector.Call, before *session, at place) {
	s := p.slot(c.End.UnixMilli())
	if s == nil || at.gap == 0 || before.calls == 0 {
		return
	}
	switch {
	case before.group != c.ModelGroup:
		s.switches[switchModel].take(c)
	case before.deployment != servedBy(c) && before.deployment != "" && servedBy(c) != "":
		s.switches[switchReplica].take(c)
	}
}

// endTask counts a session's task that is over.
func (p *poolCalls) endTask(s *session) {
	if !s.taskOpen || s.lastEnd <= s.taskStart {
		return
	}
	s.taskOpen = false
	seconds := float64(s.lastEnd-s.taskStart) / 1000
	p.tasks.add(s.lastEnd, seconds)
	p.taskSum += seconds
	p.taskCount++
}

// tick sums up the windows that end now, as far as calls are settled.
func (p *poolCalls) tick(now time.Time, arrivedShare float64) {
	p.now, p.arrivedShare = now.UnixMilli(), arrivedShare
	last := now.Add(-settled).UnixMilli() / time.Minute.Milliseconds()
	p.short, p.long = callCells{}, callCells{}
	for _, s := range p.slots {
		if s == nil || s.minute > last || s.minute <= last-int64(hour/time.Minute) {
			continue
		}
		p.long.add(&s.callCells)
		if s.minute > last-int64(quarter/time.Minute) {
			p.short.add(&s.callCells)
		}
	}
	p.boundary = findBoundary(&p.long, p.turnGap)
}

// gated says whether the session ids are invented ones: LiteLLM makes one for
// each call that brings none.
func (p *poolCalls) gated() bool {
	return p.rested >= leastSessions && float64(p.singles) > singleShare*float64(p.rested)
}

// position sums up the calls of one position in a window.
func (p *poolCalls) position(w *callCells, name string) callCell {
	var sum callCell
	switch name {
	case positionFirstCall:
		return w.bins[binFirst]
	case positionWithinTurn:
		sum = w.bins[binOverlap]
		for _, c := range w.bins[binLowest:p.boundary.bin] {
			sum.add(c)
		}
	case positionTurnBoundary:
		for _, c := range w.bins[p.boundary.bin:] {
			sum.add(c)
		}
	}
	return sum
}

// total sums up all calls of a window, and those that have a position.
func (c *callCells) total() (all, placed callCell) {
	for i, b := range c.bins {
		all.add(b)
		if i != binUnknown {
			placed.add(b)
		}
	}
	return all, placed
}

// recent holds the newest values of a distribution with their times.
type recent struct {
	at     []int64
	values []float64
	next   int
}

// mostRecent bounds them: quantiles of more change little.
const mostRecent = 4096

func (r *recent) add(at int64, v float64) {
	if len(r.values) < mostRecent {
		r.at, r.values = append(r.at, at), append(r.values, v)
		return
	}
	r.at[r.next], r.values[r.next] = at, v
	r.next = (r.next + 1) % mostRecent
}

// since lists the values in rising order that are young enough and pass keep.
func (r *recent) since(from int64, keep func(float64) bool) []float64 {
	var vs []float64
	for i, at := range r.at {
		if at > from && keep(r.values[i]) {
			vs = append(vs, r.values[i])
		}
	}
	slices.Sort(vs)
	return vs
}

// quantileOf interpolates between the values, which are in rising order.
func quantileOf(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}
