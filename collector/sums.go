package collector

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

const (
	// restartShare is the part of all counters that must have fallen or gone
	// at once for a page without process_start_time_seconds to be a new process.
	restartShare = 0.9
	// partialShare is what must be left of a counter for its fall to be the
	// loss of a part (a dead worker's file) and not a start from zero.
	partialShare = 0.2
	// rounding bounds what a sum of floats falls by when its inputs change their
	// order; passed on, a counter that falls ever so little would be a restart.
	rounding = 1e-9
	// forgetPages is after how many pages that lack it a series is forgotten.
	forgetPages = 240
	// indexPages is for how many pages that hold nothing new, nothing less and
	// nothing in another order the index is kept.
	indexPages = 4
	// cellBlock is how many cells are made at once.
	cellBlock = 16
)

// An input is one exposed series, known by the hash of its text before the
// value. Its labels are not kept: they may be personal.
type input struct {
	// cell is what it feeds, nil for a series that is recognised and left out.
	cell *cell
	name *sampleName
	// last is the value on the last page that was taken, cur that on the present one.
	last, cur float64
	// series is the hash it is known by.
	series uint64
	// page is the number of the page that held it last, taken or not, and place
	// where among that page's inputs.
	page, place uint32
	state       inputState
}

// An inputID is an input's place among all.
type inputID uint32

type inputState uint8

const (
	inputNew  inputState = iota // not counted yet
	inputLive                   // counted on the last page
	inputGone                   // counted once, but not on the last page
)

// A cell is one number that is passed on, fed by one input or several.
type cell struct {
	out *output
	// value is the present one; that of counts is the inputs' sum plus offset.
	// before is the one of the page before.
	value, before float64
	// offset is what is missing from the sum because inputs vanished or fell.
	offset float64
	// bound is the upper one of a bucket.
	bound float64
	// page is the number of the page that fed it last.
	page uint32
	// shared says that more than one input fed it at once.
	shared bool
}

// An output is one series that is passed on: one cell, or those of a histogram.
type output struct {
	series Series
	family *family
	// page is the number of the page that fed it last.
	page uint32
	// cell is the number of a series that has one only.
	cell cell
	// parts are the cells of a histogram, nil for all else.
	parts *parts
	// moves is what a moved series follows, nil for all else.
	moves *moves
}

// moves is the state of a moved series: decider is the input that it follows
// once movedOn is not 0, movedOn the page on which that changed, since the first
// page of the process, and well says that the deployment answered since.
type moves struct {
	decider        inputID
	movedOn, since uint32
	well           bool
}

// sums keeps all series of one target from page to page.
type sums struct {
	// inputs are all that are known, free the places of those that were forgotten.
	inputs []input
	free   []inputID
	// index finds them by the hash of their text. It is there while pages change,
	// missed is the last one on which it was needed.
	index   map[uint64]inputID
	missed  uint32
	outputs map[uint64]*output
	// cells is what is left of the last block of them.
	cells []cell
	// states finds a deployment's state by its model_id.
	states map[string]*output
	// page is the number of the present page.
	page uint32
	// seen are the present page's inputs in their order, live those of the last page taken.
	seen, live []inputID
	// next is where in live the next line's input should be: pages keep their order.
	next int
	// exposed are the outputs passed on last, fed those of the present page.
	exposed, fed []*output
	// returns watches the counters of pages that do not tell the process' start.
	returns returns
	// yield is what the last page that was taken gave, counts its buckets.
	yield  yield
	counts []float64
}

// yield is what a page gives. Its slices are valid until the next one is read.
type yield struct {
	samples    []Sample
	histograms []Histogram
	// stale were given of the page before, and are gone.
	stale []*Series
}

func newSums() *sums {
	return &sums{outputs: map[uint64]*output{}, states: map[string]*output{}}
}

// begin starts a page. What an earlier page left behind without being taken is dropped.
func (s *sums) begin() {
	s.page++
	s.seen = s.seen[:0]
	s.next = 0
}

