package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

// What a page says of cached tokens depends on the version, the rest does not.
func TestReleases(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		version      string
		cached, sums bool
	}{
		{"", true, true}, {EngineVersion, true, true}, {CountersAndSums, false, true}, {CountersOnly, false, false},
	} {
		f := mustNew(t, Config{EngineVersion: tt.version, Quiet: true, Engines: 1})
		page := enginePage(t, f, 0)
		var snapshot Snapshot
		if err := f.EngineSnapshot(0, &snapshot); err != nil {
			t.Fatal(err)
		}
		shown, counted := []string{}, []string{}
		for _, l := range page.series {
			shown = append(shown, l.Get(model.MetricNameLabel))
		}
		for _, l := range snapshot.Labels {
			counted = append(counted, l.Get(model.MetricNameLabel))
		}
		for family, want := range map[string]bool{
			"vllm:prompt_tokens_cached_total": tt.cached, "vllm:prompt_tokens_by_source_total": tt.cached,
			"vllm:request_prefill_kv_computed_tokens_sum": tt.sums,
			"vllm:prefix_cache_queries_total":             true, "vllm:prompt_tokens_total": true, "vllm:request_prompt_tokens_sum": true,
		} {
			begins := func(name string) bool { return strings.HasPrefix(name, family) }
			onPage, inSnapshot := slices.ContainsFunc(shown, begins), slices.ContainsFunc(counted, begins)
			if onPage != want || inSnapshot != want {
				t.Errorf("version %q: %s on the page %v, in the snapshot %v, want %v", tt.version, family, onPage, inSnapshot, want)
			}
		}
	}
	if _, err := New(Config{EngineVersion: "0.1.0"}); err == nil || !strings.Contains(err.Error(), "0.1.0") {
		t.Errorf("a version that nobody knows: %v", err)
	}
}

// A request that waits for memory is looked up at every step, and versions
// before 0.27 count each.
func TestLookUpsOfWhoWaits(t *testing.T) {
	t.Parallel()
	queried := func(version string, single bool) float64 {
		hw := defaultHardware()
		hw.KVBlocks = 1001
		hw.MaxModelLen = 15_000
		f := mustNew(t, Config{Quiet: true, Engines: 1, Hardware: hw, EngineVersion: version, Workload: Workload{MaxContext: 10_000}})
		f.singleSteps = single
		first, second := f.newGuest(0, blockHashes{1}, 9600, 200, 4096), f.newGuest(0, blockHashes{2}, 8000, 10, 4096)
		f.receive(first)
		f.receive(second)
		f.Step(f.Truth().Now + time.Minute)
		if !first.progress().Finished || !second.progress().Finished {
			t.Fatal("they are not answered within a minute")
		}
		return engineFigures(t, f, 0)["vllm:prefix_cache_queries_total"]
	}
	const prompts, waiting = 9600 + 8000, 8000
	if got := queried(EngineVersion, false); got != prompts {
		t.Errorf("%v tokens are looked up, want those of the two prompts", got)
	}
	// The first one takes two steps for its prompt, in which nobody else is looked
	// at, and 199 more for its answer.
	for _, single := range []bool{true, false} {
		if got, want := queried(CountersOnly, single), float64(prompts+199*waiting); got != want {
			t.Errorf("step by step %v: %v tokens are looked up, want those that wait once more in each of 199 steps: %v", single, got, want)
		}
	}
}
