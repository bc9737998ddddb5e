package history

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"kvwatch/collector"
)

var inf, nan = math.Inf(1), math.NaN()

func wholeSeries(name, instance string) *collector.Series {
	s := series(name, instance)
	s.Whole = true
	return s
}

// round makes a round of one page at an offset from the start.
func roundAt(offset time.Duration, histograms ...collector.Histogram) *collector.Round {
	return &collector.Round{Time: start.Add(offset), Histograms: histograms}
}

func store(t testing.TB, s *Store, r *collector.Round) {
	t.Helper()
	if err := s.AppendRound(t.Context(), r); err != nil {
		t.Fatalf("append at %s: %v", r.Time, err)
	}
}

// rawText lists what the database itself holds, a line for each series.
func rawText(t testing.TB, s *Store) string {
	t.Helper()
	q, err := s.db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	var b strings.Builder
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+"))
	for set.Next() {
		fmt.Fprintf(&b, "%s", set.At().Labels())
		it := set.At().Iterator(nil)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			at := time.UnixMilli(it.AtT()).Sub(start)
			switch v, sum := 0.0, 0.0; vt {
			case chunkenc.ValFloat:
				if _, v = it.At(); value.IsStaleNaN(v) {
					fmt.Fprintf(&b, " %s:stale", at)
				} else {
					fmt.Fprintf(&b, " %s:%g", at, v)
				}
			default:
				_, h := it.AtHistogram(nil)
				if sum = h.Sum; value.IsStaleNaN(sum) {
					fmt.Fprintf(&b, " %s:STALE", at)
				} else {
					fmt.Fprintf(&b, " %s:%s/%v", at, h, h.CustomValues)
				}
			}
		}
		b.WriteString("\n")
	}
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHistogramIsStoredWhole(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	h, bounds := wholeSeries("h", "a"), []float64{0.5, 1, inf}
	store(t, s, roundAt(0, collector.Histogram{Series: h, Bounds: bounds, Buckets: []float64{1, 3, 6}, Sum: 7.5, Count: 6}))
	store(t, s, roundAt(time.Second, collector.Histogram{Series: h, Bounds: bounds, Buckets: []float64{1, 3, 7}, Sum: 9.5, Count: 7}))
	store(t, s, &collector.Round{Time: start.Add(2 * time.Second), Stale: []*collector.Series{h}})
	wantDiff(t, "stored", `{__name__="h", instance="a", job="vllm"}`+
		" 0s:{count:6, sum:7.5, [-Inf,0.5]:1, (0.5,1]:2, (1,+Inf]:3}/[0.5 1]"+
		" 1s:{count:7, sum:9.5, [-Inf,0.5]:1, (0.5,1]:2, (1,+Inf]:4}/[0.5 1]"+
		" 2s:STALE\n", rawText(t, s))
	if st := s.Stats(); st.Series != 1 || st.Appended != 11 {
		t.Errorf("a histogram of five series: %+v", st)
	}
	if len(s.forms.of) != 0 {
		t.Errorf("forms of %d histograms are kept that ended", len(s.forms.of))
	}
}

