package fleet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func allPages(t *testing.T, f *Fleet) string {
	t.Helper()
	var all bytes.Buffer
	for i := range f.engines {
		if err := f.EnginePage(i, &all); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.GatewayPage(&all); err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// The same seed gives the same pages, to the byte, in whatever steps the time
// goes and whoever looks meanwhile. Another seed gives others.
func TestRunsRepeat(t *testing.T) {
	t.Parallel()
	config := smallConfig()
	config.Seed = 5
	one, other := mustNew(t, config), mustNew(t, config)
	one.Step(time.Minute)
	for now := time.Duration(0); now <= time.Minute; now += 700 * time.Millisecond {
		other.Step(now)
		allPages(t, other)
	}
	other.Step(time.Minute)
	if allPages(t, one) != allPages(t, other) {
		t.Error("two runs of one seed differ")
	}
	config.Seed = 6
	third := mustNew(t, config)
	third.Step(time.Minute)
	if allPages(t, one) == allPages(t, third) {
		t.Error("two seeds give the same run")
	}
}

// What was and will be does not move: an earlier time changes nothing.
func TestStepBackwards(t *testing.T) {
	t.Parallel()
	f := mustNew(t, smallConfig())
	f.Step(time.Minute)
	before := allPages(t, f)
	f.Step(30 * time.Second)
	if allPages(t, f) != before || f.Truth().Now != time.Minute {
		t.Error("a step into the past changed something")
	}
}

func TestRestartOfAnEngine(t *testing.T) {
	t.Parallel()
	f := mustNew(t, Config{Seed: 7, Scenario: "restart", WarmUp: 5 * time.Minute})
	f.Step(onset - time.Second)
	before := enginePage(t, f, 1)
	f.Step(onset + 10*time.Second)
	if err := f.EnginePage(1, io.Discard); !errors.Is(err, ErrDown) {
		t.Errorf("page of the engine that is down: %v", err)
	}
	if !f.Truth().Engines[1].Down {
		t.Error("the truth does not know that engine 1 is down")
	}
	f.Step(onset + time.Minute)
	after := enginePage(t, f, 1)
	for _, name := range []string{"vllm:prompt_tokens_total", "vllm:time_to_first_token_seconds_count", "http_requests_total"} {
		if was, is := before.value(t, name), after.value(t, name); is <= 0 || is >= was {
			t.Errorf("%s went from %v to %v, want a fresh count", name, was, is)
		}
	}
	up := onset + 45*time.Second
	if got, want := after.value(t, "process_start_time_seconds"), unixSeconds(f.Config().Start.Add(up)); got != want {
		t.Errorf("process_start_time_seconds is %v, want %v", got, want)
	}
	gateway := gatewayPage(t, f)
	for _, name := range []string{
		"litellm_deployment_failure_responses_total", "litellm_deployment_cooled_down_total",
	} {
		if got := gateway.value(t, name, "model_id", "vllm-1"); got == 0 {
			t.Errorf("%s of the engine that was down is 0", name)
		}
	}
	if got := gateway.value(t, "litellm_deployment_state", "model_id", "vllm-1", "litellm_model_name", "agents"); got != 2 {
		t.Errorf("deployment_state under the configuration's labels is %v, want 2 for good", got)
	}
	if got := gateway.value(t, "litellm_deployment_state", "model_id", "vllm-1", "litellm_model_name", "qwen3-coder-30b"); got != 0 {
		t.Errorf("deployment_state under the calls' labels is %v, want 0 again", got)
	}
}

// hitRatio is that of all engines, of the prompts between two times.
func hitRatio(f *Fleet, from, to time.Duration) float64 {
	f.Step(from)
	before := f.Truth()
	f.Step(to)
	after := f.Truth()
	prompt, cached := uint64(0), uint64(0)
	for i := range after.Engines {
		prompt += after.Engines[i].PromptTokens - before.Engines[i].PromptTokens
		cached += after.Engines[i].CachedTokens - before.Engines[i].CachedTokens
	}
	return float64(cached) / float64(prompt)
}

// Every scenario does what its description says to the hit ratio of the fleet,
// before its onset, in the half minute from ten seconds after it, and a minute after its end.
func TestScenarios(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ low, high, after float64 }{
		"healthy":               {0.88, 1, 0.88},
		"demo":                  {0, 0.5, 0.88},
		"affinity_lost":         {0, 0.5, 0},
		"affinity_partial":      {0.3, 0.88, 0},
		"affinity_forgotten":    {0.4, 0.92, 0.88},
		"restart":               {0.5, 0.92, 0.85},
		"gateway_restart":       {0.3, 0.92, 0.88},
		"prefix_changed":        {0, 0.05, 0.85},
		"replica_without_cache": {0.3, 0.9, 0},
	}
	if len(tests) != len(demoScenarios()) {
		t.Fatalf("%d scenarios are tested, there are %d", len(tests), len(demoScenarios()))
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := mustNew(t, Config{Seed: 8, Scenario: name, WarmUp: 5 * time.Minute})
			if got := hitRatio(f, 0, onset); got < 0.88 {
				t.Errorf("hit ratio %.3f before the onset", got)
			}
			during := hitRatio(f, onset+10*time.Second, onset+40*time.Second)
			if during < want.low || during > want.high {
				t.Errorf("hit ratio %.3f during it, want %.2f to %.2f", during, want.low, want.high)
			}
			end := max(f.Scenario().End, onset+40*time.Second)
			if after := hitRatio(f, end+time.Minute, end+2*time.Minute); after < want.after {
				t.Errorf("hit ratio %.3f after it, want at least %.2f", after, want.after)
			}
		})
	}
}

