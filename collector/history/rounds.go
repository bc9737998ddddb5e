package history

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
)

const (
	// DefaultHeldSamples is how many samples Rounds holds at once: 64 MB of them.
	DefaultHeldSamples = 4_000_000
	// firstStretch is what is read before it is known how many series there are,
	// leastStretch and mostStretch bound what is read at once.
	firstStretch = 10 * time.Minute
	leastStretch = time.Minute
	mostStretch  = 6 * time.Hour
	// mostGrowth bounds by how much a stretch is longer than the one before.
	mostGrowth = 8
	// readerSpan is the time that is opened at once.
	readerSpan = 24 * time.Hour
	// forgottenAfter is how long a target without samples is remembered.
	forgottenAfter = 24 * time.Hour
	// intervalTimes is how many scrapes tell their interval.
	intervalTimes = 21
)

// RoundsOptions say what Rounds reads.
type RoundsOptions struct {
	// From (inclusive) and To (exclusive) bound it.
	From, To time.Time
	// Names are the canonical names of the series that are read, with their
	// suffixes; empty is all that the sources read.
	Names []string
	// HeldSamples is how many samples are in memory at once; 0 is DefaultHeldSamples.
	HeldSamples int
	// Complete is given every target once, with job, instance and the time
	// between its scrapes, and may add what history does not hold. nil adds nothing.
	Complete func(*collector.Target)
}

// errTooMany ends a scan that would hold too much.
var errTooMany = errors.New("history: more samples than may be held at once")

// Rounds hands the raw series of the history to sink as the rounds that they
// were scraped in, in the order of time; those of the same millisecond in order
// of job and instance. It reads what kvwatch wrote and what a Prometheus did:
// series under any of their names, with whatever labels. A round is valid until
// sink returns. An error of sink ends it and is returned as it is.
func (s *Store) Rounds(ctx context.Context, o RoundsOptions, sink func(*collector.Round) error) (err error) {
	r := roundReader{
		store: s, options: o, held: cmp.Or(o.HeldSamples, DefaultHeldSamples), sink: sink,
		targets: map[string]*storedTarget{}, names: matchNames(collector.StoredNames(o.Names...)),
	}
	if s.opts.ReadOnly {
		_, r.blocksEnd = blockSpan(s.opts.Dir)
	}
	r.points = make([]Point, 0, r.held) // what is not used costs no memory
	defer func() { err = errors.Join(err, r.close()) }()
	length := min(firstStretch, leastStretch*time.Duration(r.held))
	for at := o.From; at.Before(o.To); {
		end := at.Add(length)
		if end.After(o.To) {
			end = o.To
		}
		end, err := r.stretch(ctx, at, end)
		if errors.Is(err, errTooMany) && length > leastStretch {
			length = max(length/2, leastStretch)
			continue
		}
		if errors.Is(err, errTooMany) {
			return fmt.Errorf("history: %s after %s hold more than %d samples: there are too many series", leastStretch, at.UTC().Format(time.RFC3339), r.held)
		}
		if err != nil {
			return err
		}
		length = r.next(end.Sub(at))
		at = end
	}
	return nil
}

// Span is from when to when there are samples of the series that Rounds reads;
// zeros where there are none. What the blocks span counts whole.
func (s *Store) Span(ctx context.Context) (from, to time.Time, err error) {
	if s.opts.ReadOnly {
		from, to = blockSpan(s.opts.Dir)
	}
	after := to
	if after.IsZero() {
		after = time.UnixMilli(0)
	}
	err = s.Scan(ctx, after, time.UnixMilli(math.MaxInt64/2), []*labels.Matcher{matchNames(collector.StoredNames())}, func(_ labels.Labels, points []Point) error {
		if first := time.UnixMilli(points[0].T).UTC(); from.IsZero() || first.Before(from) {
			from = first
		}
		if last := time.UnixMilli(points[len(points)-1].T + 1).UTC(); last.After(to) {
			to = last
		}
		return nil
	})
	return from, to, err
}

// matchNames matches any of the names.
func matchNames(names []string) *labels.Matcher {
	if len(names) == 1 {
		return labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, names[0])
	}
	return labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, alternatives(names))
}

func alternatives(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = regexp.QuoteMeta(w)
	}
	return strings.Join(quoted, "|")
}

// roundReader is one run of Rounds.
type roundReader struct {
	store   *Store
	options RoundsOptions
	held    int
	sink    func(*collector.Round) error
	names   *labels.Matcher
	targets map[string]*storedTarget

	// open is what is open up to openEnd; nil is nothing.
	open      *reader
	openEnd   time.Time
	blocksEnd time.Time
	// points are those of the present stretch, queue its targets by their next time.
	points []Point
	queue  timeline
	page   []collector.StoredSample
}

