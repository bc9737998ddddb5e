package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/collector"
	"kvwatch/collector/history"
	"kvwatch/dashboards/web"
	"kvwatch/rules"
)

// handClock is a time that passes when somebody waits for it.
type handClock struct {
	mu sync.Mutex
	at time.Time
	// passed is told of every step.
	passed func(now time.Time)
}

func (c *handClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *handClock) wait(_ context.Context, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	if c.passed != nil {
		c.passed(c.at)
	}
}

func (c *handClock) clock() inspectClock { return inspectClock{now: c.now, wait: c.wait} }

// watchLive inspects a server by a clock of its own.
func watchLive(t *testing.T, o inspectOptions, address string, clock inspectClock) rules.TargetReport {
	t.Helper()
	l, err := o.live(address, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	l.clock = clock
	found, err := l.inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found[0].report
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// What inspect says of the recording when it is served as it was, for 45 s from
// the middle of each phase on and from three quarters of it. A phase that is not
// named may be anything.
func TestInspectServedRecording(t *testing.T) {
	t.Parallel()
	rec, err := collector.OpenRecording(testdata + "recording.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close() })
	cold := []string{rules.BottleneckPrefixCache, rules.BottleneckKV}
	pressed := []string{rules.BottleneckKV, rules.BottleneckSlots}
	quiet := []string{rules.BottleneckNone}
	broken := []string{rules.BottleneckPrefixCache}
	dead := []string{rules.BottleneckUnknown}
	for part, phases := range map[float64]map[string][2][]string{ // of engine a and b
		0.5: { // the load of kv_pressure has not reached engine b, which comes back late in broken_prefix
			"2 steady": {quiet, quiet}, "4 recover": {quiet, quiet}, "5 working_set": {cold, cold}, "6 calm": {quiet, quiet},
			"7 kv_pressure": {pressed, nil}, "8 steady_restart": {quiet, dead}, "9 broken_prefix": {broken, dead}, "10 recover2": {quiet, quiet},
		},
		0.75: {
			"1 idle": {quiet, quiet}, "2 steady": {quiet, quiet}, "4 recover": {quiet, quiet}, "5 working_set": {cold, cold}, "6 calm": {quiet, quiet},
			"7 kv_pressure": {pressed, pressed}, "8 steady_restart": {quiet, dead}, "9 broken_prefix": {broken, broken}, "10 recover2": {quiet, quiet},
		},
	} {
		moments := phaseMoments(t, part)
		for phase, engines := range phases {
			for i, engine := range []string{"engine-a", "engine-b"} {
				t.Run(fmt.Sprintf("%s/%g/%s", phase, part, engine), func(t *testing.T) {
					t.Parallel()
					clock := &handClock{at: moments[phase]}
					r := watchLive(t, inspectOptions{watch: 45 * time.Second}, serve(t, rec.Handler(engine, clock.now)), clock.clock())
					t.Logf("%s (%s): %s; %q", r.Bottleneck.Name, r.Bottleneck.Confidence, r.Bottleneck.Summary, r.Bottleneck.Evidence)
					want := engines[i]
					if want != nil && !slices.Contains(want, r.Bottleneck.Name) {
						t.Errorf("%s: %s, expected one of %q", r.Bottleneck.Name, r.Bottleneck.Summary, want)
					}
					if down := r.State == collector.StateDown && strings.HasPrefix(r.Bottleneck.Summary, "down: "); down != (want != nil && want[0] == rules.BottleneckUnknown) {
						t.Errorf("it is %s: %s", r.State, r.Bottleneck.Summary)
					}
					if phase == "5 working_set" && !strings.HasPrefix(r.Bottleneck.Evidence[0], "prefix cache missed") {
						t.Errorf("the cache is not first in the evidence: %q", r.Bottleneck.Evidence)
					}
				})
			}
		}
	}
}

// phaseMoments is the moment that lies that part into each phase.
func phaseMoments(t *testing.T, part float64) map[string]time.Time {
	t.Helper()
	type phase struct {
		T     float64 `json:"t"`
		Phase string  `json:"phase"`
	}
	phases := readLines[phase](t, "phases.jsonl")
	all := map[string]time.Time{}
	for i := 0; i+1 < len(phases); i++ {
		at := phases[i].T + part*(phases[i+1].T-phases[i].T)
		all[fmt.Sprintf("%d %s", i+1, phases[i].Phase)] = time.UnixMilli(int64(at * 1000))
	}
	return all
}

// A moment inside a recording reads as the live server did then.
func TestInspectRecording(t *testing.T) {
	t.Parallel()
	moments := phaseMoments(t, 0.75)
	for phase, want := range map[string][]string{
		"5 working_set":    {"kv", "kv", "unknown"}, // the gateway does not answer in time
		"8 steady_restart": {"none", "unknown", "none"},
	} {
		var out bytes.Buffer
		args := []string{"inspect", "--output=json", "--for=45s", "--at=" + moments[phase].Format(time.RFC3339Nano), testdata + "recording.tar.zst"}
		if err := run(t.Context(), args, &out); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range decodeInspect(t, out.Bytes()).Targets {
			got = append(got, r.Bottleneck.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, expected %q", phase, got, want)
		}
	}
}

// A slow server's second page ends with the watch, and is not cut off by it.
func TestPauseBefore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ took, left, want time.Duration }{
		"a fast page":                      {20 * time.Millisecond, 7 * time.Second, time.Second},
		"the last of fast pages":           {20 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond},
		"a page takes a quarter of a time": {time.Second, 50 * time.Second, 4 * time.Second},
		"the second page must end in time": {3 * time.Second, 5 * time.Second, 2750 * time.Millisecond},
		"there is no time to wait":         {4500 * time.Millisecond, 3500 * time.Millisecond, 0},
	} {
		if got := pauseBefore(test.took, test.left); got != test.want {
			t.Errorf("%s: %s, expected %s", name, got, test.want)
		}
	}
}

func TestWatchedPages(t *testing.T) {
	t.Parallel()
	start := time.UnixMilli(1796000000000)
	at := func(seconds ...int) []time.Time {
		var all []time.Time
		for _, s := range seconds {
			all = append(all, start.Add(time.Duration(s)*time.Second))
		}
		return all
	}
	slow := []int{0, 15, 30, 45, 200}
	for name, test := range map[string]struct {
		pages    []int
		failed   int // the second of the page that failed
		from, to int
		want     []int
	}{
		"those of the watch, and the one before": {pages: []int{0, 5, 10, 15, 20, 25}, from: 7, to: 20, want: []int{5, 10, 15, 20}},
		"it begins with a page":                  {pages: []int{0, 5, 10, 15, 20, 25}, from: 10, to: 20, want: []int{10, 15, 20}},
		"a failure is no beginning":              {pages: []int{0, 5, 10, 15, 20, 25}, failed: 5, from: 7, to: 20, want: []int{10, 15, 20}},
		"pages further apart than it is long":    {pages: slow, from: 30, to: 38, want: []int{30, 45}},
		"none in it":                             {pages: slow, from: 20, to: 28, want: []int{15, 30}},
		"one in it":                              {pages: slow, from: 28, to: 36, want: []int{15, 30}},
		"before the first":                       {pages: slow, from: -2, to: 6, want: []int{0, 15}},
		"over before the first":                  {pages: slow, from: -20, to: -12},
		"within a gap":                           {pages: slow, from: 100, to: 108},
		"the last":                               {pages: slow[:4], from: 37, to: 45, want: []int{30, 45}},
		"it begins with the last":                {pages: slow[:4], from: 45, to: 53, want: []int{30, 45}},
		"ended before":                           {pages: slow[:4], from: 300, to: 308, want: []int{30, 45}},
		"one page":                               {pages: slow[:1], from: 0, to: 8, want: []int{0}},
		"none":                                   {from: 0, to: 8},
	} {
		pages := at(test.pages...)
		failed := func(p time.Time) bool { return test.failed > 0 && p.Equal(at(test.failed)[0]) }
		got := watchedPages(pages, func(p time.Time) time.Time { return p }, failed, at(test.from)[0], at(test.to)[0])
		if want := at(test.want...); !slices.Equal(got, want) {
			t.Errorf("%s: %v, expected %v", name, got, want)
		}
	}
}

func decodeInspect(t *testing.T, text []byte) inspectOutput {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var out inspectOutput
	if err := decoder.Decode(&out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}

// The simulated fleet, well and in an incident, over HTTP.
func TestInspectFleet(t *testing.T) {
	t.Parallel()
	for scenario, want := range map[string][]string{
		"healthy":        {rules.BottleneckNone},
		"prefix_changed": {rules.BottleneckPrefixCache, rules.BottleneckKV},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			sim, err := fleet.New(fleet.Config{Scenario: scenario, Seed: 1, Start: start})
			if err != nil {
				t.Fatal(err)
			}
			const into = 200 * time.Second // the incident began at 150 s
			sim.Step(into)
			clock := &handClock{at: start.Add(into), passed: func(now time.Time) { sim.Step(now.Sub(start)) }}
			r := watchLive(t, inspectOptions{watch: 20 * time.Second}, serve(t, sim.Handler(0)), clock.clock())
			if !slices.Contains(want, r.Bottleneck.Name) || r.Version != "0.32.0" {
				t.Errorf("vLLM %q: %+v, expected one of %q", r.Version, r.Bottleneck, want)
			}
			if scenario != "healthy" && !strings.HasPrefix(r.Bottleneck.Evidence[0], "prefix cache missed") {
				t.Errorf("the cache is not first in the evidence: %q", r.Bottleneck.Evidence)
			}
			gateway := watchLive(t, inspectOptions{watch: 20 * time.Second}, serve(t, sim.GatewayHandler()), clock.clock())
			if gateway.Source != collector.SourceLiteLLM || gateway.Bottleneck.Name != rules.BottleneckNone {
				t.Errorf("gateway: %s %+v", gateway.Source, gateway.Bottleneck)
			}
		})
	}
}

// A server that holds the past is read as it was at a moment: here the
// recording, in kvwatch's own history behind Prometheus's engine.
func TestInspectPrometheus(t *testing.T) {
	t.Parallel()
	moments := phaseMoments(t, 0.75)
	store := recordedHistory(t, moments["2 steady"], moments["8 steady_restart"])
	url := serve(t, web.PromAPI(web.PromAPIOptions{
		Queryable: store.Queryable(), Now: func() time.Time { return moments["2 steady"] }, Version: "3.1.0", Logger: slog.New(slog.DiscardHandler),
	}))
	for phase, want := range map[string][]string{
		"2 steady":         {"gateway:4000 none", "engine-a:8000 none", "engine-b:8000 none"},
		"8 steady_restart": {"gateway:4000 none", "engine-a:8000 none", "engine-b:8000 unknown"},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{"inspect", "--output=json", "--at=" + moments[phase].Format(time.RFC3339Nano), url}, &out); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range decodeInspect(t, out.Bytes()).Targets {
			got = append(got, r.URL[strings.LastIndex(r.URL, "/")+1:]+" "+r.Bottleneck.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, expected %q", phase, got, want)
		}
	}
	var written bytes.Buffer
	if err := run(t.Context(), []string{"inspect", "--write-config", "--at=" + moments["2 steady"].Format(time.RFC3339Nano), url}, &written); err != nil {
		t.Fatal(err)
	}
	if c, err := parseConfig("written", written.Bytes()); err != nil || len(c.PrometheusSources) != 1 {
		t.Errorf("%v in:\n%s", err, written.String())
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"inspect", "--at=1000", url}, &out); err == nil || !strings.Contains(err.Error(), "kvwatch 3.1.0 that holds no series of vLLM or LiteLLM") {
		t.Errorf("a server without such series: %v", err)
	}
}

