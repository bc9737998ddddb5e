package score

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/cmd/fleetsim/scrape"
	"kvwatch/collector"
)

// naivePage is an engine's page with what the naive rules read.
type naivePage struct {
	target *collector.Target
	series []*collector.Series
	ttft   collector.Histogram
}

func newNaivePage(instance string) naivePage {
	p := naivePage{
		target: &collector.Target{Labels: labels.FromStrings(model.InstanceLabel, instance)},
		ttft: collector.Histogram{
			Series: &collector.Series{Labels: labels.FromStrings(model.MetricNameLabel, collector.VLLMTTFT)},
			Bounds: []float64{5, 20, math.Inf(1)},
		},
	}
	for _, l := range []labels.Labels{
		labels.FromStrings(model.MetricNameLabel, collector.VLLMCacheQueries),
		labels.FromStrings(model.MetricNameLabel, collector.VLLMCacheHits),
		labels.FromStrings(model.MetricNameLabel, collector.VLLMKVUsage),
	} {
		p.series = append(p.series, &collector.Series{Labels: l})
	}
	return p
}

func (p naivePage) round(queries, hits, usage, fast, slow float64) *collector.Round {
	r := &collector.Round{Target: p.target, State: collector.StateUp}
	for i, v := range []float64{queries, hits, usage} {
		r.Samples = append(r.Samples, collector.Sample{Series: p.series[i], Value: v})
	}
	p.ttft.Buckets, p.ttft.Count = []float64{fast, fast + slow, fast + slow}, fast+slow
	other := collector.Histogram{Series: &collector.Series{Labels: labels.FromStrings(model.MetricNameLabel, collector.VLLMITL)}}
	r.Histograms = []collector.Histogram{other, p.ttft}
	return r
}

// Two engines are well for two hours, badly off for half an hour and well again:
// each rule fires once, when Prometheus would.
func TestNaiveRules(t *testing.T) {
	t.Parallel()
	n := newNaive(scrape.Interval)
	pages := []naivePage{newNaivePage("a"), newNaivePage("b")}
	const begin, end = 2 * time.Hour, 150 * time.Minute
	var queries, hits, fast, slow float64
	for at := time.Duration(0); at <= 5*time.Hour; at += scrape.Interval {
		bad := at >= begin && at < end
		queries += 1000
		usage := 0.3
		if bad {
			hits += 400
			slow++
			usage = 0.95
		} else {
			hits += 900
			fast++
		}
		if at == time.Hour { // a restart loses what was counted, and nothing else
			queries, hits, fast, slow = 1000, 900, 1, 0
		}
		n.observe(pages[0].round(queries, hits, usage, fast, slow))
		n.observe(pages[1].round(2*queries, 2*hits, 0.2, fast, slow))
		n.observe(&collector.Round{Target: pages[1].target, State: collector.StateDown})
		n.judge(at)
	}
	for name, want := range map[string]fire{
		// 0.9 falls below 0.8 once a fifth of the window is bad, and 5 minutes later it fires.
		naiveHit5m: {at: begin + 1*time.Minute + 5*time.Minute, end: end + 4*time.Minute - scrape.Interval},
		naiveHit1h: {at: begin + 12*time.Minute + 5*time.Minute, end: end + 48*time.Minute - scrape.Interval},
		naiveKV:    {at: begin + 2*time.Minute, end: end},
		// A slow one in twenty moves the 95th percentile over 5 s, one in ten over 10 s.
		naiveTTFT: {at: begin + 15*time.Second + 5*time.Minute, end: end + 4*time.Minute + 30*time.Second},
	} {
		fires := n.rules[name].fires
		if len(fires) != 1 {
			t.Errorf("%s fired %v", name, fires)
			continue
		}
		if off := (fires[0].at - want.at).Abs(); off > scrape.Interval {
			t.Errorf("%s fired at %v, want %v", name, fires[0].at, want.at)
		}
		if off := (fires[0].end - want.end).Abs(); off > scrape.Interval {
			t.Errorf("%s ended at %v, want %v", name, fires[0].end, want.end)
		}
	}
}

// Without traffic nothing is known, and nothing fires.
func TestNaiveRulesWithoutTraffic(t *testing.T) {
	t.Parallel()
	n := newNaive(scrape.Interval)
	page := newNaivePage("a")
	for at := time.Duration(0); at <= time.Hour; at += scrape.Interval {
		n.observe(page.round(5000, 1000, 0, 0, 100))
		n.judge(at)
	}
	for name, rule := range n.rules {
		if len(rule.fires) > 0 {
			t.Errorf("%s fired: %v", name, rule.fires)
		}
	}
}
