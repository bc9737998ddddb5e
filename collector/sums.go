package collector

import (
	"math"
	"slices"

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
)

// An input is one exposed series, known by the hash of its text before the
// value. Its labels are not kept: they may be personal.
type input struct {
	// out is nil for a series that is recognised and left out.
	out  *output
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

type inputState uint8

const (
	inputNew  inputState = iota // not counted yet
	inputLive                   // counted on the last page
	inputGone                   // counted once, but not on the last page
)

// An output is one series that is passed on, fed by one input or several.
type output struct {
	series Series
	family *family
	// value is the present one; that of counts is the inputs' sum plus offset.
	// before is the one of the page before.
	value, before float64
	// offset is what is missing from the sum because inputs vanished or fell.
	offset float64
	// page is the number of the page that fed it last.
	page uint32
	// shared says that more than one input fed it at once.
	shared bool
	// Of a moved series: decider is the input that it follows, movedOn the page
	// on which that changed, since the first page of the process, and well says
	// that the deployment answered since.
	decider        *input
	movedOn, since uint32
	well           bool
}

// sums keeps all series of one target from page to page.
type sums struct {
	inputs  map[uint64]*input
	outputs map[uint64]*output
	// states finds a deployment's state by its model_id.
	states map[string]*output
	// page is the number of the present page.
	page uint32
	// seen are the present page's inputs in their order, live those of the last page taken.
	seen, live []*input
	// next is where in live the next line's input should be: pages keep their order.
	next int
	// exposed are the outputs passed on last, fed those of the present page.
	exposed, fed []*output
	stale        []*Series
	samples      []Sample
}

func newSums() *sums {
	return &sums{inputs: map[uint64]*input{}, outputs: map[uint64]*output{}, states: map[string]*output{}}
}

// begin starts a page. What an earlier page left behind without being taken is dropped.
func (s *sums) begin() {
	s.page++
	s.seen = s.seen[:0]
	s.next = 0
}

// find gives the input of a series, nil when it was not seen before.
func (s *sums) find(series uint64) *input {
	if s.next < len(s.live) && s.live[s.next].series == series {
		s.next++
		return s.live[s.next-1]
	}
	in, ok := s.inputs[series]
	if !ok {
		return nil
	}
	s.next = int(in.place) + 1
	return in
}

// admit makes a series known.
func (s *sums) admit(series uint64, in *input) {
	in.series = series
	s.inputs[series] = in
}

// see notes the value of a known input; false when the page already held it.
func (s *sums) see(in *input, value float64) bool {
	if in.page == s.page {
		return false
	}
	in.page, in.cur, in.place = s.page, value, uint32(len(s.seen))
	s.seen = append(s.seen, in)
	return true
}

// outputOf finds or makes the series with these labels.
func (s *sums) outputOf(lset labels.Labels, f *family) *output {
	for h := lset.Hash(); ; h++ {
		out, ok := s.outputs[h]
		if !ok {
			out = &output{series: Series{Labels: lset}, family: f}
			s.outputs[h] = out
			if f.kind == moved {
				s.states[lset.Get(labelModelID)] = out
			}
			return out
		}
		if labels.Equal(out.series.Labels, lset) {
			return out
		}
	}
}

// take makes the present page the last one: it sums the inputs for which
// wanted holds (all, where it is nil) into samples and finds what went stale.
// known says that the process' start is exposed, restarted that it is another
// one; where it is not exposed a restart is told from the counters. It returns
// whether there was one.
func (s *sums) take(wanted func(*input) bool, known, restarted bool) bool {
	if wanted != nil {
		s.leaveOut(wanted)
	}
	if !known {
		restarted = s.fellTogether()
	}
	if restarted {
		s.restart()
	}
	s.rebase()
	s.sum()
	s.settle()
	s.live, s.seen = s.seen, s.live
	if s.page%forgetPages == 0 {
		s.forget(forgetPages)
	}
	return restarted
}

// leaveOut drops the inputs of the present page that are not wanted.
func (s *sums) leaveOut(wanted func(*input) bool) {
	kept := s.seen[:0]
	for _, in := range s.seen {
		if wanted(in) {
			kept = append(kept, in)
		} else {
			in.state = inputNew
		}
	}
	s.seen = kept
}

// fellTogether says whether the counters of a page start anew.
func (s *sums) fellTogether() bool {
	all, fell := 0, 0
	for _, in := range s.live {
		if !in.out.family.kind.counts() || in.last <= 0 {
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
		out.offset = 0
		out.decider, out.movedOn, out.since, out.well = nil, 0, 0, false
	}
	for _, in := range s.inputs {
		in.state = inputNew
	}
	s.live = s.live[:0]
}

// rebase keeps sums from falling where inputs fell or vanished while the process lives.
func (s *sums) rebase() {
	for _, in := range s.seen {
		in.out.offset += in.lost()
	}
	for _, in := range s.live {
		if in.page == s.page || in.state != inputLive {
			continue
		}
		in.state = inputGone
		if in.out.accumulates() {
			in.out.offset += in.last
		}
	}
}

// lost is what the sum would lose by this input alone.
func (in *input) lost() float64 {
	if !in.out.accumulates() {
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

// accumulates says whether the output must outlive its inputs.
func (out *output) accumulates() bool {
	f := out.family
	return f.kind.counts() && (out.shared || f.source != nil && f.source.accumulates)
}

// sum adds up the page's inputs and sets samples and fed.
func (s *sums) sum() {
	s.follow()
	s.fed, s.samples = s.fed[:0], s.samples[:0]
	for _, in := range s.seen {
		out := in.out
		if out.page != s.page {
			s.fed = append(s.fed, out)
		}
		out.add(in, s.page)
		in.last, in.state = in.cur, inputLive
	}
	finite := s.fed[:0]
	for _, out := range s.fed {
		if math.IsInf(out.value, 0) { // finite inputs can still add up to more than there is
			out.page--
			continue
		}
		if slip := out.before - out.value; slip > 0 && slip < rounding*out.before && out.accumulates() {
			out.value = out.before
		}
		out.before = out.value
		finite = append(finite, out)
		s.samples = append(s.samples, Sample{Series: &out.series, Value: out.value})
	}
	s.fed = finite
	s.samples = slices.Grow(s.samples, 1) // the round's own up is appended
}

// add brings one input's present value into the output's.
func (out *output) add(in *input, page uint32) {
	first := out.page != page
	out.page = page
	switch out.family.kind {
	case counter, histogram, sumAndCount, gauge:
		if first {
			out.value = out.offset
		}
		out.shared = out.shared || !first
		out.value += in.cur
	case peak:
		if first || in.cur > out.value {
			out.value = in.cur
		}
	case moved:
		out.decide(in, first)
	}
}

// decide gives a moved series its value: that of the input that changed last,
// of the highest while none has, and 0 (well) once the deployment answered after that.
func (out *output) decide(in *input, first bool) {
	following := out.decider != nil && out.decider.page == out.page
	switch {
	case out.well:
		out.value = 0
	case following:
		out.value = out.decider.cur
	case first || in.cur > out.value:
		out.value = in.cur
	}
}

// follow finds for each moved series the input that changed last, and the
// deployments that answered since. LiteLLM labels a deployment's state by other
// names while it is cooled down than while it answers, and never takes either
// back; it sets 0 on each success, which is no change where it was 0 before.
func (s *sums) follow() {
	for _, in := range s.seen {
		if in.out.family.kind == moved {
			in.out.notice(in, s.page)
		}
	}
	for _, in := range s.seen {
		if !in.out.family.clears || in.state != inputLive || in.cur <= in.last {
			continue
		}
		if state, ok := s.states[in.out.series.Labels.Get(labelModelID)]; ok && state.movedOn != s.page {
			state.well = true
		}
	}
}

// notice makes an input that changed the decider; of several the highest.
func (out *output) notice(in *input, page uint32) {
	if out.since == 0 {
		out.since = page
	}
	changed := in.state != inputNew && in.cur != in.last || in.state == inputNew && out.since != page
	if !changed || out.movedOn == page && in.cur <= out.decider.cur {
		return
	}
	out.decider, out.movedOn, out.well = in, page, false
}

// settle finds what was passed on before and is not any more.
func (s *sums) settle() {
	s.stale = s.stale[:0]
	for _, out := range s.exposed {
		if out.page != s.page {
			s.stale = append(s.stale, &out.series)
		}
	}
	s.exposed, s.fed = s.fed, s.exposed
}

// lose takes all series for gone and returns those that were passed on last.
func (s *sums) lose() []*Series {
	s.stale = s.stale[:0]
	for _, out := range s.exposed {
		s.stale = append(s.stale, &out.series)
	}
	s.exposed = s.exposed[:0]
	return s.stale
}

// forget drops what no page held for as many pages.
func (s *sums) forget(pages uint32) {
	held := make(map[*output]bool, len(s.outputs))
	for h, in := range s.inputs {
		if s.page-in.page >= pages {
			delete(s.inputs, h)
		} else if in.out != nil {
			held[in.out] = true
		}
	}
	for h, out := range s.outputs {
		if held[out] {
			continue
		}
		delete(s.outputs, h)
		if out.family.kind == moved {
			delete(s.states, out.series.Labels.Get(labelModelID))
		}
	}
}