// recordedHistory holds what was recorded around some moments.
func recordedHistory(t *testing.T, moments ...time.Time) *history.Store {
	t.Helper()
	store, err := history.Open(history.Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	rec, err := collector.OpenRecording(testdata + "recording.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close() })
	readers := map[string]*collector.SavedReader{}
	for p := range rec.Pages() {
		if !slices.ContainsFunc(moments, func(m time.Time) bool {
			return p.Time.After(m.Add(-3*time.Minute)) && p.Time.Before(m.Add(time.Minute))
		}) {
			continue
		}
		if readers[p.Folder] == nil {
			readers[p.Folder] = collector.NewSavedReader(*p.Target)
		}
		r, _ := readers[p.Folder].Recorded(p)
		if err := store.AppendRound(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// page serves one text at one path, to whoever has the key.
func pageAt(path, key, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != path:
			http.NotFound(w, r)
		case key != "" && r.Header.Get("Authorization") != "Bearer "+key:
			http.Error(w, `"no key"`, http.StatusUnauthorized)
		default:
			fmt.Fprint(w, text)
		}
	})
}

const (
	vllmPage    = "vllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 5\nvllm:num_requests_running{engine=\"0\",model_name=\"m\"} 0\n"
	litellmPage = "litellm_in_flight_requests 1\n"
)

func TestInspectFindsThePage(t *testing.T) {
	t.Parallel()
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte("sk-1234\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		handler http.Handler
		path    string
		keyFile string
		state   collector.State
		says    string
	}{
		"as given":                 {handler: pageAt("/metrics", "", vllmPage), path: "/metrics", state: collector.StateUp},
		"an odd path":              {handler: pageAt("/odd", "", vllmPage), path: "/odd", state: collector.StateUp},
		"no path":                  {handler: pageAt("/metrics", "", vllmPage), state: collector.StateUp},
		"a slash":                  {handler: pageAt("/metrics", "", vllmPage), path: "/", state: collector.StateUp},
		"a slash at the end":       {handler: pageAt("/metrics/", "", litellmPage), state: collector.StateUp},
		"at the root":              {handler: pageAt("/", "", vllmPage), state: collector.StateUp},
		"the API's base was given": {handler: pageAt("/metrics", "", vllmPage), path: "/v1", state: collector.StateUp},
		"below a prefix":           {handler: pageAt("/engine/metrics", "", vllmPage), path: "/engine/", state: collector.StateUp},
		"no page":                  {handler: http.NotFoundHandler(), state: collector.StateNotFound, says: "not_found: "},
		"a page of something else": {handler: pageAt("/metrics", "", "# TYPE up gauge\nup 1\n"), state: collector.StateNoMetrics, says: "no_metrics: "},
		"a web site":               {handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html><body>hello</body></html>") }), state: collector.StateNotMetrics, says: "not_metrics: "},
		"it wants a key":           {handler: pageAt("/metrics", "sk-1234", litellmPage), state: collector.StateUnauthorised, says: "--bearer-token-file"},
		"it gets the key":          {handler: pageAt("/metrics", "sk-1234", litellmPage), keyFile: keyFile, state: collector.StateUp},
		"it gets the wrong key":    {handler: pageAt("/metrics", "sk-5678", litellmPage), keyFile: keyFile, state: collector.StateUnauthorised, says: "refuses the key"},
		"metrics are switched off": {handler: pageAt("/metrics", "", "# TYPE http_requests_total counter\nhttp_requests_total 3\nprocess_start_time_seconds 1\n"), state: collector.StateNoMetrics, says: "no_metrics: "},
		"a vLLM server's are switched off": {handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/metrics":
				fmt.Fprint(w, "# TYPE http_requests_total counter\nhttp_requests_total 3\nprocess_start_time_seconds 1\n")
			case "/version":
				fmt.Fprint(w, `{"version":"0.32.0"}`)
			default:
				http.NotFound(w, r)
			}
		}), state: collector.StateMetricsDisabled, says: "--disable-log-stats"},
		"it is full": {handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }), state: collector.StateOverloaded, says: "overloaded: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &handClock{at: time.Now()}
			r := watchLive(t, inspectOptions{watch: 3 * time.Second, http: httpOptions{tokenFile: test.keyFile}}, serve(t, test.handler)+test.path, clock.clock())
			if r.State != test.state {
				t.Errorf("%s (%s), expected %s", r.State, r.Reason, test.state)
			}
			if !strings.Contains(r.Bottleneck.Summary, test.says) {
				t.Errorf("%q does not say %q", r.Bottleneck.Summary, test.says)
			}
			if text := fmt.Sprintf("%+v", r); strings.Contains(text, "sk-1234") {
				t.Errorf("the key is told: %s", text)
			}
		})
	}
}

