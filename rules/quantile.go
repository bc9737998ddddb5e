package rules

import (
	"math"
	"slices"
	"time"
)

// summaryWindow is the span that quantiles speak of.
const summaryWindow = 5 * time.Minute

// quantiles is how many a summary has.
const quantiles = 4

// summaryQuantiles are the quantiles of a summary.
func summaryQuantiles() [quantiles]float64 { return [quantiles]float64{0.5, 0.9, 0.95, 0.99} }

// bucketCounts is what a histogram's buckets gained in a window, cumulative,
// in rising order of their bounds. The slices are valid until the next Eval.
type bucketCounts struct {
	bounds []float64
	counts []float64
	sum    float64
	count  float64
}

// buckets adds up what the histogram h of the unit gained in the window.
func (w unitWindow) buckets(h hist, d time.Duration) bucketCounts {
	f := w.unit.hists[h]
	if f == nil {
		return bucketCounts{}
	}
	// Engine and pool ask for the same window within one Eval.
	if f.asked == nil {
		f.asked = &askedBuckets{}
	}
	page := w.unit.target.page
	if f.asked.at == w.ms && f.asked.d == d && f.asked.page == page {
		return f.asked.bucketCounts
	}
	b := bucketCounts{bounds: f.asked.bounds, counts: f.asked.counts[:0], sum: w.HistSum(h, d), count: w.HistCount(h, d)}
	switch {
	case len(b.bounds) == len(f.sorted):
	case rising(f.bounds):
		b.bounds = f.bounds
	default:
		b.bounds = nil
		for _, i := range f.sorted {
			b.bounds = append(b.bounds, f.bounds[i])
		}
	}
	r := w.unit.target.short
	before, last := r.between(w.ms-d.Milliseconds(), w.ms)
	b.counts = r.gains(b.counts, f.bucketColumns, f.sorted, before, last)
	*f.asked = askedBuckets{bucketCounts: b, at: w.ms, d: d, page: page}
	return b
}

// add adds another unit's counts; it says false where the bounds differ.
func (b *bucketCounts) add(o bucketCounts) bool {
	if b.bounds == nil {
		*b = o
		b.counts = slices.Clone(o.counts)
		return true
	}
	if len(o.bounds) != len(b.bounds) {
		return false
	}
	for i := range o.bounds {
		if o.bounds[i] != b.bounds[i] {
			return false
		}
	}
	for i := range o.counts {
		b.counts[i] += o.counts[i]
	}
	b.sum += o.sum
	b.count += o.count
	return true
}

// possible says whether sum and count can be those of one window: engines that
// are paused or shut down record intervals as long as the host's uptime.
func (b bucketCounts) possible() bool {
	if b.sum < 0 {
		return false
	}
	for _, bound := range slices.Backward(b.bounds) {
		if !math.IsInf(bound, 1) {
			return b.count <= 0 || b.sum/b.count <= bound
		}
	}
	return true
}

// quantile interpolates within the bucket that holds it. Above the last finite
// bound it is not known. Below the lowest bound nothing is interpolated: all
// that is known is that it is not above that (vLLM's lowest bucket of queue and
// prefill times ends at 0.3 s, vllm-project/vllm#34370), and the bound is told.
func (b bucketCounts) quantile(q float64) (float64, bool) {
	if len(b.counts) == 0 {
		return 0, false
	}
	all := b.counts[len(b.counts)-1]
	if all <= 0 {
		return 0, false
	}
	rank := q * all
	low, below := 0.0, 0.0
	for i, c := range b.counts {
		if c >= rank && c > below {
			if math.IsInf(b.bounds[i], 1) {
				return 0, false
			}
			if i == 0 {
				return b.bounds[0], true
			}
			return low + (b.bounds[i]-low)*(rank-below)/(c-below), true
		}
		low, below = b.bounds[i], max(below, c)
	}
	return 0, false
}

// summary gives the quantiles that can be told.
func (b bucketCounts) summary() []Quantile {
	qs := make([]Quantile, 0, quantiles)
	for _, q := range summaryQuantiles() {
		if v, ok := b.quantile(q); ok {
			qs = append(qs, Quantile{Q: q, Value: v})
		}
	}
	return qs
}
