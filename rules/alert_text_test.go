package rules

import (
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

func TestNothingPromptedIsNoRatio(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{}).learned()
	f.all(0.8)
	f.until(cacheCollapse, true, 10*time.Minute)
	f.calls = 0
	f.run(15 * time.Minute)
	told := 0
	for _, a := range f.last {
		if a.Name != cacheCollapse || a.State != StateFiring {
			continue
		}
		told++
		if text := a.Annotations["summary"] + a.Annotations["description"]; strings.Contains(text, " 0% ") || !strings.Contains(text, "Nothing was prompted for 10 min") {
			t.Errorf("an idle pool: %s", text)
		}
	}
	if told != 1 {
		t.Errorf("alerts %+v", f.last)
	}
}

// TestRecomputedHasNoCap holds the text of both levels to what was computed
// beyond each level's own multiple, while their sums stay at the cap.
func TestRecomputedHasNoCap(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{}).learned()
	f.all(0.8)
	f.until(cacheCollapse, true, 10*time.Minute)
	f.run(time.Hour)
	track := f.engine.pools["vllm/m"].excess.track()
	warn, page := track.Levels[levelWarn], track.Levels[levelPage]
	if warn.S != page.S || warn.Recomputed < 3*warn.S || warn.Recomputed <= page.Recomputed || warn.Cost <= warn.Recomputed {
		t.Errorf("warning: S %g, recomputed %g, cost %g; page: S %g, recomputed %g", warn.S, warn.Recomputed, warn.Cost, page.S, page.Recomputed)
	}
	for _, a := range f.last {
		want, told := map[string]float64{missRising: warn.Recomputed, cacheCollapse: page.Recomputed}[a.Name]
		if told && !strings.Contains(a.Evidence.Seen, "recomputed "+amount(want)+" prompt tokens") {
			t.Errorf("%s says %q, recomputed were %s", a.Name, a.Evidence.Seen, amount(want))
		}
	}
	f.all(0.1)
	f.until(cacheCollapse, false, time.Hour)
	if s := f.resolved(cacheCollapse); len(s) != 1 || !strings.HasPrefix(s[0], "Pool vllm/m no longer computes prompts again beyond its usual: now ") {
		t.Errorf("resolved as %q", s)
	}
}

func TestLearningHasNoExcess(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, Options{})
	f.run(2 * time.Hour)
	for _, n := range f.detector(missRising).Numbers {
		if strings.Contains(n.Name, "excess") || strings.Contains(n.Name, "threshold") {
			t.Errorf("%s is %g while the usual is learned", n.Name, n.Value)
		}
	}
}

// TestQueueTellsWhatItKnows has a queue that grows and does not drain, on an
// engine that counts no preemptions.
func TestQueueTellsWhatItKnows(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 1, Options{})
	n := 0.0
	f.set = func(_ int, p *page) {
		n += 30
		p.gauges(8, n, 0.97)
	}
	f.run(5 * time.Minute)
	if a := f.lastFired("QueueGrowing"); !strings.Contains(a.Evidence.Seen, "+120.0 per minute") {
		t.Errorf("the growth is not told: %s", a.Evidence.Seen)
	}
	f.run(5 * time.Minute)
	if !f.firing("KVSaturated") || !f.firing("QueueGrowing") {
		t.Errorf("alerts %+v", f.last)
	}
	for _, a := range f.last {
		if text := a.Annotations["description"]; strings.Contains(text, "preemption") {
			t.Errorf("%s tells of preemptions that nobody counts: %s", a.Name, text)
		}
	}
	f.set = func(_ int, p *page) { p.gauges(8, 0, 0.3) }
	f.run(step)
	if s := f.resolved("QueueGrowing"); len(s) != 1 || s[0] != "Pool vllm/m: the queue no longer grows, 0 requests waiting now" {
		t.Errorf("resolved as %q", s)
	}
}

func TestImpossibleUsageIsUnknown(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 2, Options{})
	f.set = func(_ int, p *page) { p.gauges(8, 2, 7.5) }
	f.run(20 * time.Minute)
	if f.alerts("KVSaturated") > 0 || f.phase("KVSaturated") != PhaseUnknown {
		t.Errorf("a usage of 7.5: %+v", f.detector("KVSaturated"))
	}
	w := instant{now: f.now, ms: f.now.UnixMilli(), fresh: time.Minute, interval: step}.pool(f.engine.pools["vllm/m"])
	if binds, why, _ := w.binding(); binds == "kv" {
		t.Errorf("bound by %s: %s", binds, why)
	}
}

// TestEnginesOfOneTargetAreToldApart has two data-parallel engines on one page.
func TestEnginesOfOneTargetAreToldApart(t *testing.T) {
	t.Parallel()
	f := newPlainFleet(t, 1, Options{})
	f.set = func(_ int, p *page) {
		p.gauges(8, 0, 0.4)
		p.set(0.98, collector.VLLMKVUsage, "engine", "1")
		p.set(8, collector.VLLMRunning, "engine", "1")
	}
	f.run(10 * time.Minute)
	if a := f.lastFired("KVSaturated"); !strings.Contains(a.Evidence.Seen, "KV usage: e0:8000#1 98%") {
		t.Errorf("evidence %q", a.Evidence.Seen)
	}
}

func TestTargetDownSaysWhatItIs(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, Options{})
	f.pages = append(f.pages, newGatewayPage("g:4000"))
	down, state, reason := map[int]bool{}, collector.StateDown, ""
	play := func(n int) {
		for range n {
			f.scrape(func(i int, p *page) collector.Round {
				if !down[i] {
					if i < 3 {
						f.serve(p, 0.1)
					}
					return p.round(f.now)
				}
				r := p.down(f.now)
				r.State, r.Reason = state, reason
				return r
			})
		}
	}
	evidence := func(instance string) Evidence {
		for _, a := range f.last {
			if a.Labels["instance"] == instance && a.State == StateFiring {
				return a.Evidence
			}
		}
		t.Fatalf("%s is not told: %+v", instance, f.last)
		return Evidence{}
	}
	const carried = "The rest of the pool carries its load"
	play(1)
	down[0], down[3] = true, true
	play(6)
	if !strings.Contains(evidence("e0:8000").Next, carried) || strings.Contains(evidence("g:4000").Next, carried) {
		t.Errorf("one of three: %q; a gateway: %q", evidence("e0:8000").Next, evidence("g:4000").Next)
	}
	down[1] = true
	play(1)
	if strings.Contains(evidence("e0:8000").Next, carried) {
		t.Errorf("two of three: %q", evidence("e0:8000").Next)
	}
	state, reason = collector.StateOverloaded, "the server is overloaded (HTTP 503)"
	play(1)
	if e := evidence("e0:8000"); !strings.HasPrefix(e.CauseText, "Saturation, not an outage") || strings.Count(e.Seen, "503") != 1 {
		t.Errorf("overloaded: %+v", e)
	}
	state, reason = collector.StateTooLarge, "the page is larger than 64 MiB"
	play(1)
	if e := evidence("e0:8000"); !strings.Contains(e.Seen, "could be read: the page is larger than 64 MiB. 2 of 3") {
		t.Errorf("too large: %q", e.Seen)
	}
}
