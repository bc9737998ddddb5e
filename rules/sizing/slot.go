package sizing

import (
	"math"
	"slices"
	"time"
)

// SlotLength is the time of which one slot tells.
const SlotLength = 5 * time.Minute

// Slot is what was measured of a pool in five minutes. What is not known is nil,
// or has a count of 0.
type Slot struct {
	// Start is when it begins; starts are whole multiples of SlotLength.
	Start time.Time
	// Engines is how many engines were read at least once; EngineSeconds is the
	// time in which they were, BusySeconds the part of it in which a request ran,
	// and QueuedSeconds that in which one waited.
	Engines                                   int
	EngineSeconds, BusySeconds, QueuedSeconds float64
	// Requests is how many got their first token.
	Requests float64
	// Prompted is prompt tokens, Missed those of them that were computed, where
	// both are known; 0 and 0 where they are not.
	Prompted, Missed float64
	// Output is generated tokens.
	Output float64
	// PrefillSeconds is the time that requests spent between their admission and
	// their first token, and WaitSeconds that before, of Waited requests.
	PrefillSeconds, WaitSeconds, Waited float64
	// RunningSeconds is the time that requests ran, all of them added up.
	RunningSeconds float64
	// Running and Waiting are how many requests did, on average; nil is unknown.
	Running, Waiting *float64
	// KVTokens is how many tokens of the KV cache were used on average, of
	// Capacity in all engines together; nil is unknown.
	KVTokens, Capacity *float64
	// Sessions went quiet, of SessionCalls calls together, as the gateway's log tells.
	Sessions, SessionCalls float64
	// InFlight is what the gateways held, on average.
	InFlight *float64
	// PromptTokens and OutputTokens are distributions over calls, in tokens. TTFT is
	// over calls, ITL over tokens, TPOT the mean time of a call's tokens over calls,
	// and Overhead the gateway's own time, all in seconds.
	PromptTokens, OutputTokens, TTFT, ITL, TPOT, Overhead Histogram
}

// Histogram is counts between bounds, with what the values sum up to.
type Histogram struct {
	// Bounds are the upper bounds in rising order, the last +Inf; the slice may be
	// shared. Counts are those between one bound and the next, not cumulative.
	Bounds, Counts []float64
	Sum, Count     float64
}

// Add adds another's values. Of one with other bounds only sum and count are
// taken, so that quantiles are of the rest.
func (h *Histogram) Add(o Histogram) {
	switch {
	case h.Bounds == nil:
		h.Bounds, h.Counts = o.Bounds, slices.Clone(o.Counts)
	case slices.Equal(h.Bounds, o.Bounds):
		for i, c := range o.Counts {
			h.Counts[i] += c
		}
	}
	h.Sum += o.Sum
	h.Count += o.Count
}

// Mean is the sum over the count; false where there is nothing.
func (h Histogram) Mean() (float64, bool) { return h.Sum / h.Count, h.Count > 0 && h.Sum >= 0 }

// Quantile is the value below which that share lies; false where it lies above
// the last finite bound, or nothing is there. Within a bucket the values are
// taken to lie so that all of them sum up to what was counted: vLLM's bounds of
// tokens are a factor of 2 or 2.5 apart, and straight lines between them are
// wrong by up to that.
func (h Histogram) Quantile(q float64) (float64, bool) {
	all, top := h.total()
	if all <= 0 {
		return 0, false
	}
	fill, topFill := h.fills(all, top)
	rank, below, low := q*all, 0.0, 0.0
	for i, c := range h.Counts {
		high := h.Bounds[i]
		if c > 0 && below+c >= rank {
			if math.IsInf(high, 1) {
				return 0, false
			}
			at := math.Pow((rank-below)/c, 1/fill-1)
			if i == top {
				at = fading((rank-below)/c, topFill)
			}
			return low + (high-low)*at, true
		}
		below, low = below+c, high
	}
	return 0, false
}

// fading is where in the highest bucket the share u of its values ends, when they
// are at the given share of it on average. Below the middle their density falls on
// a straight line, to nothing at three times the share where that is within the
// bucket: few values are as high as its end.
func fading(u, share float64) float64 {
	switch {
	case share >= 0.5:
		return math.Pow(u, 1/share-1)
	case share <= 1.0/3:
		return 3 * share * (1 - math.Sqrt(1-u))
	default: // density 1 + slope (1 - 2x), whose mean is 1/2 - slope/6
		slope := 6 * (0.5 - share)
		return (1 + slope - math.Sqrt((1+slope)*(1+slope)-4*slope*u)) / (2 * slope)
	}
}

// total is how many values the buckets hold, and the highest that holds one.
func (h Histogram) total() (all float64, top int) {
	for i, c := range h.Counts {
		all += c
		if c > 0 {
			top = i
		}
	}
	return all, top
}

// heavyTop is the share of all values that the highest bucket holds when the sum
// tells more of it than of the others.
const heavyTop = 0.25

// fills are at which share of its bucket a value is on average, in the highest
// bucket and in the others, so that the sum of all is right; the middle where no
// share makes it so. In the others, values at a share f lie along u^(1/f-1), where
// u goes from 0 to 1.
func (h Histogram) fills(all float64, top int) (others, highest float64) {
	floor, width, low := 0.0, 0.0, 0.0
	topWidth := 0.0
	for i, c := range h.Counts {
		high := h.Bounds[i]
		if c > 0 && math.IsInf(high, 1) {
			return 0.5, 0.5
		}
		if c > 0 {
			floor += c * low
			width += c * (high - low)
		}
		if i == top {
			topWidth = c * (high - low)
		}
		low = high
	}
	possible := func(share float64) bool { return share > 0.05 && share < 0.95 }
	if h.Counts[top] >= heavyTop*all {
		// The others in the middle of theirs.
		if share := (h.Sum - floor - (width-topWidth)/2) / topWidth; possible(share) {
			return 0.5, share
		}
	}
	if share := (h.Sum - floor) / width; possible(share) {
		return share, share
	}
	return 0.5, 0.5
}

// Within is how many values lie at or below a limit, straight within its bucket.
func (h Histogram) Within(limit float64) float64 {
	met, low := 0.0, 0.0
	for i, c := range h.Counts {
		high := h.Bounds[i]
		switch {
		case high <= limit:
			met += c
		case low < limit && !math.IsInf(high, 1):
			met += c * (limit - low) / (high - low)
		}
		low = high
	}
	return met
}

// merge adds all slots up; gauges are left to those who ask for peaks.
func merge(slots []Slot) Slot {
	var all Slot
	for i, s := range slots {
		if i == 0 {
			all.Start = s.Start
		}
		all.Engines = max(all.Engines, s.Engines)
		all.EngineSeconds += s.EngineSeconds
		all.BusySeconds += s.BusySeconds
		all.RunningSeconds += s.RunningSeconds
		all.Requests += s.Requests
		all.Prompted += s.Prompted
		all.Missed += s.Missed
		all.Output += s.Output
		all.PrefillSeconds += s.PrefillSeconds
		all.WaitSeconds += s.WaitSeconds
		all.Waited += s.Waited
		all.Sessions += s.Sessions
		all.SessionCalls += s.SessionCalls
		all.PromptTokens.Add(s.PromptTokens)
		all.OutputTokens.Add(s.OutputTokens)
		all.TTFT.Add(s.TTFT)
		all.ITL.Add(s.ITL)
		all.TPOT.Add(s.TPOT)
		all.Overhead.Add(s.Overhead)
	}
	return all
}