// TestUnusualHistogramIsStoredAsItsParts follows a histogram through both forms:
// each series begins, goes on and ends as one of its own would.
func TestUnusualHistogramIsStoredAsItsParts(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	h := wholeSeries("h", "a")
	three, two := []float64{1, 2, inf}, []float64{1, inf}
	for i, page := range []collector.Histogram{
		{Bounds: three, Buckets: []float64{1, 1, 1}, Sum: 1, Count: 1},
		{Bounds: two, Buckets: []float64{1, 2}, Sum: 1, Count: 3}, // not coherent, and le 2.0 is gone
		{Bounds: two, Buckets: []float64{2, 3}, Sum: nan, Count: 4},
		{Bounds: three, Buckets: []float64{2, 2, 4}, Sum: 4, Count: nan}, // le 2.0 is back
		{Bounds: two, Buckets: []float64{2, 5}, Sum: 5, Count: 5},        // whole, and le 2.0 is gone
		{Bounds: two, Buckets: []float64{2, 1}, Sum: 5, Count: 5},
	} {
		page.Series = h
		store(t, s, roundAt(time.Duration(i)*time.Second, page))
	}
	store(t, s, &collector.Round{Time: start.Add(6 * time.Second), Stale: []*collector.Series{h}})
	wantDiff(t, "stored", `{__name__="h", instance="a", job="vllm"}`+
		" 0s:{count:1, sum:1, [-Inf,1]:1}/[1 2] 4s:{count:5, sum:5, [-Inf,1]:2, (1,+Inf]:3}/[1] 6s:STALE\n"+
		`{__name__="h_bucket", instance="a", job="vllm", le="+Inf"} 1s:2 2s:3 3s:4 5s:1 6s:stale`+"\n"+
		`{__name__="h_bucket", instance="a", job="vllm", le="1.0"} 1s:1 2s:2 3s:2 5s:2 6s:stale`+"\n"+
		`{__name__="h_bucket", instance="a", job="vllm", le="2.0"} 1s:stale 3s:2 4s:stale`+"\n"+
		`{__name__="h_count", instance="a", job="vllm"} 1s:3 2s:4 3s:stale 5s:5 6s:stale`+"\n"+
		`{__name__="h_sum", instance="a", job="vllm"} 1s:1 2s:stale 3s:4 5s:5 6s:stale`+"\n", rawText(t, s))
}

func TestHistogramThatIsNotTakenIsCounted(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	h, up := wholeSeries("h", "a"), series("up", "a")
	r := roundAt(0, collector.Histogram{Series: h, Bounds: []float64{1, inf}, Buckets: []float64{1, 2}, Sum: 1, Count: 2})
	r.Samples = []collector.Sample{sample(up, 1)}
	store(t, s, r)
	store(t, s, r) // the same once more is no error
	r.Histograms[0].Sum = 3
	err := s.AppendRound(t.Context(), r)
	want := "history: 4 of 5 samples were not stored; the first is " + h.Labels.String() + ": it already holds another value at the same time (do two targets expose the same series?)"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if st := s.Stats(); st.Appended != 11 || st.Skipped != 4 || st.SkippedBy["duplicate"] != 4 {
		t.Errorf("stats: %+v", st)
	}
}

