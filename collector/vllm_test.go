package collector

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVLLMNames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, page string
		want       map[string]float64
		from       map[string]string
	}{
		{
			name: "V0, without engine label",
			page: `vllm:gpu_cache_usage_perc{model_name="m"} 0.25
vllm:cpu_cache_usage_perc{model_name="m"} 0.5
vllm:num_requests_swapped{model_name="m"} 7.0
vllm:gpu_prefix_cache_hit_rate{model_name="m"} -1.0
vllm:time_per_output_token_seconds_sum{model_name="m"} 2.5
vllm:time_per_output_token_seconds_count{model_name="m"} 50.0
`,
			want: map[string]float64{
				`vllm:kv_cache_usage_perc{engine="0",model_name="m"}`:               0.25,
				`vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"}`:   2.5,
				`vllm:inter_token_latency_seconds_count{engine="0",model_name="m"}`: 50,
			},
			from: map[string]string{
				VLLMKVUsage: "vllm:gpu_cache_usage_perc",
				VLLMITL:     "vllm:time_per_output_token_seconds",
			},
		},
		{
			name: "0.10: old and new names on one page, old first",
			page: `vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.3
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.31
vllm:gpu_prefix_cache_queries_total{engine="0",model_name="m"} 100.0
vllm:gpu_prefix_cache_hits_total{engine="0",model_name="m"} 50.0
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1600.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 800.0
`,
			want: map[string]float64{
				`vllm:kv_cache_usage_perc{engine="0",model_name="m"}`:        0.31,
				`vllm:prefix_cache_queries_total{engine="0",model_name="m"}`: 1600,
				`vllm:prefix_cache_hits_total{engine="0",model_name="m"}`:    800,
			},
			from: map[string]string{
				VLLMKVUsage: VLLMKVUsage, VLLMCacheQueries: VLLMCacheQueries, VLLMCacheHits: VLLMCacheHits,
			},
		},
		{
			name: "only the old cache counters, without _total",
			page: `vllm:gpu_prefix_cache_queries{engine="0"} 100.0
vllm:gpu_prefix_cache_hits{engine="0"} 50.0
`,
			want: map[string]float64{
				`vllm:prefix_cache_queries_total{engine="0"}`: 100,
				`vllm:prefix_cache_hits_total{engine="0"}`:    50,
			},
			from: map[string]string{VLLMCacheQueries: "vllm:gpu_prefix_cache_queries", VLLMCacheHits: "vllm:gpu_prefix_cache_hits"},
		},
		{
			name: "a declared name without samples does not count",
			page: `# TYPE vllm:kv_cache_usage_perc gauge
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{engine="0"} 0.3
`,
			want: map[string]float64{`vllm:kv_cache_usage_perc{engine="0"}`: 0.3},
			from: map[string]string{VLLMKVUsage: "vllm:gpu_cache_usage_perc"},
		},
		{
			name: "Ray Serve, summed over replicas",
			page: `ray_vllm_num_requests_running{ReplicaId="a",WorkerId="1",engine="0",model_name="m"} 2.0
ray_vllm_num_requests_running{ReplicaId="b",WorkerId="2",engine="0",model_name="m"} 3.0
ray_vllm_kv_cache_usage_perc{ReplicaId="a",WorkerId="1",engine="0",model_name="m"} 0.5
ray_vllm_kv_cache_usage_perc{ReplicaId="b",WorkerId="2",engine="0",model_name="m"} 0.75
ray_vllm_kv_cache_usage_perc{ReplicaId="c",WorkerId="3",engine="0",model_name="m"} 0.25
ray_vllm:generation_tokens_total{ReplicaId="a",WorkerId="1",engine="0",model_name="m"} 7.0
`,
			want: map[string]float64{
				`vllm:num_requests_running{engine="0",model_name="m"}`:    5,
				`vllm:kv_cache_usage_perc{engine="0",model_name="m"}`:     0.75,
				`vllm:generation_tokens_total{engine="0",model_name="m"}`: 7,
			},
			from: map[string]string{
				VLLMRunning: "ray_vllm_num_requests_running", VLLMKVUsage: "ray_vllm_kv_cache_usage_perc",
				VLLMGenerationTokens: "ray_vllm:generation_tokens_total",
			},
		},
		{
			name: "llm-d-inference-sim",
			page: `vllm:request_success_total{finish_reason="stop",model_name="m"} 4
vllm:max_num_generation_tokens_sum{model_name="m"} 3
vllm:time_per_output_token_seconds_count{model_name="m"} 9
vllm:inter_token_latency_seconds_count{model_name="m"} 8
vllm:cache_config_info{block_size="16",num_gpu_blocks="1024"} 1
`,
			want: map[string]float64{
				`vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"}`: 4,
				`vllm:inter_token_latency_seconds_count{engine="0",model_name="m"}`:            8,
				`vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1024"}`:     1,
			},
			from: map[string]string{
				VLLMRequestSuccess: VLLMRequestSuccess, VLLMITL: VLLMITL, VLLMCacheConfig: VLLMCacheConfig,
			},
		},
		{
			name: "data parallel, and labels that are to come",
			page: `vllm:request_success_total{engine="0",finished_reason="stop",model_name="m",priority="0"} 4.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m",priority=">1"} 5.0
vllm:request_success_total{engine="1",finished_reason="stop",model_name="m",priority="0"} 6.0
`,
			want: map[string]float64{
				`vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"}`: 9,
				`vllm:request_success_total{engine="1",finished_reason="stop",model_name="m"}`: 6,
			},
			from: map[string]string{VLLMRequestSuccess: VLLMRequestSuccess},
		},
		{
			name: "configuration: None is unknown, blocks are left as they are",
			page: `vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",kv_cache_size_tokens="None",num_gpu_blocks="4096"} 1.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="1",kv_cache_size_tokens="25600",num_gpu_blocks="4096"} 1.0
`,
			want: map[string]float64{
				`vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="0",num_gpu_blocks="4096"}`:                              1,
				`vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="1",kv_cache_size_tokens="25600",num_gpu_blocks="4096"}`: 1,
			},
			from: map[string]string{VLLMCacheConfig: VLLMCacheConfig},
		},
		{
			name: "what is not wanted: steps, buckets nobody needs, start times, aliases of what is counted",
			page: `vllm:iteration_tokens_total_bucket{engine="0",le="+Inf"} 5.0
vllm:iteration_tokens_total_count{engine="0"} 5.0
vllm:iteration_tokens_total_sum{engine="0"} 5.0
vllm:request_prefill_time_seconds_bucket{engine="0",le="+Inf"} 2.0
vllm:request_prefill_time_seconds_sum{engine="0"} 1.5
vllm:prompt_tokens_created{engine="0"} 1.7959836241833098e+09
vllm:prompt_tokens_cached_by_source_total{engine="0",source="device"} 5.0
`,
			want: map[string]float64{`vllm:request_prefill_time_seconds_sum{engine="0"}`: 1.5},
			from: map[string]string{VLLMPrefillTime: VLLMPrefillTime},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newTestReader("")
			for range 2 {
				if diff := cmp.Diff(tt.want, r.page(t, tt.page)); diff != "" {
					t.Errorf("samples (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.from, namesRead(r.names)); diff != "" {
					t.Errorf("from (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// The router's copies do not count beside an engine's own series.
func TestVLLMRouterOnTheSamePage(t *testing.T) {
	t.Parallel()
	got := newTestReader(SourceVLLM).page(t, `vllm:num_requests_running{server="http://a:8000"} 3
vllm:num_requests_running{engine="0",model_name="m"} 2
`)
	want := map[string]float64{`vllm:num_requests_running{engine="0",model_name="m"}`: 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

// After an upgrade the canonical name takes over; the series stays the same.
func TestVLLMUpgrade(t *testing.T) {
	t.Parallel()
	r := newTestReader(SourceVLLM)
	r.page(t, "vllm:gpu_cache_usage_perc 0.5\n")
	from := namesRead(r.names)
	got := r.page(t, "vllm:kv_cache_usage_perc 0.25\n")
	if got[`vllm:kv_cache_usage_perc{engine="0"}`] != 0.25 || len(r.stale) > 0 || namesRead(r.names)[VLLMKVUsage] != VLLMKVUsage {
		t.Errorf("samples %v, stale %v, from %v", got, r.stale, namesRead(r.names))
	}
	if from[VLLMKVUsage] != "vllm:gpu_cache_usage_perc" {
		t.Error("the names of an earlier page were changed")
	}
}

// Elastic scaling makes new counters in the same process: they are passed on as
// they are, for whoever rates them to see the reset.
func TestVLLMCounterReset(t *testing.T) {
	t.Parallel()
	r := newTestReader(SourceVLLM)
	r.page(t, "process_start_time_seconds 5\nvllm:prompt_tokens_total 900\n")
	if got := r.page(t, "process_start_time_seconds 5\nvllm:prompt_tokens_total 400\n"); got[`vllm:prompt_tokens_total{engine="0"}`] != 400 {
		t.Errorf("samples %v", got)
	}
}
