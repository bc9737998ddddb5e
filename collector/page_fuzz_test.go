package collector

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

// Whatever a page holds, the reader does not fail on it, keeps its limits and
// passes on nothing that cannot be reckoned with, nor any series twice.
func FuzzRead(f *testing.F) {
	for _, name := range []string{
		"vllm-0.28-dp2.prom.gz", "vllm-0.32.0.prom.gz", "vllm-rust-frontend.prom",
		"litellm-1.102.0.prom.gz", "litellm-1.102.0-multiprocess.prom.gz",
	} {
		page := testPage(f, name)
		for i := range 3 {
			start := i * len(page) / 3
			f.Add(page[start:min(start+3000, len(page))], i == 0)
		}
	}
	f.Add([]byte("<html>\n<body>x</body>\n"), false)
	f.Add([]byte("vllm:prompt_tokens_total{engine=\"0\"} 3 # {trace_id=\"}\"} 1 2\n# EOF\n"), false)
	f.Add([]byte("vllm:prompt_tokens_total 1e308\nvllm:prompt_tokens_total{a=\"b\"} 1e308\n"), false)
	f.Add([]byte("process_start_time_seconds 1\nlitellm_deployment_state{model_id=\"a\",pid=\"1\"} NaN\n"), true)
	limits := Limits{BodyBytes: 1 << 20, Series: 100, LabelsPerSeries: 32, LabelNameLength: 64, LabelValueLength: 256}
	f.Fuzz(func(t *testing.T, page []byte, openMetrics bool) {
		contentType := ""
		if openMetrics {
			contentType = openMetricsType
		}
		p := newPageReader(testTarget(""), limits)
		half := page[:len(page)/2]
		exposed := map[*Series]bool{}
		for _, body := range [][]byte{page, half, page} {
			got, _, err := p.read(bytes.NewReader(body), contentType, time.Unix(1, 0))
			if err != nil && len(got.samples)+len(got.histograms)+len(got.stale) > 0 {
				t.Fatal("a page that is refused gave something")
			}
			if err == nil {
				exposed = checkRound(t, exposed, got)
			}
			if samples := got.classic(); len(samples) > limits.Series || p.sums.known() > 3*limits.Series {
				t.Fatalf("%d samples, %d inputs", len(samples), p.sums.known())
			}
		}
		if lost := p.lose(); len(lost) != len(exposed) {
			t.Fatalf("lost %d of %d", len(lost), len(exposed))
		}
	})
}

// checkRound gives the series that are exposed after a page.
func checkRound(t *testing.T, before map[*Series]bool, got yield) map[*Series]bool {
	now := map[*Series]bool{}
	for _, s := range got.samples {
		if isNotNumber(s.Value) {
			t.Fatalf("%s is %v", s.Series.Labels, s.Value)
		}
		if now[s.Series] {
			t.Fatalf("%s is there twice", s.Series.Labels)
		}
		now[s.Series] = true
		if s.Series.Labels.Get("job") != "test" || s.Series.Labels.Get(model.MetricNameLabel) == "" {
			t.Fatalf("labels %s", s.Series.Labels)
		}
	}
	for _, h := range got.histograms {
		now[h.Series] = true
		if !h.Series.Whole || len(h.Bounds) != len(h.Buckets) || !slices.IsSortedFunc(h.Bounds, rising) ||
			slices.ContainsFunc(h.Buckets, isNotNumber) || math.IsInf(h.Sum, 0) || math.IsInf(h.Count, 0) || h.Len() == 0 {
			t.Fatalf("%s is %+v", h.Series.Labels, h)
		}
	}
	for _, s := range got.stale {
		if now[s] || !before[s] {
			t.Fatalf("%s is stale", s.Labels)
		}
		delete(before, s)
	}
	for s := range before {
		if !now[s] {
			t.Fatalf("%s is gone but not stale", s.Labels)
		}
	}
	return now
}

// rising orders bounds of which no two are the same, and none is NaN.
func rising(a, b float64) int {
	if a > b {
		return 1
	}
	return -1
}