// storedTarget is one target, and its series in the present stretch.
type storedTarget struct {
	id, job, instance string
	rounds            *collector.Stored
	// known finds a series by the hash of its labels.
	known map[uint64]*collector.StoredSeries
	lines []storedLine
	ups   []storedLine
	// next is the time of its next round, in Unix milliseconds.
	next int64
	// seen is the end of the last stretch that had samples of it.
	seen time.Time
}

// storedLine is one series of a stretch: its points are from next to end of
// roundReader.points.
type storedLine struct {
	series    *collector.StoredSeries
	next, end int
}

// reads opens what the stretch from at on needs, and says where it must end.
func (r *roundReader) reads(at, end time.Time) (time.Time, error) {
	if r.open == nil || !at.Before(r.openEnd) {
		if err := r.close(); err != nil {
			return end, err
		}
		to := r.options.To
		if most := at.Add(readerSpan); to.After(most) && (at.Before(r.blocksEnd) || !r.store.opts.ReadOnly) {
			to = most
		}
		// What is not in blocks yet is replayed whenever it is opened: once will do.
		if at.Before(r.blocksEnd) && to.After(r.blocksEnd) {
			to = r.blocksEnd
		}
		open, err := r.store.open(at, to)
		if err != nil {
			return end, err
		}
		r.open, r.openEnd = open, to
	}
	if end.After(r.openEnd) {
		end = r.openEnd
	}
	return end, nil
}

func (r *roundReader) close() error {
	if r.open == nil {
		return nil
	}
	err := r.open.close()
	r.open = nil
	return err
}

// next is the length of the stretch after one of that length, so that it holds
// about as much as may be held.
func (r *roundReader) next(length time.Duration) time.Duration {
	grown := float64(length) * mostGrowth
	if n := len(r.points); n > 0 {
		grown = min(grown, float64(length)*float64(r.held)/float64(n)*3/4)
	}
	return min(max(time.Duration(grown), leastStretch), mostStretch)
}

// stretch reads what is between two times, hands it on, and says how far it came.
func (r *roundReader) stretch(ctx context.Context, at, end time.Time) (time.Time, error) {
	end, err := r.reads(at, end)
	if err != nil {
		return end, err
	}
	if err := r.load(ctx, at, end); err != nil {
		return end, err
	}
	r.queue = r.queue[:0]
	for _, t := range r.targets {
		if t.advance(r.points) {
			r.queue = append(r.queue, t)
		}
	}
	heap.Init(&r.queue)
	for len(r.queue) > 0 {
		if err := ctx.Err(); err != nil {
			return end, err
		}
		t := r.queue[0]
		if err := r.sink(r.round(t)); err != nil {
			return end, err
		}
		if t.advance(r.points) {
			heap.Fix(&r.queue, 0)
		} else {
			heap.Pop(&r.queue)
		}
	}
	return end, nil
}

// load reads the points of a stretch: first what the sources read, then what is
// stored of the targets that have such series.
func (r *roundReader) load(ctx context.Context, from, to time.Time) error {
	r.points = r.points[:0]
	for _, t := range r.targets {
		t.lines, t.ups = t.lines[:0], t.ups[:0]
	}
	err := r.open.scan(ctx, from, to, []*labels.Matcher{r.names}, true, r.take(func(job, instance string) *storedTarget {
		id := job + "\xff" + instance
		t := r.targets[id]
		if t == nil {
			t = &storedTarget{id: id, job: job, instance: instance, known: map[uint64]*collector.StoredSeries{}}
			r.targets[id] = t
		}
		return t
	}))
	if err != nil || len(r.targets) == 0 {
		return err
	}
	jobs := map[string]bool{}
	for _, t := range r.targets {
		jobs[t.job] = true
	}
	err = r.open.scan(ctx, from, to, []*labels.Matcher{
		matchNames(collector.StoredTargetNames()),
		labels.MustNewMatcher(labels.MatchRegexp, model.JobLabel, alternatives(slices.Sorted(maps.Keys(jobs)))),
	}, true, r.take(func(job, instance string) *storedTarget { return r.targets[job+"\xff"+instance] }))
	if err != nil {
		return err
	}
	for id, t := range r.targets {
		switch {
		case len(t.lines) == 0 && len(t.ups) == 0:
			if to.Sub(t.seen) > forgottenAfter {
				delete(r.targets, id)
			}
			continue
		case t.rounds == nil:
			t.rounds = collector.NewStored(r.described(t))
		}
		t.seen = to
		t.forget()
	}
	return nil
}

