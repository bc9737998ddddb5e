package rules

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestBurnWindows holds the windows against sums over everything, and the
// memory against its bound.
func TestBurnWindows(t *testing.T) {
	t.Parallel()
	spans := burnSpans{dense: time.Minute, near: time.Hour, sparse: 10 * time.Minute, far: 6 * time.Hour}
	rnd := rand.New(rand.NewPCG(5, 6))
	type tick struct {
		at          int64
		all, missed float64
	}
	var ticks []tick
	var b burn
	most := 0
	for now := testStart; now.Before(testStart.Add(20 * time.Hour)); now = now.Add(step) {
		x := tick{now.UnixMilli(), float64(rnd.IntN(20)), 0}
		x.missed = float64(int(x.all * rnd.Float64()))
		if now.Sub(testStart) > 9*time.Hour && now.Sub(testStart) < 11*time.Hour {
			continue // the daemon was down
		}
		ticks = append(ticks, x)
		b.add(x.at, x.all, x.missed, spans)
		most = max(most, len(b.Marks))
		if rnd.IntN(50) > 0 {
			continue
		}
		for d, slack := range map[time.Duration]time.Duration{5 * time.Minute: time.Minute, 30 * time.Minute: time.Minute, time.Hour: 2 * time.Minute, 6 * time.Hour: 12 * time.Minute} {
			var least, largest float64
			for _, y := range ticks {
				if y.at > x.at-d.Milliseconds() {
					least += y.all
				}
				if y.at > x.at-(d+slack).Milliseconds() {
					largest += y.all
				}
			}
			if got := b.window(x.at, d); got.all < least-ticks[0].all || got.all > largest {
				t.Fatalf("%s at %s: %g requests, want %g to %g", d, now.Sub(testStart), got.all, least, largest)
			}
		}
	}
	if most > 110 {
		t.Errorf("%d marks are kept", most)
	}
	if w := b.window(ticks[len(ticks)-1].at, 6*time.Hour); w.span != 6*time.Hour {
		t.Errorf("the window reaches back %s", w.span)
	}
}

func TestBurnBegins(t *testing.T) {
	t.Parallel()
	spans := burnSpans{dense: time.Minute, near: time.Hour, sparse: 10 * time.Minute, far: 6 * time.Hour}
	var b burn
	if w := b.window(testStart.UnixMilli(), time.Hour); w.rate() != 0 || w.span != 0 {
		t.Errorf("before anything: %+v", w)
	}
	for i := range 41 {
		b.add(testStart.Add(time.Duration(i)*step).UnixMilli(), 10, 5, spans)
	}
	// What came with the first mark was before it.
	if w := b.window(testStart.Add(40*step).UnixMilli(), time.Hour); w.span != 40*step || w.all != 400 || w.rate() != 0.5/errorBudget {
		t.Errorf("after 10 minutes: %+v, rate %g", w, w.rate())
	}
}
