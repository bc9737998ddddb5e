package collector

import (
	"maps"
	"time"
)

const (
	// returnWithin is for how many pages a fall is remembered, and returnTwice
	// within how many two returns must lie to be told.
	returnWithin = 8
	returnTwice  = 40
	// returnLeast is how many counters must come back at once, and returnShare
	// which part of those that fell together.
	returnLeast = 3
	returnShare = 0.9
)

// returns finds out from the counters alone whether several servers answer in
// turn, where their pages do not tell when they were started: as do pods behind
// one Service, whose workers share files of counters. Then counters fall
// together when another one answers, and climb by as much or more at one stroke,
// all of them at once, when the first one is back. After the loss of a worker, or
// a restart, they climb as calls come. Once may be chance; twice is not.
type returns struct {
	falls map[inputID]fall
	// last is the page of the last return.
	last uint32
	// told is when it was found out, or a return seen again; zero when not.
	told time.Time
}

// fall is what a counter had before a page, and on it.
type fall struct {
	high, low float64
	page      uint32
}

// note looks at the present page of s before it is taken.
func (r *returns) note(s *sums, at time.Time) {
	if r.cameBack(s) {
		if r.last > 0 && s.page-r.last <= returnTwice {
			r.told = at
		}
		r.last = s.page
	}
	if !r.told.IsZero() && at.Sub(r.told) >= settleAfter {
		r.told = time.Time{}
	}
	for _, id := range s.live {
		in := &s.inputs[id]
		if !s.desk.has(id) || in.state != inputLive || s.desk.values[id] >= in.last || !in.out.family.kind.counts() {
			continue
		}
		if r.falls == nil {
			r.falls = map[inputID]fall{}
		}
		r.falls[id] = fall{in.last, s.desk.values[id], s.page}
	}
}

// cameBack says whether what fell together climbs back together on this page.
func (r *returns) cameBack(s *sums) bool {
	if len(r.falls) == 0 {
		return false
	}
	back, fell := map[uint32]int{}, map[uint32]int{}
	maps.DeleteFunc(r.falls, func(id inputID, f fall) bool {
		fell[f.page]++
		value := s.desk.values[id]
		returned := s.desk.has(id) && value >= f.high && value-s.inputs[id].last >= f.high-f.low
		if returned {
			back[f.page]++
		}
		return returned || s.page-f.page >= returnWithin
	})
	for page, n := range back {
		if n >= returnLeast && float64(n) >= returnShare*float64(fell[page]) {
			return true
		}
	}
	return false
}

// takeTurns says whether several servers answer.
func (r *returns) takeTurns() bool { return !r.told.IsZero() }
