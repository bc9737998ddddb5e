package rules

import (
	"math"
	"slices"
	"time"

	"kvwatch/collector"
)

// histogram is one family of one unit: what its series gained since the first
// page, in columns of a ring where windows are asked for.
type histogram struct {
	// bounds are the upper bounds in the order in which they were met; sorted
	// holds their indexes in rising order.
	bounds []float64
	sorted []int
	// buckets, sum and count are cumulative over time, resets corrected;
	// buckets are cumulative over the bounds too, as exposed.
	buckets    []float64
	sum, count float64
	// sumSkipped, countSkipped and skipped, which is by bucket, are in the
	// source's total, but were not seen to be added.
	sumSkipped, countSkipped float64
	skipped                  []float64

	// bucketColumns are by bucket. Neighbours that were the same on all pages share
	// one: most bounds are below or above all that is ever observed.
	bucketColumns          []column
	sumColumn, countColumn column
	// page is the number of the last page that had the family; lifelong says that
	// skipped is kept by bucket.
	page     int32
	lifelong bool

	// asked is the last window that was asked for, nil before the first.
	asked *askedBuckets
}

// askedBuckets is what a window of the length d, which ended at a time when the
// page was the last, gained.
type askedBuckets struct {
	bucketCounts
	at   int64
	d    time.Duration
	page int32
}

// bound returns the index of an upper bound and adds it if it is new.
func (h *histogram) bound(le float64) int {
	if i := slices.Index(h.bounds, le); i >= 0 {
		return i
	}
	h.bounds = append(h.bounds, le)
	h.buckets = append(h.buckets, 0)
	if h.lifelong {
		h.skipped = append(h.skipped, 0)
	}
	i := len(h.bounds) - 1
	at, _ := slices.BinarySearchFunc(h.sorted, le, func(j int, le float64) int {
		if h.bounds[j] < le {
			return -1
		}
		return 1
	})
	h.sorted = slices.Insert(h.sorted, at, i)
	return i
}

// storeBuckets writes the buckets into the newest page of the ring.
func (h *histogram) storeBuckets(r *ring) {
	if len(h.bucketColumns) < len(h.bounds) {
		h.addColumns(r)
	}
	for n, i := range h.sorted {
		if n > 0 {
			below := h.sorted[n-1]
			shared := h.bucketColumns[i] == h.bucketColumns[below]
			if shared && h.buckets[i] == h.buckets[below] {
				continue
			}
			if shared {
				h.part(r, n)
			}
		}
		r.put(h.bucketColumns[i], h.buckets[i])
	}
}

// addColumns gives a column to the bounds that have none: one to all on the first
// page. Those that turn up later get their own, and the others too, since they may
// be parted by them.
func (h *histogram) addColumns(r *ring) {
	if len(h.bucketColumns) == 0 {
		h.bucketColumns = slices.Repeat([]column{r.addCount()}, len(h.bounds))
		return
	}
	known := map[column]bool{}
	for i, c := range h.bucketColumns {
		if known[c] {
			h.bucketColumns[i] = r.addCopy(c)
		}
		known[c] = true
	}
	for len(h.bucketColumns) < len(h.bounds) {
		h.bucketColumns = append(h.bucketColumns, r.addCount())
	}
}

// part gives the n-th bucket from below, and those above that are still like it,
// a column of their own.
func (h *histogram) part(r *ring, n int) {
	shared := h.bucketColumns[h.sorted[n]]
	own := r.addCopy(shared)
	for _, i := range h.sorted[n:] {
		if h.bucketColumns[i] == shared {
			h.bucketColumns[i] = own
		}
	}
}

// adopt takes rising bounds, those of a page, which never change, as its first or
// instead of its own that are the same; inOrder are their indexes. Neither slice
// is its own: both are clipped, so that a bound more makes other ones.
func (h *histogram) adopt(bounds []float64, inOrder []int) {
	h.bounds, h.sorted = slices.Clip(bounds), slices.Clip(inOrder)
	h.buckets = exactly(len(bounds), h.buckets)
	if h.lifelong {
		h.skipped = exactly(len(bounds), h.skipped)
	}
}

// exactly copies what there is of n values, the rest is 0; there is no room for more.
func exactly(n int, values []float64) []float64 {
	all := make([]float64, n)
	copy(all, values)
	return all
}

// rising says whether each bound is over the one before.
func rising(bounds []float64) bool {
	for i := 1; i < len(bounds); i++ {
		if !(bounds[i] > bounds[i-1]) {
			return false
		}
	}
	return true
}

