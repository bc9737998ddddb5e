package rules

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
)

const realPages = "../collector/testdata/"

var inspectStart = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// inspectPages watches pages that were made 15 s apart.
func inspectPages(t *testing.T, o InspectOptions, pages ...string) TargetReport {
	t.Helper()
	i, err := NewInspection("http://engine:8000", o)
	if err != nil {
		t.Fatal(err)
	}
	reader := collector.NewSavedReader(collector.Target{
		Labels: labels.FromStrings(model.JobLabel, "test", model.InstanceLabel, "engine:8000"),
	})
	for n, page := range pages {
		i.Observe(reader.Page(strings.NewReader(page), inspectStart.Add(time.Duration(n)*15*time.Second)))
	}
	return i.Report()
}

// realPage reads a page of a real server.
func realPage(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join(realPages, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var from io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if from, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	page, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func says(all []string, part string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, part) })
}

func cannotTell(r TargetReport, series string) string {
	for _, c := range r.Cannot {
		if c.Series == series {
			return c.Reason
		}
	}
	return ""
}

func value(t *testing.T, s *Signal) float64 {
	t.Helper()
	if s == nil || s.Value == nil {
		t.Fatalf("a signal has no value: %+v", s)
	}
	return *s.Value
}

func TestInspectRealEngines(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pages    []string
		want     string
		engines  int
		capacity float64
		quirk    string
		cannot   string
	}{
		"0.13, idle, then six calls": {[]string{"vllm-0.13.0-idle.prom.gz", "vllm-0.13.0.prom.gz"}, BottleneckNone, 1, 12800, "before vLLM 0.27 these counters count", "prompt_tokens_cached"},
		"0.24, idle, then six calls": {[]string{"vllm-0.24.0-idle.prom.gz", "vllm-0.24.0.prom.gz"}, BottleneckNone, 1, 12800, "", ""},
		"0.24, one page":             {[]string{"vllm-0.24.0.prom.gz"}, BottleneckUnknown, 1, 12800, "only one page was read", "prefix_cache_hit_ratio"},
		"0.32, one page":             {[]string{"vllm-0.32.0.prom.gz"}, BottleneckUnknown, 1, 25600, "only one page was read", "prefix_cache_hit_ratio"},
		"two engines, one collapsed": {[]string{"vllm-0.28-dp2.prom.gz", "vllm-0.28-dp2-later.prom.gz"}, BottleneckKV, 2, 393216, "2 engines share the page", ""},
		"multiprocess":               {[]string{"vllm-0.28-multiprocess.prom.gz"}, BottleneckUnknown, 2, 393216, "it is the multiprocess mode", "prefix_cache_hit_ratio"},
		"Rust frontend":              {[]string{"vllm-rust-frontend.prom"}, BottleneckUnknown, 2, 0, "before vLLM 0.27", "kv_capacity_tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pages []string
			for _, p := range test.pages {
				pages = append(pages, realPage(t, p))
			}
			r := inspectPages(t, InspectOptions{}, pages...)
			if r.State != collector.StateUp || r.Source != collector.SourceVLLM || r.Bottleneck.Name != test.want || len(r.Engines) != test.engines {
				t.Fatalf("%s %s with %d engines: %+v", r.Source, r.State, len(r.Engines), r.Bottleneck)
			}
			switch got := r.Engines[0].KVCapacityTokens; {
			case test.capacity == 0 && got != nil:
				t.Errorf("capacity %g, which the page does not tell", *got)
			case test.capacity > 0 && (got == nil || *got != test.capacity):
				t.Errorf("capacity %v, expected %g", got, test.capacity)
			}
			if test.quirk != "" && !says(r.Quirks, test.quirk) {
				t.Errorf("quirks %q do not say %q", r.Quirks, test.quirk)
			}
			if test.cannot != "" && cannotTell(r, test.cannot) == "" {
				t.Errorf("%v does not say why %s cannot be told", r.Cannot, test.cannot)
			}
		})
	}
}

