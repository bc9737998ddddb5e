package sizing

import (
	"fmt"
	"strings"
)

// What LiteLLM does where a plan does not say (facts: its constants and chart).
const (
	defaultGatewayWorkers   = 1
	defaultPoolLimit        = 10
	defaultConcurrentCounts = 4
)

// gatewayNeed is what the gateway needs.
type gatewayNeed struct {
	peakRPS, inFlight, workers, replicas, workersPerReplica, connections operand
}

// admission works section 5 out: what the gateway can admit, and how many of it
// the peak takes.
func (c *chain) admission() {
	g := c.plan.Gateway
	perReplica := orElse("gateway.workers", g.Workers, defaultGatewayWorkers, "1, as LiteLLM's default")
	counts := orElse("gateway.concurrent_counts", g.ConcurrentCounts, defaultConcurrentCounts, "4, as LiteLLM's default")
	c.gateway.peakRPS = c.peakRate()
	count := c.countTime()
	ceiling := c.step(
		formula{name: "admission_ceiling_rps", text: "workers x concurrent_counts / count_s", unit: "requests/s per gateway replica", source: "A part 5"},
		exact(func(x []float64) float64 { return AdmissionCeiling(x[0], x[1], x[2]) }), perReplica, counts, count)

	c.gateway.inFlight = c.inFlight()
	c.gateway.workers = c.workers(ceiling, perReplica)
	c.gateway.replicas = combine("gateway_replicas", c.gateway.workers, perReplica, func(workers, each float64) (float64, error) {
		return max(GatewayReplicas, Ceil(workers/each)), nil
	})
	c.gateway.workersPerReplica = combine("gateway_workers_per_replica", c.gateway.workers, c.gateway.replicas, func(workers, replicas float64) (float64, error) {
		return Ceil(workers / replicas), nil
	})
	replicas, each := atLeast("replicas", g.Replicas, c.gateway.replicas), atLeast("workers", g.Workers, c.gateway.workersPerReplica)
	c.gateway.connections = c.step(
		formula{name: "db_connections", text: "replicas x workers x pool_limit", unit: "connections", source: "A part 5"},
		exact(func(x []float64) float64 { return DBConnections(x[0], x[1], x[2]) }),
		replicas, each, orElse("gateway.pool_limit", g.PoolLimit, defaultPoolLimit, "10, as LiteLLM's default"))
	c.effectiveLimit(replicas, each)
	c.step(
		formula{name: "scale_out_lag_s", text: "failure_threshold x period_s", unit: "s", source: "A part 5, LiteLLM's chart"},
		exact(func(x []float64) float64 { return ScaleOutLag(x[0], x[1]) }),
		known("failure_threshold", StartupFailureThreshold), known("period_s", StartupPeriodSeconds))
}

// atLeast is what the plan has, or what is needed where that is more.
func atLeast(name string, planned *float64, needed operand) operand {
	if planned != nil && (!needed.known() || *planned >= needed.value) {
		return known(name, *planned)
	}
	return needed.as(name)
}

// effectiveLimit is what a limit of 1 comes to.
func (c *chain) effectiveLimit(replicas, workers operand) {
	redis, assumed := false, "gateway.redis false"
	if c.plan.Gateway.Redis != nil {
		redis, assumed = *c.plan.Gateway.Redis, ""
	}
	f := formula{name: "effective_limit", text: "workers x replicas, for each call of a limit: there is no Redis", unit: "times the limit that is set", source: "A part 5"}
	if redis {
		f.text = "1, for each call of a limit: Redis keeps one count"
	}
	workers.assumed = assumed
	c.step(f, exact(func(x []float64) float64 { return EffectiveLimit(1, x[0], x[1], redis) }), workers, replicas)
}

