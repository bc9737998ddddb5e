package rules

import (
	"math"
	"time"
)

// defaultTurnGap is the pause that makes a new turn where neither the calls nor
// the configuration say it.
const defaultTurnGap = 30 * time.Second

// Pauses are counted in steps of a twentieth of a decade, anchored at the pool's
// turn_gap, so that this one is kept to exactly.
const (
	binsPerDecade = 20
	decades       = 4 // to each side of turn_gap
)

const (
	binFirst = iota
	binOverlap
	binUnknown
	binLowest
	// binZero holds the pauses just longer than turn_gap.
	binZero = binLowest + decades*binsPerDecade
	bins    = binZero + decades*binsPerDecade
)

// bin is where a call at that place is counted.
func (p *poolCalls) bin(at place) int {
	if at.gap == 0 {
		return at.fixed
	}
	steps := math.Ceil(binsPerDecade*math.Log10(float64(at.gap)/float64(p.turnGap))) - 1
	return min(max(binZero+int(steps), binLowest), bins-1)
}

// turnBoundary is the pause from which on a call begins a new turn.
type turnBoundary struct {
	// bin is the first one beyond, gap the pause itself.
	bin int
	gap time.Duration
	// found says that the calls show it, with two clear humps.
	found bool
}

const (
	// A hump needs so many pauses, and so large a part of all.
	leastHump      = 10
	leastHumpShare = 0.05
	leastGaps      = 50
	// clearValley is how low the valley lies against the lower of the humps.
	clearValley = 0.5
	// valleyFloor is how far above its lowest place the valley's ground reaches,
	// as a share of the lower hump.
	valleyFloor = 0.05
	// smoothings is how often the counts are smoothed (a width of a sixth of a decade).
	smoothings = 3
)

// findBoundary looks for the valley between two humps of the pauses: short ones
// within a turn, long ones between turns. Without two clear humps it is turnGap.
func findBoundary(w *callCells, turnGap time.Duration) turnBoundary {
	fallback := turnBoundary{bin: binZero, gap: turnGap}
	const n = bins - binLowest
	var counts, left, right [n]float64
	all := 0.0
	for i := range n {
		counts[i] = float64(w.bins[binLowest+i].calls)
		all += counts[i]
	}
	if all < leastGaps {
		return fallback
	}
	least := max(leastHump, leastHumpShare*all)
	smoothed := smooth(counts[:])
	var below float64
	for i := 1; i < n; i++ { // the highest hump before and after each
		left[i] = max(left[i-1], smoothed[i-1])
		right[n-1-i] = max(right[n-i], smoothed[n-i])
	}
	best, lowest := -1, math.Inf(1)
	for i := range n {
		hump := min(left[i], right[i])
		if below >= least && all-below >= least && hump > 0 && smoothed[i]/hump < lowest {
			best, lowest = i, smoothed[i]/hump
		}
		below += counts[i]
	}
	if best < 0 || lowest > clearValley {
		return fallback
	}
	bin := binLowest + middle(counts[:], smoothed, best, smoothed[best]+valleyFloor*min(left[best], right[best]))
	return turnBoundary{bin: bin, gap: gapOf(bin, turnGap), found: true}
}

// middle is the middle of the valley's ground around its lowest place: of the
// widest stretch there without any pause, else of what is about as low.
func middle(counts, smoothed []float64, lowest int, ground float64) int {
	from, to := lowest, lowest
	for from > 0 && smoothed[from-1] <= ground {
		from--
	}
	for to < len(counts)-1 && smoothed[to+1] <= ground {
		to++
	}
	at, widest := (from+to+1)/2, 1
	for begin := from; begin <= to; begin++ {
		end := begin
		for end < len(counts) && counts[end] == 0 {
			end++
		}
		if end-begin > widest {
			at, widest = (begin+end)/2, end-begin
		}
		begin = max(begin, end)
	}
	return at
}

// gapOf is the pause at which a bin begins.
func gapOf(bin int, turnGap time.Duration) time.Duration {
	return time.Duration(float64(turnGap) * math.Pow(10, float64(bin-binZero)/binsPerDecade))
}

// smooth takes the noise out of counts with a binomial kernel.
func smooth(counts []float64) []float64 {
	kernel := [5]float64{1. / 16, 4. / 16, 6. / 16, 4. / 16, 1. / 16}
	now := counts
	for range smoothings {
		next := make([]float64, len(now))
		for i := range now {
			for k, weight := range kernel {
				if j := i + k - 2; j >= 0 && j < len(now) {
					next[i] += weight * now[j]
				}
			}
		}
		now = next
	}
	return now
}
