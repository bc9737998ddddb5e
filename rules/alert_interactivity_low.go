package rules

import (
	"fmt"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "InteractivityLow",
		Help:     "One of ten requests of a pool gets fewer tokens per second than the pool's floor (20), over 10 minutes.",
		Severity: SeverityWarning, For: 5 * time.Minute,
		Settings: []Setting{
			{Name: "floor", Default: 20.0, Positive: true, Help: "tokens per second that 9 of 10 requests should get, where the pool's slo says no tokens_per_second_p10"},
			{Name: "window", Default: shortWindow, Positive: true, Help: "time over which it is told"},
			{Name: "requests", Default: 50.0, Positive: true, Help: "requests in the window that it needs"},
		},
		Pool: func(s *settings) detector[PoolWindow] { return interactivityLow{s} },
	})
}

// slowTenth is the quantile of the speeds that is judged.
const slowTenth = 0.1

type interactivityLow struct{ *settings }

// floor is what the pool promised, else the rule's.
func (d interactivityLow) floor(p *pool) float64 {
	if p.conf != nil && p.conf.SLO.TokensPerSecondP10 > 0 {
		return p.conf.SLO.TokensPerSecondP10
	}
	return d.number("floor")
}

// Judge implements detector.
func (d interactivityLow) Judge(w PoolWindow, firing time.Time) Verdict {
	window := max(d.duration("window"), leastScrapes*w.interval)
	b, engines, from := w.speedBuckets(window)
	if len(engines) == 0 {
		return unknown("of all engines of the pool that were read lately: " + noSpeed)
	}
	requests := 0.0
	for _, e := range engines {
		requests += e.Requests(window)
	}
	if requests < d.number("requests") {
		return unknown(fmt.Sprintf("insufficient evidence: %s of %g requests in %s", amount(requests), d.number("requests"), spell(window)))
	}
	slow, ok := b.speed(slowTenth)
	if !ok {
		return Verdict{Phase: PhaseWatching, Text: fmt.Sprintf("9 of 10 requests are faster or slower than the buckets of %s tell", from)}
	}
	floor := d.floor(w.pool)
	v := Verdict{
		Active: slow < floor, Phase: PhaseWatching, Value: slow,
		Text: fmt.Sprintf("9 of 10 requests get %.1f tokens/s or more, fires under %g", slow, floor),
		Over: overText(firing, "Pool %s: 9 of 10 requests get %.1f tokens/s or more again", w.pool.name, slow),
		Numbers: []Number{
			{Name: "tokens_per_second_p10", Value: slow, Unit: "tokens/s"},
			{Name: "floor", Value: floor, Unit: "tokens/s"},
			{Name: "seconds_per_token_p90", Value: 1 / slow, Unit: "seconds"},
			{Name: "threshold_seconds_per_token", Value: 1 / floor, Unit: "seconds"},
			{Name: "requests", Value: requests, Unit: "requests"},
		},
	}
	if !v.Active {
		return v
	}
	seen := fmt.Sprintf("Over %s, %s requests: one of ten got %.1f tokens/s or less", spell(window), amount(requests), slow)
	if middle, ok := b.speed(0.5); ok {
		seen += fmt.Sprintf(", half of them %.1f or less", middle)
		v.Numbers = append(v.Numbers, Number{Name: "tokens_per_second_p50", Value: middle, Unit: "tokens/s"})
	}
	why, next := w.latencyCause(objective{name: sloITL})
	v.Summary = fmt.Sprintf("Pool %s is slow: one of ten requests gets %.1f tokens/s or less", w.pool.name, slow)
	v.Evidence = Evidence{
		Seen: seen + fmt.Sprintf(" (%s).", from), Against: fmt.Sprintf("The floor is %g tokens/s for 9 of 10 requests, with at least %g requests in %s.", floor, d.number("requests"), spell(window)),
		CauseText: why, Next: next, Confidence: confidence(requests), Numbers: v.Numbers,
	}
	return v
}
