package rules

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
)

// wholes makes whole histograms of the series of pages, as the collector does.
type wholes struct {
	parts  map[*collector.Series]wholePart
	byName map[string]*whole // by name and labels
	page   int
	// samples and histograms are those of the last page.
	samples    []collector.Sample
	histograms []collector.Histogram
}

// whole is a histogram of the pages. One that never had a bucket stays in parts.
type whole struct {
	series     *collector.Series
	hasBuckets bool
	page       int
	bounds     []float64
	now        collector.Histogram
}

// wholePart is what a series is of a histogram; of is nil where it is of none.
type wholePart struct {
	of   *whole
	part string
	le   float64
}

func newWholes() *wholes {
	return &wholes{parts: map[*collector.Series]wholePart{}, byName: map[string]*whole{}}
}

// split takes a page's samples and leaves the result in samples and histograms.
func (w *wholes) split(page []collector.Sample) {
	w.page++
	w.samples, w.histograms = w.samples[:0], w.histograms[:0]
	var here []*whole
	for _, s := range page {
		p := w.part(s.Series)
		if p.of == nil || !p.of.hasBuckets {
			w.samples = append(w.samples, s)
			continue
		}
		if p.of.page != w.page {
			p.of.page = w.page
			p.of.now = collector.Histogram{Series: p.of.series, Buckets: p.of.now.Buckets[:0], Sum: math.NaN(), Count: math.NaN()}
			here = append(here, p.of)
		}
		switch h := &p.of.now; p.part {
		case collector.SumSuffix:
			h.Sum = s.Value
		case collector.CountSuffix:
			h.Count = s.Value
		default:
			h.Bounds, h.Buckets = append(h.Bounds, p.le), append(h.Buckets, s.Value)
		}
	}
	for _, of := range here {
		if !slices.Equal(of.bounds, of.now.Bounds) {
			of.bounds = of.now.Bounds
		}
		of.now.Bounds = of.bounds
		w.histograms = append(w.histograms, of.now)
	}
}

// part finds what a series is.
func (w *wholes) part(s *collector.Series) wholePart {
	p, known := w.parts[s]
	if known {
		return p
	}
	name := s.Labels.Get(model.MetricNameLabel)
	for _, part := range []string{collector.BucketSuffix, collector.SumSuffix, collector.CountSuffix} {
		base, found := strings.CutSuffix(name, part)
		if !found {
			continue
		}
		le, err := strconv.ParseFloat(s.Labels.Get(labels.BucketLabel), 64)
		if err != nil && part == collector.BucketSuffix {
			continue
		}
		ls := labels.NewBuilder(s.Labels).Set(model.MetricNameLabel, base).Del(labels.BucketLabel).Labels()
		of := w.byName[ls.String()]
		if of == nil {
			of = &whole{series: &collector.Series{Labels: ls, Whole: true}}
			w.byName[ls.String()] = of
		}
		of.hasBuckets = of.hasBuckets || part == collector.BucketSuffix
		p = wholePart{of, part, le}
	}
	w.parts[s] = p
	return p
}

// stale are the series of the histograms among series that are gone, and those
// that are of none.
func (w *wholes) stale(series []*collector.Series) []*collector.Series {
	var gone []*collector.Series
	for _, s := range series {
		if p := w.part(s); p.of == nil || !p.of.hasBuckets {
			gone = append(gone, s)
		} else if !slices.Contains(gone, p.of.series) {
			gone = append(gone, p.of.series)
		}
	}
	return gone
}

// wild is a page of an engine or a gateway with all that can befall it.
type wild struct {
	*page
	rnd   *rand.Rand
	hists []*wildHistogram
	// other are the series of no histogram, shown what stands on the page now.
	other, shown []*collector.Series
}

type wildHistogram struct {
	name       string
	extra      []string
	bounds     []float64
	counts     []float64 // not cumulative
	sum, count float64
}

