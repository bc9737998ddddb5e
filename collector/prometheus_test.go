package collector

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// queryable is a server whose answers a test gives: the series of a selector
// by the first name in it.
type queryable struct {
	*httptest.Server
	// vector answers an instant query; matrix one of a range.
	vector func(query string) string
	matrix func(query string, start, end, step float64) string
	mu     sync.Mutex
	asked  []string
}

func newQueryable(t *testing.T) *queryable {
	t.Helper()
	q := &queryable{}
	q.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		q.mu.Lock()
		q.asked = append(q.asked, query)
		q.mu.Unlock()
		var start, end, step float64
		_, _ = fmt.Sscan(r.FormValue("start"), &start)
		_, _ = fmt.Sscan(r.FormValue("end"), &end)
		_, _ = fmt.Sscan(r.FormValue("step"), &step)
		if r.URL.Path == "/api/v1/query_range" {
			fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, q.matrix(query, start, end, step))
			return
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]},"stats":{}}`, q.vector(query))
	}))
	t.Cleanup(q.Close)
	return q
}

// vectorOf writes series as an instant query answers them.
func vectorOf(at float64, series ...string) string {
	var all []string
	for _, s := range series {
		metric, value, _ := strings.Cut(s, "} ")
		all = append(all, fmt.Sprintf(`{"metric":%s,"value":[%g,"%s"]}`, metricOf(metric+"}"), at, value))
	}
	return strings.Join(all, ",")
}

// metricOf writes name{a="b"} as JSON.
func metricOf(text string) string {
	name, rest, _ := strings.Cut(strings.TrimSuffix(text, "}"), "{")
	metric := map[string]string{}
	if name != "" {
		metric["__name__"] = name
	}
	for pair := range strings.SplitSeq(rest, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			metric[k] = strings.Trim(v, `"`)
		}
	}
	b, _ := json.Marshal(metric) //nolint:errchkjson // a map of strings always can
	return string(b)
}

func promConfig(t *testing.T, text string) PrometheusConfig {
	t.Helper()
	f, err := decodePrometheus(text)
	if err != nil {
		t.Fatal(err)
	}
	return f[0]
}

