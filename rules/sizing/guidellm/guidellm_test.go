package guidellm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"kvwatch/rules/sizing"
)

// realReport reads a report of a real run; its lists of requests are cut to three.
func realReport(t testing.TB, name string) []byte {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("testdata", name+".json.zst"))
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	text, err := decoder.DecodeAll(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func read(t testing.TB, text []byte) *Report {
	t.Helper()
	r, err := Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// at follows a path in a decoded document.
func at(t *testing.T, v any, path ...string) any {
	t.Helper()
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("%v: nothing at %q", path, key)
		}
		v = m[key]
	}
	return v
}

func number(t *testing.T, v any, path ...string) float64 {
	t.Helper()
	n, ok := at(t, v, path...).(float64)
	if !ok {
		t.Fatalf("%v is no number", path)
	}
	return n
}

// TestRealReports holds each level to an independent reading of the document.
func TestRealReports(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, layout, version string
		totals                []string
		strategy              string
	}{
		{"constant-0.3.1", Layout02, "", []string{"request_totals"}, "args"},
		{"sweep-0.8.1", Layout08, "0.8.1", []string{"metrics", "request_totals"}, "config"},
	} {
		text := realReport(t, c.name)
		r := read(t, text)
		if r.Layout != c.layout || r.Version != c.version || r.Model != "tiny-chat" || r.Target != "http://127.0.0.1:18001" {
			t.Errorf("%s: %q, %q, %q, %q", c.name, r.Layout, r.Version, r.Model, r.Target)
		}
		var doc struct{ Benchmarks []any }
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		if len(r.Levels) != len(doc.Benchmarks) {
			t.Fatalf("%s: %d levels", c.name, len(r.Levels))
		}
		for i, b := range doc.Benchmarks {
			l := &r.Levels[i]
			if want := at(t, b, c.strategy, "strategy", "type_"); l.Strategy != want {
				t.Errorf("%s %d: %s, want %v", c.name, i, l.Strategy, want)
			}
			if got, want := float64(l.Requests.Successful), number(t, b, append(c.totals, "successful")...); got != want {
				t.Errorf("%s %d: %v answered, want %v", c.name, i, got, want)
			}
			if got, want := float64(l.Requests.Incomplete), number(t, b, append(c.totals, "incomplete")...); got != want {
				t.Errorf("%s %d: %v cut off, want %v", c.name, i, got, want)
			}
			if got, want := float64(l.Start.UnixMicro())/1e6, number(t, b, "start_time"); math.Abs(got-want) > 1e-5 {
				t.Errorf("%s %d: start %v, want %v", c.name, i, got, want)
			}
			for name, known := range latencyMetrics {
				for _, q := range []string{sizing.P50, sizing.P90, sizing.P95, sizing.P99} {
					from := []string{"metrics", name, "successful", "percentiles", q}
					if q == sizing.P50 {
						from = []string{"metrics", name, "successful", "median"}
					}
					want := number(t, b, from...) / known.unit
					got, ok := l.Quantile(known.metric, q)
					if measured := l.Requests.Successful > 0; ok != measured || measured && got != want {
						t.Errorf("%s %d: %s %s: %v (%v), want %v", c.name, i, name, q, got, ok, want)
					}
				}
			}
			if l.Requests.Successful == 0 {
				if l.AchievedRate != nil || l.OutputTPS != nil || l.MeanConcurrency != nil {
					t.Errorf("%s %d: the zeros of an empty distribution were taken for values", c.name, i)
				}
				continue
			}
			if want := number(t, b, "metrics", "output_tokens_per_second", "successful", "mean"); *l.OutputTPS != want {
				t.Errorf("%s %d: %v tokens/s, want %v", c.name, i, *l.OutputTPS, want)
			}
			if len(l.Sample) != 3 {
				t.Errorf("%s %d: %d requests kept", c.name, i, len(l.Sample))
			}
		}
	}
}

