package main

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// scheduler does jobs at the times of their schedules. A job that is still
// running when its next time comes is not begun a second time: that time is
// left out. Jobs do not wait for each other.
type scheduler struct {
	log *slog.Logger

	mu   sync.Mutex
	jobs []*scheduledJob
	// changed wakes run up when a schedule became another.
	changed chan struct{}
	running sync.WaitGroup
}

// scheduledJob is one job and when it is due.
type scheduledJob struct {
	name string
	do   func(ctx context.Context, at time.Time) error
	// when is nil while the job has no schedule.
	when *Cron
	next time.Time
	busy bool
}

func newScheduler(log *slog.Logger) *scheduler {
	return &scheduler{log: log, changed: make(chan struct{}, 1)}
}

// add makes a job known; it has no schedule until set gives it one.
func (s *scheduler) add(name string, do func(ctx context.Context, at time.Time) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = append(s.jobs, &scheduledJob{name: name, do: do})
}

// set gives the job of that name its schedule from now on; nil is never.
func (s *scheduler) set(name string, when *Cron, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.name != name || j.when != nil && when != nil && j.when.text == when.text {
			continue // an unchanged schedule keeps its next time
		}
		j.when, j.next = when, time.Time{}
		if when != nil {
			j.next = when.Next(now)
		}
	}
	s.wake()
}

// catchUpAfter is how long after a start a missed time is made up for: by then
// the rules have seen the fleet.
const catchUpAfter = 2 * time.Minute

// catchUp makes the job of that name due soon, once, when a time of its schedule
// has passed since it was done last; a zero last was never.
func (s *scheduler) catchUp(name string, last, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.name != name || j.when == nil || last.IsZero() || j.busy {
			continue
		}
		if missed := j.when.Next(last); !missed.IsZero() && !missed.After(now) && j.next.After(now.Add(catchUpAfter)) {
			j.next = now.Add(catchUpAfter)
		}
	}
	s.wake()
}

// hasten makes the job of that name due now, if it has a schedule.
func (s *scheduler) hasten(name string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.name == name && j.when != nil {
			j.next = now
		}
	}
	s.wake()
}

// wake lets run look at the clock.
func (s *scheduler) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// run does the jobs until ctx ends, and waits for those that are running.
func (s *scheduler) run(ctx context.Context) error {
	defer s.running.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		case <-timer.C:
		}
		now := time.Now()
		timer.Reset(s.step(ctx, now).Sub(now))
	}
}

// idleStep is how long run sleeps at most: a clock that was set is noticed
// within it.
const idleStep = time.Minute

// step begins what is due at now and says when to look again.
func (s *scheduler) step(ctx context.Context, now time.Time) (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = now.Add(idleStep)
	for _, j := range s.jobs {
		if j.next.IsZero() {
			continue
		}
		if !j.next.After(now) {
			j.next = j.when.Next(now)
			s.begin(ctx, j, now)
		}
		if !j.next.IsZero() && j.next.Before(next) {
			next = j.next
		}
	}
	return next
}

// begin does a job aside. The caller holds the lock.
func (s *scheduler) begin(ctx context.Context, j *scheduledJob, now time.Time) {
	if j.busy {
		s.log.Warn("a scheduled job still runs when it is due again; this time is left out", "job", j.name)
		return
	}
	j.busy = true
	s.running.Go(func() {
		if err := j.do(ctx, now); err != nil && ctx.Err() == nil {
			s.log.Error("a scheduled job failed; it is tried again at its next time", "job", j.name, "err", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		j.busy = false
	})
}
