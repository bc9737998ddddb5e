package rules

import (
	"context"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

// plainFleet is a fleet whose gauges a test sets by itself.
type plainFleet struct {
	*fleet
	set func(i int, p *page)
}

func newPlainFleet(t *testing.T, engines int, o Options) *plainFleet {
	t.Helper()
	return &plainFleet{fleet: newFleet(t, engines, o)}
}

func (f *plainFleet) run(d time.Duration) {
	f.t.Helper()
	for end := f.now.Add(d); f.now.Before(end); {
		f.now = f.now.Add(step)
		for i, p := range f.pages {
			f.serve(p, 0.1)
			f.set(i, p)
			r := p.round(f.now)
			f.engine.Observe(&r)
		}
		f.eval()
	}
}

func TestQueueGrowing(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 2, Options{})
	f.set = func(_ int, p *page) { p.gauges(8, 0, 0.4) }
	f.run(20 * time.Minute)
	n := 1.0
	f.set = func(i int, p *page) {
		n += 0.2
		if i == 0 {
			p.gauges(8, n, 0.5)
		}
	}
	f.run(4 * time.Minute)
	if len(f.fired) > 0 {
		t.Errorf("it fires before requests waited for 5 minutes: %s", f.fired[0].Evidence.Seen)
	}
	f.run(6 * time.Minute)
	if !f.firing("QueueGrowing") {
		t.Fatal("a growing queue is not told")
	}
	a := f.lastFired("QueueGrowing")
	if !strings.Contains(a.Annotations["summary"], "bound by prefill") || !strings.Contains(a.Evidence.Seen, "e0:8000") {
		t.Errorf("%s: %s", a.Annotations["summary"], a.Evidence.Seen)
	}
	f.set = func(_ int, p *page) { p.gauges(8, 0, 0.4) }
	f.run(time.Minute)
	if f.firing("QueueGrowing") {
		t.Error("it does not end with the queue")
	}
	// A queue that is there but does not grow, and drains fast.
	f.fired = nil
	f.set = func(_ int, p *page) { p.gauges(8, 2, 0.4) }
	f.run(20 * time.Minute)
	if len(f.fired) > 0 {
		t.Errorf("a steady short queue fires: %s", f.fired[0].Evidence.Seen)
	}
	// One that needs minutes to drain.
	f.set = func(_ int, p *page) { p.gauges(8, 60, 0.97) }
	f.run(5 * time.Minute)
	if a := f.lastFired("QueueGrowing"); !strings.Contains(a.Annotations["summary"], "bound by kv") {
		t.Errorf("a queue that does not drain: %+v", a.Annotations)
	}
}

func TestQueueBinding(t *testing.T) {
	t.Parallel()
	pools := []PoolConfig{{Name: "p", MaxNumSeqs: 8}}
	for want, set := range map[string]func(p *page){
		"slots":    func(p *page) { p.gauges(8, 5, 0.4) },
		"prefill":  func(p *page) { p.gauges(5, 5, 0.4) },
		"kv":       func(p *page) { p.gauges(5, 5, 0.93) },
		"deferred": func(p *page) { p.gauges(5, 1, 0.4); p.set(4, collector.VLLMWaitingByReason, "reason", "deferred") },
	} {
		f := newPlainFleet(t, 1, Options{Pools: pools})
		f.set = func(_ int, p *page) { set(p) }
		f.run(time.Minute)
		w := instant{now: f.now, ms: f.now.UnixMilli(), fresh: time.Minute, interval: step}.pool(f.engine.pools["p"])
		if got, why, next := w.binding(); got != want || why == "" || next == "" {
			t.Errorf("bound by %s (%s), want %s", got, why, want)
		}
	}
}

func TestKVSaturated(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 2, Options{})
	f.set = func(_ int, p *page) { p.gauges(8, 0, 0.4) }
	f.run(10 * time.Minute)
	f.set = func(i int, p *page) {
		if i == 1 {
			p.gauges(8, 0, 0.97)
		}
	}
	f.run(5 * time.Minute)
	if f.alerts("KVSaturated") > 0 {
		t.Errorf("it fires within 5 minutes")
	}
	f.run(2 * time.Minute)
	if a := f.lastFired("KVSaturated"); !strings.Contains(a.Evidence.Seen, "e1:8000 97%") || strings.Contains(a.Evidence.Seen, "e0:8000") {
		t.Errorf("evidence %q", a.Evidence.Seen)
	}
	f.set = func(_ int, p *page) { p.gauges(0, 0, 0.97) }
	f.run(time.Minute)
	if a := f.last; !f.firing("KVSaturated") || !strings.Contains(a[0].Annotations["summary"], "KV held by nothing running") {
		t.Errorf("alerts %+v", a)
	}
	f.set = func(_ int, p *page) { p.gauges(8, 0, 0.5) }
	f.run(step)
	if f.firing("KVSaturated") {
		t.Error("it does not end at once")
	}
}