// older makes a report of an older layout from the real one of 0.8.1, after
// GuideLLM's source at that version. These are made, not recorded.
func older(t *testing.T, version string) []byte {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(realReport(t, "sweep-0.8.1"), &doc); err != nil {
		t.Fatal(err)
	}
	delete(doc, "conclusions")
	list, ok := doc["benchmarks"].([]any)
	if !ok {
		t.Fatal("no benchmarks")
	}
	for _, b := range list {
		metrics, ok := at(t, b, "metrics").(map[string]any)
		if !ok {
			t.Fatal("no metrics")
		}
		for _, later := range []string{"slo_attainment", "slo_determined_requests", "request_goodput", "turns", "request_dispatch_delay", "request_scheduled_latency"} {
			delete(metrics, later)
		}
	}
	if version != Layout07 {
		doc["args"] = map[string]any{"target": "http://vllm:8000", "model": "tiny-chat", "rate": []any{1.0}}
		delete(doc, "config")
		doc["metadata"] = map[string]any{"version": 1, "guidellm_version": "0.6.1"}
	}
	if version == Layout04 {
		delete(doc, "metadata")
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestMadeLayouts: what later layouts moved is found where older ones have it.
func TestMadeLayouts(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{Layout04, Layout05, Layout07} {
		r := read(t, older(t, layout))
		if r.Layout != layout || len(r.Levels) != 3 || r.Model != "tiny-chat" {
			t.Errorf("%s: %q, %d levels, model %q", layout, r.Layout, len(r.Levels), r.Model)
		}
		if v, ok := r.Levels[2].Quantile(sizing.TTFT, sizing.P95); !ok || math.Abs(v-0.377) > 1e-3 {
			t.Errorf("%s: %v, %v", layout, v, ok)
		}
	}
}

// raw is a made report of 0.1: n requests one after another, each of 1 s.
func raw(n int) string {
	var results []string
	for i := range n {
		results = append(results, fmt.Sprintf(`{"request":{},"prompt":"p","output":"o","output_token_count":10,"start_time":%d,"end_time":%d,"first_token_time":%g,"decode_times":{"data":[0.01,0.02,0.03]}}`,
			1000+i, 1001+i, 0.1+0.01*float64(i)))
	}
	return fmt.Sprintf(`{"benchmarks":[{"benchmarks":[{"mode":"asynchronous","rate":2.0,"results":[%s],"errors":[{"message":"x"}],"concurrencies":[{"time":1,"processing":1},{"time":2,"processing":3}]},
		{"mode":"synchronous","rate":null,"results":[],"errors":[],"concurrencies":[]}],"args":{"target":"http://u:secret@vllm:8000/v1?k=1","model":"m"}}]}`, strings.Join(results, ","))
}

// TestRawLayout: 0.1 has no statistics, so they are computed.
func TestRawLayout(t *testing.T) {
	t.Parallel()
	r := read(t, []byte(raw(101)))
	if r.Layout != Layout01 || len(r.Levels) != 2 || r.Model != "m" || r.Target != "http://vllm:8000/v1" {
		t.Fatalf("%q, %q, %q, %d levels", r.Layout, r.Target, r.Model, len(r.Levels))
	}
	l := r.Levels[0]
	for q, want := range map[string]float64{sizing.P50: 0.6, sizing.P90: 1.0, sizing.P95: 1.05, sizing.P99: 1.09} {
		if v, ok := l.Quantile(sizing.TTFT, q); !ok || math.Abs(v-want) > 1e-9 {
			t.Errorf("TTFT %s: %v, want %v", q, v, want)
		}
	}
	if v, _ := l.Quantile(sizing.ITL, sizing.P95); v != 0.03 {
		t.Errorf("ITL %v", v)
	}
	if *l.AchievedRate != 1 || *l.OutputTPS != 10 || *l.MeanConcurrency != 2 || l.Requests.Errored != 1 || *l.Rate != 2 || l.Loop != sizing.OpenLoop {
		t.Errorf("%+v", l)
	}
	if math.Abs(l.Sample[0].ITL-0.02) > 1e-12 || l.Sample[0].E2E != 1 {
		t.Errorf("%+v", l.Sample[0])
	}
	if r.Levels[1].Requests.Total() != 0 || r.Levels[1].Loop != sizing.ClosedLoop {
		t.Errorf("%+v", r.Levels[1])
	}
}

// TestThinned: however many values, quantiles stay, and memory is bounded.
func TestThinned(t *testing.T) {
	t.Parallel()
	var kept thinned
	const n = 5 * maxValues
	for i := range n {
		kept.add(float64(i))
	}
	if len(kept.values) > maxValues {
		t.Errorf("%d values kept", len(kept.values))
	}
	d := kept.distribution()
	if d.Count != n || math.Abs(d.Quantiles[sizing.P95]/n-0.95) > 1e-4 || *d.Mean != (n-1)/2.0 {
		t.Errorf("%v", d)
	}
}

// TestTraps: each trap of a report is told.
func TestTraps(t *testing.T) {
	t.Parallel()
	level := func(change func(metrics, b map[string]any)) map[string]any {
		times := func(mean, p95 float64) any {
			return map[string]any{"successful": map[string]any{"mean": mean, "count": 100, "percentiles": map[string]any{"p95": p95}}}
		}
		metrics := map[string]any{
			"request_totals":      map[string]any{"successful": 100, "errored": 0, "incomplete": 0},
			"requests_per_second": times(1, 1), "output_tokens_per_second": times(100, 100), "request_concurrency": times(2, 2),
			"time_to_first_token_ms": times(200, 300), "inter_token_latency_ms": times(20, 30), "request_latency": times(2.2, 3),
		}
		b := map[string]any{"config": map[string]any{"strategy": map[string]any{"type_": "constant", "rate": 1}}, "metrics": metrics, "warmup_duration": 5.0}
		change(metrics, b)
		return b
	}
	strategy := func(s map[string]any) func(map[string]any, map[string]any) {
		return func(_, b map[string]any) { b["config"] = map[string]any{"strategy": s} }
	}
	same := func(map[string]any, map[string]any) {}
	for want, levels := range map[string][]map[string]any{
		"":                                     {level(same)},
		"no request was answered at constant":  {level(func(m, _ map[string]any) { m["request_totals"] = map[string]any{"incomplete": 9} })},
		"percentiles of times are missing":     {level(func(m, _ map[string]any) { delete(m, "inter_token_latency_ms") })},
		"fewer than 20 requests were answered": {level(func(m, _ map[string]any) { m["request_totals"] = map[string]any{"successful": 19} })},
		"more than 20 % of requests were cut":  {level(func(m, _ map[string]any) { m["request_totals"] = map[string]any{"successful": 100, "incomplete": 60} })},
		"no warm-up was left out":              {level(func(_, b map[string]any) { b["warmup_duration"] = 0.0 })},
		"times are in mixed units at constant 1": {level(func(m, _ map[string]any) {
			m["time_to_first_token_ms"] = m["request_latency"]
			m["request_latency"] = map[string]any{"successful": map[string]any{"mean": 2200.0, "count": 100}}
		})},
		"the cap on concurrency was reached": {level(strategy(map[string]any{"type_": "constant", "rate": 1, "max_concurrency": 2}))},
		"requests went out late at constant 1": {level(func(m, _ map[string]any) {
			m["request_dispatch_delay"] = map[string]any{"successful": map[string]any{"count": 100, "percentiles": map[string]any{"p95": 0.031}}}
		})},
		"the rate was not kept at constant 1": {level(func(m, _ map[string]any) {
			m["requests_per_second"] = map[string]any{"successful": map[string]any{"mean": 0.89, "count": 100}}
		})},
		"an open loop without a rate":        {level(strategy(map[string]any{"type_": "trace"}))},
		"not run in the order of their load": {level(strategy(map[string]any{"type_": "constant", "rate": 1.1})), level(same)},
		"GuideLLM at constant 1 req/s: late": {level(func(_, b map[string]any) { b["warnings"] = []any{map[string]any{"message": "late"}} })},
		"1 entries of benchmarks are no":     {level(same), {"type_": "something"}},
		"70 % of the prompt tokens": {level(func(_, b map[string]any) {
			b["requests"] = map[string]any{"successful": []any{map[string]any{"prompt_tokens": 100, "cached_tokens": 70}}}
		})},
	} {
		text, err := json.Marshal(map[string]any{"benchmarks": levels})
		if err != nil {
			t.Fatal(err)
		}
		r := read(t, text)
		switch {
		case want == "" && len(r.Warnings) > 0:
			t.Errorf("a sound report: %q", r.Warnings)
		case len(r.Warnings) != 1 && want != "" || !strings.Contains(strings.Join(r.Warnings, "\n"), want):
			t.Errorf("want %q only: %q", want, r.Warnings)
		}
	}
}

// TestTolerated: what Python writes and JSON does not have is absent, and a broken
// end leaves the levels before it.
func TestTolerated(t *testing.T) {
	t.Parallel()
	text := string(realReport(t, "constant-0.3.1"))
	nan := strings.ReplaceAll(text, "947.9391574859619", "NaN")
	if nan == text {
		t.Fatal("the value was not found")
	}
	r := read(t, []byte(nan))
	if _, ok := r.Levels[0].Quantile(sizing.TTFT, sizing.P95); ok || len(r.Levels) != 3 {
		t.Errorf("NaN was taken for a value")
	}
	r = read(t, []byte(text[:len(text)-2000]))
	if len(r.Levels) != 2 || !strings.Contains(strings.Join(r.Warnings, "\n"), "broken after 2 levels, what follows is left out: the file ends in the middle") {
		t.Errorf("%d levels, %q", len(r.Levels), r.Warnings)
	}
	for input, want := range map[string]string{
		"":                                   "the file is empty",
		"{":                                  "ends in the middle",
		"metadata:\n  version: 2\n":          "kvwatch reads GuideLLM's JSON",
		`{"levels":[]}`:                      "it has no benchmarks",
		`[]`:                                 "it has no benchmarks",
		`{"benchmarks":[]}`:                  "no level that could be read",
		`{"benchmarks":{"a":[1]}}`:           "no level that could be read",
		strings.Repeat("[", 300):             "deep in each other",
		`{"benchmarks":` + digits(100) + `}`: "longer than any that JSON has",
	} {
		if _, err := Read(strings.NewReader(input)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", input, err, want)
		}
	}
}

func digits(n int) string { return strings.Repeat("9", n) }

// TestLongReport: a report of 200 MB of prompts is read in a few MB of memory.
func TestLongReport(t *testing.T) {
	t.Parallel()
	const requests, prompt = 2000, 100_000
	body := strings.Repeat(`long \"text\" A `, prompt/20)
	pr, pw := io.Pipe()
	go func() {
		w := func(s string) { _, _ = io.WriteString(pw, s) }
		w(`{"benchmarks":[{"args":{"strategy":{"type_":"constant","rate":1}},"requests":{"successful":[`)
		for i := range requests {
			if i > 0 {
				w(",")
			}
			w(`{"prompt":"` + body + `","output_tokens":10,"time_to_first_token_ms":100,"inter_token_latency_ms":10}`)
		}
		w(`]},"metrics":{},"request_totals":{"successful":2000}}]}`)
		_ = pw.Close()
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := Read(pr)
	runtime.ReadMemStats(&after)
	if err != nil || len(r.Levels) != 1 || len(r.Levels[0].Sample) != requests {
		t.Fatalf("%+v, %v", r, err)
	}
	if used := int64(after.HeapInuse) - int64(before.HeapInuse); used > 64<<20 {
		t.Errorf("%d MB of memory", used>>20)
	}
}

// FuzzWalker holds what is JSON to the standard library, which knows no other
// words and takes any depth and length.
func FuzzWalker(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2.5e+3,0,true,false,null,"x\\u00e9\\n\\\\"],"b":{}}`, ` [ ] `, `01`, `1.`, `-`, `1e`, `+1`, `.5`, `"\\x"`, `"\\u12g4"`, "\"\x01\"", `{"a" 1}`, `{"a":1,}`, `[1,]`, `[1 2]`, `tru`, `nulll`, `""x`, "\"\xff\"", `{1:2}`, ``, ` `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w := newWalker(bytes.NewReader(text))
		err := w.skip()
		if err == nil {
			err = w.trailing()
		}
		if err == nil {
			for _, word := range []string{"NaN", "Infinity", "inf", "nan"} {
				if bytes.Contains(text, []byte(word)) {
					return
				}
			}
		}
		if err != nil && (strings.Contains(err.Error(), "deep in each other") || strings.Contains(err.Error(), "longer than any")) {
			return
		}
		if valid := json.Valid(text); valid != (err == nil) {
			t.Fatalf("%q: valid %v, %v", text, valid, err)
		}
		var want string
		if json.Unmarshal(text, &want) == nil && len(text) < longestText && bytes.HasPrefix(text, []byte{'"'}) {
			got, err := newWalker(bytes.NewReader(text)).text()
			if err != nil || utf8.Valid(text) && got != want {
				t.Fatalf("%q: %q, %v, want %q", text, got, err, want)
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(raw(3)))
	f.Add([]byte(`{"metadata":{"version":2},"benchmarks":[{"config":{"strategy":{"type_":"throughput"}},"metrics":{"request_totals":{"successful":1},"slo_attainment":NaN}}],"conclusions":[]}`))
	f.Add([]byte(`{"benchmarks":[{"args":{"strategy":{"kind":"concurrent","streams":1e999}},"metrics":{"request_latency":{"successful":{"count":-1,"mean":-Infinity}}},"start_time":1e300}]}`))
	f.Add([]byte(`{"benchmarks":[null,1,"\u00e9\\",[{"metrics":[]}]]}`))
	f.Add([]byte(`{"benchmarks":[{"metrics":{}}],`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Read(bytes.NewReader(text))
		if (r == nil) == (err == nil) {
			t.Fatalf("%v, %v", r, err)
		}
		if err != nil {
			return
		}
		judged, knee := sizing.FindKnee(r.Levels, sizing.Chat.Objectives())
		if knee.Level != nil && (*knee.Level < 0 || *knee.Level >= len(judged)) {
			t.Fatalf("level %d of %d", *knee.Level, len(judged))
		}
		if _, err := json.Marshal(r.Warnings); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	text := realReport(b, "sweep-0.8.1")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