// The engine that collapsed is named with its cache first: what was watched
// says 84 %, the lifetime only 48 %.
func TestInspectNamesTheEngine(t *testing.T) {
	t.Parallel()
	r := inspectPages(t, InspectOptions{}, realPage(t, "vllm-0.28-dp2.prom.gz"), realPage(t, "vllm-0.28-dp2-later.prom.gz"))
	if want := "engine 1: prefix cache missed 84%"; !strings.HasPrefix(r.Bottleneck.Evidence[0], want) {
		t.Errorf("the evidence begins with %q, expected %q", r.Bottleneck.Evidence[0], want)
	}
	if !says(r.Quirks, "1.11 tokens were looked up for each") {
		t.Errorf("quirks %q do not say that look-ups were repeated", r.Quirks)
	}
}

func TestInspectSignals(t *testing.T) {
	t.Parallel()
	r := inspectPages(t, InspectOptions{}, realPage(t, "vllm-0.24.0-idle.prom.gz"), realPage(t, "vllm-0.24.0.prom.gz"))
	s := r.Engines[0].Signals
	for name, got := range map[string]*Signal{
		"prefix_cache_queries": s.PrefixCacheQueries, "prompt_tokens": s.PromptTokens,
	} {
		if value(t, got) != 1566 || got.Watched == nil || *got.Watched != 1566 || got.Unit != "tokens" || got.Quality != QualityOK {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if value(t, s.PrefixCacheHits) != 1120 || value(t, s.PromptTokensCached) != 1120 {
		t.Errorf("hits %g, cached %g, expected 1120", *s.PrefixCacheHits.Value, *s.PromptTokensCached.Value)
	}
	if s.PromptTokens.From != collector.VLLMPromptTokens {
		t.Errorf("read from %q", s.PromptTokens.From)
	}
	if v := value(t, s.TTFT); v <= 0 || s.TTFT.P95 == nil || *s.TTFT.P95 <= 0 || s.TTFT.Unit != "seconds" || *s.TTFT.Watched != 6 {
		t.Errorf("TTFT: %+v", s.TTFT)
	}
	if r.Watched.Requests != 6 || r.Watched.Seconds != 15 || r.Watched.Pages != 2 {
		t.Errorf("watched %+v", r.Watched)
	}
}

// One page tells totals, and nothing of what goes on.
func TestInspectOnePage(t *testing.T) {
	t.Parallel()
	r := inspectPages(t, InspectOptions{}, realPage(t, "vllm-0.32.0.prom.gz"))
	s := r.Engines[0].Signals
	if s.PromptTokens == nil || s.PromptTokens.Value == nil || s.PromptTokens.Watched != nil {
		t.Errorf("prompt tokens of one page: %+v", s.PromptTokens)
	}
	if s.TTFT == nil || s.TTFT.Value != nil || s.TTFT.Quality != QualityAbsent || s.TTFT.Reason == "" {
		t.Errorf("TTFT of one page: %+v", s.TTFT)
	}
}

func TestInspectRealGateways(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		page, quirk string
	}{
		"1.102, single process": {"litellm-1.102.0-single.prom.gz", "counts every HTTP request"},
		"1.102, multiprocess":   {"litellm-1.102.0-multiprocess.prom.gz", "it is the multiprocess mode"},
		"1.106, twelve plain":   {"litellm-1.106.12.prom.gz", "the overhead stands for 2.1% of the requests only"},
		"1.102, streamed only":  {"litellm-1.102.0.prom.gz", "the overhead has no samples among"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := realPage(t, test.page)
			r := inspectPages(t, InspectOptions{}, page, page)
			if r.Source != collector.SourceLiteLLM || r.State != collector.StateUp || len(r.Engines) != 0 {
				t.Fatalf("%s %s: %+v", r.Source, r.State, r.Bottleneck)
			}
			if !says(r.Quirks, test.quirk) {
				t.Errorf("quirks %q do not say %q", r.Quirks, test.quirk)
			}
			if cannotTell(r, "gateway_saturation_ratio") == "" {
				t.Error("it does not say that the saturation needs a limit")
			}
			if o := r.Signals.OverheadLatency; test.page == "litellm-1.102.0.prom.gz" && (o != nil || cannotTell(r, "overhead_latency") == "") {
				t.Errorf("an overhead without samples: %+v", o)
			}
		})
	}
}

