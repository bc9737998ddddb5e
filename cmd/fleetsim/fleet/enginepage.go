package fleet

import (
	"math"
	"strconv"
	"time"
)

// kvSample is the share of KV blocks that vLLM's residency histograms watch
// (--kv-cache-metrics-sample).
const kvSample = 0.01

// engineMetrics are the families of one engine's page.
type engineMetrics struct {
	page    *page
	fleet   *Fleet
	started time.Time

	running, waiting, waitingCapacity, kvUsage         *series
	cacheQueries, cacheHits, preemptions               *series
	prompt, promptCached, promptHit, promptComputed    *series
	cachedOnDevice, generation, success, atLength      *series
	promptHist, generationHist, maxGenerationHist      *series
	paramsN, paramsMaxTokens, computedHist, iteration  *series
	ttft, interToken, perOutputToken, e2e, queueTime   *series
	inferenceTime, prefillTime, decodeTime, preempted  *series
	lifetime, idleBeforeEvict, reuseGap                *series
	externalQueries, externalHits, cachedExternally    *series
	promptExternal                                     *series
	httpRequests, httpRequestSize, httpResponseSize    *series
	httpDuration, httpDurationFine, cpuSeconds, memory *series

	// offloaded says that prefixes come from a tier outside of the KV memory.
	offloaded bool
	// interTokenSum is the sum of interToken, exact however it was added up.
	interTokenSum time.Duration
	// sampled carries the part of a sampled block between evictions.
	sampled float64
}

// newEngineMetrics begins a page with all counters at zero, as a process does.
func newEngineMetrics(f *Fleet, e *engine) *engineMetrics {
	started := f.wallClock()
	p := newPage(f.vllm, pageOptions{
		replace: cacheConfigLabels(f.config, e.cache), bounds: tokenHistogramBounds(f.config.Hardware.MaxModelLen),
		seeded: func(string) bool { return true }, now: started, life: uint64(e.truth.Restarts) + 1,
	})
	for _, gauge := range []string{
		"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
	} {
		p.find(gauge).set(0)
	}
	p.find("process_start_time_seconds").set(unixSeconds(started))
	m := &engineMetrics{
		page: p, fleet: f, started: started,
		running:           p.find("vllm:num_requests_running"),
		waiting:           p.find("vllm:num_requests_waiting"),
		waitingCapacity:   p.find("vllm:num_requests_waiting_by_reason", "reason", "capacity"),
		kvUsage:           p.find("vllm:kv_cache_usage_perc"),
		cacheQueries:      p.find("vllm:prefix_cache_queries_total"),
		cacheHits:         p.find("vllm:prefix_cache_hits_total"),
		preemptions:       p.find("vllm:num_preemptions_total"),
		prompt:            p.find("vllm:prompt_tokens_total"),
		promptCached:      p.find("vllm:prompt_tokens_cached_total"),
		promptHit:         p.find("vllm:prompt_tokens_by_source_total", "source", "local_cache_hit"),
		promptComputed:    p.find("vllm:prompt_tokens_by_source_total", "source", "local_compute"),
		cachedOnDevice:    p.find("vllm:prompt_tokens_cached_by_source_total", "source", "device"),
		generation:        p.find("vllm:generation_tokens_total"),
		success:           p.find("vllm:request_success_total", "finished_reason", "stop"),
		atLength:          p.find("vllm:request_success_total", "finished_reason", "length"),
		promptHist:        p.find("vllm:request_prompt_tokens"),
		generationHist:    p.find("vllm:request_generation_tokens"),
		maxGenerationHist: p.find("vllm:request_max_num_generation_tokens"),
		paramsN:           p.find("vllm:request_params_n"),
		paramsMaxTokens:   p.find("vllm:request_params_max_tokens"),
		computedHist:      p.find("vllm:request_prefill_kv_computed_tokens"),
		iteration:         p.find("vllm:iteration_tokens_total"),
		ttft:              p.find("vllm:time_to_first_token_seconds"),
		interToken:        p.find("vllm:inter_token_latency_seconds"),
		perOutputToken:    p.find("vllm:request_time_per_output_token_seconds"),
		e2e:               p.find("vllm:e2e_request_latency_seconds"),
		queueTime:         p.find("vllm:request_queue_time_seconds"),
		inferenceTime:     p.find("vllm:request_inference_time_seconds"),
		prefillTime:       p.find("vllm:request_prefill_time_seconds"),
		decodeTime:        p.find("vllm:request_decode_time_seconds"),
		preempted:         p.find("vllm:request_num_preemptions"),
		externalQueries:   p.find("vllm:external_prefix_cache_queries_total"),
		externalHits:      p.find("vllm:external_prefix_cache_hits_total"),
		cachedExternally:  p.find("vllm:prompt_tokens_cached_by_source_total", "source", "external_unspecified"),
		promptExternal:    p.find("vllm:prompt_tokens_by_source_total", "source", "external_kv_transfer"),
		offloaded:         e.cache.tier > 0,
		lifetime:          p.find("vllm:kv_block_lifetime_seconds"),
		idleBeforeEvict:   p.find("vllm:kv_block_idle_before_evict_seconds"),
		reuseGap:          p.find("vllm:kv_block_reuse_gap_seconds"),
		httpRequests:      p.find("http_requests_total"),
		httpRequestSize:   p.find("http_request_size_bytes"),
		httpResponseSize:  p.find("http_response_size_bytes"),
		httpDuration:      p.find("http_request_duration_seconds"),
		httpDurationFine:  p.find("http_request_duration_highr_seconds"),
		cpuSeconds:        p.find("process_cpu_seconds_total"),
		memory:            p.find("process_resident_memory_bytes"),
	}
	e.cache.evicted, e.cache.reused = m.evicted, m.reused
	p.remove(f.release.lacks)
	return m
}