// find gives the input of a series, false when it was not seen before.
func (s *sums) find(series uint64) (inputID, bool) {
	if s.next < len(s.live) {
		if id := s.live[s.next]; s.inputs[id].series == series {
			s.next++
			return id, true
		}
	}
	if s.missed = s.page; s.index == nil {
		s.reindex()
	}
	id, ok := s.index[series]
	if ok {
		s.next = int(s.inputs[id].place) + 1
	}
	return id, ok
}

// reindex makes the index.
func (s *sums) reindex() {
	s.index = make(map[uint64]inputID, len(s.inputs))
	for id := range s.inputs {
		if in := &s.inputs[id]; in.name != nil {
			s.index[in.series] = inputID(id)
		}
	}
}

// admit makes a series known that find did not find.
func (s *sums) admit(series uint64, in input) inputID {
	in.series = series
	id := inputID(len(s.inputs))
	if last := len(s.free) - 1; last >= 0 {
		id, s.free = s.free[last], s.free[:last]
		s.inputs[id] = in
	} else {
		s.inputs = append(s.inputs, in)
	}
	s.index[series] = id
	return id
}

// see notes the value of a known input; false when the page already held it.
func (s *sums) see(id inputID, value float64) bool {
	in := &s.inputs[id]
	if in.page == s.page {
		return false
	}
	in.page, in.cur, in.place = s.page, value, uint32(len(s.seen))
	s.seen = append(s.seen, id)
	return true
}

// cellOf finds or makes the place of a series: lset are the labels that it is
// passed on with, for a part of a histogram those of the whole; bound is that of
// a bucket.
func (s *sums) cellOf(lset labels.Labels, name *sampleName, bound float64) *cell {
	out := s.outputOf(lset, name.family)
	if out.parts == nil {
		return &out.cell
	}
	return out.parts.cell(name.part, bound, func() *cell { return s.newCell(out, bound) })
}

// newCell makes a cell of a histogram. They are made in blocks: a histogram has
// dozens of them, and the garbage collector looks at each thing that was made
// by itself.
func (s *sums) newCell(out *output, bound float64) *cell {
	if len(s.cells) == 0 {
		s.cells = make([]cell, cellBlock)
	}
	c := &s.cells[0]
	s.cells = s.cells[1:]
	c.out, c.bound = out, bound
	return c
}

// outputOf finds or makes the series with these labels.
func (s *sums) outputOf(lset labels.Labels, f *family) *output {
	for h := lset.Hash(); ; h++ {
		out, ok := s.outputs[h]
		if !ok {
			out = newOutput(lset, f)
			s.outputs[h] = out
			if out.moves != nil {
				s.states[lset.Get(labelModelID)] = out
			}
			return out
		}
		if labels.Equal(out.series.Labels, lset) {
			return out
		}
	}
}

func newOutput(lset labels.Labels, f *family) *output {
	out := &output{series: Series{Labels: lset}, family: f}
	out.cell.out = out
	switch f.kind {
	case histogram:
		out.parts, out.series.Whole = &parts{}, true
	case moved:
		out.moves = &moves{}
	case counter, sumAndCount, gauge, peak:
	}
	return out
}

// take makes the present page the last one: it sums the inputs for which
// wanted holds (all, where it is nil) into samples and finds what went stale.
// known says that the process' start is exposed, restarted that it is another
// one; where it is not exposed a restart is told from the counters. It returns
// whether there was one. at is the time of the page.
func (s *sums) take(wanted func(*input) bool, known, restarted bool, at time.Time) bool {
	if wanted != nil {
		s.leaveOut(wanted)
	}
	if !known {
		s.returns.note(s, at)
		restarted = s.fellTogether()
	}
	if restarted {
		s.restart()
	}
	s.rebase()
	s.sum()
	s.settle()
	s.live, s.seen = s.seen, s.live
	if s.index != nil && s.page-s.missed > indexPages {
		s.index, s.inputs = nil, slices.Clone(s.inputs) // without the room to grow
	}
	if s.page%forgetPages == 0 {
		s.forget(forgetPages)
	}
	return restarted
}

