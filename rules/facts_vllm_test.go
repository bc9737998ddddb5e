package rules

import (
	"testing"
	"time"

	"kvwatch/collector"
)

// The numbers are those of the list of reports on vLLM, "2c" and the like those
// of the notes on semantics. How the pages themselves are read is held in
// kvwatch/collector.
//
// Three reports are held where their detectors are: 5 (aborts are estimated) by
// PrefillSaturated's tests, 30 (nothing moves) by EngineStalled's, 31 (nobody is
// let in) by EngineLivelocked's.
func TestVLLMFacts(t *testing.T) {
	t.Parallel()
	counters := []string{collector.VLLMCacheQueries, collector.VLLMCacheHits}
	// pressure serves calls whose look-ups are counted so often.
	pressure := func(p *page, lookups float64) func(int) {
		return func(int) {
			p.serve(10, 1000, 100, 50)
			p.add((lookups-1)*10*1000, collector.VLLMCacheQueries)
			p.add((lookups-1)*10*900, collector.VLLMCacheHits)
			p.only(counters...)
		}
	}
	facts := []fact{
		{
			report: "1", is: "prompt_tokens_cached is read where it is there, whatever the look-ups count",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(21, func(int) {
					p.serve(10, 1000, 400, 50)
					p.add(100_000, collector.VLLMCacheQueries)
				})
			},
			want: []derived{{name: factHits, label: "5m", value: 0.6, quality: QualityOK, from: collector.VLLMPromptCached}},
		},
		{
			report: "1", is: "the look-ups alone are told with what is wrong with them before 0.27, also where the version is unknown",
			show: func(s *shown) { s.scrape(21, pressure(s.vllm(), 1)) },
			want: []derived{{name: factHits, label: "5m", value: 0.9, quality: QualityOK, reason: "before vLLM 0.27", from: collector.VLLMCacheQueries}},
		},
		{
			report: "1", is: "the version is named where it is known",
			show: func(s *shown) {
				s.version = "0.15.1"
				s.scrape(21, pressure(s.vllm(), 1))
			},
			want: []derived{{name: factHits, label: "5m", value: 0.9, quality: QualityOK, reason: "vLLM 0.15.1 counts a waiting request again"}},
		},
		{
			report: "1", is: "from 0.27 on nothing is wrong with them",
			show: func(s *shown) {
				s.version = "0.27.0"
				s.scrape(21, pressure(s.vllm(), 1))
			},
			want: []derived{{name: factHits, label: "5m", value: 0.9, quality: QualityOK}},
		},
		{
			report: "1", is: "look-ups over 1.2 times what was prompted are contaminated: unknown where there is nothing else",
			show: func(s *shown) { s.scrape(21, pressure(s.vllm(), 1.5)) },
			want: []derived{
				{name: factHits, label: "5m", absent: true, quality: QualityAbsent, reason: "over 1.2 times what was prompted"},
				{name: factPoolHits, label: "5m", absent: true, quality: QualityAbsent, reason: "no engine of the pool"},
			},
		},
		{
			report: "1", is: "or read from the requests' histograms where those are there",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(21, func(int) {
					p.serve(10, 1000, 400, 50)
					p.add(10_000, collector.VLLMCacheQueries)
					p.add(10_000, collector.VLLMCacheHits)
					delete(p.values, p.of(collector.VLLMPromptCached))
					p.drop()
				})
			},
			want: []derived{{name: factHits, label: "5m", value: 0.6, quality: QualityOK, from: collector.VLLMComputedHist}},
		},
		{
			report: "2", is: "before 0.11 preempted requests hit their own blocks: too high, and said so",
			show: func(s *shown) {
				s.version = "0.10.2"
				p := s.vllm()
				serve := pressure(p, 1)
				s.scrape(21, func(i int) {
					serve(i)
					p.add(1, collector.VLLMPreemptions)
				})
			},
			want: []derived{{name: factHits, label: "5m", value: 0.9, quality: QualityOK, reason: "too high: vLLM 0.10.2 counts the own blocks of preempted requests"}},
		},
		{
			report: "2", is: "without preemptions that is no matter",
			show: func(s *shown) {
				s.version = "0.10.2"
				s.scrape(21, pressure(s.vllm(), 1))
			},
			want: []derived{{name: factHits, label: "5m", value: 0.9, quality: QualityOK, reason: "vLLM 0.10.2 counts a waiting request again"}},
		},
		{
			report: "3", is: "a usage near 0 says nothing of the cache: residency is computed apart",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(121, func(int) {
					p.serve(10, 10_000, 8000, 100)
					p.gauges(1, 0, 0)
				})
			},
			want: []derived{
				{name: "kvwatch_kv_usage_ratio", value: 0, quality: QualityOK},
				// 0.75 × 1.2M tokens over 10 × (8000 + 100) in 15 s.
				{name: "kvwatch_cache_residency_seconds", value: 0.75 * 1.2e6 / (10 * 8100. / 15), quality: QualityOK},
			},
		},
		{
			report: "4", is: "gauges that stay after all requests were aborted are stale after five minutes, not load",
			show: func(s *shown) {
				p := s.vllm()
				p.gauges(12, 3, 0.99)
				s.scrape(5, func(int) { p.serve(10, 1000, 100, 50) })
				s.scrape(22, nil)
			},
			want: []derived{
				{name: "kvwatch_kv_usage_ratio", value: 0.99, quality: QualityStale, reason: "no token moved in 5 min while 12 running and 3 waiting"},
				{name: "kvwatch_queue_waiting_requests", label: "capacity", value: 3, quality: QualityStale, reason: "its gauges froze when they were aborted"},
			},
		},
		{
			report: "4 (2c)", is: "an engine without work leaves its gauges as they were at its last step",
			show: func(s *shown) {
				p := s.vllm()
				p.gauges(0, 0, 0.2)
				s.scrape(5, func(int) { p.serve(10, 1000, 100, 50) })
				s.scrape(22, nil)
			},
			want: []derived{{name: "kvwatch_kv_usage_ratio", value: 0.2, quality: QualityStale, reason: "the engine took no step in 5 min"}},
		},
		{
			report: "4", is: "a long prefill is no freeze",
			show: func(s *shown) {
				p := s.vllm()
				p.gauges(12, 3, 0.99)
				s.scrape(15, func(int) { p.serve(10, 1000, 100, 50) })
				s.scrape(12, nil)
			},
			want: []derived{{name: "kvwatch_kv_usage_ratio", value: 0.99, quality: QualityOK}},
		},
		{
			report: "6, 7", is: "a window whose sum falls is rejected",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(21, func(i int) {
					p.serve(10, 1000, 100, 50)
					if i == 18 {
						p.add(-1e6, collector.VLLMTTFT+collector.SumSuffix)
					}
				})
			},
			want: []derived{
				{name: "kvwatch_ttft_seconds", absent: true, quality: QualityAbsent, reason: "impossible intervals"},
				{name: "kvwatch_itl_seconds", quality: QualityOK},
			},
		},
		{
			report: "6", is: "and one whose mean lies over the top bucket",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(21, func(i int) {
					p.serve(10, 1000, 100, 50)
					if i == 18 {
						p.add(1e6, collector.VLLMTTFT+collector.SumSuffix)
					}
				})
			},
			want: []derived{{name: "kvwatch_ttft_seconds", absent: true, quality: QualityAbsent, reason: "impossible intervals"}},
		},
		{
			report: "6", is: "a falling sum does not end the window of the count: requests are counted on",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(21, func(i int) {
					p.serve(10, 1000, 400, 50)
					if i == 18 {
						p.add(-1e6, collector.VLLMTTFT+collector.SumSuffix)
					}
				})
			},
			want: []derived{{name: factHits, label: "5m", value: 0.6, quality: QualityOK}},
		},
		{
			report: "8", is: "the tokens that the engine tells are its capacity, also where blocks times size is not",
			show: func(s *shown) {
				p := s.vllm()
				p.set(1, collector.VLLMCacheConfig, "block_size", "16", "num_gpu_blocks", "4000", "kv_cache_size_tokens", "1048576", "mamba_block_size", "544")
				s.scrape(2, func(int) { p.serve(10, 1000, 100, 50) })
			},
			want: []derived{{name: "kvwatch_kv_capacity_tokens", value: 1048576, quality: QualityOK, from: "kv_cache_size_tokens"}},
		},
		{
			report: "8", is: "a hybrid model without that has no capacity",
			show: func(s *shown) {
				p := s.vllm()
				p.set(1, collector.VLLMCacheConfig, "block_size", "16", "num_gpu_blocks", "4000", "mamba_block_size", "544")
				s.scrape(2, func(int) { p.serve(10, 1000, 100, 50) })
			},
			want: []derived{{name: "kvwatch_kv_capacity_tokens", absent: true, quality: QualityAbsent, reason: "says nothing for a hybrid model"}},
		},
		{
			report: "8", is: "nor has one with a sliding window",
			show: func(s *shown) {
				p := s.vllm()
				p.set(1, collector.VLLMCacheConfig, "block_size", "16", "num_gpu_blocks", "4000", "sliding_window", "4096")
				s.scrape(2, func(int) { p.serve(10, 1000, 100, 50) })
			},
			want: []derived{{name: "kvwatch_kv_capacity_tokens", absent: true, quality: QualityAbsent, reason: "sliding window"}},
		},
		{
			report: "9", is: "a capacity of None is unknown, not 0",
			show: func(s *shown) {
				p := s.vllm()
				p.set(1, collector.VLLMCacheConfig) // None is left out while reading
				s.scrape(2, func(int) { p.serve(10, 1000, 100, 50) })
			},
			want: []derived{{name: "kvwatch_kv_capacity_tokens", absent: true, quality: QualityAbsent, reason: "does not say how many KV blocks"}},
		},
		{
			report: "10, 35 (2d)", is: "engines on one page are summed; their blocks, which each tells as the sum of all, are shared",
			show: func(s *shown) {
				p := s.vllm()
				for _, engine := range []string{"0", "1"} {
					p.set(1, collector.VLLMCacheConfig, "engine", engine, "block_size", "16", "num_gpu_blocks", "8000")
					p.set(3, collector.VLLMWaiting, "engine", engine)
				}
				s.scrape(2, nil)
			},
			want: []derived{
				{name: "kvwatch_kv_capacity_tokens", value: 64_000, quality: QualityOK},
				{name: "kvwatch_pool_kv_capacity_tokens", value: 128_000, quality: QualityOK},
				{name: "kvwatch_pool_queue_waiting_requests", label: "unsplit", value: 6, quality: QualityOK},
			},
		},
		{
			report: "35", is: "one engine's sample is not the pool's: tokens are added up, ratios never averaged",
			show: func(s *shown) {
				a, b := s.vllm(), s.vllm()
				s.scrape(21, func(int) {
					a.serve(10, 1000, 0, 50)
					b.serve(10, 3000, 3000, 50)
				})
			},
			want: []derived{{name: factPoolHits, label: "5m", value: 0.25, quality: QualityOK}},
		},
		{
			report: "11 (2d)", is: "gauges that are not set yet are absent, not 0, and no error",
			show: func(s *shown) {
				p := s.vllm()
				p.set(0, collector.VLLMPromptTokens)
				p.set(0, collector.VLLMGenerationTokens)
				s.scrape(5, nil)
			},
			want: []derived{
				{name: "kvwatch_kv_usage_ratio", absent: true, quality: QualityAbsent, reason: "has not run yet"},
				{name: "kvwatch_queue_waiting_requests", label: "unsplit", absent: true, quality: QualityAbsent, reason: "has not run yet"},
			},
		},
		{
			report: "15", is: "the ratio is hits over queries, within 0 and 1",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(21, func(int) {
					p.serve(10, 1000, 800, 50)
					p.only(counters...)
				})
			},
			want: []derived{{name: factHits, label: "5m", value: 0.2, quality: QualityOK, reason: "before vLLM 0.27", from: collector.VLLMCacheHits + " / " + collector.VLLMCacheQueries}},
		},
		{
			report: "16, 17", is: "external hits count by source as cached; the connector's own counters change nothing",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(21, func(int) {
					p.serve(10, 1000, 400, 50) // 500 local and 100 external of each 1000
					p.add(4000, collector.VLLMPromptBySource, "source", "local_compute")
					p.add(5000, collector.VLLMPromptBySource, "source", "local_cache_hit")
					p.add(1000, collector.VLLMPromptBySource, "source", "external_kv_transfer")
					p.add(90_000, collector.VLLMExternalQueries)
				})
			},
			want: []derived{{name: factHits, label: "5m", value: 0.6, quality: QualityOK}},
		},
		{
			report: "18", is: "a restart adds what was counted since, loses nothing, and is said",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(11, func(int) { p.serve(10, 1000, 400, 50) })
				p.restart()
				s.scrape(10, func(int) { p.serve(10, 1000, 400, 50) })
			},
			want: []derived{
				{name: factHits, label: "5m", value: 0.6, quality: QualityReset, reason: "a counter began again"},
				{name: "kvwatch_reprefilled_tokens_total", value: 21 * 4000, quality: QualityOK},
			},
		},
		{
			report: "19", is: "a usage over 1 is clamped and flagged",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(30, func(int) {
					p.serve(10, 1000, 400, 50)
					p.gauges(3, 0, 1.7)
				})
			},
			want: []derived{
				{name: "kvwatch_kv_usage_ratio", value: 1, quality: QualityPartial, reason: "a KV usage of 1.7, outside of 0 to 1: clamped"},
				{name: "kvwatch_pool_kv_usage_ratio", absent: true, quality: QualityAbsent, reason: "no engine of the pool tells its KV usage"},
			},
		},
		{
			report: "19", is: "and one below 0",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(5, func(int) { p.gauges(3, 0, -0.25) })
			},
			want: []derived{{name: "kvwatch_kv_usage_ratio", value: 0, quality: QualityPartial, reason: "-0.25"}},
		},
		{
			report: "20", is: "numerator and denominator come from one source: what finished does not mix with what was prompted",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(21, func(int) {
					p.serve(10, 1000, 400, 50)
					p.observe(collector.VLLMPromptHist, tokenBounds, 3000, 5) // finished, prompted long ago
					p.observe(collector.VLLMComputedHist, tokenBounds, 3000, 5)
				})
			},
			want: []derived{{name: factHits, label: "5m", value: 0.6, quality: QualityOK}},
		},
		{
			report: "22", is: "gauges at 0 are no idleness while tokens move",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(21, func(int) {
					p.serve(10, 1000, 400, 50)
					p.gauges(0, 0, 0)
				})
			},
			want: []derived{
				{name: factHits, label: "1m", value: 0.6, quality: QualityOK},
				{name: "kvwatch_ttft_seconds", quality: QualityOK},
				{name: "kvwatch_queue_waiting_requests", label: "capacity", value: 0, quality: QualityOK},
			},
		},
		{
			report: "23", is: "below the first bound nothing is interpolated: at most 0.01 s, and it is said",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(21, func(int) { p.observe(collector.VLLMITL, []float64{0.01, 0.025, 0.05}, 0.006, 50) })
				if err := s.engine.Eval(s.t.Context(), s.now); err != nil {
					s.t.Fatal(err)
				}
				for _, q := range s.summary("kvwatch_itl_seconds").Quantiles {
					if q.Value != 0.01 {
						s.t.Errorf("quantile %g is %g, want the bound 0.01", q.Q, q.Value)
					}
				}
			},
			want: []derived{{name: "kvwatch_itl_seconds", quality: QualityOK, reason: reasonBelow}},
		},
		{
			report: "23", is: "above it they are, and nothing is said",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(21, func(int) { p.observe(collector.VLLMITL, []float64{0.01, 0.025, 0.05}, 0.02, 50) })
			},
			want: []derived{{name: "kvwatch_itl_seconds", quality: QualityOK}},
		},
		{
			report: "24", is: "a hybrid model without hits is so by design, and it is said",
			show: func(s *shown) {
				p := s.vllm()
				p.set(1, collector.VLLMCacheConfig, "block_size", "16", "kv_cache_size_tokens", "1048576", "mamba_block_size", "544", "cache_hit_alignment_tokens", "1088")
				s.scrape(121, func(int) {
					p.serve(10, 400, 400, 50)
					p.set(0.2, collector.VLLMKVUsage)
				})
			},
			want: []derived{
				{name: factHits, label: "5m", value: 0, quality: QualityOK, reason: "steps of 1.1k tokens"},
				{name: "kvwatch_cache_residency_seconds", absent: true, quality: QualityAbsent, reason: "hybrid model"},
				{name: "kvwatch_pool_cache_residency_seconds", absent: true, quality: QualityAbsent, reason: "no engine of the pool tells"},
			},
		},
		{
			report: "24 (2a)", is: "an engine without a prefix cache has no hit ratio, not 0",
			show: func(s *shown) {
				p := s.vllm()
				p.set(1, collector.VLLMCacheConfig, "block_size", "16", "kv_cache_size_tokens", "1048576", "enable_prefix_caching", "False")
				s.scrape(21, func(int) { p.serve(10, 1000, 1000, 50) })
			},
			want: []derived{
				{name: factHits, label: "5m", absent: true, quality: QualityAbsent, reason: "enable_prefix_caching=False"},
				{name: "kvwatch_reprefilled_tokens_total", absent: true, quality: QualityAbsent, reason: "enable_prefix_caching=False"},
			},
		},
		{
			report: "27", is: "with speculative decoding the inter-token latency is one between steps, and it is said",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(21, func(int) {
					p.serve(10, 1000, 400, 50)
					p.add(30, collector.VLLMDrafts)
				})
			},
			want: []derived{
				{name: "kvwatch_itl_seconds", quality: QualityOK, reason: collector.VLLMTPOT},
				{name: "kvwatch_ttft_seconds", quality: QualityOK},
			},
		},
		{
			report: "36", is: "a pool's usage is weighted by capacity, never summed",
			show: func(s *shown) {
				a, b := s.vllm(), s.vllm()
				a.gauges(1, 0, 0.5)
				b.gauges(1, 0, 0.75)
				s.scrape(2, nil)
			},
			want: []derived{{name: "kvwatch_pool_kv_usage_ratio", value: 0.625, quality: QualityOK}},
		},
		{
			report: "1g", is: "before 0.9 the cache counters count blocks: a ratio of them is one of tokens, a total is not",
			show: func(s *shown) {
				s.version = "0.8.5"
				p := s.vllm()
				p.set(1, collector.VLLMCacheConfig, "block_size", "16", "num_gpu_blocks", "4000")
				s.scrape(21, func(int) {
					p.serve(10, 1000, 400, 50)
					p.set(p.values[p.of(collector.VLLMPromptTokens)]/16, collector.VLLMCacheQueries)
					p.set(p.values[p.of(collector.VLLMPromptTokens)]/16*0.6, collector.VLLMCacheHits)
					p.only(counters...)
				})
			},
			want: []derived{
				{name: factHits, label: "5m", value: 0.6, quality: QualityOK, reason: "vLLM 0.8.5"},
				{name: "kvwatch_reprefilled_tokens_total", value: 21 * 4000, quality: QualityOK},
			},
		},
		{
			report: "1g", is: "and is unknown where the block size is",
			show: func(s *shown) {
				s.version = "0.8.5"
				s.scrape(21, pressure(s.vllm(), 1))
			},
			want: []derived{
				{name: factHits, label: "5m", value: 0.9, quality: QualityOK, reason: "vLLM 0.8.5"},
				{name: "kvwatch_reprefilled_tokens_total", absent: true, quality: QualityAbsent, reason: "the cache counts blocks"},
			},
		},
		{
			report: "2c", is: "elastic scale-up begins the counters anew in the same process: a reset that adds what it shows",
			show: func(s *shown) {
				p := s.vllm()
				p.set(float64(testStart.Add(-time.Hour).Unix()), collector.ProcessStart)
				s.scrape(11, func(int) { p.serve(10, 1000, 400, 50) })
				p.restart()
				p.set(float64(testStart.Add(-time.Hour).Unix()), collector.ProcessStart)
				s.scrape(10, func(int) { p.serve(10, 1000, 400, 50) })
			},
			want: []derived{
				{name: factHits, label: "5m", value: 0.6, quality: QualityReset, reason: "a counter began again"},
				{name: "kvwatch_reprefilled_tokens_total", value: 21 * 4000, quality: QualityOK},
			},
		},
		{
			report: "2c", is: "a cold cache after sleep is expected, and said",
			show: func(s *shown) {
				p := s.vllm()
				awake := func(v float64) { p.set(v, collector.VLLMSleepState, "sleep_state", "awake") }
				awake(1)
				s.scrape(10, func(int) { p.serve(10, 1000, 100, 50) })
				awake(0)
				s.scrape(5, nil)
				awake(1)
				s.scrape(15, func(int) { p.serve(10, 1000, 1000, 50) })
			},
			want: []derived{{name: factHits, label: "5m", value: 0, quality: QualityOK, reason: "the engine slept within the window"}},
		},
		{
			report: "versions", is: "a window in which the version changed says so",
			show: func(s *shown) {
				p := s.vllm()
				s.version = "0.26.0"
				s.scrape(11, func(int) { p.serve(10, 1000, 400, 50) })
				p.restart()
				s.version = "" // not asked yet
				s.scrape(1, func(int) { p.serve(10, 1000, 400, 50) })
				s.version = "0.27.0"
				s.scrape(9, func(int) { p.serve(10, 1000, 400, 50) })
			},
			want: []derived{
				{name: factHits, label: "5m", value: 0.6, quality: QualityVersionStep, reason: "the server became 0.27.0 at"},
				{name: factHits, label: "1m", value: 0.6, quality: QualityOK},
				{name: factPoolHits, label: "5m", value: 0.6, quality: QualityVersionStep, reason: "the server became 0.27.0 at"},
			},
		},
		{
			report: "versions", is: "a version that is told for the first time is no change",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(11, func(int) { p.serve(10, 1000, 400, 50) })
				s.version = "0.27.0"
				s.scrape(10, func(int) { p.serve(10, 1000, 400, 50) })
			},
			want: []derived{{name: factHits, label: "5m", value: 0.6, quality: QualityOK}},
		},
		{
			report: "seen 2", is: "look-ups just over what was prompted, where requests wait, are told",
			show: func(s *shown) {
				p := s.vllm()
				s.scrape(21, func(int) {
					p.add(565_461, collector.VLLMCacheQueries)
					p.add(423_000, collector.VLLMCacheHits)
					p.add(552_375, collector.VLLMPromptTokens)
					p.observe(collector.VLLMTTFT, timeBounds, 0.3, 50)
				})
			},
			want: []derived{{name: factHits, label: "5m", value: 423_000. / 565_461, quality: QualityOK, reason: "not to be trusted while requests wait"}},
		},
		{
			report: "seen 4", is: "0.32 tells its capacity: 25 600 tokens",
			show: func(s *shown) {
				p := s.vllm()
				p.set(1, collector.VLLMCacheConfig, "block_size", "32", "enable_prefix_caching", "True", "kv_cache_max_concurrency", "1.5625", "kv_cache_size_tokens", "25600", "num_gpu_blocks", "800")
				s.scrape(2, func(int) { p.serve(1, 1000, 400, 50) })
			},
			want: []derived{{name: "kvwatch_kv_capacity_tokens", value: 25600, quality: QualityOK}},
		},
		{
			report: "seen 6", is: "0 of 0 is no ratio",
			show: func(s *shown) {
				p := s.vllm()
				p.serve(0, 1000, 400, 50)
				s.scrape(21, nil)
			},
			want: []derived{{name: factHits, label: "5m", absent: true, quality: QualityAbsent, reason: "nothing was prompted"}},
		},
	}
	for _, f := range facts {
		t.Run("report "+f.report+": "+f.is, f.test)
	}
}

