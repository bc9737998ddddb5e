package rules

import (
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

func TestCacheCounterUntrusted(t *testing.T) {
	t.Parallel()
	const alert = "CacheCounterUntrusted"
	for name, c := range map[string]struct {
		// spoil changes the counters of a page that was served as it should be.
		spoil func(f *fleet, p *page)
		says  string
	}{
		"look-ups counted again": {
			func(f *fleet, p *page) { p.add(10*f.prompt, collector.VLLMCacheQueries) }, " prompted, within 5 min",
		},
		"hits above look-ups": {
			func(f *fleet, p *page) { p.add(4*f.prompt, collector.VLLMCacheHits) }, " hits in ",
		},
		"no hit at all": {
			func(_ *fleet, p *page) { p.values[p.of(collector.VLLMCacheHits)] = 0 }, "no hit in",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 2, Options{})
			spoiled := func(d time.Duration) {
				for end := f.now.Add(d); f.now.Before(end); {
					f.scrape(func(i int, p *page) collector.Round {
						f.serve(p, 0.1)
						if i == 1 {
							c.spoil(f, p)
						}
						return p.round(f.now)
					})
				}
			}
			if name != "no hit at all" {
				f.run(10 * time.Minute)
			}
			spoiled(9 * time.Minute)
			if f.firing(alert) {
				t.Error("it fires within its hold")
			}
			spoiled(13 * time.Minute)
			a := f.lastFired(alert)
			if f.alerts(alert) != 1 || a.Severity != SeverityInfo || a.Evidence.Cause != "counter_untrusted" ||
				!strings.HasPrefix(a.Evidence.Seen, "e1:8000: ") || !strings.Contains(a.Evidence.Seen, c.says) || strings.Contains(a.Evidence.Seen, "e0:8000") {
				t.Fatalf("fired %d times: %+v", f.alerts(alert), a)
			}
			if !strings.Contains(a.Evidence.CauseText, "it reads "+sourceCached.name()) {
				t.Errorf("it does not say what is read instead: %s", a.Evidence.CauseText)
			}
			f.run(3 * time.Hour)
			if f.firing(alert) {
				t.Error("it does not end")
			}
		})
	}
}

func TestCountersWithoutDataAreUnknown(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, Options{})
	f.without = []string{collector.VLLMCacheQueries, collector.VLLMCacheHits}
	f.run(time.Minute)
	if d := f.detector("CacheCounterUntrusted"); d.Phase != PhaseUnknown {
		t.Errorf("%s: %s", d.Phase, d.Text)
	}
}
