package rules

import (
	"math"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

// tokens are what all pages say was prompted and missed so far.
func (f *fleet) tokens() (missed, prompted float64) {
	for _, p := range f.pages {
		q := p.values[p.of(collector.VLLMPromptTokens)]
		prompted += q
		missed += q - p.values[p.of(collector.VLLMPromptCached)]
	}
	return missed, prompted
}

// TestDriftByHand holds the ratio, the fire and the end against two hours of
// pages, added up by hand.
func TestDriftByHand(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{})
	type reading struct{ missed, prompted float64 }
	var past []reading
	pinned, held, fell, fires, ends := 0.0, -1, -1, 0, 0
	fired := false
	play := func(d time.Duration) {
		t.Helper()
		for end := f.now.Add(d); f.now.Before(end); {
			before := 0.0
			if p := f.engine.pools["vllm/m"]; p != nil && p.excess.track() != nil && p.excess.track().Baseline.valid() {
				before = p.excess.track().Baseline.usual()
			}
			f.run(step)
			m, q := f.tokens()
			past = append(past, reading{m, q})
			drift := f.engine.pools["vllm/m"].drift
			b := f.engine.pools["vllm/m"].excess.track().Baseline
			if len(past) <= 480 || !b.valid() || before == 0 {
				continue
			}
			old := past[len(past)-481]
			usual := b.usual()
			if pinned > 0 {
				usual = pinned
			}
			ratio := (m - old.missed) / (q - old.prompted) / usual
			if drift.now.unknown != "" || math.Abs(drift.now.ratio-ratio) > 1e-9 {
				t.Fatalf("at %s: ratio %g (%s), by hand %g", f.now, drift.now.ratio, drift.now.unknown, ratio)
			}
			switch {
			case !fired && ratio < 1.3:
				pinned, held = 0, -1
			case !fired && held < 0:
				pinned, held = usual, 0
			case !fired:
				if held++; held == 120 { // 30 minutes
					fired, fell = true, -1
					fires++
				}
			case ratio >= 1.18:
				fell = -1
			default:
				if fell++; fell == 120 {
					fired, pinned, held = false, 0, -1
					ends++
				}
			}
			if f.firing(prefixCacheDrift) != fired {
				t.Fatalf("at %s with ratio %g: fires %t, by hand %t", f.now, ratio, !fired, fired)
			}
		}
	}
	play(8 * time.Hour)
	f.all(0.147) // too little for D1
	play(5 * time.Hour)
	if fires != 1 || f.alerts(missRising) > 0 {
		t.Fatalf("fired %d times by hand, D1 %d times", fires, f.alerts(missRising))
	}
	a := f.lastFired(prefixCacheDrift)
	if a.Severity != SeverityInfo || !strings.Contains(a.Evidence.Seen, "Over 2 h 1") || !strings.Contains(a.Evidence.Against, "1.3 times") || a.Evidence.Cost == "" {
		t.Errorf("alert %+v", a)
	}
	f.all(0.1)
	play(3 * time.Hour)
	if ends != 1 {
		t.Errorf("ended %d times", ends)
	}
	if s := f.detector(prefixCacheDrift); s.Phase != PhaseWatching {
		t.Errorf("%s: %s", s.Phase, s.Text)
	}
}

// TestDriftDoesNotHideItself lets D1's baseline learn a drift that stays: the
// ticket goes on, held against what was usual before, until it is the normal.
func TestDriftDoesNotHideItself(t *testing.T) {
	t.Parallel()
	scaled := Override{TimeScale: 0.1}
	f := newFleet(t, 4, Options{Rules: map[string]Override{missRising: scaled, cacheCollapse: scaled, prefixCacheDrift: scaled}})
	f.calls = 15
	f.run(90 * time.Minute)
	f.all(0.14)
	f.until(prefixCacheDrift, true, time.Hour)
	p := f.engine.pools["vllm/m"]
	before := p.drift.Usual
	f.run(6 * time.Hour)
	if now := p.excess.track().Baseline.usual(); now < 1.2*before || p.drift.Usual != before || !f.firing(prefixCacheDrift) {
		t.Errorf("D1's usual was %g and is %g; the drift is held against %g, fires %t", before, now, p.drift.Usual, f.firing(prefixCacheDrift))
	}
	f.until(prefixCacheDrift, false, 73*time.Minute) // 72 h, scaled, are over
	f.run(time.Hour)
	if f.alerts(prefixCacheDrift) != 1 {
		t.Errorf("it fired %d times", f.alerts(prefixCacheDrift))
	}
}

func TestDriftNeedsEvidence(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{Rules: fast()}).learnedFast()
	f.calls = 0.1
	f.run(12*time.Minute + step)
	d := f.detector(prefixCacheDrift)
	if d.Phase != PhaseUnknown || !strings.HasPrefix(d.Text, "insufficient evidence: ") {
		t.Errorf("%s: %s", d.Phase, d.Text)
	}
	for _, r := range f.engine.Recorded() {
		if r.Labels.Get("__name__") == "kvwatch_pool_prefix_cache_drift_ratio" && (r.Known || r.Reason != d.Text) {
			t.Errorf("the drift is told: %+v", r)
		}
	}
}

func TestAcceptEndsADrift(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{Rules: fast()}).learnedFast()
	f.all(0.2)
	f.until(prefixCacheDrift, true, 30*time.Minute)
	if err := f.engine.Accept("vllm/m", f.now); err != nil {
		t.Fatal(err)
	}
	f.run(step)
	if d := f.detector(prefixCacheDrift); f.firing(prefixCacheDrift) || d.Phase != PhaseLearning {
		t.Errorf("after it was accepted: %s: %s", d.Phase, d.Text)
	}
}

// A drift began where D1 began to sum an excess up, if it does: the window of two
// hours alone would ask what was wrong before anything was.
func TestDriftOnset(t *testing.T) {
	t.Parallel()
	d := cacheDrift{conf: driftConfig{window: 2 * time.Hour}, driftState: driftState{Begun: 10 * time.Hour.Milliseconds()}}
	track := newExcessTrack(sourceCached)
	track.Levels[levelWarn].Onset = 9 * time.Hour.Milliseconds()
	if got := d.onset(track); got != 8*time.Hour.Milliseconds() {
		t.Errorf("without an excess: %v", time.Duration(got)*time.Millisecond)
	}
	track.Levels[levelWarn].S = 1
	if got := d.onset(track); got != 9*time.Hour.Milliseconds() {
		t.Errorf("with an excess: %v", time.Duration(got)*time.Millisecond)
	}
}
