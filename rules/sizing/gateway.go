package sizing

import "fmt"

// GatewayReplicas is the least number of gateway replicas, so that one can be
// replaced (A part 5).
const GatewayReplicas = 2

// The chart's startup probe, which bounds how late a new gateway replica comes
// (A part 5).
const (
	StartupFailureThreshold = 30
	StartupPeriodSeconds    = 10
)

// countCosts are what LiteLLM's project measured for counting a prompt's tokens
// before it admits the call, in seconds (A part 5).
var countCosts = []struct{ tokens, python, rust float64 }{ //nolint:gochecknoglobals // a table of measured constants, never written.
	{50_000, 0.046, 0.0049},
	{75_000, 0.053, 0.0068},
	{100_000, 0.100, 0.0102},
}

// CountSeconds is how long counting a prompt's tokens takes, interpolated
// between the lengths that were measured; below them it is at most the first.
// Beyond them nothing was measured, and it is an error. counter is python or
// rust.
func CountSeconds(promptTokens float64, counter string) (float64, error) {
	cost := func(i int) float64 {
		if counter == "rust" {
			return countCosts[i].rust
		}
		return countCosts[i].python
	}
	if promptTokens <= countCosts[0].tokens {
		return cost(0), nil
	}
	for i := 1; i < len(countCosts); i++ {
		low, high := countCosts[i-1].tokens, countCosts[i].tokens
		if promptTokens <= high {
			return cost(i-1) + (cost(i)-cost(i-1))*(promptTokens-low)/(high-low), nil
		}
	}
	return 0, fmt.Errorf("counting was measured up to %.0f tokens, not at %.0f", countCosts[len(countCosts)-1].tokens, promptTokens)
}

// AdmissionCeiling is how many calls per second that many workers can count and
// admit (A part 5).
func AdmissionCeiling(workers, concurrentCounts, countSeconds float64) float64 {
	return workers * concurrentCounts / countSeconds
}

// GatewayWorkers is how many workers a peak takes: by what one of them can admit
// per second, and by what one of them may hold in flight (A part 5). A cap of 0
// is none.
func GatewayWorkers(peakRPS, headroom, ceilingPerWorker, inFlight, maxInFlightPerWorker float64) float64 {
	workers := Ceil(peakRPS * (1 + headroom) / ceilingPerWorker)
	if maxInFlightPerWorker > 0 {
		workers = max(workers, Ceil(inFlight/maxInFlightPerWorker))
	}
	return max(1, workers)
}

// DBConnections is how many connections the gateway opens to its database: each
// worker has a pool of its own (A part 5).
func DBConnections(replicas, workers, poolLimit float64) float64 {
	return replicas * workers * poolLimit
}

// EffectiveLimit is what a rate limit really allows (A part 5): without Redis
// each worker counts for itself.
func EffectiveLimit(limit, workers, replicas float64, redis bool) float64 {
	if redis {
		return limit
	}
	return limit * workers * replicas
}

// ScaleOutLag is how long a new gateway replica may take until it serves, in
// seconds (A part 5): startup probe failures times their period.
func ScaleOutLag(failureThreshold, periodSeconds float64) float64 {
	return failureThreshold * periodSeconds
}