func TestStorable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		want bool
		h    collector.Histogram
	}{
		{"usual", true, collector.Histogram{Bounds: []float64{1, inf}, Buckets: []float64{1, 2}, Sum: 1, Count: 2}},
		{"empty", true, collector.Histogram{Bounds: []float64{1, inf}, Buckets: []float64{0, 0}}},
		{"a sum below zero", true, collector.Histogram{Bounds: []float64{-1, 0, inf}, Buckets: []float64{1, 1, 1}, Sum: -3, Count: 1}},
		{"the largest count", true, collector.Histogram{Bounds: []float64{1, inf}, Buckets: []float64{0, mostCount}, Count: mostCount}},
		{"a larger count", false, collector.Histogram{Bounds: []float64{1, inf}, Buckets: []float64{0, mostCount + 2}, Count: mostCount + 2}},
		{"no bound that is finite", false, collector.Histogram{Bounds: []float64{inf}, Buckets: []float64{2}, Sum: 1, Count: 2}},
		{"no bounds", false, collector.Histogram{Sum: 1, Count: 2}},
		{"no last bucket", false, collector.Histogram{Bounds: []float64{1, 2}, Buckets: []float64{1, 2}, Sum: 1, Count: 2}},
		{"a first bound that is none", false, collector.Histogram{Bounds: []float64{-inf, 1, inf}, Buckets: []float64{0, 1, 2}, Sum: 1, Count: 2}},
		{"no sum", false, collector.Histogram{Bounds: []float64{1, inf}, Buckets: []float64{1, 2}, Sum: nan, Count: 2}},
		{"an endless sum", false, collector.Histogram{Bounds: []float64{1, inf}, Buckets: []float64{1, 2}, Sum: inf, Count: 2}},
		{"no count", false, collector.Histogram{Bounds: []float64{1, inf}, Buckets: []float64{1, 2}, Sum: 1, Count: nan}},
		{"another count", false, collector.Histogram{Bounds: []float64{1, inf}, Buckets: []float64{1, 2}, Sum: 1, Count: 3}},
		{"falling", false, collector.Histogram{Bounds: []float64{1, 2, inf}, Buckets: []float64{2, 1, 3}, Sum: 1, Count: 3}},
		{"part of a count", false, collector.Histogram{Bounds: []float64{1, inf}, Buckets: []float64{0.5, 2}, Sum: 1, Count: 2}},
		{"below zero", false, collector.Histogram{Bounds: []float64{1, inf}, Buckets: []float64{-1, 2}, Sum: 1, Count: 2}},
		{"a bucket without a value", false, collector.Histogram{Bounds: []float64{1, inf}, Buckets: []float64{nan, 2}, Sum: 1, Count: 2}},
		{"a bound twice", false, collector.Histogram{Bounds: []float64{1, 1, inf}, Buckets: []float64{1, 1, 2}, Sum: 1, Count: 2}},
	} {
		if got := storable(&tt.h); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// FuzzStorable holds that the database takes what storable lets pass, and that
// every value can be told from what it takes.
func FuzzStorable(f *testing.F) {
	f.Add(1.0, 2.0, inf, 1.0, 2.0, 3.0, 1.5, 3.0)
	f.Add(-1.0, 0.0, inf, 0.0, 0.0, float64(mostCount), -1.5, float64(mostCount))
	f.Add(1.0, 1.0, inf, 1.0, 0.5, nan, nan, -1.0)
	f.Add(math.Inf(-1), 1.0, inf, 1.0, 1.0, 1.0, 1.0, 1.0)
	f.Fuzz(func(t *testing.T, b0, b1, b2, c0, c1, c2, sum, count float64) {
		h := collector.Histogram{Bounds: []float64{b0, b1, b2}, Buckets: []float64{c0, c1, c2}, Sum: sum, Count: count}
		if !storable(&h) {
			return
		}
		native := histogram.Histogram{
			Schema: histogram.CustomBucketsSchema, Count: uint64(count), Sum: sum, CustomValues: h.Bounds[:2],
			PositiveSpans: []histogram.Span{{Length: 3}}, PositiveBuckets: appendNativeCounts(nil, h.Buckets),
		}
		if err := native.Validate(); err != nil {
			t.Fatalf("%+v: %v", h, err)
		}
		i := 0
		for it := native.CumulativeBucketIterator(); it.Next(); i++ {
			if b := it.At(); b.Upper != h.Bounds[i] || float64(b.Count) != h.Buckets[i] {
				t.Errorf("bucket %d of %+v is %+v", i, h, b)
			}
		}
		if i != 3 || float64(native.Count) != count {
			t.Errorf("%+v: %d buckets, count %d", h, i, native.Count)
		}
	})
}

// What a restart has read from the write-ahead log, and what the pages show
// afterwards, are the same labels in memory.
func TestNewSeriesShareLabelsAfterRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	page := func(offset time.Duration) *collector.Round {
		r := roundAt(offset, collector.Histogram{
			Series: wholeSeries("ttft_seconds", "a"), Bounds: []float64{1, inf}, Buckets: []float64{1, 2}, Sum: 3, Count: 2,
		})
		r.Samples = []collector.Sample{sample(series("up", "a"), 1)}
		return r
	}
	before := open(t, Options{Dir: dir})
	store(t, before, page(0))
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	s, r := open(t, Options{Dir: dir}), page(time.Minute)
	store(t, s, r)
	for _, own := range []*collector.Series{r.Samples[0].Series, r.Histograms[0].Series} {
		app := s.db.AppenderV2(t.Context())
		ref, held := app.(storage.GetRef).GetRef(own.Labels, own.Labels.Hash())
		if err := app.Rollback(); err != nil {
			t.Fatal(err)
		}
		if ref == 0 || unsafe.StringData(own.Labels.Get("instance")) != unsafe.StringData(held.Get("instance")) {
			t.Errorf("%s: labels of their own beside those of the database, %s", own.Labels, held)
		}
	}
}