func newWild(gateway bool, rnd *rand.Rand) *wild {
	w := &wild{rnd: rnd}
	if gateway {
		w.page = newGatewayPage("g:4000")
		for _, name := range []string{collector.LiteLLMOverhead, collector.LiteLLMRedisLatency, collector.LiteLLMTotalLatency, collector.LiteLLMTTFT} {
			for _, id := range []string{"1", "2"} {
				w.hists = append(w.hists, &wildHistogram{name: name, extra: []string{"model_id", id}})
			}
		}
		for _, status := range []string{"200", "429"} {
			w.other = append(w.other, w.of(collector.LiteLLMRequests, "status_code", status, "requested_model", "m"))
		}
		w.other = append(w.other, w.of(collector.LiteLLMInFlight), w.of(collector.ProcessStart))
		return w
	}
	w.page = newPage("vllm", "e:8000", "m")
	for _, engine := range []string{"0", "1"} {
		for _, name := range []string{
			collector.VLLMPromptHist, collector.VLLMComputedHist, collector.VLLMGenerationHist, collector.VLLMTTFT, collector.VLLMITL,
			collector.VLLMTPOT, collector.VLLMQueueTime, collector.VLLMPrefillTime, collector.VLLME2E, collector.VLLMIdleBeforeEvict,
		} {
			w.hists = append(w.hists, &wildHistogram{name: name, extra: []string{"engine", engine}})
		}
		for _, name := range []string{collector.VLLMPromptTokens, collector.VLLMGenerationTokens, collector.VLLMCacheQueries, collector.VLLMRunning, collector.VLLMWaiting} {
			w.other = append(w.other, w.of(name, "engine", engine))
		}
	}
	w.other = append(w.other, w.of(collector.ProcessStart), w.of("python_gc_seconds_sum"))
	return w
}

// is says whether it happens, once in so many times.
func (w *wild) is(once int) bool { return w.rnd.IntN(once) == 0 }

// begin sets a histogram to 0, with bounds that may be others than before.
func (w *wild) begin(h *wildHistogram) {
	all := [][]float64{{0.1, 1, 10, 100}, {0.1, 1, 2, 10, 1000}, {5, math.Inf(1)}, append(slices.Clone(timeBounds), math.Inf(1)), append(slices.Clone(tokenBounds), math.Inf(1))}
	h.bounds = all[w.rnd.IntN(len(all))]
	h.counts, h.sum, h.count = make([]float64, len(h.bounds)), 0, 0
}

// live lets the server do something, or begin again.
func (w *wild) live(now time.Time) {
	start := w.of(collector.ProcessStart)
	restarts := w.values[start] == 0 || w.is(30)
	if restarts && w.values[start] == 0 || w.is(2) { // which may not be told
		w.values[start] = float64(now.Unix()) - w.rnd.Float64()*40*float64(w.rnd.IntN(4))
	}
	for _, h := range w.hists {
		if restarts || h.bounds == nil || w.is(200) {
			w.begin(h)
		}
		for i := range h.counts {
			n := float64(w.rnd.IntN(20))
			h.counts[i] += n
			h.count += n
			h.sum += n * w.rnd.ExpFloat64() * 10
			if w.is(300) { // a worker's part went
				h.counts[i] /= 2
			}
		}
		if w.is(50) {
			h.count, h.sum = h.count/2, h.sum/3
		}
	}
	for _, s := range w.other {
		switch {
		case s == start:
		case restarts:
			w.values[s] = 0
		default:
			w.values[s] += float64(w.rnd.IntN(100))
		}
	}
}

// show writes the page, on which some of it may be missing or no number.
func (w *wild) show() {
	w.shown = w.shown[:0]
	noNumber := false
	put := func(s *collector.Series, v float64) {
		switch w.rnd.IntN(400) {
		case 0:
			v = math.NaN()
		case 1:
			v = math.Inf(1)
		case 2, 3:
			return
		}
		if noNumber {
			v = math.NaN()
		}
		w.values[s] = v
		w.shown = append(w.shown, s)
	}
	for _, s := range w.other {
		if !w.is(200) {
			w.shown = append(w.shown, s)
		}
	}
	for _, h := range w.hists {
		if w.is(100) {
			continue
		}
		noBuckets, sum := w.is(40), 0.0
		noNumber = w.is(60)
		for i, le := range h.bounds {
			if sum += h.counts[i]; !noBuckets {
				put(w.of(h.name+collector.BucketSuffix, append(h.extra, labels.BucketLabel, strconv.FormatFloat(le, 'g', -1, 64))...), sum)
			}
		}
		put(w.of(h.name+collector.SumSuffix, h.extra...), h.sum)
		put(w.of(h.name+collector.CountSuffix, h.extra...), h.count)
	}
	w.order = slices.Clone(w.shown)
}

