package rules

import (
	"math"
	"time"

	"kvwatch/collector"
)

// speedHist is the histogram from which tokens per second of a user are read:
// the time per output token of each request, else the time between tokens,
// unless several tokens come at once there (speculative decoding).
func (w unitWindow) speedHist() (h hist, from string, ok bool) {
	switch {
	case !w.Fresh():
		return 0, "", false
	case w.unit.hasHist(histTPOT):
		return histTPOT, "1 / " + collector.VLLMTPOT, true
	case w.unit.hasHist(histITL) && w.Increase(totalDrafts, shortWindow) == 0:
		return histITL, "1 / " + collector.VLLMITL, true
	default:
		return 0, "", false
	}
}

// noSpeed is why an engine has no speed.
const noSpeed = "the page has no " + collector.VLLMTPOT + " (vLLM before 0.11), and none to replace it"

// speed is a quantile of the tokens per second, of buckets of seconds per
// token: the fast end of the one is the low end of the other. Within the
// lowest bucket, which also holds requests of one token, it is not known.
func (b bucketCounts) speed(q float64) (float64, bool) {
	seconds, ok := b.quantile(1 - q)
	if !ok || len(b.bounds) == 0 || seconds <= b.bounds[0] {
		return 0, false
	}
	return 1 / seconds, true
}

// speeds gives the quantiles that can be told.
func (b bucketCounts) speeds() []Quantile {
	qs := make([]Quantile, 0, quantiles)
	for _, q := range summaryQuantiles() {
		if v, ok := b.speed(q); ok {
			qs = append(qs, Quantile{Q: q, Value: v})
		}
	}
	return qs
}

// speedSum is the sum of the speeds of all that the source's histogram holds,
// estimated by the middles of the buckets; the lowest counts as its bound.
func (h *histogram) speedSum() float64 {
	sum, low, below := 0.0, 0.0, 0.0
	for n, i := range h.sorted {
		all := h.buckets[i] + h.skipped[i]
		count, high := all-below, h.bounds[i]
		switch {
		case count <= 0:
		case n == 0:
			sum += count / high
		default:
			sum += count / bucketMiddle(low, high)
		}
		low, below = high, max(below, all)
	}
	return sum
}

// speedBuckets adds up the members' seconds per token; those with other buckets
// or another histogram than the first are left out.
func (w PoolWindow) speedBuckets(d time.Duration) (all bucketCounts, of []EngineWindow, from string) {
	for _, u := range w.pool.members {
		e := w.engine(u)
		h, name, ok := e.speedHist()
		if !ok || from != "" && name != from {
			continue
		}
		if b := e.buckets(h, d); !b.possible() || !all.add(b) {
			continue
		}
		from = name
		of = append(of, e)
	}
	return all, of, from
}

// speedSummary makes the summary of a window's buckets and the cumulative sums
// of the units that they are of.
func speedSummary(b bucketCounts, of ...unitWindow) *Summary {
	s, count := &Summary{Quantiles: b.speeds()}, 0.0
	for _, w := range of {
		h, _, _ := w.speedHist()
		s.Sum += w.unit.hists[h].speedSum()
		count += w.unit.hists[h].count + w.unit.hists[h].countSkipped
	}
	s.Count = uint64(math.Round(count))
	return s
}
