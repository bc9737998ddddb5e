package rules

import "math"

// The quantiles of a normal distribution one standard deviation from its middle.
const (
	oneSigmaBelow = 0.1587
	oneSigmaAbove = 0.8413
	// leastIdleSigma keeps pauses that are all alike from being a cliff.
	leastIdleSigma = 0.2
)

// idleGap is how long the pauses between the turns of the pool's sessions are:
// fitted to the last hour where a log of calls tells of enough of them, else
// what agents usually do.
func (w PoolWindow) idleGap() idleGap {
	usual := idleGap{median: usualIdleGap, sigma: usualIdleSigma}
	p, _ := w.calls()
	if p == nil || p.gated() {
		return usual
	}
	gaps := p.turnGaps()
	if len(gaps) < leastGaps {
		return usual
	}
	return fitIdleGap(gaps)
}

// fitIdleGap fits a log-normal to pauses in rising order by their quantiles, so
// that a night between two turns does not count more than an hour.
func fitIdleGap(sorted []float64) idleGap {
	spread := math.Log(quantileOf(sorted, oneSigmaAbove)/quantileOf(sorted, oneSigmaBelow)) / 2
	return idleGap{median: quantileOf(sorted, 0.5), sigma: max(spread, leastIdleSigma), turns: len(sorted)}
}
