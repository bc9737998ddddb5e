package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"kvwatch/collector"
)

// foreign is a sample that somebody else stored.
type foreignSample struct {
	name string
	at   time.Duration
	v    float64
	h    *histogram.Histogram
	fh   *histogram.FloatHistogram
}

func storeForeign(t *testing.T, s *Store, samples ...foreignSample) {
	t.Helper()
	for _, smp := range samples {
		app := s.db.AppenderV2(t.Context())
		ls := labels.FromStrings("__name__", smp.name, "instance", "a", "job", "vllm")
		if _, err := app.Append(0, ls, 0, start.Add(smp.at).UnixMilli(), smp.v, smp.h, smp.fh, storage.AOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := app.Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

// scanText scans what matches as text: a line for each series, in order.
func scanText(t *testing.T, s *Store, matchers ...*labels.Matcher) string {
	t.Helper()
	var order []string
	lines := map[string]string{}
	err := s.ScanWithStale(t.Context(), start, start.Add(time.Hour), matchers, func(ls labels.Labels, points []Point) error {
		key := ls.Get("__name__") + ls.Get("le")
		if lines[key] == "" {
			order = append(order, key)
		}
		for _, p := range points {
			v := fmt.Sprint(p.V)
			if p.IsStale() {
				v = "stale"
			}
			lines[key] += fmt.Sprintf(" %d:%s", (p.T-start.UnixMilli())/1000, v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, key := range order {
		b.WriteString(key + lines[key] + "\n")
	}
	return b.String()
}

// queryText is what Select gives of what matches, in the form of scanText.
func queryText(t *testing.T, s *Store, matchers ...*labels.Matcher) string {
	t.Helper()
	q, err := s.Queryable().Querier(start.UnixMilli(), start.Add(time.Hour).UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	var b strings.Builder
	set := q.Select(t.Context(), false, nil, matchers...)
	var it chunkenc.Iterator
	for set.Next() {
		ls := set.At().Labels()
		b.WriteString(ls.Get("__name__") + ls.Get("le"))
		it = set.At().Iterator(it)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			if vt != chunkenc.ValFloat {
				fmt.Fprintf(&b, " %d:whole", (it.AtT()-start.UnixMilli())/1000)
				continue
			}
			at, v := it.At()
			text := fmt.Sprint(v)
			if value.IsStaleNaN(v) {
				text = "stale"
			}
			fmt.Fprintf(&b, " %d:%s", (at-start.UnixMilli())/1000, text)
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		b.WriteString("\n")
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return b.String()
}

func equalMatcher(name, value string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchEqual, name, value)
}

// TestForeignHistograms reads what a Prometheus has made native histograms of,
// and what it stored in other forms under such names.
func TestForeignHistograms(t *testing.T) {
	t.Parallel()
	custom := func(spans []histogram.Span, counts []int64, sum float64, count uint64) *histogram.Histogram {
		return &histogram.Histogram{Schema: histogram.CustomBucketsSchema, CustomValues: []float64{1, 2, 3}, PositiveSpans: spans, PositiveBuckets: counts, Sum: sum, Count: count}
	}
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	stale := staleMarker()
	for _, tt := range []struct {
		name, want string
		samples    []foreignSample
	}{
		{"buckets without counts are left out", "h_bucket1.0 0:0 1:0\nh_bucket2.0 0:2 1:2\nh_bucket3.0 0:2 1:3\nh_bucket+Inf 0:5 1:6\nh_sum 0:9 1:12\nh_count 0:5 1:6\n", []foreignSample{
			{name: "h", at: 0, h: custom([]histogram.Span{{Offset: 1, Length: 1}, {Offset: 1, Length: 1}}, []int64{2, 1}, 9, 5)},
			{name: "h", at: seconds(1), h: custom([]histogram.Span{{Offset: 1, Length: 3}}, []int64{2, -1, 2}, 12, 6)},
		}},
		{"nothing was observed", "h_bucket1.0 0:0\nh_bucket2.0 0:0\nh_bucket3.0 0:0\nh_bucket+Inf 0:0\nh_sum 0:0\nh_count 0:0\n", []foreignSample{{name: "h", h: custom(nil, nil, 0, 0)}}},
		{"what is no number is only counted", "h_bucket1.0 0:1\nh_bucket2.0 0:1\nh_bucket3.0 0:1\nh_bucket+Inf 0:3\nh_sum 0:NaN\nh_count 0:3\n", []foreignSample{
			{name: "h", h: custom([]histogram.Span{{Length: 1}}, []int64{1}, nan, 3)},
		}},
		{"counts in parts", "h_bucket1.0 0:0.5 1:stale\nh_bucket2.0 0:0.5 1:stale\nh_bucket3.0 0:2.75 1:stale\nh_bucket+Inf 0:2.75 1:stale\nh_sum 0:4 1:stale\nh_count 0:2.75 1:stale\n", []foreignSample{
			{name: "h", fh: &histogram.FloatHistogram{Schema: histogram.CustomBucketsSchema, CustomValues: []float64{1, 2, 3}, PositiveSpans: []histogram.Span{{Length: 1}, {Offset: 1, Length: 1}}, PositiveBuckets: []float64{0.5, 2.25}, Sum: 4, Count: 2.75}},
			{name: "h", at: seconds(1), v: stale},
		}},
		{"exponential buckets are no classic ones", "h_bucket1.0 1:1 2:stale\nh_bucket2.0 1:1 2:stale\nh_bucket3.0 1:1 2:stale\nh_bucket+Inf 1:1 2:stale\nh_sum 1:1 2:stale\nh_count 1:1 2:stale\n", []foreignSample{
			{name: "h", h: &histogram.Histogram{Schema: 1, Count: 1, Sum: 1, PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{1}}},
			{name: "h", at: seconds(1), h: custom([]histogram.Span{{Length: 1}}, []int64{1}, 1, 1)},
			{name: "h", at: seconds(2), h: &histogram.Histogram{Schema: 1, Count: 1, Sum: 1, PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{1}}},
		}},
		{"a float marks an end", "h_bucket1.0 0:1 1:stale 2:2\nh_bucket2.0 0:1 1:stale 2:2\nh_bucket3.0 0:1 1:stale 2:2\nh_bucket+Inf 0:1 1:stale 2:2\nh_sum 0:1 1:stale 2:1\nh_count 0:1 1:stale 2:2\n", []foreignSample{
			{name: "h", h: custom([]histogram.Span{{Length: 1}}, []int64{1}, 1, 1)},
			{name: "h", at: seconds(1), v: stale},
			{name: "h", at: seconds(2), h: custom([]histogram.Span{{Length: 1}}, []int64{2}, 1, 2)},
		}},
		{"a gauge beside a counter that is named like its count", "h_count 0:3 1:4\n", []foreignSample{
			{name: "h", v: 7}, {name: "h_count", v: 3}, {name: "h", at: seconds(1), v: 7}, {name: "h_count", at: seconds(1), v: 4},
		}},
		{"only series apart", "h_bucket1.0 0:3\n", []foreignSample{{name: "h_bucket", v: 3}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Options{Dir: t.TempDir()})
			if tt.samples[0].name == "h_bucket" {
				appendRound(t, s, start, []collector.Sample{sample(&collector.Series{Labels: labels.FromStrings("__name__", "h_bucket", "le", "1.0")}, 3)})
			} else {
				storeForeign(t, s, tt.samples...)
			}
			wantDiff(t, "scanned", tt.want, scanText(t, s, labels.MustNewMatcher(labels.MatchRegexp, "__name__", "h_.+")))
			wantDiff(t, "scanned by name", tt.want, scanText(t, s, labels.MustNewMatcher(labels.MatchRegexp, "__name__", "h_bucket|h_sum|h_count")))
			sorted := func(text string) []string {
				lines := strings.SplitAfter(text, "\n")
				slices.Sort(lines)
				return lines
			}
			wantDiff(t, "queried", sorted(tt.want), sorted(queryText(t, s, labels.MustNewMatcher(labels.MatchRegexp, "__name__", "h_.+"))))
			count := ""
			for line := range strings.Lines(tt.want) {
				if strings.HasPrefix(line, "h_count") {
					count = line
				}
			}
			wantDiff(t, "one", count, queryText(t, s, equalMatcher("__name__", "h_count")))
		})
	}
}

// TestHistoryOfBothForms reads over the seam between an older storage and what is
// stored now, and back.
func TestHistoryOfBothForms(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	h := wholeSeries("h", "a")
	page := func(i int) collector.Histogram {
		n := float64(i)
		return collector.Histogram{Series: h, Bounds: []float64{1, inf}, Buckets: []float64{n, 2 * n}, Sum: 3 * n, Count: 2 * n}
	}
	bucket, last, sum, count := newPart(h, collector.BucketSuffix, 1).series, newPart(h, collector.BucketSuffix, inf).series, newPart(h, collector.SumSuffix, 0).series, newPart(h, collector.CountSuffix, 0).series
	for i := range 60 {
		p, at := page(i), time.Duration(i)*15*time.Second
		if i < 20 || i >= 40 {
			appendRound(t, s, start.Add(at), []collector.Sample{sample(bucket, p.Buckets[0]), sample(last, p.Buckets[1]), sample(sum, p.Sum), sample(count, p.Count)})
		} else {
			store(t, s, roundAt(at, p))
		}
	}
	for _, name := range []string{"h_bucket", "h_sum", "h_count"} {
		text := scanText(t, s, equalMatcher("__name__", name))
		if want := map[string]int{"h_bucket": 2, "h_sum": 1, "h_count": 1}[name]; strings.Count(text, "\n") != want {
			t.Errorf("%s: %d series, want %d:\n%s", name, strings.Count(text, "\n"), want, text)
		}
		if n := strings.Count(text, ":"); n != 60*strings.Count(text, "\n") {
			t.Errorf("%s: %d points", name, n)
		}
	}
	for at := 5 * time.Minute; at < 15*time.Minute; at += 47 * time.Second {
		if got := query(t, s, `histogram_quantile(0.5, rate({__name__="h_bucket"}[2m]))`, start.Add(at)); got != 1 {
			t.Errorf("median at %s: %g", at, got)
		}
		if got := query(t, s, `rate({__name__="h_sum"}[2m])`, start.Add(at)); got < 0.1999 || got > 0.2001 {
			t.Errorf("rate at %s: %g", at, got)
		}
	}
	if got := query(t, s, `histogram_quantile(0.5, rate({__name__="h"}[2m]))`, start.Add(7*time.Minute)); got != 1 {
		t.Errorf("median of the histogram itself: %g", got)
	}
}

// longHistogram stores one histogram of more samples than are decoded at once,
// with ends, and with buckets that come and go.
func longHistogram(t *testing.T, n int) *Store {
	t.Helper()
	s, h := open(t, Options{Dir: t.TempDir()}), wholeSeries("h", "a")
	rnd := rand.New(rand.NewPCG(3, 4))
	bounds, c := [][]float64{{1, 2, inf}, {1, 2, 3, inf}, {2, inf}}, 0.0
	at := 0
	for i := range n {
		if i%700 == 350 {
			at++
		}
		if c++; rnd.IntN(400) == 0 {
			c = 0
		}
		r := roundAt(time.Duration(i)*time.Second, collector.Histogram{Series: h, Bounds: bounds[at%3], Buckets: make([]float64, len(bounds[at%3])), Sum: c, Count: c})
		for b := range r.Histograms[0].Buckets {
			r.Histograms[0].Buckets[b] = c
		}
		if rnd.IntN(90) == 0 {
			r.Histograms, r.Stale = nil, []*collector.Series{h}
		}
		store(t, s, r)
	}
	return s
}

// TestSeekInColumns holds what Seek finds to what Next does, where a histogram is
// decoded for all its series, for one, and where it has lost its place meanwhile.
func TestSeekInColumns(t *testing.T) {
	t.Parallel()
	s := longHistogram(t, 2500)
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, room := range []int{1 << 20, 0} {
		q, err := s.querier(start.UnixMilli(), start.Add(time.Hour).UnixMilli())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = q.Close() }()
		q.shelf.room, q.shelf.lone = room, room
		set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", "h_(bucket|sum|count)"))
		var all []*columnSeries
		for set.Next() {
			all = append(all, set.At().(*columnSeries))
		}
		if set.Err() != nil || len(all) != 6 {
			t.Fatalf("%d series, %v", len(all), set.Err())
		}
		for _, series := range all {
			seekInColumn(t, rnd, series)
		}
	}
}

func seekInColumn(t *testing.T, rnd *rand.Rand, series *columnSeries) {
	t.Helper()
	var points []Point
	it := series.Iterator(nil)
	for it.Next() == chunkenc.ValFloat {
		at, v := it.At()
		points = append(points, Point{at, v})
	}
	if it.Err() != nil || len(points) < 700 || it.Next() != chunkenc.ValNone {
		t.Fatalf("%s: %d points, %v", series.labels, len(points), it.Err())
	}
	for range 30 {
		it = series.Iterator(it)
		at := -1
		for at < len(points) {
			var vt chunkenc.ValueType
			if rnd.IntN(3) > 0 {
				vt = it.Next()
				at++
			} else {
				to := start.Add(time.Duration(rnd.Int64N(int64(45 * time.Minute)))).UnixMilli()
				vt = it.Seek(to)
				at = max(at, 0)
				for at < len(points) && points[at].T < to {
					at++
				}
			}
			if shelved := series.native; shelved.place != nil && rnd.IntN(40) == 0 {
				shelved.shelf.drop(shelved)
			}
			if at >= len(points) {
				if vt != chunkenc.ValNone || it.Err() != nil {
					t.Fatalf("%s: %v at the end, %v", series.labels, vt, it.Err())
				}
				break
			}
			got, v := it.At()
			if p := points[at]; vt != chunkenc.ValFloat || got != p.T || it.AtT() != p.T || v != p.V && !(p.IsStale() && value.IsStaleNaN(v)) {
				t.Fatalf("%s: %d:%g, want %d:%g (%d of %d)", series.labels, got, v, p.T, p.V, at, len(points))
			}
		}
	}
}

// TestShelfIsBounded reads many histograms through a shelf with little room.
func TestShelfIsBounded(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	f := newFleetPages(20)
	for range 40 {
		f.step()
		for _, r := range f.rounds {
			store(t, s, r)
		}
	}
	q, err := s.querier(start.UnixMilli(), start.Add(time.Hour).UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	q.shelf.room = 10_000
	set := q.Select(t.Context(), true, nil, equalMatcher("__name__", ttft+"_bucket"))
	series, most := 0, 0
	var its []chunkenc.Iterator
	for set.Next() {
		series++
		its = append(its, set.At().Iterator(nil))
	}
	for range 40 {
		for _, it := range its { // all in turns, so that each loses its place
			if it.Next() != chunkenc.ValFloat {
				t.Fatal("there is no value")
			}
			most = max(most, q.shelf.size)
		}
	}
	if series != 20*pageBuckets || most > 10_000 || most < 9_000 || set.Err() != nil {
		t.Errorf("%d series, %d values kept, %v", series, most, set.Err())
	}
}

// TestOrdinaryQueriesAskOnce holds that names which no histogram's series has
// are selected once, and those of one histogram once more.
func TestOrdinaryQueriesAskOnce(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	appendRound(t, s, start, []collector.Sample{sample(series("kvwatch_a", "a"), 1), sample(series("kvwatch_a_count", "a"), 1)})
	for _, tt := range []struct {
		selects int
		m       *labels.Matcher
	}{
		{1, equalMatcher("__name__", "kvwatch_a")},
		{1, equalMatcher("__name__", "_count")},
		{1, labels.MustNewMatcher(labels.MatchRegexp, "__name__", "kvwatch_a|kvwatch_b")},
		{2, equalMatcher("__name__", "kvwatch_a_count")},
	} {
		q, err := s.querier(start.UnixMilli(), start.UnixMilli())
		if err != nil {
			t.Fatal(err)
		}
		counter := &selectCounter{Querier: q.Querier}
		q.Querier = counter
		set := q.Select(t.Context(), true, nil, tt.m)
		for set.Next() {
		}
		if counter.selects != tt.selects || counter.others != 0 || set.Err() != nil {
			t.Errorf("%s: %d selects and %d others, want %d: %v", tt.m, counter.selects, counter.others, tt.selects, set.Err())
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// selectCounter counts what is asked of the database.
type selectCounter struct {
	storage.Querier
	selects, others int
}

func (c *selectCounter) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	c.selects++
	return c.Querier.Select(ctx, sorted, hints, matchers...)
}

func (c *selectCounter) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	c.others++
	return c.Querier.LabelValues(ctx, name, hints, matchers...)
}
