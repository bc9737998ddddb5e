package collector

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// backfillValues is how many values are held at once while history is
	// filled: 32 MB of them, and as much again of text and bookkeeping.
	backfillValues = 4_000_000
	// backfillSpan is the longest stretch that is asked for at once. History
	// takes the series of a stretch one after another, and refuses what is half an
	// hour behind the newest.
	backfillSpan = 20 * time.Minute
	// backfillTimeout is how long a query of a stretch may take at least: it is
	// many times the work of one for the present.
	backfillTimeout = 30 * time.Second
	// firstSteps is how many steps are asked for before it is known how many
	// series there are.
	firstSteps = 4
)

// Backfill hands the past of all servers to sink, in rounds as Run would have
// given them: from `backfill` before now, or from since where that is later
// (history takes nothing older than it holds). Call it before Run. It goes on
// with the other servers where one fails; the error says which, joined.
func (p *Prometheus) Backfill(ctx context.Context, now, since time.Time, sink func(ctx context.Context, round *Round)) error {
	p.mu.Lock()
	servers := p.servers
	p.mu.Unlock()
	var errs []error
	for _, s := range servers {
		from := now.Add(-time.Duration(s.config.Backfill))
		if since.After(from) {
			from = since
		}
		if err := s.backfill(ctx, from, now, func(r *Round, _ pageInfo) { sink(ctx, r) }); err != nil {
			errs = append(errs, fmt.Errorf("prometheus_sources: filling history back from %s: %w", s.config.URL.Host, err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

// backfill asks for one stretch after another. Their length follows the number
// of series, so that memory is bounded.
func (s *promServer) backfill(ctx context.Context, from, until time.Time, sink func(*Round, pageInfo)) error {
	step := time.Duration(s.config.Interval).Truncate(time.Millisecond)
	// On whole steps: some servers move the start there by themselves.
	start := from.Truncate(step).Add(step).UnixMilli()
	steps := firstSteps
	for start <= until.UnixMilli() {
		left := int((until.UnixMilli()-start)/step.Milliseconds()) + 1
		steps = min(steps, left)
		seen := newPromRange(start, step, steps, backfillValues)
		end := seen.times[steps-1]
		err := s.queries(ctx, max(time.Duration(s.config.Timeout), backfillTimeout), seen, func(ctx context.Context, query string, each func(*querySeries) error) (bool, error) {
			return s.client.between(ctx, query, start, end, step, each)
		})
		if e, ok := errors.AsType[*queryError](err); ok && e.tooMany && steps > 1 {
			steps /= 2
			continue
		}
		if err != nil {
			return err
		}
		for i := range seen.times {
			s.show(seen, i, sink)
		}
		start = end + step.Milliseconds()
		held := max(1, (backfillValues-seen.room)/steps) // series
		steps = max(1, min(backfillValues/held*3/4, int(backfillSpan/step)))
	}
	return nil
}