// cacheConfigLabels are the labels of the page that say what this engine is.
func cacheConfigLabels(config Config, c *cache) map[string]string {
	hw := config.Hardware
	tokens := hw.KVBlocks * hw.BlockSize
	enabled := "True"
	if !c.enabled {
		enabled = "False"
	}
	return map[string]string{
		"model_name":                     config.Model,
		"block_size":                     strconv.Itoa(hw.BlockSize),
		"effective_attention_block_size": strconv.Itoa(hw.BlockSize),
		"user_specified_block_size":      "False",
		"num_gpu_blocks":                 strconv.Itoa(hw.KVBlocks),
		"num_gpu_blocks_override":        "None",
		"kv_cache_memory_bytes":          "None",
		"kv_cache_size_tokens":           strconv.Itoa(tokens),
		"kv_cache_max_concurrency":       strconv.FormatFloat(float64(tokens)/float64(hw.MaxModelLen), 'f', -1, 64),
		"enable_prefix_caching":          enabled,
	}
}

// tokenHistogramBounds gives the histograms of tokens the bounds of the
// model's longest sequence.
func tokenHistogramBounds(maxModelLen int) map[string][]float64 {
	bounds := map[string][]float64{}
	for _, name := range []string{
		"vllm:request_prompt_tokens", "vllm:request_generation_tokens", "vllm:request_max_num_generation_tokens",
		"vllm:request_params_max_tokens", "vllm:request_prefill_kv_computed_tokens",
	} {
		bounds[name] = tokenBounds(maxModelLen)
	}
	return bounds
}

// lookedUp books a look-up that ended without the request being scheduled.
func (m *engineMetrics) lookedUp(l failedLookUp) {
	m.cacheQueries.add(float64(l.tokens))
	m.cacheHits.add(float64(l.hit))
}

// admitted books the look-up of a request that was scheduled for the first time.
func (m *engineMetrics) admitted(r *request) {
	m.cacheQueries.add(float64(r.prompt.tokens))
	if m.offloaded {
		m.externalQueries.add(float64(r.prompt.tokens))
		m.externalHits.add(float64(r.cached))
		m.cachedExternally.add(float64(r.cached))
		return
	}
	m.cacheHits.add(float64(r.cached))
	m.cachedOnDevice.add(float64(r.cached))
}

// decoded books n tokens that came so long after the ones before them.
func (m *engineMetrics) decoded(after time.Duration, n int) {
	m.interToken.observeN(after.Seconds(), uint64(n))
	m.interTokenSum += time.Duration(n) * after
}

