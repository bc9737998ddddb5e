package rules

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

func TestMetricsDisabled(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, Options{})
	f.run(5 * time.Minute)
	disable := func(n int, d time.Duration) {
		for end := f.now.Add(d); f.now.Before(end); {
			f.now = f.now.Add(step)
			for i, p := range f.pages {
				r := p.round(f.now)
				if i < n {
					r = p.down(f.now)
					r.State, r.Reason = collector.StateMetricsDisabled, "the page has no vllm: series"
				}
				f.engine.Observe(&r)
			}
			f.eval()
		}
	}
	disable(1, 45*time.Second)
	if f.firing("MetricsDisabled") {
		t.Error("it fires before a minute")
	}
	disable(1, time.Minute)
	if a := f.lastFired("MetricsDisabled"); a.Severity != SeverityWarning || !strings.Contains(a.Evidence.Seen, "1 of 3 engines of pool vllm/m") {
		t.Errorf("one of three: %s: %s", a.Severity, a.Evidence.Seen)
	}
	disable(2, 2*time.Minute)
	if a := f.lastFired("MetricsDisabled"); a.Severity != SeverityCritical {
		t.Errorf("two of three: %s", a.Severity)
	}
	if f.firing("TargetDown") {
		t.Error("TargetDown speaks of a target that answers")
	}
	disable(0, step)
	if f.firing("MetricsDisabled") {
		t.Error("it does not end")
	}
}

func TestKvwatchBlind(t *testing.T) {
	t.Parallel()
	tests := []struct {
		engines, down int
		fires         bool
	}{{1, 1, false}, {2, 1, false}, {2, 2, true}, {4, 2, false}, {4, 3, true}}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d of %d", tt.down, tt.engines), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, tt.engines, Options{})
			f.run(5 * time.Minute)
			lose := func(d time.Duration) {
				for end := f.now.Add(d); f.now.Before(end); {
					f.now = f.now.Add(step)
					for i, p := range f.pages {
						r := p.round(f.now)
						if i < tt.down {
							r = p.down(f.now)
						}
						f.engine.Observe(&r)
					}
					f.eval()
				}
			}
			lose(2 * time.Minute)
			if f.firing("KvwatchBlind") {
				t.Error("it fires before two minutes")
			}
			lose(time.Minute)
			if f.firing("KvwatchBlind") != tt.fires {
				t.Fatalf("fires: %v, want %v: %s", !tt.fires, tt.fires, f.detector("KvwatchBlind").Text)
			}
			if want := fmt.Sprintf("%d down", tt.down); tt.fires && !strings.Contains(f.lastFired("KvwatchBlind").Evidence.Seen, want) {
				t.Errorf("it does not say %q: %s", want, f.lastFired("KvwatchBlind").Evidence.Seen)
			}
		})
	}
	// Targets that nobody scrapes any more are as unknown as those that are down.
	f := newFleet(t, 2, Options{})
	f.run(5 * time.Minute)
	for range 20 {
		f.now = f.now.Add(step)
		f.eval()
	}
	if !f.firing("KvwatchBlind") || !strings.Contains(f.lastFired("KvwatchBlind").Evidence.Seen, "2 not scraped lately") {
		t.Errorf("without scrapes: %s", f.detector("KvwatchBlind").Text)
	}
}

func TestWatchdogAlwaysFires(t *testing.T) {
	t.Parallel()
	var told []Alert
	e, err := New(Options{Dispatch: func(_ context.Context, _ time.Time, alerts []Alert) { told = alerts }})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := e.Eval(t.Context(), testStart.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if len(told) != 1 || told[0].Name != "Watchdog" || told[0].State != StateFiring || !told[0].FiredAt.Equal(testStart) {
			t.Errorf("after %d hours: %+v", i, told)
		}
	}
}
