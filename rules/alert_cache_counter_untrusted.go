package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kvwatch/collector"
)

func init() {
	alert(Alerting{
		Name:     "CacheCounterUntrusted",
		Help:     "The prefix cache counters of an engine contradict its other figures: more look-ups than prompt tokens, no hits while prompts are found in the cache, or more hits than look-ups.",
		Severity: SeverityInfo, For: 10 * time.Minute,
		Settings: []Setting{
			{Name: "factor", Default: guardFactor, Positive: true, Help: "queried tokens over prompted ones that are too many, beyond 3 full prompts"},
			{Name: "window", Default: guardWindow, Positive: true, Help: "time over which that is judged, and more hits than look-ups are"},
			{Name: "queried", Default: 1e6, Positive: true, Help: "queried tokens without a hit that are too many, within 2 hours"},
			{Name: "reused", Default: 0.1, Positive: true, Help: "share of the prompt tokens that other figures must say were found then"},
		},
		Pool: func(s *settings) detector[PoolWindow] { return counterUntrusted{s} },
	})
}

type counterUntrusted struct{ *settings }

// Judge implements detector.
func (d counterUntrusted) Judge(w PoolWindow, firing time.Time) Verdict {
	told, wrong := 0, 0
	var seen, instead []string
	for _, u := range w.pool.members {
		e := w.engine(u)
		if !e.Fresh() || !u.offers(sourceCounters) {
			continue
		}
		told++
		fault, ok := d.contradiction(e)
		if !ok {
			continue
		}
		wrong++
		if len(seen) < toldEngines {
			seen = append(seen, u.name()+": "+fault.text())
			instead = append(instead, readInstead(u))
		}
	}
	if told == 0 {
		return unknown("no engine of the pool has prefix cache counters lately")
	}
	v := Verdict{
		Active: wrong > 0, Phase: PhaseWatching, Value: float64(wrong),
		Text:    fmt.Sprintf("the counters of %d of %s contradict themselves", wrong, plural(told, "engine")),
		Over:    overText(firing, "Pool %s: the prefix cache counters no longer contradict the other figures", w.pool.name),
		Numbers: []Number{{Name: "engines_untrusted", Value: float64(wrong), Unit: "engines"}, {Name: "engines", Value: float64(told), Unit: "engines"}},
	}
	if v.Active {
		d.tell(w, &v, seen, instead)
	}
	return v
}

// toldEngines is how many engines the text names.
const toldEngines = 6

// counterFault is how an engine's counters contradict its other figures over a window.
type counterFault struct {
	format          string
	counted, should float64
	window          time.Duration
}

func (c counterFault) text() string {
	if c.format == neverHit {
		return fmt.Sprintf(c.format, amount(c.counted), spell(c.window), percent(c.should))
	}
	return fmt.Sprintf(c.format, amount(c.counted), amount(c.should), spell(c.window))
}

const (
	hitsAbove   = "%s hits in %s tokens looked up, within %s"
	overCounted = "%s tokens looked up, %s prompted, within %s"
	neverHit    = "no hit in %s tokens looked up within %s, though %s of the prompt tokens were found"
)

// contradiction says how the engine's counters contradict its other figures,
// false where they do not.
func (d counterUntrusted) contradiction(e EngineWindow) (counterFault, bool) {
	u, window := e.unit, d.duration("window")
	queried, hits := e.Increase(totalQueries, window), e.Increase(totalHits, window)
	if hits > queried {
		return counterFault{hitsAbove, hits, queried, window}, true
	}
	if u.pool.heavyPrompt() > 0 && u.overcounted(e.ms-window.Milliseconds(), e.ms, d.number("factor")) {
		return counterFault{overCounted, queried, e.Increase(totalPrompt, window), window}, true
	}
	long := scaled(longWindow, min(d.timeScale, 1))
	if e.Increase(totalHits, long) > 0 || e.Increase(totalExternalHits, long) > 0 { // those of a tier outside are found too
		return counterFault{}, false
	}
	queried = u.tokensPerCount() * e.Increase(totalQueries, long)
	reused, ok := e.reusedElsewhere(long)
	return counterFault{neverHit, queried, reused, long}, ok && queried >= d.number("queried") && reused >= d.number("reused")
}

// reusedElsewhere is the share of the prompt tokens that were found in the
// cache as the figures beside the counters tell it.
func (w unitWindow) reusedElsewhere(d time.Duration) (float64, bool) {
	for _, s := range []cacheSource{sourceCached, sourceHistograms} {
		if !w.unit.offers(s) {
			continue
		}
		if missed, prompted := w.unit.missed(s, w.ms-d.Milliseconds(), w.ms); prompted > 0 {
			return min(max(1-missed/prompted, 0), 1), true
		}
	}
	return 0, false
}

// readInstead says what kvwatch reads while the counters are wrong.
func readInstead(u *unit) string {
	for _, s := range []cacheSource{sourceCached, sourceHistograms} {
		if u.offers(s) {
			return s.name()
		}
	}
	return ""
}

func (d counterUntrusted) tell(w PoolWindow, v *Verdict, seen, instead []string) {
	wrong := int(v.Value)
	v.Summary = fmt.Sprintf("Pool %s: the prefix cache counters of %s cannot be trusted", w.pool.name, plural(wrong, "engine"))
	if wrong > len(seen) {
		seen = append(seen, plural(wrong-len(seen), "engine")+" more")
	}
	slices.Sort(instead)
	instead = slices.Compact(instead)
	reads := "kvwatch does not read them: it reads " + strings.Join(instead, ", ") + "."
	if instead[0] == "" {
		reads = "There is nothing to read instead: hit ratios are absent meanwhile, and a cache collapse is told as a warning at most."
	}
	v.Evidence = Evidence{
		Seen: strings.Join(seen, "; ") + ".",
		Against: fmt.Sprintf("Tokens looked up should be those prompted (fires over %g times them plus %d full prompts of %s tokens, within %s), hits at most the look-ups, and not 0 in %s of them while at least %s of the prompt tokens are found.",
			d.number("factor"), guardSlack, amount(w.pool.heavyPrompt()), spell(d.duration("window")), amount(d.number("queried")), percent(d.number("reused"))),
		Cause: "counter_untrusted", CauseText: "Before vLLM 0.27 a request that waits for KV is looked up again at every step, and each look-up is counted. " + reads,
		Next:       "Do not rest dashboards or alerts on " + collector.VLLMCacheHits + " of these engines; upgrade vLLM to 0.27 or later. To see whether the cache works, send one long prompt twice: the second time to first token should be under half of the first.",
		Confidence: "high: the engines' own counters", Numbers: v.Numbers,
	}
}
