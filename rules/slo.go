package rules

import (
	"fmt"
	"time"
)

// objectiveShare is the share of requests that an objective is promised to, and
// errorBudget the share that may miss it.
const (
	objectiveShare = 0.95
	errorBudget    = 1 - objectiveShare
)

// The names of the objectives, as in the configuration.
const (
	sloTTFT = "ttft_p95"
	sloITL  = "itl_p95"
)

// objective is a latency that a pool promised.
type objective struct {
	name  string
	hist  hist
	limit time.Duration
	// of is what it is promised for, each of many.
	of string
}

// objectives are those of the pool.
func (p *pool) objectives() []objective {
	var all []objective
	for _, name := range []string{sloTTFT, sloITL} {
		if o, ok := p.objective(name); ok {
			all = append(all, o)
		}
	}
	return all
}

// objective is the one of that name, false where none was promised.
func (p *pool) objective(name string) (objective, bool) {
	if p.conf == nil {
		return objective{}, false
	}
	o := objective{name: name, hist: histTTFT, limit: time.Duration(p.conf.SLO.TTFTP95), of: "request"}
	if name == sloITL {
		o.hist, o.limit, o.of = histITL, time.Duration(p.conf.SLO.ITLP95), "token"
	}
	return o, o.limit > 0
}

// noObjective says why there is nothing to hold latencies against.
func noObjective(names string) string {
	return fmt.Sprintf("the pool promises no %s: set it under slo of its entry in pools", names)
}

// countWithin is how many of a bucket's observations, between below and count,
// lie under the limit, which is between the bucket's bounds.
func countWithin(limit, low, high, below, count float64) float64 {
	if high <= low {
		return count
	}
	return below + (count-below)*min(max((limit-low)/(high-low), 0), 1)
}

// within is how many of the window's observations lie under the limit. Those
// above the last finite bound count as above it.
func (b bucketCounts) within(limit float64) float64 {
	low, below := 0.0, 0.0
	for i, count := range b.counts {
		if b.bounds[i] >= limit {
			return countWithin(limit, low, b.bounds[i], below, count)
		}
		low, below = b.bounds[i], max(below, count)
	}
	return below
}

// within is the same of all that the histogram gained since the first page.
func (h *histogram) within(limit float64) float64 {
	low, below := 0.0, 0.0
	for _, i := range h.sorted {
		if h.bounds[i] >= limit {
			return countWithin(limit, low, h.bounds[i], below, h.buckets[i])
		}
		low, below = h.bounds[i], max(below, h.buckets[i])
	}
	return below
}

// attainment is the share of the window's requests or tokens that met the
// objective, with their number and that of the engines that told.
func (w PoolWindow) attainment(o objective, d time.Duration) (share, all float64, told int) {
	met := 0.0
	for _, u := range w.pool.members {
		e := w.engine(u)
		if !e.Fresh() || !u.hasHist(o.hist) {
			continue
		}
		b := e.buckets(o.hist, d)
		told++
		met += b.within(o.limit.Seconds())
		all += b.count
	}
	if all <= 0 {
		return 0, 0, told
	}
	return min(met/all, 1), all, told
}
