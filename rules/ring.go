package rules

import (
	"math"
	"sort"
	"time"
)

// ring keeps one value per page and column for the last pages of a target. All
// columns share the pages' times. It grows until it spans its horizon and then
// stays as it is, so that a steady state allocates nothing.
type ring struct {
	// horizon is how far back it must reach, in milliseconds.
	horizon int64
	// times are the pages' times in Unix milliseconds, circular.
	times   []int64
	start   int
	n       int
	columns []*column
	// asked remembers the last answers of upTo: within one Eval the same few
	// windows are asked for again and again.
	asked [4]struct {
		t int64
		n int
	}
	next int
}

// column holds one value per page of its ring: a cumulative sum or a gauge.
type column struct {
	values []float64
	// empty is what pages before the column's first value hold.
	empty float64
}

const firstRingSize = 16

func newRing(horizon time.Duration) *ring {
	return &ring{horizon: horizon.Milliseconds(), times: make([]int64, firstRingSize)}
}

// addColumn adds a column; pages that are there already hold empty.
func (r *ring) addColumn(empty float64) *column {
	c := &column{values: make([]float64, len(r.times)), empty: empty}
	c.fill(0)
	r.columns = append(r.columns, c)
	return c
}

func (c *column) fill(from int) {
	if c.empty == 0 {
		return
	}
	for i := from; i < len(c.values); i++ {
		c.values[i] = c.empty
	}
}

// push makes room for a page and returns its index for set.
func (r *ring) push(at int64) int {
	switch {
	case r.n < len(r.times):
		r.n++
	case at-r.times[r.start] <= r.horizon:
		r.grow()
		r.n++
	default:
		r.start = (r.start + 1) % len(r.times)
	}
	i := r.slot(r.n - 1)
	r.times[i] = at
	clear(r.asked[:])
	for _, c := range r.columns {
		c.values[i] = c.empty
	}
	return i
}

func (r *ring) grow() {
	size := 2 * len(r.times)
	times := make([]int64, size)
	for i := range r.n {
		times[i] = r.times[r.slot(i)]
	}
	for _, c := range r.columns {
		values := make([]float64, size)
		for i := range r.n {
			values[i] = c.values[r.slot(i)]
		}
		c.values = values
		c.fill(r.n)
	}
	r.times, r.start = times, 0
}

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
func (r *ring) increase(c *column, from, to int64) float64 {
	if c == nil || r.n == 0 {
		return 0
	}
	first, last := r.upTo(from), r.upTo(to)
	if first == last {
		return 0
	}
	return c.values[r.slot(last-1)] - c.values[r.slot(max(first-1, 0))]
}

// gaugeAt is c's value on the newest page at or before t, unless that page is
// older than age or did not have it.
func (r *ring) gaugeAt(c *column, t, age int64) (float64, bool) {
	if c == nil {
		return 0, false
	}
	i := r.upTo(t)
	if i == 0 {
		return 0, false
	}
	slot := r.slot(i - 1)
	v := c.values[slot]
	return v, t-r.times[slot] <= age && !math.IsNaN(v)
}
