package history

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"

	"kvwatch/collector"
)

// SkippedError says that single samples of a round could not be stored; all
// the others are committed.
type SkippedError struct {
	// Skipped of Total samples were left out.
	Skipped, Total int
	// First is the first series that was left out, and Err why.
	First labels.Labels
	Err   error
}

// Error names the first series and the count.
func (e *SkippedError) Error() string {
	return fmt.Sprintf("history: %d of %d samples were not stored; the first is %s: %s",
		e.Skipped, e.Total, e.First, skipText(e.Err))
}

// Unwrap returns the database's error for the first series.
func (e *SkippedError) Unwrap() error { return e.Err }

// Append stores one round: samples at the time at, and stale markers for
// series that went. When it returns, what it stored survives a kill -9.
//
// A sample that cannot be stored (out of order, duplicate, too old, a label set
// that is not one) is counted and skipped, and never stops the rest: the error
// is then a *SkippedError. Any other error means that nothing of the round was
// stored. The same value again at the same time is no error; of two values of
// one series in one round the first is kept.
//
// Append may be called concurrently for different series. It reads and writes
// the series' Ref. See AppendRound for a round that was scraped.
func (s *Store) Append(ctx context.Context, at time.Time, samples []collector.Sample, stale []*collector.Series) error {
	return s.append(ctx, &collector.Round{Time: at, Samples: samples, Stale: stale}, false)
}

func (s *Store) append(ctx context.Context, of *collector.Round, scraped bool) error {
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	db, err := s.enterToAppend(of.Time)
	if err != nil {
		return err
	}
	defer s.leave()

	r := round{store: s, app: db.AppenderV2(ctx), at: of.Time.UnixMilli(), scraped: scraped}
	for _, smp := range of.Samples {
		r.append(smp.Series, smp.Value)
	}
	r.appendHistograms(of.Histograms)
	for _, series := range of.Stale {
		if series.Whole {
			r.endHistogram(series)
		} else {
			r.append(series, staleMarker())
		}
	}
	if err := s.commit(db, r.app, of.Time); err != nil {
		return err
	}
	s.noteHead(db)
	s.counters.appended.Add(uint64(r.total - r.skipped))
	if r.skipped == 0 {
		return nil
	}
	return &SkippedError{Skipped: r.skipped, Total: r.total, First: r.first.Labels, Err: r.firstErr}
}

// staleMarker is the value that marks the end of a series.
func staleMarker() float64 { return math.Float64frombits(value.StaleNaN) }

// round is one Append under way.
type round struct {
	store *Store
	app   storage.AppenderV2
	at    int64
	// scraped says that nobody else has seen the series that are new.
	scraped bool
	// total and skipped count samples.
	total, skipped int
	first          *collector.Series
	firstErr       error
}

func (r *round) append(series *collector.Series, v float64) {
	cached := r.store.cachedRef(series.Ref)
	ref, err := r.app.Append(cached, series.Labels, 0, r.at, v, nil, nil, storage.AOptions{})
	r.took(series, cached, ref, 1, err)
}

// took keeps the number that the database has given to a series, or counts the
// samples that it did not take.
func (r *round) took(series *collector.Series, cached, ref storage.SeriesRef, samples int, err error) {
	r.total += samples
	if err != nil {
		r.store.counters.skipped[skipReason(err)].Add(uint64(samples))
		r.skipped += samples
		if r.first == nil {
			r.first, r.firstErr = series, err
		}
		return
	}
	if series.Ref == 0 && r.scraped {
		r.shareLabels(series)
	}
	if ref != cached || series.Ref == 0 {
		series.Ref = r.store.epoch | uint64(ref)
	}
}

// shareLabels gives a new series the labels that the database holds for it. They
// are equal, but after a restart not the same ones: they were read from the
// write-ahead log, and would be in memory twice.
func (r *round) shareLabels(series *collector.Series) {
	held, ok := r.app.(storage.GetRef)
	if !ok {
		return
	}
	if ref, ls := held.GetRef(series.Labels, series.Labels.Hash()); ref != 0 {
		series.Labels = ls
	}
}

// The database numbers its series from 1 and keeps the number of a series for as
// long as the series is in memory; a number that it no longer knows makes it
// look the series up by its labels. But a number of another Store would mean
// another series here, so each Store marks its own in the bits above refBits,
// which the database itself never uses.
const refBits = 40

func newEpoch() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return (binary.NativeEndian.Uint64(b[:]) | 1) << refBits
}

func (s *Store) cachedRef(ref uint64) storage.SeriesRef {
	if ref>>refBits != s.epoch>>refBits {
		return 0
	}
	return storage.SeriesRef(ref & (1<<refBits - 1))
}

// The reasons for which a sample is skipped.
const (
	skipOutOfOrder = iota
	skipDuplicate
	skipTooOld
	skipInvalid
	skipReasons
)

type counters struct {
	appended atomic.Uint64
	skipped  [skipReasons]atomic.Uint64
}

func (c *counters) addTo(st *Stats) {
	st.Appended = c.appended.Load()
	st.SkippedBy = make(map[string]uint64, skipReasons)
	for reason, name := range [skipReasons]string{"out_of_order", "duplicate", "too_old", "invalid"} {
		n := c.skipped[reason].Load()
		st.SkippedBy[name] = n
		st.Skipped += n
	}
}

func skipReason(err error) int {
	switch {
	case errors.Is(err, storage.ErrOutOfOrderSample):
		return skipOutOfOrder
	case errors.Is(err, storage.ErrDuplicateSampleForTimestamp):
		return skipDuplicate
	case errors.Is(err, storage.ErrOutOfBounds), errors.Is(err, storage.ErrTooOldSample):
		return skipTooOld
	default:
		return skipInvalid
	}
}

func skipText(err error) string {
	switch skipReason(err) {
	case skipOutOfOrder:
		return "it already holds a newer sample (was the clock set back?)"
	case skipDuplicate:
		return "it already holds another value at the same time (do two targets expose the same series?)"
	case skipTooOld:
		return "its time is too far behind the newest sample of the storage (was the clock ahead once?)"
	default:
		return err.Error()
	}
}