// decodedSteps books steps in which so many sequences decode a token each. The
// first step takes duration, each further one growth more; all of them fall
// into one bucket of the time between tokens.
func (m *engineMetrics) decodedSteps(duration, growth time.Duration, sequences, steps int) {
	n := time.Duration(steps)
	m.interToken.observeN(duration.Seconds(), uint64(sequences*steps))
	m.interTokenSum += time.Duration(sequences) * (n*duration + growth*(n*(n-1)/2))
	m.iteration.observeN(float64(sequences), uint64(steps))
	m.generation.add(float64(sequences * steps))
}

// alike is how many steps fall into one bucket of the time between tokens, the
// first of which takes duration and each further one growth more.
func (m *engineMetrics) alike(duration, growth time.Duration) int {
	if growth <= 0 {
		return math.MaxInt
	}
	for _, bound := range m.interToken.bounds {
		if limit := time.Duration(math.Round(bound * float64(time.Second))); duration <= limit {
			return int((limit-duration)/growth) + 1
		}
	}
	return math.MaxInt
}

// firstToken books what vLLM counts when the first token leaves.
func (m *engineMetrics) firstToken(r *request) {
	m.ttft.observe((m.fleet.now - r.arrived).Seconds())
	m.prompt.add(float64(r.prompt.tokens))
	m.promptCached.add(float64(r.cached))
	if m.offloaded {
		m.promptExternal.add(float64(r.cached))
	} else {
		m.promptHit.add(float64(r.cached))
	}
	m.promptComputed.add(float64(r.prompt.tokens - r.cached))
}

// finished books what vLLM counts when a request ends.
func (m *engineMetrics) finished(r *request) {
	now := m.fleet.now
	if r.generated >= r.maxTokens {
		m.atLength.add(1)
	} else {
		m.success.add(1)
	}
	m.promptHist.observe(float64(r.prompt.tokens))
	m.generationHist.observe(float64(r.generated))
	m.maxGenerationHist.observe(float64(r.generated))
	m.paramsN.observe(1)
	m.paramsMaxTokens.observe(float64(r.maxTokens))
	m.computedHist.observe(float64(r.prompt.tokens - r.cached))
	m.e2e.observe((now - r.arrived).Seconds())
	m.queueTime.observe((r.scheduled - r.queued).Seconds())
	m.inferenceTime.observe((now - r.scheduled).Seconds())
	m.prefillTime.observe((r.firstToken - r.scheduled).Seconds())
	m.decodeTime.observe((now - r.firstToken).Seconds())
	m.preempted.observe(float64(r.preempted))
	perToken := 0.0
	if r.generated > 1 {
		perToken = (now - r.firstToken).Seconds() / float64(r.generated-1)
	}
	m.perOutputToken.observe(perToken)

	m.httpRequests.add(1)
	m.httpRequestSize.observe(float64(r.prompt.tokens) * bytesPerToken)
	m.httpResponseSize.observe(0) // a streamed body has no length
	m.httpDuration.observe((now - r.arrived).Seconds())
	m.httpDurationFine.observe((now - r.arrived).Seconds())
}

// evicted books the residency of a hundredth of the evicted blocks.
func (m *engineMetrics) evicted(p *prefix, blocks int) {
	if n := m.sample(blocks); n > 0 {
		m.lifetime.observeN((m.fleet.now - p.born).Seconds(), n)
		m.idleBeforeEvict.observeN((m.fleet.now - p.released).Seconds(), n)
	}
}

// reused books how long a hundredth of the blocks that are hit again lay idle.
func (m *engineMetrics) reused(p *prefix) {
	if n := m.sample(p.blocks); n > 0 {
		m.reuseGap.observeN((m.fleet.now - p.released).Seconds(), n)
	}
}

// sample says how many of so many blocks are watched.
func (m *engineMetrics) sample(blocks int) uint64 {
	m.sampled += float64(blocks) * kvSample
	n := uint64(m.sampled)
	m.sampled -= float64(n)
	return n
}

// refresh sets the gauges to the present.
func (m *engineMetrics) refresh(e *engine) {
	e.book(m.fleet.now)
	m.interToken.sum = m.interTokenSum.Seconds()
	m.running.set(float64(len(e.running)))
	m.waiting.set(float64(len(e.waiting)))
	m.waitingCapacity.set(float64(len(e.waiting)))
	m.kvUsage.set(e.usage(m.fleet.now))
	m.cpuSeconds.set(0.9 * m.fleet.wallClock().Sub(m.started).Seconds())
	m.memory.set(5.2e9)
}