// The key goes to nobody who does not ask for one.
func TestInspectKeepsTheKey(t *testing.T) {
	t.Parallel()
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte("sk-1234\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var sent []string
	var mu sync.Mutex
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if k := r.Header.Get("Authorization"); k != "" {
			sent = append(sent, k)
		}
		fmt.Fprint(w, vllmPage)
	}))
	watchLive(t, inspectOptions{watch: 3 * time.Second, http: httpOptions{tokenFile: keyFile}}, url, (&handClock{at: time.Now()}).clock())
	mu.Lock()
	defer mu.Unlock()
	if len(sent) > 0 {
		t.Errorf("%d requests carried the key", len(sent))
	}
}

// Two scrapes make a watch, dead targets are results beside the others, and
// the written configuration is one.
func TestInspectSeveral(t *testing.T) {
	t.Parallel()
	sim, err := fleet.New(fleet.Config{Seed: 1, Engines: 2})
	if err != nil {
		t.Fatal(err)
	}
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	a, b, gateway := serve(t, sim.Handler(0)), serve(t, sim.Handler(1)), serve(t, sim.GatewayHandler())
	args := []string{"inspect", "--for=1s", "--output=json", a, b + "/metrics", gateway, strings.Replace(dead.URL, "http://", "http://user:secret@", 1)}
	var out bytes.Buffer
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, r := range decodeInspect(t, out.Bytes()).Targets {
		states = append(states, r.Source+" "+string(r.State))
	}
	if want := []string{"vllm up", "vllm up", "litellm up", " down"}; !slices.Equal(states, want) {
		t.Errorf("%q, expected %q", states, want)
	}
	if strings.Contains(out.String(), "secret") {
		t.Error("the password is told")
	}

	out.Reset()
	if err := run(t.Context(), append(args, "--write-config"), &out); err != nil {
		t.Fatal(err)
	}
	c, err := parseConfig("written", out.Bytes())
	if err != nil {
		t.Fatalf("%v in:\n%s", err, out.String())
	}
	if len(c.ScrapeConfigs) != 2 || len(c.ScrapeConfigs[0].StaticConfigs[0].Targets) != 2 || c.ScrapeConfigs[1].MetricsPath != "/metrics/" {
		t.Errorf("%d jobs:\n%s", len(c.ScrapeConfigs), out.String())
	}
}