// leaveOut drops the inputs of the present page that are not wanted.
func (s *sums) leaveOut(wanted func(*input) bool) {
	kept := s.seen[:0]
	for _, id := range s.seen {
		if in := &s.inputs[id]; wanted(in) {
			kept = append(kept, id)
		} else {
			in.state = inputNew
		}
	}
	s.seen = kept
}

// fellTogether says whether the counters of a page start anew.
func (s *sums) fellTogether() bool {
	all, fell := 0, 0
	for _, id := range s.live {
		in := &s.inputs[id]
		if !in.name.family.kind.counts() || in.last <= 0 {
			continue
		}
		all++
		if in.page != s.page || in.state != inputLive || in.cur < partialShare*in.last {
			fell++
		}
	}
	return all > 0 && float64(fell) >= restartShare*float64(all)
}

// restart forgets what the old process had counted.
func (s *sums) restart() {
	for _, out := range s.outputs {
		for c := range out.cells() {
			c.offset = 0
		}
		if out.moves != nil {
			*out.moves = moves{}
		}
	}
	for id := range s.inputs {
		s.inputs[id].state = inputNew
	}
	s.live = s.live[:0]
}

// rebase keeps sums from falling where inputs fell or vanished while the process lives.
func (s *sums) rebase() {
	for _, id := range s.seen {
		in := &s.inputs[id]
		in.cell.offset += in.lost()
	}
	for _, id := range s.live {
		in := &s.inputs[id]
		if in.page == s.page || in.state != inputLive {
			continue
		}
		in.state = inputGone
		if in.cell.accumulates() {
			in.cell.offset += in.last
		}
	}
}

// lost is what the sum would lose by this input alone.
func (in *input) lost() float64 {
	if !in.cell.accumulates() {
		return 0
	}
	switch {
	case in.state == inputGone && in.cur >= in.last:
		return -in.last // it was only away: its old value is in the offset
	case in.state != inputLive || in.cur >= in.last || in.last <= 0:
		return 0
	case in.cur >= partialShare*in.last:
		return in.last - in.cur
	default:
		return in.last // it starts anew: all that it shows is increase
	}
}

// accumulates says whether the cell must outlive its inputs.
func (c *cell) accumulates() bool {
	f := c.out.family
	return f.kind.counts() && (c.shared || f.source != nil && f.source.accumulates)
}

// sum adds up the page's inputs and sets what the page yields.
func (s *sums) sum() {
	s.follow()
	s.fed = s.fed[:0]
	for _, id := range s.seen {
		in := &s.inputs[id]
		if out := in.cell.out; out.page != s.page {
			out.page = s.page
			s.fed = append(s.fed, out)
		}
		s.add(in)
		in.last, in.state = in.cur, inputLive
	}
	s.yield.samples, s.yield.histograms, s.counts = s.yield.samples[:0], s.yield.histograms[:0], s.counts[:0]
	known := s.fed[:0]
	for _, out := range s.fed {
		if !out.settle(s.page) {
			out.page--
			continue
		}
		known = append(known, out)
		if out.parts == nil {
			s.yield.samples = append(s.yield.samples, Sample{Series: &out.series, Value: out.cell.value})
			continue
		}
		var h Histogram
		h, s.counts = out.histogram(s.page, s.counts)
		s.yield.histograms = append(s.yield.histograms, h)
	}
	s.fed = known
	s.yield.samples = slices.Grow(s.yield.samples, 1) // the round's own up is appended
}

// cells lists all of the output's.
func (out *output) cells() iter.Seq[*cell] {
	return func(yield func(*cell) bool) {
		if out.parts == nil {
			yield(&out.cell)
			return
		}
		out.parts.each(yield)
	}
}

// settle ends the page for the output; false where nothing of it is a number.
func (out *output) settle(page uint32) bool {
	if out.parts == nil {
		return out.cell.settle(page)
	}
	return out.parts.settle(page)
}

// add brings one input's present value into its cell's.
func (s *sums) add(in *input) {
	c := in.cell
	first := c.page != s.page
	c.page = s.page
	switch c.out.family.kind {
	case counter, histogram, sumAndCount, gauge:
		if first {
			c.value = c.offset
		}
		c.shared = c.shared || !first
		c.value += in.cur
	case peak:
		if first || in.cur > c.value {
			c.value = in.cur
		}
	case moved:
		c.value = s.decide(c, in.cur, first)
	}
}

