package rules

import (
	"fmt"
	"time"
)

// leastNoFitScrapes is how many scrapes a share of them needs.
const leastNoFitScrapes = 20

func init() {
	alert(Alerting{
		Name:     kvSeatShortage,
		Help:     "A call of a pool's usual size had no room in the KV cache at over 10% of the scrapes of 30 minutes.",
		Severity: SeverityWarning, For: 2 * time.Minute,
		Settings: []Setting{
			{Name: "ratio", Default: 0.10, Positive: true, Help: "share of the scrapes without room that is too high"},
			{Name: "resolve_ratio", Default: 0.05, Positive: true, Help: "share below which it ends"},
			{Name: "rest", Default: 15 * time.Minute, Help: "time for which it must be below that"},
			{Name: "window", Default: noFitWindow, Positive: true, Help: "time over which scrapes are counted"},
			{Name: "scrapes", Default: float64(leastNoFitScrapes), Positive: true, Help: "scrapes in the window that it needs"},
		},
		Pool: func(s *settings) detector[PoolWindow] { return &seatShortage{settings: s} },
	})
}

type seatShortage struct {
	*settings
	rest
}

// Judge implements detector.
func (d *seatShortage) Judge(w PoolWindow, firing time.Time) Verdict {
	n := &w.pool.noFit
	usual := n.over(promptP50)
	if reason := n.unknown(w, usual, int(d.number("scrapes"))); reason != "" {
		return unknown(reason)
	}
	need, _ := w.pool.seats.tokens()
	free, _ := w.sum(EngineWindow.freeTokens)
	share := usual.share()
	v := Verdict{
		Phase: PhaseWatching, Value: share,
		Text: fmt.Sprintf("a usual call (%s tokens) had no room at %s of %d scrapes, fires over %s", amount(need), percent(share), usual.Scrapes, percent(d.number("ratio"))),
		Over: overText(firing, "Pool %s has room for its calls again: none at %s of the scrapes of %s", w.pool.name, percent(share), spell(n.span(w))),
		Numbers: []Number{
			{Name: "no_fit_p50", Value: share, Unit: "ratio"},
			{Name: "threshold_no_fit", Value: d.number("ratio"), Unit: "ratio"},
			{Name: "scrapes", Value: float64(usual.Scrapes), Unit: "scrapes"},
			{Name: "usual_call", Value: need, Unit: "tokens"},
			{Name: "free_seats", Value: free / need, Unit: "calls"},
		},
	}
	v.Active = d.active(w.now, firing, share > d.number("ratio"), share < d.number("resolve_ratio"), d.duration("rest"))
	if v.Active {
		d.tell(w, &v, need, free)
	}
	return v
}

func (d *seatShortage) tell(w PoolWindow, v *Verdict, need, free float64) {
	n := &w.pool.noFit
	usual, large := n.over(promptP50), n.over(promptP95)
	v.Summary = fmt.Sprintf("Pool %s: about %s of arriving calls will wait for KV", w.pool.name, percent(v.Value))
	seen := fmt.Sprintf("A typical call needs %s tokens of KV cache (median prompt and mean output); %.1f such seats are free now. At %d of %d scrapes of %s an engine had no room for one.",
		amount(need), free/need, usual.NoFit, usual.Scrapes, spell(n.span(w)))
	if size, ok := w.pool.seats.need(0.95); ok && large.Scrapes > 0 {
		seen += fmt.Sprintf(" For a large call (%s tokens, P95) at %s of them.", amount(size), percent(large.share()))
	}
	if len(w.pool.members) > 1 {
		seen += " Free seats by engine: " + w.byEngine(func(e EngineWindow) (string, bool) {
			tokens, ok := e.freeTokens()
			return fmt.Sprintf("%.1f", tokens/need), ok
		}) + "."
	}
	v.Evidence = Evidence{
		Seen: seen,
		Against: fmt.Sprintf("Fires over %s of the scrapes; ends below %s for %s. The share of scrapes without room is about that of calls that wait.",
			percent(d.number("ratio")), percent(d.number("resolve_ratio")), spell(d.duration("rest"))),
		CauseText:  "Binding: room in the KV cache. Running calls hold it; a call that does not fit waits, however idle the engine is.",
		Next:       "Watch the queue before anybody is woken: this alone is no incident. Add room (an engine, gpu-memory-utilization, fp8 KV cache), or shorten contexts and outputs; look at the router if one engine alone is full.",
		Confidence: fmt.Sprintf("%s: %d scrapes of the engines' own gauge", seatConfidence(usual.Scrapes), usual.Scrapes),
		Numbers:    v.Numbers,
	}
}

// seatConfidence is by the number of scrapes, which follow each other closely
// and are no independent samples.
func seatConfidence(scrapes int) string {
	if scrapes < 3*leastNoFitScrapes {
		return "low"
	}
	return "medium"
}
