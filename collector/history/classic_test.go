package history

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"kvwatch/collector"
)

// twins are two storages of the same pages: one stores histograms whole, the
// other every series apart, as what is read must look.
type twins struct {
	t            *testing.T
	rnd          *rand.Rand
	whole, apart *Store
	now          time.Time
	step         time.Duration
	pages        []*twinPage
}

// twinPage is the page of one target.
type twinPage struct {
	up         *collector.Series
	histograms []*twinHistogram
}

type twinHistogram struct {
	labels labels.Labels
	series *collector.Series // nil while it is not exposed
	bounds []float64
	counts []float64
	sum    float64
	// parts are its series apart that were exposed the round before.
	parts map[string]*collector.Series
}

var twinBounds = [][]float64{{0.1, 0.5, 1, 2.5, inf}, {0.1, 0.5, 1, inf}, {0.5, 1, 10, 1e9, inf}, {0.25, inf}}

func newTwins(t *testing.T, seed uint64) *twins {
	tw := &twins{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), now: start, step: 15 * time.Second}
	tw.whole, tw.apart = open(t, Options{Dir: t.TempDir()}), open(t, Options{Dir: t.TempDir()})
	for _, instance := range []string{"a:8000", "b:8000"} {
		p := &twinPage{}
		for _, name := range []string{collector.VLLMTTFT, collector.VLLME2E} {
			p.histograms = append(p.histograms, &twinHistogram{
				labels: labels.FromStrings("__name__", name, "engine", "0", "instance", instance, "job", "vllm", "model_name", "m"),
				parts:  map[string]*collector.Series{},
			})
		}
		tw.pages = append(tw.pages, p)
	}
	tw.forget()
	return tw
}

// forget gives every series a new identity, as a new process does.
func (tw *twins) forget() {
	for _, p := range tw.pages {
		p.up = &collector.Series{Labels: labels.FromStrings("__name__", collector.Up, "instance", p.histograms[0].labels.Get("instance"), "job", "vllm")}
		for _, h := range p.histograms {
			h.series, h.parts = nil, map[string]*collector.Series{}
		}
	}
}

// reopen restarts both: a kill leaves what is in the files at that moment.
func (tw *twins) reopen(kill bool) {
	tw.t.Helper()
	for _, s := range []**Store{&tw.whole, &tw.apart} {
		dir := (*s).opts.Dir
		if kill {
			dir = tw.t.TempDir()
			if err := os.CopyFS(dir, os.DirFS((*s).opts.Dir)); err != nil {
				tw.t.Fatal(err)
			}
		} else if err := (*s).Close(); err != nil {
			tw.t.Fatal(err)
		}
		*s = open(tw.t, Options{Dir: dir})
	}
	tw.forget()
	// Who begins anew knows of no series that has gone: what is read of a whole
	// histogram would tell more than the series apart.
	tw.run(1, true)
}

// page moves a target on by one scrape and stores it in both.
func (tw *twins) page(p *twinPage, usual bool) {
	tw.t.Helper()
	r := &collector.Round{Time: tw.now}
	var stale []*collector.Series
	samples := []collector.Sample{sample(p.up, 1)}
	fails := !usual && tw.rnd.IntN(20) == 0
	if fails {
		samples[0].Value = 0
	}
	r.Samples = samples
	for _, h := range p.histograms {
		if fails || !usual && tw.rnd.IntN(30) == 0 {
			if h.series != nil {
				r.Stale = append(r.Stale, h.series)
			}
			stale = append(stale, tw.gone(h, nil)...)
			h.series = nil
			continue
		}
		if h.series == nil {
			h.series = &collector.Series{Labels: h.labels, Whole: true}
		}
		got := tw.histogram(h, usual)
		r.Histograms = append(r.Histograms, got)
		exposed := map[string]bool{}
		for part := range got.Parts() {
			key := fmt.Sprint(part.Suffix, part.Bound)
			exposed[key] = true
			if h.parts[key] == nil {
				b := labels.NewBuilder(h.labels).Set("__name__", h.labels.Get("__name__")+part.Suffix)
				if part.Suffix == collector.BucketSuffix {
					b.Set("le", labels.FormatOpenMetricsFloat(part.Bound))
				}
				h.parts[key] = &collector.Series{Labels: b.Labels()}
			}
			samples = append(samples, sample(h.parts[key], part.Value))
		}
		stale = append(stale, tw.gone(h, exposed)...)
	}
	store(tw.t, tw.whole, r)
	appendRound(tw.t, tw.apart, tw.now, samples, stale...)
}

// gone forgets the series apart that are not exposed.
func (tw *twins) gone(h *twinHistogram, exposed map[string]bool) []*collector.Series {
	var stale []*collector.Series
	for key, s := range h.parts {
		if !exposed[key] {
			stale = append(stale, s)
			delete(h.parts, key)
		}
	}
	return stale
}

