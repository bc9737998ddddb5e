package collector

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// served is what a page of LiteLLM must have, beside what a test is about.
const served = `litellm_proxy_total_requests_metric_total{model_id="d1",requested_model="coder",status_code="200"} 5.0
`

// servedWith is served, in series, with others.
func servedWith(others map[string]float64) map[string]float64 {
	all := map[string]float64{`litellm_proxy_total_requests_metric_total{model_id="d1",requested_model="coder",status_code="200"}`: 5}
	maps.Copy(all, others)
	return all
}

// The numbers are those of LiteLLM's issues. What a derived series makes of the
// pages is held in kvwatch/rules.
func TestLiteLLMFacts(t *testing.T) {
	t.Parallel()
	requests := func(users ...float64) string {
		var b strings.Builder
		for i, n := range users {
			fmt.Fprintf(&b, "litellm_proxy_total_requests_metric_total{end_user=\"u%d\",requested_model=\"coder\",status_code=\"200\"} %g\n", i, n)
		}
		return b.String()
	}
	const sum = `litellm_proxy_total_requests_metric_total{requested_model="coder",status_code="200"}`
	facts := []fact{
		{
			report: "#10595", is: "workers that answer in turn are found by the process' start that comes back",
			pages: []factPage{
				{text: served + "process_start_time_seconds 5\n"},
				{text: served + "process_start_time_seconds 7\n", restarted: true},
				{text: served + "process_start_time_seconds 5\n", restarted: true, sampled: true},
				{text: served + "process_start_time_seconds 5\n", sampled: true},
			},
		},
		{
			report: "#10595", is: "or by _created where the process' start is not exposed",
			pages: []factPage{
				{text: served + "litellm_proxy_total_requests_metric_created{model_id=\"d1\",status_code=\"200\"} 1.7e+09\n"},
				{text: served + "litellm_proxy_total_requests_metric_created{model_id=\"d1\",status_code=\"200\"} 1.8e+09\n"},
				{text: served + "litellm_proxy_total_requests_metric_created{model_id=\"d1\",status_code=\"200\"} 1.7e+09\n", sampled: true},
			},
		},
		{
			report: "#28713", is: "a dead worker's state stays on the page and decides nothing",
			pages: []factPage{
				{text: served + "litellm_deployment_state{model_id=\"d1\",pid=\"19\"} 2.0\nlitellm_deployment_state{model_id=\"d1\",pid=\"20\"} 2.0\n"},
				{
					text: served + "litellm_deployment_state{model_id=\"d1\",pid=\"19\"} 2.0\nlitellm_deployment_state{model_id=\"d1\",pid=\"20\"} 0.0\n",
					want: servedWith(map[string]float64{`litellm_deployment_state{model_id="d1"}`: 0}),
				},
			},
		},
		{
			report: "#30079", is: "an empty page is a failed scrape", source: SourceLiteLLM,
			pages: []factPage{{text: "", state: StateNoMetrics, reason: "empty"}},
		},
		{
			report: "#24530", is: "e-mails, addresses and keys are summed away",
			pages: []factPage{{
				text: served + `litellm_input_tokens_metric_total{api_key_alias="ci",end_user="ann@example.com",hashed_api_key="88dc",model_id="d1",requested_model="coder",user_email="ann@example.com"} 3.0
litellm_input_tokens_metric_total{api_key_alias="ci",end_user="bob@example.com",hashed_api_key="3f1b",model_id="d1",requested_model="coder",user_email="bob@example.com"} 4.0
`,
				want: servedWith(map[string]float64{`litellm_input_tokens_metric_total{model_id="d1",requested_model="coder"}`: 7}),
			}},
		},
		{
			report: "#21918", is: "a queue time that was never recorded is absent, not 0",
			pages: []factPage{{
				text: served + "# HELP litellm_request_queue_time_seconds x\n# TYPE litellm_request_queue_time_seconds histogram\n",
				want: servedWith(nil), without: []string{LiteLLMQueueTime},
			}},
		},
		{
			report: "HELP", is: "overhead is in seconds whatever its HELP says: passed on as it is",
			pages: []factPage{{file: "litellm-1.106.12.prom.gz", want: map[string]float64{
				`litellm_overhead_latency_metric_count{model_group="coder",model_id="engine-b"}`: 8,
				`litellm_overhead_latency_metric_sum{model_group="coder",model_id="engine-b"}`:   0.3001182,
				`litellm_overhead_latency_metric_count{model_group="coder",model_id="engine-a"}`: 4,
				`litellm_overhead_latency_metric_sum{model_group="coder",model_id="engine-a"}`:   0.2411013,
			}}},
		},
		{
			report: "#20345", is: "the latency per output token, which for streams is the first token's, is not read",
			pages: []factPage{{file: "litellm-1.102.0-multiprocess.prom.gz", without: []string{"litellm_deployment_latency_per_output_token"}}},
		},
		{
			report: "#13986", is: "a required family that is missing is named; one that is declared is there",
			pages: []factPage{
				{text: "litellm_in_flight_requests 1\n", missing: []string{LiteLLMRequests}},
				{text: "# TYPE litellm_proxy_total_requests_metric_total counter\nlitellm_in_flight_requests 1\n"},
				{text: served},
			},
		},
		{
			report: "#13986", is: "cached tokens under their older name",
			pages: []factPage{{
				text: served + "litellm_provider_cache_read_input_tokens_metric_total{model_id=\"d1\"} 64.0\n",
				want: servedWith(map[string]float64{`litellm_input_cached_tokens_metric_total{model_id="d1"}`: 64}),
				from: map[string]string{LiteLLMCachedTokens: "litellm_provider_cache_read_input_tokens_metric_total"},
			}},
		},
		{
			report: "#35666", is: "routes that a scanner made up do not multiply series",
			pages: []factPage{{
				text: `litellm_proxy_total_requests_metric_total{route="/.env",status_code="404"} 1.0
litellm_proxy_total_requests_metric_total{route="/wp-login.php",status_code="404"} 2.0
`,
				want: map[string]float64{`litellm_proxy_total_requests_metric_total{status_code="404"}`: 3},
			}},
		},
		{
			report: "#38681", is: "custom labels, which failures alone have as None, split nothing",
			pages: []factPage{{
				text: `litellm_proxy_failed_requests_metric_total{exception_status="500",metadata_team="None",requested_model="coder",tag_prod="true"} 1.0
litellm_proxy_failed_requests_metric_total{exception_status="500",metadata_team="a",requested_model="coder",tag_prod="false"} 2.0
`,
				want: map[string]float64{`litellm_proxy_failed_requests_metric_total{exception_status="500",requested_model="coder"}`: 3},
			}},
		},
		{
			report: "#40059", is: "an opt-in label for the length of prompts is summed over",
			pages: []factPage{{
				text: served + `litellm_llm_api_latency_metric_count{input_sequence_length="0-1k",model_id="d1"} 1.0
litellm_llm_api_latency_metric_count{input_sequence_length="64k+",model_id="d1"} 2.0
`,
				want: servedWith(map[string]float64{`litellm_llm_api_latency_metric_count{model_id="d1"}`: 3}),
			}},
		},
		{
			report: "2.2", is: "a sum that loses a worker's part goes on from where it was",
			pages: []factPage{
				{text: requests(10000, 500), want: map[string]float64{sum: 10500}},
				{text: requests(8700, 500), want: map[string]float64{sum: 10500}},
				{text: requests(8710, 510), want: map[string]float64{sum: 10520}},
			},
		},
		{
			report: "2.2", is: "all near 0 is a restart, where the process' start is not exposed",
			pages: []factPage{
				{text: requests(10000, 500)},
				{text: requests(3, 1), restarted: true, want: map[string]float64{sum: 4}},
			},
		},
		{
			report: "2.3", is: "a user whose series is evicted does not dent the sum",
			pages: []factPage{
				{text: requests(100, 20)},
				{text: requests(101), want: map[string]float64{sum: 121}},
				{text: requests(102, 2), want: map[string]float64{sum: 124}},
			},
		},
		{
			report: "1", is: "limits without a limit, budgets without one, rates without a value: legal and not wanted",
			pages: []factPage{{
				text: served + `litellm_remaining_api_key_requests_for_model{model="m"} 9.223372036854776e+18
litellm_remaining_team_budget_metric{team="t"} +Inf
litellm_spend_capture_rate{api_provider="hosted_vllm"} NaN
`,
				want: servedWith(nil),
			}},
		},
		{
			report: "1", is: "label values that are escaped twice, and numbers with three digits of exponent",
			pages: []factPage{{
				text: `litellm_input_tokens_metric_total{end_user="a\\\"b",model_id="d1",requested_model="coder"} 1.2e+010` + "\n",
				want: map[string]float64{`litellm_input_tokens_metric_total{model_id="d1",requested_model="coder"}`: 1.2e10},
			}},
		},
		{
			report: "1.1", is: "in_flight is a sum over live workers already, without pid",
			pages: []factPage{{file: "litellm-1.102.0-multiprocess.prom.gz", want: map[string]float64{`litellm_in_flight_requests`: 47}}},
		},
		{
			report: "1.2", is: "LiteLLM's own response cache is no prefix cache",
			pages: []factPage{{
				text: served + "litellm_cached_tokens_metric_total{model_id=\"d1\"} 1000.0\nlitellm_cache_hits_metric_total{model_id=\"d1\"} 10.0\n", want: servedWith(nil),
			}},
		},
		{
			report: "seen 1", is: "of a deployment's two series the one that moved last decides, and answers since then",
			pages: []factPage{
				{text: deployment("0", "", 10)},
				{text: deployment("1", "2", 10), want: deployed(2, 10)},
				{text: deployment("1", "2", 10), want: deployed(2, 10)},
				{text: deployment("0", "2", 11), want: deployed(0, 11)},
				{text: deployment("0", "2", 12), want: deployed(0, 12)},
			},
		},
		{
			report: "seen 5", is: "overhead without samples is absent, not 0: all calls were streamed",
			pages: []factPage{{file: "litellm-1.102.0.prom.gz", without: []string{LiteLLMOverhead}}},
		},
		{
			report: "seen 11", is: "families new in 1.106 are not wanted and do no harm",
			pages: []factPage{{file: "litellm-1.106.12.prom.gz", without: []string{
				"litellm_customer_max_budget_metric", "litellm_project_model_rate_limit", "litellm_spend_capture_rate", "litellm_zero_cost_requests_total",
			}}},
		},
	}
	for i, f := range facts {
		t.Run(fmt.Sprintf("%d report %s: %s", i, f.report, f.is), f.test)
	}
}

