package rules

import (
	"math"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

// decoding is a fleet whose requests are decoded at the given speeds, each of
// as many, by the given histogram.
func decoding(t *testing.T, o Options, histogram string, speeds ...float64) *plainFleet {
	t.Helper()
	f := newPlainFleet(t, 2, o)
	f.calls = 0
	f.set = func(_ int, p *page) {
		p.gauges(4, 0, 0.3)
		for _, v := range speeds {
			p.observe(histogram, timeBounds, 1/v, 1)
			p.observe(collector.VLLMTTFT, timeBounds, 0.3, 1)
		}
	}
	return f
}

func TestInteractivityLow(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name      string
		histogram string
		options   Options
		speeds    []float64
		fires     bool
	}{
		{"fast", collector.VLLMTPOT, Options{}, []float64{60, 60, 60, 60, 60}, false},
		{"one of five slow", collector.VLLMTPOT, Options{}, []float64{60, 60, 60, 60, 7}, true},
		{"one of twenty slow", collector.VLLMTPOT, Options{}, append([]float64{7}, make19(60)...), false},
		{"by the time between tokens", collector.VLLMITL, Options{}, []float64{60, 60, 7}, true},
		{"a pool that promised less", collector.VLLMTPOT, Options{Pools: []PoolConfig{{Name: "p", SLO: SLOConfig{TokensPerSecondP10: 3}}}}, []float64{60, 7}, false},
	} {
		f := decoding(t, x.options, x.histogram, x.speeds...)
		f.run(20 * time.Minute)
		if f.firing("InteractivityLow") != x.fires {
			t.Errorf("%s: %+v", x.name, f.detector("InteractivityLow"))
		}
		if !x.fires {
			continue
		}
		a := f.lastFired("InteractivityLow")
		for _, part := range []string{"one of ten", "tokens/s or less", "requests", "The floor is 20 tokens/s", "Decoding is slow", x.histogram} {
			if text := a.Annotations["summary"] + a.Annotations["description"]; !strings.Contains(text, part) {
				t.Errorf("%s: the text has no %q: %s", x.name, part, text)
			}
		}
		if a.Value < 4 || a.Value > 10 {
			t.Errorf("%s: %.1f tokens/s", x.name, a.Value)
		}
	}
}

func make19(v float64) []float64 {
	vs := make([]float64, 19)
	for i := range vs {
		vs[i] = v
	}
	return vs
}

func TestInteractivityUnknown(t *testing.T) {
	t.Parallel()
	drafting := decoding(t, Options{}, collector.VLLMITL, 7, 7, 7)
	set := drafting.set
	drafting.set = func(i int, p *page) { set(i, p); p.add(3, collector.VLLMDrafts) }
	few := decoding(t, Options{}, collector.VLLMTPOT, 7)
	for name, x := range map[string]struct {
		f    *plainFleet
		d    time.Duration
		want string
	}{
		"several tokens at once": {drafting, 20 * time.Minute, "none to replace it"},
		"few requests":           {few, 5 * time.Minute, "insufficient evidence"},
	} {
		x.f.run(x.d)
		if d := x.f.detector("InteractivityLow"); d.Phase != PhaseUnknown || !strings.Contains(d.Text, x.want) {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if r := drafting.series("kvwatch_pool_interactivity_tokens_per_second"); r.Known || !strings.Contains(r.Reason, collector.VLLMTPOT) {
		t.Errorf("series %+v", r)
	}
}

func TestInteractivitySeries(t *testing.T) {
	t.Parallel()
	f := decoding(t, Options{}, collector.VLLMTPOT, 12, 12, 12, 12, 12, 12, 12, 12, 45, 45)
	f.run(10 * time.Minute)
	r := f.series("kvwatch_pool_interactivity_tokens_per_second")
	if !r.Known || r.Quality != QualityOK || r.Summary.Count != 2*40*10 {
		t.Fatalf("series %+v, summary %+v", r, r.Summary)
	}
	// The buckets are 10 to 12.5 and 25 to 50 tokens/s wide.
	for i, bounds := range [][2]float64{{10, 12.5}, {25, 50}, {25, 50}, {25, 50}} {
		if q := r.Summary.Quantiles[i]; q.Value < bounds[0] || q.Value > bounds[1] {
			t.Errorf("quantile %g is %.1f, want one of %v", q.Q, q.Value, bounds)
		}
	}
	if mean, want := r.Summary.Sum/float64(r.Summary.Count), 0.8*11.1+0.2*33.3; math.Abs(mean-want) > 0.1*want {
		t.Errorf("mean %.2f, want about %.2f", mean, want)
	}
}
