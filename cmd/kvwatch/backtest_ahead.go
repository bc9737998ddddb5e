package main

import (
	"context"

	"golang.org/x/sync/errgroup"

	"kvwatch/collector"
)

const (
	// aheadRounds is how many rounds are handed on at once, aheadBatches how many
	// times as many are read before they are asked for: about 4 MB of 200 series.
	aheadRounds  = 256
	aheadBatches = 3
)

// readAhead reads a history and gives its rounds to sink, in their order, while
// the next ones are read: to read a page from disk takes as long as to judge it.
// An error of sink ends it and is returned as it is.
func readAhead(ctx context.Context, past pastSource, in timeRange, sink func(*collector.Round) error) error {
	group, within := errgroup.WithContext(ctx)
	read, used := make(chan []collector.Round, aheadBatches), make(chan []collector.Round, aheadBatches+1)
	group.Go(func() error {
		defer close(read)
		var batch []collector.Round
		hand := func() error {
			select {
			case read <- batch:
			case <-within.Done():
				return within.Err()
			}
			select {
			case batch = <-used:
				batch = batch[:0]
			default:
				batch = make([]collector.Round, 0, aheadRounds)
			}
			return nil
		}
		err := past.rounds(within, in, func(r *collector.Round) error {
			batch = appendRound(batch, r)
			if len(batch) < aheadRounds {
				return nil
			}
			return hand()
		})
		if err != nil || len(batch) == 0 {
			return err
		}
		return hand()
	})
	group.Go(func() error {
		for batch := range read {
			for i := range batch {
				if err := sink(&batch[i]); err != nil {
					return err
				}
			}
			select {
			case used <- batch:
			default:
			}
		}
		return nil
	})
	return group.Wait()
}

// appendRound copies a round to the end of a batch, into the slices that were
// there before: a source uses its own again.
func appendRound(batch []collector.Round, r *collector.Round) []collector.Round {
	n := len(batch)
	if n < cap(batch) {
		batch = batch[:n+1]
	} else {
		batch = append(batch, collector.Round{})
	}
	samples, histograms, stale := batch[n].Samples[:0], batch[n].Histograms[:0], batch[n].Stale[:0]
	batch[n] = *r
	batch[n].Samples, batch[n].Stale = append(samples, r.Samples...), append(stale, r.Stale...)
	batch[n].Histograms = appendHistograms(histograms, r.Histograms)
	return batch
}

// appendHistograms copies histograms and their buckets likewise; their bounds are
// never changed.
func appendHistograms(to, from []collector.Histogram) []collector.Histogram {
	for _, h := range from {
		n := len(to)
		if n < cap(to) {
			to = to[:n+1]
		} else {
			to = append(to, collector.Histogram{})
		}
		buckets := append(to[n].Buckets[:0], h.Buckets...)
		to[n] = h
		to[n].Buckets = buckets
	}
	return to
}
