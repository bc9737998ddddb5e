package rules

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

// fires runs until the alert fires, at most so long, and holds its severity and
// texts to what is wanted.
func (f *plainFleet) fires(name, severity string, limit time.Duration, texts ...string) (after time.Duration) {
	f.t.Helper()
	begin := f.now
	for !f.firing(name) && f.now.Sub(begin) < limit {
		f.run(step)
	}
	a := f.lastFired(name)
	if !f.firing(name) || a.Severity != severity {
		f.t.Fatalf("%s: firing %v as %q, want %s: %+v", name, f.firing(name), a.Severity, severity, f.detector(name))
	}
	all := a.Annotations["summary"] + " " + a.Annotations["description"]
	for _, text := range texts {
		if !strings.Contains(all, text) {
			f.t.Errorf("%s does not say %q: %s", name, text, all)
		}
	}
	return f.now.Sub(begin)
}

func (f *plainFleet) quiet(name string, d time.Duration) {
	f.t.Helper()
	before := f.alerts(name)
	f.run(d)
	if f.alerts(name) > before || f.firing(name) {
		f.t.Errorf("%s fires: %s", name, f.lastFired(name).Evidence.Seen)
	}
}

func TestEngineStalled(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 2, Options{})
	f.set = func(int, *page) {}
	f.run(20 * time.Minute)
	if s := f.series("kvwatch_engine_stalled", "instance", "e0:8000"); !s.Known || s.Value != 0 {
		t.Errorf("of an engine that works: %+v", s)
	}
	f.calls = 0
	f.set = func(i int, p *page) {
		p.gauges(4, 0, 0.3)
		if i == 1 {
			p.serve(1, 5000, 500, 100)
		}
	}
	if after := f.fires("EngineStalled", SeverityCritical, 5*time.Minute, "e0:8000 of pool vllm/m", "4 running", "frozen after aborts"); after > 3*time.Minute || after < 2*time.Minute {
		t.Errorf("it took %s", after)
	}
	if a := f.lastFired("EngineStalled"); a.Labels["pool"] != "vllm/m" || !strings.HasPrefix(a.Evidence.Confidence, "medium") {
		t.Errorf("labels %v, confidence %q", a.Labels, a.Evidence.Confidence)
	}
	if s := f.series("kvwatch_engine_stalled", "instance", "e0:8000"); !s.Known || s.Value != 1 {
		t.Errorf("stalled: %+v", s)
	}
	if n := f.alerts("EngineStalled"); n != 1 {
		t.Errorf("%d engines stall, one does", n)
	}
	f.calls = 3
	f.run(step)
	if f.firing("EngineStalled") {
		t.Error("it does not end with the first tokens")
	}
	f.calls = 0
	f.set = func(_ int, p *page) { p.gauges(0, 0, 0) }
	f.quiet("EngineStalled", 20*time.Minute) // idle
	f.set = func(_ int, p *page) {
		p.gauges(4, 0, 0.2)
		p.set(0, collector.VLLMSleepState, "sleep_state", "awake")
	}
	f.quiet("EngineStalled", 20*time.Minute)
	if d := f.detector("EngineStalled"); d.Phase != PhaseUnknown || !strings.Contains(d.Text, "sleeps") {
		t.Errorf("asleep: %+v", d)
	}
}

func TestEngineLivelocked(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 1, Options{})
	f.set = func(_ int, p *page) { p.gauges(8, 3, 0.5) }
	f.quiet("EngineLivelocked", 20*time.Minute) // a queue that moves
	f.calls = 0
	f.set = func(_ int, p *page) { p.gauges(0, 6, 0) }
	if after := f.fires("EngineLivelocked", SeverityCritical, 6*time.Minute, "0 running and 6 waiting", "frozen after aborts"); after > 4*time.Minute || after < 3*time.Minute {
		t.Errorf("it took %s", after)
	}
	if f.firing("EngineStalled") {
		t.Error("nothing runs, and EngineStalled fires")
	}
	f.calls = 3
	f.set = func(_ int, p *page) { p.gauges(3, 2, 0.3) }
	f.run(time.Minute)
	if f.firing("EngineLivelocked") {
		t.Error("it does not end when requests are let in")
	}
	// What runs goes on, and nobody is let in.
	f.calls = 0
	f.set = func(_ int, p *page) {
		p.gauges(2, 6, 0.7)
		p.add(50, collector.VLLMGenerationTokens)
	}
	f.fires("EngineLivelocked", SeverityCritical, 6*time.Minute, "head of the queue is blocked")
	if a := f.lastFired("EngineLivelocked"); !strings.HasPrefix(a.Evidence.Confidence, "high") {
		t.Errorf("confidence %q", a.Evidence.Confidence)
	}
	// What waits for something else than capacity is no livelock.
	f.set = func(_ int, p *page) {
		p.gauges(0, 0, 0.7)
		p.set(6, collector.VLLMWaiting)
		p.set(6, collector.VLLMWaitingByReason, "reason", "deferred")
	}
	f.run(time.Minute)
	f.quiet("EngineLivelocked", 10*time.Minute)
}

