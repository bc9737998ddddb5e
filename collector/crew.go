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

// do has a worker do the job and waits until it is done.
func (c *crew) do(ctx context.Context, job func()) {
	done := make(chan struct{})
	run := func() {
		defer close(done)
		job()
	}
	select {
	case c.jobs <- run: // one rests
	default:
		go c.work(ctx, run)
	}
	<-done
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
