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

// TestDownIsARestart has an engine that could not be read 20 minutes before,
// and one 40 minutes before.
func TestDownIsARestart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before time.Duration
		cause  string
	}{{20 * time.Minute, causeRestart}, {40 * time.Minute, causeRoutingOrOthers}} {
		f := newFleet(t, 4, Options{}).learned()
		f.scrape(func(i int, p *page) collector.Round {
			f.serve(p, 0.1)
			if i == 1 {
				return p.down(f.now)
			}
			return p.round(f.now)
		})
		f.run(c.before)
		f.all(0.8)
		f.until(missRising, true, 10*time.Minute)
		if a := f.lastFired(missRising); a.Evidence.Cause != c.cause {
			t.Errorf("down %s before: %q: %s", c.before, a.Evidence.Cause, a.Evidence.CauseText)
		}
	}
}
