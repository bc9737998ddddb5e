package rules

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

// above is what all pages' histograms hold over a bound.
func (f *fleet) above(name string, le float64) float64 {
	sum := 0.0
	for _, p := range f.pages {
		h := p.hists[name]
		sum += p.values[h[len(h)-1]] - p.values[h[slices.Index(tokenBounds, le)]]
	}
	return sum
}

// handShare does D1r by hand, from the pages and nothing else.
type handShare struct {
	long, again          float64 // as of the last page
	hourLong, hourAgain  float64
	seconds, s           float64
	hours                []float64
	fired                bool
	below                float64 // seconds under 22
	fires, resolves, all int
}

func (h *handShare) usual() float64 {
	sorted := slices.Sorted(slices.Values(h.hours))
	m := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return max(0.02, sorted[m])
	}
	return max(0.02, (sorted[m-1]+sorted[m])/2)
}

func (h *handShare) tick(long, again float64) {
	n, g := long-h.long, again-h.again
	h.long, h.again = long, again
	frozen := h.s > 22.5 || h.fired
	if len(h.hours) >= 6 {
		h.s = max(0, min(h.s+g-1.5*h.usual()*n, 90))
		frozen = h.s > 22.5 || h.fired
	}
	h.hourLong += n
	h.hourAgain += g
	h.seconds += step.Seconds()
	if frozen {
		h.hourLong, h.hourAgain, h.seconds = 0, 0, 0
	} else if h.seconds >= 3600 && h.hourLong >= 60 {
		h.hours = append(h.hours, min(h.hourAgain/h.hourLong, 1))
		h.hourLong, h.hourAgain, h.seconds = 0, 0, 0
	}
	switch {
	case !h.fired && len(h.hours) >= 6 && h.s >= 45:
		h.fired, h.below = true, -1
		h.fires++
	case h.fired && h.s < 22:
		if h.below < 0 {
			h.below = 0
		} else {
			h.below += step.Seconds()
		}
		if h.below >= 300 {
			h.fired, h.s = false, 0
			h.resolves++
		}
	case h.fired:
		h.below = -1
	}
	h.all++
}

// TestReprefillShareByHand holds sum, baseline, fires and ends against the same
// arithmetic done by hand.
func TestReprefillShareByHand(t *testing.T) {
	t.Parallel()
	for name, miss := range map[string]float64{"quarter": 0.28, "random": 0.8} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 4, Options{})
			for f.engine.pools["vllm/m"] == nil || f.engine.pools["vllm/m"].share.PromptBound == 0 {
				f.run(step)
			}
			s := f.engine.pools["vllm/m"].share
			if s.PromptBound != 20000 || s.ComputedBound != 10000 {
				t.Fatalf("bounds %g and %g for P %g", s.PromptBound, s.ComputedBound, f.engine.pools["vllm/m"].heavyPrompt())
			}
			h := handShare{}
			h.long, h.again = f.above(collector.VLLMPromptHist, 20000), f.above(collector.VLLMComputedHist, 10000)
			play := func(d time.Duration) {
				for end := f.now.Add(d); f.now.Before(end); {
					f.run(step)
					h.tick(f.above(collector.VLLMPromptHist, 20000), f.above(collector.VLLMComputedHist, 10000))
					if math.Abs(s.Level.S-h.s) > 1e-6 || len(s.Baseline.Entries) != len(h.hours) || f.firing(reprefillShareHigh) != h.fired {
						t.Fatalf("after %d ticks: S %g, %d hours, fires %t; by hand %g, %d, %t",
							h.all, s.Level.S, len(s.Baseline.Entries), f.firing(reprefillShareHigh), h.s, len(h.hours), h.fired)
					}
				}
			}
			play(8 * time.Hour)
			if math.Abs(s.Baseline.usual()-h.usual()) > 1e-12 || h.usual() < 0.07 || h.usual() > 0.1 {
				t.Errorf("usual share %g, by hand %g", s.Baseline.usual(), h.usual())
			}
			f.all(miss)
			play(40 * time.Minute)
			f.all(0.1)
			play(90 * time.Minute)
			if h.fires != 1 || h.resolves != 1 || f.alerts(reprefillShareHigh) != 1 {
				t.Errorf("by hand it fires %d times and ends %d times, here it fired %d times", h.fires, h.resolves, f.alerts(reprefillShareHigh))
			}
		})
	}
}