// The demo's incident is one that a person sees: requests wait, KV usage rises,
// and both are over half a minute after its end.
func TestDemoIsVisible(t *testing.T) {
	t.Parallel()
	f := mustNew(t, DemoConfig(9, time.Time{}))
	watch := func(from, to time.Duration) (waiting, usage float64) {
		n := 0.0
		for now := from; now < to; now += time.Second {
			f.Step(now)
			for _, e := range f.Truth().Engines {
				waiting += float64(e.Waiting)
				usage += e.KVUsage / 4
			}
			n++
		}
		return waiting / n, usage / n
	}
	waitingBefore, usageBefore := watch(onset-time.Minute, onset)
	waitingDuring, usageDuring := watch(onset+15*time.Second, onset+75*time.Second)
	waitingAfter, usageAfter := watch(onset+105*time.Second, onset+165*time.Second)
	t.Logf("waiting %.1f %.1f %.1f, KV usage %.2f %.2f %.2f", waitingBefore, waitingDuring, waitingAfter, usageBefore, usageDuring, usageAfter)
	if waitingBefore > 2 || waitingAfter > 2 || waitingDuring < 4 {
		t.Errorf("requests waiting: %.1f before, %.1f during, %.1f after", waitingBefore, waitingDuring, waitingAfter)
	}
	if usageBefore < 0.2 || usageBefore > 0.6 || usageDuring < 1.2*usageBefore || usageAfter > 0.6 {
		t.Errorf("KV usage: %.2f before, %.2f during, %.2f after", usageBefore, usageDuring, usageAfter)
	}
}

// preemptionConfig is an engine whose memory is too small for its batch.
func preemptionConfig() Config {
	return Config{
		Engines: 1, Seed: 10, WarmUp: time.Minute,
		Hardware: Hardware{KVBlocks: 1200},
		Workload: Workload{
			Sessions: 24, SystemPrompts: []int{512}, MaxContext: 3000, FirstTokens: Spread{Median: 200},
			TurnTokens: Spread{Median: 50}, CallTokens: Spread{Median: 50}, OutputTokens: Spread{Median: 600, Sigma: 0.1},
		},
	}
}

// timeoutConfig is an engine that is far too slow for its clients.
func timeoutConfig() Config {
	return Config{
		Engines: 1, Seed: 11, WarmUp: -1, GatewayWorkers: 1,
		Hardware: Hardware{PrefillPerSecond: 300},
		Workload: Workload{Sessions: 60},
	}
}

// An engine whose memory is too small for its batch preempts the youngest,
// and still finishes everything.
func TestPreemption(t *testing.T) {
	t.Parallel()
	f := mustNew(t, preemptionConfig())
	f.Step(5 * time.Minute)
	truth := f.Truth()
	if truth.Engines[0].Preemptions == 0 {
		t.Error("nothing was preempted")
	}
	if truth.Calls == 0 || truth.Failed > 0 {
		t.Errorf("%d calls ended well, %d did not", truth.Calls, truth.Failed)
	}
	page := enginePage(t, f, 0)
	if got := page.value(t, "vllm:request_num_preemptions_sum"); got == 0 {
		t.Error("no finished request says that it was preempted")
	}
}

