package rules

import "math"

func init() {
	record(Recording{
		Name: "kvwatch_pool_session_coverage_ratio", Kind: KindGauge,
		Help: "Share of the pool's calls that have a place in a session and tell their cached tokens; 0 where the session ids are invented ones.",
		Pool: func(w PoolWindow, _ string) Result {
			p, r := w.calls()
			if p == nil {
				return r
			}
			return p.coverage()
		},
	})
}

// coverage is the share of the calls that the regimes of the cache rest on.
func (p *poolCalls) coverage() Result {
	if p.gated() {
		return Result{Known: true, Quality: QualityOK, Reason: p.reasonGated(), From: spendLogs}
	}
	all, placed := p.short.total()
	if all.calls < minRequests {
		all, placed = p.long.total()
	}
	if all.calls == 0 {
		return Result{Quality: QualityAbsent, Reason: reasonNoCall}
	}
	r := Result{Value: float64(placed.reported) / float64(all.calls), Known: true, Quality: QualityOK, From: spendLogs}
	if !math.IsNaN(p.arrivedShare) {
		r.Value *= p.arrivedShare
		r.From += ", litellm_proxy_total_requests_metric_total"
	}
	return r
}