// histogram is what the page has of one, once in a while unusual.
func (tw *twins) histogram(h *twinHistogram, usual bool) collector.Histogram {
	odd := 100
	if !usual {
		odd = tw.rnd.IntN(40)
	}
	if h.counts == nil || odd <= 1 { // other buckets
		h.bounds = twinBounds[tw.rnd.IntN(len(twinBounds))]
		h.counts, h.sum = make([]float64, len(h.bounds)), 0
	}
	if odd == 2 { // restarted
		clear(h.counts)
		h.sum = 0
	}
	for range tw.rnd.IntN(6) {
		for i := tw.rnd.IntN(len(h.bounds)); i < len(h.bounds); i++ {
			h.counts[i]++
		}
		h.sum += tw.rnd.Float64()
	}
	last := len(h.counts) - 1
	got := collector.Histogram{Series: h.series, Bounds: h.bounds, Buckets: slices.Clone(h.counts), Sum: h.sum, Count: h.counts[last]}
	switch odd {
	case 3: // read while it was written
		got.Count++
	case 4:
		got.Buckets[0] += 0.5
	case 5:
		got.Sum = nan
	case 6:
		got.Count = nan
	case 7: // a bucket is missing
		got.Bounds, got.Buckets = slices.Delete(slices.Clone(got.Bounds), 0, 1), got.Buckets[1:]
	case 8: // the last one is
		got.Bounds, got.Buckets = got.Bounds[:last], got.Buckets[:last]
	case 9: // one bucket fell: that of another worker
		got.Buckets[0] = 0
	}
	return got
}

func (tw *twins) run(steps int, usual bool) {
	tw.t.Helper()
	for range steps {
		tw.now = tw.now.Add(tw.step)
		if !usual && tw.rnd.IntN(60) == 0 {
			tw.now = tw.now.Add(time.Duration(tw.rnd.IntN(10)) * time.Minute)
		}
		for _, p := range tw.pages {
			if usual || tw.rnd.IntN(40) > 0 {
				tw.page(p, usual)
			}
		}
	}
}

// The names of the classic series, as most queries have them.
const (
	ttft = collector.VLLMTTFT
	e2e  = collector.VLLME2E
)

var twinQueries = []string{
	ttft + `_bucket`, ttft + `_sum`, ttft + `_count`, ttft + `_bucket{le="0.5"}`, ttft + `_bucket{le=~"0\\..*|\\+Inf"}`,
	ttft + `_bucket{le!="0.5",instance="a:8000"}`, ttft + `_count{le="0.5"}`, ttft + `_count{le=""}`, ttft + `_bucket{le=""}`, ttft + `_bucket{le!~".+"}`,
	`histogram_quantile(0.9, sum by (le) (rate(` + ttft + `_bucket[5m])))`,
	`histogram_quantile(0.5, sum by (le, instance) (rate(` + e2e + `_bucket[2m])))`,
	`histogram_quantile(0.99, ` + ttft + `_bucket)`,
	`rate(` + ttft + `_bucket[3m])`, `increase(` + ttft + `_count[10m])`, `irate(` + ttft + `_sum[2m])`,
	`rate(` + ttft + `_sum[5m]) / rate(` + ttft + `_count[5m])`,
	`resets(` + ttft + `_bucket[30m])`, `changes(` + ttft + `_bucket[20m])`, `count_over_time(` + ttft + `_bucket[7m])`,
	`last_over_time(` + ttft + `_count[4m])`, `timestamp(` + ttft + `_bucket)`, `absent(` + ttft + `_bucket)`, `absent(` + ttft + `_count{instance="c"})`,
	`absent_over_time(` + ttft + `_sum[1m])`, `count({__name__=~".+_bucket"})`, `sum by (__name__) ({__name__=~"vllm:.+_(sum|count)"})`,
	`{__name__=~"vllm:.+",__name__!~"` + ttft + "|" + e2e + `"}`, `count by (__name__, le) ({__name__!="",le!=""})`,
	`{__name__=~"` + ttft + `_sum|` + e2e + `_count|up"}`, `{__name__=~".+_bucket",__name__!="` + ttft + `_bucket",le="+Inf"}`,
	`count({job="vllm",le=~".+"})`, `{instance="a:8000",__name__!~"` + ttft + "|" + e2e + `"}`,
	`max_over_time(sum(rate(` + ttft + `_count[1m]))[10m:30s])`, `rate(` + ttft + `_bucket[5m] offset 20m)`, ttft + `_count @ start()`,
	`up`, `kvwatch_none`,
}

var engineForTest = promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute, EnableAtModifier: true, Parser: parser.NewParser(parser.Options{})})

