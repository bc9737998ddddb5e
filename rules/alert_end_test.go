package rules

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
	"kvwatch/collector/history"
)

// scrape feeds one round of each page, as made by of, and evaluates.
func (f *fleet) scrape(of func(i int, p *page) collector.Round) {
	f.t.Helper()
	f.now = f.now.Add(step)
	for i, p := range f.pages {
		r := of(i, p)
		if f.store != nil {
			if err := f.store.AppendRound(f.t.Context(), &r); err != nil {
				f.t.Fatal(err)
			}
		}
		f.engine.Observe(&r)
	}
	f.eval()
}

// resolved lists the summaries of what resolved lately under the name.
func (f *fleet) resolved(name string) []string {
	var summaries []string
	for _, a := range f.last {
		if a.Name == name && a.State == StateResolved {
			summaries = append(summaries, a.Annotations["summary"])
		}
	}
	return summaries
}

// TestRestartTellsATargetsAlertOnce restarts while a target refuses the key:
// history does not hold why its scrapes failed, so that no other alert may
// speak for it, nor this one end.
func TestRestartTellsATargetsAlertOnce(t *testing.T) {
	t.Parallel()
	store, err := history.Open(history.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	f := newFleet(t, 1, Options{StateFile: filepath.Join(t.TempDir(), "rules.json"), Append: store.Append})
	f.store = store
	f.run(time.Minute)
	refused := func(_ int, p *page) collector.Round {
		r := p.down(f.now)
		r.State, r.Reason = collector.StateUnauthorised, "the server asks for a key (HTTP 401)"
		return r
	}
	for range 40 {
		f.scrape(refused)
	}
	if f.alerts("TargetUnauthorised") != 1 || len(f.fired) != 1 {
		t.Fatalf("fired %v", f.fired)
	}
	if err := f.engine.Save(); err != nil {
		t.Fatal(err)
	}
	f.start()
	if err := f.engine.Restore(t.Context(), f.now, store.Scan); err != nil {
		t.Fatal(err)
	}
	for range 6 { // before the first scrape
		f.now = f.now.Add(5 * time.Second)
		f.eval()
		if !f.firing("TargetUnauthorised") || len(f.resolved("TargetUnauthorised")) > 0 {
			t.Fatalf("before the first scrape: %+v", f.last)
		}
	}
	for range 12 {
		f.scrape(refused)
	}
	if !f.firing("TargetUnauthorised") || len(f.resolved("TargetUnauthorised")) > 0 || len(f.fired) != 1 {
		t.Fatalf("after the restart: fired %d times, told %+v", len(f.fired), f.last)
	}
	if e := f.last[0].Evidence; !strings.HasPrefix(e.Seen, "For 12 min e0:8000 could not be read: the server asks for a key (HTTP 401).") || strings.Contains(e.Next, "LiteLLM") {
		t.Errorf("evidence %+v", e)
	}
	f.run(step)
	if s := f.resolved("TargetUnauthorised"); len(s) != 1 || s[0] != "e0:8000 of job vllm can be read again" {
		t.Errorf("resolved as %q", s)
	}
}

// TestAlertsEndWithoutData lets all engines of a pool die while D1 fires.
func TestAlertsEndWithoutData(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{}).learned()
	f.all(0.8)
	f.until(cacheCollapse, true, 10*time.Minute)
	f.run(5 * time.Minute)
	dead := func(_ int, p *page) collector.Round { return p.down(f.now) }
	for range 8 {
		f.scrape(dead)
	}
	if !f.firing(cacheCollapse) || f.phase(cacheCollapse) != PhaseUnknown {
		t.Errorf("without data, within the grace: %s, told %+v", f.phase(cacheCollapse), f.last)
	}
	for _, a := range f.last {
		if strings.Contains(a.Annotations["summary"], "0% missed") && strings.Contains(a.Annotations["summary"], " 0%") {
			t.Errorf("it tells what is not known: %s", a.Annotations["summary"])
		}
	}
	for range 24 {
		f.scrape(dead)
	}
	if f.firing(cacheCollapse) || f.firing(missRising) {
		t.Error("D1 fires on without data")
	}
	if s := f.resolved(cacheCollapse); len(s) != 1 || !strings.Contains(s[0], "ended for want of data: no engine") {
		t.Errorf("resolved as %q", s)
	}
	// They come back as they were before: what was excess then does not fire again.
	f.all(0.1)
	f.run(10 * time.Minute)
	if f.firing(cacheCollapse) || f.alerts(cacheCollapse) != 1 {
		t.Errorf("it fired %d times", f.alerts(cacheCollapse))
	}
}

// phase is what the detector of the only pool said last, whatever its alert does.
func (f *fleet) phase(name string) string {
	for _, p := range f.engine.pools {
		for _, w := range p.watches {
			if w.rule.Name == name {
				return w.last.phase
			}
		}
	}
	return ""
}

// TestPendingWaitsForData loses the scrapes for a minute while an alert is pending.
func TestPendingWaitsForData(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 1, Options{})
	f.set = func(_ int, p *page) { p.gauges(8, 0, 0.97) }
	f.run(4 * time.Minute)
	before := f.engine.Alerts()
	if len(before) != 1 || before[0].State != StatePending {
		t.Fatalf("alerts %+v", before)
	}
	f.now = f.now.Add(time.Minute)
	f.eval()
	if f.phase("KVSaturated") != PhaseUnknown {
		t.Errorf("a minute without a page is %s", f.phase("KVSaturated"))
	}
	f.run(2 * step)
	if a := f.engine.Alerts(); len(a) != 1 || !a[0].ActiveAt.Equal(before[0].ActiveAt) {
		t.Errorf("after a minute without data: %+v", a)
	}
}
