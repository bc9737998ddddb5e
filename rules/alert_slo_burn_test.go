package rules

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"kvwatch/collector"
)

// promised is a pool with objectives, of which a share of the requests misses
// that for the first token.
func promised(t *testing.T, o Options) (f *plainFleet, late *float64) {
	t.Helper()
	o.Pools = []PoolConfig{{Name: "p", SLO: SLOConfig{TTFTP95: model.Duration(2 * time.Second), ITLP95: model.Duration(60 * time.Millisecond)}}}
	f = newPlainFleet(t, 2, o)
	f.calls = 0
	late = new(float64)
	f.set = func(_ int, p *page) {
		p.gauges(4, 0, 0.3)
		p.observe(collector.VLLMTTFT, timeBounds, 0.3, 10*(1-*late))
		p.observe(collector.VLLMTTFT, timeBounds, 9, 10**late)
		p.observe(collector.VLLMITL, timeBounds, 0.03, 4000)
		p.add(4000, collector.VLLMGenerationTokens)
	}
	return f, late
}

func TestSLOBurn(t *testing.T) {
	t.Parallel()
	f, late := promised(t, Options{StateFile: filepath.Join(t.TempDir(), "rules.json")})
	*late = 0.04 // within what may be late
	f.run(6 * time.Hour)
	if len(f.fired) > 0 {
		t.Fatalf("a kept objective fires: %s", f.fired[0].Evidence.Seen)
	}
	*late = 1
	f.run(40 * time.Minute)
	if f.alerts("SLOBurn") > 0 {
		t.Errorf("after 40 of 60 minutes it fires: %s", f.fired[0].Evidence.Seen)
	}
	f.start() // what was counted survives
	f.run(7 * time.Minute)
	a := f.lastFired("SLOBurn")
	if !f.firing("SLOBurn") || a.Severity != SeverityCritical {
		t.Fatalf("after 47 minutes it does not fire: %+v", f.detector("SLOBurn"))
	}
	for _, part := range []string{"ttft_p95", "requests took over 2 s in 60 min", "100% of", "in the last 5 min", "promised is 2 s to 95%", "fires at 14.4 times over 60 min and 5 min", "the error budget of 30 days is gone in", "high: "} {
		if text := a.Annotations["description"] + a.Evidence.Confidence; !strings.Contains(text, part) {
			t.Errorf("the text has no %q: %s", part, text)
		}
	}
	if strings.Contains(a.Evidence.Seen, "itl_p95") || strings.Contains(a.Evidence.Seen, "Nothing older") {
		t.Errorf("evidence %q", a.Evidence.Seen)
	}
	*late = 0.04
	f.run(6 * time.Minute)
	if f.firing("SLOBurn") {
		t.Errorf("it fires on when all is well for 6 minutes: %s", f.last[0].Evidence.Seen)
	}
	f.fired = nil
	*late = 0.5
	f.run(4 * time.Hour)
	if a := f.lastFired("SLOBurn"); a.Severity != SeverityWarning || !strings.Contains(a.Evidence.Against, "fires at 6 times over 6 h and 30 min") || f.alerts("SLOBurn") != 1 {
		t.Errorf("half of the requests late for hours: %+v", f.fired)
	}
	f.pages = nil
	f.run(7 * time.Minute)
	if d := f.detector("SLOBurn"); d.Phase != PhaseUnknown || f.firing("SLOBurn") {
		t.Errorf("without pages: %+v", d)
	}
}

// TestSLOBurnSaysWhatItHasSeen has an installation that begins amid an incident.
func TestSLOBurnSaysWhatItHasSeen(t *testing.T) {
	t.Parallel()
	f, late := promised(t, Options{})
	*late = 0.9
	f.run(10 * time.Minute)
	if a := f.lastFired("SLOBurn"); a.Severity != SeverityCritical || !strings.Contains(a.Evidence.Seen, "Nothing older than ") {
		t.Errorf("alert %+v", a)
	}
}

func TestSLOBurnByTokens(t *testing.T) {
	t.Parallel()
	f, _ := promised(t, Options{})
	set := f.set
	f.set = func(i int, p *page) {
		set(i, p)
		p.observe(collector.VLLMITL, timeBounds, 0.2, 16_000)
	}
	f.run(10 * time.Minute)
	if a := f.lastFired("SLOBurn"); !strings.Contains(a.Evidence.Seen, "itl_p95: 80% of") || !strings.Contains(a.Evidence.Seen, "tokens took over 60 ms") || !strings.Contains(a.Evidence.CauseText, "Decoding is slow: 8 running requests in 2 engines") {
		t.Errorf("evidence %+v", a.Evidence)
	}
}

func TestSLOSeries(t *testing.T) {
	t.Parallel()
	f, late := promised(t, Options{})
	*late = 0.2
	f.run(20 * time.Minute)
	ttft, itl := f.series("kvwatch_pool_slo_attainment_ratio", "slo", sloTTFT), f.series("kvwatch_pool_slo_attainment_ratio", "slo", sloITL)
	if math.Abs(ttft.Value-0.8) > 0.001 || math.Abs(itl.Value-1) > 0.001 {
		t.Errorf("ttft %+v, itl %+v", ttft, itl)
	}
	want := 0.8 * 2 * 4000 / step.Seconds()
	if r := f.series("kvwatch_pool_goodput_tokens_per_second"); math.Abs(r.Value-want) > 0.001*want {
		t.Errorf("goodput %+v, want %g", r, want)
	}
	none := newFleet(t, 1, Options{})
	none.run(10 * time.Minute)
	for _, r := range []Recorded{none.series("kvwatch_pool_slo_attainment_ratio", "slo", sloITL), none.series("kvwatch_pool_goodput_tokens_per_second")} {
		if r.Known || !strings.Contains(r.Reason, "promises no") {
			t.Errorf("a pool without objectives: %+v", r)
		}
	}
	if d := none.detector("SLOBurn"); d.Phase != PhaseUnknown || !strings.Contains(d.Text, "promises no") {
		t.Errorf("a pool without objectives: %+v", d)
	}
}

func TestPrefillAmplification(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 2, Options{})
	f.calls = 0
	f.set = func(_ int, p *page) { p.serve(2, 60_000, 6000, 400) }
	f.run(time.Hour)
	if r := f.series("kvwatch_pool_prefill_amplification_ratio"); !r.Known || math.Abs(r.Value-15) > 1e-9 {
		t.Errorf("series %+v", r)
	}
}

// TestWithin interpolates within the bucket that holds the limit.
func TestWithin(t *testing.T) {
	t.Parallel()
	b := bucketCounts{bounds: []float64{1, 2, 4, math.Inf(1)}, counts: []float64{10, 30, 70, 80}}
	h := histogram{bounds: []float64{4, 1, math.Inf(1), 2}, sorted: []int{1, 3, 0, 2}, buckets: []float64{70, 10, 80, 30}}
	for limit, want := range map[float64]float64{0.5: 5, 1: 10, 1.5: 20, 2: 30, 3: 50, 4: 70, 5: 70, 1000: 70} {
		if got := b.within(limit); got != want {
			t.Errorf("%g: %g of a window are within, want %g", limit, got, want)
		}
		if got := h.within(limit); got != want {
			t.Errorf("%g: %g of a histogram are within, want %g", limit, got, want)
		}
	}
}
