package rules

import (
	"fmt"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "ReplicaOutlier",
		Help:     "One engine of a pool of five or more computes prompt tokens again that its peers find in their caches, by 40 full prompts.",
		Severity: SeverityWarning,
		Settings: []Setting{
			{Name: "kappa", Default: 2.0, Positive: true, Help: "multiple of what the pool usually misses, or its other engines miss now, that is tolerated"},
			{Name: "threshold_prompts", Default: 40.0, Positive: true, Help: "excess that fires, in heavy prompts"},
			{Name: "resolve_prompts", Default: 96.0, Positive: true, Help: "prompted tokens of the engine that a recovery is judged on, in heavy prompts"},
			{Name: "engines", Default: 5.0, Positive: true, Help: "engines that a pool must have; in smaller ones PrefixCacheMissRising tells who carries the excess"},
		},
		Engine: func(s *settings) detector[EngineWindow] {
			return &replicaOutlier{
				settings: s, quiet: excessNumbers(0, s.number("threshold_prompts")),
				replicaExcess: replicaExcess{
					conf:           excessSettings{kappa: s.number("kappa"), prompts: s.number("threshold_prompts")},
					resolvePrompts: s.number("resolve_prompts"), scale: s.timeScale,
				},
			}
		},
	})
}

// replicaOutlier is D6.
type replicaOutlier struct {
	*settings
	replicaExcess
	// quiet are the numbers while there is no excess.
	quiet []Number
}

func excessNumbers(prompts, threshold float64) []Number {
	return []Number{{Name: "excess_prompts", Value: prompts, Unit: "prompts"}, {Name: "threshold_prompts", Value: threshold, Unit: "prompts"}}
}

// Judge implements detector.
func (d *replicaOutlier) Judge(w EngineWindow, firing time.Time) Verdict {
	c := w.pool.excess
	heavy := c.prompt.tokens()
	if phase, text := d.unready(w, heavy); text != "" {
		d.take(w, 0, heavy)
		return Verdict{Phase: phase, Text: text}
	}
	usual, peers := c.track().Baseline.usual(), w.peers(d.span(w))
	tolerated := max(usual, peers)
	d.take(w, tolerated, heavy)
	active := d.judge(w, firing, tolerated, heavy)
	if !active && firing.IsZero() && d.Level.S == 0 { // as with nearly all engines at nearly all times
		return Verdict{Phase: PhaseWatching, Text: "no excess over its peers", Numbers: d.quiet}
	}
	v := Verdict{
		Active: active, Phase: PhaseWatching, Value: d.Level.S / heavy,
		Text: fmt.Sprintf("excess %.1f of %g full prompts; %s", d.Level.S/heavy, d.conf.prompts, d.ratios(w, usual, peers)),
	}
	v.Numbers = append(excessNumbers(v.Value, d.conf.prompts),
		Number{Name: "usual_miss_ratio", Value: usual, Unit: "ratio"}, Number{Name: "peers_miss_ratio", Value: peers, Unit: "ratio"})
	if !v.Active {
		v.Over = fmt.Sprintf("%s of pool %s is like its peers again: %s", w.unit.name(), w.pool.name, d.ratios(w, usual, peers))
		return v
	}
	v.Since = time.UnixMilli(d.Level.Onset).UTC()
	d.tell(w, &v, usual, peers)
	return v
}

// span is the peers' window, long enough to hold a dozen scrapes.
func (d *replicaOutlier) span(w EngineWindow) time.Duration {
	return max(scaled(peersWindow, d.scale), 4*w.fresh)
}

// unready says why the engine cannot be judged now, "" where it can.
func (d *replicaOutlier) unready(w EngineWindow, heavy float64) (phase, text string) {
	t := w.pool.excess.track()
	switch {
	case !w.Fresh():
		return PhaseUnknown, staleReason(w.unit.target, w.ms)
	case len(w.pool.members) < int(d.number("engines")):
		return PhaseUnknown, fmt.Sprintf("the pool has %s, and %g are needed to tell one from its peers; %s says who carries an excess",
			plural(len(w.pool.members), "engine"), d.number("engines"), missRising)
	case t == nil || !w.unit.offers(t.source):
		return PhaseUnknown, noSource(w.unit)
	case t.contaminated:
		return PhaseUnknown, "the cache counters count more tokens than were prompted: " + untrustedText
	case heavy == 0:
		return PhaseLearning, "learning the usual size of the pool's prompts"
	case !t.Baseline.valid():
		return PhaseLearning, "learning what is usual for the pool"
	default:
		return "", ""
	}
}

// ratios says how much the engine misses against the others.
func (d *replicaOutlier) ratios(w EngineWindow, usual, peers float64) string {
	missed, prompted := w.unit.missed(w.pool.excess.active, w.ms-d.span(w).Milliseconds(), w.ms)
	own := "nothing was prompted"
	if prompted > 0 {
		own = percent(min(max(missed/prompted, 0), 1)) + " missed"
	}
	return fmt.Sprintf("%s over %s, %s at its peers, usual of the pool %s", own, spell(d.span(w)), percent(peers), percent(usual))
}

func (d *replicaOutlier) tell(w EngineWindow, v *Verdict, usual, peers float64) {
	name, since := w.unit.name(), w.now.Sub(v.Since)
	v.Summary = fmt.Sprintf("%s of pool %s computes prompts again that its peers find in their caches: %s", name, w.pool.name, d.ratios(w, usual, peers))
	v.Evidence = Evidence{
		Seen: fmt.Sprintf("Since %s (%s) %s computed %s of %s prompt tokens, %s full prompts more than %g times what is normal.",
			clock(v.Since), spell(since), name, amount(d.Missed), amount(d.Prompted), amount(max(0, d.Level.Recomputed)/w.pool.heavyPrompt()), d.conf.kappa),
		Against: fmt.Sprintf("Normal is the larger of the pool's usual miss ratio (%s) and its other engines' over %s (%s); fires at %g full prompts of %s tokens beyond %g times that.",
			percent(usual), spell(d.span(w)), percent(peers), d.conf.prompts, amount(w.pool.heavyPrompt()), d.conf.kappa),
		Cause: causeReplica, CauseText: fmt.Sprintf("Replica: %s alone, the %d others are as usual: its cache is off, small or cold, or calls reach it that belong elsewhere.", name, len(w.pool.members)-1),
		Cost: prefilledAgain(d.Level.Cost, w.HistSum(histPrefill, residencyWindow), w.HistSum(histComputed, residencyWindow), w.pool.price),
		Next: nextSteps(causeReplica), Confidence: confidence(w.Requests(min(since, longWindow))), Numbers: v.Numbers,
	}
	if w.unit.restarted(w.ms, d.scale) {
		v.Evidence.RunnersUp = []string{v.Evidence.CauseText}
		v.Evidence.Cause = causeRestart
		v.Evidence.CauseText = restartText([]string{name}, d.scale)
		v.Evidence.Next = nextSteps(causeRestart)
	}
}