func TestReprefillShareTellsWhatItSaw(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{Rules: fast()}).learnedFast()
	f.all(0.5)
	f.until(reprefillShareHigh, true, 10*time.Minute)
	a := f.lastFired(reprefillShareHigh)
	if a.Severity != SeverityWarning || a.Evidence.Cause != causeRoutingOrOthers || a.ActiveAt.After(a.FiredAt) {
		t.Errorf("alert %+v", a)
	}
	text := a.Annotations["description"]
	for _, part := range []string{"with a prompt over 20k tokens computed over 10k of them again", "Usual share 0.0", "the median of ", "45 calls", "prefilled again", "affinity"} {
		if !strings.Contains(text, part) {
			t.Errorf("the description has no %q: %s", part, text)
		}
	}
	f.run(5 * time.Minute)
	for _, a := range f.last {
		if a.Name == missRising && !strings.Contains(a.Evidence.Seen, " with a long prompt (usual 0.0") {
			t.Errorf("D1 does not tell the re-prefill share: %s", a.Evidence.Seen)
		}
	}
	// The operator says that this is normal.
	if err := f.engine.Accept("vllm/m", f.now); err != nil {
		t.Fatal(err)
	}
	f.run(step)
	if d := f.detector(reprefillShareHigh); f.firing(reprefillShareHigh) || d.Phase != PhaseLearning || d.Text != "learning, 0 of 6 hours" {
		t.Errorf("after it was accepted: %s: %s", d.Phase, d.Text)
	}
	f.run(45 * time.Minute)
	if usual := f.engine.pools["vllm/m"].share.Baseline.usual(); f.alerts(reprefillShareHigh) != 1 || math.Abs(usual-0.49) > 0.03 {
		t.Errorf("it fired %d times; the new usual share is %g", f.alerts(reprefillShareHigh), usual)
	}
}

func TestReprefillShareNeedsBothHistograms(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, Options{})
	f.without = []string{collector.VLLMComputedHist}
	f.run(time.Hour)
	if d := f.detector(reprefillShareHigh); d.Phase != PhaseUnknown || d.Text != reasonNoShare {
		t.Errorf("%s: %s", d.Phase, d.Text)
	}
	for _, r := range f.engine.Recorded() {
		if r.Labels.Get("__name__") == "kvwatch_pool_reprefill_share_ratio" && (r.Known || r.Reason != reasonNoShare) {
			t.Errorf("the share is told: %+v", r)
		}
	}
}

// TestBoundsMoveWithThePrompts lets prompts become a quarter of what they were:
// the bounds follow, and the share is learned anew.
func TestBoundsMoveWithThePrompts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, Options{Rules: fast()}).learnedFast()
	s := f.engine.pools["vllm/m"].share
	f.prompt /= 4
	f.calls *= 4
	for s.PromptBound == 20000 && f.now.Sub(testStart) < 8*time.Hour {
		f.run(5 * time.Minute)
	}
	if s.PromptBound != 10000 || s.Baseline.valid() || f.firing(reprefillShareHigh) {
		t.Errorf("bound %g, %d hours, fires %t", s.PromptBound, len(s.Baseline.Entries), f.firing(reprefillShareHigh))
	}
}

func TestNearestBound(t *testing.T) {
	t.Parallel()
	bounds := []float64{1, 2, 5, 10, 20, 50, 100, math.Inf(1)}
	for _, c := range []struct{ v, pinned, want float64 }{
		{19, 0, 20},
		{34, 0, 50}, // 50/34 is less than 34/20
		{30, 0, 20},
		{34, 20, 20}, // not clearly nearer
		{40, 20, 50},
		{30, 50, 50},
		{26, 50, 20},
		{5000, 0, 100},
		{0.1, 0, 1},
		{34, 25, 50}, // the engines have the pinned bound no more
	} {
		if got := nearestBound(bounds, c.v, c.pinned); got != c.want {
			t.Errorf("nearest to %g with %g pinned: %g, want %g", c.v, c.pinned, got, c.want)
		}
	}
	if got := nearestBound(nil, 10, 20); got != 0 {
		t.Errorf("of no bounds: %g", got)
	}
}

// TestKilledDuringShareAndDrift kills the daemon while D1r and D2 fire, and
// while they are on their way.
func TestKilledDuringShareAndDrift(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{Rules: fast()}).learnedFast()
	f.all(0.5)
	for range 12 {
		f.run(time.Minute)
		before := f.engine.pools["vllm/m"]
		f.restart()
		for _, p := range f.pages { // the first page after a restart without history counts from there
			r := p.round(f.now)
			f.engine.Observe(&r)
		}
		f.eval()
		p := f.engine.pools["vllm/m"]
		if p.share.Level.S != before.share.Level.S || p.share.Level.Onset != before.share.Level.Onset || p.drift.Usual != before.drift.Usual {
			t.Fatalf("S %g since %d, usual %g; after the restart %g since %d, %g", before.share.Level.S, before.share.Level.Onset, before.drift.Usual,
				p.share.Level.S, p.share.Level.Onset, p.drift.Usual)
		}
	}
	if f.alerts(reprefillShareHigh) != 1 || !f.firing(reprefillShareHigh) {
		t.Errorf("%s fired %d times", reprefillShareHigh, f.alerts(reprefillShareHigh))
	}
	f.until(prefixCacheDrift, true, time.Hour)
	names := []string{reprefillShareHigh, prefixCacheDrift}
	fired := map[string]time.Time{}
	for _, n := range names {
		fired[n] = f.lastFired(n).FiredAt
	}
	f.restart()
	f.run(5 * time.Minute)
	if err := f.engine.Reload(nil, fast(), step); err != nil {
		t.Fatal(err)
	}
	f.run(time.Minute)
	for _, n := range names {
		if f.alerts(n) != 1 || !f.firing(n) || !f.lastFired(n).FiredAt.Equal(fired[n]) {
			t.Errorf("%s fired %d times, at %s and %s", n, f.alerts(n), fired[n], f.lastFired(n).FiredAt)
		}
	}
}