func TestTargetStates(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, Options{Rules: map[string]Override{"TargetUnauthorised": {Labels: map[string]string{"team": "x"}}}})
	f.run(time.Minute)
	state := map[int]collector.State{}
	run := func(d time.Duration) {
		for end := f.now.Add(d); f.now.Before(end); {
			f.now = f.now.Add(step)
			for i, p := range f.pages {
				r := p.round(f.now)
				if s, ok := state[i]; ok {
					r = p.down(f.now)
					r.State, r.Reason = s, "refused."
				}
				f.engine.Observe(&r)
			}
			f.eval()
		}
	}
	state[0] = collector.StateTimeout
	run(time.Minute)
	if len(f.fired) > 0 {
		t.Error("it fires within a minute")
	}
	run(30 * time.Second)
	a := f.lastFired("TargetDown")
	if a.Severity != SeverityWarning || a.Labels["instance"] != "e0:8000" || !strings.Contains(a.Evidence.Seen, "could be read: refused. 1 of 3") || !strings.Contains(a.Annotations["summary"], "in time") {
		t.Errorf("alert %+v", a)
	}
	state[1] = collector.StateUnauthorised
	run(2 * time.Minute)
	if a := f.lastFired("TargetUnauthorised"); a.Labels["team"] != "x" || a.Labels["instance"] != "e1:8000" {
		t.Errorf("alert %+v", a)
	}
	state[1] = collector.StateDown
	run(2 * time.Minute)
	if a := f.lastFired("TargetDown"); a.Severity != SeverityCritical {
		t.Errorf("two of three down are %s", a.Severity)
	}
	if f.firing("TargetUnauthorised") {
		t.Error("TargetUnauthorised fires on")
	}
	clear(state)
	run(step)
	if f.firing("TargetDown") {
		t.Error("TargetDown fires for a target that is back")
	}
}

func TestUnknownIsNeverZero(t *testing.T) {
	t.Parallel()
	e, err := New(Options{ScrapeInterval: step})
	if err != nil {
		t.Fatal(err)
	}
	// An engine that has not run yet: counters at 0, no gauges.
	p := newPage("vllm", "a:8000", "m")
	p.serve(0, 1000, 100, 10)
	g := newGatewayPage("g:4000")
	g.set(1, collector.LiteLLMInFlight)
	for i := range 8 {
		now := testStart.Add(time.Duration(i) * step)
		for _, x := range []*page{p, g} {
			r := x.round(now)
			e.Observe(&r)
		}
		if err := e.Eval(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	known := map[string]bool{
		"kvwatch_reprefilled_tokens_total": true, "kvwatch_pool_reprefilled_tokens_total": true, "kvwatch_target_up": true,
		"kvwatch_target_state": true, "kvwatch_gateway_in_flight_requests": true, "kvwatch_pool_baseline_entries": true,
		"kvwatch_alerts": true, "kvwatch_series_quality": true,
	}
	for _, r := range e.Recorded() {
		name := r.Labels.Get("__name__")
		if r.Known && !known[name] {
			t.Errorf("%s is %g on an engine that never ran", r.Labels, r.Value)
		}
		if !r.Known && r.Reason == "" {
			t.Errorf("%s is unknown without a reason", r.Labels)
		}
		if name == "kvwatch_gateway_in_flight_requests" && r.Value != 0 {
			t.Errorf("an idle gateway has %g requests in flight: the scrape is not taken off", r.Value)
		}
	}
}

func TestStaleSeriesEnd(t *testing.T) {
	t.Parallel()
	open := map[*collector.Series]bool{}
	f := newFleet(t, 1, Options{Append: func(_ context.Context, _ time.Time, samples []collector.Sample, stale []*collector.Series) error {
		for _, s := range stale {
			if !open[s] {
				t.Errorf("%s ends and was not there", s.Labels)
			}
			delete(open, s)
		}
		for _, s := range samples {
			open[s.Series] = true
		}
		return nil
	}})
	f.run(10 * time.Minute)
	if len(open) < 30 {
		t.Fatalf("only %d series are stored", len(open))
	}
	pages := f.pages
	f.pages = nil // the target is not scraped any more
	f.run(2 * time.Minute)
	for s := range open {
		if s.Labels.Get("instance") != "" && s.Labels.Get("__name__") != SeriesQuality {
			t.Errorf("%s goes on without a page", s.Labels)
		}
	}
	f.now = f.now.Add(3 * time.Hour)
	f.run(step)
	for s := range open {
		if s.Labels.Get("instance") != "" {
			t.Errorf("%s goes on hours later", s.Labels)
		}
	}
	f.pages = pages
	f.run(2 * time.Minute)
	if len(f.engine.Pools()[0].Engines) != 1 {
		t.Error("the engine did not come back")
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, Options{}).learned()
	f.all(0.8)
	f.until(cacheCollapse, true, 10*time.Minute)
	before, fired := f.lastFired(cacheCollapse), len(f.fired)
	if err := f.engine.Reload([]PoolConfig{{Name: "a", Jobs: []string{"vllm"}}, {Name: "b", ModelName: "m"}}, nil, step); err == nil ||
		!strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("an engine of two pools gives %v", err)
	}
	if err := f.engine.Reload(nil, withoutWatchdog(map[string]Override{cacheCollapse: {Labels: map[string]string{"team": "x"}}}), step); err != nil {
		t.Fatal(err)
	}
	f.run(step)
	if d := f.detector(cacheCollapse); d.Phase != PhaseFiring {
		t.Errorf("after a reload the detector is %s: %s", d.Phase, d.Text)
	}
	if len(f.fired) != fired || !f.last[0].FiredAt.Equal(before.FiredAt) {
		t.Errorf("the reload fired again: %d alerts", len(f.fired))
	}
	if err := f.engine.Reload(nil, withoutWatchdog(map[string]Override{cacheCollapse: {Disabled: true}, missRising: {Disabled: true}}), step); err != nil {
		t.Fatal(err)
	}
	f.run(step)
	if f.firing(cacheCollapse) {
		t.Error("a disabled alert fires on")
	}
	if err := f.engine.Reload([]PoolConfig{{Name: "agents", ModelName: "m"}}, withoutWatchdog(nil), step); err != nil {
		t.Fatal(err)
	}
	if p := f.engine.Pools(); len(p) != 1 || p[0].Name != "agents" || len(p[0].Engines) != 2 {
		t.Errorf("pools %+v", p)
	}
}
