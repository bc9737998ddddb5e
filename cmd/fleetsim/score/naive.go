package score

import (
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"

	"kvwatch/collector"
)

// The rules that people write today.
const (
	naiveHit5m = "hit_5m < 80 % for 5 min"
	naiveHit1h = "hit_1h < 80 % for 5 min"
	naiveKV    = "KV > 0.9 for 2 min"
	naiveTTFT  = "TTFT P95 5m > 10 s for 5 min"
)

const (
	naiveHit     = 0.8
	naiveUsage   = 0.9
	naiveSeconds = 10
	shortRange   = 5 * time.Minute
	longRange    = time.Hour
)

// naive judges the naive rules by what Prometheus would have scraped: sums of
// increases over all engines.
type naive struct {
	engines  map[string]*naiveEngine
	interval time.Duration
	// increases are those of the scrapes of the last hour, next the oldest one.
	increases []naiveIncrease
	next      int
	now       naiveIncrease
	usage     float64
	// bounds are those of the histogram, alike on all engines.
	bounds []float64
	rules  map[string]*naiveRule
}

// naiveIncrease is by how much the pool's counters grew from one scrape to the next.
type naiveIncrease struct {
	queries, hits float64
	ttft          []float64
}

// naiveEngine is what stood on one engine's page before.
type naiveEngine struct {
	places     []naivePlace
	histograms []naiveHistogram
	// samples and whole are how many samples and histograms were on the page.
	samples, whole int
	queries, hits  float64
	ttft           []float64
	known          bool
}

// naivePlace is where on a page a series stands.
type naivePlace struct {
	index  int
	series *collector.Series
	what   string
}

// naiveHistogram is where on a page a histogram of times to first token stands.
type naiveHistogram struct {
	index   int
	series  *collector.Series
	buckets int
}

// naiveRule is one rule with its hold.
type naiveRule struct {
	hold  time.Duration
	since time.Duration
	holds bool
	fires []fire
}

func newNaive(interval time.Duration) *naive {
	return &naive{
		engines: map[string]*naiveEngine{}, increases: make([]naiveIncrease, longRange/interval), interval: interval,
		rules: map[string]*naiveRule{
			naiveHit5m: {hold: 5 * time.Minute}, naiveHit1h: {hold: 5 * time.Minute},
			naiveKV: {hold: 2 * time.Minute}, naiveTTFT: {hold: 5 * time.Minute},
		},
	}
}

// observe takes one page.
func (n *naive) observe(r *collector.Round) {
	if r.State != collector.StateUp {
		return
	}
	instance := r.Target.Labels.Get(model.InstanceLabel)
	e := n.engines[instance]
	if e == nil {
		e = &naiveEngine{}
		n.engines[instance] = e
	}
	if !e.fits(r) {
		n.bounds = e.find(r)
	}
	n.take(e, r)
}

func (e *naiveEngine) fits(r *collector.Round) bool {
	if len(r.Samples) != e.samples || len(r.Histograms) != e.whole {
		return false
	}
	for _, p := range e.places {
		if r.Samples[p.index].Series != p.series {
			return false
		}
	}
	for _, p := range e.histograms {
		if h := r.Histograms[p.index]; h.Series != p.series || len(h.Buckets) != p.buckets {
			return false
		}
	}
	return true
}

// find looks for the series that the rules read, and returns the histogram's bounds.
func (e *naiveEngine) find(r *collector.Round) (bounds []float64) {
	e.samples, e.whole, e.places, e.histograms = len(r.Samples), len(r.Histograms), nil, nil
	for i, s := range r.Samples {
		name := s.Series.Labels.Get(model.MetricNameLabel)
		switch name {
		case collector.VLLMCacheQueries, collector.VLLMCacheHits, collector.VLLMKVUsage:
			e.places = append(e.places, naivePlace{i, s.Series, name})
		}
	}
	for i, h := range r.Histograms {
		if h.Series.Labels.Get(model.MetricNameLabel) == collector.VLLMTTFT {
			bounds = append(bounds, h.Bounds...)
			e.histograms = append(e.histograms, naiveHistogram{i, h.Series, len(h.Buckets)})
		}
	}
	if len(e.ttft) != len(bounds) {
		e.ttft, e.known = make([]float64, len(bounds)), false
	}
	return bounds
}

// take adds what an engine's counters grew by to the pool's.
func (n *naive) take(e *naiveEngine, r *collector.Round) {
	for _, p := range e.places {
		value := r.Samples[p.index].Value
		switch p.what {
		case collector.VLLMKVUsage:
			n.usage = max(n.usage, value)
		case collector.VLLMCacheQueries:
			n.now.queries += e.increase(&e.queries, value)
		case collector.VLLMCacheHits:
			n.now.hits += e.increase(&e.hits, value)
		}
	}
	bucket := 0
	for _, p := range e.histograms {
		for _, value := range r.Histograms[p.index].Buckets {
			if n.now.ttft == nil {
				n.now.ttft = make([]float64, len(n.bounds))
			}
			n.now.ttft[bucket] += e.increase(&e.ttft[bucket], value)
			bucket++
		}
	}
	e.known = true
}

// increase is by how much a counter grew, from 0 where it began anew.
func (e *naiveEngine) increase(last *float64, value float64) float64 {
	before := *last
	*last = value
	switch {
	case !e.known:
		return 0
	case value < before:
		return value
	}
	return value - before
}

// judge evaluates the rules after the scrapes of a time.
func (n *naive) judge(now time.Duration) {
	n.increases[n.next] = n.now
	n.next = (n.next + 1) % len(n.increases)
	hit5m, p95 := n.over(shortRange)
	hit1h, _ := n.over(longRange)
	// A comparison with what is not known is false, as in PromQL.
	n.rules[naiveHit5m].judge(now, hit5m < naiveHit)
	n.rules[naiveHit1h].judge(now, hit1h < naiveHit)
	n.rules[naiveKV].judge(now, n.usage > naiveUsage)
	n.rules[naiveTTFT].judge(now, p95 > naiveSeconds)
	n.now, n.usage = naiveIncrease{}, 0
}

// over are the hit ratio and the 95th percentile of the time to first token
// over the last while; NaN where there was nothing.
func (n *naive) over(while time.Duration) (hit, p95 float64) {
	var queries, hits float64
	buckets := make(promql.Buckets, len(n.bounds))
	for i, bound := range n.bounds {
		buckets[i].UpperBound = bound
	}
	for i := range int(while / n.interval) {
		one := n.increases[(n.next+len(n.increases)-1-i)%len(n.increases)]
		queries += one.queries
		hits += one.hits
		for j, count := range one.ttft {
			buckets[j].Count += count
		}
	}
	p95, _, _, _, _, _ = promql.BucketQuantile(0.95, buckets)
	return hits / queries, p95
}

// judge takes whether the condition holds now.
func (r *naiveRule) judge(now time.Duration, condition bool) {
	last := len(r.fires) - 1
	firing := last >= 0 && r.fires[last].end == 0
	switch {
	case !condition && firing:
		r.fires[last].end = now
	case condition && !r.holds:
		r.since = now
	}
	r.holds = condition
	if condition && !firing && now-r.since >= r.hold {
		r.fires = append(r.fires, fire{at: now})
	}
}
