package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/rules"
)

// recordedOf are some derived series of a fleet.
func recordedOf(engines int) []rules.Recorded {
	var all []rules.Recorded
	for i := range engines {
		series := func(name string, more ...string) labels.Labels {
			return labels.FromStrings(append([]string{"__name__", name, "engine", "0", "instance", fmt.Sprintf("vllm-%d:8000", i), "job", "vllm", "model_name", `a "b" \ c`}, more...)...)
		}
		for _, window := range []string{"1m", "5m", "30m"} {
			all = append(all, rules.Recorded{Labels: series("kvwatch_prefix_cache_hit_ratio", "window", window), Value: 0.25, Known: true, Quality: rules.QualityOK})
		}
		all = append(all,
			rules.Recorded{Labels: series("kvwatch_kv_usage_ratio"), Value: 0.5, Known: true, Quality: rules.QualityPartial, Coverage: 0.7, Reason: "pages are missing"},
			rules.Recorded{Labels: series("kvwatch_kv_free_seats"), Quality: rules.QualityAbsent, Reason: "too few requests"},
			rules.Recorded{Labels: series("kvwatch_preemptions_total"), Value: 1e9, Known: true, Quality: rules.QualityOK},
			rules.Recorded{Labels: series("kvwatch_ttft_seconds"), Known: true, Quality: rules.QualityReset, Summary: &rules.Summary{
				Quantiles: []rules.Quantile{{Q: 0.5, Value: 0.1}, {Q: 0.99, Value: 2}}, Sum: 12.5, Count: 40,
			}},
		)
	}
	return all
}

// metricsPage asks for the page in a format.
func metricsPage(t *testing.T, g prometheus.Gatherer, accept string) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(g, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
	return w.Body.String()
}

func TestExporter(t *testing.T) {
	t.Parallel()
	own := prometheus.NewRegistry()
	up := prometheus.NewGauge(prometheus.GaugeOpts{Name: "kvwatch_notifier_up", Help: "Its own."})
	own.MustRegister(up)
	x := newExporter(own, func() []rules.Recorded { return recordedOf(1) })
	x.help = map[string]string{"kvwatch_ttft_seconds": "Time to first token."}

	const ls = `engine="0",instance="vllm-0:8000",job="vllm",model_name="a \"b\" \\ c"`
	quality := func(series, quality string) string {
		return fmt.Sprintf(`kvwatch_series_quality{engine="0",instance="vllm-0:8000",job="vllm",model_name="a \"b\" \\ c",quality=%q,series=%q%%s} 1`, quality, series)
	}
	want := strings.Join([]string{
		"# HELP kvwatch_kv_usage_ratio ", "# TYPE kvwatch_kv_usage_ratio gauge",
		"kvwatch_kv_usage_ratio{" + ls + "} 0.5",
		"# HELP kvwatch_notifier_up Its own.", "# TYPE kvwatch_notifier_up gauge",
		"kvwatch_notifier_up 0",
		"# HELP kvwatch_preemptions_total ", "# TYPE kvwatch_preemptions_total counter",
		"kvwatch_preemptions_total{" + ls + "} 1e+09",
		"# HELP kvwatch_prefix_cache_hit_ratio ", "# TYPE kvwatch_prefix_cache_hit_ratio gauge",
		"kvwatch_prefix_cache_hit_ratio{" + ls + `,window="1m"} 0.25`,
		"kvwatch_prefix_cache_hit_ratio{" + ls + `,window="5m"} 0.25`,
		"kvwatch_prefix_cache_hit_ratio{" + ls + `,window="30m"} 0.25`,
		"# HELP kvwatch_series_quality ", "# TYPE kvwatch_series_quality gauge",
		fmt.Sprintf(quality("kvwatch_prefix_cache_hit_ratio", "ok"), `,window="1m"`),
		fmt.Sprintf(quality("kvwatch_prefix_cache_hit_ratio", "ok"), `,window="5m"`),
		fmt.Sprintf(quality("kvwatch_prefix_cache_hit_ratio", "ok"), `,window="30m"`),
		fmt.Sprintf(quality("kvwatch_kv_usage_ratio", "partial"), ""),
		fmt.Sprintf(quality("kvwatch_kv_free_seats", "absent"), ""),
		fmt.Sprintf(quality("kvwatch_preemptions_total", "ok"), ""),
		fmt.Sprintf(quality("kvwatch_ttft_seconds", "reset"), ""),
		"# HELP kvwatch_ttft_seconds Time to first token.", "# TYPE kvwatch_ttft_seconds summary",
		"kvwatch_ttft_seconds{" + ls + `,quantile="0.5"} 0.1`,
		"kvwatch_ttft_seconds{" + ls + `,quantile="0.99"} 2`,
		"kvwatch_ttft_seconds_sum{" + ls + "} 12.5",
		"kvwatch_ttft_seconds_count{" + ls + "} 40",
		"",
	}, "\n")
	if diff := cmp.Diff(want, metricsPage(t, x, "text/plain")); diff != "" {
		t.Errorf("the page (-want +got)\n%s", diff)
	}
}

// TestExporterWhileStarting: what kvwatch tells of itself is there from the first moment.
func TestExporterWhileStarting(t *testing.T) {
	t.Parallel()
	d := newDaemon(daemonOptions{Config: &Config{}, StoragePath: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Stdout: io.Discard})
	page := metricsPage(t, d.server.metrics, "application/openmetrics-text")
	if !strings.Contains(page, "kvwatch_config_last_reload_successful 1") || !strings.HasSuffix(page, "# EOF\n") {
		t.Errorf("the page is\n%s", page)
	}
}

// BenchmarkMetricsPage1000 is one scrape of kvwatch's own page, of a thousand engines.
func BenchmarkMetricsPage1000(b *testing.B) {
	all := recordedOf(1000)
	x := newExporter(prometheus.NewRegistry(), func() []rules.Recorded { return all })
	page := promhttp.HandlerFor(x, promhttp.HandlerOpts{})
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		page.ServeHTTP(&httptest.ResponseRecorder{}, r) // one without a body throws it away
	}
}
