package collector

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLiteLLMLabels(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, page string
		want       map[string]float64
	}{
		{
			name: "users, keys, teams and addresses are summed away",
			page: `litellm_proxy_total_requests_metric_total{api_key_alias="ci",client_ip="10.0.0.1",end_user="ann@example.com",hashed_api_key="88dc",model_id="d1",requested_model="coder",status_code="200",team="t1",user_agent="x"} 5.0
litellm_proxy_total_requests_metric_total{api_key_alias="dev",client_ip="10.0.0.2",end_user="bob@example.com",hashed_api_key="3f1b",model_id="d1",requested_model="coder",status_code="200",team="t2",user_agent="y"} 7.0
litellm_proxy_total_requests_metric_total{api_key_alias="dev",client_ip="10.0.0.2",end_user="bob@example.com",hashed_api_key="3f1b",model_id="d1",requested_model="coder",status_code="503",team="t2",user_agent="y"} 2.0
`,
			want: map[string]float64{
				`litellm_proxy_total_requests_metric_total{model_id="d1",requested_model="coder",status_code="200"}`: 12,
				`litellm_proxy_total_requests_metric_total{model_id="d1",requested_model="coder",status_code="503"}`: 2,
			},
		},
		{
			name: "None, empty and absent are one value",
			page: `litellm_proxy_failed_requests_metric_total{exception_status="429",model_id="None",requested_model="coder"} 1.0
litellm_proxy_failed_requests_metric_total{exception_status="429",model_id="",requested_model="coder"} 2.0
litellm_proxy_failed_requests_metric_total{exception_status="429",requested_model="coder"} 4.0
`,
			want: map[string]float64{`litellm_proxy_failed_requests_metric_total{exception_status="429",requested_model="coder"}`: 7},
		},
		{
			name: "label values escaped twice",
			page: `litellm_input_tokens_metric_total{end_user="a\\\"b\\\\} 5 # {",model_id="d1",requested_model="say \\\"x\\\""} 3.0
`,
			want: map[string]float64{`litellm_input_tokens_metric_total{model_id="d1",requested_model="say \\\"x\\\""}`: 3},
		},
		{
			name: "cached tokens have an older name, which is not added",
			page: `litellm_provider_cache_read_input_tokens_metric_total{model_id="d1",requested_model="coder"} 64.0
litellm_input_cached_tokens_metric_total{model_id="d1",requested_model="coder"} 60.0
litellm_cached_tokens_metric_total{model_id="d1"} 1000.0
`,
			want: map[string]float64{`litellm_input_cached_tokens_metric_total{model_id="d1",requested_model="coder"}`: 60},
		},
		{
			name: "the older name alone",
			page: `litellm_provider_cache_read_input_tokens_metric_total{model_id="d1",requested_model="coder"} 64.0
`,
			want: map[string]float64{`litellm_input_cached_tokens_metric_total{model_id="d1",requested_model="coder"}`: 64},
		},
		{
			name: "worker ids",
			page: `litellm_deployment_state{api_base="http://a/v1",litellm_model_name="m",model_id="d1",pid="19"} 0.0
litellm_deployment_state{api_base="http://a/v1",litellm_model_name="m",model_id="d1",pid="20"} 0.0
litellm_in_flight_requests 7.0
`,
			want: map[string]float64{`litellm_deployment_state{model_id="d1"}`: 0, `litellm_in_flight_requests`: 7},
		},
		{
			name: "what is not wanted: limits without limit, budgets, what is not known",
			page: `litellm_in_flight_requests 1.0
litellm_remaining_api_key_requests_for_model{model="m"} 9.223372036854776e+18
litellm_remaining_team_budget_metric{team="t"} +Inf
litellm_spend_capture_rate{api_provider="hosted_vllm"} NaN
litellm_project_model_rate_limit_x{project="p"} 1.0
litellm_deployment_latency_per_output_token_sum{model_id="d1"} 1.0
`,
			want: map[string]float64{`litellm_in_flight_requests`: 1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newTestReader("")
			for range 2 {
				if diff := cmp.Diff(tt.want, r.page(t, tt.page)); diff != "" {
					t.Errorf("samples (-want +got):\n%s", diff)
				}
				if r.info.BadLines+r.info.NotNumbers > 0 {
					t.Errorf("info %+v", r.info)
				}
			}
		})
	}
}

