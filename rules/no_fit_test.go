package rules

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

// roomFor is a KV usage that leaves room for so many usual calls of the fleet,
// of 75 000 prompt tokens (the middle of their bucket) and 400 output tokens,
// in a cache of 1.2 M tokens.
func roomFor(calls float64) float64 { return 1 - calls*75_400/1.2e6 }

// shortOf is a fleet of calls of one size; at each tick an engine has room for
// one more of them unless full says so.
func shortOf(t *testing.T, engines int, o Options, full func(tick, i int) bool) *plainFleet {
	t.Helper()
	f := newPlainFleet(t, engines, o)
	f.calls = 0
	tick := 0
	f.set = func(i int, p *page) {
		p.serve(2, 100_000, 3000, 400)
		usage := roomFor(2.5)
		if full(tick, i) {
			usage = roomFor(0.4)
		}
		p.gauges(4, 0, usage)
		if i == engines-1 {
			tick++
		}
	}
	return f
}

func TestKVSeatShortage(t *testing.T) {
	t.Parallel()
	every := 100
	f := shortOf(t, 2, Options{StateFile: filepath.Join(t.TempDir(), "rules.json")}, func(tick, i int) bool { return i == 0 && tick%every == 0 })
	f.run(time.Hour)
	if d := f.detector(kvSeatShortage); len(f.fired) > 0 || d.Phase != PhaseWatching {
		t.Fatalf("one scrape of 200 without room: %+v", d)
	}
	every = 4 // of one engine of two: an eighth of the scrapes
	f.run(time.Hour)
	if !f.firing(kvSeatShortage) {
		t.Fatalf("it does not fire: %+v", f.detector(kvSeatShortage))
	}
	for _, a := range f.last {
		for _, part := range []string{"calls will wait for KV", "needs 75k tokens", "5.0 such seats are free now", "At 29 of 236 scrapes of 30 min", "Free seats by engine", "Fires over 10% of the scrapes", "medium: 236 scrapes"} {
			if text := a.Annotations["summary"] + a.Annotations["description"] + a.Evidence.Confidence; !strings.Contains(text, part) {
				t.Errorf("the text has no %q: %s", part, text)
			}
		}
	}
	if r := f.series("kvwatch_pool_kv_no_fit_ratio", "prompt", "p50"); !r.Known || math.Abs(r.Value-0.125) > 0.005 || r.Quality != QualityOK {
		t.Errorf("series %+v", r)
	}
	every = 12 // a 24th: below the lower threshold, once the window is past
	f.run(40 * time.Minute)
	if !f.firing(kvSeatShortage) {
		t.Error("it ends before it was quiet for 15 minutes")
	}
	f.start() // a restart: what was counted and the rest go on
	f.run(8 * time.Minute)
	if f.firing(kvSeatShortage) || f.alerts(kvSeatShortage) != 1 {
		t.Errorf("fires %t, fired %d times: %+v", f.firing(kvSeatShortage), f.alerts(kvSeatShortage), f.detector(kvSeatShortage))
	}
	f.pages = nil
	f.run(5 * time.Minute)
	if d := f.detector(kvSeatShortage); d.Phase != PhaseUnknown {
		t.Errorf("without pages: %+v", d)
	}
}

// TestNoFitOfALargeCall has room for the usual call always, and for a large one
// at every other scrape.
func TestNoFitOfALargeCall(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 1, Options{})
	f.calls = 0
	tick := 0.0
	f.set = func(_ int, p *page) {
		tick++
		p.serve(9, 5000, 1000, 400)
		p.serve(1, 90_000, 1000, 400)
		p.gauges(4, 0, 1-(1+math.Mod(tick, 2)*2)*50_000/1.2e6) // 50k or 150k are free
	}
	f.run(time.Hour)
	small, large := f.series("kvwatch_pool_kv_no_fit_ratio", "prompt", "p50"), f.series("kvwatch_pool_kv_no_fit_ratio", "prompt", "p95")
	if !small.Known || small.Value != 0 || !large.Known || math.Abs(large.Value-0.5) > 0.01 {
		t.Errorf("p50 %+v, p95 %+v", small, large)
	}
}

func TestNoFitNeedsEvidence(t *testing.T) {
	t.Parallel()
	f := shortOf(t, 1, Options{}, func(int, int) bool { return true })
	f.run(4 * time.Minute)
	if d := f.detector(kvSeatShortage); d.Phase != PhaseUnknown || !strings.Contains(d.Text, "of 20 scrapes") {
		t.Errorf("after 4 minutes: %+v", d)
	}
	f.run(4 * time.Minute)
	if !f.firing(kvSeatShortage) {
		t.Errorf("after 8 minutes: %+v", f.detector(kvSeatShortage))
	}
	blind := shortOf(t, 1, Options{}, func(int, int) bool { return true })
	set := blind.set
	blind.set = func(i int, p *page) {
		set(i, p)
		delete(p.values, p.of(collector.VLLMKVUsage))
		p.drop()
	}
	blind.run(20 * time.Minute)
	if r := blind.series("kvwatch_pool_kv_no_fit_ratio", "prompt", "p50"); r.Known || !strings.Contains(r.Reason, "KV usage") {
		t.Errorf("without a KV usage: %+v", r)
	}
}
