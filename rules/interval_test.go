package rules

import (
	"testing"
	"time"
)

// TestOwnInterval scrapes a job every minute where the global interval is 15 s.
func TestOwnInterval(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, Options{})
	for _, p := range f.pages {
		p.target.Interval = time.Minute
	}
	waiting, pending := 1.0, time.Time{}
	for range 30 {
		waiting++
		for i, p := range f.pages {
			f.serve(p, 0.1)
			p.gauges(8, waiting, 0.97)
			r := p.round(f.now.Add(time.Duration(i) * time.Second))
			f.engine.Observe(&r)
		}
		for range 12 {
			f.now = f.now.Add(5 * time.Second)
			f.eval()
			for _, r := range f.engine.Recorded() {
				if r.Quality == QualityStale {
					t.Fatalf("%s is stale between two scrapes: %s", r.Labels, r.Reason)
				}
			}
			for _, a := range f.engine.Alerts() {
				if a.Name != "QueueGrowing" {
					continue
				}
				if pending.IsZero() {
					pending = a.ActiveAt
				}
				if a.State == StateResolved || !a.ActiveAt.Equal(pending) {
					t.Fatalf("the alert began again: %+v", a)
				}
			}
		}
	}
	for _, name := range []string{"QueueGrowing", "KVSaturated"} {
		if f.alerts(name) != 1 || !f.firing(name) {
			t.Errorf("%s fired %d times", name, f.alerts(name))
		}
	}
	// Two lost scrapes are no outage, four are.
	f.now = f.now.Add(2 * time.Minute)
	f.eval()
	if p := f.phase("KVSaturated"); p == PhaseUnknown {
		t.Error("two lost scrapes count as an outage")
	}
	f.now = f.now.Add(2 * time.Minute)
	f.eval()
	if p := f.phase("KVSaturated"); p != PhaseUnknown {
		t.Errorf("after four lost scrapes the detector is %s", p)
	}
}

func TestReloadTakesTheInterval(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, Options{})
	f.run(time.Minute)
	for _, c := range []struct {
		interval time.Duration
		known    bool
	}{{2 * time.Minute, true}, {step, false}} {
		if err := f.engine.Reload(nil, nil, c.interval); err != nil {
			t.Fatal(err)
		}
		if c.known {
			f.now = f.now.Add(5 * time.Minute)
		}
		f.eval()
		for _, r := range f.engine.Recorded() {
			if r.Labels.Get("__name__") == "kvwatch_target_up" && r.Known != c.known {
				t.Errorf("5 minutes after a page, read every %s: %+v", c.interval, r)
			}
		}
	}
}
