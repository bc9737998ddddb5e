package collector

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
)

const openMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8"

// complete is what a page of vLLM must have, beside what a test is about.
const complete = `vllm:prompt_tokens_total{engine="0",model_name="m"} 1000.0
vllm:generation_tokens_total{engine="0",model_name="m"} 50.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 5.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 2.5
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 5.0
`

// with is complete, in series, with others.
func with(others map[string]float64) map[string]float64 {
	all := map[string]float64{
		`vllm:prompt_tokens_total{engine="0",model_name="m"}`:                          1000,
		`vllm:generation_tokens_total{engine="0",model_name="m"}`:                      50,
		`vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"}`: 5,
		`vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"}`:              2.5,
		`vllm:time_to_first_token_seconds_count{engine="0",model_name="m"}`:            5,
	}
	maps.Copy(all, others)
	return all
}

// The numbers are those of the list of reports, "2c" and the like those of the
// notes on semantics. What a derived series makes of the pages is held in
// kvwatch/rules.
func TestVLLMFacts(t *testing.T) {
	t.Parallel()
	const dp2 = `,model_name="qwen3-coder-30b"}`
	facts := []fact{
		{
			report: "3", is: "usage is of blocks that requests hold: it is passed on as it is, beside the tokens found in the cache",
			pages: []factPage{{file: "vllm-0.28-dp2.prom.gz", want: map[string]float64{
				`vllm:kv_cache_usage_perc{engine="0"` + dp2:        0.05568695068359375,
				`vllm:prompt_tokens_cached_total{engine="0"` + dp2: 4.631616e+06,
				`vllm:prompt_tokens_total{engine="0"` + dp2:        4.809295e+06,
			}}},
		},
		{
			report: "6, 7", is: "a sum that falls, or leaps by the host's uptime, is passed on and is no restart", source: SourceVLLM,
			pages: []factPage{
				{text: complete + "process_start_time_seconds 5\n"},
				{
					text: strings.Replace(complete, "sum{engine=\"0\",model_name=\"m\"} 2.5", "sum{engine=\"0\",model_name=\"m\"} -864000.5", 1) + "process_start_time_seconds 5\n",
					want: with(map[string]float64{
						`vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"}`: -864000.5, ProcessStart: 5,
					}),
				},
			},
		},
		{
			report: "8", is: "the tokens are passed on beside the blocks, with what tells that blocks times block size is no capacity",
			pages: []factPage{{
				text: complete + `vllm:cache_config_info{block_size="16",cache_hit_alignment_tokens="544",engine="0",kv_cache_size_tokens="1048576",mamba_block_size="544",num_gpu_blocks="4000",prefix_match_unit="None",sliding_window="4096"} 1.0` + "\n",
				want: with(map[string]float64{
					`vllm:cache_config_info{block_size="16",cache_hit_alignment_tokens="544",engine="0",kv_cache_size_tokens="1048576",mamba_block_size="544",num_gpu_blocks="4000",sliding_window="4096"}`: 1,
				}),
			}},
		},
		{
			report: "9", is: "None is unknown and no number",
			pages: []factPage{{
				text: complete + `vllm:cache_config_info{block_size="None",engine="0",enable_prefix_caching="None",kv_cache_size_tokens="None",num_gpu_blocks="None"} 1.0` + "\n",
				want: with(map[string]float64{`vllm:cache_config_info{engine="0"}`: 1}),
			}},
		},
		{
			report: "10", is: "each engine on the page is one, under its own label",
			pages: []factPage{{file: "vllm-0.28-dp2.prom.gz", want: map[string]float64{
				`vllm:num_requests_running{engine="0"` + dp2: 1, `vllm:num_requests_running{engine="1"` + dp2: 6,
				`vllm:num_requests_waiting{engine="0"` + dp2: 0, `vllm:num_requests_waiting{engine="1"` + dp2: 1,
			}}},
		},
		{
			report: "11", is: "a page of several API servers has no process start, and is no other process on the next page",
			pages: []factPage{
				{file: "vllm-0.28-multiprocess.prom.gz", without: []string{ProcessStart}, want: map[string]float64{`vllm:num_requests_running{engine="1"` + dp2: 6}},
				{file: "vllm-0.28-multiprocess.prom.gz", without: []string{ProcessStart}},
			},
		},
		{
			report: "13", is: "an empty page is one without metrics", source: SourceVLLM,
			pages: []factPage{{text: "\n", state: StateNoMetrics, reason: "the page is empty"}},
		},
		{
			report: "13 (2c)", is: "--disable-log-stats leaves the API server's families: metrics disabled, not idle", source: SourceVLLM,
			pages: []factPage{
				{text: complete},
				{text: "python_info 1.0\nhttp_requests_total{handler=\"/v1/chat/completions\",method=\"POST\",status=\"2xx\"} 7.0\n", state: StateMetricsDisabled, reason: "--disable-log-stats"},
			},
		},
		{
			report: "14", is: "0.11 renames the usage: the series stays, and the name is told",
			pages: []factPage{
				{
					text: complete + `vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.5` + "\n",
					want: with(map[string]float64{`vllm:kv_cache_usage_perc{engine="0",model_name="m"}`: 0.5}),
					from: map[string]string{VLLMKVUsage: "vllm:gpu_cache_usage_perc"},
				},
				{
					text: complete + `vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25` + "\n",
					want: with(map[string]float64{`vllm:kv_cache_usage_perc{engine="0",model_name="m"}`: 0.25}),
					from: map[string]string{VLLMKVUsage: VLLMKVUsage},
				},
			},
		},
		{
			report: "15", is: "old hits are hits and old queries are queries",
			pages: []factPage{{
				text: complete + `vllm:gpu_prefix_cache_queries_total{engine="0",model_name="m"} 800.0` + "\n" + `vllm:gpu_prefix_cache_hits_total{engine="0",model_name="m"} 200.0` + "\n",
				want: with(map[string]float64{
					`vllm:prefix_cache_queries_total{engine="0",model_name="m"}`: 800, `vllm:prefix_cache_hits_total{engine="0",model_name="m"}`: 200,
				}),
			}},
		},
		{
			report: "16, 17", is: "external hits are counted by source; the connector's own counters are kept apart from the cache's",
			pages: []factPage{{
				text: complete + `vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 400.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_cache_hit"} 500.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="external_kv_transfer"} 100.0
vllm:external_prefix_cache_queries_total{engine="0",model_name="m"} 1000.0
vllm:external_prefix_cache_hits_total{engine="0",model_name="m"} 100.0
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1000.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 500.0
lmcache:num_requested_tokens_total{model_name="m"} 1000.0
lmcache:num_hit_tokens_total{model_name="m"} 100.0
`,
				want: with(map[string]float64{
					`vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"}`:        400,
					`vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_cache_hit"}`:      500,
					`vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="external_kv_transfer"}`: 100,
					`vllm:external_prefix_cache_queries_total{engine="0",model_name="m"}`:                         1000,
					`vllm:external_prefix_cache_hits_total{engine="0",model_name="m"}`:                            100,
					`vllm:prefix_cache_queries_total{engine="0",model_name="m"}`:                                  1000,
					`vllm:prefix_cache_hits_total{engine="0",model_name="m"}`:                                     500,
				}),
			}},
		},
		{
			report: "16", is: "LMCache's own page is none of ours",
			pages: []factPage{{text: "lmcache:num_requested_tokens_total 1000.0\nlmcache:local_cache_usage 5.0\n", state: StateNoMetrics, reason: "no known metric family"}},
		},
		{
			report: "18", is: "an engine that crashes and comes back counts from 0 in a new process",
			pages: []factPage{
				{text: complete + "process_start_time_seconds 5\n"},
				{text: "", state: StateNoMetrics},
				{
					text: "process_start_time_seconds 90\nvllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 10.0\n", restarted: true,
					want: map[string]float64{ProcessStart: 90, `vllm:prompt_tokens_total{engine="0",model_name="m"}`: 10},
				},
			},
		},
		{
			report: "19", is: "a usage out of its range is passed on as it is told",
			pages: []factPage{{
				text: complete + `vllm:kv_cache_usage_perc{engine="0",model_name="m"} -0.0625` + "\n",
				want: with(map[string]float64{`vllm:kv_cache_usage_perc{engine="0",model_name="m"}`: -0.0625}),
			}},
		},
		{
			report: "20", is: "what finished and all that was prompted are counted apart",
			pages: []factPage{{file: "vllm-0.28-dp2.prom.gz", want: map[string]float64{
				`vllm:prompt_tokens_total{engine="0"` + dp2: 4.809295e+06, `vllm:request_prompt_tokens_sum{engine="0"` + dp2: 4.787398e+06,
				`vllm:time_to_first_token_seconds_count{engine="0"` + dp2: 377, `vllm:request_prompt_tokens_count{engine="0"` + dp2: 376,
			}}},
		},
		{
			report: "26", is: "tokens per step are no gauge of load, and a histogram whatever their name says: they are not read",
			pages: []factPage{{file: "vllm-0.28-dp2.prom.gz", without: []string{"vllm:iteration_tokens_total", "vllm:iteration_tokens"}}},
		},
		{
			report: "27", is: "with speculative decoding the time per output token is there beside the time between steps, and the drafts tell that it is on",
			pages: []factPage{{
				text: complete + `vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 9.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 8.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"} 3.0
vllm:request_time_per_output_token_seconds_sum{engine="0",model_name="m"} 1.0
`,
				want: with(map[string]float64{
					`vllm:spec_decode_num_drafts_total{engine="0",model_name="m"}`:              9,
					`vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"}`:           3,
					`vllm:request_time_per_output_token_seconds_sum{engine="0",model_name="m"}`: 1,
				}),
			}},
		},
		{
			report: "29", is: "what admission turned away is counted by its reason, without an engine of its own",
			pages: []factPage{{
				text: complete + `vllm:admission_rejections_total{model_name="m",reason="queue_full"} 3.0` + "\n",
				want: with(map[string]float64{`vllm:admission_rejections_total{engine="0",model_name="m",reason="queue_full"}`: 3}),
			}},
		},
		{
			report: "32", is: "the Rust frontend's OpenMetrics is read: integers, another order of labels, counters declared without _total",
			contentType: openMetrics,
			pages: []factPage{{file: "vllm-rust-frontend.prom", want: map[string]float64{
				`vllm:num_requests_running{engine="0"` + dp2:                         3,
				`vllm:prompt_tokens_total{engine="0"` + dp2:                          4809295,
				`vllm:request_success_total{engine="0",finished_reason="stop"` + dp2: 345,
				`vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0"` + dp2:  377,
				`vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"` + dp2: 377,
				`vllm:time_to_first_token_seconds_bucket{engine="0",le="0.04"` + dp2: 11,
			}}},
		},
		{
			report: "32", is: "the same under the text format's content type", contentType: "text/plain; version=1.0.0",
			pages: []factPage{{file: "vllm-rust-frontend.prom", want: map[string]float64{`vllm:prompt_tokens_total{engine="0"` + dp2: 4809295}}},
		},
		{
			report: "33", is: "required families that are missing are named",
			pages: []factPage{
				{text: "vllm:num_requests_running 1\n", missing: []string{VLLMPromptTokens, VLLMGenerationTokens, VLLMRequestSuccess, VLLMTTFT}},
				{text: "# TYPE vllm:prompt_tokens counter\nvllm:num_requests_running 1\n# TYPE vllm:generation_tokens_total counter\n# TYPE vllm:time_to_first_token_seconds histogram\n", missing: []string{VLLMRequestSuccess}},
				{text: complete},
				{text: strings.Replace(complete, "generation", "generated", 1)},
				{text: strings.Replace(complete, "generation", "generated", 1), missing: []string{VLLMGenerationTokens}},
			},
		},
		{
			report: "34", is: "production-stack's router repeats its engines under their names: refused",
			pages: []factPage{{
				text:  `vllm:num_requests_running{server="http://a:8000"} 3.0` + "\n" + `vllm:gpu_prefix_cache_hit_rate{server="http://a:8000"} 0.5` + "\n" + `vllm:healthy_pods_total{server="http://a:8000"} 1.0` + "\n",
				state: StateNoMetrics, reason: "scrape the engines themselves",
			}},
		},
		{
			report: "34", is: "and does not count twice where both are on one page",
			pages: []factPage{{
				text: complete + `vllm:num_requests_running{server="http://a:8000"} 3.0` + "\n" + `vllm:num_requests_running{engine="0",model_name="m"} 2.0` + "\n",
				want: with(map[string]float64{`vllm:num_requests_running{engine="0",model_name="m"}`: 2}),
			}},
		},
		{
			report: "35", is: "which LoRA adapters run is not read: its value is a time, and a sum of times with several API servers",
			pages: []factPage{{
				text: complete + `vllm:lora_requests_info{max_lora="4",running_lora_adapters="a,b",waiting_lora_adapters=""} 1.795985e+09` + "\n",
				want: with(nil),
			}},
		},
		{
			report: "36", is: "usage that coincides is the highest, requests that coincide are summed",
			pages: []factPage{{
				text: `ray_vllm_kv_cache_usage_perc{ReplicaId="a",engine="0",model_name="m"} 0.5
ray_vllm_kv_cache_usage_perc{ReplicaId="b",engine="0",model_name="m"} 0.75
ray_vllm_num_requests_waiting{ReplicaId="a",engine="0",model_name="m"} 2.0
ray_vllm_num_requests_waiting{ReplicaId="b",engine="0",model_name="m"} 3.0
`,
				want: map[string]float64{`vllm:kv_cache_usage_perc{engine="0",model_name="m"}`: 0.75, `vllm:num_requests_waiting{engine="0",model_name="m"}`: 5},
			}},
		},
		{
			report: "1f", is: "a label that comes with an upgrade does not make another series",
			pages: []factPage{
				{text: complete + `vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="800"} 1.0` + "\n"},
				{
					text: complete + `vllm:cache_config_info{block_size="16",engine="0",gpu_memory_utilization="0.92",new_in_0_34="x",num_gpu_blocks="800"} 1.0` + "\n",
					want: with(map[string]float64{`vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="800"}`: 1}),
				},
			},
		},
		{
			report: "1g", is: "V0: no engine label, gauges without heir, -1 for no data",
			pages: []factPage{{
				text: `vllm:num_requests_running{model_name="m"} 2.0
vllm:num_requests_swapped{model_name="m"} 1.0
vllm:gpu_cache_usage_perc{model_name="m"} 0.5
vllm:cpu_cache_usage_perc{model_name="m"} 0.0
vllm:gpu_prefix_cache_hit_rate{model_name="m"} -1.0
vllm:cpu_prefix_cache_hit_rate{model_name="m"} -1.0
vllm:time_in_queue_requests_sum{model_name="m"} 3.0
vllm:model_forward_time_milliseconds_sum{model_name="m"} 4.0
vllm:avg_prompt_throughput_toks_per_s{model_name="m"} 5.0
vllm:tokens_total{model_name="m"} 6.0
vllm:request_params_best_of_sum{model_name="m"} 7.0
vllm:num_preemptions_total{model_name="m"} 8.0
vllm:time_per_output_token_seconds_sum{model_name="m"} 9.0
`,
				want: map[string]float64{
					`vllm:num_requests_running{engine="0",model_name="m"}`:            2,
					`vllm:kv_cache_usage_perc{engine="0",model_name="m"}`:             0.5,
					`vllm:num_preemptions_total{engine="0",model_name="m"}`:           8,
					`vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"}`: 9,
				},
				missing: []string{VLLMPromptTokens, VLLMGenerationTokens, VLLMRequestSuccess, VLLMTTFT},
			}},
		},
		{
			report: "1g", is: "0.9.2 has both names of a counter, of which one counts",
			pages: []factPage{{
				text: complete + `vllm:gpu_prefix_cache_queries_total{engine="0",model_name="m"} 800.0` + "\n" + `vllm:prefix_cache_queries_total{engine="0",model_name="m"} 800.0` + "\n",
				want: with(map[string]float64{`vllm:prefix_cache_queries_total{engine="0",model_name="m"}`: 800}),
			}},
		},
		{
			report: "1g", is: "llm-d-inference-sim: no engine, another label for the reason, both names of the inter-token latency",
			pages: []factPage{{
				text: `vllm:request_success_total{finish_reason="stop",model_name="m"} 4
vllm:max_num_generation_tokens_sum{model_name="m"} 3
vllm:time_per_output_token_seconds_count{model_name="m"} 9
vllm:inter_token_latency_seconds_count{model_name="m"} 9
vllm:cache_config_info{block_size="16",num_gpu_blocks="1024"} 1
`,
				want: map[string]float64{
					`vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"}`: 4,
					`vllm:inter_token_latency_seconds_count{engine="0",model_name="m"}`:            9,
					`vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1024"}`:     1,
				},
			}},
		},
		{
			report: "1h", is: "a label that is to come (priority) is summed over",
			pages: []factPage{{
				text: `vllm:num_requests_waiting{engine="0",model_name="m",priority="0"} 2.0` + "\n" + `vllm:num_requests_waiting{engine="0",model_name="m",priority=">1"} 3.0` + "\n",
				want: map[string]float64{`vllm:num_requests_waiting{engine="0",model_name="m"}`: 5},
			}},
		},
		{
			report: "2c", is: "elastic scale-up begins all counters anew in the same process: passed on, no restart",
			pages: []factPage{
				{text: complete + "process_start_time_seconds 5\n"},
				{
					text: "process_start_time_seconds 5\nvllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 3.0\nvllm:prompt_tokens_total{engine=\"1\",model_name=\"m\"} 4.0\n",
					want: map[string]float64{
						ProcessStart: 5, `vllm:prompt_tokens_total{engine="0",model_name="m"}`: 3, `vllm:prompt_tokens_total{engine="1",model_name="m"}`: 4,
					},
				},
			},
		},
		{
			report: "2c", is: "a multiprocess directory that is not wiped lets counters survive a restart: no restart is told",
			pages: []factPage{
				{text: complete},
				{text: complete, want: with(nil)},
			},
		},
		{
			report: "2c", is: "sleep is a state by its label",
			pages: []factPage{{
				text: complete + `vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="awake"} 0.0
vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="weights_offloaded"} 1.0
vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="discard_all"} 0.0
`,
				want: with(map[string]float64{
					`vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="awake"}`:             0,
					`vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="weights_offloaded"}`: 1,
					`vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="discard_all"}`:       0,
				}),
			}},
		},
		{
			report: "2d", is: "with several API servers gauges are declared and absent until an engine has run: absent, not 0",
			pages: []factPage{{
				text: complete + `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
`,
				want: with(nil), without: []string{VLLMRunning, VLLMWaiting, VLLMKVUsage},
			}},
		},
		{
			report: "2d", is: "blocks are left as they are told: summed over the engines, under each of them",
			pages: []factPage{{file: "vllm-0.28-dp2.prom.gz", want: map[string]float64{
				`vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="0",kv_cache_max_concurrency="3.0",kv_cache_size_tokens="393216",num_gpu_blocks="49152"}`: 1,
				`vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="1",kv_cache_max_concurrency="3.0",kv_cache_size_tokens="393216",num_gpu_blocks="49152"}`: 1,
			}}},
		},
		{
			report: "2e", is: "start times beside the counters are dropped",
			pages: []factPage{{file: "vllm-0.28-dp2.prom.gz", without: []string{"vllm:prompt_tokens_created", "vllm:time_to_first_token_seconds_created"}}},
		},
		{
			report: "seen 3", is: "usage is of 799 blocks, as one of 800 is kept null",
			pages: []factPage{{
				text: complete + `vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.20400500625782228` + "\n",
				want: with(map[string]float64{`vllm:kv_cache_usage_perc{engine="0",model_name="m"}`: 163. / 799}),
			}},
		},
		{
			report: "seen 4", is: "0.32 tells its capacity in tokens",
			pages: []factPage{{file: "vllm-0.32.0.prom.gz", want: map[string]float64{
				`vllm:cache_config_info{block_size="32",enable_prefix_caching="True",engine="0",kv_cache_max_concurrency="1.5625",kv_cache_size_tokens="25600",num_gpu_blocks="800"}`: 1,
			}}},
		},
		{
			report: "seen 5", is: "prompt_tokens_cached_by_source is an alias, not more tokens: it is not read",
			pages: []factPage{{file: "vllm-0.32.0.prom.gz", without: []string{"vllm:prompt_tokens_cached_by_source_total"}, from: map[string]string{VLLMPromptCached: VLLMPromptCached}}},
		},
		{
			report: "seen 6", is: "an engine that has not served shows zeros, all reasons among them",
			pages: []factPage{{file: "vllm-0.24.0-idle.prom.gz", want: map[string]float64{
				`vllm:prompt_tokens_total{engine="0",model_name="tiny-chat"}`:                                0,
				`vllm:prompt_tokens_cached_total{engine="0",model_name="tiny-chat"}`:                         0,
				`vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny-chat"}`:       0,
				`vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny-chat"}`:     0,
				`vllm:request_success_total{engine="0",finished_reason="abort",model_name="tiny-chat"}`:      0,
				`vllm:request_success_total{engine="0",finished_reason="error",model_name="tiny-chat"}`:      0,
				`vllm:request_success_total{engine="0",finished_reason="repetition",model_name="tiny-chat"}`: 0,
			}}},
		},
		{
			report: "seen 7", is: "the API server's own families are dropped",
			pages: []factPage{{file: "vllm-0.32.0.prom.gz", without: []string{
				"http_requests_total", "http_request_size_bytes", "http_response_size_bytes", "http_request_duration_highr_seconds", "http_request_duration_seconds",
			}}},
		},
	}
	for i, f := range facts {
		t.Run(fmt.Sprintf("%d report %s: %s", i, f.report, f.is), f.test)
	}
}