// Report 19: no alert rests on a usage that cannot be.
func TestVLLMFactNoAlertOnImpossibleUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		usage [2]float64 // in turn, the second last
		fires bool
		known bool
	}{
		{[2]float64{1.7, 1.7}, false, false},
		{[2]float64{-0.5, -0.5}, false, false},
		{[2]float64{1.7, 0.99}, false, true},
		{[2]float64{0.99, 0.99}, true, true},
		{[2]float64{1, 1}, true, true},
	} {
		e, err := New(Options{ScrapeInterval: step})
		if err != nil {
			t.Fatal(err)
		}
		s := &shown{t: t, engine: e, now: testStart}
		p := s.vllm()
		for i := range 40 {
			s.scrape(1, func(int) {
				p.serve(10, 1000, 400, 50)
				p.gauges(3, 0, c.usage[i%2])
			})
			if err := e.Eval(t.Context(), s.now); err != nil {
				t.Fatal(err)
			}
		}
		fires := false
		for _, a := range e.Alerts() {
			fires = fires || a.Name == "KVSaturated" && a.State == StateFiring
		}
		if fires != c.fires {
			t.Errorf("usage %g: KVSaturated fires: %t", c.usage, fires)
		}
		for _, d := range e.Detectors() {
			if d.Alert == "KVSaturated" && (d.Phase == PhaseUnknown) == c.known {
				t.Errorf("usage %g: the detector says %s: %s", c.usage, d.Phase, d.Text)
			}
		}
	}
}

// "2c": what sleep drops from the cache is not held against the pool.
func TestVLLMFactSleepIsNoCollapse(t *testing.T) {
	t.Parallel()
	for _, sleeps := range []bool{true, false} {
		f := newFleet(t, 4, Options{}).learned()
		if sleeps {
			for _, p := range f.pages {
				p.set(0, collector.VLLMSleepState, "sleep_state", "awake")
			}
			f.run(step)
			for _, p := range f.pages {
				p.set(1, collector.VLLMSleepState, "sleep_state", "awake")
			}
		}
		f.all(0.8)
		f.run(20 * time.Minute)
		f.all(0.1)
		f.run(20 * time.Minute)
		if fired := f.alerts(cacheCollapse) > 0; fired == sleeps {
			t.Errorf("slept %t: fired %t", sleeps, fired)
		}
	}
}
