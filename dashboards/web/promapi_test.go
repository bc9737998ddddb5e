package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"kvwatch/collector"
	"kvwatch/collector/history"
)

// The history behind the tests begins at promStart, and promNow is ten minutes later.
var (
	promStart = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	promNow   = promStart.Add(10 * time.Minute)
)

// newPromStore holds ten minutes of two engines at 15 s.
func newPromStore(t testing.TB) *history.Store {
	t.Helper()
	store, err := history.Open(history.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	series := func(name, instance string, more ...string) *collector.Series {
		return &collector.Series{Labels: labels.FromStrings(append([]string{"__name__", name, "job", "vllm", "instance", instance}, more...)...)}
	}
	tokensA, tokensB := series("vllm:prompt_tokens_total", "a:8000"), series("vllm:prompt_tokens_total", "b:8000")
	up, odd := series("up", "a:8000"), series("odd", "a:8000", "model_name", `qwen "3"`)
	for i := range 41 {
		samples := []collector.Sample{
			{Series: tokensA, Value: float64(30 * i)},
			{Series: tokensB, Value: float64(60 * i)},
			{Series: up, Value: 1},
			{Series: odd, Value: math.Inf(1)},
		}
		if err := store.Append(t.Context(), promStart.Add(time.Duration(i)*15*time.Second), samples, nil); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func newPromServer(t testing.TB, q storage.Queryable) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(PromAPI(PromAPIOptions{
		Queryable: q,
		Now:       func() time.Time { return promNow },
		Version:   "0.1.0",
		Logger:    slog.New(slog.DiscardHandler),
		Metadata: func() map[string][]Metadata {
			return map[string][]Metadata{
				"up":                       {{Type: "gauge", Help: "Whether the target answered."}},
				"vllm:prompt_tokens_total": {{Type: "counter", Help: "Prompt tokens.", Unit: "tokens"}, {Type: "unknown"}},
			}
		},
	}))
	t.Cleanup(srv.Close)
	return srv
}

func get(t testing.TB, srv *httptest.Server, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, req)
}

func do(t testing.TB, req *http.Request) (status int, body string) {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestPromAPIAnswers(t *testing.T) {
	t.Parallel()
	srv := newPromServer(t, newPromStore(t).Queryable())
	const at = "1772439000" // promNow
	for name, tc := range map[string]struct{ path, want string }{
		"vector": {
			"/api/v1/query?query=up",
			`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up","instance":"a:8000","job":"vllm"},"value":[` + at + `,"1"]}]}}`,
		},
		"no series": {
			"/api/v1/query?query=nothing",
			`{"status":"success","data":{"resultType":"vector","result":[]}}`,
		},
		"no series in a range": {
			"/api/v1/query_range?query=nothing&start=1&end=2&step=1",
			`{"status":"success","data":{"resultType":"matrix","result":[]}}`,
		},
		"scalar": {"/api/v1/query?query=1e-9&time=1.5", `{"status":"success","data":{"resultType":"scalar","result":[1.500,"1e-09"]}}`},
		"string": {"/api/v1/query?query=%22a%3Cb%22", `{"status":"success","data":{"resultType":"string","result":[` + at + `,"a\u003cb"]}}`},
		"infinity and quotes": {
			"/api/v1/query?query=odd",
			`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"odd","instance":"a:8000","job":"vllm","model_name":"qwen \"3\""},"value":[` + at + `,"+Inf"]}]}}`,
		},
		"not a number": {"/api/v1/query?query=0/0", `{"status":"success","data":{"resultType":"scalar","result":[` + at + `,"NaN"]}}`},
		"range": {
			"/api/v1/query_range?query=round(sum(rate(vllm:prompt_tokens_total[5m])),0.001)&start=1772438940.25&end=2026-03-02T08:10:00.25Z&step=1m",
			`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1772438940.250,"6"],[1772439000.250,"6"]]}]}}`,
		},
		"range vector": {
			"/api/v1/query?query=up[30s]",
			`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"up","instance":"a:8000","job":"vllm"},"values":[[1772438985,"1"],[` + at + `,"1"]]}]}}`,
		},
		"modifiers that the engine has off by default": {
			"/api/v1/query?query=count(up+@+1772438700)%2Bcount(up+offset+-1m)&time=1772438700",
			`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1772438700,"2"]}]}}`,
		},
		"limit": {
			"/api/v1/query?query=count(vllm:prompt_tokens_total)by(instance)&limit=1",
			`{"status":"success","warnings":["results truncated due to limit"],"data":{"resultType":"vector","result":[{"metric":{"instance":"a:8000"},"value":[` + at + `,"1"]}]}}`,
		},
		"shorter lookback": {
			"/api/v1/query?query=up&time=1772439060&lookback_delta=30s",
			`{"status":"success","data":{"resultType":"vector","result":[]}}`,
		},
		"series": {
			"/api/v1/series?match[]=up&match[]={instance=%22a:8000%22,__name__=%22up%22}",
			`{"status":"success","data":[{"__name__":"up","instance":"a:8000","job":"vllm"}]}`,
		},
		"no such series":     {"/api/v1/series?match[]=nothing", `{"status":"success","data":[]}`},
		"series of the past": {"/api/v1/series?match[]=up&end=1000", `{"status":"success","data":[]}`},
		"labels":             {"/api/v1/labels", `{"status":"success","data":["__name__","instance","job","model_name"]}`},
		"labels of two": {
			"/api/v1/labels?match[]=up&match[]=odd&limit=3",
			`{"status":"success","warnings":["results truncated due to limit"],"data":["__name__","instance","job"]}`,
		},
		"label values":         {"/api/v1/label/__name__/values", `{"status":"success","data":["odd","up","vllm:prompt_tokens_total"]}`},
		"label values of some": {"/api/v1/label/instance/values?match[]=up", `{"status":"success","data":["a:8000"]}`},
		"no label values":      {"/api/v1/label/nothing/values", `{"status":"success","data":[]}`},
		"always": {
			"/api/v1/label/job/values?start=-292273086-05-16T16:47:06Z&end=292277025-08-18T07:12:54.999999999Z",
			`{"status":"success","data":["vllm"]}`,
		},
		"metadata of one": {
			"/api/v1/metadata?metric=vllm:prompt_tokens_total&limit_per_metric=1",
			`{"status":"success","data":{"vllm:prompt_tokens_total":[{"type":"counter","help":"Prompt tokens.","unit":"tokens"}]}}`,
		},
		"metadata, limited": {
			"/api/v1/metadata?limit=1",
			`{"status":"success","data":{"up":[{"type":"gauge","help":"Whether the target answered.","unit":""}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := get(t, srv, tc.path)
			if status != http.StatusOK {
				t.Errorf("status %d", status)
			}
			if d := cmp.Diff(tc.want, body); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestPromAPIErrors(t *testing.T) {
	t.Parallel()
	srv := newPromServer(t, newPromStore(t).Queryable())
	for name, tc := range map[string]struct {
		path   string
		status int
		kind   string
		text   string
	}{
		"no query":             {"/api/v1/query", 400, "bad_data", `invalid parameter "query"`},
		"bad query":            {"/api/v1/query?query=rate(", 400, "bad_data", `invalid parameter "query"`},
		"bad time":             {"/api/v1/query?query=up&time=yesterday", 400, "bad_data", `invalid parameter "time"`},
		"time out of range":    {"/api/v1/query?query=up&time=1e300", 400, "bad_data", `invalid parameter "time"`},
		"time is no number":    {"/api/v1/query?query=up&time=NaN", 400, "bad_data", `invalid parameter "time"`},
		"bad timeout":          {"/api/v1/query?query=up&timeout=soon", 400, "bad_data", `invalid parameter "timeout"`},
		"negative timeout":     {"/api/v1/query?query=up&timeout=-1", 400, "bad_data", `must be over 0`},
		"bad limit":            {"/api/v1/query?query=up&limit=few", 400, "bad_data", `invalid parameter "limit"`},
		"negative limit":       {"/api/v1/query?query=up&limit=-1", 400, "bad_data", "non-negative"},
		"a range of a range":   {"/api/v1/query_range?query=up[5m]&start=1&end=2&step=1", 400, "bad_data", "invalid expression type"},
		"no start":             {"/api/v1/query_range?query=up&end=1&step=1", 400, "bad_data", `invalid parameter "start"`},
		"end before start":     {"/api/v1/query_range?query=up&start=2&end=1&step=1", 400, "bad_data", "before start"},
		"zero step":            {"/api/v1/query_range?query=up&start=1&end=2&step=0", 400, "bad_data", `invalid parameter "step"`},
		"endless step":         {"/api/v1/query_range?query=up&start=1&end=2&step=1e30", 400, "bad_data", "too long"},
		"too many points":      {"/api/v1/query_range?query=up&start=0&end=11001&step=1", 400, "bad_data", "11000 points"},
		"many to many":         {"/api/v1/query?query=vllm:prompt_tokens_total*on(job)vllm:prompt_tokens_total", 422, "execution", "many-to-many"},
		"no time left":         {"/api/v1/query?query=up&timeout=0.000000001", 503, "timeout", ""},
		"series of what":       {"/api/v1/series", 400, "bad_data", "no match[] parameter provided"},
		"series of everything": {"/api/v1/series?match[]={job=~%22.*%22}", 400, "bad_data", "non-empty matcher"},
		"bad selector":         {"/api/v1/labels?match[]=rate(up)", 400, "bad_data", `invalid parameter "match[]"`},
		"bad label name":       {"/api/v1/label/%FF/values", 400, "bad_data", "invalid label name"},
		"bad start":            {"/api/v1/label/job/values?start=x", 400, "bad_data", `invalid parameter "start"`},
		"bad metadata limit":   {"/api/v1/metadata?limit=x", 400, "bad_data", `invalid parameter "limit"`},
		"bad form":             {"/api/v1/query?query=%zz", 400, "bad_data", `invalid parameter "form"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := get(t, srv, tc.path)
			var e promError
			if err := json.Unmarshal([]byte(body), &e); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			if status != tc.status || e.Status != "error" || e.ErrorType != tc.kind || !strings.Contains(e.Error, tc.text) {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

func TestPromAPIStorageErrors(t *testing.T) {
	t.Parallel()
	closed := newPromStore(t)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	notReady := storage.QueryableFunc(func(int64, int64) (storage.Querier, error) { return nil, tsdb.ErrNotReady })
	for name, tc := range map[string]struct {
		q      storage.Queryable
		path   string
		status int
	}{
		"query a closed storage":  {closed.Queryable(), "/api/v1/query?query=up", 422},
		"query before it is open": {notReady, "/api/v1/query?query=up", 503},
		"labels before it is":     {notReady, "/api/v1/labels", 503},
	} {
		if status, body := get(t, newPromServer(t, tc.q), tc.path); status != tc.status {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// TestPromAPIHistograms asks for a histogram as dashboards do: by its buckets,
// its sum and its count, and as the one that it is stored as.
func TestPromAPIHistograms(t *testing.T) {
	t.Parallel()
	store := newPromStore(t)
	h := &collector.Series{Labels: labels.FromStrings("__name__", "vllm:e2e_request_latency_seconds", "instance", "a:8000", "job", "vllm"), Whole: true}
	bounds := []float64{1, 2.5, math.Inf(1)}
	for i := range 41 {
		n := float64(i)
		r := collector.Round{Time: promStart.Add(time.Duration(i) * 15 * time.Second), Histograms: []collector.Histogram{
			{Series: h, Bounds: bounds, Buckets: []float64{n, 3 * n, 4 * n}, Sum: 6 * n, Count: 4 * n},
		}}
		if err := store.AppendRound(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
	}
	srv := newPromServer(t, store.Queryable())
	const of = `"instance":"a:8000","job":"vllm"`
	bucket := func(le string) string {
		return `{"__name__":"vllm:e2e_request_latency_seconds_bucket",` + of + `,"le":"` + le + `"}`
	}
	for name, tc := range map[string]struct{ path, query, want string }{
		"quantile": {"query", `query=histogram_quantile(0.5, sum by (le) (rate(vllm:e2e_request_latency_seconds_bucket[5m])))`, `"result":[{"metric":{},"value":[1772439000,"1.75`},
		"quantile of the whole": {
			"query", `query=histogram_quantile(0.5, sum(rate(vllm:e2e_request_latency_seconds[5m])))`, `"result":[{"metric":{},"value":[1772439000,"1.75`,
		},
		"mean":    {"query", `query=rate(vllm:e2e_request_latency_seconds_sum[5m]) / rate(vllm:e2e_request_latency_seconds_count[5m])`, `"result":[{"metric":{` + of + `},"value":[1772439000,"1.5"]}]`},
		"whole":   {"query", `query=vllm:e2e_request_latency_seconds`, `"histogram":[1772439000,{"count":"160","sum":"240","buckets":[[3,"-Inf","1","40"],[0,"1","2.5","80"],[0,"2.5","+Inf","40"]]}]`},
		"series":  {"series", `match[]={__name__=~".+seconds_bucket"}`, `"data":[` + bucket("+Inf") + "," + bucket("1.0") + "," + bucket("2.5") + `]`},
		"limited": {"series", `match[]={__name__=~".+seconds_bucket"}&limit=1`, `"data":[` + bucket("+Inf") + `]`},
		"bounds":  {"label/le/values", ``, `"data":["+Inf","1.0","2.5"]`},
		"names":   {"label/__name__/values", `match[]={instance="a:8000",__name__=~"vllm:e2e.+"}`, `"data":["vllm:e2e_request_latency_seconds","vllm:e2e_request_latency_seconds_bucket","vllm:e2e_request_latency_seconds_count","vllm:e2e_request_latency_seconds_sum"]`},
		"labels":  {"labels", `match[]=vllm:e2e_request_latency_seconds_bucket`, `"data":["__name__","instance","job","le"]`},
		"others":  {"label/instance/values", `match[]=vllm:e2e_request_latency_seconds_count`, `"data":["a:8000"]`},
		"none":    {"label/instance/values", `match[]=vllm:e2e_request_latency_seconds_bucket{le="7"}`, `"data":[]`},
	} {
		form, err := url.ParseQuery(strings.ReplaceAll(tc.query, "+", "%2B"))
		if err != nil {
			t.Fatal(err)
		}
		if status, body := get(t, srv, "/api/v1/"+tc.path+"?"+form.Encode()); status != http.StatusOK || !strings.Contains(body, tc.want) {
			t.Errorf("%s: %d %s, want %s", name, status, body, tc.want)
		}
	}
}

func TestPromAPIErrorKinds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err    error
		kind   string
		status int
	}{
		{promql.ErrTooManySamples("query execution"), "execution", 422},
		{promql.ErrQueryTimeout("query execution"), "timeout", 503},
		{promql.ErrQueryCanceled("query execution"), "canceled", 499},
		{fmt.Errorf("series: %w", context.Canceled), "canceled", 499},
		{promql.ErrStorage{Err: errors.New("disk")}, "internal", 500},
		{promql.ErrStorage{Err: tsdb.ErrNotReady}, "unavailable", 503},
	} {
		if kind := errorKind(tc.err); kind != tc.kind || errorStatus(kind) != tc.status {
			t.Errorf("%v: %s, %d", tc.err, kind, errorStatus(kind))
		}
	}
}

func TestPromAPIMethods(t *testing.T) {
	t.Parallel()
	srv := newPromServer(t, newPromStore(t).Queryable())
	for _, path := range []string{"/api/v1/query", "/api/v1/query_range", "/api/v1/series", "/api/v1/labels"} {
		form := url.Values{"query": {"up"}, "match[]": {"up"}, "start": {"1772439000"}, "end": {"1772439000"}, "step": {"15s"}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		status, posted := do(t, req)
		_, got := get(t, srv, path+"?"+form.Encode())
		if status != http.StatusOK || posted != got {
			t.Errorf("%s: POST gave %d %s, GET %s", path, status, posted, got)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, srv.URL+"/api/v1/series", nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := do(t, req); status != http.StatusMethodNotAllowed {
		t.Errorf("DELETE gave %d", status)
	}
}

// Prometheus's own client reads the answers.
func TestPromAPIByClient(t *testing.T) {
	t.Parallel()
	client, err := api.NewClient(api.Config{Address: newPromServer(t, newPromStore(t).Queryable()).URL})
	if err != nil {
		t.Fatal(err)
	}
	c, ctx := v1.NewAPI(client), t.Context()

	value, warnings, infos, err := c.Query(ctx, "round(rate(vllm:prompt_tokens_total[5m]), 0.001)", promNow)
	if err != nil || len(warnings) > 0 || len(infos) > 0 {
		t.Fatal(err, warnings, infos)
	}
	if v, ok := value.(model.Vector); !ok || len(v) != 2 || v[0].Value != 2 || v[1].Value != 4 {
		t.Errorf("query: %v", value)
	}
	_, _, infos, err = c.Query(ctx, "rate(odd[5m])", promNow)
	if err != nil || len(infos) != 1 || !strings.Contains(infos[0], "might not be a counter") {
		t.Errorf("infos: %q, %v", infos, err)
	}
	value, _, _, err = c.QueryRange(ctx, "up", v1.Range{Start: promStart, End: promNow, Step: time.Minute})
	if m, ok := value.(model.Matrix); err != nil || !ok || len(m) != 1 || len(m[0].Values) != 11 {
		t.Errorf("query_range: %v, %v", value, err)
	}
	sets, _, _, err := c.Series(ctx, []string{"up", "odd"}, promStart, promNow)
	if err != nil || len(sets) != 2 {
		t.Errorf("series: %v, %v", sets, err)
	}
	names, _, _, err := c.LabelNames(ctx, nil, promStart, promNow)
	if err != nil || len(names) != 4 {
		t.Errorf("labels: %v, %v", names, err)
	}
	values, _, _, err := c.LabelValues(ctx, "instance", nil, promStart, promNow)
	if err != nil || len(values) != 2 {
		t.Errorf("label values: %v, %v", values, err)
	}
	metadata, err := c.Metadata(ctx, "up", "")
	if err != nil || len(metadata["up"]) != 1 || metadata["up"][0].Type != v1.MetricTypeGauge {
		t.Errorf("metadata: %v, %v", metadata, err)
	}
	build, err := c.Buildinfo(ctx)
	if err != nil || build.Version != "0.1.0" || build.GoVersion == "" {
		t.Errorf("buildinfo: %+v, %v", build, err)
	}
	var apiErr *v1.Error
	if _, _, _, err = c.Query(ctx, "(", promNow); !errors.As(err, &apiErr) || apiErr.Type != v1.ErrBadData {
		t.Errorf("a bad query: %v", err)
	}
}

func TestQueryGate(t *testing.T) {
	t.Parallel()
	g := make(queryGate, 1)
	i, err := g.Insert(t.Context(), "up")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Insert(ctx, "up"); !errors.Is(err, context.Canceled) {
		t.Errorf("a second query went through: %v", err)
	}
	g.Delete(i)
	if _, err := g.Insert(t.Context(), "up"); err != nil {
		t.Error(err)
	}
}

// What the hand-written encoder writes is what encoding/json reads and means.
func TestEncodeResultLikeEncodingJSON(t *testing.T) {
	t.Parallel()
	m := promql.Matrix{
		{Metric: labels.FromStrings("__name__", "a", "b", "c\\\"\n<é")},
		{Metric: labels.EmptyLabels(), Floats: []promql.FPoint{
			{T: 0, F: 0}, {T: 1, F: math.Inf(-1)}, {T: 1010, F: 0.1}, {T: -1500, F: -12.5}, {T: 1772439000000, F: 1 << 60},
		}},
	}
	got, err := encodeResult(m)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(map[string]any{"resultType": "matrix", "result": m})
	if err != nil {
		t.Fatal(err)
	}
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(w, g); d != "" {
		t.Errorf("(-encoding/json +ours):\n%s", d)
	}
}

func FuzzPromParams(f *testing.F) {
	f.Add("1772439000.25", "2026-03-02T08:10:00Z", "15s", "up")
	f.Add("-1", "1e300", "0.001", `{__name__=~"v.+"}`)
	f.Add("NaN", "-292273086-05-16T16:47:06Z", "1y", "")
	empty := storage.QueryableFunc(func(int64, int64) (storage.Querier, error) { return storage.NoopQuerier(), nil })
	h := PromAPI(PromAPIOptions{Queryable: empty, Now: func() time.Time { return promNow }, Logger: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, start, end, step, match string) {
		form := url.Values{"start": {start}, "end": {end}, "time": {start}, "step": {step}, "timeout": {step}, "query": {"up"}, "match[]": {match}}.Encode()
		for _, path := range []string{"/api/v1/query", "/api/v1/query_range", "/api/v1/series"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path+"?"+form, nil))
			if !json.Valid(w.Body.Bytes()) || w.Code == http.StatusInternalServerError {
				t.Errorf("%s?%s: %d %s", path, form, w.Code, w.Body)
			}
		}
	})
}

// BenchmarkEncodeResult is a panel of 100 series with 1 000 points each.
func BenchmarkEncodeResult(b *testing.B) {
	m := make(promql.Matrix, 100)
	for i := range m {
		m[i].Metric = labels.FromStrings("__name__", "kvwatch_prefix_cache_hit_ratio", "instance", fmt.Sprint(i))
		for j := range 1000 {
			m[i].Floats = append(m[i].Floats, promql.FPoint{T: promStart.UnixMilli() + int64(j)*15000, F: float64(i*j) / 7})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encodeResult(m); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e5, "ns/point")
}
