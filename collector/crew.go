package collector

import (
	"context"
	"slices"
	"sync"
	"time"
)

// workerRest is how long a worker waits for the next scrape before it ends.
const workerRest = 5 * time.Second

// crew are the workers that scrape for the targets. A scrape needs a stack of
// tens of kB: a target that kept one between its scrapes would waste it, and one
// that grew it anew each time would spend a good part of the scrape on that. So
// few workers share them, as many as scrapes go on at once.
type crew struct {
	mu sync.Mutex
	// resting are the workers that wait for a job. The last to rest is the first
	// to work again: its stack is warm, and those that nobody needs any more come to
	// their end.
	resting []chan func()
}

// do has a worker do the job; where none rests the caller becomes one.
func (c *crew) do(ctx context.Context, job func()) {
	if worker := c.wake(); worker != nil {
		worker <- job
		return
	}
	c.work(ctx, job)
}

// work does the job, and then others until none comes for a while.
func (c *crew) work(ctx context.Context, job func()) {
	jobs := make(chan func(), 1)
	rest := time.NewTimer(workerRest)
	defer rest.Stop()
	for {
		job()
		c.rest(jobs)
		rest.Reset(workerRest)
		select {
		case job = <-jobs:
			continue
		case <-rest.C:
		case <-ctx.Done():
		}
		if c.leave(jobs) {
			return
		}
		job = <-jobs // it was woken at the same time
	}
}

func (c *crew) wake() chan func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.resting) - 1
	if last < 0 {
		return nil
	}
	worker := c.resting[last]
	c.resting = c.resting[:last]
	return worker
}

func (c *crew) rest(worker chan func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resting = append(c.resting, worker)
}

// leave says whether the worker could leave; false is that it has a job to do.
func (c *crew) leave(worker chan func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.resting, worker)
	if at < 0 {
		return false
	}
	c.resting = slices.Delete(c.resting, at, at+1)
	return true
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