func TestVLLMFactsOverHTTP(t *testing.T) {
	t.Parallel()
	page := func(contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			write(http.StatusOK, body)(w, r)
		}
	}
	rust, err := os.ReadFile("testdata/vllm-rust-frontend.prom")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []factAnswer{
		{
			report: "12", is: "a page that fails is told from a server that is gone",
			answer: write(http.StatusInternalServerError, "Internal Server Error"), want: StateDown, reason: "the server runs but answers HTTP 500",
		},
		{
			report: "32", is: "the Rust frontend, whatever was asked for", answer: page(openMetrics, string(rust)), want: StateUp,
			warning: VLLMGenerationTokens, // the example leaves it out
		},
		{report: "2e", is: "a newer client's content type", answer: page("text/plain; version=1.0.0; charset=utf-8", complete), want: StateUp},
		{
			report: "33", is: "missing families are a warning", answer: page("text/plain; version=0.0.4", smallPage(1)), want: StateUp,
			warning: "the page has no vllm:generation_tokens_total, vllm:request_success_total, vllm:time_to_first_token_seconds",
		},
		{report: "34", is: "a router is refused", answer: page("text/plain", `vllm:num_requests_running{server="http://a:8000"} 3`+"\n"), want: StateNoMetrics, reason: "a router's"},
	} {
		t.Run("report "+f.report+": "+f.is, f.test)
	}
}

