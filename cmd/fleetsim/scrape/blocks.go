package scrape

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/collector"
)

// blockLength is the time that one block holds: what Prometheus itself merges
// its blocks of two hours to.
const blockLength = 6 * time.Hour

// Past is a stretch of simulated time that is written down.
type Past struct {
	// Length is how much of it, from simulated time 0 on.
	Length time.Duration
	// Interval is the time between two scrapes of a target.
	Interval time.Duration
}

// each calls do at each time of a scrape, and ends where ctx does.
func (p Past) each(ctx context.Context, do func(at time.Duration) error) error {
	for at := time.Duration(0); at < p.Length; at += p.Interval {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := do(at); err != nil {
			return err
		}
	}
	return nil
}

// WriteBlocks writes what a Prometheus that scrapes the fleet would have stored
// of it into dir, as blocks of its database: all series of the pages as they are
// exposed, with job and instance, `up`, and stale markers where a scrape failed.
// The _created families, which no snapshot has, are left out. It returns the
// number of samples.
func WriteBlocks(ctx context.Context, f *fleet.Fleet, dir string, past Past) (samples int, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return 0, fmt.Errorf("storage path: %w", err)
	}
	w := &blockWriter{dir: dir}
	for _, p := range pages(f, past.Interval) {
		w.pages = append(w.pages, &storedPage{page: p, up: stored{labels: named(p.Labels, collector.Up)}})
	}
	defer func() { err = errors.Join(err, w.close()) }()
	err = past.each(ctx, func(at time.Duration) error {
		f.Step(at)
		return w.scrape(ctx, f.Config().Start.Add(at))
	})
	if err != nil {
		return w.samples, err
	}
	return w.samples, w.flush(ctx)
}

// named are the labels of a series of a target.
func named(target labels.Labels, name string) labels.Labels {
	return labels.NewBuilder(target).Set(model.MetricNameLabel, name).Labels()
}

// blockWriter fills one block after the other.
type blockWriter struct {
	dir     string
	pages   []*storedPage
	block   *tsdb.BlockWriter
	end     time.Time
	samples int
}

// storedPage is one page and its series in the block under way.
type storedPage struct {
	page

	snapshot fleet.Snapshot
	life     uint64
	series   []stored
	up       stored
	// wasUp says that its series have no stale marker yet.
	wasUp bool
}

// stored is one series and its place in the block.
type stored struct {
	labels labels.Labels
	ref    storage.SeriesRef
}

// scrape stores all pages at a time.
func (w *blockWriter) scrape(ctx context.Context, at time.Time) error {
	if err := w.begin(ctx, at); err != nil {
		return err
	}
	app := w.block.AppenderV2(ctx)
	for _, p := range w.pages {
		if err := w.store(app, p, at.UnixMilli()); err != nil {
			return errors.Join(fmt.Errorf("%s at %s: %w", p.Labels.Get(model.InstanceLabel), at.UTC().Format(time.RFC3339), err), app.Rollback())
		}
	}
	return app.Commit()
}

// begin ends the block under way where the time lies after it, and begins the next.
func (w *blockWriter) begin(ctx context.Context, at time.Time) (err error) {
	if at.Before(w.end) {
		return nil
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	w.end = at.Truncate(blockLength).Add(blockLength)
	if w.block, err = tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), w.dir, blockLength.Milliseconds()); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	for _, p := range w.pages {
		p.up.ref = 0
		for i := range p.series {
			p.series[i].ref = 0
		}
	}
	return nil
}

// store appends one page.
func (w *blockWriter) store(app storage.AppenderV2, p *storedPage, at int64) error {
	err := p.read(&p.snapshot)
	switch {
	case errors.Is(err, fleet.ErrAbsent):
		return nil
	case failed(err):
		return w.lose(app, p, at)
	case err != nil:
		return err
	}
	p.know()
	p.wasUp = true
	for i := range p.series {
		if err := w.append(app, &p.series[i], at, p.snapshot.Values[i]); err != nil {
			return err
		}
	}
	return w.append(app, &p.up, at, 1)
}

// know looks at the series that are new on a page.
func (p *storedPage) know() {
	if p.life != p.snapshot.Life {
		p.series, p.life = p.series[:0], p.snapshot.Life
	}
	builder := labels.NewBuilder(labels.EmptyLabels())
	for _, exposed := range p.snapshot.Labels[len(p.series):] {
		builder.Reset(exposed)
		p.Labels.Range(func(l labels.Label) { builder.Set(l.Name, l.Value) })
		p.series = append(p.series, stored{labels: builder.Labels()})
	}
}

// lose stores that a scrape failed.
func (w *blockWriter) lose(app storage.AppenderV2, p *storedPage, at int64) error {
	if p.wasUp {
		for i := range p.series {
			if err := w.append(app, &p.series[i], at, math.Float64frombits(value.StaleNaN)); err != nil {
				return err
			}
		}
		p.wasUp = false
	}
	return w.append(app, &p.up, at, 0)
}

func (w *blockWriter) append(app storage.AppenderV2, s *stored, at int64, v float64) (err error) {
	s.ref, err = app.Append(s.ref, s.labels, 0, at, v, nil, nil, storage.AOptions{})
	w.samples++
	return err
}

// flush writes the block under way.
func (w *blockWriter) flush(ctx context.Context) error {
	if w.block == nil {
		return nil
	}
	if _, err := w.block.Flush(ctx); err != nil {
		return fmt.Errorf("storage: writing a block: %w", err)
	}
	return w.close()
}

// close drops the block under way.
func (w *blockWriter) close() error {
	if w.block == nil {
		return nil
	}
	err := w.block.Close()
	w.block = nil
	return err
}