// take returns a function that adds the points of a series to its target's.
func (r *roundReader) take(find func(job, instance string) *storedTarget) func(labels.Labels, []Point) error {
	return func(ls labels.Labels, points []Point) error {
		if len(r.points)+len(points) > r.held {
			return errTooMany
		}
		job, instance := ls.Get(model.JobLabel), ls.Get(model.InstanceLabel)
		t := find(job, instance)
		if t == nil || job == "" || instance == "" {
			return nil
		}
		begin := len(r.points)
		r.points = append(r.points, points...)
		lines, series := &t.lines, (*collector.StoredSeries)(nil)
		if ls.Get(model.MetricNameLabel) == collector.Up {
			lines = &t.ups
		} else {
			series = t.series(ls)
		}
		// A long series comes in several calls, one after the other.
		if last := len(*lines) - 1; last >= 0 && series != nil && (*lines)[last].series == series {
			(*lines)[last].end = len(r.points)
			return nil
		}
		*lines = append(*lines, storedLine{series: series, next: begin, end: len(r.points)})
		return nil
	}
}

func (t *storedTarget) series(ls labels.Labels) *collector.StoredSeries {
	hash := ls.Hash()
	s := t.known[hash]
	if s == nil {
		s = collector.NewStoredSeries(ls.Copy())
		t.known[hash] = s
	}
	return s
}

// forget drops series that are gone, where they are many.
func (t *storedTarget) forget() {
	if len(t.known) < 2*len(t.lines)+1000 {
		return
	}
	maps.DeleteFunc(t.known, func(_ uint64, s *collector.StoredSeries) bool {
		return !slices.ContainsFunc(t.lines, func(l storedLine) bool { return l.series == s })
	})
}

// described is the target as far as history tells of it.
func (r *roundReader) described(t *storedTarget) collector.Target {
	d := collector.Target{
		Labels: labels.FromStrings(model.JobLabel, t.job, model.InstanceLabel, t.instance),
		URL:    "history:" + t.instance, Interval: t.interval(r.points),
	}
	if r.options.Complete != nil {
		r.options.Complete(&d)
	}
	return d
}

// interval is the usual time between two points of the target's longest series.
func (t *storedTarget) interval(points []Point) time.Duration {
	var longest []Point
	for _, l := range slices.Concat(t.lines, t.ups) {
		if l.end-l.next > len(longest) {
			longest = points[l.next:l.end]
		}
	}
	times := make([]int64, min(len(longest), intervalTimes))
	for i := range times {
		times[i] = longest[i].T
	}
	return collector.UsualInterval(times)
}

// advance finds the time of the target's next round; false where there is none.
func (t *storedTarget) advance(points []Point) bool {
	t.next = math.MaxInt64
	for _, lines := range [...][]storedLine{t.lines, t.ups} {
		for i := range lines {
			if l := &lines[i]; l.next < l.end {
				t.next = min(t.next, points[l.next].T)
			}
		}
	}
	return t.next < math.MaxInt64
}

// round makes the target's next round.
func (r *roundReader) round(t *storedTarget) *collector.Round {
	at := time.UnixMilli(t.next).UTC()
	ups, up := 0, 1.0
	for i := range t.ups {
		if l := &t.ups[i]; l.next < l.end && r.points[l.next].T == t.next {
			ups, up = ups+1, r.points[l.next].V
			l.next++
		}
	}
	r.page = r.page[:0]
	for i := range t.lines {
		l := &t.lines[i]
		if l.next == l.end || r.points[l.next].T != t.next {
			continue
		}
		if p := r.points[l.next]; !p.IsStale() {
			r.page = append(r.page, collector.StoredSample{Series: l.series, Value: p.V})
		}
		l.next++
	}
	switch {
	case ups > 1:
		return t.rounds.Twice(at)
	case ups == 1 && Point{V: up}.IsStale(), ups == 0 && len(r.page) == 0: // nothing but ends
		return t.rounds.Gone(at)
	case up == 0:
		return t.rounds.Failed(at)
	default:
		return t.rounds.Page(r.page, at)
	}
}

// timeline is a heap of targets by the time of their next round.
type timeline []*storedTarget

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (q timeline) Len() int { return len(q) }

func (q timeline) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].next, q[j].next), cmp.Compare(q[i].id, q[j].id)) < 0
}

func (q timeline) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *timeline) Push(x any) { *q = append(*q, x.(*storedTarget)) }

func (q *timeline) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	*q = (*q)[:last]
	return t
}