func answer(t testing.TB, q storage.Queryable, query string, from, to time.Time, step time.Duration) string {
	t.Helper()
	var run promql.Query
	var err error
	if step == 0 {
		run, err = engineForTest.NewInstantQuery(t.Context(), q, nil, query, to)
	} else {
		run, err = engineForTest.NewRangeQuery(t.Context(), q, nil, query, from, to, step)
	}
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer run.Close()
	res := run.Exec(t.Context())
	if res.Err != nil {
		t.Fatalf("%s: %v", query, res.Err)
	}
	lines := strings.Split(res.Value.String(), "\n")
	if step == 0 {
		slices.Sort(lines)
	}
	return strings.Join(lines, "\n")
}

// roomless gives queriers that can keep next to nothing of what they decoded.
func roomless(s *Store) storage.Queryable {
	return storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
		q, err := s.querier(mint, maxt)
		if err == nil {
			q.shelf.room, q.shelf.lone = 200, 900
		}
		return q, err
	})
}

// compare holds everything that can be read of both.
func (tw *twins) compare(from, to time.Time) {
	tw.t.Helper()
	for _, query := range twinQueries {
		for _, step := range []time.Duration{0, 47 * time.Second} {
			want := answer(tw.t, tw.apart.Queryable(), query, from, to, step)
			for kind, q := range map[string]storage.Queryable{"whole": tw.whole.Queryable(), "whole without room": roomless(tw.whole)} {
				if got := answer(tw.t, q, query, from, to, step); got != want {
					tw.t.Fatalf("%s, step %s, %s to %s: -apart +%s\n%s", query, step, from.Sub(start), to.Sub(start), kind, firstDifference(want, got))
				}
			}
		}
	}
	tw.compareScans(from, to)
	o := RoundsOptions{From: from, To: to}
	wantDiff(tw.t, "rounds", tw.rounds(tw.apart, o), tw.rounds(tw.whole, o))
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return fmt.Sprintf("line %d of %d and %d\n-%s\n+%s", i, len(w), len(g), a, b)
		}
	}
	return ""
}

var twinSelectors = []string{
	ttft + `_bucket`, ttft + `_sum`, `{__name__=~"vllm:.+_bucket"}`, `{__name__=~"vllm:.+",__name__!~"` + ttft + "|" + e2e + `"}`, ttft + `_bucket{instance="b:8000"}`,
	ttft + `_bucket{le="1.0"}`, `{le=~".+"}`, `{__name__=~"` + ttft + `_count|` + e2e + `_bucket|up"}`, `{job="vllm",__name__!~"` + ttft + "|" + e2e + `"}`, `{job="none"}`,
}

// compareLabels compares what is there: series, label names and label values. Of a
// part of the time the database itself tells more than what has samples in it.
func (tw *twins) compareLabels(from, to time.Time) {
	tw.t.Helper()
	read := func(s *Store, selector string) []string {
		var matchers []*labels.Matcher // of nothing: all but the histograms themselves
		if selector != "" {
			var err error
			if matchers, err = parser.NewParser(parser.Options{}).ParseMetricSelector(selector); err != nil {
				tw.t.Fatal(err)
			}
		}
		q, err := s.Queryable().Querier(from.UnixMilli(), to.UnixMilli())
		if err != nil {
			tw.t.Fatal(err)
		}
		defer func() { _ = q.Close() }()
		var all []string
		set := q.Select(tw.t.Context(), true, &storage.SelectHints{Start: from.UnixMilli(), End: to.UnixMilli(), Func: "series"}, matchers...)
		for set.Next() {
			all = append(all, set.At().Labels().String())
		}
		if set.Err() != nil {
			tw.t.Fatal(set.Err())
		}
		names, _, err := q.LabelNames(tw.t.Context(), nil, matchers...)
		if err != nil {
			tw.t.Fatal(err)
		}
		all = slices.DeleteFunc(all, func(s string) bool {
			return strings.Contains(s, ttft+`"`) || strings.Contains(s, e2e+`"`)
		})
		all = append(all, "names "+strings.Join(names, " "))
		for _, name := range []string{"__name__", "le", "instance", "engine", "none"} {
			values, _, err := q.LabelValues(tw.t.Context(), name, nil, matchers...)
			if err != nil {
				tw.t.Fatal(err)
			}
			values = slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == ttft || s == e2e })
			all = append(all, name+" "+strings.Join(values, " "))
		}
		return all
	}
	for _, selector := range append([]string{""}, twinSelectors...) {
		wantDiff(tw.t, selector, read(tw.apart, selector), read(tw.whole, selector))
	}
}

