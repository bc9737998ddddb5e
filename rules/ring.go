package rules

import (
	"math"
	"time"
)

// ring keeps one value per page and column for the last pages of a target. All
// columns share the pages' times, and a page's values lie side by side, because
// windows are asked for many columns between the same two pages. It grows until
// it spans its horizon and then stays as it is, so that a steady state
// allocates nothing; it is no larger than it must be, since there are a thousand.
type ring struct {
	// horizon is how far back it must reach, in milliseconds.
	horizon int64
	// times are the pages' times in milliseconds since epoch, which is in Unix
	// milliseconds, circular; start is the oldest of n.
	times []uint32
	epoch int64
	start int
	n     int
	// values holds gauges and sums, and empty what each of its columns holds on
	// pages that did not have it.
	values rows[float64]
	empty  []float64
	// counts holds what is counted in whole numbers, which takes half the room;
	// odd are those of its columns that are more than 32 bits from 0, by index.
	counts rows[uint32]
	odd    map[int32]oddCount
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
	// number counts from 1 among the values, down from -1 among the counts.
	number int32
}

// oddCount says how a column of counts is held that is no plain one.
type oddCount struct {
	// base is what its counts are over.
	base float64
	// wide is the column of values that took its place, where there is one.
	wide column
}

const (
	firstRingSize = 16
	// spareRingSize is how many pages a ring grows by at least: scrapes are not
	// evenly apart, and a window begins on the page before.
	spareRingSize = 3
)

func newRing(horizon time.Duration) *ring {
	return &ring{horizon: horizon.Milliseconds(), times: make([]uint32, firstRingSize)}
}

// reach makes the ring reach back so far, at least.
func (r *ring) reach(horizon time.Duration) {
	r.horizon = max(r.horizon, horizon.Milliseconds())
}

// addColumn adds a column; pages that are there already hold empty.
func (r *ring) addColumn(empty float64) column {
	i := r.values.add(len(r.times))
	r.empty = append(r.empty, empty)
	for slot := range r.times {
		r.values.of(slot)[i] = empty
	}
	return column{number: int32(i + 1)}
}

// addCount adds a column for a number that grows, and is whole but for rare
// exceptions; pages that are there already hold 0.
func (r *ring) addCount() column {
	return column{number: int32(-1 - r.counts.add(len(r.times)))}
}

// addCopy adds a column that holds what a column of counts does on the pages that
// are there already.
func (r *ring) addCopy(of column) column {
	more := r.addCount()
	from, to := -1-of.number, -1-more.number
	for slot := range r.times {
		row := r.counts.of(slot)
		row[to] = row[from]
	}
	k, odd := r.odd[from]
	if !odd {
		return more
	}
	if wide := k.wide; wide.number != 0 {
		k.wide = r.addColumn(0)
		for slot := range r.times {
			r.set(k.wide, slot, r.get(wide, slot))
		}
	}
	r.odd[to] = k
	return more
}

// grow lays the pages out anew, in order, with room for size.
func (r *ring) grow(size int) {
	times := make([]uint32, size)
	for i := range r.n {
		times[i] = r.times[r.slot(i)]
	}
	r.values.move(r.n, size, r.values.columns, r.slot)
	r.counts.move(r.n, size, r.counts.columns, r.slot)
	r.times, r.start = times, 0
}

// push makes room for a page. Until they are set, values are empty and counts are those of the page before.
func (r *ring) push(at int64) {
	before := r.slot(max(r.n-1, 0))
	switch {
	case r.n < len(r.times):
		r.n++
	case at-r.time(r.start) <= r.horizon:
		before = r.n - 1
		r.grow(r.needed(at))
		r.n++
	default:
		r.start = (r.start + 1) % len(r.times)
	}
	i := r.slot(r.n - 1)
	r.setTime(i, at)
	clear(r.asked[:])
	r.span.known = false
	copy(r.values.of(i), r.empty)
	copy(r.counts.of(i), r.counts.of(before))
}

// needed is for how many pages a full ring needs room when one more comes at
// that time: as many as span the horizon, if those to come are as far apart as
// those that are there, but twice as many as there are at most.
func (r *ring) needed(at int64) int {
	span := max(at-r.time(r.start), 1)
	whole := r.horizon*int64(r.n)/span + spareRingSize
	return r.n + int(min(max(whole-int64(r.n), spareRingSize), int64(r.n)))
}

// get and set reach the value of a column on the page in a slot.
func (r *ring) get(c column, slot int) float64 {
	if c.number > 0 {
		return r.values.cells[slot*r.values.stride+int(c.number)-1]
	}
	i := -1 - c.number
	over := float64(r.counts.cells[slot*r.counts.stride+int(i)])
	if len(r.odd) == 0 {
		return over
	}
	k := r.odd[i]
	if k.wide.number != 0 {
		return r.get(k.wide, slot)
	}
	return k.base + over
}

