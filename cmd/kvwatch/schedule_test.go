package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

// at is a time of 2026-11-29, the hours in UTC.
func at(t *testing.T, clock string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, "2026-11-29T"+clock+"Z")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCron(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, next string }{
		{"CRON_TZ=UTC */15 * * * *", "2026-11-29T10:15:00Z"},
		{"TZ=UTC 0 8 * * MON", "2026-11-30T08:00:00Z"},
		{"CRON_TZ=Europe/Madrid 0 9 * * *", "2026-11-30T08:00:00Z"},
		{"@every 1h", "2026-11-29T11:03:00Z"},
	} {
		cron, err := parseCron(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := cron.Next(at(t, "10:03:00")).UTC().Format(time.RFC3339); got != c.next {
			t.Errorf("%s: next is %s, want %s", c.text, got, c.next)
		}
	}
}

// FuzzCron holds the parser to an error or a time table that goes on.
func FuzzCron(f *testing.F) {
	for _, seed := range []string{"*/15 * * * *", "CRON_TZ=Europe/Madrid 0 8 * * MON", "TZ=", "CRON_TZ= ", "@daily", "@every 0s", "0 8 30 2 *", "61 * * * *", "* * * * * *", ""} {
		f.Add(seed)
	}
	start := time.Date(2026, 11, 29, 10, 3, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCron(text)
		if err != nil {
			return
		}
		if next := c.Next(start); !next.After(start) {
			t.Errorf("%q: the time after %s is %s", text, start, next)
		}
	})
}

// TestScheduler steps through times: a job is begun when it is due, once for all
// the times that passed meanwhile, and not while it runs.
func TestScheduler(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := newScheduler(slog.New(slog.NewTextHandler(&log, nil)))
	var done []string
	release := make(chan struct{})
	s.add("quick", func(_ context.Context, at time.Time) error {
		done = append(done, at.Format(time.TimeOnly))
		return errors.New("no luck")
	})
	s.add("slow", func(context.Context, time.Time) error { <-release; return nil })
	s.add("never", func(context.Context, time.Time) error { t.Error("it has no schedule"); return nil })
	quarter, err := parseCron("CRON_TZ=UTC */15 * * * *")
	if err != nil {
		t.Fatal(err)
	}
	s.set("quick", quarter, at(t, "10:03:00"))
	ctx := t.Context()
	steps := []struct{ now, next string }{
		{"10:03:00", "10:04:00"}, // the clock is looked at each minute
		{"10:14:30", "10:15:00"},
		{"10:15:00", "10:16:00"},
		{"10:59:59", "11:00:00"}, // asleep for three times: one is made up for
	}
	for _, c := range steps {
		if next := s.step(ctx, at(t, c.now)); next.Format(time.TimeOnly) != c.next {
			t.Errorf("at %s: looks again at %s, want %s", c.now, next.Format(time.TimeOnly), c.next)
		}
		s.running.Wait()
	}
	if want := []string{"10:15:00", "10:59:59"}; !slices.Equal(done, want) {
		t.Errorf("it was done at %v, want %v", done, want)
	}
	if !strings.Contains(log.String(), "no luck") {
		t.Error("the log does not say that the job failed")
	}

	// A reload that changes nothing keeps the next time.
	same, err := parseCron(quarter.text)
	if err != nil {
		t.Fatal(err)
	}
	s.set("quick", same, at(t, "11:00:00"))
	s.step(ctx, at(t, "11:00:00"))
	s.running.Wait()
	if len(done) != 3 {
		t.Errorf("the schedule that stayed lost its time: %v", done)
	}
	s.hasten("quick", at(t, "11:00:30")) // out of turn, as after a reload
	s.hasten("never", at(t, "11:00:30"))
	s.step(ctx, at(t, "11:00:30"))
	s.running.Wait()
	if len(done) != 4 {
		t.Errorf("the job was not done out of turn: %v", done)
	}
	s.set("quick", nil, at(t, "11:01:00"))
	s.set("slow", quarter, at(t, "11:01:00"))
	s.step(ctx, at(t, "11:15:00"))
	s.step(ctx, at(t, "11:30:00"))
	close(release)
	s.running.Wait()
	if !strings.Contains(log.String(), "still runs when it is due again") || strings.Count(log.String(), "job=slow") != 1 {
		t.Errorf("the job that still ran was not left out once:\n%s", log.String())
	}
	if len(done) != 4 {
		t.Errorf("a job without a schedule was done: %v", done)
	}
}

// TestSchedulerRun begins what is due and waits for it when it is told to stop.
func TestSchedulerRun(t *testing.T) {
	t.Parallel()
	s := newScheduler(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	finished := false
	s.add("job", func(ctx context.Context, _ time.Time) error {
		cancel()
		<-ctx.Done()
		finished = true
		return ctx.Err()
	})
	daily, err := parseCron("@daily")
	if err != nil {
		t.Fatal(err)
	}
	s.set("job", daily, time.Now().Add(-48*time.Hour)) // it is due
	if err := s.run(ctx); err != nil || !finished {
		t.Errorf("run returned %v, the job finished: %v", err, finished)
	}
}
