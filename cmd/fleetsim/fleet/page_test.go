package fleet

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// readPage is a parsed page: family kinds in order, and the value of each series.
type readPage struct {
	order  []string
	kinds  map[string]string
	values map[string]float64
	series []labels.Labels
}

func parsePage(t *testing.T, body []byte) readPage {
	t.Helper()
	page := readPage{kinds: map[string]string{}, values: map[string]float64{}}
	parser := textparse.NewPromParser(body, labels.NewSymbolTable(), false)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return page
		}
		if err != nil {
			t.Fatalf("page does not parse: %v", err)
		}
		switch entry {
		case textparse.EntryType:
			name, kind := parser.Type()
			page.order = append(page.order, string(name))
			page.kinds[string(name)] = string(kind)
		case textparse.EntrySeries:
			var lset labels.Labels
			parser.Labels(&lset)
			_, _, value := parser.Series()
			if _, twice := page.values[lset.String()]; twice {
				t.Fatalf("series %s stands twice on the page", lset)
			}
			page.values[lset.String()] = value
			page.series = append(page.series, lset)
		default:
		}
	}
}

func (p readPage) value(t *testing.T, name string, pairs ...string) float64 {
	t.Helper()
	sum, found := 0.0, false
	for _, lset := range p.series {
		if lset.Get(model.MetricNameLabel) != name {
			continue
		}
		matches := true
		for i := 0; i < len(pairs); i += 2 {
			matches = matches && lset.Get(pairs[i]) == pairs[i+1]
		}
		if matches {
			found = true
			sum += p.values[lset.String()]
		}
	}
	if !found {
		t.Fatalf("page has no %s %v", name, pairs)
	}
	return sum
}

// labelNames are, for each sample name, the label names and, for buckets, the
// bounds that occur with it.
func (p readPage) labelNames() map[string]string {
	names := map[string]string{}
	bounds := map[string][]string{}
	for _, lset := range p.series {
		name := lset.Get(model.MetricNameLabel)
		var keys []string
		lset.Range(func(l labels.Label) { keys = append(keys, l.Name) })
		names[name] = strings.Join(keys, " ")
		if le := lset.Get("le"); le != "" && !slices.Contains(bounds[name], le) {
			bounds[name] = append(bounds[name], le)
		}
	}
	for name, le := range bounds {
		names[name] += " of " + strings.Join(le, " ")
	}
	return names
}

func enginePage(t *testing.T, f *Fleet, i int) readPage {
	t.Helper()
	var body bytes.Buffer
	if err := f.EnginePage(i, &body); err != nil {
		t.Fatal(err)
	}
	return parsePage(t, body.Bytes())
}

func gatewayPage(t *testing.T, f *Fleet) readPage {
	t.Helper()
	var body bytes.Buffer
	if err := f.GatewayPage(&body); err != nil {
		t.Fatal(err)
	}
	return parsePage(t, body.Bytes())
}

func realPage(t *testing.T, name string) readPage {
	t.Helper()
	body, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return parsePage(t, body)
}

// smallConfig runs quickly and has the longest sequence of the real page.
func smallConfig() Config {
	return Config{
		Engines: 2, WarmUp: time.Minute, GatewayWorkers: 1,
		Hardware: Hardware{MaxModelLen: 16_384, KVBlocks: 3000},
		Workload: Workload{
			Sessions: 16, SystemPrompts: []int{512}, MaxContext: 4000, Plain: 0.5,
			FirstTokens: Spread{100, 0.5}, TurnTokens: Spread{100, 0.5}, CallTokens: Spread{100, 0.5},
			OutputTokens: Spread{30, 0.5},
		},
	}
}

