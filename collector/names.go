package collector

// Canonical names of the raw series that are kept, as history holds them.
// Older and newer exposed names are read as aliases of these (see vllm.go and
// litellm.go). Histograms are named without suffix; their series end in
// _bucket, _sum and _count. `le` is written as Prometheus writes it ("1.0", "+Inf").
const (
	// Up is 1 when the target's page was read, 0 when not.
	Up = "up"
	// ProcessStart is the process' start time in Unix seconds, where exposed.
	ProcessStart = "process_start_time_seconds"

	VLLMRunning          = "vllm:num_requests_running"
	VLLMWaiting          = "vllm:num_requests_waiting"
	VLLMWaitingByReason  = "vllm:num_requests_waiting_by_reason" // reason
	VLLMKVUsage          = "vllm:kv_cache_usage_perc"
	VLLMSleepState       = "vllm:engine_sleep_state" // sleep_state
	VLLMCacheQueries     = "vllm:prefix_cache_queries_total"
	VLLMCacheHits        = "vllm:prefix_cache_hits_total"
	VLLMPromptTokens     = "vllm:prompt_tokens_total"
	VLLMPromptCached     = "vllm:prompt_tokens_cached_total"
	VLLMPromptBySource   = "vllm:prompt_tokens_by_source_total" // source
	VLLMGenerationTokens = "vllm:generation_tokens_total"
	VLLMPreemptions      = "vllm:num_preemptions_total"
	VLLMRequestSuccess   = "vllm:request_success_total"      // finished_reason
	VLLMRejections       = "vllm:admission_rejections_total" // reason
	VLLMCacheConfig      = "vllm:cache_config_info"          // its labels are the value, see vllm.go
	VLLMDrafts           = "vllm:spec_decode_num_drafts_total"
	VLLMPromptHist       = "vllm:request_prompt_tokens"                 // histogram
	VLLMComputedHist     = "vllm:request_prefill_kv_computed_tokens"    // histogram
	VLLMGenerationHist   = "vllm:request_generation_tokens"             // histogram
	VLLMTTFT             = "vllm:time_to_first_token_seconds"           // histogram
	VLLMITL              = "vllm:inter_token_latency_seconds"           // histogram
	VLLMTPOT             = "vllm:request_time_per_output_token_seconds" // histogram
	VLLMQueueTime        = "vllm:request_queue_time_seconds"            // histogram
	VLLME2E              = "vllm:e2e_request_latency_seconds"           // histogram
	VLLMPrefillTime      = "vllm:request_prefill_time_seconds"          // _sum and _count only
	VLLMDecodeTime       = "vllm:request_decode_time_seconds"           // _sum and _count only
	VLLMIdleBeforeEvict  = "vllm:kv_block_idle_before_evict_seconds"    // _sum and _count only
	VLLMExternalQueries  = "vllm:external_prefix_cache_queries_total"
	VLLMExternalHits     = "vllm:external_prefix_cache_hits_total"

	LiteLLMInFlight        = "litellm_in_flight_requests"
	LiteLLMAdmitted        = "litellm_admission_admitted_requests"
	LiteLLMQueued          = "litellm_admission_queued_requests"
	LiteLLMRejected        = "litellm_admission_rejected_requests_total"  // reason
	LiteLLMRequests        = "litellm_proxy_total_requests_metric_total"  // requested_model, model_id, status_code
	LiteLLMFailed          = "litellm_proxy_failed_requests_metric_total" // requested_model, model_id, exception_status
	LiteLLMTotalLatency    = "litellm_request_total_latency_metric"       // histogram; requested_model, model, model_id
	LiteLLMAPILatency      = "litellm_llm_api_latency_metric"             // histogram; same
	LiteLLMTTFT            = "litellm_llm_api_time_to_first_token_metric" // histogram; same
	LiteLLMQueueTime       = "litellm_request_queue_time_seconds"         // histogram; same
	LiteLLMOverhead        = "litellm_overhead_latency_metric"            // histogram; model_group, model_id; seconds whatever its HELP says
	LiteLLMDeployState     = "litellm_deployment_state"                   // model_id; by the series that moved last, see sums.go
	LiteLLMCooledDown      = "litellm_deployment_cooled_down_total"       // model_id
	LiteLLMDeploySuccess   = "litellm_deployment_success_responses_total" // model_id, requested_model
	LiteLLMDeployFailure   = "litellm_deployment_failure_responses_total" // model_id, requested_model, exception_status
	LiteLLMInputTokens     = "litellm_input_tokens_metric_total"          // requested_model, model_id
	LiteLLMCachedTokens    = "litellm_input_cached_tokens_metric_total"   // requested_model, model_id
	LiteLLMOutputTokens    = "litellm_output_tokens_metric_total"         // requested_model, model_id
	LiteLLMRedisLatency    = "litellm_redis_latency"                      // histogram
	LiteLLMRedisCalls      = "litellm_redis_total_requests_total"
	LiteLLMRedisFailed     = "litellm_redis_failed_requests_total"
	LiteLLMPostgresLatency = "litellm_postgres_latency" // histogram
	LiteLLMPostgresCalls   = "litellm_postgres_total_requests_total"
	LiteLLMPostgresFailed  = "litellm_postgres_failed_requests_total"
)
