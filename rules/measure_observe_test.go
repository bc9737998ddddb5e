package rules

import (
	"math"
	"testing"
	"time"

	"kvwatch/collector/history"
	"kvwatch/rules/sizing"
)

// TestMeasurerObserves: pages that are given one by one come to the slots that
// Read finds in a history of them; a slot is measured when it is over, or by Finish.
func TestMeasurerObserves(t *testing.T) {
	t.Parallel()
	store, err := history.Open(history.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	f := newFleet(t, 2, Options{})
	f.now = f.now.Truncate(sizing.SlotLength)
	begin := f.now
	m, err := NewMeasurer(nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	m.Finish() // of nothing, which is no slot
	for f.now.Before(begin.Add(23 * time.Minute)) {
		f.now = f.now.Add(15 * time.Second)
		for i, p := range f.pages {
			f.serve(p, f.miss[i])
			p.gauges(3, float64(i), 0.5) // one waits for the second engine, always
			r := p.round(f.now)
			if i == 1 && f.now.Sub(begin) > 10*time.Minute && f.now.Sub(begin) <= 20*time.Minute {
				r = p.down(f.now)
			}
			if err := store.AppendRound(t.Context(), &r); err != nil {
				t.Fatal(err)
			}
			m.Observe(&r)
		}
		want := max(int(f.now.Sub(begin.Add(time.Second))/sizing.SlotLength), 0)
		if got := len(m.Slots("vllm/m")); got != want {
			t.Fatalf("%d slots after %s, want %d", got, f.now.Sub(begin), want)
		}
	}
	m.Finish()
	slots := m.Slots("vllm/m")
	if len(slots) != 5 || !slots[4].Start.Equal(begin.Add(20*time.Minute)) {
		t.Fatalf("%d slots, the last at %s", len(slots), slots[len(slots)-1].Start)
	}
	read, err := NewMeasurer(nil, 20*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Read(t.Context(), begin.Add(20*time.Minute+measureSettle), store.Scan); err != nil {
		t.Fatal(err)
	}
	for i, want := range read.Slots("vllm/m") {
		got := slots[i]
		near := func(what string, a, b float64) {
			t.Helper()
			if math.Abs(a-b) > 1e-6*max(math.Abs(a), math.Abs(b)) {
				t.Errorf("slot %d, %s: observed %g, read %g", i, what, a, b)
			}
		}
		near("engines", float64(got.Engines), float64(want.Engines))
		near("covered", got.EngineSeconds, want.EngineSeconds)
		near("busy", got.BusySeconds, want.BusySeconds)
		near("queued", got.QueuedSeconds, want.QueuedSeconds)
		near("running", *got.Running, *want.Running)
		near("requests", got.Requests, want.Requests)
		near("prompted", got.Prompted, want.Prompted)
		near("missed", got.Missed, want.Missed)
		near("output", got.Output, want.Output)
		near("TTFT", got.TTFT.Sum, want.TTFT.Sum)
	}
	if len(read.Slots("vllm/m")) != 4 {
		t.Errorf("%d slots were read", len(read.Slots("vllm/m")))
	}
	if s := slots[1]; s.Engines != 2 || s.EngineSeconds != 600 || s.QueuedSeconds != 300 || *s.Waiting != 1 {
		t.Errorf("while both answer: %+v", s)
	}
	if s := slots[3]; s.Engines != 1 || s.EngineSeconds != 300 || s.QueuedSeconds != 0 {
		t.Errorf("while the second is down: %+v", s)
	}
	if s := slots[4]; s.EngineSeconds < 300 || s.EngineSeconds > 360 || s.Requests <= 0 {
		t.Errorf("of three minutes, and Finish: %+v", s)
	}
}

// TestMeasurerObservesSessions: sessions that went quiet are counted in the slot
// under way, once.
func TestMeasurerObservesSessions(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, Options{})
	f.now = f.now.Truncate(sizing.SlotLength)
	m, err := NewMeasurer(nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	quiet := &poolCalls{name: "vllm/m"}
	f.engine.sessions.pools = map[string]*poolCalls{"vllm/m": quiet}
	for range 3 * 20 {
		f.now = f.now.Add(15 * time.Second)
		f.serve(f.pages[0], 0.1)
		r := f.pages[0].round(f.now)
		m.Observe(&r)
		quiet.sessions++
		quiet.sessionCalls += 7
		m.ObserveSessions(f.engine)
	}
	m.Finish()
	sessions, calls := 0.0, 0.0
	for _, s := range m.Slots("vllm/m") {
		if s.Sessions < 19 || s.Sessions > 21 {
			t.Errorf("%g sessions at %s", s.Sessions, s.Start)
		}
		sessions, calls = sessions+s.Sessions, calls+s.SessionCalls
	}
	if sessions != 60 || calls != 420 {
		t.Errorf("%g sessions of %g calls", sessions, calls)
	}
}
