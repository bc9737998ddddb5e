package sizing

import (
	"fmt"
	"strings"
)

// Setting is a value to write into `vllm serve` or into LiteLLM's configuration.
type Setting struct {
	// Name of the flag without dashes, of LiteLLM's key with dots, or of an
	// environment variable.
	Name  string
	Value any
	// Reason says where the value comes from.
	Reason string
	// Gateway is LiteLLM's; else the engine's.
	Gateway bool
}

// settings are what follows from the plan; what is unknown is left out.
func (c *chain) settings() []Setting { return append(c.engineSettings(), c.gatewaySettings()...) }

func (c *chain) engineSettings() []Setting {
	var all []Setting
	set := func(name string, value any, reason string, args ...any) {
		all = append(all, Setting{Name: name, Value: value, Reason: fmt.Sprintf(reason, args...)})
	}
	if v := c.plan.Engine.TensorParallel; v != nil {
		set("tensor-parallel-size", *v, "the KV budget is reckoned with it")
	}
	if v := c.plan.Engine.GPUMemoryUtilization; v != nil {
		set("gpu-memory-utilization", *v, "the KV budget is reckoned with it")
	}
	if v := c.plan.Engine.MaxNumBatchedTokens; v != nil {
		set("max-num-batched-tokens", *v, "the plan has it: with windows, the KV cache sets aside room for it")
	}
	if t := c.plan.Model.KVDType; t != "" {
		set("kv-cache-dtype", strings.ToLower(t), "%.3g B of each element", c.kvElement.value)
	}
	if longest := c.longest(); longest.known() {
		set("max-model-len", Ceil(longest.value), "the longest context of the plan: a longer one would not fit as reckoned")
	}
	seats := c.maxNumSeqs()
	if !seats.known() {
		return all
	}
	set("max-num-seqs", seats.value, "%s", c.seatsReason(seats.value))
	if slowest := c.slowest(); slowest.known() && c.plan.SLO.TTFTP95Ms != nil {
		seconds := *c.plan.SLO.TTFTP95Ms / 1000
		set("max-num-queued-reqs", c.queueCap().value, "the batch, and what a replica completes within slo.ttft_p95_ms (%.3g/s for %.3g s): a longer queue only breaks the SLO; it counts running requests too",
			slowest.value, seconds)
	}
	return all
}

// seatsReason says what bounds the sequences of a replica.
func (c *chain) seatsReason(seats float64) string {
	fit, measured := c.loads[0].maxSequences, c.plan.Engine.Concurrency
	for _, u := range c.loads[1:] {
		if !u.maxSequences.known() || fit.known() && u.maxSequences.value < fit.value {
			fit = u.maxSequences
		}
	}
	switch {
	case !fit.known():
		return "engine.concurrency, measured within the SLO; what memory holds is unknown"
	case measured != nil && seats < fit.value:
		return fmt.Sprintf("engine.concurrency, measured within the SLO; memory would hold %.4g", fit.value)
	default:
		return fmt.Sprintf("what the KV budget of %.4g GB holds at the longest context: more are preempted", c.kvBudget.value/GB)
	}
}

// longest is the longest context of any profile.
func (c *chain) longest() operand {
	longest := c.loads[0].context
	for _, u := range c.loads[1:] {
		if !u.context.known() || longest.known() && u.context.value > longest.value {
			longest = u.context
		}
	}
	return longest
}

// slowest is the rate of a replica with the calls of the heaviest profile.
func (c *chain) slowest() operand {
	slowest := c.loads[0].replicaRPS
	for _, u := range c.loads[1:] {
		if !u.replicaRPS.known() || slowest.known() && u.replicaRPS.value < slowest.value {
			slowest = u.replicaRPS
		}
	}
	return slowest
}

// queueCap is how many requests a replica may hold, running or waiting.
func (c *chain) queueCap() operand {
	return combine("", c.maxNumSeqs(), product("", c.slowest(), scaled(given("slo.ttft_p95_ms", c.plan.SLO.TTFTP95Ms), 0.001)), func(seats, waiting float64) (float64, error) {
		return seats + max(1, Floor(waiting)), nil
	})
}

func (c *chain) gatewaySettings() []Setting {
	var all []Setting
	set := func(name string, value any, reason string, args ...any) {
		all = append(all, Setting{Name: name, Value: value, Reason: fmt.Sprintf(reason, args...), Gateway: true})
	}
	g, need := c.plan.Gateway, c.gateway
	if need.replicas.known() {
		set("replicaCount", need.replicas.value, "at least %d, so that one can be replaced", GatewayReplicas)
		set("NUM_WORKERS", need.workersPerReplica.value, "%.4g in all by the peak of %.3g calls/s; 1 vCPU and 4 GiB each", need.workers.value, need.peakRPS.value)
	}
	if v := g.ConcurrentCounts; v != nil {
		set("TOKEN_COUNTER_MAX_CONCURRENT_COUNTS", *v, "admission is reckoned with it")
	}
	c.admissionSettings(set)
	if c.hits() && c.required[ResourceReplicas] != 1 || c.hits() && c.plan.Hardware.Replicas != nil && *c.plan.Hardware.Replicas > 1 {
		set("router_settings.optional_pre_call_checks", []string{"session_affinity"}, "the plan's hit ratio holds only if a session stays on its replica")
	}
	if g.Redis != nil && *g.Redis {
		set("litellm_settings.cache_params.type", "redis", "limits are counted once, not by each worker")
	}
	set("litellm_settings.request_timeout", 600, "A part 5: the default of 6000 s holds a place for an hour and a half")
	return all
}

// admissionSettings are the caps of a worker, and its pool.
func (c *chain) admissionSettings(set func(name string, value any, reason string, args ...any)) {
	g, need := c.plan.Gateway, c.gateway
	inFlight := given("", g.MaxInFlightPerWorker)
	reason := "the plan's"
	if engines := product("", c.replicas, c.queueCap()); !inFlight.known() && engines.known() && need.replicas.known() {
		inFlight = known("", Ceil(engines.value/(need.replicas.value*need.workersPerReplica.value)))
		reason = fmt.Sprintf("a worker's share of the %.4g requests that the engines may hold", engines.value)
	}
	if inFlight.known() {
		set("general_settings.max_in_flight_requests_per_worker", inFlight.value, "%s", reason)
		set("general_settings.max_queued_requests_per_worker", 2*inFlight.value, "twice what is in flight, as in A's configuration")
	}
	pool := orElse("", g.PoolLimit, defaultPoolLimit, "")
	workers := need.connections.value / pool.value
	switch {
	case need.connections.known() && g.MaxConnections != nil && need.connections.value > *g.MaxConnections && Floor(*g.MaxConnections/workers) >= 1:
		set("general_settings.database_connection_pool_limit", Floor(*g.MaxConnections/workers), "%.4g workers share the %.4g connections of the database", workers, *g.MaxConnections)
	case need.connections.known():
		set("general_settings.database_connection_pool_limit", pool.value, "%.4g workers open %.4g connections", workers, need.connections.value)
	}
}

// hits says whether the plan counts on the prefix cache.
func (c *chain) hits() bool {
	for _, u := range c.loads {
		if u.HitRatio != nil && *u.HitRatio > 0 {
			return true
		}
	}
	return false
}