// A deployment is told by its id, and in the state of the series that moved last.
func TestInspectDeployments(t *testing.T) {
	t.Parallel()
	const page = `# TYPE litellm_deployment_state gauge
litellm_deployment_state{model_id="a",litellm_model_name="x"} %STATE%
litellm_deployment_state{model_id="b",litellm_model_name="x"} 0
# TYPE litellm_deployment_cooled_down_total counter
litellm_deployment_cooled_down_total{model_id="a",exception_status="500"} %COOLED%
# TYPE litellm_in_flight_requests gauge
litellm_in_flight_requests 1
`
	at := func(state, cooled string) string {
		return strings.NewReplacer("%STATE%", state, "%COOLED%", cooled).Replace(page)
	}
	r := inspectPages(t, InspectOptions{}, at("0", "3"), at("2", "5"))
	states, cooled := r.Signals.DeploymentState, r.Signals.DeploymentCooledDown
	if len(states) != 2 || states[0].ModelID != "a" || *states[0].Value != 2 || *states[1].Value != 0 {
		t.Errorf("states: %+v", states)
	}
	if len(cooled) != 1 || *cooled[0].Value != 5 || *cooled[0].Watched != 2 {
		t.Errorf("cooled down: %+v", cooled)
	}
	if !says(r.Bottleneck.Evidence, "deployment a was cooled down 2 times") {
		t.Errorf("evidence %q", r.Bottleneck.Evidence)
	}
}

// madeEngine is a page with what a test needs of an engine.
func madeEngine(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.ReplaceAll(l, "{}", `{engine="0",model_name="m"}`))
		b.WriteByte('\n')
	}
	return b.String()
}

