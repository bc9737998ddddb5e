package collector

import (
	"context"
	"time"
)

// workerRest is how long a worker waits for the next scrape before it ends.
const workerRest = 5 * time.Second

// crew are the workers that scrape for the targets. A scrape needs a stack of
// tens of kB: a target that kept one between its scrapes would waste it, and one
// that grew it anew each time would spend a good part of the scrape on that. So
// few workers share them, as many as scrapes go on at once.
type crew struct {
	jobs chan func()
}

func newCrew() *crew { return &crew{jobs: make(chan func())} }

// do has a worker do the job; where none rests the caller becomes one.
func (c *crew) do(ctx context.Context, job func()) {
	select {
	case c.jobs <- job:
	default:
		c.work(ctx, job)
	}
}

// work does the job, and then others until none comes for a while.
func (c *crew) work(ctx context.Context, job func()) {
	rest := time.NewTimer(workerRest)
	defer rest.Stop()
	for {
		job()
		rest.Reset(workerRest)
		select {
		case job = <-c.jobs:
		case <-rest.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// repeat has the job done whenever it is due, until ctx is done; then it calls
// ended, once, when no job is under way any more. due gives the time of the next
// one, the job is given it. Between two jobs there is but a timer: no goroutine
// waits.
func (c *crew) repeat(ctx context.Context, due func() time.Time, job func(due time.Time), ended func()) {
	var at time.Time
	var timer *time.Timer
	// When ctx is done the timer is stopped either by what follows that or by who
	// sets it, or it has fired: each of the three ends this, and only one happens.
	next := func() {
		at = due()
		timer.Reset(time.Until(at))
		if ctx.Err() != nil && timer.Stop() {
			ended()
		}
	}
	timer = time.AfterFunc(time.Hour, func() {
		c.do(ctx, func() {
			if ctx.Err() != nil {
				ended()
				return
			}
			job(at)
			next()
		})
	})
	timer.Stop()
	context.AfterFunc(ctx, func() {
		if timer.Stop() {
			ended()
		}
	})
	next()
}
