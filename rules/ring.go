package rules

import (
	"math"
	"sort"
	"time"
)

// ring keeps one value per page and column for the last pages of a target. All
// columns share the pages' times, and a page's values lie side by side, because
// windows are asked for many columns between the same two pages. It grows until
// it spans its horizon and then stays as it is, so that a steady state
// allocates nothing.
type ring struct {
	// horizon is how far back it must reach, in milliseconds.
	horizon int64
	// times are the pages' times in Unix milliseconds, circular; start is the
	// oldest of n.
	times []int64
	start int
	n     int
	// rows holds stride values for each of times.
	rows   []float64
	stride int
	// empty is what each column holds on pages that did not have it.
	empty []float64
	// asked remembers the last answers of upTo: within one Eval the same few
	// windows are asked for again and again.
	asked [4]struct {
		t int64
		n int
	}
	next int
	// span is the last window that increase was asked for, and the slots of the
	// pages that it lies between: many columns are asked for the same one.
	span struct {
		known        bool
		from, to     int64
		before, last int
	}
}

// column is a column of a ring: a cumulative sum or a gauge. The zero value is none.
type column struct {
	// number counts from 1.
	number int
}

const (
	firstRingSize = 16
	// strideStep is by how many columns a ring grows.
	strideStep = 8
)

func newRing(horizon time.Duration) *ring {
	return &ring{horizon: horizon.Milliseconds(), times: make([]int64, firstRingSize)}
}

// reach makes the ring reach back so far, at least.
func (r *ring) reach(horizon time.Duration) {
	r.horizon = max(r.horizon, horizon.Milliseconds())
}

// addColumn adds a column; pages that are there already hold empty.
func (r *ring) addColumn(empty float64) column {
	if len(r.empty) == r.stride {
		r.move(len(r.times), r.stride+strideStep)
	}
	r.empty = append(r.empty, empty)
	c := column{number: len(r.empty)}
	for i := range r.n {
		r.set(c, r.slot(i), empty)
	}
	return c
}

// move lays the pages out anew.
func (r *ring) move(size, stride int) {
	times, rows := make([]int64, size), make([]float64, size*stride)
	for i := range r.n {
		from := r.slot(i)
		times[i] = r.times[from]
		copy(rows[i*stride:], r.rows[from*r.stride:(from+1)*r.stride])
	}
	r.times, r.rows, r.stride, r.start = times, rows, stride, 0
	r.span.known = false
}

// push makes room for a page and returns its slot for set.
func (r *ring) push(at int64) int {
	switch {
	case r.n < len(r.times):
		r.n++
	case at-r.times[r.start] <= r.horizon:
		r.move(2*len(r.times), r.stride)
		r.n++
	default:
		r.start = (r.start + 1) % len(r.times)
	}
	i := r.slot(r.n - 1)
	r.times[i] = at
	clear(r.asked[:])
	r.span.known = false
	copy(r.rows[i*r.stride:], r.empty)
	return i
}

// get and set reach the value of a column on the page in a slot.
func (r *ring) get(c column, slot int) float64 { return r.rows[slot*r.stride+c.number-1] }

// row holds the values of the page in a slot, by column.
func (r *ring) row(slot int) []float64 { return r.rows[slot*r.stride : (slot+1)*r.stride] }

func (r *ring) set(c column, slot int, v float64) { r.rows[slot*r.stride+c.number-1] = v }

// slot is where the i-th page (0 is the oldest) lies.
func (r *ring) slot(i int) int {
	if i += r.start; i >= len(r.times) {
		i -= len(r.times)
	}
	return i
}

// last is the time of the newest page, 0 when there is none.
func (r *ring) last() int64 {
	if r.n == 0 {
		return 0
	}
	return r.times[r.slot(r.n-1)]
}

// upTo counts the pages at or before t.
func (r *ring) upTo(t int64) int {
	if r.n == 0 || r.last() <= t {
		return r.n
	}
	for i := range r.asked {
		if r.asked[i].t == t {
			return r.asked[i].n
		}
	}
	n := sort.Search(r.n, func(i int) bool { return r.times[r.slot(i)] > t })
	r.asked[r.next].t, r.asked[r.next].n = t, n
	r.next = (r.next + 1) % len(r.asked)
	return n
}

// increase is what the cumulative column c gained on the pages in (from, to].
// A window that reaches back before the oldest page counts from that page on.
func (r *ring) increase(c column, from, to int64) float64 {
	if c.number == 0 || r.n == 0 {
		return 0
	}
	if s := &r.span; !s.known || s.from != from || s.to != to {
		first, last := r.upTo(from), r.upTo(to)
		s.known, s.from, s.to = true, from, to
		s.before, s.last = r.slot(max(first-1, 0)), r.slot(max(last-1, 0))
		if first == last {
			s.last = s.before
		}
	}
	if r.span.last == r.span.before {
		return 0
	}
	return r.get(c, r.span.last) - r.get(c, r.span.before)
}

// gaugeAt is c's value on the newest page at or before t, unless that page is
// older than age or did not have it.
func (r *ring) gaugeAt(c column, t, age int64) (float64, bool) {
	if c.number == 0 {
		return 0, false
	}
	i := r.upTo(t)
	if i == 0 {
		return 0, false
	}
	slot := r.slot(i - 1)
	v := r.get(c, slot)
	return v, t-r.times[slot] <= age && !math.IsNaN(v)
}