// peakRate is the rate at the gateway's door: as promised or by day, else what
// the people of all profiles send in the busy hour.
func (c *chain) peakRate() operand {
	f := formula{name: "peak_rps", unit: "requests/s", source: "A part 4, with S's peak factor"}
	if c.rps.known() {
		f.text, f.source = "rps_target", "the plan"
		if c.plan.SLO.RPSTarget == nil {
			f.text, f.source = "peak_factor x requests_per_day / (active_hours x 3600)", "S step 1"
		}
		return c.step(f, exact(func(x []float64) float64 { return x[0] }), c.rps)
	}
	peak := orElse("workload.peak_factor", c.plan.Workload.PeakFactor, 1, "1: no peak")
	var all []operand
	for _, u := range c.loads {
		if !u.drives() && c.anyPeople() {
			continue
		}
		f.profile = u.profile
		f.text = "people x calls_per_session / session_s x amplification x peak_factor"
		u.peakRPS = c.step(f, exact(func(x []float64) float64 { return x[0] * x[1] / x[2] * x[3] * x[4] }),
			given(u.key("people"), u.People), given(u.key("calls_per_session"), u.CallsPerSession), given(u.key("session_s"), u.SessionS), u.amplification, peak)
		all = append(all, u.peakRPS.as(u.Name))
	}
	if len(all) == 1 {
		return all[0].as(f.name)
	}
	f.profile, f.text = "", "the sum over profiles"
	return c.step(f, exact(func(x []float64) float64 {
		total := 0.0
		for _, v := range x {
			total += v
		}
		return total
	}), all...)
}

// countTime is how long the longest prompts take to count: as measured, else by
// LiteLLM's own measurements.
func (c *chain) countTime() operand {
	const name = "count_s"
	if measured := c.plan.assumed(assumedCount); measured != nil {
		return known(name, *measured/1000)
	}
	tokens := lacking(name, c.loads[0].key("prompt_tokens_p50"))
	for _, u := range c.loads {
		longest := u.PromptTokensP95
		if longest == nil {
			longest = u.PromptTokensP50
		}
		if longest != nil && (!tokens.known() || *longest > tokens.value) {
			tokens = known(name, *longest)
		}
	}
	if !tokens.known() {
		return tokens
	}
	var assumed []string
	counter := c.plan.Gateway.Counter
	if counter == "" {
		counter = "python"
		assumed = append(assumed, "gateway.counter python")
	}
	seconds, err := CountSeconds(tokens.value, counter)
	if err != nil {
		return lacking(name, err.Error()+": measure it and give critical_assumptions.count_ms")
	}
	if shortest := countCosts[0].tokens; tokens.value < shortest {
		assumed = append(assumed, fmt.Sprintf("count_s at most what %.0f tokens take: nothing shorter was measured", shortest))
	}
	return operand{name: name, value: seconds, assumed: strings.Join(assumed, ", ")}
}

// inFlight are the calls that the gateway holds at once: the sequences of the
// people, or by Little's law.
func (c *chain) inFlight() operand {
	const name = "in_flight"
	if c.anyPeople() {
		return c.sequences.as(name)
	}
	if len(c.loads) > 1 {
		return lacking(name, "how the rate divides among the profiles")
	}
	return product(name, scaled(c.gateway.peakRPS, 1+c.rateHeadroom().value), c.loads[0].request)
}

// workers is how many the peak takes in all.
func (c *chain) workers(ceiling, perReplica operand) operand {
	f := formula{name: "gateway_workers", text: "ceil(peak_rps x (1 + peak_over_p95) / (admission_ceiling_rps / workers))", unit: "workers in all", source: "A part 5"}
	inputs := []operand{c.gateway.peakRPS, c.rateHeadroom(), ceiling, perReplica}
	limit := 0.0
	if m := c.plan.Gateway.MaxInFlightPerWorker; m != nil {
		limit = *m
		f.text = "max(" + f.text + ", ceil(in_flight / max_in_flight_per_worker))"
		inputs = append(inputs, c.gateway.inFlight, known("max_in_flight_per_worker", limit))
	}
	return c.step(f, exact(func(x []float64) float64 {
		inFlight := 0.0
		if limit > 0 {
			inFlight = x[4]
		}
		return GatewayWorkers(x[0], x[1], x[2]/x[3], inFlight, limit)
	}), inputs...)
}
