package rules

import (
	"fmt"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "TurnBoundaryCollapse",
		Help:     "A pool is predicted to have dropped over half of its sessions' blocks from the cache when people come back for the next turn (info: a prediction).",
		Severity: SeverityWarning, For: 5 * time.Minute,
		Settings: []Setting{
			{Name: "predicted_ratio", Default: 0.5, Positive: true, Help: "predicted share of pauses between turns that blocks survive, below which it is told without logs"},
		},
		Pool: func(s settings) detector[PoolWindow] { return turnBoundaryCollapse{s} },
	})
}

type turnBoundaryCollapse struct{ settings }

// Judge implements detector.
func (d turnBoundaryCollapse) Judge(w PoolWindow, _ time.Time) Verdict { return d.predicted(w) }

// predicted judges how long blocks stay in the cache against how long people
// pause. It is a prediction: nothing on an engine's page tells which call
// begins a turn.
func (d turnBoundaryCollapse) predicted(w PoolWindow) Verdict {
	h := &w.pool.headroom
	switch {
	case w.Fresh() == 0:
		return unknown("no engine of the pool was read lately")
	case h.reason != "":
		return unknown(h.reason)
	}
	gap := h.load.gap
	from := "assumed, because no log of calls tells them"
	if gap.turns > 0 {
		from = fmt.Sprintf("of %d pauses of the last hour", gap.turns)
	}
	v := Verdict{
		Active: h.boundary < d.number("predicted_ratio"), Phase: PhaseWatching, Value: h.boundary, Severity: SeverityInfo,
		Text: fmt.Sprintf("predicted: blocks survive %s of the pauses between turns, fires below %s", percent(h.boundary), percent(d.number("predicted_ratio"))),
		Over: fmt.Sprintf("Pool %s: blocks are predicted to survive %s of the pauses between turns", w.pool.name, percent(h.boundary)),
		Numbers: []Number{
			{Name: "predicted_boundary_hit_ratio", Value: h.boundary, Unit: "ratio"},
			{Name: "lost", Value: 1 - h.boundary, Unit: "of the pauses"},
			{Name: "threshold_lost", Value: 1 - d.number("predicted_ratio"), Unit: "of the pauses"},
			{Name: "residency", Value: h.residency, Unit: "seconds"},
			{Name: "idle_gap_median", Value: gap.median, Unit: "seconds"},
			{Name: "prompted", Value: h.prompted, Unit: "tokens"},
		},
	}
	if !v.Active {
		return v
	}
	v.Summary = fmt.Sprintf("Pool %s (a prediction): the cache forgets %s of the sessions before their next turn", w.pool.name, percent(1-h.boundary))
	v.Evidence = Evidence{
		Seen: fmt.Sprintf("Predicted, not measured: a freed block stays in the cache for %s, so that it survives %s of the pauses between turns (median %s, %s). Over %s, from %s of engine time and %s prompted tokens.",
			spellSeconds(h.residency), percent(h.boundary), spellSeconds(gap.median), from, spell(h.span(w)), spellSeconds(h.covered), amount(h.prompted)),
		Against:    fmt.Sprintf("Without logs of calls it is told below %s, as information.", percent(d.number("predicted_ratio"))),
		CauseText:  "Residency or working set: more live contexts than the cache holds for as long as people pause.",
		Next:       "Configure spend_logs to measure it (hit ratios by position in a session). If first tokens of later turns are slow: more room for contexts, or fewer sessions per engine.",
		Confidence: "low: a prediction, which was 0.1 away from what was measured on average",
		Numbers:    v.Numbers,
	}
	return v
}