// "Seen 8": a real engine that was restarted: 65 failed scrapes, then counters
// from 0 in another process. Nothing is added, and what was exposed before goes
// stale at once and comes back as the same series.
func TestVLLMFactRealRestart(t *testing.T) {
	t.Parallel()
	rec, err := OpenRecording("testdata/recording.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close() })
	var failed, starts int
	var start, prompted, before, after float64
	series := map[*Series]bool{}
	exposed := func(s *Series) {
		if failed == 0 {
			series[s] = true
		} else if !series[s] {
			t.Errorf("after the restart %s is another series", short(s))
		}
	}
	err = rec.Replay(t.Context(), func(r *Round) error {
		if r.Target.Labels.Get("instance") != "engine-b:8000" {
			return nil
		}
		if r.State != StateUp {
			if failed++; failed == 1 {
				before = prompted
				if len(r.Stale) != len(series) {
					t.Errorf("%d of %d series went stale", len(r.Stale), len(series))
				}
			}
			return nil
		}
		for _, s := range r.Samples {
			switch name := s.Series.Labels.Get("__name__"); {
			case name == ProcessStart && s.Value != start:
				start = s.Value
				starts++
			case name == VLLMPromptTokens:
				if prompted = s.Value; failed > 0 && after == 0 {
					after = s.Value
				}
			}
			if s.Series.Labels.Get("__name__") != Up {
				exposed(s.Series)
			}
		}
		for _, h := range r.Histograms {
			exposed(h.Series)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if failed != 65 || starts != 2 || before < 100_000 || after >= before {
		t.Errorf("%d failed scrapes, %d processes, %g tokens before and %g after", failed, starts, before, after)
	}
}
