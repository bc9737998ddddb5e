package rules

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

func TestPrefillSaturated(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 2, Options{StateFile: filepath.Join(t.TempDir(), "rules.json")})
	f.calls = 0
	at := func(occupancy float64) {
		f.set = func(_ int, p *page) { servePrefill(p, 3, 1, occupancy*step.Seconds()/3) }
	}
	at(0.45)
	f.run(30 * time.Minute)
	if len(f.fired) > 0 {
		t.Fatalf("below the threshold it fires: %s", f.fired[0].Evidence.Seen)
	}
	at(0.65)
	f.run(12 * time.Minute)
	if !f.firing(prefillSaturatedName) {
		t.Fatalf("it does not fire: %+v", f.detector(prefillSaturatedName))
	}
	a := f.lastFired(prefillSaturatedName)
	for _, part := range []string{"first tokens took", "occupancy 0.5", "By engine: e0:8000 0.5", "Fires at an occupancy of 0.5", "3 to 15 minutes"} {
		if text := a.Annotations["description"]; !strings.Contains(text, part) {
			t.Errorf("the text has no %q: %s", part, text)
		}
	}
	if strings.Contains(a.Evidence.Seen, "aborted") || a.Severity != SeverityWarning {
		t.Errorf("alert %+v", a)
	}
	at(0.45) // between the two thresholds it goes on
	f.run(30 * time.Minute)
	if !f.firing(prefillSaturatedName) {
		t.Error("it ends above the lower threshold")
	}
	at(0.2)
	f.run(15 * time.Minute)
	if !f.firing(prefillSaturatedName) {
		t.Error("it ends before it was quiet for 15 minutes")
	}
	f.start() // a restart, in the middle of the rest
	f.run(7 * time.Minute)
	if f.firing(prefillSaturatedName) || f.alerts(prefillSaturatedName) != 1 {
		t.Errorf("fires %t, fired %d times", f.firing(prefillSaturatedName), f.alerts(prefillSaturatedName))
	}
	if s := f.resolved(prefillSaturatedName); len(s) != 1 || !strings.Contains(s[0], "prefill occupancy is down to 0.2") {
		t.Errorf("resolved as %q", s)
	}
}

// TestPrefillSaturatedOverAnHour has a window that is longer than any other of
// what is read for it.
func TestPrefillSaturatedOverAnHour(t *testing.T) {
	t.Parallel()
	hour := map[string]any{"window": "1h", "ratio": 0.9}
	f := newPlainFleet(t, 1, Options{Rules: map[string]Override{prefillSaturatedName: {Settings: hour}}})
	f.calls = 0
	at := func(occupancy float64) {
		f.set = func(_ int, p *page) { servePrefill(p, 3, 1, occupancy*step.Seconds()/3) }
	}
	at(0.8)
	f.run(45 * time.Minute)
	at(0.2)
	f.run(30 * time.Minute)
	if d := f.detector(prefillSaturatedName); !strings.Contains(d.Text, "prefill occupancy 0.50 of 0.9 over 60 min") {
		t.Errorf("half of the hour at 0.8 and half at 0.2: %s", d.Text)
	}
}

// TestPrefillSaturatedAsksForMore has a window that a reload makes longer than
// what is held: until there is more, the occupancy is that of what there is.
func TestPrefillSaturatedAsksForMore(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 1, Options{})
	f.calls = 0
	f.set = func(_ int, p *page) { servePrefill(p, 3, 1, 0.4*step.Seconds()/3) }
	f.run(2 * time.Hour)
	long := map[string]Override{prefillSaturatedName: {Settings: map[string]any{"window": "90m"}}}
	if err := f.engine.Reload(nil, withoutWatchdog(long), step); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		f.run(20 * time.Minute)
		if d := f.detector(prefillSaturatedName); !strings.Contains(d.Text, "prefill occupancy 0.40 of 0.5 over 90 min") {
			t.Errorf("at an occupancy of 0.4: %s", d.Text)
		}
	}
}

// TestPrefillSaturatedTellsOfAborts has clients that go away after the first token.
func TestPrefillSaturatedTellsOfAborts(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 1, Options{})
	f.calls = 0
	f.set = func(_ int, p *page) {
		servePrefill(p, 3, 1, 4)
		p.observe(collector.VLLMTTFT, timeBounds, 1, 1)
	}
	f.run(15 * time.Minute)
	if !f.firing(prefillSaturatedName) {
		t.Fatal("it does not fire")
	}
	a := f.last[0]
	if !strings.Contains(a.Evidence.Seen, "About 40 requests were aborted") || !strings.Contains(a.Evidence.Seen, "(33% of those") || !strings.HasPrefix(a.Evidence.Confidence, "low") {
		t.Errorf("evidence %+v", a.Evidence)
	}
}

func TestPrefillSaturatedNamesTheCause(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 2, Options{})
	occupancy := 0.3
	f.set = func(_ int, p *page) {
		p.observe(collector.VLLMQueueTime, timeBounds, 0, 3)
		p.add(occupancy*step.Seconds(), collector.VLLMTTFT+collector.SumSuffix)
	}
	f.run(7 * time.Hour)
	occupancy = 0.7
	f.run(15 * time.Minute)
	if a := f.lastFired(prefillSaturatedName); !strings.Contains(a.Evidence.CauseText, "load is why") || !strings.Contains(a.Evidence.CauseText, "usual are") {
		t.Errorf("cause %q", a.Evidence.CauseText)
	}
	for range 120 {
		f.now = f.now.Add(step)
		for i, p := range f.pages {
			f.serve(p, 0.6)
			f.set(i, p)
			r := p.round(f.now)
			f.engine.Observe(&r)
		}
		f.eval()
	}
	for _, a := range f.last {
		if a.Name == prefillSaturatedName && !strings.Contains(a.Evidence.CauseText, "misses are why") {
			t.Errorf("cause %q", a.Evidence.CauseText)
		}
	}
}

func TestPrefillSaturatedUnknown(t *testing.T) {
	t.Parallel()
	f := prefilling(t, 1, 0, 4)
	f.run(15 * time.Minute)
	if !f.firing(prefillSaturatedName) {
		t.Fatal("it does not fire")
	}
	f.pages = nil
	f.run(2 * time.Minute)
	if p := f.detector(prefillSaturatedName); !f.firing(prefillSaturatedName) || p.Phase != PhaseFiring {
		t.Errorf("it ends as soon as there is no page: %+v", p)
	}
	f.run(6 * time.Minute)
	if p := f.detector(prefillSaturatedName); f.firing(prefillSaturatedName) || p.Phase != PhaseUnknown {
		t.Errorf("without pages: %+v", p)
	}
}
