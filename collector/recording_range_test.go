package collector

import (
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

func TestReplayRange(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	first, _ := r.Span()
	from, to := first.Add(5*time.Minute), first.Add(6*time.Minute)
	seen := map[string]int{}
	err := r.ReplayRange(t.Context(), RecordingRange{From: from, To: to, Complete: func(t *Target) { t.Gateway.Workers = 4 }}, func(r *Round) error {
		if r.Time.Before(from) || !r.Time.Before(to) || r.Target.Gateway.Workers != 4 {
			t.Errorf("a round of %s, %+v", r.Time, r.Target.Gateway)
		}
		seen[r.Target.Labels.Get(model.InstanceLabel)]++
		return nil
	})
	if err != nil || len(seen) != 3 {
		t.Fatalf("%v (%v)", seen, err)
	}
	for instance, n := range seen {
		if n < 11 || n > 13 {
			t.Errorf("%s has %d scrapes in a minute", instance, n)
		}
	}
	if got := r.Targets()[0].Gateway.Workers; got != 0 {
		t.Errorf("the recording itself was changed: %d workers", got)
	}
	for _, name := range r.Folders() {
		if d := r.Interval(name); d < 4900*time.Millisecond || d > 5100*time.Millisecond {
			t.Errorf("%s was scraped every %s", name, d)
		}
	}
	if d := r.Interval("nobody"); d != 0 {
		t.Errorf("nobody was scraped every %s", d)
	}
}

func TestUsualInterval(t *testing.T) {
	t.Parallel()
	for want, times := range map[time.Duration][]int64{
		0:                {5000},
		15 * time.Second: {0, 15_000, 30_000, 90_000, 105_000},
	} {
		if got := UsualInterval(times); got != want {
			t.Errorf("%v: %s, want %s", times, got, want)
		}
	}
}
