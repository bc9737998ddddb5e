package rules

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
)

// page is a metrics page that a test writes by hand: values by series, in the
// order in which they were first set.
type page struct {
	target *collector.Target
	base   labels.Labels
	series map[string]*collector.Series
	order  []*collector.Series
	values map[*collector.Series]float64
	// hists holds the series of a histogram: buckets, sum, count.
	hists  map[string][]*collector.Series
	buf    []collector.Sample
	wholes *wholes
	up     *collector.Series
}

func newPage(job, instance, modelName string) *page {
	b := labels.FromStrings("job", job, "instance", instance)
	p := &page{
		target: &collector.Target{Labels: b, Source: collector.SourceVLLM},
		series: map[string]*collector.Series{}, values: map[*collector.Series]float64{}, hists: map[string][]*collector.Series{},
		wholes: newWholes(),
	}
	p.up = &collector.Series{Labels: labels.FromStrings(model.MetricNameLabel, collector.Up, "job", job, "instance", instance)}
	p.base = labels.FromStrings("job", job, "instance", instance, "engine", "0", "model_name", modelName)
	return p
}

// newGatewayPage is a page of LiteLLM.
func newGatewayPage(instance string) *page {
	p := newPage("gateway", instance, "")
	p.base = p.target.Labels
	p.target.Source = collector.SourceLiteLLM
	return p
}

// of finds or makes the series with the given extra labels.
func (p *page) of(name string, extra ...string) *collector.Series {
	key := name
	for _, e := range extra {
		key += "\xff" + e
	}
	s := p.series[key]
	if s == nil {
		b := labels.NewBuilder(p.base).Set(model.MetricNameLabel, name)
		for i := 0; i+1 < len(extra); i += 2 {
			b.Set(extra[i], extra[i+1])
		}
		s = &collector.Series{Labels: b.Labels()}
		p.series[key] = s
		p.order = append(p.order, s)
	}
	return s
}

func (p *page) set(v float64, name string, extra ...string) { p.values[p.of(name, extra...)] = v }
func (p *page) add(v float64, name string, extra ...string) { p.values[p.of(name, extra...)] += v }

// observe adds one observation to a histogram with the given bounds.
func (p *page) observe(name string, bounds []float64, v, n float64) {
	h := p.hists[name]
	if h == nil {
		for _, b := range bounds {
			h = append(h, p.of(name+collector.BucketSuffix, labels.BucketLabel, strconv.FormatFloat(b, 'g', -1, 64)))
		}
		h = append(h, p.of(name+collector.BucketSuffix, labels.BucketLabel, "+Inf"), p.of(name+collector.SumSuffix), p.of(name+collector.CountSuffix))
		for _, s := range h {
			p.values[s] += 0
		}
		p.hists[name] = h
	}
	i, _ := slices.BinarySearch(bounds, v)
	for _, s := range h[i : len(bounds)+1] {
		p.values[s] += n
	}
	p.values[h[len(bounds)+1]] += v * n
	p.values[h[len(bounds)+2]] += n
}

// round is a good scrape of the page, its histograms whole, as a live one is.
func (p *page) round(at time.Time) collector.Round {
	r := p.parts(at)
	p.wholes.split(r.Samples)
	r.Samples, r.Histograms = p.wholes.samples, p.wholes.histograms
	return r
}

// parts is the same scrape with each series for itself, as history is read.
func (p *page) parts(at time.Time) collector.Round {
	p.buf = append(p.buf[:0], collector.Sample{Series: p.up, Value: 1})
	for _, s := range p.order {
		p.buf = append(p.buf, collector.Sample{Series: s, Value: p.values[s]})
	}
	return collector.Round{Target: p.target, Time: at, State: collector.StateUp, Samples: p.buf}
}

// down is a failed scrape: all series are stale.
func (p *page) down(at time.Time) collector.Round {
	r := p.partsDown(at)
	r.Stale = p.wholes.stale(r.Stale)
	return r
}

// partsDown is the same with each series for itself.
func (p *page) partsDown(at time.Time) collector.Round {
	p.buf = append(p.buf[:0], collector.Sample{Series: p.up})
	return collector.Round{Target: p.target, Time: at, State: collector.StateDown, Samples: p.buf, Stale: p.order}
}

// restart is a new process: all counters begin at 0.
func (p *page) restart() {
	for s := range p.values {
		if s.Labels.Get(model.MetricNameLabel) != collector.VLLMCacheConfig {
			p.values[s] = 0
		}
	}
}

var (
	tokenBounds = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000}
	timeBounds  = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
)

// serve counts n calls of the given prompt, of which computed tokens were not
// in the cache.
func (p *page) serve(n, prompt, computed, output float64) {
	p.add(n*prompt, collector.VLLMPromptTokens)
	p.add(n*(prompt-computed), collector.VLLMPromptCached)
	p.add(n*prompt, collector.VLLMCacheQueries)
	p.add(n*(prompt-computed), collector.VLLMCacheHits)
	p.add(n*output, collector.VLLMGenerationTokens)
	p.add(n, collector.VLLMRequestSuccess, "finished_reason", "stop")
	p.observe(collector.VLLMPromptHist, tokenBounds, prompt, n)
	p.observe(collector.VLLMComputedHist, tokenBounds, computed, n)
	p.observe(collector.VLLMTTFT, timeBounds, 0.3, n)
	p.observe(collector.VLLMITL, timeBounds, 0.02, n*output)
	p.add(0.2*n, collector.VLLMPrefillTime+collector.SumSuffix)
	p.add(n, collector.VLLMPrefillTime+collector.CountSuffix)
}

// gauges sets what an engine shows of its present state.
func (p *page) gauges(running, waiting, usage float64) {
	p.set(running, collector.VLLMRunning)
	p.set(waiting, collector.VLLMWaiting)
	p.set(waiting, collector.VLLMWaitingByReason, "reason", "capacity")
	p.set(0, collector.VLLMWaitingByReason, "reason", "deferred")
	p.set(usage, collector.VLLMKVUsage)
	p.set(1, collector.VLLMCacheConfig, "kv_cache_size_tokens", "1200000", "block_size", "16")
}

// fill makes the page as large as a real one.
func (p *page) fill() {
	p.gauges(8, 1, 0.4)
	p.serve(100, 60000, 4000, 400)
	p.set(3, collector.VLLMPreemptions)
	for _, name := range []string{collector.VLLMTPOT, collector.VLLMQueueTime, collector.VLLME2E} {
		p.observe(name, timeBounds, 1, 10)
	}
}

// drop takes the series without a value off the page.
func (p *page) drop() {
	p.order = slices.DeleteFunc(p.order, func(s *collector.Series) bool {
		_, ok := p.values[s]
		if !ok {
			maps.DeleteFunc(p.series, func(_ string, of *collector.Series) bool { return of == s })
			maps.DeleteFunc(p.hists, func(_ string, h []*collector.Series) bool { return slices.Contains(h, s) })
		}
		return !ok
	})
}
