package history

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"kvwatch/collector"
)

// A histogram that is stored whole, X, is also there as its classic series:
// X_bucket with the label le, X_sum and X_count. They are read together with
// series of these names that are really stored: older ones, those of pages that
// were not storable, those that a Prometheus wrote.

// classicQuerier reads with the classic series of histograms. It is used by one
// goroutine, as those of the database are.
type classicQuerier struct {
	storage.Querier
	mint, maxt int64
	// chunks opens what tells the buckets without the samples; nil where opening
	// costs more than it saves.
	chunks func() (storage.ChunkQuerier, error)
	opened storage.ChunkQuerier
	shelf  shelf
}

func newClassicQuerier(q storage.Querier, mint, maxt int64, chunks func() (storage.ChunkQuerier, error)) *classicQuerier {
	return &classicQuerier{Querier: q, mint: mint, maxt: maxt, chunks: chunks, shelf: shelf{room: shelfRoom, lone: loneRoom}}
}

// classicMatchers are what is asked for, split into what is asked of the name,
// of le and of all other labels.
type classicMatchers struct {
	names, les, others []*labels.Matcher
}

func newClassicMatchers(matchers []*labels.Matcher) *classicMatchers {
	c := &classicMatchers{}
	for _, m := range matchers {
		switch m.Name {
		case model.MetricNameLabel:
			c.names = append(c.names, m)
		case model.BucketLabel:
			c.les = append(c.les, m)
		default:
			c.others = append(c.others, m)
		}
	}
	return c
}

// suffixes are those of the classic series of a histogram that are asked for.
func (c *classicMatchers) suffixes(name string) []string {
	var all []string
	for _, suffix := range [...]string{collector.BucketSuffix, collector.CountSuffix, collector.SumSuffix} {
		if matchesAll(c.names, name+suffix) && (suffix == collector.BucketSuffix || matchesAll(c.les, "")) {
			all = append(all, suffix)
		}
	}
	return all
}

func matchesAll(matchers []*labels.Matcher, value string) bool {
	for _, m := range matchers {
		if !m.Matches(value) {
			return false
		}
	}
	return true
}

// exactNames are the only names that can match; false where there is no telling.
func (c *classicMatchers) exactNames() ([]string, bool) {
	for _, m := range c.names {
		if m.Type == labels.MatchEqual {
			return []string{m.Value}, true
		}
		if m.Type == labels.MatchRegexp {
			if set := m.SetMatches(); len(set) > 0 {
				return set, true
			}
		}
	}
	return nil, false
}

// histogram is the name of the histogram that a classic series is of; false
// where a name is none of such a series.
func histogramOf(series string) (string, bool) {
	for _, suffix := range [...]string{collector.BucketSuffix, collector.CountSuffix, collector.SumSuffix} {
		if name, ok := strings.CutSuffix(series, suffix); ok && name != "" {
			return name, true
		}
	}
	return "", false
}

