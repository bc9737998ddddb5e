package fleet

import (
	"testing"
	"time"
)

// What follows is not written into the simulator anywhere: it comes from
// caches, queues and clients together, and detectors are built on it.

// stretch is what happened between two times.
type stretch struct {
	// miss is the share of prompt tokens that was computed; boundary and within
	// are the hit ratios of the first and of the other calls of a turn.
	miss, boundary, within float64
	// residency is how many seconds a freed block stays, by flow; usage the
	// mean referenced share of the KV memory; waiting are requests.
	residency, usage, waiting float64
}

// watcher drives a fleet and says what happened meanwhile.
type watcher struct {
	fleet *Fleet
	calls facts
}

func watch(t *testing.T, config Config) *watcher {
	t.Helper()
	w := &watcher{calls: *newFacts()}
	config.Observe = w.calls.observe
	w.fleet = mustNew(t, config)
	return w
}

// until goes on to a time.
func (w *watcher) until(to time.Duration) stretch {
	before := w.fleet.Truth()
	w.calls = *newFacts()
	var s stretch
	looks := 0.0
	for now := before.Now; now < to; {
		now = min(now+time.Minute, to)
		w.fleet.Step(now)
		for _, e := range w.fleet.Truth().Engines {
			s.usage += e.KVUsage
			s.waiting += float64(e.Waiting)
			looks++
		}
	}
	after := w.fleet.Truth()
	s.usage /= looks
	s.waiting *= float64(len(after.Engines)) / looks
	var lookedUp, missed, generated float64
	for i, e := range after.Engines {
		was := before.Engines[i]
		lookedUp += float64(e.LookedUpTokens - was.LookedUpTokens)
		missed += float64(e.MissedTokens - was.MissedTokens)
		generated += float64(e.GeneratedTokens - was.GeneratedTokens)
	}
	s.miss = missed / lookedUp
	s.boundary, s.within = mean(w.calls.first), mean(w.calls.within)
	hw := w.fleet.Config().Hardware
	flow := (missed + generated) / (after.Now - before.Now).Seconds() / float64(len(after.Engines))
	s.residency = 0.75 * float64(hw.KVBlocks*hw.BlockSize) * (1 - s.usage) / flow
	return s
}

// at makes something happen.
func (w *watcher) at(t time.Duration, do func(f *Fleet)) {
	w.fleet.queue.once(t, func() { do(w.fleet) })
}

// The fleet is bistable: under a load that it carries well, half of it goes
// away for ten minutes, and hours later it is still in collapse, every prompt
// computed anew because every prompt is.
func TestCrashNearTheKneeTipsIntoCollapse(t *testing.T) {
	t.Parallel()
	config := Config{Profile: "B", Seed: 45, Load: 1.5}
	quiet := watch(t, config)
	if s := quiet.until(4 * time.Hour); s.miss > 0.2 || s.waiting > 3 {
		t.Errorf("without the crash: miss ratio %.2f, %.1f waiting", s.miss, s.waiting)
	}
	w := watch(t, config)
	before := w.until(time.Hour)
	w.at(time.Hour, both(stopEngine(0), stopEngine(1)))
	w.at(time.Hour+10*time.Minute, both(startEngine(0, true), startEngine(1, true)))
	w.until(3 * time.Hour)
	after := w.until(4 * time.Hour)
	t.Logf("before the crash %+v, two to three hours after it %+v", before, after)
	if after.miss < 4*before.miss || after.within > 0.5 || after.waiting < 20 {
		t.Errorf("two hours after the crash: miss ratio %.2f (before %.2f), within turns %.2f, %.1f waiting",
			after.miss, before.miss, after.within, after.waiting)
	}
	h := w.fleet.History()
	if at, ok := h.FirstQueue(time.Hour); !ok || at > time.Hour+20*time.Minute || h.Queues[len(h.Queues)-1].End != 0 {
		t.Errorf("sustained queues: %v, want one that lasts", h.Queues)
	}
	h.Quiet.End = time.Hour
	if !h.Excess(3*time.Hour) || h.Excess(30*time.Minute) {
		t.Error("the truth does not tell the collapse from the time before")
	}
}

// One of four restarts at three quarters of the load: nothing follows.
func TestRestartWithRoomIsHarmless(t *testing.T) {
	t.Parallel()
	for _, profile := range watched([]string{"B", "A"}) {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			w := watch(t, Config{Profile: profile, Seed: 42, Load: 0.75})
			before := w.until(2 * time.Hour)
			w.at(2*time.Hour, stopEngine(2))
			w.at(2*time.Hour+2*time.Minute, startEngine(2, true))
			w.until(2*time.Hour + 30*time.Minute)
			after := w.until(4 * time.Hour)
			t.Logf("before %+v, from half an hour after the restart on %+v", before, after)
			if after.miss > 1.25*before.miss || after.waiting > 1 {
				t.Errorf("after the restart: miss ratio %.3f (before %.3f), %.2f waiting", after.miss, before.miss, after.waiting)
			}
			if q := w.fleet.History().Queues; len(q) > 0 {
				t.Errorf("sustained queues %v", q)
			}
		})
	}
}

// What fails first when the load grows: residency, then the turn boundaries,
// then, all at once, what is within turns, and the queue. KV usage is still low
// when the queue begins.
func TestOrderOfFailureUnderRamp(t *testing.T) {
	t.Parallel()
	for _, profile := range watched([]string{"B", "A"}) {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			w := watch(t, Config{Profile: profile, Seed: 43})
			usual := w.until(2 * time.Hour)
			begin := w.fleet.Truth().Now
			w.fleet.conditions.load = course{from: 1, to: 2.4, begin: begin, end: begin + 6*time.Hour}
			var residency, boundary, within time.Duration
			usageBefore := 0.0
			for queued := false; !queued || within == 0; {
				s := w.until(w.fleet.Truth().Now + 20*time.Minute)
				now := w.fleet.Truth().Now
				first(&residency, now, s.residency < 0.6*usual.residency)
				first(&boundary, now, s.boundary < 0.8*usual.boundary)
				first(&within, now, s.within < 0.9*usual.within)
				h := w.fleet.History()
				if _, queued = h.FirstQueue(begin); !queued {
					usageBefore = s.usage
				}
				if now > begin+6*time.Hour {
					t.Fatalf("at the end of the ramp: a queue %v, %+v", queued, s)
				}
			}
			h := w.fleet.History()
			queue, _ := h.FirstQueue(begin)
			multiplier := w.fleet.conditions.load.at(queue)
			t.Logf("residency fell after %v, boundaries after %v, within turns after %v; queue after %v at %.2f times the load, KV usage %.2f before",
				residency-begin, boundary-begin, within-begin, queue-begin, multiplier, usageBefore)
			if residency == 0 || boundary == 0 || within == 0 || residency > boundary || boundary >= within || residency >= queue {
				t.Error("the order is another")
			}
			if multiplier < 1.3 || multiplier > 2.2 {
				t.Errorf("the queue begins at %.2f times the load, want about 1.7", multiplier)
			}
			if usageBefore > 0.65 {
				t.Errorf("KV usage was %.2f before the queue", usageBefore)
			}
		})
	}
}

// first notes when something held for the first time.
func first(at *time.Duration, now time.Duration, holds bool) {
	if *at == 0 && holds {
		*at = now
	}
}
