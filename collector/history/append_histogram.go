package history

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"kvwatch/collector"
)

// mostCount is the largest count that a float64 and an integer both hold exactly.
const mostCount = 1 << 53

// AppendRound stores a round as Append does its samples: with its histograms,
// all in one commit.
//
// A histogram is one native histogram with custom buckets in the database,
// under its own name: that takes a third of the room and the time of a series
// for each bucket. Whoever reads the Store sees the series of the buckets, of
// the sum and of the count nevertheless. A page whose histogram makes no sense
// as one (see storable) is stored as the series that it has. In Stats and in a
// SkippedError a histogram counts as the samples that it stands for.
//
// AppendRound may be called concurrently for different series. Besides their Ref
// it sets the Labels of series that are new, to equal ones that are in memory
// already: nobody else may read those series meanwhile.
func (s *Store) AppendRound(ctx context.Context, r *collector.Round) error {
	return s.append(ctx, r, true)
}

// storable says that the histogram can be told from what a native one holds:
// its counts are whole numbers that do not fall from bucket to bucket, the last
// bucket has no bound and holds all that was counted, and the sum is a number.
func storable(h *collector.Histogram) bool {
	last := len(h.Bounds) - 1
	if last < 1 || len(h.Buckets) != len(h.Bounds) || math.IsNaN(h.Sum) || math.IsInf(h.Sum, 0) ||
		!math.IsInf(h.Bounds[last], 1) || h.Buckets[last] != h.Count || !(h.Count <= mostCount) {
		return false
	}
	bound, below := math.Inf(-1), 0.0
	for i, count := range h.Buckets {
		if !(h.Bounds[i] > bound) || !(count >= below) || count != math.Trunc(count) {
			return false
		}
		bound, below = h.Bounds[i], count
	}
	return true
}

// forms knows of each histogram how it was stored last.
type forms struct {
	mu    sync.Mutex
	of    map[*collector.Series]*form
	spans map[int][]histogram.Span
}

// form is how one histogram was stored last. Nobody but the round that holds
// the histogram looks into it.
type form struct {
	// whole are its bounds where it was stored whole, else nil.
	whole []float64
	// parts are its series where it was not.
	parts []part
}

// part is one series of a histogram that could not be stored whole.
type part struct {
	suffix string
	bound  float64 // of a bucket
	series *collector.Series
}

// find returns the form of a histogram, and the one span that n buckets are.
func (f *forms) find(s *collector.Series, n int) (*form, []histogram.Span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of, f.spans = map[*collector.Series]*form{}, map[int][]histogram.Span{}
	}
	last := f.of[s]
	if last == nil {
		last = &form{}
		f.of[s] = last
	}
	spans := f.spans[n]
	if spans == nil {
		spans = []histogram.Span{{Length: uint32(n)}}
		f.spans[n] = spans
	}
	return last, spans
}

// drop forgets a histogram, and returns the series that it was stored as.
func (f *forms) drop(s *collector.Series) []part {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.of[s]
	if last == nil {
		return nil
	}
	delete(f.of, s)
	return last.parts
}

// appendHistograms stores the histograms of a round. The database keeps of each
// series what it was given last, until the next one: so what it is given is made
// for all of a round at once.
func (r *round) appendHistograms(all []collector.Histogram) {
	buckets := 0
	for i := range all {
		buckets += len(all[i].Bounds)
	}
	natives, counts := make([]histogram.Histogram, len(all)), make([]int64, 0, buckets)
	for i := range all {
		h, n := &all[i], len(all[i].Bounds)
		last, spans := r.store.forms.find(h.Series, n)
		if !storable(h) {
			r.appendParts(h, last)
			continue
		}
		begin := len(counts)
		counts = appendNativeCounts(counts, h.Buckets)
		natives[i] = histogram.Histogram{
			Schema: histogram.CustomBucketsSchema, Count: uint64(h.Count), Sum: h.Sum,
			PositiveSpans: spans, PositiveBuckets: counts[begin:len(counts):len(counts)], CustomValues: h.Bounds[: n-1 : n-1],
		}
		r.appendNative(h.Series, &natives[i], h.Len())
		for _, p := range last.parts {
			if p.suffix == collector.BucketSuffix && !slices.Contains(h.Bounds, p.bound) {
				r.append(p.series, staleMarker())
			}
		}
		last.whole, last.parts = h.Bounds, nil
	}
}

// appendNativeCounts turns counts up to each bound into what native buckets
// hold: by how much each has more than the one below.
func appendNativeCounts(to []int64, upTo []float64) []int64 {
	var total, before int64
	for _, count := range upTo {
		own := int64(count) - total
		to = append(to, own-before)
		total, before = int64(count), own
	}
	return to
}

func (r *round) appendNative(series *collector.Series, h *histogram.Histogram, samples int) {
	cached := r.store.cachedRef(series.Ref)
	ref, err := r.app.Append(cached, series.Labels, 0, r.at, 0, h, nil, storage.AOptions{})
	r.took(series, cached, ref, samples, err)
}

// appendParts stores a histogram as the series that the page has, and ends
// those that it has no longer. Those that it goes on with have no end in their
// whole form: read together they are one.
func (r *round) appendParts(h *collector.Histogram, last *form) {
	old, now := last.parts, make([]part, 0, h.Len())
	add := func(suffix string, bound, v float64) {
		var p part
		if at := slices.IndexFunc(old, func(p part) bool { return p.suffix == suffix && p.bound == bound }); at >= 0 {
			p, old[at], old = old[at], old[0], old[1:]
		} else {
			p = newPart(h.Series, suffix, bound)
		}
		r.append(p.series, v)
		now = append(now, p)
	}
	for p := range h.Parts() {
		add(p.Suffix, p.Bound, p.Value)
	}
	for _, p := range old {
		r.append(p.series, staleMarker())
	}
	if last.whole != nil {
		r.endWhole(h, last.whole)
	}
	last.whole, last.parts = nil, now
}

// endWhole ends what a histogram had in its whole form, and has no longer.
func (r *round) endWhole(h *collector.Histogram, bounds []float64) {
	end := func(suffix string, bound float64) {
		r.append(newPart(h.Series, suffix, bound).series, staleMarker())
	}
	for _, bound := range bounds {
		if !slices.Contains(h.Bounds, bound) {
			end(collector.BucketSuffix, bound)
		}
	}
	if math.IsNaN(h.Sum) {
		end(collector.SumSuffix, 0)
	}
	if math.IsNaN(h.Count) {
		end(collector.CountSuffix, 0)
	}
}

func newPart(histogram *collector.Series, suffix string, bound float64) part {
	b := labels.NewBuilder(histogram.Labels)
	b.Set(model.MetricNameLabel, histogram.Labels.Get(model.MetricNameLabel)+suffix)
	if suffix == collector.BucketSuffix {
		b.Set(model.BucketLabel, labels.FormatOpenMetricsFloat(bound))
	}
	return part{suffix: suffix, bound: bound, series: &collector.Series{Labels: b.Labels()}}
}

// endHistogram marks the end of a histogram, in each form that it is stored in.
func (r *round) endHistogram(series *collector.Series) {
	if series.Ref != 0 {
		r.appendNative(series, &histogram.Histogram{Sum: staleMarker()}, 1)
	}
	for _, p := range r.store.forms.drop(series) {
		r.append(p.series, staleMarker())
	}
}