// candidates are the names that histograms have whose classic series are asked
// for, if there are such histograms.
func (q *classicQuerier) candidates(ctx context.Context, c *classicMatchers) ([]string, error) {
	var names []string
	if exact, ok := c.exactNames(); ok {
		for _, series := range exact {
			if name, ok := histogramOf(series); ok && len(c.suffixes(name)) > 0 {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return slices.Compact(names), nil
	}
	all, _, err := q.Querier.LabelValues(ctx, model.MetricNameLabel, nil, c.others...)
	if err != nil {
		return nil, err
	}
	// One series of a name tells of all: to look at each would read a part of all that is stored.
	for _, name := range all {
		if len(c.suffixes(name)) == 0 {
			continue
		}
		if is, err := q.isHistogram(ctx, name, c.others); err != nil {
			return nil, err
		} else if is {
			names = append(names, name)
		}
	}
	return names, nil
}

// isHistogram says that the first series of a name is one of histograms.
func (q *classicQuerier) isHistogram(ctx context.Context, name string, others []*labels.Matcher) (bool, error) {
	set := q.Querier.Select(ctx, false, &storage.SelectHints{Start: q.mint, End: q.maxt}, append([]*labels.Matcher{matchNames([]string{name})}, others...)...)
	if set.Next() {
		return q.shelf.classic(set.At())
	}
	return false, set.Err()
}

// histograms are the names of the histograms whose classic series are asked for.
func (q *classicQuerier) histograms(ctx context.Context, c *classicMatchers) ([]string, error) {
	names, err := q.candidates(ctx, c)
	if err != nil {
		return nil, err
	}
	if _, exact := c.exactNames(); !exact {
		return names, nil
	}
	var is []string
	for _, name := range names {
		if ok, err := q.isHistogram(ctx, name, c.others); err != nil {
			return nil, err
		} else if ok {
			is = append(is, name)
		}
	}
	return is, nil
}

// natives are the series of the names that the histograms have whose classic
// series are asked for. Whether they are of histograms is told by who reads them.
func (q *classicQuerier) natives(ctx context.Context, hints *storage.SelectHints, c *classicMatchers, names []string) ([]*native, error) {
	own := storage.SelectHints{Start: q.mint, End: q.maxt}
	if hints != nil {
		own = *hints
		own.Func, own.Limit = "", 0 // what buckets there are is told by the samples
	}
	set := q.Querier.Select(ctx, true, &own, append([]*labels.Matcher{matchNames(names)}, c.others...)...)
	var all []*native
	for set.Next() {
		s := set.At()
		all = append(all, &native{labels: s.Labels(), series: s, shelf: &q.shelf})
	}
	return all, set.Err()
}

// exposed are the histograms whose classic series are asked for, with their
// bounds and without their samples: all of a chunk have the same bounds.
func (q *classicQuerier) exposed(ctx context.Context, c *classicMatchers, names []string) ([]*native, error) {
	if q.opened == nil {
		var err error
		if q.opened, err = q.chunks(); err != nil {
			return nil, err
		}
	}
	hints := storage.SelectHints{Start: q.mint, End: q.maxt, DisableTrimming: true}
	set := q.opened.Select(ctx, true, &hints, append([]*labels.Matcher{matchNames(names)}, c.others...)...)
	var all []*native
	var u unfolder
	var it chunks.Iterator
	for set.Next() {
		n, is := &native{labels: set.At().Labels()}, false
		for it = set.At().Iterator(it); it.Next(); {
			u.it, u.shape = it.At().Chunk.Iterator(u.it), shape{}
			if vt := u.it.Next(); vt != chunkenc.ValNone && u.take(vt) && u.shape.kind == custom {
				n.bounds, is = union(n.bounds, u.shape.bounds), true
			}
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
		if is {
			all = append(all, n)
		}
	}
	return all, set.Err()
}

// Close implements storage.Querier.
func (q *classicQuerier) Close() error {
	if q.opened == nil {
		return q.Querier.Close()
	}
	return errors.Join(q.opened.Close(), q.Querier.Close())
}

// Select implements storage.Querier.
func (q *classicQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	c := newClassicMatchers(matchers)
	var names []string
	if len(matchers) > 0 { // without any, nothing is selected
		var err error
		if names, err = q.candidates(ctx, c); err != nil {
			return storage.ErrSeriesSet(err)
		}
	}
	if len(names) == 0 {
		return q.Querier.Select(ctx, sorted, hints, matchers...)
	}
	stored := q.Querier.Select(ctx, true, hints, matchers...)
	limit := 0
	if hints != nil {
		limit = hints.Limit
	}
	return &lazySet{begin: func() storage.SeriesSet {
		series, err := q.classicSeries(ctx, hints, c, names)
		if err != nil {
			return storage.ErrSeriesSet(err)
		}
		return storage.NewMergeSeriesSet([]storage.SeriesSet{stored, &listSet{series: series}}, limit, storage.ChainedSeriesMerge)
	}}
}

// classicSeries are the classic series that are asked for, in order.
func (q *classicQuerier) classicSeries(ctx context.Context, hints *storage.SelectHints, c *classicMatchers, names []string) ([]*columnSeries, error) {
	var natives []*native
	var err error
	unread := hints != nil && hints.Func == "series"
	if unread && q.chunks != nil {
		natives, err = q.exposed(ctx, c, names)
	} else {
		natives, err = q.natives(ctx, hints, c, names)
	}
	if err != nil {
		return nil, err
	}
	var all []*columnSeries
	b := newColumnLabels(c)
	for _, n := range natives {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b.histogram(n.labels)
		is := true
		switch {
		case n.series == nil: // it was looked at
		case b.wants(collector.BucketSuffix):
			n.wanted = sharers
			is, err = q.shelf.learn(n)
		case unread: // where it is read, one that is none has no points
			is, err = q.shelf.classic(n.series)
		}
		if err != nil {
			return nil, err
		}
		if !is {
			continue
		}
		before := len(all)
		for _, col := range n.columns() {
			if ls, ok := b.column(col); ok {
				all = append(all, &columnSeries{labels: ls, native: n, column: col})
			}
		}
		n.wanted = len(all) - before
	}
	slices.SortFunc(all, func(a, b *columnSeries) int { return labels.Compare(a.labels, b.labels) })
	return all, nil
}

// LabelValues implements storage.LabelQuerier.
func (q *classicQuerier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	values, notes, err := q.Querier.LabelValues(ctx, name, hints, matchers...)
	c := newClassicMatchers(matchers)
	if err != nil || len(c.names)+len(c.les) == 0 && name != model.MetricNameLabel && name != model.BucketLabel {
		return values, notes, err // a histogram has all other labels itself
	}
	more, err := q.classicValues(ctx, name, c)
	return joined(values, more, hints), notes, err
}

func (q *classicQuerier) classicValues(ctx context.Context, label string, c *classicMatchers) ([]string, error) {
	if label == model.BucketLabel || len(c.les) > 0 {
		values := map[string]bool{}
		err := q.eachClassic(ctx, c, func(ls labels.Labels) {
			if v := ls.Get(label); v != "" {
				values[v] = true
			}
		})
		return slices.Collect(maps.Keys(values)), err
	}
	names, err := q.histograms(ctx, c)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	if label != model.MetricNameLabel {
		values, _, err := q.Querier.LabelValues(ctx, label, nil, append([]*labels.Matcher{matchNames(names)}, c.others...)...)
		return values, err
	}
	var values []string
	for _, name := range names {
		for _, suffix := range c.suffixes(name) {
			values = append(values, name+suffix)
		}
	}
	return values, nil
}

// LabelNames implements storage.LabelQuerier.
func (q *classicQuerier) LabelNames(ctx context.Context, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	names, notes, err := q.Querier.LabelNames(ctx, hints, matchers...)
	if err != nil {
		return nil, notes, err
	}
	more, err := q.classicNames(ctx, newClassicMatchers(matchers))
	return joined(names, more, hints), notes, err
}

func (q *classicQuerier) classicNames(ctx context.Context, c *classicMatchers) ([]string, error) {
	if len(c.les) > 0 {
		found := map[string]bool{}
		err := q.eachClassic(ctx, c, func(ls labels.Labels) {
			ls.Range(func(l labels.Label) { found[l.Name] = true })
		})
		return slices.Collect(maps.Keys(found)), err
	}
	histograms, err := q.histograms(ctx, c)
	if err != nil || len(histograms) == 0 {
		return nil, err
	}
	names, _, err := q.Querier.LabelNames(ctx, nil, append([]*labels.Matcher{matchNames(histograms)}, c.others...)...)
	for _, name := range histograms {
		if slices.Contains(c.suffixes(name), collector.BucketSuffix) {
			names = append(names, model.BucketLabel)
			break
		}
	}
	return names, err
}

// eachClassic calls fn with the labels of all classic series that are asked for.
func (q *classicQuerier) eachClassic(ctx context.Context, c *classicMatchers, fn func(labels.Labels)) error {
	names, err := q.candidates(ctx, c)
	if err != nil || len(names) == 0 {
		return err
	}
	all, err := q.classicSeries(ctx, &storage.SelectHints{Start: q.mint, End: q.maxt, Func: "series"}, c, names)
	for _, s := range all {
		fn(s.labels)
	}
	return err
}

// joined are the values of both, in order, each once, as many as are wanted.
func joined(a, b []string, hints *storage.LabelHints) []string {
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	all = slices.Compact(all)
	if hints != nil && hints.Limit > 0 && len(all) > hints.Limit {
		all = all[:hints.Limit]
	}
	return all
}

// columnLabels makes the labels of classic series out of those of histograms.
type columnLabels struct {
	asked    *classicMatchers
	name     string
	suffixes []string
	builder  *labels.Builder
	les      map[float64]string
}

func newColumnLabels(c *classicMatchers) *columnLabels {
	return &columnLabels{asked: c, builder: labels.NewBuilder(labels.EmptyLabels()), les: map[float64]string{}}
}

// histogram begins with a histogram.
func (b *columnLabels) histogram(ls labels.Labels) {
	b.builder.Reset(ls)
	if name := ls.Get(model.MetricNameLabel); name != b.name {
		b.name, b.suffixes = name, b.asked.suffixes(name)
	}
}

func (b *columnLabels) wants(suffix string) bool { return slices.Contains(b.suffixes, suffix) }

// only is the one column that is asked for; its suffix is "" where there are more.
func (b *columnLabels) only() column {
	if len(b.suffixes) == 1 && b.suffixes[0] != collector.BucketSuffix {
		return column{suffix: b.suffixes[0]}
	}
	return column{}
}

// column makes the labels of one of its series; false where that is not asked for.
func (b *columnLabels) column(c column) (labels.Labels, bool) {
	if !b.wants(c.suffix) {
		return labels.EmptyLabels(), false
	}
	b.builder.Del(model.BucketLabel)
	if c.suffix == collector.BucketSuffix {
		le, ok := b.les[c.bound]
		if !ok {
			le = labels.FormatOpenMetricsFloat(c.bound)
			b.les[c.bound] = le
		}
		if !matchesAll(b.asked.les, le) {
			return labels.EmptyLabels(), false
		}
		b.builder.Set(model.BucketLabel, le)
	}
	b.builder.Set(model.MetricNameLabel, b.name+c.suffix)
	return b.builder.Labels(), true
}

// lazySet begins when it is read first.
type lazySet struct {
	storage.SeriesSet
	begin func() storage.SeriesSet
}

// Next implements storage.SeriesSet.
func (s *lazySet) Next() bool {
	if s.SeriesSet == nil {
		s.SeriesSet = s.begin()
	}
	return s.SeriesSet.Next()
}

// Err implements storage.SeriesSet.
func (s *lazySet) Err() error {
	if s.SeriesSet == nil {
		return nil
	}
	return s.SeriesSet.Err()
}

// Warnings implements storage.SeriesSet.
func (s *lazySet) Warnings() annotations.Annotations {
	if s.SeriesSet == nil {
		return nil
	}
	return s.SeriesSet.Warnings()
}

// listSet is a set of series that are there already.
type listSet struct {
	series []*columnSeries
	next   int
}

// Next implements storage.SeriesSet.
func (s *listSet) Next() bool { s.next++; return s.next <= len(s.series) }

// At implements storage.SeriesSet.
func (s *listSet) At() storage.Series { return s.series[s.next-1] }

// Err implements storage.SeriesSet.
func (s *listSet) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (s *listSet) Warnings() annotations.Annotations { return nil }
