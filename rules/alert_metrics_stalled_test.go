package rules

import (
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

// stall plays a fleet whose second engine is asked nothing; its process goes on.
func (f *fleet) stall(d time.Duration, busy bool) {
	f.t.Helper()
	for end := f.now.Add(d); f.now.Before(end); {
		f.scrape(func(i int, p *page) collector.Round {
			if i != 1 && busy {
				f.serve(p, 0.1)
			}
			p.add(0.25, "process_cpu_seconds_total")
			p.add(1, "python_gc_collections_total")
			return p.round(f.now)
		})
	}
}

func TestMetricsStalled(t *testing.T) {
	t.Parallel()
	const alert = "MetricsStalled"
	f := newFleet(t, 3, Options{})
	f.run(20 * time.Minute)
	f.stall(15*time.Minute, true)
	if f.alerts(alert) > 0 {
		t.Error("it fires within 10 minutes and its hold of 10 more")
	}
	f.restart() // on its way
	f.stall(6*time.Minute, true)
	a := f.lastFired(alert)
	if f.alerts(alert) != 1 || a.Labels["instance"] != "e1:8000" || a.Severity != SeverityWarning || !strings.Contains(a.Evidence.Seen, "2 other engines of pool vllm/m") {
		t.Fatalf("fired %d times: %+v", f.alerts(alert), a)
	}
	for range 3 { // while it fires
		f.restart()
		f.stall(2*time.Minute, true)
	}
	if !f.firing(alert) || f.alerts(alert) != 1 || !f.lastFired(alert).FiredAt.Equal(a.FiredAt) {
		t.Errorf("after restarts it fired %d times", f.alerts(alert))
	}
	f.stall(15*time.Minute, false)
	if !f.firing(alert) {
		t.Error("it ends without a change of the page")
	}
	f.run(step)
	if s := f.resolved(alert); len(s) != 1 || s[0] != "The metrics page of e1:8000 of job vllm changes again" {
		t.Errorf("resolved as %q", s)
	}
}

func TestIdlePoolIsNotStalled(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, Options{})
	f.run(10 * time.Minute)
	f.stall(time.Hour, false)
	if f.alerts("MetricsStalled") > 0 {
		t.Errorf("an idle pool: %s", f.lastFired("MetricsStalled").Evidence.Seen)
	}
}

func TestStalledWithoutAPageIsUnknown(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, Options{})
	f.run(10 * time.Minute)
	for range 8 {
		f.scrape(func(_ int, p *page) collector.Round { return p.down(f.now) })
	}
	if d := f.detector("MetricsStalled"); d.Phase != PhaseUnknown {
		t.Errorf("%s: %s", d.Phase, d.Text)
	}
}
