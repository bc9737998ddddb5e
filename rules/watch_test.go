package rules

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

func newWatch(s *settings) *watch {
	if s.severity == "" {
		s.severity = SeverityWarning
	}
	return &watch{
		rule:     &Alerting{Name: "Test", Severity: SeverityWarning},
		settings: s, subject: labels.FromStrings("pool", "p"),
	}
}

func TestWatchLife(t *testing.T) {
	t.Parallel()
	w := newWatch(&settings{hold: time.Minute, labels: map[string]string{"team": "x"}})
	at := func(s int) time.Time { return testStart.Add(time.Duration(s) * time.Second) }
	on, off := Verdict{Active: true, Summary: "s"}, Verdict{Phase: PhaseWatching}

	w.step(at(0), on, "http://k")
	if w.Alert == nil || w.Alert.State != StatePending || len(w.alerts(nil)) != 1 {
		t.Fatalf("at once: %+v", w.Alert)
	}
	w.step(at(30), off, "")
	if w.Alert != nil || len(w.Resolved) != 0 {
		t.Fatal("a pending alert that ends was never one")
	}
	w.step(at(40), on, "http://k")
	w.step(at(99), on, "http://k")
	if w.Alert.State != StatePending {
		t.Fatal("it fires before its time")
	}
	w.step(at(100), on, "http://k")
	a := w.Alert
	if a.State != StateFiring || !a.FiredAt.Equal(at(100)) || !a.ActiveAt.Equal(at(40)) {
		t.Fatalf("after a minute: %+v", a)
	}
	if a.Labels["team"] != "x" || a.Labels["pool"] != "p" || a.Labels["alertname"] != "Test" || a.Labels["severity"] != "warning" {
		t.Errorf("labels %v", a.Labels)
	}
	if a.Annotations["runbook_url"] != "http://k/runbooks/Test" || a.Annotations["summary"] != "s" {
		t.Errorf("annotations %v", a.Annotations)
	}
	w.step(at(200), off, "")
	if got := w.alerts(nil); len(got) != 1 || got[0].State != StateResolved || !got[0].ResolvedAt.Equal(at(200)) {
		t.Fatalf("resolved: %+v", got)
	}
	w.step(at(200+15*60), off, "")
	if len(w.alerts(nil)) != 1 {
		t.Error("it is forgotten too early")
	}
	w.step(at(201+15*60), off, "")
	if len(w.alerts(nil)) != 0 {
		t.Error("it is told of for ever")
	}
}

func TestKeepFiringFor(t *testing.T) {
	t.Parallel()
	w := newWatch(&settings{keep: time.Minute})
	at := func(s int) time.Time { return testStart.Add(time.Duration(s) * time.Second) }
	on, off, unknown := Verdict{Active: true}, Verdict{Phase: PhaseWatching}, Verdict{Phase: PhaseUnknown}
	for _, step := range []struct {
		at      int
		verdict Verdict
		fires   bool
	}{
		{0, on, true},
		{10, off, true},
		{60, off, true},
		{65, on, true}, // it began again in time
		{70, off, true},
		{129, off, true},
		{130, off, false},
		{140, off, false},
		{200, on, true},
		{210, off, true},
		{220, unknown, true},
		{270, off, false},
	} {
		w.step(at(step.at), step.verdict, "")
		if fires := w.Alert != nil && w.Alert.State == StateFiring; fires != step.fires {
			t.Fatalf("at %d s it fires: %t, want %t", step.at, fires, step.fires)
		}
	}
	if n := len(w.Resolved); n != 2 || !w.Resolved[0].ResolvedAt.Equal(at(130)) {
		t.Errorf("%d alerts resolved, want 2, the first one after 130 s: %+v", n, w.Resolved)
	}
	// A pending alert is not kept.
	w = newWatch(&settings{keep: time.Minute, hold: time.Minute})
	w.step(at(0), on, "")
	w.step(at(10), off, "")
	if w.Alert != nil {
		t.Errorf("a pending alert goes on: %+v", w.Alert)
	}
}

func TestWatchWithoutData(t *testing.T) {
	t.Parallel()
	w := newWatch(&settings{})
	on, gone := Verdict{Active: true}, unknown("no data")
	w.step(testStart, on, "")
	w.step(testStart.Add(time.Minute), gone, "")
	w.step(testStart.Add(5*time.Minute), gone, "")
	if w.firing().IsZero() {
		t.Error("a firing alert ends as soon as its data goes")
	}
	w.step(testStart.Add(7*time.Minute), gone, "")
	if !w.firing().IsZero() {
		t.Error("it fires for ever without data")
	}
	w.step(testStart.Add(8*time.Minute), gone, "")
	if w.Alert != nil {
		t.Error("it opens without data")
	}
}

func TestSeverityThatRises(t *testing.T) {
	t.Parallel()
	w := newWatch(&settings{})
	w.step(testStart, Verdict{Active: true}, "")
	w.step(testStart.Add(time.Minute), Verdict{Active: true, Severity: SeverityCritical}, "")
	all := w.alerts(nil)
	if len(all) != 2 || all[0].Severity != SeverityCritical || all[0].State != StateFiring || !all[0].ActiveAt.Equal(testStart) ||
		all[1].Severity != SeverityWarning || all[1].State != StateResolved {
		t.Errorf("alerts %+v", all)
	}
	// An override is the last word.
	w = newWatch(&settings{severity: SeverityInfo})
	w.step(testStart, Verdict{Active: true, Severity: SeverityCritical}, "")
	if w.Alert.Severity != SeverityInfo {
		t.Errorf("severity %s", w.Alert.Severity)
	}
}

// counting is a detector that counts how often it was asked.
type counting struct{ N int }

func (c *counting) Judge(PoolWindow, time.Time) Verdict {
	c.N++
	return Verdict{Phase: PhaseWatching}
}

func (c *counting) save() (json.RawMessage, error) { return json.Marshal(c) }

func (c *counting) load(raw json.RawMessage) error { return json.Unmarshal(raw, c) }

func TestDetectorKeepsWhatItLearned(t *testing.T) {
	t.Parallel()
	over := func(d *counting) *watch {
		return watchOver(&Alerting{Name: "Test"}, &settings{}, labels.FromStrings("pool", "p"), d, func(instant) PoolWindow { return PoolWindow{} })
	}
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := over(&counting{})
	before.judge(instant{}, time.Time{})
	before.judge(instant{}, time.Time{})
	e.retire(instant{now: testStart}, []*watch{before}, "it went")

	after := &counting{}
	e.takeUp(over(after))
	if after.N != 2 {
		t.Errorf("it learned %d, want what was learned before: 2", after.N)
	}
	if len(e.remembered.Watches) != 0 {
		t.Errorf("still remembered: %v", e.remembered.Watches)
	}
}

func TestLearnedIsForgottenInTheEnd(t *testing.T) {
	t.Parallel()
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	e.started = testStart
	e.remembered.Watches["gone"] = savedWatch{Detector: json.RawMessage(`{"N":1}`)}
	for _, step := range []struct {
		after time.Duration
		kept  int
	}{{time.Hour, 1}, {learnedKept, 1}, {learnedKept + 2*time.Hour, 0}} {
		e.forgetRemembered(instant{now: testStart.Add(step.after)})
		if n := len(e.remembered.Watches); n != step.kept {
			t.Errorf("after %s: %d remembered, want %d", step.after, n, step.kept)
		}
	}
}
