package history

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// scanPoints is how many points Scan holds in memory: 34 hours of a series at 15 s.
const scanPoints = 8192

// Point is one sample of a series.
type Point struct {
	// T is its time in milliseconds since the epoch.
	T int64
	// V is its value in the unit of its series.
	V float64
}

// IsStale says that the point marks the end of its series, and is no value.
func (p Point) IsStale() bool { return value.IsStaleNaN(p.V) }

// Scan reads the raw points of the series that match all matchers, from
// (inclusive) to to (exclusive), so that neighbouring ranges share no point.
// The points of a series come in the order of time. Stale markers are left out.
//
// Series come in the order of their labels; those of the histograms that are
// stored whole come last, one histogram after the other. The points of a series
// that has more than 8192 of them come in several calls of fn, one after the
// other, those of a histogram's series in turns. The slice is reused: it is
// valid until fn returns. An error of fn ends the scan and is returned as it is.
func (s *Store) Scan(ctx context.Context, from, to time.Time, matchers []*labels.Matcher, fn func(ls labels.Labels, points []Point) error) error {
	return s.scan(ctx, from, to, matchers, false, fn)
}

// ScanWithStale is Scan with the stale markers left in, see Point.IsStale.
func (s *Store) ScanWithStale(ctx context.Context, from, to time.Time, matchers []*labels.Matcher, fn func(ls labels.Labels, points []Point) error) error {
	return s.scan(ctx, from, to, matchers, true, fn)
}

func (s *Store) scan(ctx context.Context, from, to time.Time, matchers []*labels.Matcher, stale bool, fn func(labels.Labels, []Point) error) (err error) {
	r, err := s.open(from, to)
	if err != nil || r == nil {
		return err
	}
	defer func() {
		if cerr := r.close(); err == nil && cerr != nil {
			err = fmt.Errorf("history: end the scan: %w", cerr)
		}
	}()
	return r.scan(ctx, from, to, matchers, stale, fn)
}

// reader reads a part of the history, as it stood when it was opened.
type reader struct {
	q   *querier
	buf []Point
	// These are used again for each histogram.
	unfolder unfolder
	blocks   []*block
}

// open opens the history from (inclusive) to to (exclusive); nil where nothing
// is between the two.
func (s *Store) open(from, to time.Time) (*reader, error) {
	mint, maxt := from.UnixMilli(), to.UnixMilli()-1
	if maxt < mint {
		return nil, nil
	}
	q, err := s.querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	return &reader{q: q, buf: make([]Point, 0, 256)}, nil
}

func (r *reader) close() error { return r.q.Close() }

// scan is Store.Scan within what the reader has open.
func (r *reader) scan(ctx context.Context, from, to time.Time, matchers []*labels.Matcher, stale bool, fn func(labels.Labels, []Point) error) error {
	// Without Start and End the hints would override the querier's range.
	hints := storage.SelectHints{Start: from.UnixMilli(), End: to.UnixMilli() - 1}
	whole, err := r.wholeHistograms(ctx, &hints, matchers)
	if err != nil {
		return scanError(from, to, err)
	}
	set := r.q.stored().Select(ctx, true, &hints, matchers...)
	var it chunkenc.Iterator
	for set.Next() {
		series := set.At()
		if whole.takes(series) {
			continue
		}
		it = series.Iterator(it)
		if r.buf, err = scanSeries(ctx, series.Labels(), it, r.buf[:0], stale, fn); err != nil {
			return err
		}
	}
	if err := set.Err(); err != nil {
		return scanError(from, to, err)
	}
	for _, h := range whole.all {
		if err := r.scanHistogram(ctx, h, stale, fn); err != nil {
			return err
		}
	}
	return nil
}

func scanError(from, to time.Time, err error) error {
	return fmt.Errorf("history: scan %s to %s: %w", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339), err)
}

// scanSeries hands the points of one series to fn and returns the buffer for the next one.
func scanSeries(ctx context.Context, ls labels.Labels, it chunkenc.Iterator, buf []Point, stale bool, fn func(labels.Labels, []Point) error) ([]Point, error) {
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			continue // a histogram that is stored whole: its classic series are read
		}
		t, v := it.At()
		if !stale && value.IsStaleNaN(v) {
			continue
		}
		if len(buf) == scanPoints {
			if err := fn(ls, buf); err != nil {
				return buf, err
			}
			buf = buf[:0]
			if err := ctx.Err(); err != nil {
				return buf, err
			}
		}
		buf = append(buf, Point{T: t, V: v})
	}
	if err := it.Err(); err != nil {
		return buf, fmt.Errorf("history: read %s: %w", ls, err)
	}
	if err := ctx.Err(); err != nil {
		return buf, err
	}
	if len(buf) == 0 {
		return buf, nil
	}
	return buf, fn(ls, buf)
}

// Queryable returns the history for Prometheus's query engine. Each querier
// must be closed; Close of the Store waits for that. A histogram that is stored
// whole is there under its own name, and as the series of its buckets (_bucket),
// sum and count.
func (s *Store) Queryable() storage.Queryable {
	return storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
		q, err := s.querier(mint, maxt)
		if err != nil {
			return nil, err
		}
		return q, nil
	})
}

func (s *Store) querier(mint, maxt int64) (*querier, error) {
	db, err := s.enter()
	if err != nil {
		return nil, err
	}
	var q storage.Querier
	var chunks func() (storage.ChunkQuerier, error)
	if db == nil {
		q, err = openReadOnly(s.opts.Dir, mint, maxt)
	} else {
		q, err = db.Querier(mint, maxt)
		chunks = func() (storage.ChunkQuerier, error) { return db.ChunkQuerier(mint, maxt) }
	}
	if err != nil {
		s.leave()
		return nil, fmt.Errorf("history: open a query: %w", err)
	}
	return &querier{classicQuerier: newClassicQuerier(q, mint, maxt, chunks), leave: s.leave}, nil
}

// querier tells the Store when it is closed, once.
type querier struct {
	*classicQuerier
	leave func()
}

// stored reads what is stored as it is.
func (q *querier) stored() storage.Querier { return q.Querier }

// Close implements storage.Querier.
func (q *querier) Close() error {
	if q.leave == nil {
		return nil
	}
	defer func() { q.leave(); q.leave = nil }()
	return q.classicQuerier.Close()
}