// Clients that have waited too long leave, and the engine forgets them.
func TestClientsGiveUp(t *testing.T) {
	t.Parallel()
	f := mustNew(t, timeoutConfig())
	f.Step(5 * time.Minute)
	truth := f.Truth()
	if truth.Failed == 0 {
		t.Fatal("nobody gave up")
	}
	page := gatewayPage(t, f)
	if got := page.value(t, "litellm_proxy_failed_requests_metric_total", "exception_status", "408"); got != float64(truth.Failed) {
		t.Errorf("the gateway counts %v timeouts, want %d", got, truth.Failed)
	}
	if held := truth.Engines[0].Running + truth.Engines[0].Waiting; held > truth.InFlight+1 {
		t.Errorf("the engine holds %d requests, %d clients are waiting", held, truth.InFlight)
	}
}

func TestRouter(t *testing.T) {
	t.Parallel()
	r := newRouter(rand.New(rand.NewPCG(1, 1)), 3)
	for session := range uint64(9) {
		r.choose(session, -1)
	}
	for engine, n := range r.sessions {
		if n != 3 {
			t.Errorf("engine %d has %d of 9 sessions", engine, n)
		}
	}
	home := r.choose(4, -1)
	for range 20 {
		if got := r.choose(4, -1); got != home {
			t.Fatalf("session 4 moved from engine %d to %d", home, got)
		}
	}
	r.cooling[home] = true
	moved := r.choose(4, -1)
	if moved == home {
		t.Error("session 4 stays on a deployment that cools down")
	}
	r.cooling[home] = false
	if got := r.choose(4, -1); got != moved {
		t.Error("session 4 does not stay where it moved to")
	}
	if got := r.choose(4, moved); got == moved {
		t.Error("session 4 was sent where it must not go")
	}
	r.affinity = 0
	seen := map[int]bool{}
	for range 50 {
		seen[r.choose(4, -1)] = true
	}
	if len(seen) != 3 {
		t.Errorf("without affinity session 4 was on engines %v only", seen)
	}
	r.end(4)
	if r.sessions[0]+r.sessions[1]+r.sessions[2] != 8 {
		t.Errorf("after the end of one of 9 sessions the engines have %v", r.sessions)
	}
}

func TestConfigRefusals(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		config Config
		want   string
	}{
		"scenario":    {Config{Scenario: "flood"}, `unknown scenario "flood": there are healthy, demo`},
		"engines":     {Config{Engines: -1}, "must be positive"},
		"prompt":      {Config{Workload: Workload{SystemPrompts: []int{1000}}}, "multiple of the block size 16"},
		"too long":    {Config{Workload: Workload{MaxContext: 200_000}}, "max_model_len 131072"},
		"little room": {Config{Hardware: Hardware{KVBlocks: 100}}, "100 KV blocks of 16"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := New(test.config); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
	f := mustNew(t, smallConfig())
	if err := f.EnginePage(2, io.Discard); err == nil {
		t.Error("a third engine of two has a page")
	}
	if err := f.Run(t.Context(), 0); err == nil {
		t.Error("time may stand still")
	}
}

// Over HTTP the pages come as both servers send them, and a dead engine answers nothing.
func TestServe(t *testing.T) {
	t.Parallel()
	f := mustNew(t, smallConfig())
	engines, gateway, err := f.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(engines) != 2 {
		t.Fatalf("%d addresses of 2 engines", len(engines))
	}
	stopEngine(1)(f)
	get := func(url string) (*http.Response, string, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			return nil, "", err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		return response, string(body), err
	}
	for url, want := range map[string]string{
		"http://" + engines[0] + "/metrics": "vllm:prompt_tokens_total{",
		"http://" + engines[0] + "/version": `{"version":"0.32.0"}`,
		"http://" + gateway + "/metrics/":   "litellm_in_flight_requests ",
	} {
		response, body, err := get(url)
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %v %v, want a body with %s", url, response, err, want)
		}
	}
	response, body, err := get("http://" + gateway + "/metrics")
	if err != nil || response.StatusCode != http.StatusTemporaryRedirect || response.Header.Get("Location") != "/metrics/" {
		t.Errorf("/metrics of the gateway: %v %q %v, want a redirect to /metrics/", response, body, err)
	}
	if response, _, err := get("http://" + engines[1] + "/metrics"); err == nil {
		t.Errorf("the engine that is down answers %s", response.Status)
	}
}

// Run follows the clock at the speed that it is given.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := mustNew(t, smallConfig())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := f.Run(ctx, 3); err != nil {
			t.Fatal(err)
		}
		if now := f.Truth().Now; now < 29*time.Second || now > 30*time.Second {
			t.Errorf("after 10 s at three times the speed it is %v", now)
		}
	})
}