// What the URL holds is not written, but said; such a server has a job of its own.
func TestInspectConfigOfUser(t *testing.T) {
	t.Parallel()
	page := func(host string, user bool) inspected {
		return inspected{rules.TargetReport{Source: collector.SourceVLLM}, &livePage{scheme: "http", host: host, path: "/metrics", user: user}}
	}
	text, err := inspectConfig([]inspected{page("a:8000", false), page("b:8000", true)})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := parseConfig("written", []byte(text)); err != nil || len(c.ScrapeConfigs) != 2 || !strings.Contains(text, "# the user and the password of the URL are left out here") {
		t.Errorf("%v in:\n%s", err, text)
	}
}

func TestInspectText(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"inspect", testdata + "vllm-0.28-dp2.prom.gz", testdata + "vllm-0.28-dp2-later.prom.gz", testdata + "litellm-1.106.12.prom.gz"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"vllm-0.28-dp2-later.prom.gz (vllm)  KV: engine 1: requests wait for KV cache",
		"\n  - engine 1: prefix cache missed 84% of 1321769 prompt tokens (23 requests), against 48% since the process began\n",
		"engine 1 (qwen3-coder-30b): KV cache of 393216 tokens, 6 running, 4 waiting, KV usage 100%",
		"litellm-1.106.12.prom.gz (litellm)  UNKNOWN: one page tells what is, not what goes on",
		"cannot tell: gateway_saturation_ratio: ",
	} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is missing in:\n%s", part, out.String())
		}
	}
}

// A model's name does not command the terminal, nor make a line of its own.
func TestInspectTextOfOddNames(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "page.prom")
	if err := os.WriteFile(file, []byte("vllm:prompt_tokens_total{engine=\"0\",model_name=\"a\\n\x1b[31mb\"} 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"inspect", file}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "engine 0 (a  [31mb): ") {
		t.Errorf("%q", out.String())
	}
}

func TestParseMoment(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 11, 29, 20, 24, 11, 885e6, time.UTC)
	for _, text := range []string{"2026-11-29T20:24:11.885Z", "2026-11-29T21:24:11.885+01:00", "1795983851.885", "1795983851885"} {
		if got, err := parseMoment(text); err != nil || !got.Equal(want) {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"yesterday", "-3", "NaN", "1e300", "2026-11-29"} {
		if got, err := parseMoment(text); err == nil {
			t.Errorf("%s is %s", text, got)
		}
	}
}

// The schema beside the command is that of its types.
func TestInspectSchema(t *testing.T) {
	t.Parallel()
	checkSchema(t, "inspect", reflect.TypeFor[inspectOutput]())
}
