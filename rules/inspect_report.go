package rules

import "kvwatch/collector"

// TargetReport is what inspecting one target found. Its JSON form is the one
// of DESIGN section 11.
type TargetReport struct {
	URL string `json:"url"`
	// Source is vllm or litellm, empty when it was not recognised.
	Source string `json:"source"`
	// Version is what the server says of itself, empty when unknown.
	Version string          `json:"version"`
	State   collector.State `json:"state"`
	// Reason says what is wrong and what to do when State is not up.
	Reason string `json:"reason,omitempty"`
	// Watched is what the verdict rests on.
	Watched Watched `json:"watched"`
	// Signals are a gateway's.
	Signals GatewaySignals `json:"signals"`
	// Engines are those of a vLLM page.
	Engines []EngineReport `json:"engines"`
	// Cannot lists what cannot be told, and why.
	Cannot     []Cannot   `json:"cannot"`
	Bottleneck Bottleneck `json:"bottleneck"`
	// Quirks say what to know, or to distrust, of this page.
	Quirks []string `json:"quirks"`
}

// Advise replaces what is said of a target that is not up by what whoever asks
// can do about it.
func (r *TargetReport) Advise(reason string) {
	r.Reason = reason
	r.Bottleneck.Summary = string(r.State) + ": " + reason
}

// Watched says how much was seen.
type Watched struct {
	// Seconds lie between the first page and the last; 0 where that is unknown.
	Seconds float64 `json:"seconds"`
	// Scrapes were made, of which Pages were read.
	Scrapes int `json:"scrapes"`
	Pages   int `json:"pages"`
	// Requests were seen to get a first token, or to be answered by a gateway.
	Requests float64 `json:"requests"`
}

// EngineReport is one engine of a page.
type EngineReport struct {
	Engine    string `json:"engine"`
	ModelName string `json:"model_name"`
	// KVCapacityTokens is how many tokens its KV cache holds; null is unknown.
	KVCapacityTokens *float64      `json:"kv_capacity_tokens"`
	Signals          EngineSignals `json:"signals"`
}

// EngineSignals are what was read of an engine; what the page lacks is left out.
type EngineSignals struct {
	PrefixCacheQueries *Signal `json:"prefix_cache_queries,omitempty"`
	PrefixCacheHits    *Signal `json:"prefix_cache_hits,omitempty"`
	PromptTokens       *Signal `json:"prompt_tokens,omitempty"`
	PromptTokensCached *Signal `json:"prompt_tokens_cached,omitempty"`
	GenerationTokens   *Signal `json:"generation_tokens,omitempty"`
	KVCacheUsage       *Signal `json:"kv_cache_usage,omitempty"`
	RequestsRunning    *Signal `json:"requests_running,omitempty"`
	RequestsWaiting    *Signal `json:"requests_waiting,omitempty"`
	Preemptions        *Signal `json:"preemptions,omitempty"`
	TTFT               *Signal `json:"ttft,omitempty"`
	ITL                *Signal `json:"itl,omitempty"`
	QueueTime          *Signal `json:"queue_time,omitempty"`
}

// GatewaySignals are what was read of a gateway; what the page lacks is left out.
type GatewaySignals struct {
	InFlightRequests     *Signal            `json:"in_flight_requests,omitempty"`
	OverheadLatency      *Signal            `json:"overhead_latency,omitempty"`
	TotalRequests        *Signal            `json:"total_requests,omitempty"`
	FailedRequests       *Signal            `json:"failed_requests,omitempty"`
	DeploymentState      []DeploymentSignal `json:"deployment_state,omitempty"`
	DeploymentCooledDown []DeploymentSignal `json:"deployment_cooled_down,omitempty"`
}

// Signal is one thing that was read.
type Signal struct {
	// Value is a gauge's on the last page, a counter's total there, or the mean
	// of what a histogram gained while watched; null where nothing was watched.
	Value *float64 `json:"value"`
	// Unit is tokens, requests, ratio, seconds, events or state.
	Unit string `json:"unit"`
	// From is the exposed name that was read.
	From    string  `json:"from"`
	Quality Quality `json:"quality"`
	// Watched is what a counter gained, or how many observations a histogram
	// got, while watched; absent where that is unknown.
	Watched *float64 `json:"watched,omitempty"`
	// P95 is the 95th percentile of what a histogram gained while watched.
	P95 *float64 `json:"p95,omitempty"`
	// Reason says why the value is unknown or not to be trusted.
	Reason string `json:"reason,omitempty"`
}

// DeploymentSignal is a signal of one of a gateway's deployments.
type DeploymentSignal struct {
	ModelID string `json:"model_id"`
	Signal
}

// Cannot is something that cannot be told.
type Cannot struct {
	Series string `json:"series"`
	Reason string `json:"reason"`
}