// newTestPrometheus makes a reader of one server, whose rounds are kept.
func newTestPrometheus(t *testing.T, url, more string) (*Prometheus, *promServer, *[]kept) {
	t.Helper()
	rounds := &[]kept{}
	p, err := NewPrometheus(PrometheusOptions{
		Global: DefaultGlobalConfig(), Sources: []PrometheusConfig{promConfig(t, fmt.Sprintf("{url: %q%s}", url, more))},
		Sink:  func(_ context.Context, r *Round) { *rounds = append(*rounds, keep(r)) },
		Taken: func(_, instance string) bool { return instance == "scraped:1" },
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, p.servers[0], rounds
}

// oneEngine answers for an engine that was scraped at a time.
func oneEngine(scraped float64, up string, series ...string) func(string) string {
	return func(query string) string {
		switch {
		case strings.HasPrefix(query, "timestamp("):
			return vectorOf(scraped+3, fmt.Sprintf(`{job="vllm",instance="a:1"} %g`, scraped))
		case strings.Contains(query, Up+"|"):
			return vectorOf(scraped+3, `up{job="vllm",instance="a:1"} `+up, `up{job="vllm",instance="other:1"} 1`)
		case strings.Contains(query, "num_requests_running"), strings.Contains(query, "vllm:.+"):
			return vectorOf(scraped+3, series...)
		default:
			return ""
		}
	}
}

func instances(rounds []kept) []string {
	var all []string
	for _, r := range rounds {
		if r.State == StateUnknown { // of the wall clock
			r.Time = time.UnixMilli(0)
		}
		all = append(all, fmt.Sprintf("%s %s %d", r.Target.Labels.Get(model.InstanceLabel), r.State, r.Time.UnixMilli()))
	}
	return all
}

func TestPrometheusRounds(t *testing.T) {
	t.Parallel()
	q := newQueryable(t)
	host := strings.TrimPrefix(q.URL, "http://")
	_, s, rounds := newTestPrometheus(t, q.URL, "")
	step := func(now time.Time, want ...string) []kept {
		t.Helper()
		*rounds = nil
		s.round(t.Context(), now)
		if got := instances(*rounds); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		return *rounds
	}
	running := `vllm:num_requests_running{job="vllm",instance="a:1",engine="0",model_name="m",pod="p"} `

	q.vector = oneEngine(1000.25, "1", running+"3", `ray_vllm_prompt_tokens_total{job="vllm",instance="a:1",model_name="m"} 7`,
		`vllm:num_requests_waiting{job="vllm"} 1`, `vllm:num_requests_running{job="vllm",instance="scraped:1"} 1`,
		`vllm:num_requests_running{job="vllm",instance="noup:1",model_name="m"} 5`)
	got := step(at(0), "a:1 up 1000250", "noup:1 up 1003250", host+" up 1800000000000")
	want := map[string]float64{
		`{__name__="up", instance="a:1", job="vllm"}`:                                                    1,
		`{__name__="vllm:num_requests_running", engine="0", instance="a:1", job="vllm", model_name="m"}`: 3,
		`{__name__="vllm:prompt_tokens_total", engine="0", instance="a:1", job="vllm", model_name="m"}`:  7,
	}
	if diff := cmp.Diff(want, got[0].values); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if w := s.self.status().Warning; !strings.Contains(w, "1 series have no job") || !strings.Contains(w, "1 of its targets are scraped") {
		t.Errorf("warning %q", w)
	}

	q.vector = oneEngine(1000.25, "1", running+"3") // not scraped since
	step(at(15), host+" up 1800000015000")
	q.vector = oneEngine(1015.25, "0") // down: its series ended
	got = step(at(30), "a:1 down 1015250", host+" up 1800000030000")
	if len(got[0].stale) != 2 || !strings.Contains(got[0].Reason, "up is 0") {
		t.Errorf("%d series ended, reason %q", len(got[0].stale), got[0].Reason)
	}
	q.vector = func(string) string { return "" }
	step(at(45), "noup:1 unknown 0", host+" up 1800000045000") // three answers without it
}

func TestPrometheusTwins(t *testing.T) {
	t.Parallel()
	q := newQueryable(t)
	_, s, rounds := newTestPrometheus(t, q.URL, `, match: ['{__name__=~"vllm:.+",cluster="a",model_name="m"}']`)
	one := oneEngine(1000, "1", `vllm:num_requests_running{job="vllm",instance="a:1",cluster="a"} 1`)
	q.vector = func(query string) string {
		if strings.HasPrefix(query, "timestamp(") || !strings.Contains(query, Up+"|") {
			return one(query)
		}
		return vectorOf(1000, `up{job="vllm",instance="a:1",cluster="a"} 1`, `up{job="vllm",instance="a:1",cluster="b"} 1`)
	}
	s.round(t.Context(), at(0))
	if r := (*rounds)[0]; r.State != StateNotMetrics || !strings.Contains(r.Reason, "several targets") {
		t.Errorf("%s: %s", r.State, r.Reason)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.asked) != 3 || !strings.Contains(q.asked[1], `cluster="a"`) || strings.Contains(q.asked[1], "model_name") {
		t.Errorf("asked %q", q.asked)
	}
}

func TestPrometheusErrors(t *testing.T) {
	t.Parallel()
	many := vectorOf(1, `vllm:num_requests_running{job="v",instance="a"} 1`, `vllm:num_requests_running{job="v",instance="b"} 1`, `vllm:num_requests_running{job="v",instance="c"} 1`)
	tests := []struct {
		name, config string
		status       int
		body         string
		state        State
		reason       string
	}{
		{"a key is wanted", "", 401, "", StateUnauthorised, "refuses the key"},
		{"another tenant", "", 403, "", StateUnauthorised, "http_headers"},
		{"another path", "", 404, "404 page not found", StateNotFound, "no query API at /api/v1/query"},
		{"overloaded", "", 503, "", StateOverloaded, "overloaded"},
		{"refused", "", 422, `{"status":"error","errorType":"execution","error":"secret"}`, StateTooLarge, "HTTP 422, execution"},
		{"a query that is not taken", "", 400, `{"status":"error","errorType":"bad_data"}`, StateDown, "HTTP 400, bad_data"},
		{"broken", "", 500, "", StateDown, "HTTP 500"},
		{"a web page", "", 200, "<html>secret</html>", StateNotMetrics, "does not answer as Prometheus"},
		{"another JSON", "", 200, `{"data":"secret"}`, StateNotMetrics, "does not answer as Prometheus"},
		{"an error as 200", "", 200, `{"status":"error","data":{"result":[]}}`, StateNotMetrics, "does not answer as Prometheus"},
		{"cut", "", 200, `{"status":"success","data":{"result":[{"metric":{}`, StateTruncated, "breaks off"},
		{"another value", "", 200, `{"status":"success","data":{"result":[{"metric":{"__name__":"up"},"value":[1,2]}]}}`, StateNotMetrics, "does not answer"},
		{"too many series", ", sample_limit: 2", 200, `{"status":"success","data":{"result":[` + many + `]}}`, StateTooLarge, "more than 2 series"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			}))
			defer server.Close()
			p, s, rounds := newTestPrometheus(t, server.URL, tt.config)
			s.targets["x"] = &promTarget{targetScraper: p.newScraper(Target{}, &ScrapeConfig{})}
			s.round(t.Context(), at(0))
			r := (*rounds)[0]
			if r.State != tt.state || !strings.Contains(r.Reason, tt.reason) || strings.Contains(r.Reason, "secret") || len(*rounds) != 1 {
				t.Errorf("%d rounds, the first %s: %s", len(*rounds), r.State, r.Reason)
			}
			if behind := s.targets["x"].status(); behind.State != StateUnknown || !strings.Contains(behind.Reason, tt.reason) {
				t.Errorf("what is behind it is %s: %s", behind.State, behind.Reason)
			}
		})
	}
	released := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"status":"success","data":{"result":[`))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-released:
		case <-r.Context().Done():
		}
	}))
	defer slow.Close()
	defer close(released)
	_, s, rounds := newTestPrometheus(t, slow.URL, ", timeout: 50ms")
	s.round(t.Context(), at(0))
	if r := (*rounds)[0]; r.State != StateTimeout || !strings.Contains(r.Reason, "in time") {
		t.Errorf("a slow answer: %s: %s", r.State, r.Reason)
	}
	_, s, rounds = newTestPrometheus(t, "http://127.0.0.1:1", "")
	s.round(t.Context(), at(0))
	if r := (*rounds)[0]; r.State != StateDown || !strings.Contains(r.Reason, "refused the connection") {
		t.Errorf("nobody there: %s: %s", r.State, r.Reason)
	}
}

// pastOf answers for an engine that was always up, scraped 4 s before each step.
func pastOf(instance string, running func(at float64) float64) func(query string, start, end, step float64) string {
	return func(query string, start, end, step float64) string {
		target := fmt.Sprintf(`{job="vllm",instance=%q}`, instance)
		one := func(metric string, value func(float64) float64) string {
			var values []string
			for i := range int((end-start)/step+0.5) + 1 {
				at := start + float64(i)*step
				values = append(values, fmt.Sprintf(`[%.3f,"%.3f"]`, at, value(at)))
			}
			return fmt.Sprintf(`{"metric":%s,"values":[%s]}`, metricOf(metric), strings.Join(values, ","))
		}
		switch {
		case strings.HasPrefix(query, "timestamp("):
			return one(target, func(at float64) float64 { return at - 4 })
		case strings.Contains(query, Up+"|"):
			return one("up"+target, func(float64) float64 { return 1 })
		case strings.Contains(query, "num_requests_running"):
			return one("vllm:num_requests_running"+target, running)
		default:
			return ""
		}
	}
}

// TestBackfillIsBounded fills an hour of many series and counts what is held.
func TestBackfillIsBounded(t *testing.T) {
	t.Parallel()
	q := newQueryable(t)
	p, s, _ := newTestPrometheus(t, q.URL, ", interval: 15s, backfill: 1h")
	now, most := at(0), 0
	past := pastOf("a:1", func(at float64) float64 { return at - float64(now.Unix()) })
	q.matrix = func(query string, start, end, step float64) string {
		most = max(most, int((end-start)/step+0.5)+1)
		return past(query, start, end, step)
	}
	var times []int64
	err := p.Backfill(t.Context(), now, now.Add(-30*time.Minute), func(_ context.Context, r *Round) {
		since := r.Time.Sub(now)
		times = append(times, int64(since.Seconds()))
		if v := r.Samples[0].Value; v != since.Seconds()+4 {
			t.Errorf("at %s the value is %g", since, v)
		}
	})
	if err != nil || len(times) != 120 || times[0] != -1789 || times[119] != -4 || !slices.IsSorted(times) {
		t.Errorf("%v: %d rounds: %v", err, len(times), times)
	}
	if limit := int(backfillSpan / (15 * time.Second)); most != limit {
		t.Errorf("at most %d steps at once, want %d", most, limit)
	}
	seen := newPromRange(0, time.Second, 10, 25)
	series := querySeries{Metric: map[string]string{"__name__": VLLMRunning, "job": "j", "instance": "i"}}
	for i := range 3 {
		err := seen.series(&series)
		if tooMany := err != nil; tooMany != (i == 2) {
			t.Errorf("series %d of 10 values with room for 25 gave %v", i, err)
		}
	}
	_ = s
}

// TestBackfillTakesTurns: history refuses what is far behind the newest, whichever
// server it is of.
func TestBackfillTakesTurns(t *testing.T) {
	t.Parallel()
	p := &Prometheus{}
	for _, instance := range []string{"a:1", "b:1"} {
		q := newQueryable(t)
		q.matrix = pastOf(instance, func(float64) float64 { return 1 })
		one, _, _ := newTestPrometheus(t, q.URL, ", interval: 15s, backfill: 2h")
		p.servers = append(p.servers, one.servers...)
	}
	var newest time.Time
	rounds := map[string]int{}
	err := p.Backfill(t.Context(), at(0), time.Time{}, func(_ context.Context, r *Round) {
		rounds[r.Target.Labels.Get("instance")]++
		if newest.Sub(r.Time) > backfillSpan {
			t.Fatalf("%s at %s comes after %s", r.Target.Labels, r.Time, newest)
		}
		if r.Time.After(newest) {
			newest = r.Time
		}
	})
	if err != nil || rounds["a:1"] != 480 || rounds["b:1"] != 480 {
		t.Errorf("%v: %v", err, rounds)
	}
}

func TestBackfillGoesOnWithLess(t *testing.T) {
	t.Parallel()
	var asked []float64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var start, end float64
		_, _ = fmt.Sscan(r.FormValue("start"), &start)
		_, _ = fmt.Sscan(r.FormValue("end"), &end)
		asked = append(asked, (end-start)/15+1)
		if end > start {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		_, _ = w.Write([]byte(`{"status":"success","data":{"result":[]}}`))
	}))
	defer server.Close()
	p, _, _ := newTestPrometheus(t, server.URL, ", interval: 15s, backfill: 15s")
	if err := p.Backfill(t.Context(), at(0), time.Time{}, func(context.Context, *Round) {}); err != nil || !slices.Equal(asked[:2], []float64{1, 1}) {
		t.Errorf("%v, asked for %v", err, asked)
	}
	p, _, _ = newTestPrometheus(t, server.URL, ", interval: 15s, backfill: 1m")
	asked = nil
	if err := p.Backfill(t.Context(), at(0), time.Time{}, func(context.Context, *Round) {}); err != nil || asked[0] != 4 || asked[1] != 2 || asked[2] != 1 {
		t.Errorf("%v, asked for %v", err, asked)
	}
}

func decodePrometheus(entries ...string) ([]PrometheusConfig, error) {
	var f struct {
		Sources []PrometheusConfig `yaml:"prometheus_sources"`
	}
	decoder := yaml.NewDecoder(strings.NewReader("prometheus_sources: [" + strings.Join(entries, ",") + "]"))
	decoder.KnownFields(true)
	err := decoder.Decode(&f)
	return f.Sources, err
}

func TestPrometheusConfig(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, entries, want string }{
		{"the usual", `{url: "http://p:9090", match: ['{job="x"}', "vllm:num_requests_running"], backfill: 0s, http_headers: {X-Scope-OrgID: {values: [a]}}}`, ""},
		{"no url", `{match: [up]}`, "line 1: prometheus_sources: url is missing"},
		{"a key in the url", `{url: "http://a:hush@p"}`, "url holds user info"},
		{"another scheme", `{url: "ftp://p"}`, `begins with "ftp"`},
		{"no selector", `{url: "http://p", match: ["sum(up)"]}`, "is no selector"},
		{"a long timeout", `{url: "http://p", interval: 5s, timeout: 10s}`, "longer than the interval"},
		{"a typo", `{url: "http://p", matches: [up]}`, `unknown key "matches"`},
		{"twice", `{url: "http://p"}, {url: "http://p"}`, "named twice"},
		{"a negative limit", `{url: "http://p", sample_limit: -1}`, "sample_limit is negative"},
		{"two ways to log in", `{url: "http://p", basic_auth: {username: a}, authorization: {credentials: hush}}`, "at most one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sources, err := decodePrometheus(tt.entries)
			if err == nil {
				err = CheckPrometheusConfig(sources)
			}
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush")):
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	for _, selector := range (&PrometheusConfig{}).selectors() {
		matchers, err := parseSelector(selector)
		if err != nil || len(selector) > 12_000 { // VictoriaMetrics takes 16 384 bytes
			t.Fatalf("%d bytes, %v", len(selector), err)
		}
		if strings.Contains(selector, "vllm:") {
			for name, want := range map[string]bool{VLLMPromptTokens: true, VLLMTTFT + "_bucket": true, "ray_vllm_num_requests_running": true, "vllm:gpu_cache_usage_perc": true, "vllm:lora_requests_info": false} {
				if matchers[0].Matches(name) != want {
					t.Errorf("%s is selected: %v", name, !want)
				}
			}
		}
	}
}

func TestPrometheusReload(t *testing.T) {
	t.Parallel()
	q := newQueryable(t)
	q.vector = oneEngine(float64(time.Now().Unix()), "1", `vllm:num_requests_running{job="vllm",instance="a:1"} 1`)
	k := newListener()
	g := DefaultGlobalConfig()
	g.ScrapeInterval, g.ScrapeTimeout = model.Duration(50*time.Millisecond), model.Duration(50*time.Millisecond)
	source := promConfig(t, fmt.Sprintf("{url: %q, timeout: 50ms}", q.URL))
	p, err := NewPrometheus(PrometheusOptions{Global: g, Sources: []PrometheusConfig{source}, Sink: k.sink})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	k.wait(t, 2)
	if err := p.Reload(g, []PrometheusConfig{{}}); err == nil {
		t.Error("an empty entry was taken")
	}
	if err := p.Reload(g, []PrometheusConfig{source}); err != nil || len(p.Targets()) != 2 {
		t.Errorf("%v, targets %+v", err, p.Targets())
	}
	if err := p.Reload(g, nil); err != nil || len(p.Targets()) != 0 {
		t.Errorf("%v, targets %+v", err, p.Targets())
	}
	k.mu.Lock()
	ended := instances(k.rounds[len(k.rounds)-2:])
	k.mu.Unlock()
	if !strings.Contains(ended[0], "a:1 unknown") || !strings.Contains(ended[1], " unknown") {
		t.Errorf("the last rounds are %q", ended)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
