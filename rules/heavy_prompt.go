package rules

import (
	"math"
	"time"
)

const (
	// heavyTau is the time constant with which P forgets.
	heavyTau = 8*time.Hour + 18*time.Minute
	// heavyCalls is how many calls P needs.
	heavyCalls = 50
	// topBucket is where the prompts above the last finite bound are taken to
	// lie, as a multiple of that bound.
	topBucket = 1.2
)

// heavyPrompt is P, the size of prompt that a prompted token is part of on
// average: sum(n mid²) / sum(n mid) over the buckets of request_prompt_tokens,
// in tokens. It is the unit of D1's thresholds.
type heavyPrompt struct {
	Squares float64 `json:"squares"`
	Sums    float64 `json:"sums"`
	// Calls counts all calls seen; it does not decay.
	Calls float64 `json:"calls"`
	// At is when the sums were last added to, in Unix milliseconds.
	At int64 `json:"at"`
}

// tokens is P, 0 while fewer than 50 calls were seen.
func (p *heavyPrompt) tokens() float64 {
	if p.Calls < heavyCalls || p.Sums <= 0 {
		return 0
	}
	return p.Squares / p.Sums
}

// decay forgets for the time since the last calls; only their ratio matters,
// so it can wait until there are new ones.
func (p *heavyPrompt) decay(at int64, tau time.Duration) {
	if p.At > 0 && at > p.At {
		f := math.Exp(-float64(at-p.At) / float64(tau.Milliseconds()))
		p.Squares *= f
		p.Sums *= f
	}
	p.At = at
}

// add takes n calls whose prompts lie between two bounds.
func (p *heavyPrompt) add(n, low, high float64) {
	mid := bucketMiddle(low, high)
	p.Squares += n * mid * mid
	p.Sums += n * mid
	p.Calls += n
}

func bucketMiddle(low, high float64) float64 {
	if math.IsInf(high, 1) {
		return topBucket * low
	}
	return (low + high) / 2
}

// newPrompts is what the prompt histogram of one unit gained since it was last
// asked. It remembers the buckets itself, because no window is asked for.
type newPrompts struct {
	buckets []float64
	begun   bool
	// page is the number of the last page that was taken.
	page int32
}

// take calls fn for each bucket that gained calls; low is 0 for the first.
func (n *newPrompts) take(h *histogram, fn func(calls, low, high float64)) {
	if h == nil || n.begun && h.page == n.page {
		return
	}
	for len(n.buckets) < len(h.buckets) {
		n.buckets = append(n.buckets, 0)
	}
	low, below := 0.0, 0.0
	for _, i := range h.sorted {
		gained := h.buckets[i] - n.buckets[i]
		if calls := gained - below; calls > 0 && n.begun {
			fn(calls, low, h.bounds[i])
		}
		low, below = h.bounds[i], max(below, gained)
	}
	copy(n.buckets, h.buckets)
	n.begun, n.page = true, h.page
}
