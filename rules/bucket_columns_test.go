package rules

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestBucketsShareColumns plays random lives of a histogram, of which bounds may
// turn up late and counts may be too large for a ring's counts, and holds what
// windows tell of each bucket against its values on all pages.
func TestBucketsShareColumns(t *testing.T) {
	t.Parallel()
	shared, late := 0, 0
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		h, wasLate := playBuckets(t, rnd)
		slices.SortFunc(h.bucketColumns, func(a, b column) int { return int(a.number - b.number) })
		if len(slices.Compact(h.bucketColumns)) < len(h.bounds) {
			shared++
		}
		if wasLate {
			late++
		}
	}
	if shared < 20 || late < 20 {
		t.Errorf("%d lives shared a column at their end, and %d had bounds that came late", shared, late)
	}
}

func playBuckets(t *testing.T, rnd *rand.Rand) (h *histogram, late bool) {
	t.Helper()
	r, at := newRing(10*time.Minute), testStart.UnixMilli()
	h = &histogram{}
	for i := range 8 {
		h.bound(float64(2 * (i + 1)))
	}
	low, high := rnd.IntN(8), 1+rnd.IntN(8) // what is observed lies between them
	many, mayBeLate := rnd.IntN(3) == 0, rnd.IntN(2) == 0
	var times []int64
	var pages [][]float64
	for range 100 {
		at += step.Milliseconds()
		if mayBeLate && rnd.IntN(50) == 0 {
			before := len(h.bounds)
			h.bound(float64(2*rnd.IntN(9) + 1))
			late = late || len(h.bounds) > before
		}
		if rnd.IntN(3) == 0 {
			more := float64(1 + rnd.IntN(100))
			if many {
				more *= 1 << 27
			}
			for v, n := float64(2*(low+rnd.IntN(high))), 0; n < len(h.sorted); n++ {
				if i := h.sorted[n]; v <= h.bounds[i] {
					h.buckets[i] += more
				}
			}
		}
		r.push(at)
		h.storeBuckets(r)
		times, pages = append(times, at), append(pages, slices.Clone(h.buckets))
		checkBuckets(t, r, h, times, pages, at-rnd.Int64N(r.horizon))
	}
	return h, late
}

// checkBuckets looks at the window from then on.
func checkBuckets(t *testing.T, r *ring, h *histogram, times []int64, pages [][]float64, from int64) {
	t.Helper()
	last := len(pages) - 1
	first := max(last+1-r.n, 0)
	for first < last && times[first+1] <= from {
		first++
	}
	before, newest := r.between(from, times[last])
	got := r.gains(nil, h.bucketColumns, h.sorted, before, newest)
	for n, i := range h.sorted {
		was := 0.0 // before the bound turned up
		if i < len(pages[first]) {
			was = pages[first][i]
		}
		if want := pages[last][i] - was; got[n] != want || math.IsNaN(want) {
			t.Fatalf("bucket %d of %v gained %g, want %g", n, h.bounds, got[n], want)
		}
	}
}
