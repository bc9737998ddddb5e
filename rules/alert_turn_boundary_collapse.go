package rules

import (
	"fmt"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "TurnBoundaryCollapse",
		Help:     "Calls that begin a turn find less than 0.8 times as much of their prompts in the cache as nine of ten windows of 24 hours did, by logs of calls. Without logs it is predicted, as information, where blocks survive less than half of the pauses between turns.",
		Severity: SeverityWarning, For: 5 * time.Minute,
		Settings: []Setting{
			{Name: "ratio", Default: 0.8, Positive: true, Help: "share of its usual hit ratio below which a boundary has collapsed"},
			{Name: "resolve_ratio", Default: 0.9, Positive: true, Help: "the same at which it is over"},
			{Name: "window", Default: quarter, Positive: true, Help: "time over which the hit ratio is told"},
			{Name: "boundaries", Default: 20.0, Positive: true, Help: "calls that begin a turn which the window needs"},
			{Name: "lost_prompts", Default: 16.0, Positive: true, Help: "tokens that they must have lost, in heavy prompts"},
			{Name: "predicted_ratio", Default: 0.5, Positive: true, Help: "predicted share of pauses between turns that blocks survive, below which it is told without logs"},
		},
		Pool: func(s *settings) detector[PoolWindow] {
			return &turnBoundaryCollapse{
				settings:      s,
				boundaryRatio: boundaryRatio{window: s.duration("window"), kept: scaled(boundaryKept, s.timeScale), scale: s.timeScale, least: s.number("boundaries")},
			}
		},
	})
}

type turnBoundaryCollapse struct {
	*settings
	boundaryRatio
}

// Judge implements detector.
func (d *turnBoundaryCollapse) Judge(w PoolWindow, firing time.Time) Verdict {
	p, _ := w.calls()
	if p == nil || p.gated() {
		return d.predicted(w)
	}
	d.take(p)
	if d.Cursor == 0 { // no call tells its place and its cached tokens
		return d.predicted(w)
	}
	return d.measured(w, p, firing)
}

// measured judges what calls that begin a turn found in the cache. What fires
// goes on while they find too little, also where so little is prompted that
// little is lost; what it finds then does not become the usual.
func (d *turnBoundaryCollapse) measured(w PoolWindow, p *poolCalls, firing time.Time) Verdict {
	sum, heavy := d.now(w), w.callPrompt(p)
	d.refresh(w, firing)
	told := fmt.Sprintf("%s begin a turn within %s", plural(int(sum.Calls), "call"), spell(d.window))
	switch {
	case sum.Calls < d.least || sum.Prompt <= 0:
		return unknown(fmt.Sprintf("insufficient evidence: %s, %g are needed", told, d.least))
	case heavy == 0:
		return Verdict{Phase: PhaseLearning, Text: fmt.Sprintf("learning, %g of %d calls", p.heavy.Calls, heavyCalls)}
	}
	if firing.IsZero() {
		d.note(w, sum)
	}
	if missing := d.unlearned(w); missing != "" {
		return Verdict{Phase: PhaseLearning, Text: "learning, " + missing}
	}
	usual, ratio, lost := d.usual, sum.ratio(), sum.Lost/heavy
	active := ratio < d.number("ratio")*usual && lost >= d.number("lost_prompts")
	if !firing.IsZero() {
		active = ratio < d.number("resolve_ratio")*usual
	}
	v := Verdict{
		Active: active, Phase: PhaseWatching, Value: ratio,
		Text: fmt.Sprintf("calls that begin a turn find %s, usually at least %s, and lost %.1f full prompts; fires below %s with %g lost",
			percent(ratio), percent(usual), lost, percent(d.number("ratio")*usual), d.number("lost_prompts")),
		Over: fmt.Sprintf("Pool %s: calls that begin a turn find %s of their prompts in the cache, usually at least %s", w.pool.name, percent(ratio), percent(usual)),
		Numbers: []Number{
			{Name: "fallen", Value: 1 - ratio/usual, Unit: "of the usual hit ratio"},
			{Name: "threshold_fallen", Value: 1 - d.number("ratio"), Unit: "of the usual hit ratio"},
			{Name: "boundary_hit_ratio", Value: ratio, Unit: "ratio"},
			{Name: "usual_hit_ratio", Value: usual, Unit: "ratio"},
			{Name: "boundaries", Value: sum.Calls, Unit: "calls"},
			{Name: "lost_prompts", Value: lost, Unit: "prompts"},
			{Name: "least_lost_prompts", Value: d.number("lost_prompts"), Unit: "prompts"},
		},
	}
	if v.Active {
		d.tell(w, &v, p, sum, heavy)
	}
	return v
}

func (d *turnBoundaryCollapse) tell(w PoolWindow, v *Verdict, p *poolCalls, sum boundarySlot, heavy float64) {
	v.Summary = fmt.Sprintf("Pool %s: the cache forgets sessions before their next turn: %s found, usually at least %s", w.pool.name, percent(v.Value), percent(d.usual))
	v.Evidence = Evidence{
		Seen: fmt.Sprintf("Within %s %s began a turn (after a pause of over %s) and found %s of %s prompt tokens in the cache; %s of the conversation so far were lost (%s full prompts).",
			spell(d.window), plural(int(sum.Calls), "call"), p.boundary, percent(v.Value), amount(sum.Prompt), amount(sum.Lost), amount(sum.Lost/heavy)),
		Against: fmt.Sprintf("Usual are %s or more: so much was found in nine of ten of %s within %s. Fires below %g times that, with at least %g full prompts of %s tokens lost; ends at %g times.",
			percent(d.usual), plural(len(d.Notes), "window"), spell(d.kept), d.number("ratio"), d.number("lost_prompts"), amount(heavy), d.number("resolve_ratio")),
		Cost:       fmt.Sprintf("%s prompt tokens were computed again before first tokens that people wait for.", amount(sum.Lost)),
		Confidence: confidence(sum.Calls), Numbers: v.Numbers,
	}
	d.cause(w, &v.Evidence, sum)
	v.Evidence.Next = nextSteps(v.Evidence.Cause)
}

// cause tells why turns find little. Where affinity holds no call moves, so that
// moves explain what is missing when they make half of it.
func (d *turnBoundaryCollapse) cause(w PoolWindow, e *Evidence, sum boundarySlot) {
	if missing := d.usual*sum.Prompt - sum.Cached; sum.Moved > missing/2 {
		e.Cause = causeRouting
		e.CauseText = fmt.Sprintf("Routing: %s tokens are missing against the usual, and calls that reached another replica than the session's call before lost %s.", amount(missing), amount(sum.Moved))
		return
	}
	e.Cause = causeResidency
	e.CauseText = "Residency or working set, unless PromptPrefixChanged fires too: more live contexts than the cache holds for as long as people pause."
	if seconds, _, ok := w.residency(w.ms-scaled(residencyWindow, d.timeScale).Milliseconds(), w.ms); ok {
		e.CauseText += fmt.Sprintf(" A freed block stays in the cache for %s.", spellSeconds(seconds))
		if gap := w.idleGap(); gap.turns > 0 {
			e.CauseText += fmt.Sprintf(" People pause for %s in the median of %s.", spellSeconds(gap.median), plural(gap.turns, "pause"))
		}
	}
}

// predicted judges how long blocks stay in the cache against how long people
// pause. It is a prediction: nothing on an engine's page tells which call
// begins a turn.
func (d *turnBoundaryCollapse) predicted(w PoolWindow) Verdict {
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