// TestWholeHistograms gives random lives of engines and gateways once with each
// series for itself, once with whole histograms, and once first so and then so,
// as after a restart over a history: all that comes of them is the same.
func TestWholeHistograms(t *testing.T) {
	t.Parallel()
	for name, gateway := range map[string]bool{"engine": false, "gateway": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resets, alerts := 0, 0
			for seed := range uint64(8) {
				w := newWild(gateway, rand.New(rand.NewPCG(seed, 1)))
				r, a := compareWild(t, w)
				resets, alerts = resets+r, alerts+a
			}
			if resets < 8 || alerts == 0 {
				t.Errorf("%d resets and %d alerts: the lives are too quiet to tell anything", resets, alerts)
			}
		})
	}
}

// compareWild plays one life and counts the pages on which a counter began
// again and the alerts that fired.
func compareWild(t *testing.T, w *wild) (resets, alerts int) {
	t.Helper()
	parts, wholes, both := newWildEngine(t), newWildEngine(t), newWildEngine(t)
	now, fired, resetAt := testStart, map[string]bool{}, int64(0)
	const pages, evalEvery = 240, 8
	for i := range pages {
		now = now.Add(step)
		if w.is(100) {
			now = now.Add(15 * time.Minute)
		}
		switch {
		case w.is(8): // it is as it was
		case w.is(8): // but for a sum
			h := w.hists[w.rnd.IntN(len(w.hists))]
			h.sum++
			w.values[w.of(h.name+collector.SumSuffix, h.extra...)]++
		default:
			w.live(now)
			w.show()
		}
		round := func(whole bool) collector.Round {
			if whole {
				return w.round(now)
			}
			return w.parts(now)
		}
		if w.is(20) {
			round = func(whole bool) collector.Round {
				if whole {
					return w.down(now)
				}
				return w.partsDown(now)
			}
		}
		sampled := w.is(100)
		for e, whole := range map[*Engine]bool{parts: false, wholes: true, both: i > pages/2} {
			r := round(whole)
			r.Sampled = sampled
			e.Observe(&r)
			if i%evalEvery > 0 {
				continue
			}
			if err := e.Eval(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
		if diff := wildDiff(windowsOf(parts), windowsOf(wholes)) + wildDiff(windowsOf(parts), windowsOf(both)); diff != "" {
			t.Fatalf("page %d, the windows differ: %s", i, diff)
		}
		for key, p := range parts.targets {
			if q := wholes.targets[key]; p.sameSince != q.sameSince {
				t.Fatalf("page %d is the same since %d in parts, since %d whole", i, p.sameSince, q.sameSince)
			}
			for _, u := range p.units {
				if u.resetAt > resetAt {
					resetAt = u.resetAt
					resets++
				}
			}
		}
		if i%evalEvery > 0 {
			continue
		}
		if diff := wildDiff(recordedOf(parts), recordedOf(wholes)); diff != "" {
			t.Fatalf("page %d, what is derived differs: %s", i, diff)
		}
		for _, a := range parts.Alerts() {
			fired[a.Name] = true
		}
	}
	return resets, len(fired)
}

func newWildEngine(t *testing.T) *Engine {
	t.Helper()
	e, err := New(Options{ScrapeInterval: step, Rules: withoutWatchdog(nil)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// recordedOf is all that an engine tells.
func recordedOf(e *Engine) []any { return []any{e.Recorded(), e.Alerts(), e.Detectors()} }

// windowsOf is what the pages added to the histograms of an engine, all of it.
func windowsOf(e *Engine) []any {
	var all []any
	for _, t := range e.sortedTargets() {
		for _, u := range t.units {
			all = append(all, u.engine, u.resetAt)
			for i := range u.hists {
				h := u.hists[i]
				if h == nil {
					continue
				}
				all = append(all, i, h.bounds, h.buckets, h.skipped, h.sum, h.count, h.sumSkipped, h.countSkipped, u.hasHist(hist(i)))
			}
		}
	}
	return all
}

func wildDiff(a, b []any) string {
	if reflect.DeepEqual(a, b) { // which is far faster, and says nothing
		return ""
	}
	return cmp.Diff(a, b, cmpopts.EquateNaNs(), cmp.Comparer(labels.Equal))
}
