package rules

import (
	"iter"

	"kvwatch/collector"
)

// leastLost is how many tokens of the conversation so far a call must have
// missed until they count as lost (DETECTORS section 7): less is the rest of a
// block, and what a chat template changes at the end of a prompt. The study's
// heavy prompt was 95k tokens; with smaller ones it is the same share of them.
const (
	leastLost      = 1024
	leastLostHeavy = 0.011
)

// placedCall is what detectors see of one call whose place in its session is
// known, and which tells its cached tokens.
type placedCall struct {
	// end is when it ended, in Unix milliseconds.
	end int64
	// prompt, cached and lost are tokens. Lost is what the call before had in the
	// cache when it ended (its prompt and output, as far as this prompt can go on
	// from it) and this one did not find; 0 where no call is before it.
	prompt, cached, lost float64
	// first is a session's first call, boundary one that begins a new turn.
	first, boundary bool
	// moved says that the call before it went to another replica of its model.
	moved bool
	// replica is the one that served it.
	replica string
}

// place keeps a call for the detectors. Calls that overlap have no call before
// them: a session does not say which of its branches goes on.
func (p *poolCalls) place(c *collector.Call, before *session, at place) {
	if p.turnGap == 0 || !c.CachedKnown {
		return // no pool serves it, or it does not tell
	}
	end := c.End.UnixMilli()
	p.heavy.decay(max(end, p.heavy.At), heavyTau)
	p.heavy.add(1, float64(c.PromptTokens), float64(c.PromptTokens))
	placed := placedCall{
		end: end, prompt: float64(c.PromptTokens), cached: float64(c.CachedTokens),
		first: at == positionFirst, boundary: at.gap > 0 && p.bin(at) >= p.boundary.bin, replica: servedBy(c),
	}
	if at.gap > 0 && before.calls > 0 {
		least := float64(leastLost)
		if heavy := p.heavy.tokens(); heavy > 0 {
			least = min(least, leastLostHeavy*heavy)
		}
		if lost := float64(min(before.lastPrompt+before.lastOutput, c.PromptTokens) - c.CachedTokens); lost > least {
			placed.lost = lost
		}
		placed.moved = before.group == c.ModelGroup && before.deployment != "" && placed.replica != "" && before.deployment != placed.replica
	}
	p.placed = append(p.placed, placed)
}

// callPrompt is the heavy prompt of the pool's calls, in tokens: from the log
// where it told of enough of them since the start, else from the engines'
// histograms. 0 is not known.
func (w PoolWindow) callPrompt(p *poolCalls) float64 {
	if own := p.heavy.tokens(); own > 0 {
		return own
	}
	return w.pool.heavyPrompt()
}

// placedAfter are the calls that were put in their place since the last Eval
// and ended after a time in Unix milliseconds: after a restart some are read
// again.
func (p *poolCalls) placedAfter(at int64) iter.Seq[*placedCall] {
	return func(yield func(*placedCall) bool) {
		for i := range p.placed {
			if c := &p.placed[i]; c.end > at && !yield(c) {
				return
			}
		}
	}
}

// forgetPlaced drops the calls that the detectors have seen.
func (e *Engine) forgetPlaced() {
	for _, p := range e.sessions.pools {
		clear(p.placed)
		p.placed = p.placed[:0]
	}
}