// Labels that may name a person, a key or an address never leave the reader.
func TestLiteLLMKeepsNothingPersonal(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"litellm-1.102.0.prom.gz", "litellm-1.102.0-multiprocess.prom.gz", "litellm-1.106.12.prom.gz"} {
		got, _, err := newPageReader(testTarget(""), DefaultLimits()).read(strings.NewReader(string(testPage(t, name))), "", new(clock).next())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range got.samples {
			for _, label := range []string{
				"api_base", "api_key_alias", "api_provider", "client_ip", "end_user", "hashed_api_key", "org_alias",
				"org_id", "pid", "route", "team", "team_alias", "user", "user_agent", "user_email",
			} {
				if s.Series.Labels.Has(label) {
					t.Errorf("%s: %s has %s", name, short(s.Series), label)
				}
			}
		}
	}
}

// What a real proxy showed of a deployment through an outage: cooled down it
// has another series than while it answers, and neither is ever taken back.
func TestLiteLLMDeploymentState(t *testing.T) {
	t.Parallel()
	const (
		call   = `litellm_deployment_state{api_base="http://b/v1/chat/completions",litellm_model_name="tiny-chat",model_id="b"} `
		config = `litellm_deployment_state{api_base="http://b/v1",litellm_model_name="agent",model_id="b"} `
		well   = `litellm_deployment_success_responses_total{model_id="b",requested_model="agent"} `
	)
	type page struct {
		text string
		want float64
	}
	tests := []struct {
		name  string
		pages []page
	}{
		{"outage and recovery", []page{
			{call + "0\n" + well + "10\n", 0},
			{call + "1\n" + well + "10\n", 1},
			{call + "1\n" + config + "2\n" + well + "10\n", 2},
			{call + "1\n" + config + "2\n" + well + "10\n", 2},
			{call + "0\n" + config + "2\n" + well + "11\n", 0},
			{call + "0\n" + config + "2\n" + well + "12\n", 0},
			{call + "1\n" + config + "2\n" + well + "12\n", 1},
		}},
		{"answers without a change of the series that says so", []page{
			{call + "0\n" + well + "10\n", 0},
			{call + "0\n" + config + "2\n" + well + "10\n", 2},
			{call + "0\n" + config + "2\n" + well + "11\n", 0},
			{call + "0\n" + config + "2\n" + well + "11\n", 0},
		}},
		{"an old outage, seen from the start", []page{
			{config + "2\n" + call + "0\n" + well + "10\n", 2},
			{config + "2\n" + call + "0\n" + well + "10\n", 2},
			{config + "2\n" + call + "0\n" + well + "12\n", 0},
		}},
		{"answers and cooled down between two pages", []page{
			{call + "0\n" + well + "10\n", 0},
			{call + "0\n" + config + "2\n" + well + "15\n", 2},
		}},
		{"cooled down again", []page{
			{call + "0\n" + config + "2\n" + well + "10\n", 2},
			{call + "0\n" + config + "2\n" + well + "11\n", 0},
			{call + "1\n" + config + "2\n" + well + "11\n", 1},
		}},
		{"restart", []page{
			{"process_start_time_seconds 5\n" + call + "0\n" + config + "2\n" + well + "10\n", 2},
			{"process_start_time_seconds 7\n" + call + "0\n" + well + "1\n", 0},
			{"process_start_time_seconds 7\n" + call + "0\n" + well + "1\n", 0},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newTestReader(SourceLiteLLM)
			for i, page := range tt.pages {
				if got := r.page(t, page.text)[`litellm_deployment_state{model_id="b"}`]; got != page.want {
					t.Errorf("page %d: state %v, want %v", i, got, page.want)
				}
			}
		})
	}
}
