package fleet

import (
	"errors"
	"io"
	"math"
	"testing"
	"time"
)

// What scenarios change about the world shows in the share of recomputed
// tokens, in the hour from a quarter of an hour on.
func TestConditionsShow(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		do        func(f *Fleet)
		low, high float64 // times the usual
	}{
		{"nothing", func(*Fleet) {}, 0.85, 1.2},
		{"affinity lost", affinity(0), 5, 9},
		{"a quarter anywhere", affinity(0.75), 2.2, 5},
		{"a tenth anywhere", affinity(0.9), 1.35, 2.5},
		{"another model's cache", func(f *Fleet) { f.conditions.switching = 0.6 }, 1.3, 2.5},
		{"retrieved text", func(f *Fleet) { f.conditions.retrieval = 0.5 }, 1.6, 5},
		{"other words", func(f *Fleet) { f.conditions.brokenPrefix = true }, 5, 12.5},
		{"no cache on one", both(stopEngine(0), startEngine(0, false)), 1.5, 4},
		{"impatient clients", func(f *Fleet) {
			f.conditions.timeout, f.conditions.duplicates, f.conditions.reroute = 8*time.Second, 0.35, true
		}, 1.3, 5},
	}
	for _, test := range watched(tests) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := watch(t, Config{Profile: "A", Seed: 51, Load: 0.8})
			usual := w.until(90 * time.Minute)
			test.do(w.fleet)
			w.until(105 * time.Minute)
			s := w.until(165 * time.Minute)
			if ratio := s.miss / usual.miss; ratio < test.low || ratio > test.high {
				t.Errorf("the miss ratio goes from %.3f to %.3f, want %.2f to %.2f times as much", usual.miss, s.miss, test.low, test.high)
			}
		})
	}
}

func TestCourse(t *testing.T) {
	t.Parallel()
	c := course{from: 1, to: 3, begin: time.Hour, end: 3 * time.Hour}
	for at, want := range map[time.Duration]float64{
		0: 1, time.Hour: 1, 90 * time.Minute: 1.5, 2 * time.Hour: 2, 3 * time.Hour: 3, 9 * time.Hour: 3,
	} {
		if got := c.at(at); got != want {
			t.Errorf("at %v it is %v, want %v", at, got, want)
		}
	}
	if steady(2).at(-time.Hour) != 2 || steady(2).at(time.Hour) != 2 {
		t.Error("what is steady moves")
	}
}

// The load is highest in the afternoon of a working day, by what was asked for.
func TestTides(t *testing.T) {
	t.Parallel()
	tides := Tides{Day: 0.6, Weekend: 0.35}
	thursday := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for hours, want := range map[float64]float64{
		15: 1.6, 3: 0.4, 9: 1, 21: 1, 24 + 15: 1.6, 48 + 15: 1.6 * 0.35, 72 + 3: 0.4 * 0.35, 96 + 15: 1.6,
	} {
		at := thursday.Add(time.Duration(hours * float64(time.Hour)))
		if got := tides.at(at); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", at.Format("Mon 15:04"), got, want)
		}
	}
	if (Tides{}).at(thursday.Add(63*time.Hour)) != 1 {
		t.Error("without tides there is a weekend")
	}
}

// Lost pages are lost for whoever asks, in the share and the outages asked for.
func TestLoss(t *testing.T) {
	t.Parallel()
	const targets, span = 3, 14 * day
	l := newLoss(7, targets, 0.08, span)
	single, looks := 0, 0
	for target := range targets {
		if n := len(l.outages[target]); n < 14 || n > 45 {
			t.Errorf("target %d has %d outages in 14 days", target, n)
		}
		for _, o := range l.outages[target] {
			if length := o.End - o.Begin; length < 3*time.Minute || length > 20*time.Minute {
				t.Errorf("an outage of %v", length)
			}
			if !l.takes(target, o.Begin) || !l.takes(target, o.End-1) {
				t.Errorf("a page is there in the outage %v", o)
			}
		}
		for now := time.Duration(0); now < span; now += 15 * time.Second {
			taken := l.takes(target, now)
			if taken != l.takes(target, now) {
				t.Fatal("two looks at one time differ")
			}
			looks++
			if taken {
				single++
			}
		}
	}
	if share := float64(single) / float64(looks); share < 0.08 || share > 0.12 {
		t.Errorf("%.3f of all pages are lost, want 0.08 and those of the outages", share)
	}
	var none *loss
	if none.takes(0, 0) {
		t.Error("nothing loses a page")
	}
	f := mustNew(t, smallConfig())
	f.loss = newLoss(7, 3, 1, time.Hour)
	var s Snapshot
	for what, err := range map[string]error{
		"page of an engine": f.EnginePage(0, io.Discard), "page of the gateway": f.GatewayPage(io.Discard),
		"snapshot of an engine": f.EngineSnapshot(0, &s), "snapshot of the gateway": f.GatewaySnapshot(&s),
	} {
		if !errors.Is(err, ErrLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Chats come beside agents, with short prompts.
func TestChats(t *testing.T) {
	t.Parallel()
	var chats, agents, chatTokens float64
	f := mustNew(t, Config{
		Profile: "A", Seed: 52, Load: 0.5, Chat: Workload{SessionsPerHour: 100},
		Observe: func(c CallRecord) {
			if !c.Chat {
				agents++
				return
			}
			chats++
			chatTokens += float64(c.PromptTokens)
		},
	})
	f.Step(time.Hour)
	if chats < 500 || agents < 1000 || chatTokens/chats > 6000 {
		t.Errorf("%v calls of chats with %.0f tokens each, %v of agents", chats, chatTokens/chats, agents)
	}
}

// An engine that joins later is not there before, and gets sessions then.
func TestStandby(t *testing.T) {
	t.Parallel()
	f := mustNew(t, Config{Profile: "A", Seed: 53, Engines: 2, Standby: 1, WarmUp: 30 * time.Minute})
	if err := f.EnginePage(2, io.Discard); !errors.Is(err, ErrAbsent) || !f.Truth().Engines[2].Absent {
		t.Errorf("an engine that joins later: %v", err)
	}
	startEngine(2, true)(f)
	f.Step(30 * time.Minute)
	if err := f.EnginePage(2, io.Discard); err != nil {
		t.Error(err)
	}
	if e := f.Truth().Engines[2]; e.Admitted < 50 || e.Absent {
		t.Errorf("the engine that joined had %d calls in half an hour", e.Admitted)
	}
}