// A page of version 0.32 recorded from a real engine is what an engine's page
// must look like: the same families in the same order, with the same labels,
// bounds and label values.
func TestEnginePageIsLikeTheRealOne(t *testing.T) {
	t.Parallel()
	f := mustNew(t, smallConfig())
	got, want := enginePage(t, f, 0), realPage(t, "vllm-0.32.0-engine-a.prom")
	if diff := cmp.Diff(want.order, got.order); diff != "" {
		t.Errorf("families differ (-real +simulated):\n%s", diff)
	}
	if diff := cmp.Diff(want.kinds, got.kinds); diff != "" {
		t.Errorf("kinds differ (-real +simulated):\n%s", diff)
	}
	if diff := cmp.Diff(want.labelNames(), got.labelNames()); diff != "" {
		t.Errorf("labels or bounds differ (-real +simulated):\n%s", diff)
	}
	if len(got.series) != len(want.series) {
		t.Errorf("%d series, the real page has %d", len(got.series), len(want.series))
	}
	capacity := 0
	for _, lset := range got.series {
		if lset.Get(model.MetricNameLabel) == "vllm:cache_config_info" && lset.Get("kv_cache_size_tokens") == "48000" {
			capacity++
		}
	}
	if capacity != 1 {
		t.Error("cache_config_info does not tell the capacity of 3000 blocks of 16 tokens")
	}
}

// The same for the gateway, after an outage so that there are failures. Unlike
// the recorded calls, not all are streamed here: overhead has series.
func TestGatewayPageIsLikeTheRealOne(t *testing.T) {
	t.Parallel()
	f := mustNew(t, smallConfig())
	for i := range f.engines { // with both away, calls fail for good
		stopEngine(i)(f)
	}
	f.Step(20 * time.Second)
	for i := range f.engines {
		startEngine(i, true)(f)
	}
	f.Step(time.Minute)
	got, want := gatewayPage(t, f), realPage(t, "litellm-1.102.0.prom")

	order := slices.DeleteFunc(slices.Clone(got.order), func(name string) bool {
		return strings.HasPrefix(name, "litellm_overhead_latency_metric_c")
	})
	if diff := cmp.Diff(want.order, order); diff != "" {
		t.Errorf("families differ (-real +simulated):\n%s", diff)
	}
	names, realNames := got.labelNames(), want.labelNames()
	maps.DeleteFunc(realNames, func(name, _ string) bool {
		return strings.HasPrefix(name, "litellm_check_batch_cost_") // jobs that this gateway does not run
	})
	for name, labelNames := range realNames {
		if names[name] != labelNames {
			t.Errorf("%s has %q, the real page %q", name, names[name], labelNames)
		}
	}
	for name := range names {
		if realNames[name] == "" && !strings.HasPrefix(name, "litellm_overhead_latency_metric") {
			t.Errorf("%s has series that the real page does not have", name)
		}
	}
}

// With several workers the page is that of the multiprocess mode.
func TestGatewayPageOfSeveralWorkers(t *testing.T) {
	t.Parallel()
	config := smallConfig()
	config.GatewayWorkers = 2
	f := mustNew(t, config)
	f.Step(time.Minute)
	page := gatewayPage(t, f)
	pids := map[string]bool{}
	for _, lset := range page.series {
		name := lset.Get(model.MetricNameLabel)
		if strings.HasSuffix(name, "_created") || strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "python_") {
			t.Errorf("the multiprocess mode has no %s", name)
		}
		pid := lset.Get("pid")
		if gauge := page.kinds[name] == "gauge" && name != "litellm_in_flight_requests"; gauge != (pid != "") {
			t.Errorf("%s: pid %q", lset, pid)
		}
		if name == "litellm_deployment_state" {
			pids[pid] = true
		}
	}
	if !pids["19"] || !pids["20"] {
		t.Errorf("deployment_state is told by workers %v, want 19 and 20", pids)
	}
	if got, want := page.value(t, "litellm_in_flight_requests"), float64(f.Truth().InFlight+1); got != want {
		t.Errorf("in flight %v, want %v (the scrape is one of them)", got, want)
	}
}

