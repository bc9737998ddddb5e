package collector

import (
	"iter"
	"math"
)

// Histogram is one classic histogram as one page has it, whole: its buckets
// differ by nothing but their bound, so that what holds for all of them, labels
// above all, is held once.
type Histogram struct {
	// Series is the histogram's identity, as that of a Sample: its labels carry
	// the canonical name of the family, without a suffix, and no le.
	Series *Series
	// Bounds are the upper bounds of the buckets that the page has, rising, +Inf
	// the last where it has that. The slice is never changed once it was handed
	// out: while a page has the bounds of the one before, it is the same.
	Bounds []float64
	// Buckets are the cumulative counts, one for each bound.
	Buckets []float64
	// Sum and Count are those that the page states; NaN where it does not.
	Sum, Count float64
}

// HistogramPart is one series of a classic histogram.
type HistogramPart struct {
	// Suffix is that of its name: _bucket, _sum or _count.
	Suffix string
	// Bound is the upper one of a bucket, 0 for the others.
	Bound float64
	Value float64
}

// Parts lists the series that the histogram stands for, as far as the page has them.
func (h *Histogram) Parts() iter.Seq[HistogramPart] {
	return func(yield func(HistogramPart) bool) {
		for i, bound := range h.Bounds {
			if !yield(HistogramPart{BucketSuffix, bound, h.Buckets[i]}) {
				return
			}
		}
		if !math.IsNaN(h.Sum) && !yield(HistogramPart{Suffix: SumSuffix, Value: h.Sum}) {
			return
		}
		if !math.IsNaN(h.Count) {
			yield(HistogramPart{Suffix: CountSuffix, Value: h.Count})
		}
	}
}

// Len is how many series the histogram stands for.
func (h *Histogram) Len() int {
	n := len(h.Bounds)
	for _, v := range [...]float64{h.Sum, h.Count} {
		if !math.IsNaN(v) {
			n++
		}
	}
	return n
}
