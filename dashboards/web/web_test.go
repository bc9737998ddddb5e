package web

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"kvwatch/collector"
	"kvwatch/rules"
	"kvwatch/rules/sizing"
)

// serve starts a real server with the page.
func serve(t *testing.T, o Options) *httptest.Server {
	t.Helper()
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// request sends one request and returns the answer with its whole body.
func request(t *testing.T, method, address string, header map[string]string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range header {
		req.Header.Set(name, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// fleetOf asks the API for the fleet.
func fleetOf(t *testing.T, s *httptest.Server) fleet {
	t.Helper()
	resp, body := request(t, http.MethodGet, s.URL+"/api/v1/kvwatch/fleet", nil)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("fleet answers %s: %s", resp.Status, body)
	}
	var answer struct {
		Status string
		Data   fleet
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Data
}

func TestFleet(t *testing.T) {
	t.Parallel()
	f := fleetOf(t, serve(t, newFixture(t, time.Minute).options()))

	if f.Targets.Total != 8 || f.Targets.Up != 6 || f.Targets.Unknown != 1 || len(f.Targets.List) != 8 {
		t.Errorf("targets = %+v, want 6 of 8 up, 1 unknown", f.Targets)
	}
	var order []string
	for _, target := range f.Targets.List[:4] {
		order = append(order, target.Instance)
	}
	if want := []string{"vllm-4:8000", "chat-1:8000", "chat-0:8000", "litellm-0:4000"}; !slices.Equal(order, want) {
		t.Errorf("targets begin with %q, want what is not up, then what warns: %q", order, want)
	}
	if g := f.Targets.List[3]; g.Version != "1.102.0" || g.Backlog == nil || g.Backlog.InFlight != 12 || *g.Backlog.Queued != 3 || g.Backlog.Rejected != nil {
		t.Errorf("the gateway = %+v, want its version, and its backlog without what it does not tell", g)
	}
	if diff := cmp.Diff(fixtureSessions(), f.Sessions); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
	if len(f.Pools) != 2 || f.Pools[0].Name != "agents" || len(f.Pools[0].Engines) != 4 || len(f.Pools[1].Engines) != 1 || len(f.Unpooled) != 0 {
		t.Fatalf("pools = %+v, want agents with 4 engines and models/chat with 1", f.Pools)
	}
	if waiting := f.Pools[0].Values["queue_waiting_requests"].Value; waiting == nil || *waiting != 12 {
		t.Errorf("waiting in agents = %v, want 12: the sum of its reasons", waiting)
	}
	if p95 := f.Pools[0].Values["ttft_seconds:0.95"]; p95.Value == nil || *p95.Value != 14.2 || p95.Unit != "seconds" || p95.From != collector.VLLMTTFT {
		t.Errorf("TTFT p95 = %+v, want 14.2 seconds from %s", p95, collector.VLLMTTFT)
	}
	if got := len(f.Pools[0].Engines[0].Values); got != 12 {
		t.Errorf("vllm-0 has %d values, want its 8 series, TTFT as 4 quantiles, waiting also as a sum, and nothing else", got)
	}
	few := f.Pools[1].Engines[0].Values["prefix_cache_hit_ratio:1m"]
	if few.Value != nil || !strings.Contains(few.Reason, "a ratio needs 5") {
		t.Errorf("a ratio without evidence = %+v, want no value and the reason", few)
	}
	reset := f.Pools[1].Engines[0].Values["prefix_cache_hit_ratio:5m"]
	if reset.Value == nil || reset.Trust != "a counter restarted inside the window" {
		t.Errorf("a ratio over a restart = %+v, want its value and what to think of it", reset)
	}
	if len(f.Gateways) != 1 || f.Gateways[0].Values["gateway_overhead_seconds:0.5"].Trust != "partial: covers 2 %" {
		t.Errorf("gateways = %+v, want one, with the coverage of its overhead", f.Gateways)
	}
	if len(f.Alerts.Firing) != 2 || f.Alerts.Firing[0].Name != "PrefixCacheCollapse" || f.Alerts.Firing[0].Runbook != "runbooks/PrefixCacheCollapse" {
		t.Errorf("firing = %+v, want the critical one first, with its runbook", f.Alerts.Firing)
	}
	if len(f.Alerts.Pending) != 1 || f.Alerts.Pending[0].FiredAt != nil || len(f.Alerts.Resolved) != 1 {
		t.Errorf("pending = %+v, resolved = %+v, want one each", f.Alerts.Pending, f.Alerts.Resolved)
	}
}

// A value that is not known, or is no number, must never become a zero on its way to the page.
func TestUnknownIsNeverZero(t *testing.T) {
	t.Parallel()
	tests := map[string]rules.Recorded{
		"unknown":           {Quality: rules.QualityAbsent, Reason: "the feature is off"},
		"unknown, unsaid":   {Quality: rules.QualityAbsent},
		"NaN":               {Known: true, Value: nan(), Quality: rules.QualityOK},
		"summary, unknown":  {Summary: &rules.Summary{}, Quality: rules.QualityAbsent, Reason: "no request finished"},
		"quantile, unknown": {Summary: &rules.Summary{Quantiles: []rules.Quantile{{Q: 0.5, Value: nan()}}}, Known: true},
	}
	for name, r := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vs := values{}
			vs.add("x_seconds", r)
			if len(vs) != 1 {
				t.Fatalf("values = %v, want one", vs)
			}
			for key, v := range vs {
				if v.Value != nil {
					t.Errorf("%s = %v, want no value", key, *v.Value)
				}
				if v.Reason == "" {
					t.Errorf("%s has no reason", key)
				}
			}
		})
	}
}

func TestSumOfReasons(t *testing.T) {
	t.Parallel()
	number := func(v float64) value { return value{Value: &v, Quality: "ok"} }
	vs := values{}
	vs.sum("w", value{Reason: "not told apart"})
	vs.sum("w", number(3))
	vs.sum("w", value{Reason: "not told apart"})
	vs.sum("w", number(4))
	if diff := cmp.Diff(number(7), vs["w"]); diff != "" {
		t.Errorf("sum (-want +got):\n%s", diff)
	}
}

// Prometheus's own client must understand what Grafana will ask for.
func TestPrometheusClientReadsTheAPI(t *testing.T) {
	t.Parallel()
	s := serve(t, newFixture(t, 10*time.Minute).options())
	c, err := api.NewClient(api.Config{Address: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	client, ctx := promv1.NewAPI(c), t.Context()

	targets, err := client.Targets(ctx)
	if err != nil || len(targets.Active) != 8 {
		t.Fatalf("targets = %+v, %v, want 8", targets, err)
	}
	health := map[promv1.HealthStatus]int{}
	for _, target := range targets.Active {
		health[target.Health]++
	}
	if diff := cmp.Diff(map[promv1.HealthStatus]int{"up": 6, "down": 1, "unknown": 1}, health); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
	alerts, err := client.Alerts(ctx)
	if err != nil || len(alerts.Alerts) != 3 {
		t.Errorf("alerts = %+v, %v, want two firing and one pending", alerts, err)
	}
	groups, err := client.Rules(ctx, nil)
	if err != nil || len(groups.Groups) != 1 {
		t.Fatalf("rules = %+v, %v, want one group", groups, err)
	}
	states := map[string]string{}
	for _, r := range groups.Groups[0].Rules {
		rule, ok := r.(promv1.AlertingRule)
		if !ok {
			t.Fatalf("rule %v is no alerting rule", r)
		}
		states[rule.Name] = rule.State
	}
	want := map[string]string{
		"PrefixCacheCollapse": "firing", "QueueGrowing": "firing", "KVSaturated": "pending",
		"PrefixCacheMissRising": "inactive", "TargetDown": "inactive",
	}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("states of the rules (-want +got):\n%s", diff)
	}
	matrix, _, _, err := client.QueryRange(ctx, "kvwatch_pool_kv_usage_ratio", promv1.Range{
		Start: fixtureNow.Add(-5 * time.Minute), End: fixtureNow, Step: 15 * time.Second,
	})
	if m, ok := matrix.(model.Matrix); err != nil || !ok || len(m) != 2 || len(m[0].Values) != 21 {
		t.Errorf("range = %v, %v, want two series of 21 points", matrix, err)
	}
}

func TestTargetsFilters(t *testing.T) {
	t.Parallel()
	s := serve(t, newFixture(t, time.Minute).options())
	for query, want := range map[string]int{"": 8, "?state=any": 8, "?state=active": 8, "?state=dropped": 0, "?scrapePool=models": 2, "?scrapePool=none": 0} {
		_, body := request(t, http.MethodGet, s.URL+"/api/v1/targets"+query, nil)
		if got := strings.Count(body, `"scrapeUrl"`); got != want {
			t.Errorf("targets%s lists %d, want %d", query, got, want)
		}
	}
}

// A target's address may hold a password or a token; neither may be shown.
func TestAddressesHoldNoSecrets(t *testing.T) {
	t.Parallel()
	o := newFixture(t, time.Minute).options()
	o.Targets = func() []collector.TargetStatus {
		return []collector.TargetStatus{{Job: "j", Instance: "i", URL: "http://me:hunter2@host:1/metrics?token=hunter2#hunter2", State: collector.StateDown}}
	}
	s := serve(t, o)
	for _, path := range []string{"/api/v1/targets", "/api/v1/kvwatch/fleet"} {
		_, body := request(t, http.MethodGet, s.URL+path, nil)
		if strings.Contains(body, "hunter2") || !strings.Contains(body, "http://host:1/metrics") {
			t.Errorf("%s shows a secret or no address: %s", path, body)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	s := serve(t, newFixture(t, time.Minute).options())
	tests := []struct {
		query             string
		status            int
		detectors, alerts int
	}{
		{"", http.StatusOK, 7, 4},
		{"?alert=PrefixCacheCollapse", http.StatusOK, 2, 1},
		{"?pool=models/chat", http.StatusOK, 3, 0},
		{"?alert=PrefixCacheCollapse&pool=models/chat", http.StatusOK, 1, 0},
		{"?job=vllm&instance=vllm-1:8000", http.StatusOK, 1, 0},
		{"?alert=NoSuchAlert", http.StatusNotFound, 0, 0},
	}
	for _, tt := range tests {
		resp, body := request(t, http.MethodGet, s.URL+"/api/v1/kvwatch/explain"+tt.query, nil)
		var answer struct{ Data explanation }
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != tt.status || len(answer.Data.Detectors) != tt.detectors || len(answer.Data.Alerts) != tt.alerts {
			t.Errorf("explain%s = %d with %d detectors and %d alerts, want %d, %d, %d", tt.query,
				resp.StatusCode, len(answer.Data.Detectors), len(answer.Data.Alerts), tt.status, tt.detectors, tt.alerts)
		}
	}
}

// TestPastIsForExplain: what was in the last hours is told of the detectors
// that are asked for, and left out of the answer that the page asks for again
// and again.
func TestPastIsForExplain(t *testing.T) {
	t.Parallel()
	s := serve(t, newFixture(t, time.Minute).options())
	for path, want := range map[string]bool{"/api/v1/kvwatch/explain?alert=PrefixCacheCollapse": true, "/api/v1/kvwatch/fleet": false} {
		_, body := request(t, http.MethodGet, s.URL+path, nil)
		if strings.Contains(body, `"past"`) != want {
			t.Errorf("%s tells of the past: %v, want %v", path, !want, want)
		}
		if !strings.Contains(body, `"for_seconds":120`) {
			t.Errorf("%s does not say how long it must hold", path)
		}
	}
}

// TestDetectorsNearestFirst: what fires, then what is about to, then what is
// near its threshold; the grave one among equals. Watchdog is for whoever asks
// for it: on the page it would look like an incident.
func TestDetectorsNearestFirst(t *testing.T) {
	t.Parallel()
	o := newFixture(t, time.Minute).options()
	o.Detectors = func() []rules.DetectorStatus {
		stands := func(alert, severity string, phase rules.AlertState, share float64) rules.DetectorStatus {
			s := rules.DetectorStatus{Alert: alert, Severity: severity, Phase: string(phase)}
			if share >= 0 {
				s.Share = &share
			}
			return s
		}
		return []rules.DetectorStatus{
			stands("Plain", rules.SeverityCritical, "watching", -1),
			stands("Far", rules.SeverityCritical, "watching", 0.1),
			stands("NearInfo", rules.SeverityInfo, "watching", 0.9),
			stands("NearWarning", rules.SeverityWarning, "watching", 0.8),
			stands(rules.Watchdog, rules.SeverityInfo, rules.StateFiring, -1),
			stands("Waits", rules.SeverityWarning, rules.StatePending, 1.2),
			stands("FiresInfo", rules.SeverityInfo, rules.StateFiring, -1),
			stands("FiresCritical", rules.SeverityCritical, rules.StateFiring, 2),
		}
	}
	s := serve(t, o)
	wanted := "FiresCritical FiresInfo Waits NearWarning NearInfo Far Plain"
	for path, want := range map[string]string{
		"/api/v1/kvwatch/fleet":   wanted,
		"/api/v1/kvwatch/explain": strings.Replace(wanted, "FiresInfo", "FiresInfo "+rules.Watchdog, 1),
	} {
		_, body := request(t, http.MethodGet, s.URL+path, nil)
		var answer struct {
			Data struct {
				Detectors []struct {
					Alertname string
					Share     *float64
				}
			}
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range answer.Data.Detectors {
			got = append(got, d.Alertname)
			if (d.Share == nil) != (d.Alertname == "Plain" || d.Alertname == "FiresInfo" || d.Alertname == rules.Watchdog) {
				t.Errorf("%s: %s has the share %v", path, d.Alertname, d.Share)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s lists %v, want %s", path, got, want)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	s := serve(t, newFixture(t, time.Minute).options())
	at := func(ago time.Duration) string { return fixtureNow.Add(-ago).UTC().Format(time.RFC3339) }
	tests := []struct {
		query  string
		status int
		events int
	}{
		{"", http.StatusOK, 2},
		{"?from=" + at(48*time.Hour), http.StatusOK, 3},
		{"?from=" + at(time.Hour) + "&to=" + at(10*time.Minute), http.StatusOK, 1},
		{"?from=yesterday", http.StatusBadRequest, 0},
		{"?to=tomorrow", http.StatusBadRequest, 0},
	}
	for _, tt := range tests {
		resp, body := request(t, http.MethodGet, s.URL+"/api/v1/kvwatch/events"+tt.query, nil)
		var answer struct {
			Data struct{ Events []rules.Event }
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != tt.status || len(answer.Data.Events) != tt.events {
			t.Errorf("events%s = %d with %d, want %d with %d", tt.query, resp.StatusCode, len(answer.Data.Events), tt.status, tt.events)
		}
	}
}

func TestEveryAnswerIsGuarded(t *testing.T) {
	t.Parallel()
	s := serve(t, newFixture(t, time.Minute).options())
	for _, path := range []string{"/", "/static/app.js", "/static/uplot/LICENSE", "/runbooks/PrefixCacheCollapse", "/api/v1/alerts", "/api/v1/query?query=up", "/nothing"} {
		resp, _ := request(t, http.MethodGet, s.URL+path, nil)
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'self'"} {
			if !strings.HasPrefix(resp.Header.Get(name), want) {
				t.Errorf("%s: %s = %q, want %q", path, name, resp.Header.Get(name), want)
			}
		}
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	s := serve(t, newFixture(t, time.Minute).options())
	tests := []struct {
		method, path string
		status       int
	}{
		{http.MethodHead, "/", http.StatusOK},
		{http.MethodHead, "/static/style.css", http.StatusOK},
		{http.MethodPost, "/", http.StatusMethodNotAllowed},
		{http.MethodDelete, "/static/app.js", http.StatusMethodNotAllowed},
		{http.MethodPost, "/runbooks/PrefixCacheCollapse", http.StatusMethodNotAllowed},
		{http.MethodPost, "/api/v1/query?query=up", http.StatusOK},
		{http.MethodGet, "/runbooks/Nothing", http.StatusNotFound},
		{http.MethodGet, "/static/nothing.js", http.StatusNotFound},
		{http.MethodGet, "/static/../web.go", http.StatusNotFound},
		{http.MethodGet, "/static/", http.StatusNotFound},
	}
	for _, tt := range tests {
		resp, body := request(t, tt.method, s.URL+tt.path, nil)
		if resp.StatusCode != tt.status {
			t.Errorf("%s %s = %s, want %d", tt.method, tt.path, resp.Status, tt.status)
		}
		if tt.method == http.MethodHead && body != "" {
			t.Errorf("%s %s has a body", tt.method, tt.path)
		}
	}
}

func TestStaticFilesAreAskedForOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, newFixture(t, time.Minute).options())
	resp, _ := request(t, http.MethodGet, s.URL+"/static/app.js", nil)
	etag := resp.Header.Get("ETag")
	if etag == "" || resp.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Fatalf("header = %v, want an entity tag and JavaScript", resp.Header)
	}
	again, body := request(t, http.MethodGet, s.URL+"/static/app.js", map[string]string{"If-None-Match": etag})
	if again.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("the second time = %s with %d bytes, want 304 and none", again.Status, len(body))
	}
}

func TestRunbookIsSafe(t *testing.T) {
	t.Parallel()
	s := serve(t, newFixture(t, time.Minute).options())
	resp, body := request(t, http.MethodGet, s.URL+"/runbooks/PrefixCacheCollapse", nil)
	if resp.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(body, "<h1>PrefixCacheCollapse</h1>") || !strings.Contains(body, "<td>the router</td>") {
		t.Errorf("the runbook is not rendered: %s", body)
	}
	if strings.Contains(body, "alert(1)") {
		t.Errorf("the runbook runs a script: %s", body)
	}
}

func TestExternalURL(t *testing.T) {
	t.Parallel()
	o := newFixture(t, time.Minute).options()
	o.ExternalURL = "https://example.com/tools/kvwatch/"
	s := serve(t, o)
	for _, path := range []string{"/", "/tools/kvwatch/", "/tools/kvwatch/static/app.js", "/tools/kvwatch/api/v1/query?query=up", "/api/v1/alerts"} {
		if resp, _ := request(t, http.MethodGet, s.URL+path, nil); resp.StatusCode != http.StatusOK {
			t.Errorf("%s = %s, want it served", path, resp.Status)
		}
	}
}

func TestNewSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	whole := newFixture(t, time.Minute).options()
	tests := map[string]struct {
		change func(*Options)
		want   string
	}{
		"no pools":     {func(o *Options) { o.Pools = nil }, "Sessions, Events and Plans must be set"},
		"no clock":     {func(o *Options) { o.Now = nil }, "Now and Logger must be set"},
		"bad address":  {func(o *Options) { o.ExternalURL = "kvwatch.example.com" }, "give a whole address"},
		"bad runbooks": {func(o *Options) { o.Runbooks = fstest.MapFS{"A.md": {Mode: 0o644 | 1<<31}} }, "read the runbook A.md"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := whole
			tt.change(&o)
			if _, err := New(o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New = %v, want it to say %q", err, tt.want)
			}
		})
	}
}

// Every state that a target can have must be said in words of its own, with a hint.
func TestEveryStateHasWords(t *testing.T) {
	t.Parallel()
	seen := map[string]collector.State{}
	for _, s := range collector.States() {
		text, hint := stateWords(s)
		if other, ok := seen[text]; ok {
			t.Errorf("%s and %s read the same: %q", s, other, text)
		}
		seen[text] = s
		if hint == "" && s != collector.StateUp {
			t.Errorf("%s has no hint", s)
		}
	}
}

func TestUnitOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"kvwatch_kv_usage_ratio":                       "ratio",
		"kvwatch_pool_prefix_cache_hit_ratio_baseline": "ratio",
		"kvwatch_reprefilled_tokens_total":             "tokens",
		"kvwatch_interactivity_tokens_per_second":      "tokens/s",
		"kvwatch_ttft_seconds":                         "seconds",
		"kvwatch_pool_reprefill_excess_prompts":        "prompts",
		"kvwatch_gateway_rejected_requests_total":      "requests",
		"kvwatch_kv_free_seats":                        "seats",
		"kvwatch_preemptions_total":                    "",
	} {
		if got := unitOf(name); got != want {
			t.Errorf("unitOf(%s) = %q, want %q", name, got, want)
		}
	}
}

// TestPlans: the API has each plan with its verdicts and as it would be written anew.
func TestPlans(t *testing.T) {
	t.Parallel()
	server := serve(t, newFixture(t, time.Minute).options())
	var got []struct {
		Plan        string             `json:"plan"`
		At          time.Time          `json:"at"`
		Assumptions []sizing.Judged    `json:"assumptions"`
		Required    map[string]float64 `json:"required"`
		Written     string             `json:"written"`
		Journal     []rules.Event      `json:"journal"`
	}
	resp, body := request(t, http.MethodGet, server.URL+"/api/v1/kvwatch/plans", nil)
	answer := struct{ Data any }{&got}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	if len(got) != 1 || got[0].Plan != "agents-30b" || !got[0].At.Equal(fixtureNow.Add(-4*time.Minute)) || got[0].Required["replicas"] != 4 {
		t.Fatalf("got %+v", got)
	}
	if diff := cmp.Diff(fixturePlans()[0].Assumptions, got[0].Assumptions); diff != "" {
		t.Errorf("assumptions (-want +got):\n%s", diff)
	}
	if len(got[0].Journal) != 1 || got[0].Journal[0].Kind != rules.EventRecommendation {
		t.Errorf("journal: %+v", got[0].Journal)
	}
	if want := "plan: agents-30b\ndate: \"" + fixtureNow.Format(time.DateOnly) + "\"\nowner: platform\n"; !strings.HasPrefix(got[0].Written, want) {
		t.Errorf("written: %q, want it to begin with %q", got[0].Written, want)
	}
}