// settle ends the page for the cell; false when it holds no number on it.
func (c *cell) settle(page uint32) bool {
	if c.page != page {
		return false
	}
	if math.IsInf(c.value, 0) { // finite inputs can still add up to more than there is
		c.page--
		return false
	}
	if slip := c.before - c.value; slip > 0 && slip < rounding*c.before && c.accumulates() {
		c.value = c.before
	}
	c.before = c.value
	return true
}

// decide gives a moved series its value: that of the input that changed last,
// of the highest while none has, and 0 (well) once the deployment answered after that.
func (s *sums) decide(c *cell, value float64, first bool) float64 {
	m := c.out.moves
	switch {
	case m.well:
		return 0
	case m.movedOn > 0 && s.inputs[m.decider].page == s.page:
		return s.inputs[m.decider].cur
	case first || value > c.value:
		return value
	default:
		return c.value
	}
}

// follow finds for each moved series the input that changed last, and the
// deployments that answered since. LiteLLM labels a deployment's state by other
// names while it is cooled down than while it answers, and never takes either
// back; it sets 0 on each success, which is no change where it was 0 before.
func (s *sums) follow() {
	for _, id := range s.seen {
		if in := &s.inputs[id]; in.name.family.kind == moved {
			s.notice(in.cell.out.moves, id)
		}
	}
	for _, id := range s.seen {
		in := &s.inputs[id]
		if !in.name.family.clears || in.state != inputLive || in.cur <= in.last {
			continue
		}
		if state, ok := s.states[in.cell.out.series.Labels.Get(labelModelID)]; ok && state.moves.movedOn != s.page {
			state.moves.well = true
		}
	}
}

// notice makes an input that changed the decider; of several the highest.
func (s *sums) notice(m *moves, id inputID) {
	in := &s.inputs[id]
	if m.since == 0 {
		m.since = s.page
	}
	changed := in.state != inputNew && in.cur != in.last || in.state == inputNew && m.since != s.page
	if !changed || m.movedOn == s.page && in.cur <= s.inputs[m.decider].cur {
		return
	}
	m.decider, m.movedOn, m.well = id, s.page, false
}

// settle finds what was passed on before and is not any more.
func (s *sums) settle() {
	s.yield.stale = s.yield.stale[:0]
	for _, out := range s.exposed {
		if out.page != s.page {
			s.yield.stale = append(s.yield.stale, &out.series)
		}
	}
	s.exposed, s.fed = s.fed, s.exposed
}

// lose takes all series for gone and returns those that were passed on last.
func (s *sums) lose() []*Series {
	s.yield.stale = s.yield.stale[:0]
	for _, out := range s.exposed {
		s.yield.stale = append(s.yield.stale, &out.series)
	}
	s.exposed = s.exposed[:0]
	return s.yield.stale
}

// forget drops what no page held for as many pages.
func (s *sums) forget(pages uint32) {
	held := make(map[*cell]bool, len(s.inputs))
	for id := range s.inputs {
		in := &s.inputs[id]
		switch {
		case in.name == nil: // forgotten before
		case s.page-in.page >= pages:
			delete(s.index, in.series)
			*in = input{}
			s.free = append(s.free, inputID(id))
		case in.cell != nil:
			held[in.cell] = true
		}
	}
	for h, out := range s.outputs {
		if out.held(held) {
			if m := out.moves; m != nil && s.inputs[m.decider].name == nil {
				m.movedOn = 0 // another may get its place
			}
			continue
		}
		delete(s.outputs, h)
		if out.moves != nil {
			delete(s.states, out.series.Labels.Get(labelModelID))
		}
	}
}

// held drops the output's buckets that no input feeds, and says whether one
// feeds anything of it.
func (out *output) held(by map[*cell]bool) bool {
	if out.parts == nil {
		return by[&out.cell]
	}
	return out.parts.held(by)
}

// known is how many inputs are known.
func (s *sums) known() int { return len(s.inputs) - len(s.free) }