// above counts the observations over the bound le; false where there is no such bound.
func (h *histogram) above(le float64) (float64, bool) {
	i := slices.Index(h.bounds, le)
	if i < 0 {
		return 0, false
	}
	return h.count - h.buckets[i], true
}

// highest holds the highest finite bound alone, nothing where there is none.
func (h *histogram) highest() []float64 {
	for _, i := range slices.Backward(h.sorted) {
		if !math.IsInf(h.bounds[i], 1) {
			return h.bounds[i : i+1]
		}
	}
	return nil
}

// histChild is the set of series that differ in le only. Its count decides
// whether it began again: its sum may fall without (vllm-project/vllm#49135).
type histChild struct {
	unit   *unit
	family *histogram
	// last and now hold the values of the page before and of this one.
	last histValues
	now  *histValues
	at   int64
	page int32
	// bounds are those of the last page that had it whole, places the family's
	// buckets that they are.
	bounds []float64
	places []int
}

type histValues struct {
	buckets    []float64
	sum, count float64
}

// room makes the page before hold bucket i. A bucket that turns up when its child
// is known already has no value before, and gains nothing the first time.
func (c *histChild) room(i int) {
	before := 0.0
	if c.at > 0 {
		before = math.NaN()
	}
	c.last.buckets = slices.Grow(c.last.buckets, max(i+1-len(c.last.buckets), 0))
	for len(c.last.buckets) <= i {
		c.last.buckets = append(c.last.buckets, before)
	}
}

// begin begins a page with nothing on it.
func (c *histChild) begin(page int32) {
	c.page, c.family.page = page, page
	if c.now == nil {
		c.now = &histValues{}
	}
	*c.now = histValues{buckets: c.now.buckets[:0]}
	c.extend()
}

// extend makes the present page hold all buckets that are known.
func (c *histChild) extend() {
	known, had := len(c.last.buckets), len(c.now.buckets)
	if had == known {
		return
	}
	c.now.buckets = slices.Grow(c.now.buckets, known-had)[:known]
	clear(c.now.buckets[had:])
}

// fit finds the places of a page's bounds, once while they stay the same slice.
func (c *histChild) fit(h hist, bounds []float64) {
	if len(bounds) == len(c.bounds) && (len(bounds) == 0 || &bounds[0] == &c.bounds[0]) {
		return
	}
	c.bounds, c.places = bounds, c.unit.placesOf(h, bounds)
	if len(c.places) > 0 {
		c.room(slices.Max(c.places))
	}
}

// read takes the values of a page that has the histogram whole.
func (c *histChild) read(h *collector.Histogram) {
	for i, v := range h.Buckets {
		if finite(v) {
			c.now.buckets[c.places[i]] = v
		}
	}
	if finite(h.Sum) {
		c.now.sum = h.Sum
	}
	if finite(h.Count) {
		c.now.count = h.Count
	}
}

// finish adds what the page brought to the family, and says what became of its count.
func (c *histChild) finish(p pageContext) change {
	h := c.family
	if c.now.count == 0 && len(c.now.buckets) > 0 {
		c.now.count = slices.Max(c.now.buckets)
	}
	count := counter{value: c.last.count, at: c.at}
	more, skipped, what := count.step(c.now.count, p)
	h.count += more
	h.countSkipped += skipped
	switch what {
	case changeGrown:
		h.add(*c.now, c.last)
	case changeBorn, changeReset:
		h.add(*c.now, histValues{})
	case changeBaseline:
		if !p.sampled {
			h.skip(*c.now, c.last)
		}
	case changeShrunk:
	}
	copy(c.last.buckets, c.now.buckets)
	c.last.sum, c.last.count, c.at = c.now.sum, c.now.count, p.at
	return what
}

// skip notes what now has over base and was not seen to be added.
func (h *histogram) skip(now, base histValues) {
	h.sumSkipped += max(now.sum-base.sum, 0)
	if !h.lifelong {
		return
	}
	for i, v := range now.buckets {
		if !math.IsNaN(base.buckets[i]) {
			v -= base.buckets[i]
		}
		h.skipped[i] += max(v, 0)
	}
}

// add counts what now has over base; a base without buckets is zero.
func (h *histogram) add(now, base histValues) {
	h.sum += now.sum - base.sum
	for i, v := range now.buckets {
		if i < len(base.buckets) {
			if math.IsNaN(base.buckets[i]) { // it turned up just now
				if h.lifelong {
					h.skipped[i] += v
				}
				continue
			}
			v -= base.buckets[i]
		}
		h.buckets[i] += max(v, 0)
	}
}