func (r *ring) set(c column, slot int, v float64) {
	if c.number > 0 {
		r.values.of(slot)[c.number-1] = v
		return
	}
	i := -1 - c.number
	k := r.odd[i]
	if k.wide.number != 0 {
		r.set(k.wide, slot, v)
		return
	}
	if over, ok := asCount(v - k.base); ok {
		r.counts.of(slot)[i] = over
		return
	}
	r.makeRoom(i, v)
	r.set(c, slot, v)
}

// asCount is v where it can be held as a count.
func asCount(v float64) (uint32, bool) {
	if v < 0 || v > math.MaxUint32 {
		return 0, false
	}
	n := uint32(v)
	return n, float64(n) == v
}

// makeRoom lets a column of counts hold v: over a higher base, that of the oldest
// page, or, where v is not whole or too far from that, as values.
func (r *ring) makeRoom(i int32, v float64) {
	if r.odd == nil {
		r.odd = map[int32]oddCount{}
	}
	k := r.odd[i]
	least := r.counts.of(r.start)[i]
	if _, ok := asCount(v - k.base - float64(least)); ok {
		k.base += float64(least)
		r.odd[i] = k
		for j := range r.n {
			r.counts.of(r.slot(j))[i] -= least
		}
		return
	}
	wide := r.addColumn(0)
	for j := range r.n {
		slot := r.slot(j)
		r.set(wide, slot, k.base+float64(r.counts.of(slot)[i]))
	}
	k.wide = wide
	r.odd[i] = k
}

// put sets the value of a column on the newest page.
func (r *ring) put(c column, v float64) { r.set(c, r.slot(r.n-1), v) }

// time is that of the page in a slot, in Unix milliseconds.
func (r *ring) time(slot int) int64 { return r.epoch + int64(r.times[slot]) }

// setTime notes that the newest page, which is in that slot, is of that time.
func (r *ring) setTime(slot int, at int64) {
	if at-r.epoch > math.MaxUint32 {
		r.moveEpoch(at - math.MaxUint32/2)
	}
	r.times[slot] = uint32(at - r.epoch)
}

// moveEpoch makes times count from another epoch. Pages of before, which are weeks
// old and further back than any window, count as if they were of that time.
func (r *ring) moveEpoch(to int64) {
	for i, t := range r.times {
		r.times[i] = uint32(max(r.epoch+int64(t)-to, 0))
	}
	r.epoch = to
}

// slot is where the i-th page (0 is the oldest) lies.
func (r *ring) slot(i int) int {
	if i += r.start; i >= len(r.times) {
		i -= len(r.times)
	}
	return i
}

// first is the time of the oldest page, 0 when there is none.
func (r *ring) first() int64 {
	if r.n == 0 {
		return 0
	}
	return r.time(r.start)
}

// last is the time of the newest page, 0 when there is none.
func (r *ring) last() int64 {
	if r.n == 0 {
		return 0
	}
	return r.time(r.slot(r.n - 1))
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
	n, above := 0, r.n
	for n < above {
		if middle := (n + above) / 2; r.time(r.slot(middle)) <= t {
			n = middle + 1
		} else {
			above = middle
		}
	}
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
	before, last := r.between(from, to)
	if last == before {
		return 0
	}
	return r.get(c, last) - r.get(c, before)
}

// gains appends what columns of counts gained from one page to another, which are
// in the given slots; order are the indexes of the columns.
func (r *ring) gains(to []float64, columns []column, order []int, before, last int) []float64 {
	if len(r.odd) > 0 {
		for _, i := range order {
			to = append(to, r.get(columns[i], last)-r.get(columns[i], before))
		}
		return to
	}
	old, now := r.counts.of(before), r.counts.of(last)
	for _, i := range order {
		c := -1 - columns[i].number
		to = append(to, float64(now[c])-float64(old[c]))
	}
	return to
}

// between is the slots of the pages that the window (from, to] lies between.
func (r *ring) between(from, to int64) (before, last int) {
	if s := &r.span; !s.known || s.from != from || s.to != to {
		first, last := r.upTo(from), r.upTo(to)
		s.known, s.from, s.to = true, from, to
		s.before, s.last = r.slot(max(first-1, 0)), r.slot(max(last-1, 0))
		if first == last {
			s.last = s.before
		}
	}
	return r.span.before, r.span.last
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
	return v, t-r.time(slot) <= age && !math.IsNaN(v)
}
