package rules

import (
	"math"
	"slices"
	"strings"
)

// PoolSessions is what the calls of a pool tell beside its series: the numbers
// that a sizing plan assumes, over the last hour.
type PoolSessions struct {
	Pool string `json:"pool"`
	// Reason says why the sessions tell nothing; empty when they do.
	Reason string `json:"reason,omitempty"`
	// Calls are the calls with tokens; Coverage is the share of them that the
	// hit ratios rest on, in 0..1.
	Calls    int     `json:"calls"`
	Coverage float64 `json:"coverage"`
	// ArrivedShare is the share of the calls counted by the gateway whose rows
	// came; nil where the gateway does not tell.
	ArrivedShare *float64 `json:"arrived_share,omitempty"`
	// TurnGapSeconds is the pause that begins a turn; TurnGapFound says that the
	// calls show it, else it is the pool's turn_gap.
	TurnGapSeconds float64 `json:"turn_gap_seconds"`
	TurnGapFound   bool    `json:"turn_gap_found"`
	// PromptTokens are quantiles of the prompts' lengths, TaskSeconds of the time
	// that tasks took, TokensPerSecond of the decode speed of streamed calls: the
	// speed that 9 of 10 calls reach (the interactivity P90) is its quantile 0.1.
	// Empty where there are fewer than 5.
	PromptTokens    []Quantile `json:"prompt_tokens,omitempty"`
	TaskSeconds     []Quantile `json:"task_seconds,omitempty"`
	TokensPerSecond []Quantile `json:"tokens_per_second,omitempty"`
}

// Sessions tells of the calls of each pool, as of the last Eval.
func (e *Engine) Sessions() []PoolSessions {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := []PoolSessions{}
	for _, p := range e.sessions.pools {
		all = append(all, p.report())
	}
	slices.SortFunc(all, func(a, b PoolSessions) int { return strings.Compare(a.Pool, b.Pool) })
	return all
}

func (p *poolCalls) report() PoolSessions {
	calls, _ := p.long.total()
	from := p.now - hour.Milliseconds()
	s := PoolSessions{
		Pool: p.name, Reason: p.stale, Calls: int(calls.calls), Coverage: p.coverage().Value,
		TurnGapSeconds: p.boundary.gap.Seconds(), TurnGapFound: p.boundary.found,
		PromptTokens: atQuantiles(p.prompts.since(from, anything), 0.5, 0.9, 0.95, 0.99),
	}
	if p.gated() {
		s.Reason = p.reasonGated()
	}
	if !math.IsNaN(p.arrivedShare) {
		s.ArrivedShare = &p.arrivedShare
	}
	s.TokensPerSecond = atQuantiles(p.speeds.since(from, anything), 0.1, 0.5, 0.9)
	if s.Reason == "" {
		s.TaskSeconds = atQuantiles(p.tasks.since(from, anything), 0.5, 0.9, 0.95, 0.99)
	}
	return s
}

// atQuantiles gives the quantiles of values in rising order, where there are enough.
func atQuantiles(sorted []float64, qs ...float64) []Quantile {
	if len(sorted) < minRequests {
		return nil
	}
	var out []Quantile
	for _, q := range qs {
		out = append(out, Quantile{Q: q, Value: quantileOf(sorted, q)})
	}
	return out
}