func TestPreemptionStorm(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 2, Options{})
	n := 0.0
	f.set = func(i int, p *page) { p.add(n*float64(i), collector.VLLMPreemptions) }
	f.run(20 * time.Minute)
	n = 0.1 // of 3 requests: 3 %
	f.quiet("PreemptionStorm", 30*time.Minute)
	n = 0.5
	f.fires("PreemptionStorm", SeverityWarning, 10*time.Minute, "e1:8000 of pool vllm/m", "preemptions and", "finished requests in 10 min")
	n = 0
	f.run(11 * time.Minute)
	if f.firing("PreemptionStorm") {
		t.Error("it does not end")
	}
	// A large share of few.
	f.calls, n = 0, 0.1
	f.quiet("PreemptionStorm", 20*time.Minute)
	f.without = []string{collector.VLLMPreemptions}
	f.set = func(int, *page) {}
	f.run(time.Minute)
	if d := f.detector("PreemptionStorm"); d.Phase != PhaseUnknown {
		t.Errorf("without the counter: %+v", d)
	}
}

func TestQueueCapReachedByRefusals(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 2, Options{})
	refused := 0.0
	f.set = func(i int, p *page) {
		p.gauges(8, 2, 0.5)
		if i == 0 {
			p.add(refused, collector.VLLMRejections, "reason", "queue_full")
		}
	}
	f.run(20 * time.Minute)
	refused = 5
	f.run(step)
	refused = 0
	f.quiet("QueueCapReached", 10*time.Minute) // once is a burst
	refused = 1
	if after := f.fires("QueueCapReached", SeverityCritical, 5*time.Minute, "Pool vllm/m refuses requests", "503", "What the queue waits for: Prefill"); after > 2*time.Minute {
		t.Errorf("it took %s", after)
	}
	refused = 0
	f.run(3 * time.Minute)
	if f.firing("QueueCapReached") {
		t.Error("it does not end")
	}
}

// TestQueueCapReachedByGateway has engines that count no refusals themselves.
func TestQueueCapReachedByGateway(t *testing.T) {
	t.Parallel()
	for status, fires := range map[string]bool{"503": true, "500": false} {
		f := newPlainFleet(t, 1, Options{Pools: []PoolConfig{{Name: "p", Jobs: []string{"vllm"}, GatewayModels: []string{"coder"}}}})
		f.set = func(int, *page) {}
		f.run(time.Minute)
		g := newGatewayPage("g:4000")
		g.set(0, collector.LiteLLMDeployFailure, "model_id", "a", "requested_model", "coder", "exception_status", status)
		f.pages, f.miss = append(f.pages, g), append(f.miss, 0)
		f.set = func(i int, p *page) {
			if i == 1 {
				clear(p.values)
				p.order = p.order[:1]
				p.values[p.order[0]] = f.now.Sub(testStart).Seconds()
			}
		}
		f.run(5 * time.Minute)
		if f.firing("QueueCapReached") != fires {
			t.Errorf("a gateway that gets %s: firing %v", status, !fires)
		}
	}
}

func TestQueueCapReachedByPlateau(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "rules.json")
	f := newPlainFleet(t, 2, Options{StateFile: state, Rules: map[string]Override{"QueueCapReached": {Settings: map[string]any{"history": "2h"}}}})
	waiting := 0.0
	f.set = func(i int, p *page) {
		if i == 1 {
			p.gauges(8, waiting, 0.5)
		}
	}
	play := func(d time.Duration, next func(i int) float64) {
		t.Helper()
		for i := range int(d / step) {
			waiting = next(i)
			f.run(step)
		}
	}
	play(20*time.Minute, func(i int) float64 { return float64(i % 7) })
	play(10*time.Minute, func(i int) float64 { return float64(i) }) // it grows
	play(2*time.Minute, func(int) float64 { return 60 })
	play(10*time.Minute, func(int) float64 { return 20 }) // flat, and below
	play(10*time.Minute, func(i int) float64 { return float64(20 + 40*(i%2)) })
	if n := f.alerts("QueueCapReached"); n > 0 {
		t.Fatalf("it fires %d times before there is a plateau: %s", n, f.lastFired("QueueCapReached").Evidence.Seen)
	}
	f.start() // the highest of the day outlives a restart
	play(4*time.Minute, func(i int) float64 { return float64(60 - i%2) })
	if f.firing("QueueCapReached") {
		t.Error("it fires within 4 minutes")
	}
	play(2*time.Minute, func(i int) float64 { return float64(60 - i%2) })
	a := f.lastFired("QueueCapReached")
	if !f.firing("QueueCapReached") || !strings.Contains(a.Evidence.Seen, "e1:8000 holds") || strings.Contains(a.Evidence.Seen, "e0:8000") || !strings.Contains(a.Evidence.CauseText, "frozen") {
		t.Errorf("a plateau: %+v", a.Evidence)
	}
	play(time.Minute, func(int) float64 { return 30 })
	if f.firing("QueueCapReached") {
		t.Error("it does not end")
	}
	// What was the highest too long ago is forgotten.
	play(130*time.Minute, func(i int) float64 { return float64(i % 3) })
	play(6*time.Minute, func(int) float64 { return 9 })
	if !f.firing("QueueCapReached") {
		t.Errorf("a plateau of another day: %+v", f.detector("QueueCapReached"))
	}
}