func TestInspectMadePages(t *testing.T) {
	t.Parallel()
	const config = `vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="1000",enable_prefix_caching="False"} 1`
	for name, test := range map[string]struct {
		options InspectOptions
		pages   []string
		want    string
		quirk   string
		cannot  string
	}{
		"older names": {
			pages: []string{madeEngine("vllm:gpu_cache_usage_perc{} 0.5", "vllm:gpu_prefix_cache_queries_total{} 10", "vllm:gpu_prefix_cache_hits_total{} 5", "vllm:prompt_tokens_total{} 10")},
			want:  BottleneckUnknown, quirk: "vllm:kv_cache_usage_perc is read from vllm:gpu_cache_usage_perc (vLLM 0.11 or older)",
		},
		"Ray Serve": {
			pages: []string{madeEngine("ray_vllm_kv_cache_usage_perc{} 0.5", "ray_vllm_prompt_tokens_total{} 10")},
			want:  BottleneckUnknown, quirk: "(Ray Serve)",
		},
		"caching is off, which is no finding": {
			pages: []string{
				madeEngine(config, "vllm:prompt_tokens_total{} 0", "vllm:prompt_tokens_cached_total{} 0", "vllm:time_to_first_token_seconds_count{} 0", `vllm:num_requests_running{} 1`),
				madeEngine(config, "vllm:prompt_tokens_total{} 90000", "vllm:prompt_tokens_cached_total{} 0", "vllm:time_to_first_token_seconds_count{} 30", `vllm:num_requests_running{} 1`),
			},
			want: BottleneckNone, quirk: "prefix caching is switched off", cannot: "prefix_cache_hit_ratio",
		},
		"a hybrid model": {
			pages: []string{madeEngine(`vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="1000",kv_cache_size_tokens="90000"} 1`, "vllm:prompt_tokens_total{} 10")},
			want:  BottleneckUnknown, quirk: "blocks times block size is not the capacity",
		},
		"a usage outside of 0 to 1": {
			pages: []string{madeEngine("vllm:kv_cache_usage_perc{} -0.2", "vllm:prompt_tokens_total{} 10")},
			want:  BottleneckUnknown, quirk: "a KV usage outside of 0 to 1",
		},
		"a restart while watched": {
			pages: []string{madeEngine("vllm:prompt_tokens_total{} 90000"), madeEngine("vllm:prompt_tokens_total{} 100")},
			want:  BottleneckUnknown, quirk: "counters began again",
		},
		"a sleeping engine": {
			pages: []string{madeEngine(`vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="awake"} 0`, `vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="weights_offloaded"} 1`, "vllm:prompt_tokens_total{} 10")},
			want:  BottleneckUnknown, quirk: "the engine sleeps or slept",
		},
		"a clock that is ahead": {
			pages: []string{madeEngine("process_start_time_seconds 2100000000", "vllm:prompt_tokens_total{} 10")},
			want:  BottleneckUnknown, quirk: "the server's clock is ahead",
		},
		"a gateway near the limit that was given": {
			options: InspectOptions{MaxInFlight: 10},
			pages:   []string{"litellm_in_flight_requests 10\n", "litellm_in_flight_requests 11\n"},
			want:    BottleneckGateway,
		},
		"a gateway of which nothing can be read": {
			pages: []string{`litellm_deployment_state{model_id="a"} 0` + "\n", `litellm_deployment_state{model_id="a"} 0` + "\n"},
			want:  BottleneckUnknown, cannot: "in_flight_requests",
		},
		"metrics are switched off": {pages: []string{"# TYPE http_requests_total counter\nhttp_requests_total{handler=\"/v1\"} 3\nprocess_start_time_seconds 1\n"}, want: BottleneckUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := inspectPages(t, test.options, test.pages...)
			if r.Bottleneck.Name != test.want {
				t.Errorf("%+v, expected %s", r.Bottleneck, test.want)
			}
			if test.quirk != "" && !says(r.Quirks, test.quirk) {
				t.Errorf("quirks %q do not say %q", r.Quirks, test.quirk)
			}
			if test.cannot != "" && cannotTell(r, test.cannot) == "" {
				t.Errorf("%v does not say why %s cannot be told", r.Cannot, test.cannot)
			}
		})
	}
}

// What stands before several engines gives the page of one of them at a time:
// their counters differ, and none of it is a stall, an idle engine or traffic.
func TestInspectServersInTurn(t *testing.T) {
	t.Parallel()
	const engine = "vllm:prompt_tokens_total{} %d\nvllm:generation_tokens_total{} %[1]d\nvllm:num_preemptions_total{} %[1]d\n" +
		"vllm:time_to_first_token_seconds_count{} %[1]d\nvllm:num_requests_running{} 3\nvllm:num_requests_waiting{} 0\n"
	for name, start := range map[string]string{
		"told apart by their start": "process_start_time_seconds %d\n",
		"told apart by nothing":     "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pages []string
			for _, server := range []int{1, 2, 1, 2, 1} {
				page := fmt.Sprintf(engine, server*1000+len(pages))
				if start != "" {
					page += fmt.Sprintf(start, 1795985000+server)
				}
				pages = append(pages, madeEngine(page))
			}
			r := inspectPages(t, InspectOptions{}, pages...)
			if b := r.Bottleneck; b.Name != BottleneckUnknown || b.Confidence != "low" || !strings.Contains(b.Summary, "one of several servers'") {
				t.Errorf("%+v", b)
			}
			s := r.Engines[0].Signals.PromptTokens
			if value(t, s) != 1004 || s.Quality != QualitySampled || s.Watched != nil || r.Watched.Requests != 0 {
				t.Errorf("prompt tokens %+v of %.0f requests", s, r.Watched.Requests)
			}
			if cannotTell(r, "prefix_cache_hit_ratio") != sampledReason {
				t.Errorf("cannot %v", r.Cannot)
			}
			if !says(r.Quirks, "several workers answer") || says(r.Quirks, "began again") {
				t.Errorf("quirks %q", r.Quirks)
			}
		})
	}
}

