package fleet

import (
	"testing"
	"time"
)

// A guest goes the way of any request: it waits for a slot, its prompt takes
// its time, and its tokens leave one by one.
func TestGuestsTakeTheirTime(t *testing.T) {
	t.Parallel()
	hw := defaultHardware()
	hw.MaxSeqs = 1
	f := mustNew(t, Config{Quiet: true, Hardware: hw})
	from := f.Truth().Now
	first, second := f.newGuest(0, nil, 40_000, 100, 100), f.newGuest(0, nil, 1000, 10, 4096)
	first.request.prompt.blocks, second.request.prompt.blocks = blockHashes{1}, blockHashes{2}
	f.receive(first)
	f.receive(second)

	f.Step(from + 500*time.Millisecond)
	if truth := f.Truth().Engines[0]; truth.Running != 1 || truth.Waiting != 1 || first.progress().Tokens != 0 {
		t.Errorf("after half a second: %+v and %+v, want one running without a token, one waiting", truth, first.progress())
	}
	// 40 000 tokens at 40 000 a second, the later ones dearer, and five steps.
	f.Step(from + 1300*time.Millisecond)
	if p := first.progress(); p.Tokens < 2 || p.Tokens > 20 {
		t.Errorf("after 1.3 s it has %d tokens, want a few", p.Tokens)
	}
	before := first.progress().Tokens
	f.Step(from + 1500*time.Millisecond)
	// A step with one sequence of 40 000 tokens takes 9 + 0.15 + 0.4 ms.
	if more := first.progress().Tokens - before; more < 20 || more > 22 {
		t.Errorf("in 200 ms it got %d tokens more, want 21", more)
	}
	f.Step(from + 10*time.Second)
	if a, b := first.progress(), second.progress(); !a.Finished || a.Tokens != 100 || !b.Finished || b.Tokens != 10 {
		t.Errorf("in the end: %+v and %+v", a, b)
	}
	if queued := second.request.scheduled - second.request.queued; queued < 2*time.Second || queued > 2400*time.Millisecond {
		t.Errorf("the second waited for %v, want as long as the first took", queued)
	}
	if f.hosts() {
		t.Error("somebody is said to wait still")
	}
}