// What the pages count is what happened.
func TestPagesTellTheTruth(t *testing.T) {
	t.Parallel()
	f := mustNew(t, Config{Seed: 3, WarmUp: time.Minute})
	f.Step(2 * time.Minute)
	truth := f.Truth()
	requests := 0.0
	for i, e := range truth.Engines {
		page := enginePage(t, f, i)
		for name, want := range map[string]float64{
			"vllm:prompt_tokens_total":        float64(e.PromptTokens),
			"vllm:prompt_tokens_cached_total": float64(e.CachedTokens),
			"vllm:num_requests_running":       float64(e.Running),
			"vllm:num_requests_waiting":       float64(e.Waiting),
			"vllm:kv_cache_usage_perc":        e.KVUsage,
			"vllm:num_preemptions_total":      float64(e.Preemptions),
		} {
			if got := page.value(t, name); got != want {
				t.Errorf("engine %d: %s is %v, want %v", i, name, got, want)
			}
		}
		queries := page.value(t, "vllm:prefix_cache_queries_total")
		hits := page.value(t, "vllm:prefix_cache_hits_total")
		if share := float64(e.CachedTokens) / float64(e.PromptTokens); math.Abs(hits/queries-share) > 0.005 {
			t.Errorf("engine %d: hit ratio by look-ups %.3f, by first tokens %.3f", i, hits/queries, share)
		}
		requests += page.value(t, "vllm:request_success_total")
	}
	page := gatewayPage(t, f)
	if got := page.value(t, "litellm_proxy_total_requests_metric_total", "status_code", "200"); got != float64(truth.Calls) {
		t.Errorf("gateway counts %v good calls, want %d", got, truth.Calls)
	}
	if requests < float64(truth.Calls) || requests > float64(truth.Calls)+5 {
		t.Errorf("engines finished %v requests, the gateway answered %d", requests, truth.Calls)
	}
}

// No counter ever falls while nothing restarts.
func TestCountersOnlyGrow(t *testing.T) {
	t.Parallel()
	f := mustNew(t, Config{Seed: 4, Scenario: "demo", WarmUp: time.Minute})
	var last [5]readPage
	for now := onset - 20*time.Second; now <= onset+20*time.Second; now += 10 * time.Second {
		f.Step(now)
		for i := range last {
			page := readPage{}
			if i < 4 {
				page = enginePage(t, f, i)
			} else {
				page = gatewayPage(t, f)
			}
			for key, before := range last[i].values {
				name := key[strings.Index(key, `__name__="`)+10:]
				name = name[:strings.IndexByte(name, '"')]
				if page.kinds[name] == "gauge" {
					continue
				}
				if after, ok := page.values[key]; !ok || after < before {
					t.Fatalf("%v: %s went from %v to %v", now, key, before, after)
				}
			}
			last[i] = page
		}
	}
}

// Buckets add up to the count, and a value on a bound belongs below it.
func TestObserve(t *testing.T) {
	t.Parallel()
	s := &series{bounds: []float64{1, 2}, buckets: make([]uint64, 3)}
	for _, v := range []float64{0.5, 1, 1.5, 2, 3} {
		s.observe(v)
	}
	s.observeN(10, 2)
	if diff := cmp.Diff([]uint64{2, 2, 3}, s.buckets); diff != "" {
		t.Error(diff)
	}
	if s.count != 7 || s.sum != 28 {
		t.Errorf("count %d, sum %v", s.count, s.sum)
	}
}

func TestAppendNumber(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0.0", 1: "1.0", 0.001: "0.001", 15046: "15046.0", 999_999: "999999.0", 1e6: "1e+06",
		1_107_982: "1.107982e+06", 1.7959836241820674e+09: "1.7959836241820674e+09", 1.2e10: "1.2e+010",
		0.00005: "5e-05", 63.440000000000005: "63.440000000000005", math.Inf(1): "+Inf", math.Inf(-1): "-Inf",
		9.223372036854776e18: "9.223372036854776e+18", -2.5: "-2.5",
	} {
		if got := string(appendNumber(nil, v)); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
	if got := string(appendNumber(nil, math.NaN())); got != "NaN" {
		t.Errorf("NaN is written %s", got)
	}
}

func TestTokenBounds(t *testing.T) {
	t.Parallel()
	if got := tokenBounds(131_072); got[len(got)-1] != 100_000 || len(got) != 16 {
		t.Errorf("bounds of 131072: %v", got)
	}
	if got := tokenBounds(32_768); got[len(got)-1] != 20_000 {
		t.Errorf("bounds of 32768: %v", got)
	}
}

// A large organisation's page, for benchmarks, is a page like any other.
func TestFillGatewayPage(t *testing.T) {
	t.Parallel()
	f := mustNew(t, smallConfig())
	before := gatewayPage(t, f)
	f.FillGatewayPage(100)
	after := gatewayPage(t, f)
	const name = "litellm_proxy_total_requests_metric_total"
	if got := after.value(t, name) - before.value(t, name); got != 100 {
		t.Errorf("%v calls of 100 people", got)
	}
	if len(after.series) < len(before.series)+100*100 {
		t.Errorf("page grew from %d to %d series only", len(before.series), len(after.series))
	}
}