// Whatever numbers a page holds, the report can be written down as JSON, and its
// lists are lists.
func TestInspectReportIsJSON(t *testing.T) {
	t.Parallel()
	const huge = "1.7e308"
	for name, pages := range map[string][]string{
		"a gateway that tells nothing": {"# TYPE litellm_in_flight_requests gauge\n"},
		"no engine":                    {"# TYPE vllm:num_requests_running gauge\n"},
		"numbers that overflow": {
			madeEngine("vllm:prompt_tokens_total{} 0", "vllm:time_to_first_token_seconds_count{} 0", "vllm:num_requests_running{} 1"),
			madeEngine(`vllm:prompt_tokens_total{engine="0",model_name="a"} `+huge, `vllm:prompt_tokens_total{engine="0",model_name="b"} `+huge,
				`vllm:time_to_first_token_seconds_count{engine="0",model_name="a"} `+huge, `vllm:time_to_first_token_seconds_count{engine="0",model_name="b"} `+huge,
				`vllm:num_requests_running{engine="0",model_name="a"} `+huge, `vllm:num_requests_running{engine="0",model_name="b"} `+huge,
				`vllm:cache_config_info{engine="0",block_size="`+huge+`",num_gpu_blocks="10"} 1`),
		},
	} {
		text, err := json.Marshal(inspectPages(t, InspectOptions{}, pages...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(string(text), `:null,"quirks"`) || strings.Contains(string(text), `"evidence":null`) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// Ray Serve renames all families, which is one thing to know.
func TestInspectRayIsOneQuirk(t *testing.T) {
	t.Parallel()
	r := inspectPages(t, InspectOptions{}, madeEngine("ray_vllm_kv_cache_usage_perc{} 0.5", "ray_vllm_prompt_tokens_total{} 10", "ray_vllm_gpu_prefix_cache_hits_total{} 10"))
	ray := slices.DeleteFunc(r.Quirks, func(q string) bool { return !strings.Contains(q, "(Ray Serve)") })
	if len(ray) != 2 || !strings.HasPrefix(ray[0], "vllm:kv_cache_usage_perc is read from ray_vllm_kv_cache_usage_perc (Ray Serve), and so are") {
		t.Errorf("%q", ray)
	}
}

// A gauge that says what cannot be is not told as a value.
func TestInspectNegativeGauge(t *testing.T) {
	t.Parallel()
	r := inspectPages(t, InspectOptions{}, madeEngine("vllm:num_requests_running{} -1", "vllm:prompt_tokens_total{} 10"))
	if s := r.Engines[0].Signals.RequestsRunning; s == nil || s.Value != nil || s.Quality != QualityAbsent || s.Reason == "" {
		t.Errorf("%+v", s)
	}
}

// Two models that say that they are the same engine, as on a page of Ray, do not
// fill one cache twice.
func TestInspectTwoModels(t *testing.T) {
	t.Parallel()
	r := inspectPages(t, InspectOptions{}, madeEngine("vllm:prompt_tokens_total{} 10",
		`vllm:kv_cache_usage_perc{engine="0",model_name="a"} 0.3`, `vllm:kv_cache_usage_perc{engine="0",model_name="b"} 0.8`,
		`vllm:num_requests_running{engine="0",model_name="a"} 3`, `vllm:num_requests_running{engine="0",model_name="b"} 2`))
	s := r.Engines[0].Signals
	if usage, running := value(t, s.KVCacheUsage), value(t, s.RequestsRunning); usage != 0.8 || running != 5 {
		t.Errorf("usage %v, running %v, expected 0.8 and 5", usage, running)
	}
}

// A counter's value is that of the last page, whatever was counted before a restart.
func TestInspectValueAfterRestart(t *testing.T) {
	t.Parallel()
	r := inspectPages(t, InspectOptions{}, madeEngine("vllm:prompt_tokens_total{} 90000"), madeEngine("vllm:prompt_tokens_total{} 100"))
	s := r.Engines[0].Signals.PromptTokens
	if value(t, s) != 100 || s.Watched == nil || *s.Watched != 100 || s.Quality != QualityReset {
		t.Errorf("%+v", s)
	}
}

// The version decides what is said of the counters of before 0.27.
func TestInspectVersion(t *testing.T) {
	t.Parallel()
	for version, part := range map[string]string{
		"0.26.0": "vLLM 0.26.0 counts a waiting request again", "0.9.2": "vLLM 0.9.2 counts", "0.27.1": "", "1.0.0": "",
		"": "before vLLM 0.27", "dev": "before vLLM 0.27",
	} {
		i, err := NewInspection("http://engine:8000", InspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		reader := collector.NewSavedReader(collector.Target{Labels: labels.FromStrings(model.JobLabel, "test", model.InstanceLabel, "engine:8000")})
		i.Observe(reader.Page(strings.NewReader(realPage(t, "vllm-0.13.0.prom.gz")), inspectStart))
		i.SetVersion(version)
		r := i.Report()
		if part == "" && says(r.Quirks, "the hit ratio is read from") || part != "" && !says(r.Quirks, part) {
			t.Errorf("version %q: %q", version, r.Quirks)
		}
	}
}

// A target that goes while it is watched is told by its state, whatever was
// seen before.
func TestInspectOutage(t *testing.T) {
	t.Parallel()
	r := inspectPages(t, InspectOptions{}, realPage(t, "vllm-0.24.0-idle.prom.gz"), realPage(t, "vllm-0.24.0.prom.gz"), "<html>")
	b := r.Bottleneck
	if r.State != collector.StateNotMetrics || b.Name != BottleneckUnknown || !strings.HasPrefix(b.Summary, "not_metrics: ") || !says(b.Evidence, "the last page was read at 2026-11-29T12:00:15Z") {
		t.Errorf("%s: %+v", r.State, b)
	}
	r.Advise("do this")
	if r.Reason != "do this" || r.Bottleneck.Summary != "not_metrics: do this" {
		t.Errorf("advised: %q, %q", r.Reason, r.Bottleneck.Summary)
	}
}

// Nothing at all is no crash and no verdict.
func TestInspectNothing(t *testing.T) {
	t.Parallel()
	r := inspectPages(t, InspectOptions{})
	if r.State != collector.StateUnknown || r.Bottleneck.Name != BottleneckUnknown || r.Reason == "" {
		t.Errorf("%+v", r)
	}
}

// What was watched of a histogram is believed or not as a window of it is.
func TestWatchedBucketsArePossible(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sum, count float64
		bounds     []float64
		want       bool
	}{
		"a mean within the bounds":    {12, 4, []float64{1, 5, math.Inf(1)}, true},
		"a mean beyond all of them":   {21, 4, []float64{1, 5, math.Inf(1)}, false},
		"a sum that fell":             {-1, 4, []float64{1, 5, math.Inf(1)}, false},
		"nothing observed":            {0, 0, []float64{1, 5, math.Inf(1)}, true},
		"no finite bound to judge by": {1e9, 4, []float64{math.Inf(1)}, true},
	} {
		h := &histogram{sum: c.sum, count: c.count}
		for _, le := range c.bounds {
			h.bound(le)
		}
		if got := possible(h); got != c.want {
			t.Errorf("%s: possible is %v, want %v", name, got, c.want)
		}
	}
}
