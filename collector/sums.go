package collector

import (
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
)

// An input is one exposed series, known by the hash of its text before the
// value. Its labels are not kept: they may be personal.
type input struct {
	// out is what it feeds, nil for a series that is recognised and left out, and
	// slot says which number of that.
	out  *output
	slot slot
	// rank is that of the name under which it is exposed.
	rank  uint8
	state inputState
	// held says that a page held it since the last time that series were
	// forgotten, be it one that was not taken.
	held bool
	// last is the value on the last page that was taken.
	last float64
	// series is the hash it is known by.
	series uint64
}

// An inputID is an input's place among all.
type inputID uint32

type inputState uint8

const (
	inputFree inputState = iota // forgotten: the place is free
	inputNew                    // not counted yet
	inputLive                   // counted on the last page
	inputGone                   // counted once, but not on the last page
)

// moves is the state of a moved series: decider is the input that it follows
// once movedOn is not 0, movedOn the page on which that changed, since the first
// page of the process, and well says that the deployment answered since.
type moves struct {
	decider        inputID
	movedOn, since uint32
	well           bool
}

// sums keeps all series of one target from page to page. What it needs of one
// page only is on the desk.
type sums struct {
	desk *desk
	// inputs are all that are known, free the places of those that were forgotten.
	inputs []input
	free   []inputID
	// outputs are all that inputs feed, mixed says that arrange is due for some.
	outputs []*output
	mixed   bool
	// index finds them. It is there while pages change; missed is the last page on
	// which it was needed.
	index  *index
	missed uint32
	// states finds a deployment's state by its model_id.
	states map[string]*output
	// page is the number of the present page.
	page uint32
	// live are the inputs of the last page taken, in its order, exposed the outputs
	// that were passed on.
	live    []inputID
	exposed []*output
	// next is where in live the next line's input should be: pages keep their order.
	next int
	// returns watches the counters of pages that do not tell the process' start.
	returns returns
}

// index finds inputs by the hash of their text, and outputs by that of their
// labels or, where that is taken, the next one that is free.
type index struct {
	inputs  map[uint64]inputID
	outputs map[uint64]*output
}

func newSums() *sums { return &sums{states: map[string]*output{}} }

// begin starts a page. What an earlier page left behind without being taken is dropped.
func (s *sums) begin() {
	s.page++
	s.next = 0
	s.desk.clear(len(s.inputs))
}

// find gives the input of a series, false when it was not seen before.
func (s *sums) find(series uint64) (inputID, bool) {
	if s.next < len(s.live) {
		if id := s.live[s.next]; s.inputs[id].series == series {
			s.next++
			return id, true
		}
	}
	if s.index == nil {
		s.reindex()
	}
	if s.missed != s.page {
		s.missed = s.page
		s.noteOrder()
	}
	id, ok := s.index.inputs[series]
	if ok && int(id) < len(s.desk.following) && s.desk.following[id] > 0 {
		s.next = int(s.desk.following[id])
	}
	return id, ok
}

// reindex makes the index.
func (s *sums) reindex() {
	s.index = &index{make(map[uint64]inputID, len(s.inputs)), make(map[uint64]*output, len(s.outputs))}
	for id := range s.inputs {
		if in := &s.inputs[id]; in.state != inputFree {
			s.index.inputs[in.series] = inputID(id)
		}
	}
	for _, out := range s.outputs {
		h, _ := s.index.output(out.series.Labels)
		s.index.outputs[h] = out
	}
}

// output finds the output with these labels; where there is none it says where it belongs.
func (x *index) output(lset labels.Labels) (uint64, *output) {
	for h := lset.Hash(); ; h++ {
		if out, ok := x.outputs[h]; !ok || labels.Equal(out.series.Labels, lset) {
			return h, out
		}
	}
}

// noteOrder notes for each input of the last page which place followed it.
func (s *sums) noteOrder() {
	d := s.desk
	d.following = append(d.following[:0], make([]uint32, len(s.inputs))...)
	for i, id := range s.live {
		d.following[id] = uint32(i) + 1
	}
}

// admit makes a series known that find did not find.
func (s *sums) admit(series uint64, in input) inputID {
	in.series, in.state = series, inputNew
	id := inputID(len(s.inputs))
	if last := len(s.free) - 1; last >= 0 {
		id, s.free = s.free[last], s.free[:last]
		s.inputs[id] = in
	} else {
		s.inputs = append(s.inputs, in)
		s.desk.values = append(s.desk.values, math.NaN())
	}
	s.index.inputs[series] = id
	return id
}

// see notes the value of a known input; false when the page already held it.
func (s *sums) see(id inputID, value float64) bool {
	d := s.desk
	if d.has(id) {
		return false
	}
	d.values[id] = value
	d.seen = append(d.seen, id)
	s.inputs[id].held = true
	return true
}

