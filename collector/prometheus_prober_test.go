package collector

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

func newTestProber(t *testing.T, url string) *PrometheusProber {
	t.Helper()
	p, err := NewPrometheusProber(promConfig(t, fmt.Sprintf("{url: %q, interval: 15s}", url)), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// A server that knows a live engine, one that is down with all of its job, and
// one that it scrapes no longer.
func TestPrometheusProber(t *testing.T) {
	t.Parallel()
	q := newQueryable(t)
	now := at(0)
	q.matrix = func(query string, start, end, step float64) string {
		var all []string
		add := func(metric string, value func(at float64) float64) {
			var values []string
			for at := start; at <= end+step/2; at += step {
				values = append(values, fmt.Sprintf(`[%.3f,"%.3f"]`, at, value(at)))
			}
			all = append(all, fmt.Sprintf(`{"metric":%s,"values":[%s]}`, metricOf(metric), strings.Join(values, ",")))
		}
		scraped := func(at float64) float64 { return at - 4 }
		switch {
		case strings.HasPrefix(query, "group by"):
			for _, who := range []string{`job="vllm",instance="a:1"`, `job="dead",instance="b:1"`, `job="gone",instance="c:1"`} {
				add(`ray_vllm_prompt_tokens_total{`+who+`}`, func(float64) float64 { return 1 })
			}
			add(`litellm_in_flight_requests{job="nameless"}`, func(float64) float64 { return 1 })
		case strings.HasPrefix(query, "timestamp("):
			add(`{job="vllm",instance="a:1"}`, scraped)
			add(`{job="dead",instance="b:1"}`, scraped)
		case strings.Contains(query, Up+"|") && strings.Contains(query, "dead|gone|vllm"):
			add(`up{job="vllm",instance="a:1"}`, func(float64) float64 { return 1 })
			add(`up{job="dead",instance="b:1"}`, func(float64) float64 { return 0 })
		case strings.Contains(query, "num_requests_running"):
			add(`vllm:num_requests_running{job="vllm",instance="a:1"}`, func(at float64) float64 { return at - float64(now.Unix()) })
		}
		return strings.Join(all, ",")
	}
	rounds := map[string]int{}
	var last map[string]string
	err := newTestProber(t, q.URL).Between(t.Context(), now.Add(-time.Minute), now, func(r *Round, info PageInfo) {
		if r.State == StateUp {
			last = info.From
		}
		rounds[fmt.Sprintf("%s %s %s", r.Target.Labels.Get(model.InstanceLabel), r.State, r.Target.Source)]++
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(rounds) != 3 || rounds["a:1 up vllm"] != 4 || rounds["b:1 down vllm"] != 4 || rounds["c:1 unknown vllm"] != 1 {
		t.Errorf("rounds %v", rounds)
	}
	if last[VLLMRunning] != VLLMRunning {
		t.Errorf("it was read from %v", last)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if members := q.asked[0]; !strings.Contains(members, VLLMPromptTokens) || !strings.Contains(members, "[6h]") || slices.ContainsFunc(q.asked[1:], func(s string) bool { return strings.HasPrefix(s, "group by") }) {
		t.Errorf("asked %q", q.asked)
	}
}

func TestPrometheusProberName(t *testing.T) {
	t.Parallel()
	for about, want := range map[string]string{
		`{"data":{"version":"2.42.0","goVersion":"go1.19"}}`:          "a Prometheus-compatible server 2.42.0",
		`{"data":{"application":"Grafana Mimir","version":"2.10.0"}}`: "Grafana Mimir 2.10.0",
		`{"data":{"version":"2.24.0"}}`:                               "a Prometheus-compatible server", // VictoriaMetrics
		`{"data":{}}`:                                                 "a Prometheus-compatible server",
		"404 page not found":                                          "a Prometheus-compatible server",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/query" {
				fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
				return
			}
			fmt.Fprint(w, about)
		}))
		defer server.Close()
		if got, err := newTestProber(t, server.URL).Name(t.Context()); got != want || err != nil {
			t.Errorf("%s is %q (%v), expected %q", about, got, err, want)
		}
	}
	if name, err := newTestProber(t, "http://127.0.0.1:1").Name(t.Context()); err == nil || !strings.Contains(err.Error(), "refused the connection") {
		t.Errorf("nobody there is %q, %v", name, err)
	}
}
