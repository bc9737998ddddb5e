package rules

import (
	"fmt"
	"math"
	"time"
)

// Where the numbers come from, as people are told.
const (
	spendLogs        = "LiteLLM_SpendLogs"
	spendLogsCached  = spendLogs + " cached_tokens / prompt_tokens"
	reasonNoLog      = "spend_logs is not configured: nothing tells which call belongs to which session"
	reasonNoCall     = "no call of the pool's model was logged in the last hour"
	reasonUnreported = "no call tells its cached tokens: start vLLM with --enable-prompt-tokens-details and set always_include_stream_usage in LiteLLM's general_settings"
	// leastTold is the share of calls below which a ratio is called partial.
	leastTold = 0.95
)

// calls gives what is known of the pool's calls, or why nothing is.
func (w PoolWindow) calls() (*poolCalls, Result) {
	switch p := w.pool.calls; {
	case !w.pool.logged:
		return nil, Result{Quality: QualityAbsent, Reason: reasonNoLog}
	case p == nil && w.pool.logStale != "":
		return nil, Result{Quality: QualityStale, Reason: w.pool.logStale}
	case p == nil:
		r := Result{Quality: QualityAbsent, Reason: reasonNoCall}
		if w.pool.unclaimed > 0 {
			r.Reason += fmt.Sprintf("; %d calls were for models that no pool serves: name them in the pool's gateway_models", w.pool.unclaimed)
		}
		return nil, r
	case p.stale != "":
		return nil, Result{Quality: QualityStale, Reason: p.stale}
	default:
		return p, Result{}
	}
}

// reasonGated says why sessions tell nothing.
func (p *poolCalls) reasonGated() string {
	return fmt.Sprintf("%d of %d sessions have a single call: the gateway invents a session for each call that names none; clients should send x-litellm-session-id", p.singles, p.rested)
}

// sessionRatio is the hit ratio of the calls that pick selects.
func (w PoolWindow) sessionRatio(what string, pick func(*poolCalls, *callCells) callCell) Result {
	p, r := w.calls()
	switch {
	case p == nil:
		return r
	case p.gated():
		return Result{Quality: QualityAbsent, Reason: p.reasonGated()}
	}
	span, c := quarter, pick(p, &p.short)
	if c.reported < minRequests {
		span, c = hour, pick(p, &p.long)
	}
	switch {
	case c.calls == 0:
		return Result{Quality: QualityAbsent, Reason: fmt.Sprintf("no %s in the last hour", what)}
	case c.reported == 0:
		return Result{Quality: QualityAbsent, Reason: reasonUnreported}
	case c.reported < minRequests || c.prompt == 0:
		return Result{Quality: QualityAbsent, Reason: fmt.Sprintf("fewer than %d calls (%s) in the last hour", minRequests, what)}
	}
	from := fmt.Sprintf("%s, %s, %d calls, a turn begins after %s", spendLogsCached, spell(span), c.reported, p.boundary)
	return p.judged(Result{Value: float64(c.cached) / float64(c.prompt), Known: true, From: from}, float64(c.reported)/float64(c.calls))
}

// judged says how far a value can be trusted that rests on a share of the rows
// which came.
func (p *poolCalls) judged(r Result, reported float64) Result {
	r.Quality = QualityOK
	share := reported
	if reported < leastTold {
		r.Reason = fmt.Sprintf("%.0f %% of the calls tell their cached tokens", 100*reported)
	}
	if !math.IsNaN(p.arrivedShare) {
		share *= p.arrivedShare
		if p.arrivedShare < leastTold {
			r.Reason = fmt.Sprintf("rows of %.0f %% of the calls that the gateway counted came to its log", 100*p.arrivedShare)
		}
	}
	if share < leastTold {
		r.Quality, r.Coverage = QualityPartial, share
	} else {
		r.Reason = ""
	}
	return r
}

// String tells the boundary to a person.
func (b turnBoundary) String() string {
	how := "as configured"
	if b.found {
		how = "seen in the calls"
	}
	return fmt.Sprintf("%s (%s)", b.gap.Round(10*time.Millisecond), how)
}

// distribution makes a summary of values in rising order.
func (p *poolCalls) distribution(sorted []float64, what string, sum float64, count uint64) Result {
	if p.gated() {
		return Result{Quality: QualityAbsent, Reason: p.reasonGated()}
	}
	if len(sorted) < minRequests {
		return Result{Quality: QualityAbsent, Reason: fmt.Sprintf("fewer than %d %s in the last hour", minRequests, what)}
	}
	return p.judged(Result{Known: true, From: spendLogs, Summary: &Summary{Quantiles: quantilesOf(sorted), Sum: sum, Count: count}}, 1)
}

func quantilesOf(sorted []float64) []Quantile {
	var qs []Quantile
	for _, q := range summaryQuantiles() {
		qs = append(qs, Quantile{Q: q, Value: quantileOf(sorted, q)})
	}
	return qs
}

// turnGaps are the pauses before the turns of the last hour.
func (p *poolCalls) turnGaps() []float64 {
	return p.gaps.since(p.now-hour.Milliseconds(), func(seconds float64) bool {
		return p.bin(place{gap: time.Duration(seconds * float64(time.Second))}) >= p.boundary.bin
	})
}

func anything(float64) bool { return true }
