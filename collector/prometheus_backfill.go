package collector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
// (history takes nothing older than it holds). Call it before Run. The servers
// take turns, so that none is far behind the newest of another. It goes on with
// the other servers where one fails; the error says which, joined.
func (p *Prometheus) Backfill(ctx context.Context, now, since time.Time, sink func(ctx context.Context, round *Round)) error {
	var fills []*backfill
	p.mu.Lock()
	for _, s := range p.servers {
		from := now.Add(-time.Duration(s.config.Backfill))
		if since.After(from) {
			from = since
		}
		fills = append(fills, s.backfill(from, now))
	}
	p.mu.Unlock()
	fills = slices.DeleteFunc(fills, (*backfill).done)
	var errs []error
	for len(fills) > 0 {
		b := slices.MinFunc(fills, func(a, b *backfill) int { return cmp.Compare(a.next, b.next) })
		err := b.stretch(ctx, func(r *Round, _ pageInfo) { sink(ctx, r) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("prometheus_sources: filling history back from %s: %w", b.server.config.URL.Host, err))
		}
		fills = slices.DeleteFunc(fills, func(f *backfill) bool { return f == b && (err != nil || b.done()) })
	}
	return errors.Join(errs...)
}

// A backfill is the past of one server, as far as it is not handed on yet.
type backfill struct {
	server *promServer
	step   time.Duration
	// next is the time of the next step and until the last one, in Unix
	// milliseconds; steps is how many are asked for at once.
	next, until int64
	steps       int
}

func (s *promServer) backfill(from, until time.Time) *backfill {
	step := time.Duration(s.config.Interval).Truncate(time.Millisecond)
	// On whole steps: some servers move the start there by themselves.
	return &backfill{server: s, step: step, next: from.Truncate(step).Add(step).UnixMilli(), until: until.UnixMilli(), steps: firstSteps}
}

func (b *backfill) done() bool { return b.next > b.until }

// stretch asks for one stretch and hands it on. Its length follows the number of
// series, so that memory is bounded.
func (b *backfill) stretch(ctx context.Context, sink func(*Round, pageInfo)) error {
	s, start := b.server, b.next
	left := int((b.until-start)/b.step.Milliseconds()) + 1
	for b.steps = min(b.steps, left); ; b.steps /= 2 {
		seen := newPromRange(start, b.step, b.steps, backfillValues)
		end := seen.times[b.steps-1]
		err := s.queries(ctx, max(time.Duration(s.config.Timeout), backfillTimeout), seen, func(ctx context.Context, query string, each func(*querySeries) error) (bool, error) {
			return s.client.between(ctx, query, start, end, b.step, each)
		})
		if e, ok := errors.AsType[*queryError](err); ok && e.tooMany && b.steps > 1 {
			continue
		}
		if err != nil {
			return err
		}
		for i := range seen.times {
			s.show(seen, i, sink)
		}
		b.next = end + b.step.Milliseconds()
		held := max(1, (backfillValues-seen.room)/b.steps) // series
		b.steps = max(1, min(backfillValues/held*3/4, int(backfillSpan/b.step)))
		return nil
	}
}