// deployment is a page with a deployment's state while it answers, that while
// it is put aside ("" where it never was), and its successes.
func deployment(answering, aside string, successes int) string {
	page := fmt.Sprintf(`litellm_deployment_state{api_base="http://b/v1/chat/completions",litellm_model_name="tiny-chat",model_id="b"} %s
litellm_deployment_success_responses_total{model_id="b",requested_model="agent"} %d
`, answering, successes)
	if aside != "" {
		page += fmt.Sprintf("litellm_deployment_state{api_base=\"http://b/v1\",litellm_model_name=\"agent\",model_id=\"b\"} %s\n", aside)
	}
	return page
}

func deployed(state, successes float64) map[string]float64 {
	return map[string]float64{
		`litellm_deployment_state{model_id="b"}`:                                           state,
		`litellm_deployment_success_responses_total{model_id="b",requested_model="agent"}`: successes,
	}
}

func TestLiteLLMFactsOverHTTP(t *testing.T) {
	t.Parallel()
	redirect := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/metrics/x") {
				write(http.StatusOK, body)(w, r)
				return
			}
			http.Redirect(w, r, "/metrics/x", http.StatusTemporaryRedirect)
		}
	}
	for _, f := range []factAnswer{
		{
			report: "#30079", is: "a redirect to an empty body is no page that is up", source: SourceLiteLLM,
			answer: redirect(""), want: StateRedirect, reason: "set metrics_path",
		},
		{
			report: "#30079", is: "a redirect to the page is followed and told", source: SourceLiteLLM,
			answer: redirect(served), want: StateUp, warning: "reached by a redirect",
		},
		{
			report: "#27926", is: "a missing key is told from a server that is down", source: SourceLiteLLM,
			answer: write(http.StatusUnauthorized, `"Malformed API Key"`), want: StateUnauthorised, reason: "LiteLLM's /metrics needs a key by default",
		},
		{
			report: "#32317", is: "404: metrics are not enabled, which is no outage", source: SourceLiteLLM,
			answer: write(http.StatusNotFound, "{}"), want: StateNotFound, reason: "metrics are not enabled",
		},
		{
			report: "4", is: "a 503 by admission control is evidence of saturation", source: SourceLiteLLM,
			answer: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "1")
				write(http.StatusServiceUnavailable, `{"error":{"message":"queue full","type":"overloaded_error"}}`)(w, r)
			},
			want: StateOverloaded, reason: `overloaded (HTTP 503, retry-after "1"): its admission control refuses the scrape too`,
		},
		{
			report: "4", is: "another 503 is not said to be admission control", source: SourceLiteLLM,
			answer: write(http.StatusServiceUnavailable, "no healthy upstream"), want: StateOverloaded, reason: "unless it is a proxy with nothing behind it",
		},
		{
			report: "#12159", is: "a page that outgrows its limit is refused whole", source: SourceLiteLLM,
			answer: func(w http.ResponseWriter, _ *http.Request) {
				line := []byte(strings.Repeat("litellm_spend_metric_total{end_user=\"x\"} 1.0\n", 20_000))
				for range 80 {
					if _, err := w.Write(line); err != nil {
						return
					}
				}
			},
			want: StateTooLarge, reason: "body_size_limit",
		},
		{
			report: "#13986", is: "a family that was left out by name is missed", source: SourceLiteLLM,
			answer: write(http.StatusOK, "litellm_in_flight_requests 1\n"), want: StateUp, warning: "the page has no " + LiteLLMRequests,
		},
	} {
		t.Run("report "+f.report+": "+f.is, f.test)
	}
}

