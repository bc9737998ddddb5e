package rules

import (
	"fmt"
	"time"
)

func init() {
	alert(Alerting{
		Name:     prefillSaturatedName,
		Help:     "The requests of a pool spend over half of its engines' time in prefill, over 10 minutes: a queue is minutes away.",
		Severity: SeverityWarning, For: 2 * time.Minute,
		Settings: []Setting{
			{Name: "ratio", Default: 0.5, Positive: true, Help: "prefill occupancy that is too high"},
			{Name: "resolve_ratio", Default: 0.4, Positive: true, Help: "prefill occupancy below which it ends"},
			{Name: "rest", Default: 15 * time.Minute, Help: "time for which it must be below that"},
			{Name: "window", Default: prefillWindow, Positive: true, Help: "time over which the occupancy is told"},
		},
		Pool: func(s *settings) detector[PoolWindow] { return &prefillSaturated{settings: s} },
	})
}

const (
	prefillSaturatedName = "PrefillSaturated"
	// toldAborts is the share of aborted requests from which they are told.
	toldAborts = 0.05
	// missesUp is how many times the usual miss ratio says that the cache is why.
	missesUp = 1.5
)

type prefillSaturated struct {
	*settings
	rest
}

// Judge implements detector.
func (d *prefillSaturated) Judge(w PoolWindow, firing time.Time) Verdict {
	window := max(d.duration("window"), leastScrapes*w.interval)
	p, told := w.prefillShare(window)
	if told == 0 {
		return unknown("no engine of the pool tells first tokens and queue times lately")
	}
	occ := p.ratio()
	requests, _ := w.sum(func(e EngineWindow) (float64, bool) { return e.HistCount(histTTFT, window), true })
	v := Verdict{
		Phase: PhaseWatching, Value: occ, Text: fmt.Sprintf("prefill occupancy %.2f of %g over %s", occ, d.number("ratio"), spell(window)),
		Over: overText(firing, "Pool %s: prefill occupancy is down to %.2f", w.pool.name, occ),
		Numbers: []Number{
			{Name: "prefill_occupancy", Value: occ, Unit: "ratio"},
			{Name: "threshold_occupancy", Value: d.number("ratio"), Unit: "ratio"},
			{Name: "requests", Value: requests, Unit: "requests"},
			{Name: "covered", Value: p.covered, Unit: "replica-seconds"},
		},
	}
	v.Active = d.active(w.now, firing, occ >= d.number("ratio") && requests >= minRequests, occ < d.number("resolve_ratio"), d.duration("rest"))
	if v.Active {
		d.tell(w, &v, p, requests, window)
	}
	return v
}

func (d *prefillSaturated) tell(w PoolWindow, v *Verdict, p prefillShare, requests float64, window time.Duration) {
	v.Summary = fmt.Sprintf("Pool %s: prefill is saturating now, occupancy %.2f", w.pool.name, v.Value)
	if v.Value < d.number("ratio") { // it goes on until that lasts
		v.Summary = fmt.Sprintf("Pool %s: prefill was saturating, occupancy is %.2f now", w.pool.name, v.Value)
	}
	seen := fmt.Sprintf("Over %s, %s first tokens took %s of prefill in %s of engine time: occupancy %.2f.",
		spell(window), amount(requests), spellSeconds(p.busy), spellSeconds(p.covered), v.Value)
	if by := w.byEngine(func(e EngineWindow) (string, bool) {
		own, ok := e.prefillShare(window)
		return fmt.Sprintf("%.2f", own.ratio()), ok
	}); len(w.pool.members) > 1 {
		seen += " By engine: " + by + "."
	}
	confident := confidence(requests)
	if aborted, finished := w.aborted(window); aborted >= minRequests && aborted > toldAborts*finished {
		seen += fmt.Sprintf(" About %s requests were aborted after their first token (%s of those that finished): their queue time is never told, so that this errs upward.",
			amount(aborted), percent(aborted/max(finished, 1)))
		confident = "low: aborted requests make it too high"
	}
	why, next := w.prefillCause(window)
	v.Evidence = Evidence{
		Seen: seen,
		Against: fmt.Sprintf("Fires at an occupancy of %g; ends below %g for %s. A queue follows within 3 to 15 minutes.",
			d.number("ratio"), d.number("resolve_ratio"), spell(d.duration("rest"))),
		CauseText: why, Next: next, Confidence: confident, Numbers: v.Numbers,
	}
}

// prefillCause says whether prefill grew with the misses or with the load.
func (w PoolWindow) prefillCause(window time.Duration) (why, next string) {
	ratio, prompted := w.pool.excess.recent(w, window)
	t := w.pool.excess.track()
	switch {
	case t == nil || prompted == 0:
		return "Prefill binds; whether the cache misses more than usual is not known.",
			"Look at the prefix cache's hit ratio; then shed or delay load, or add an engine."
	case !t.Baseline.valid():
		return fmt.Sprintf("Prefill binds: %s of the prompt tokens are missed; what is usual is still learned.", percent(ratio)),
			"Look at the prefix cache's hit ratio; then shed or delay load, or add an engine."
	case ratio > missesUp*t.Baseline.usual():
		return fmt.Sprintf("Prefill binds, and misses are why: %s of the prompt tokens are missed, usual are %s.", percent(ratio), percent(t.Baseline.usual())),
			"Mend the cache first: session affinity, changed prompts, too many live sessions. Shed or delay load until the misses are back."
	default:
		return fmt.Sprintf("Prefill binds, and load is why: the cache misses as usual (%s of the prompt tokens, usual are %s).", percent(ratio), percent(t.Baseline.usual())),
			"Shed or delay load, or add an engine; raise max-num-batched-tokens if the inter-token latency allows it."
	}
}
