package rules

import (
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

// TestResidencyWinsOverReplica is a ramp: blocks stay for ever shorter, and the
// engine with the most sessions is the first to lose them.
func TestResidencyWinsOverReplica(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{}).learned()
	full := func(d time.Duration) {
		for end := f.now.Add(d); f.now.Before(end); {
			f.scrape(func(i int, p *page) collector.Round {
				f.serve(p, f.miss[i])
				p.gauges(8, 0, 0.93)
				return p.round(f.now)
			})
		}
	}
	full(time.Hour)
	if f.alerts(missRising) > 0 {
		t.Fatal("it fires before anything is lost")
	}
	f.miss[2] = 0.95
	for !f.firing(missRising) && f.now.Sub(testStart) < 12*time.Hour {
		full(step)
	}
	a := f.lastFired(missRising)
	if a.Evidence.Cause != causeResidency || len(a.Evidence.RunnersUp) != 2 || !strings.HasPrefix(a.Evidence.RunnersUp[0], "Replica: e2:8000") {
		t.Errorf("cause %q: %s; then %q", a.Evidence.Cause, a.Evidence.CauseText, a.Evidence.RunnersUp)
	}
}

// TestRestartIsTold has an engine that is away or begins again: a cache that was
// lost. Pages that are lost while the engine goes on tell of no restart.
func TestRestartIsTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		// lost is for how long engine 1 cannot be read, before that the misses
		// begin; over says that it can be again by then.
		lost, before time.Duration
		over, reset  bool
		cause        string
	}{
		{"began again 20 minutes before", time.Minute, 20 * time.Minute, true, true, causeRestart},
		{"began again 40 minutes before", time.Minute, 40 * time.Minute, true, true, causeRoutingOrOthers},
		{"away since a minute before", time.Minute, 0, false, false, causeRestart},
		{"one page was lost", step, 20 * time.Minute, true, false, causeRoutingOrOthers},
		{"ten minutes of pages were lost", 10 * time.Minute, 5 * time.Minute, true, false, causeRoutingOrOthers},
	} {
		f := newFleet(t, 4, Options{}).learned()
		away := true
		look := func(while time.Duration) {
			for end := f.now.Add(while); f.now.Before(end); {
				f.scrape(func(i int, p *page) collector.Round {
					f.serve(p, f.miss[i])
					if i == 1 && away {
						return p.down(f.now)
					}
					return p.round(f.now)
				})
			}
		}
		look(c.lost)
		away = !c.over
		if c.reset {
			f.pages[1].restart()
		}
		look(c.before)
		f.all(0.8)
		for range 40 {
			if f.firing(missRising) {
				break
			}
			look(step)
		}
		if a := f.lastFired(missRising); a.Evidence.Cause != c.cause {
			t.Errorf("%s: %q: %s", c.name, a.Evidence.Cause, a.Evidence.CauseText)
		}
	}
}
