package rules

import "math"

// The constants of the fixed point; DETECTORS section 7 (D3) has them. They are
// physical, or fitted to how agents call, and no time_scale touches them.
const (
	// boundaryMiss is the share of the prompted tokens that is missed when no
	// pause between two turns is survived, withinMiss that when no pause within
	// a turn is.
	boundaryMiss, withinMiss = 0.10, 0.62
	// withinGap is the median pause within a turn in seconds, and withinSigma
	// the deviation of its logarithm: effective values, not measured ones.
	withinGap, withinSigma = 14, 1
	// usualIdleGap and usualIdleSigma are those of the pauses between turns,
	// where no log of calls tells them.
	usualIdleGap, usualIdleSigma = 250, 1.5
	// queueOccupancy is the prefill occupancy at which a queue stays.
	queueOccupancy = 0.6
	// headroomStep is the factor between two loads that are tried, and
	// mostHeadroom the largest of them.
	headroomStep = 1.06
	mostHeadroom = 10
	// headroomIterations is how often each load is iterated.
	headroomIterations = 25
	// mostUsage and mostMissRatio bound what is extrapolated, leastIdle the
	// share of its time that an engine is taken to be free of prefill.
	mostUsage, mostMissRatio = 0.97, 0.9
	leastIdle                = 0.15
	// leastBaseMiss is the least miss ratio that pauses do not explain.
	leastBaseMiss = 0.01
)

// idleGap is how long the pauses between two turns are: log-normal, by its
// median in seconds and the standard deviation of its logarithm.
type idleGap struct {
	median, sigma float64
	// turns is how many pauses it was fitted to, 0 where it is assumed.
	turns int
}

// lost is the share of pauses that a block which stays for t seconds does not
// survive: 1 - Phi((ln t - ln median) / sigma).
func (g idleGap) lost(t float64) float64 {
	return 0.5 * math.Erfc((math.Log(t)-math.Log(g.median))/(g.sigma*math.Sqrt2))
}

// engineLoad is how an engine of a pool is used; the rates are tokens per second.
type engineLoad struct {
	missed, generated, prompted float64
	// capacity is the KV cache in tokens, usage the share of it that is held.
	capacity, usage float64
	// occupancy is the mean number of prompts in prefill.
	occupancy float64
	gap       idleGap
}

// residency is T = 0.75 C (1 - k) / A in seconds, for A tokens allocated per second.
func (l engineLoad) residency(usage, allocated float64) float64 {
	return residencyFactor * l.capacity * (1 - usage) / allocated
}

// headroom is what is predicted for a load that grows.
type headroom struct {
	// ratio is the multiple of the present load at which prefill saturates; it
	// is at most mostHeadroom.
	ratio float64
	// missRatio and residency (seconds) are those at that load.
	missRatio, residency float64
}

// headroom looks for the least multiple x of the load at which prefill
// saturates. At x times the load blocks are allocated x times as fast, so that
// they stay for a shorter time T, more pauses are not survived, more is missed
// (u), and prefill is busy for longer (rho), which holds more of the cache (k)
// for longer. For each x that is iterated until it settles; T is carried on
// from one x to the next, so that a collapse is not forgotten. false says that
// the load cannot be extrapolated: nothing was missed or nothing is prefilled.
//
//	fb(T) = 1 - Phi((ln T - ln gap) / sigma)       pauses between turns not survived
//	fw(T) = 1 - Phi(ln T - ln 14)                  pauses within a turn not survived
//	u0    = m / q,  T0 = 0.75 C (1 - k) / (m + g)
//	a     = max(0.01, u0 - 0.10 fb(T0) - 0.62 fw(T0))
//	u     = min(0.9, a + 0.10 fb(T) + 0.62 fw(T))
//	rho   = x occ u / u0                            at 0.6 a queue stays
//	kx    = min(0.97, k x (1 - occ) / max(0.15, 1 - rho))
//	T     = (T + 0.75 C (1 - kx) / (x (u q + g))) / 2
//
// with m, g, q the tokens that were missed, generated and prompted per second,
// C the capacity, k the KV usage and occ the prefill occupancy. Source: the
// detector study, DETECTORS section 7.
func (l engineLoad) headroom() (headroom, bool) {
	within := idleGap{median: withinGap, sigma: withinSigma}
	if !(l.missed > 0 && l.prompted > 0 && l.capacity > 0 && l.occupancy > 0 && l.usage < 1) {
		return headroom{}, false
	}
	u0 := l.missed / l.prompted
	t := l.residency(l.usage, l.missed+l.generated)
	base := max(leastBaseMiss, u0-boundaryMiss*l.gap.lost(t)-withinMiss*within.lost(t))
	u := u0
	for x := 1.0; x <= mostHeadroom; x *= headroomStep {
		for range headroomIterations {
			u = min(mostMissRatio, base+boundaryMiss*l.gap.lost(t)+withinMiss*within.lost(t))
			rho := x * l.occupancy * u / u0
			if rho >= queueOccupancy {
				return headroom{ratio: x, missRatio: u, residency: t}, true
			}
			usage := min(mostUsage, l.usage*x*(1-l.occupancy)/max(leastIdle, 1-rho))
			t = (t + l.residency(usage, x*(u*l.prompted+l.generated))) / 2
		}
	}
	return headroom{ratio: mostHeadroom, missRatio: u, residency: t}, true
}

// prefillAlone is the multiple of the load at which prefill would saturate if
// the cache went on as it does now.
func (l engineLoad) prefillAlone() float64 { return queueOccupancy / l.occupancy }