// Two real workers without a multiprocess directory, three requests before each
// page, 72 in all: the rounds say that none of it can be rated.
func TestLiteLLMFactTwoWorkers(t *testing.T) {
	t.Parallel()
	r := newRounds(*testTarget(SourceLiteLLM), DefaultLimits())
	var now clock
	since := -1
	for i, page := range recordedPages(t, "testdata/litellm-1.80.0-two-workers.tar.zst") {
		round, _ := r.page(strings.NewReader(page), "", now.next(), explainFile)
		if round.Sampled != (since >= 0) {
			if since >= 0 {
				t.Errorf("page %d: no longer sampled", i)
			}
			since = i
		}
	}
	if since < 2 || since > 4 {
		t.Errorf("sampled since page %d", since)
	}
}

// "Seen 2, 3, 4": what a real proxy counted through outages, and what its
// clients saw: 1514 answers and 40 failures.
func TestLiteLLMFactRealCounts(t *testing.T) {
	t.Parallel()
	rec, err := OpenRecording("testdata/recording.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close() })
	counts := map[string]float64{}
	err = rec.Replay(t.Context(), func(r *Round) error {
		if r.Target.Source != SourceLiteLLM || r.State != StateUp {
			return nil
		}
		clear(counts)
		for _, s := range r.Samples {
			if name := s.Series.Labels.Get("__name__"); name != LiteLLMRequests || s.Series.Labels.Get("status_code") == "200" {
				counts[name] += s.Value
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		LiteLLMRequests:      1514, // the clients' count of answers
		LiteLLMFailed:        40,   // theirs of failures
		LiteLLMDeployFailure: 104,  // attempts, retries and tries of what was put aside
		LiteLLMCooledDown:    40,   // of one outage of one deployment
	} {
		if counts[name] != want {
			t.Errorf("%s is %g, want %g", name, counts[name], want)
		}
	}
}
