package collector

import "strings"

// vLLM's engines number themselves per data-parallel rank; V0, the simulator
// of llm-d and frontends without data parallelism leave the label out.
//
// Aliases, by version: gpu_cache_usage_perc and gpu_prefix_cache_* until 0.10
// (hidden in 0.11, gone in 0.12; in blocks, not tokens, before 0.9, which a
// ratio does not mind), time_per_output_token_seconds until 0.15. Ray Serve
// exposes the same families as ray_vllm_* (earlier ray_vllm:*).
// vllm:iteration_tokens_total is a histogram whatever its name says, and
// prompt_tokens_cached_by_source_total counts at admission what is counted
// elsewhere at the first token: neither is read.
func init() {
	register(source{
		name: SourceVLLM,
		owns: func(name []byte) bool {
			return hasAnyPrefix(name, "vllm:", "ray_vllm_", "ray_vllm:")
		},
		labels:   []string{"engine", "model_name"},
		defaults: map[string]string{"engine": "0"},
		renames:  map[string]string{"finished_reason": "finish_reason"}, // llm-d-inference-sim
		foreign:  "server",                                              // production-stack's router
		disabled: []string{"http_", "process_", "python_"},
		hint:     "point the target at a vLLM server's /metrics",
		families: vllmFamilies(),
		details:  []detail{{path: "/version", read: readVersion("version")}},
	})
}

func vllmFamilies() []family {
	families := []family{
		{name: VLLMRunning, kind: gauge},
		{name: VLLMWaiting, kind: gauge},
		{name: VLLMWaitingByReason, kind: gauge, labels: []string{"reason"}},
		{name: VLLMKVUsage, kind: peak, aliases: []string{"vllm:gpu_cache_usage_perc"}},
		{name: VLLMSleepState, kind: peak, labels: []string{"sleep_state"}},
		{name: VLLMCacheQueries, aliases: []string{"vllm:gpu_prefix_cache_queries_total"}},
		{name: VLLMCacheHits, aliases: []string{"vllm:gpu_prefix_cache_hits_total"}},
		{name: VLLMPromptTokens, required: true},
		{name: VLLMPromptCached},
		{name: VLLMPromptBySource, labels: []string{"source"}},
		{name: VLLMGenerationTokens, required: true},
		{name: VLLMPreemptions},
		{name: VLLMRequestSuccess, required: true, labels: []string{"finished_reason"}},
		{name: VLLMRejections, labels: []string{"reason"}},
		{name: VLLMDrafts},
		{name: VLLMCacheConfig, kind: peak, labels: []string{
			"block_size", "num_gpu_blocks", "kv_cache_size_tokens", "kv_cache_max_concurrency", "enable_prefix_caching",
			// These tell that blocks times block size is no capacity, and how
			// coarse hits are.
			"sliding_window", "mamba_block_size", "prefix_match_unit", "cache_hit_alignment_tokens",
		}},
		{name: VLLMPromptHist, kind: histogram},
		{name: VLLMComputedHist, kind: histogram},
		{name: VLLMGenerationHist, kind: histogram},
		{name: VLLMTTFT, kind: histogram, required: true},
		{name: VLLMITL, kind: histogram, aliases: []string{"vllm:time_per_output_token_seconds"}},
		{name: VLLMTPOT, kind: histogram},
		{name: VLLMQueueTime, kind: histogram},
		{name: VLLME2E, kind: histogram},
		{name: VLLMPrefillTime, kind: sumAndCount},
		{name: VLLMDecodeTime, kind: sumAndCount},
		{name: VLLMIdleBeforeEvict, kind: sumAndCount},
		{name: VLLMExternalQueries},
		{name: VLLMExternalHits},
	}
	for i := range families {
		families[i].aliases = withRay(families[i].name, families[i].aliases)
	}
	return families
}

// withRay adds Ray Serve's names after vLLM's own.
func withRay(name string, aliases []string) []string {
	all := aliases
	for _, n := range append([]string{name}, aliases...) {
		base := strings.TrimPrefix(n, "vllm:")
		all = append(all, "ray_vllm_"+base, "ray_vllm:"+base)
	}
	return all
}