func TestQueuePeak(t *testing.T) {
	t.Parallel()
	var p queuePeak
	if p.highest() != 0 {
		t.Error("of none")
	}
	for _, c := range []struct {
		slot    int64
		v, want float64
	}{{100, 3, 3}, {100, 7, 7}, {101, 2, 7}, {123, 1, 7}, {124, 1, 2}, {125, 1, 1}, {1000, 0.5, 0.5}, {999, 4, 4}} {
		p.note(c.slot, c.v)
		if got := p.highest(); got != c.want || len(p.Peaks) > peakSlots {
			t.Errorf("after %g in %d: %g of %d, want %g", c.v, c.slot, got, len(p.Peaks), c.want)
		}
	}
}

func TestQueueBoundSeries(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 1, Options{Pools: []PoolConfig{{Name: "p", MaxNumSeqs: 8}}})
	for _, c := range []struct {
		by  string
		set func(p *page)
	}{
		{"", func(p *page) { p.gauges(8, 0, 0.4) }},
		{boundSlots, func(p *page) { p.gauges(8, 5, 0.4) }},
		{boundPrefill, func(p *page) { p.gauges(5, 5, 0.4) }},
		{boundKV, func(p *page) { p.gauges(5, 5, 0.93) }},
		{boundDeferred, func(p *page) { p.gauges(5, 0, 0.4); p.set(4, collector.VLLMWaitingByReason, "reason", "deferred") }},
	} {
		f.set = func(_ int, p *page) { c.set(p) }
		f.run(time.Minute)
		for _, by := range []string{boundKV, boundSlots, boundPrefill, boundDeferred} {
			want := 0.0
			if by == c.by {
				want = 1
			}
			if s := f.series("kvwatch_queue_bound", "by", by); !s.Known || s.Value != want {
				t.Errorf("bound by %q: %s is %+v", c.by, by, s)
			}
		}
	}
}

func TestDeferredQueueGrows(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 1, Options{})
	deferred, step := 4.0, 0.0
	f.set = func(_ int, p *page) {
		deferred += step
		p.gauges(4, 0, 0.4)
		p.set(deferred, collector.VLLMWaiting)
		p.set(deferred, collector.VLLMWaitingByReason, "reason", "deferred")
	}
	f.quiet("QueueGrowing", 30*time.Minute)
	step = 0.5
	f.fires("QueueGrowing", SeverityWarning, 15*time.Minute, "bound by deferred", "none waiting for capacity")
}

// The report is kaito-project/kaito#2216: how long does the head of the queue wait?
func TestQueueTellsItsAge(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 2, Options{})
	waiting, step := 0.0, 0.0
	f.set = func(i int, p *page) {
		n := 0.0
		if i == 0 { // the other engine's queue stays empty
			waiting += step
			n = waiting
		}
		p.gauges(4, n, 0.4)
	}
	f.quiet("QueueGrowing", 15*time.Minute)
	step = 1
	after := f.fires("QueueGrowing", SeverityWarning, 9*time.Minute)
	age := func(want string) {
		t.Helper()
		for _, a := range f.engine.Alerts() {
			if a.Name == "QueueGrowing" && strings.Contains(a.Evidence.Seen, want) {
				return
			}
		}
		t.Errorf("it does not say %q: %+v", want, f.engine.Alerts())
	}
	age("the queue was last empty " + spell(after.Round(time.Minute)) + " ago, so none waits for longer")
	f.run(12 * time.Minute)
	age("the queue was not empty for 10 min or longer")
}
