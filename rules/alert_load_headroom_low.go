package rules

import (
	"cmp"
	"fmt"
	"time"
)

func init() {
	alert(Alerting{
		Name:     loadHeadroomLow,
		Help:     "At 1.2 times its present load a pool is predicted to lose its cache or to saturate in prefill.",
		Severity: SeverityWarning, For: 5 * time.Minute,
		Settings: []Setting{
			{Name: "headroom", Default: 1.2, Positive: true, Help: "multiple of the present load that is too near"},
			{Name: "resolve_headroom", Default: 1.38, Positive: true, Help: "multiple of the present load above which it ends"},
			{Name: "rest", Default: 30 * time.Minute, Help: "time for which it must be above that"},
			{Name: "window", Default: headroomWindow, Positive: true, Help: "time that the load is read from; it is looked at every 5 minutes"},
			{Name: "least_time", Default: leastHeadroomTime, Help: "engine time in the window that a prediction needs"},
			{Name: "least_prompts", Default: float64(leastHeadroomPrompts), Help: "prompted tokens in the window that a prediction needs, in heavy prompts"},
		},
		Pool: func(s *settings) detector[PoolWindow] { return &headroomLow{settings: s} },
	})
}

// cacheBinds is how much more must be missed than now, where a pool saturates,
// for the cache to be what binds.
const cacheBinds = 1.2

type headroomLow struct {
	*settings
	rest
}

// Judge implements detector.
func (d *headroomLow) Judge(w PoolWindow, firing time.Time) Verdict {
	h := &w.pool.headroom
	if w.Fresh() == 0 {
		return unknown("no engine of the pool was read lately")
	}
	if reason := cmp.Or(h.reason, h.noRatio); reason != "" {
		return unknown(reason)
	}
	ratio := h.headroom.ratio
	v := Verdict{
		Phase: PhaseWatching, Value: ratio,
		Text:    fmt.Sprintf("headroom %s, fires at %g", times(ratio), d.number("headroom")),
		Over:    overText(firing, "Pool %s has headroom again: %s its present load", w.pool.name, times(ratio)),
		Numbers: append(h.numbers(), Number{Name: "threshold_load", Value: 1 / d.number("headroom"), Unit: "of the limit"}),
	}
	v.Active = d.active(w.now, firing, ratio <= d.number("headroom"), ratio > d.number("resolve_headroom"), d.duration("rest"))
	if v.Active {
		d.tell(w, &v)
	}
	return v
}

// times writes a multiple of the load for people.
func times(ratio float64) string {
	if ratio >= mostHeadroom {
		return "over 10 times"
	}
	return fmt.Sprintf("%.2f times", ratio)
}

func (h *poolHeadroom) numbers() []Number {
	l := h.load
	return []Number{
		{Name: "headroom", Value: h.headroom.ratio, Unit: "ratio"},
		{Name: "load", Value: 1 / h.headroom.ratio, Unit: "of the limit"},
		{Name: "residency", Value: h.residency, Unit: "seconds"},
		{Name: "idle_gap_median", Value: l.gap.median, Unit: "seconds"},
		{Name: "prefill_occupancy", Value: l.occupancy, Unit: "ratio"},
		{Name: "miss_ratio", Value: l.missed / l.prompted, Unit: "ratio"},
		{Name: "kv_usage", Value: l.usage, Unit: "ratio"},
		{Name: "covered", Value: h.covered, Unit: "replica-seconds"},
		{Name: "prompted", Value: h.prompted, Unit: "tokens"},
	}
}

func (d *headroomLow) tell(w PoolWindow, v *Verdict) {
	h := &w.pool.headroom
	l, binds, why, next := h.load, "", "", ""
	if h.headroom.missRatio >= cacheBinds*l.missed/l.prompted {
		binds = "KV residency"
		why = fmt.Sprintf("Binding: KV residency. More load allocates blocks faster, so that they are gone before a session comes back: there %s of the prompt tokens would be missed and blocks would stay for %s. With the cache as it is now prefill alone would bear %.1f times the load.",
			percent(h.headroom.missRatio), spellSeconds(h.headroom.residency), l.prefillAlone())
		next = "More room for contexts before more load: add an engine, raise gpu-memory-utilization, use an fp8 KV cache or offload KV to CPU memory; keep the number of live sessions per engine where it is."
	} else {
		binds = "prefill"
		why = "Binding: prefill. The cache would still hold, but the prompt tokens that it misses today keep the engines busy."
		next = "Add an engine before more load, or shorten what is computed: look at first calls (system prompts, retrieved text) and at max-num-batched-tokens."
	}
	v.Summary = fmt.Sprintf("Pool %s is near its limit: it bears %s its load, bound by %s", w.pool.name, times(v.Value), binds)
	from := fmt.Sprintf("%s median, assumed", spellSeconds(l.gap.median))
	if l.gap.turns > 0 {
		from = fmt.Sprintf("%s median of %d pauses", spellSeconds(l.gap.median), l.gap.turns)
	}
	at := "At its present load"
	if v.Value > 1 {
		at = fmt.Sprintf("At %+.0f%% load", 100*(v.Value-1))
	}
	v.Evidence = Evidence{
		Seen: fmt.Sprintf("%s this pool is predicted to saturate: freed blocks stay for %s (idle gaps: %s), prefill is busy %s of the time, %s of the prompt tokens are missed, KV usage is %s. Over %s, from %s of engine time and %s prompted tokens.",
			at, spellSeconds(h.residency), from, percent(l.occupancy), percent(l.missed/l.prompted), percent(l.usage), spell(h.span(w)), spellSeconds(h.covered), amount(h.prompted)),
		Against: fmt.Sprintf("Fires at %g times the present load; ends above %g times for %s.",
			d.number("headroom"), d.number("resolve_headroom"), spell(d.duration("rest"))),
		CauseText: why, Next: next, Numbers: v.Numbers,
		Confidence: "medium: a model's prediction, which was within a quarter of the true limit on the runs that it was tried on",
	}
	if l.gap.turns == 0 {
		v.Evidence.Confidence += "; the pauses between turns are assumed, because no log of calls tells them"
	}
}
