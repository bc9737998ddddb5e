package history

import (
	"context"
	"fmt"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// wholeHistograms are the histograms of a scan that are stored whole.
type wholeHistograms struct {
	asked   *classicMatchers
	all     []*scannedHistogram
	byHash  map[uint64][]*scannedHistogram
	builder *labels.Builder
}

// scannedHistogram is one of them, with what is stored of it in series apart.
type scannedHistogram struct {
	*native
	asked *classicMatchers
	apart []storage.Series
}

// wholeHistograms finds the histograms whose classic series are asked for.
func (r *reader) wholeHistograms(ctx context.Context, hints *storage.SelectHints, matchers []*labels.Matcher) (*wholeHistograms, error) {
	w := &wholeHistograms{asked: newClassicMatchers(matchers)}
	if len(matchers) == 0 { // nothing is selected
		return w, nil
	}
	names, err := r.q.candidates(ctx, w.asked)
	if err != nil || len(names) == 0 {
		return w, err
	}
	natives, err := r.q.natives(ctx, hints, w.asked, names)
	if err != nil || len(natives) == 0 {
		return w, err
	}
	w.byHash, w.builder = make(map[uint64][]*scannedHistogram, len(natives)), labels.NewBuilder(labels.EmptyLabels())
	for _, n := range natives {
		h := &scannedHistogram{native: n, asked: w.asked}
		w.all = append(w.all, h)
		hash := n.labels.Hash()
		w.byHash[hash] = append(w.byHash[hash], h)
	}
	return w, nil
}

// takes keeps a stored series that goes on in a histogram, to be read with it.
func (w *wholeHistograms) takes(s storage.Series) bool {
	if len(w.all) == 0 {
		return false
	}
	ls := s.Labels()
	name, ok := histogramOf(ls.Get(model.MetricNameLabel))
	if !ok {
		return false
	}
	w.builder.Reset(ls)
	w.builder.Set(model.MetricNameLabel, name).Del(model.BucketLabel)
	of := w.builder.Labels()
	for _, h := range w.byHash[of.Hash()] {
		if labels.Equal(h.labels, of) {
			h.apart = append(h.apart, s)
			return true
		}
	}
	return false
}

// scanHistogram hands the classic series of a histogram to fn.
func (r *reader) scanHistogram(ctx context.Context, h *scannedHistogram, stale bool, fn func(labels.Labels, []Point) error) error {
	if len(h.apart) > 0 {
		return r.scanBothForms(ctx, h, stale, fn)
	}
	columns := scanColumns{labels: newColumnLabels(h.asked)}
	columns.labels.histogram(h.labels)
	r.unfolder.reset(h.series, columns.labels.only())
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := 0
		for rows := 0; rows < scanPoints; n++ {
			if n == len(r.blocks) {
				r.blocks = append(r.blocks, &block{})
			}
			b := r.blocks[n]
			if more = r.unfolder.fill(b, min(blockRows, scanPoints-rows)); !more {
				break
			}
			rows += len(b.times)
			columns.learn(b)
		}
		for i := range columns.all {
			c := &columns.all[i]
			if r.buf = c.appendTo(r.buf[:0], r.blocks[:n], stale); len(r.buf) == 0 {
				continue
			}
			if err := fn(c.labels, r.buf); err != nil {
				return err
			}
		}
	}
	if err := r.unfolder.it.Err(); err != nil {
		return fmt.Errorf("history: read %s: %w", h.labels, err)
	}
	return nil
}

// scanColumns are the columns that were met so far.
type scanColumns struct {
	labels *columnLabels
	all    []scanColumn
	last   shape
}

type scanColumn struct {
	column
	labels labels.Labels
	alive  bool
}

// learn adds the columns of a block that are asked for.
func (s *scanColumns) learn(b *block) {
	if b.kind == foreign || s.all != nil && s.last.equal(b.shape) {
		return
	}
	s.last = b.shape
	met := map[column]bool{}
	for _, c := range s.all {
		met[c.column] = true
	}
	for _, col := range (&native{bounds: b.bounds}).columns() {
		if met[col] {
			continue
		}
		if ls, ok := s.labels.column(col); ok {
			s.all = append(s.all, scanColumn{column: col, labels: ls})
		}
	}
}

// appendTo adds the points of the column in the next blocks. One without it ends
// it, as columnIterator does.
func (c *scanColumn) appendTo(buf []Point, blocks []*block, stale bool) []Point {
	for _, b := range blocks {
		values, ok := b.column(c.column)
		if !ok {
			if c.alive && stale {
				buf = append(buf, Point{T: b.times[0], V: staleMarker()})
			}
			c.alive = false
			continue
		}
		for i, t := range b.times {
			if v := values[i]; stale || !value.IsStaleNaN(v) {
				buf = append(buf, Point{T: t, V: v})
			}
		}
		c.alive = !value.IsStaleNaN(values[len(values)-1])
	}
	return buf
}

// scanBothForms hands the series of a histogram to fn of which a part is stored
// in series of its own.
func (r *reader) scanBothForms(ctx context.Context, h *scannedHistogram, stale bool, fn func(labels.Labels, []Point) error) error {
	b := newColumnLabels(h.asked)
	b.histogram(h.labels)
	h.wanted = sharers
	if _, err := r.q.shelf.learn(h.native); err != nil {
		return fmt.Errorf("history: read %s: %w", h.labels, err)
	}
	parts := map[uint64][]storage.Series{}
	var order []uint64
	add := func(s storage.Series) {
		hash := s.Labels().Hash()
		if parts[hash] == nil {
			order = append(order, hash)
		}
		parts[hash] = append(parts[hash], s)
	}
	for _, s := range h.apart {
		add(s)
	}
	for _, col := range h.columns() {
		if ls, ok := b.column(col); ok {
			add(&columnSeries{labels: ls, native: h.native, column: col})
		}
	}
	var it chunkenc.Iterator
	var err error
	for _, hash := range order {
		s := storage.ChainedSeriesMerge(parts[hash]...)
		it = s.Iterator(it)
		if r.buf, err = scanSeries(ctx, s.Labels(), it, r.buf[:0], stale, fn); err != nil {
			return err
		}
	}
	return nil
}
