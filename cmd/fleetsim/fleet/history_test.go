package fleet

import (
	"slices"
	"testing"
	"time"
)

// A queue is sustained when, over 10 minutes, requests waited in 40 % of all
// pairs of an engine and a look.
func TestSustainedQueues(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		queued func(look int) int // of 4 engines
		want   []Span
	}{
		"none":            {func(int) int { return 0 }, nil},
		"two of four":     {func(int) int { return 2 }, []Span{{Begin: 10 * time.Minute}}},
		"one of four":     {func(int) int { return 1 }, nil},
		"too short":       {func(n int) int { return 4 * within(n, 100, 115) }, nil},
		"for ten minutes": {func(n int) int { return 4 * within(n, 100, 140) }, []Span{{Begin: 1725 * time.Second, End: 2460 * time.Second}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h history
			for n := 1; n <= 240; n++ {
				h.look(look{queued: test.queued(n), pairs: 4}, time.Duration(n)*sampleEvery)
			}
			if !slices.Equal(h.Queues, test.want) {
				t.Errorf("queues %v, want %v", h.Queues, test.want)
			}
		})
	}
}

// within is 1 from one look on and before another.
func within(n, from, before int) int {
	if n >= from && n < before {
		return 1
	}
	return 0
}

// An alarm has something to fire at when 15 minutes of the half hour around it
// were 1.6 times as bad as usual.
func TestExcess(t *testing.T) {
	t.Parallel()
	h := History{Quiet: Span{End: 10 * time.Hour}}
	for minute := 1; minute <= 20*60; minute++ {
		missed := uint64(100)
		switch end := time.Duration(minute) * time.Minute; {
		case end > 10*time.Hour && end <= 11*time.Hour:
			missed = 300 // three times the usual
		case end > 15*time.Hour && end <= 16*time.Hour:
			missed = 150 // one and a half times
		}
		h.Minutes = append(h.Minutes, Minute{
			End: time.Duration(minute) * time.Minute, Engines: []EngineMinute{{LookedUp: 500, Missed: missed}, {LookedUp: 500}},
		})
	}
	if usual, ok := h.UsualMissRatio(); !ok || usual != 0.1 {
		t.Errorf("the usual miss ratio is %v (%v), want 0.1", usual, ok)
	}
	if ratio, ok := h.MissRatio(Span{10 * time.Hour, 11 * time.Hour}); !ok || ratio != 0.3 {
		t.Errorf("the miss ratio of the bad hour is %v (%v), want 0.3", ratio, ok)
	}
	for at, want := range map[time.Duration]bool{
		9*time.Hour + 30*time.Minute: false, 9*time.Hour + 50*time.Minute: true, 10*time.Hour + 30*time.Minute: true,
		11*time.Hour + 20*time.Minute: true, 11*time.Hour + 40*time.Minute: false, 15*time.Hour + 30*time.Minute: false,
	} {
		if got := h.Excess(at); got != want {
			t.Errorf("excess at %v: %v, want %v", at, got, want)
		}
	}
	var empty History
	if _, ok := empty.UsualMissRatio(); ok || empty.Excess(time.Hour) {
		t.Error("without a minute something is usual, or in excess")
	}
}

// Minutes add up to what the engines counted.
func TestMinutes(t *testing.T) {
	t.Parallel()
	f := mustNew(t, Config{Profile: "B", Seed: 61, WarmUp: 30 * time.Minute})
	before := f.Truth()
	f.Step(20 * time.Minute)
	after, h := f.Truth(), f.History()
	if len(h.Minutes) != 20 || h.Minutes[0].End != time.Minute || h.Minutes[19].End != 20*time.Minute {
		t.Fatalf("%d minutes", len(h.Minutes))
	}
	for i := range after.Engines {
		var got EngineMinute
		for _, m := range h.Minutes {
			e := m.Engines[i]
			got.LookedUp += e.LookedUp
			got.Missed += e.Missed
			got.Generated += e.Generated
			got.Admitted += e.Admitted
			got.Delayed += e.Delayed
		}
		was, is := before.Engines[i], after.Engines[i]
		want := EngineMinute{
			LookedUp: is.LookedUpTokens - was.LookedUpTokens, Missed: is.MissedTokens - was.MissedTokens,
			Generated: is.GeneratedTokens - was.GeneratedTokens,
			Admitted:  is.Admitted - was.Admitted, Delayed: is.Delayed - was.Delayed,
		}
		if got != want {
			t.Errorf("engine %d: minutes add up to %+v, it counted %+v", i, got, want)
		}
	}
}