// compareScans compares the raw points.
func (tw *twins) compareScans(from, to time.Time) {
	tw.t.Helper()
	for _, selector := range twinSelectors {
		matchers, err := parser.NewParser(parser.Options{}).ParseMetricSelector(selector)
		if err != nil {
			tw.t.Fatal(err)
		}
		wantDiff(tw.t, "scan "+selector, tw.scan(tw.apart.Scan, from, to, matchers), tw.scan(tw.whole.Scan, from, to, matchers))
		wantDiff(tw.t, "scan with stale "+selector, tw.scan(tw.apart.ScanWithStale, from, to, matchers), tw.scan(tw.whole.ScanWithStale, from, to, matchers))
	}
}

// scan reads points as text. Of ends that follow each other one counts, and none
// where nothing was before it.
func (tw *twins) scan(scan scanFunc, from, to time.Time, matchers []*labels.Matcher) map[string]string {
	tw.t.Helper()
	got, last, ended := map[string]*strings.Builder{}, map[string]int64{}, map[string]bool{}
	err := scan(tw.t.Context(), from, to, matchers, func(ls labels.Labels, points []Point) error {
		key := ls.String()
		for _, p := range points {
			if p.T <= last[key] {
				tw.t.Errorf("%s: %d after %d", key, p.T, last[key])
			}
			last[key] = p.T
			b := got[key]
			if p.IsStale() && (b == nil || ended[key]) {
				continue
			}
			if b == nil {
				b = &strings.Builder{}
				got[key] = b
			}
			if ended[key] = p.IsStale(); ended[key] {
				fmt.Fprintf(b, "%s:stale ", time.UnixMilli(p.T).Sub(start))
			} else {
				fmt.Fprintf(b, "%s:%g ", time.UnixMilli(p.T).Sub(start), p.V)
			}
		}
		return nil
	})
	if err != nil {
		tw.t.Fatal(err)
	}
	texts := map[string]string{}
	for key, b := range got {
		texts[key] = b.String()
	}
	return texts
}

func (tw *twins) rounds(s *Store, o RoundsOptions) []string {
	tw.t.Helper()
	var all []string
	err := s.Rounds(tw.t.Context(), o, func(r *collector.Round) error {
		var values []string
		for _, one := range r.Samples {
			values = append(values, fmt.Sprintf("%s=%g", one.Series.Labels, one.Value))
		}
		for _, h := range r.Histograms {
			for part := range h.Parts() {
				values = append(values, fmt.Sprintf("%s%s%g=%g", h.Series.Labels, part.Suffix, part.Bound, part.Value))
			}
		}
		sort.Strings(values)
		all = append(all, fmt.Sprintf("%s %s %s: %s", r.Time.Sub(start), r.Target.Labels, r.State, strings.Join(values, " ")))
		return nil
	})
	if err != nil {
		tw.t.Fatal(err)
	}
	return all
}

// compact moves what is old enough into blocks.
func (tw *twins) compact() {
	tw.t.Helper()
	for _, s := range []*Store{tw.whole, tw.apart} {
		if err := s.db.Compact(tw.t.Context()); err != nil {
			tw.t.Fatal(err)
		}
		if len(s.db.Blocks()) == 0 {
			tw.t.Error("there is no block")
		}
	}
}

// parts compares some parts of the time.
func (tw *twins) parts(n int) {
	tw.t.Helper()
	for range n {
		from := start.Add(time.Duration(tw.rnd.Int64N(int64(tw.now.Sub(start)))))
		tw.compare(from, from.Add(time.Duration(tw.rnd.Int64N(int64(240*tw.step)))))
	}
}

// readWholeHistograms stores random pages in both ways and compares all that can
// be asked.
func readWholeHistograms(t *testing.T, seed uint64) {
	t.Parallel()
	tw := newTwins(t, seed)
	if blocks := seed%2 == 0; blocks {
		tw.step = time.Minute
		tw.run(200, false)
		tw.compact()
	} else {
		tw.run(150, seed == 1)
	}
	tw.parts(1)
	tw.reopen(seed%2 == 0)
	tw.run(150, false)
	tw.compareLabels(start, tw.now.Add(time.Second))
	tw.parts(2)
	beside, err := Open(Options{Dir: tw.whole.opts.Dir, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	all := RoundsOptions{From: start, To: tw.now.Add(time.Second), HeldSamples: 3000}
	wantDiff(t, "rounds beside the writer", tw.rounds(tw.apart, all), tw.rounds(beside, all))
	tw.whole = beside
	tw.compareLabels(start, all.To)
	tw.compareScans(start, all.To)
}

// TestWholeHistogramsReadAsSeries compares a few storages; there are more of them
// with the tag slow.
func TestWholeHistogramsReadAsSeries(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { readWholeHistograms(t, seed) })
	}
}