// place finds or makes the place of a series: lset are the labels that it is
// passed on with, for a part of a histogram those of the whole; bound is that of
// a bucket.
func (s *sums) place(lset labels.Labels, name *sampleName, bound float64) (*output, slot) {
	h, out := s.index.output(lset)
	if out == nil {
		out = newOutput(lset, name.family)
		s.outputs = append(s.outputs, out)
		s.index.outputs[h] = out
		if out.moves != nil {
			s.states[lset.Get(labelModelID)] = out
		}
	}
	if out.parts == nil {
		return out, 0
	}
	at := out.parts.slot(name.part, bound)
	s.mixed = s.mixed || out.parts.mixed
	return out, at
}

// take makes the present page the last one: it sums the inputs for which
// wanted holds (all, where it is nil) into what the page yields and finds what
// went stale. known says that the process' start is exposed, restarted that it is
// another one; where it is not exposed a restart is told from the counters. It
// returns whether there was one. at is the time of the page.
func (s *sums) take(wanted func(*input) bool, known, restarted bool, at time.Time) bool {
	if wanted != nil {
		s.leaveOut(wanted)
	}
	if s.mixed {
		s.arrange()
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
	if s.index != nil && s.page-s.missed > indexPages {
		s.trim()
	}
	if s.page%forgetPages == 0 {
		s.forgetOld()
	}
	return restarted
}

// trim drops the index, and the room that lists have to grow.
func (s *sums) trim() {
	s.index = nil
	s.inputs, s.outputs = slices.Clone(s.inputs), slices.Clone(s.outputs)
	s.live, s.exposed = slices.Clone(s.live), slices.Clone(s.exposed)
}

// leaveOut drops the inputs of the present page that are not wanted.
func (s *sums) leaveOut(wanted func(*input) bool) {
	d := s.desk
	kept := d.seen[:0]
	for _, id := range d.seen {
		if in := &s.inputs[id]; wanted(in) {
			kept = append(kept, id)
		} else {
			in.state = inputNew
		}
	}
	d.seen = kept
}

// fellTogether says whether the counters of a page start anew.
func (s *sums) fellTogether() bool {
	all, fell := 0, 0
	for _, id := range s.live {
		in := &s.inputs[id]
		if !in.out.family.kind.counts() || in.last <= 0 {
			continue
		}
		all++
		if !s.desk.has(id) || in.state != inputLive || s.desk.values[id] < partialShare*in.last {
			fell++
		}
	}
	return all > 0 && float64(fell) >= restartShare*float64(all)
}

// restart forgets what the old process had counted.
func (s *sums) restart() {
	for _, out := range s.outputs {
		for i := range out.carried {
			out.carried[i].offset = 0
		}
		if out.moves != nil {
			*out.moves = moves{}
		}
	}
	for id := range s.inputs {
		if in := &s.inputs[id]; in.state != inputFree {
			in.state = inputNew
		}
	}
	s.live = s.live[:0]
}

// rebase keeps sums from falling where inputs fell or vanished while the process lives.
func (s *sums) rebase() {
	for _, id := range s.desk.seen {
		in := &s.inputs[id]
		if lost := in.lost(s.desk.values[id]); lost != 0 && in.out.outlives(in.slot) {
			in.out.carry(in.slot).offset += lost
		}
	}
	for _, id := range s.live {
		in := &s.inputs[id]
		if s.desk.has(id) || in.state != inputLive {
			continue
		}
		in.state = inputGone
		if in.out.outlives(in.slot) {
			in.out.carry(in.slot).offset += in.last
		}
	}
}

// lost is what the sum would lose by this input alone.
func (in *input) lost(value float64) float64 {
	switch {
	case in.state == inputGone && value >= in.last:
		return -in.last // it was only away: its old value is in the offset
	case in.state != inputLive || value >= in.last || in.last <= 0:
		return 0
	case value >= partialShare*in.last:
		return in.last - value
	default:
		return in.last // it starts anew: all that it shows is increase
	}
}

// sum adds up the page's inputs and sets what the page yields.
func (s *sums) sum() {
	if len(s.states) > 0 {
		s.follow()
	}
	d := s.desk
	d.fed, d.numbers = d.fed[:0], d.numbers[:0]
	for _, id := range d.seen {
		in := &s.inputs[id]
		if out := in.out; out.page != s.page {
			out.page, out.begin = s.page, uint32(len(d.numbers))
			d.numbers = appendNaN(d.numbers, out.slots())
			d.fed = append(d.fed, out)
		}
		s.add(in, d.values[id])
		in.last, in.state = d.values[id], inputLive
	}
	d.yield.samples, d.yield.histograms = d.yield.samples[:0], d.yield.histograms[:0]
	known := d.fed[:0]
	for _, out := range d.fed {
		numbers := out.among(d.numbers)
		if !out.settle(numbers) {
			out.page--
			continue
		}
		known = append(known, out)
		if out.parts == nil {
			d.yield.samples = append(d.yield.samples, Sample{Series: &out.series, Value: numbers[0]})
		} else {
			d.yield.histograms = append(d.yield.histograms, out.histogram(numbers, d))
		}
	}
	d.fed = known
}

// add brings one input's present value into the number that it feeds.
func (s *sums) add(in *input, value float64) {
	out := in.out
	number := &s.desk.numbers[out.begin+uint32(in.slot)]
	first := math.IsNaN(*number)
	switch out.family.kind {
	case counter, histogram, sumAndCount:
		if first {
			*number = out.offset(in.slot)
		} else {
			out.carry(in.slot).shared = true
		}
		*number += value
	case gauge:
		if first {
			*number = 0
		}
		*number += value
	case peak:
		if first || value > *number {
			*number = value
		}
	case moved:
		*number = s.decide(out.moves, *number, value, first)
	}
}

// decide gives a moved series its value: that of the input that changed last,
// of the highest while none has, and 0 (well) once the deployment answered after that.
func (s *sums) decide(m *moves, present, value float64, first bool) float64 {
	switch {
	case m.well:
		return 0
	case m.movedOn > 0 && s.desk.has(m.decider):
		return s.desk.values[m.decider]
	case first || value > present:
		return value
	default:
		return present
	}
}

// follow finds for each moved series the input that changed last, and the
// deployments that answered since. LiteLLM labels a deployment's state by other
// names while it is cooled down than while it answers, and never takes either
// back; it sets 0 on each success, which is no change where it was 0 before.
func (s *sums) follow() {
	for _, id := range s.desk.seen {
		if m := s.inputs[id].out.moves; m != nil {
			s.notice(m, id)
		}
	}
	for _, id := range s.desk.seen {
		in := &s.inputs[id]
		if !in.out.family.clears || in.state != inputLive || s.desk.values[id] <= in.last {
			continue
		}
		if state, ok := s.states[in.out.series.Labels.Get(labelModelID)]; ok && state.moves.movedOn != s.page {
			state.moves.well = true
		}
	}
}

// notice makes an input that changed the decider; of several the highest.
func (s *sums) notice(m *moves, id inputID) {
	in, value := &s.inputs[id], s.desk.values[id]
	if m.since == 0 {
		m.since = s.page
	}
	changed := in.state != inputNew && value != in.last || in.state == inputNew && m.since != s.page
	if !changed || m.movedOn == s.page && value <= s.desk.values[m.decider] {
		return
	}
	m.decider, m.movedOn, m.well = id, s.page, false
}

// settle finds what was passed on before and is not any more, and makes the
// present page the last one.
func (s *sums) settle() {
	d := s.desk
	d.yield.stale = d.yield.stale[:0]
	for _, out := range s.exposed {
		if out.page != s.page {
			d.yield.stale = append(d.yield.stale, &out.series)
		}
	}
	if !slices.Equal(s.live, d.seen) {
		s.live = append(s.live[:0], d.seen...)
	}
	if !slices.Equal(s.exposed, d.fed) {
		s.exposed = append(s.exposed[:0], d.fed...)
	}
}

// lose takes all series for gone and returns those that were passed on last.
func (s *sums) lose() []*Series {
	lost := make([]*Series, 0, len(s.exposed)+1) // the last round's own up is appended
	for _, out := range s.exposed {
		lost = append(lost, &out.series)
	}
	s.exposed = s.exposed[:0]
	return lost
}

// forgetOld drops what no page held since it was called last.
func (s *sums) forgetOld() {
	s.forget(func(id inputID) bool { return !s.inputs[id].held })
	for id := range s.inputs {
		s.inputs[id].held = false
	}
}

// forgetAbsent drops what the present page does not hold.
func (s *sums) forgetAbsent() {
	s.forget(func(id inputID) bool { return !s.desk.has(id) })
}

// forget drops the inputs for which it holds, and what none is left to feed.
func (s *sums) forget(old func(inputID) bool) {
	some := false
	for id := range s.inputs {
		if in := &s.inputs[id]; in.state != inputFree && old(inputID(id)) {
			*in, some = input{}, true
			s.free = append(s.free, inputID(id))
		}
	}
	if some {
		s.index = nil
		s.arrange()
	}
}

// arrange drops the outputs that no input feeds, and has those that are left
// arrange their numbers.
func (s *sums) arrange() {
	s.mixed = false
	var end uint32
	for _, out := range s.outputs {
		out.begin = end
		end += uint32(out.slots())
	}
	places := make([]slot, end)
	for id := range s.inputs {
		if in := &s.inputs[id]; in.out != nil {
			places[in.out.begin+uint32(in.slot)] = fed
		}
	}
	s.outputs = slices.DeleteFunc(s.outputs, func(out *output) bool { return !s.keep(out, places[out.begin:][:out.slots()]) })
	for id := range s.inputs {
		if in := &s.inputs[id]; in.out != nil {
			in.slot = places[in.out.begin+uint32(in.slot)]
		}
	}
}

// keep has an output arrange its numbers; false where no input feeds it.
func (s *sums) keep(out *output, places []slot) bool {
	if !slices.Contains(places, fed) {
		if s.index = nil; out.moves != nil {
			delete(s.states, out.series.Labels.Get(labelModelID))
		}
		return false
	}
	if m := out.moves; m != nil && s.inputs[m.decider].state == inputFree {
		m.movedOn = 0 // another may get its place
	}
	out.arrange(places)
	return true
}

// known is how many inputs are known.
func (s *sums) known() int { return len(s.inputs) - len(s.free) }
