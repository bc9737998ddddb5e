package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

const promptPrefixChanged = "PromptPrefixChanged"

func init() {
	alert(Alerting{
		Name:     promptPrefixChanged,
		Help:     "Calls of a pool's sessions find less in the cache than even a session's first call does, and lose what was there by 25 full prompts beyond the usual: their prompts begin differently. From logs of calls.",
		Severity: SeverityWarning,
		Settings: append(lossSettings(25, 12),
			Setting{Name: "prefix_ratio", Default: 0.6, Positive: true, Help: "share of what first calls usually find below which not even the shared beginning was found"},
			Setting{Name: "usual_ratio", Default: 0.1, Positive: true, Help: "usual loss for this cause above which it cannot be told (prompts that never begin alike)"},
		),
		Pool: func(s *settings) detector[PoolWindow] {
			return &prefixChanged{settings: s, callLosses: newCallLosses(s)}
		},
	})
}

const (
	// firstsKept is how many first calls the shared beginning is told by, and
	// leastFirsts how many it needs.
	firstsKept  = 512
	leastFirsts = 10
	// causeContent is what D7 tells where prompts begin differently.
	causeContent = "content"
)

// prefixChanged is D7 of the cause content.
type prefixChanged struct {
	*settings
	callLosses
	// firsts are the cached tokens of the newest first calls of sessions, oldest
	// first; shared is their median, which means nothing while they are too few.
	firsts []float64
	shared float64
}

// Judge implements detector.
func (d *prefixChanged) Judge(w PoolWindow, firing time.Time) Verdict {
	p, r := w.calls()
	if p == nil {
		return unknown(r.Reason)
	}
	if d.refresh(w, firing) {
		d.firsts = nil
	}
	heavy := w.callPrompt(p)
	d.noteFirsts(p, !firing.IsZero())
	for c := range p.placedAfter(d.resumed) {
		lost := 0.0
		if !c.moved && len(d.firsts) >= leastFirsts && c.cached < d.number("prefix_ratio")*d.shared {
			lost = c.lost
		}
		d.take(c, lost, heavy, !firing.IsZero())
	}
	switch phase, text := d.unready(w, p); {
	case text != "":
		return Verdict{Phase: phase, Text: text}
	case len(d.firsts) < leastFirsts:
		return Verdict{Phase: PhaseLearning, Text: fmt.Sprintf("learning, %d of %d sessions that begin", len(d.firsts), leastFirsts)}
	case d.shared == 0:
		return unknown("not applicable: the first calls of sessions find nothing in the cache, so that there is no shared beginning to lose")
	case d.Baseline.median() > d.number("usual_ratio"):
		return unknown(fmt.Sprintf("not applicable: usually %s of the prompted tokens are lost so, the prompts never begin alike (retrieved text first, several agents in one session)", percent(d.usual())))
	}
	v := Verdict{
		Active: d.holds(firing, heavy), Phase: PhaseWatching, Value: d.S, Numbers: append(d.figures(), Number{Name: "shared_beginning", Value: d.shared, Unit: "cached tokens"}),
		Text: fmt.Sprintf("%.1f of %g full prompts lost to changed beginnings; %d of %s lost something", d.S, d.fire, d.Losing, plural(d.Calls, "call")),
		Over: overText(firing, "Pool %s: prompts begin as before again", w.pool.name),
	}
	if v.Active {
		d.tell(w, &v, heavy)
	}
	return v
}

// noteFirsts takes what first calls found, but not while the beginnings may be
// the changed ones.
func (d *prefixChanged) noteFirsts(p *poolCalls, firing bool) {
	if d.frozen(firing) {
		return
	}
	n := len(d.firsts)
	for c := range p.placedAfter(d.resumed) {
		if c.first {
			d.firsts = append(d.firsts, c.cached)
		}
	}
	if n == len(d.firsts) {
		return
	}
	if over := len(d.firsts) - firstsKept; over > 0 {
		d.firsts = slices.Delete(d.firsts, 0, over)
	}
	d.shared = median(d.firsts)
}

func (d *prefixChanged) tell(w PoolWindow, v *Verdict, heavy float64) {
	v.Since = time.UnixMilli(d.Onset).UTC()
	v.Summary = fmt.Sprintf("Pool %s: prompts begin differently: %s found not even the shared beginning since %s", w.pool.name, plural(d.Losing, "call"), clock(v.Since))
	e := &v.Evidence
	*e = Evidence{
		Seen: fmt.Sprintf("Since %s (%s) %d of %s found less than %s of the %s tokens that a session's first call finds (median of %d), and lost %s of %s prompt tokens.",
			clock(v.Since), spell(w.now.Sub(v.Since)), d.Losing, plural(d.Calls, "call"), percent(d.number("prefix_ratio")), amount(d.shared), len(d.firsts), amount(d.Lost), amount(d.Prompted)),
		Against:    d.against(heavy),
		Cause:      causeContent,
		CauseText:  "Content: the beginning of the prompts changed (system prompt, tools, a date or an id in it, retrieved text), or sessions switch models.",
		Cost:       d.cost(heavy),
		Next:       "Compare the first lines of two prompts of one session. What changes per call belongs at the end; look at what was deployed shortly before.",
		Confidence: confidence(float64(d.Calls)), Numbers: v.Numbers,
	}
	if name := d.mostly(); name != "" {
		e.suspect(causeReplica, fmt.Sprintf("Replica: over %s of the loss is at deployment %s alone, others serve calls too: its cache is off, small or cold.", percent(replicaShare), name))
	}
	if seconds, short := d.shortResidency(w); short {
		e.suspect(causeResidency, fmt.Sprintf("Residency or working set: before the onset a freed block stayed in the cache for %s only, so that even the shared beginning may go.", spellSeconds(seconds)))
	}
}

// shortResidency is the residency before the onset, and whether it was so short
// that no turn survived it.
func (d *prefixChanged) shortResidency(w PoolWindow) (seconds float64, short bool) {
	limit := shortResidency.Seconds()
	if gap := w.idleGap(); gap.turns > 0 {
		limit = min(limit, gap.median)
	}
	seconds, _, ok := w.residency(d.Onset-scaled(residencyWindow, d.scale).Milliseconds(), d.Onset)
	return seconds, ok && seconds < limit
}

// suspect puts a cause before those that were told so far.
func (e *Evidence) suspect(cause, text string) {
	e.RunnersUp = append([]string{e.CauseText}, e.RunnersUp...)
	e.Cause, e.CauseText, e.Next = cause, text, nextSteps(cause)
}

// prefixState is what survives a restart.
type prefixState struct {
	Losses lossState `json:"losses"`
	Firsts []float64 `json:"firsts"`
}

func (d *prefixChanged) save() (json.RawMessage, error) {
	if d.Cursor == 0 {
		return nil, nil
	}
	return json.Marshal(prefixState{d.lossState, d.firsts})
}

func (d *prefixChanged) load(raw json.RawMessage) error {
	var s prefixState
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	d.resume(s.Losses)
	d.firsts, d.shared = s.Firsts, median(s.Firsts)
	return nil
}
