package collector

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// parsedByExpfmt reads a page by the parser of the client libraries. It groups
// a histogram's samples, whose counts it holds as whole numbers: exact says
// that none was cut.
func parsedByExpfmt(page []byte) (all []pageSample, exact bool, err error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return nil, false, err
	}
	exact = true
	for name, family := range families {
		for _, m := range family.GetMetric() {
			lset := map[string]string{model.MetricNameLabel: name}
			for _, l := range m.GetLabel() {
				lset[l.GetName()] = l.GetValue()
			}
			add := func(suffix string, value float64) { all = append(all, pageSample{name + suffix, lset, value}) }
			switch {
			case m.Counter != nil:
				add("", m.GetCounter().GetValue())
			case m.Gauge != nil:
				add("", m.GetGauge().GetValue())
			case m.Untyped != nil:
				add("", m.GetUntyped().GetValue())
			default:
				exact = false // a histogram or summary, whose parts the page may have left out
			}
		}
	}
	return all, exact, nil
}

// FuzzDifferential holds what is read of a page to what comes of it by
// Prometheus's own parser, and by that of the client libraries: whatever all
// accept, all read alike.
func FuzzDifferential(f *testing.F) {
	for _, name := range []string{"vllm-0.28-dp2.prom.gz", "vllm-0.32.0.prom.gz", "litellm-1.102.0.prom.gz", "litellm-1.102.0-multiprocess.prom.gz"} {
		page := testPage(f, name)
		for _, start := range []int{0, len(page) / 3, 2 * len(page) / 3} {
			start += bytes.IndexByte(page[start:], '\n') + 1
			end := min(start+3000, len(page))
			f.Add(page[start:start+bytes.LastIndexByte(page[start:end], '\n')+1], false, name[0] == 'l')
		}
	}
	f.Add(testPage(f, "vllm-rust-frontend.prom"), true, false)
	for _, page := range []string{
		"vllm:prompt_tokens_total{engine=\"0\",model_name=\"a\\\\\\\"\\n\"} 1e3 17\n",
		"vllm:prompt_tokens_total 1\nvllm:prompt_tokens 2\nray_vllm_prompt_tokens_total 3\n",
		"vllm:time_to_first_token_seconds_bucket{le=\"1\"} 2\nvllm:time_to_first_token_seconds_bucket{le=\"1.0\"} 3\n",
		"vllm:num_requests_running{engine=\"0\"} NaN\nvllm:num_requests_running{engine=\"1\"} +Inf\nvllm:num_requests_running 0x1p3\n",
		"\tvllm:num_requests_running { engine = \"0\" , } 3 \n# HELP x y\n#\n\nprocess_start_time_seconds 1.5e9\n",
	} {
		f.Add([]byte(page), false, false)
	}
	f.Fuzz(func(t *testing.T, page []byte, openMetrics, gateway bool) {
		name, contentType := SourceVLLM, ""
		if gateway {
			name = SourceLiteLLM
		}
		if openMetrics {
			contentType = openMetricsType
		}
		target := &Target{Labels: labels.FromStrings("job", "j", "instance", "i"), Source: name}
		yielded, info, err := newPageReader(target, DefaultLimits()).read(bytes.NewReader(page), contentType, time.Unix(1, 0))
		if err != nil || info.BadLines > 0 {
			return
		}
		src, got := registered.named(name), values(yielded.classic())
		if all, err := parsed(page, openMetrics); err == nil {
			checkSame(t, "Prometheus's parser", src, all, got)
		}
		if openMetrics {
			return
		}
		if all, exact, err := parsedByExpfmt(page); err == nil && exact {
			checkSame(t, "expfmt", src, all, got)
		}
	})
}

// checkSame compares the samples that were read with those that another parser makes.
func checkSame(t *testing.T, parser string, src *source, page []pageSample, got map[string]float64) {
	t.Helper()
	want, scale := expected(src, page)
	for series, w := range want {
		g, ok := got[series]
		switch overflow := math.IsInf(w, 0) || math.IsInf(scale[series], 0); {
		case overflow:
		case !ok:
			t.Errorf("%s reads %s as %g, here it is missing", parser, series, w)
		case math.Abs(g-w) > 1e-12*scale[series]:
			t.Errorf("%s reads %s as %g, here it is %g", parser, series, w, g)
		}
	}
	for series, g := range got {
		if _, ok := want[series]; !ok {
			t.Errorf("%s does not read %s, here it is %g", parser, series, g)
		}
	}
}
