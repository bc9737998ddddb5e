package collector

// LiteLLM labels its series by user, key, team and address. Only what is named
// here is kept, the rest is summed away while scraping, so that nothing
// personal leaves this package.
//
// Series come and go: users are evicted, dead workers' files disappear. The
// sums therefore outlive their parts (see sums.go).
func init() {
	deployment := []string{"requested_model", "model_id"}
	latency := []string{"requested_model", "model", "model_id"}
	register(source{
		name:        SourceLiteLLM,
		path:        "/metrics/", // /metrics only redirects there
		owns:        func(name []byte) bool { return hasAnyPrefix(name, "litellm_") },
		accumulates: true,
		// Never /health, which calls the models.
		details: []detail{
			{path: "/health/readiness/details", every: gatewayDetails, keyed: true, read: readVersion("litellm_version")},
			{path: "/health/backlog", every: gatewayDetails, keyed: true, read: readBacklog, lose: loseBacklog},
		},
		hint: `point the target at a LiteLLM proxy's /metrics/, and add "prometheus" to its callbacks`,
		families: []family{
			{name: LiteLLMInFlight, kind: gauge},
			{name: LiteLLMAdmitted, kind: gauge},
			{name: LiteLLMQueued, kind: gauge},
			{name: LiteLLMRejected, labels: []string{"reason"}},
			{name: LiteLLMRequests, required: true, labels: []string{"requested_model", "model_id", "status_code"}},
			{name: LiteLLMFailed, labels: []string{"requested_model", "model_id", "exception_status"}},
			{name: LiteLLMTotalLatency, kind: histogram, labels: latency},
			{name: LiteLLMAPILatency, kind: histogram, labels: latency},
			{name: LiteLLMTTFT, kind: histogram, labels: latency},
			{name: LiteLLMQueueTime, kind: histogram, labels: latency},
			{name: LiteLLMOverhead, kind: histogram, labels: []string{"model_group", "model_id"}},
			{name: LiteLLMDeployState, kind: moved, labels: []string{labelModelID}},
			{name: LiteLLMCooledDown, labels: []string{"model_id"}},
			{name: LiteLLMDeploySuccess, labels: deployment, clears: true},
			{name: LiteLLMDeployFailure, labels: []string{"requested_model", "model_id", "exception_status"}},
			{name: LiteLLMInputTokens, labels: deployment},
			// Older releases name it after the provider's cache, some expose both.
			{name: LiteLLMCachedTokens, labels: deployment, aliases: []string{"litellm_provider_cache_read_input_tokens_metric_total"}},
			{name: LiteLLMOutputTokens, labels: deployment},
			{name: LiteLLMRedisLatency, kind: histogram},
			{name: LiteLLMRedisCalls},
			{name: LiteLLMRedisFailed},
			{name: LiteLLMPostgresLatency, kind: histogram},
			{name: LiteLLMPostgresCalls},
			{name: LiteLLMPostgresFailed},
		},
	})
}

// labelModelID identifies a deployment.
const labelModelID = "model_id"
