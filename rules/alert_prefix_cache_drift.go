package rules

import (
	"fmt"
	"time"
)

const prefixCacheDrift = "PrefixCacheDrift"

func init() {
	alert(Alerting{
		Name:     prefixCacheDrift,
		Help:     "Over 2 hours a pool misses at least 1.3 times as much of its prompt tokens as usual.",
		Severity: SeverityInfo, For: 30 * time.Minute,
		Settings: []Setting{
			{Name: "ratio", Default: 1.3, Positive: true, Help: "miss ratio over the usual one that fires"},
			{Name: "resolve_ratio", Default: 1.18, Positive: true, Help: "miss ratio over the usual one below which it ends"},
			{Name: "window", Default: 2 * time.Hour, Positive: true, Help: "time over which the miss ratio is told, 2 hours at most"},
			{Name: "rest", Default: 30 * time.Minute, Positive: true, Help: "time for which it must be below resolve_ratio"},
		},
		Pool: func(*settings) detector[PoolWindow] { return driftDetector{} },
	})
}

// driftDetector is D2; the pool's cacheDrift does the work.
type driftDetector struct{}

// Judge implements detector.
func (dd driftDetector) Judge(w PoolWindow, firing time.Time) Verdict {
	d := w.pool.drift
	if text := w.pool.excess.blind(w); text != "" {
		return unknown(text)
	}
	v := Verdict{Active: d.judge(w.now, firing), Phase: d.now.phase, Text: d.now.unknown, Value: d.now.ratio}
	if d.now.unknown == "" {
		v.Phase, v.Text = PhaseWatching, fmt.Sprintf("%.2f times the usual; %s", d.now.ratio, d.missText())
		v.Numbers = []Number{
			{Name: "drift", Value: d.now.ratio, Unit: "ratio"},
			{Name: "threshold", Value: d.conf.ratio, Unit: "ratio"},
			{Name: "miss_ratio", Value: d.now.miss, Unit: "ratio"},
			{Name: "usual_miss_ratio", Value: d.now.usual, Unit: "ratio"},
			{Name: "prompted", Value: d.now.prompted, Unit: "tokens"},
		}
	}
	if !v.Active {
		v.Over = fmt.Sprintf("Pool %s: the prefix cache no longer drifts: %s", w.pool.name, v.Text)
		return v
	}
	v.Since = time.UnixMilli(d.Begun).UTC()
	dd.tell(w, &v)
	return v
}

// missText says the miss ratio of the window against the usual one.
func (d *cacheDrift) missText() string {
	return fmt.Sprintf("%s missed over %s, usual are %s", percent(d.now.miss), spell(d.conf.window), percent(d.now.usual))
}

func (driftDetector) tell(w PoolWindow, v *Verdict) {
	d, c := w.pool.drift, w.pool.excess
	if d.Cause == nil {
		cause := c.cause(w, levelWarn, d.onset(c.track()))
		d.Cause = &cause
	}
	window := spell(d.conf.window)
	v.Summary = fmt.Sprintf("Pool %s: the prefix cache drifts: %s", w.pool.name, v.Text)
	seen := fmt.Sprintf("Over %s %s of %s prompt tokens were not found in the cache, %.2f times the usual %s; so since %s (%s).",
		window, percent(d.now.miss), amount(d.now.prompted), d.now.ratio, percent(d.now.usual), clock(v.Since), spell(w.now.Sub(v.Since)))
	if d.now.unknown != "" {
		seen = fmt.Sprintf("It began at %s (%s ago); now it cannot be told: %s.", clock(v.Since), spell(w.now.Sub(v.Since)), d.now.unknown)
	}
	requests, _ := w.sum(func(e EngineWindow) (float64, bool) { return e.Requests(d.conf.window), true })
	v.Evidence = Evidence{
		Seen: seen,
		Against: fmt.Sprintf("Usual miss ratio %s, as it was learned over hours of traffic when this began; fires at %g times that over %s with at least %s prompt tokens.",
			percent(d.Usual), d.conf.ratio, window, amount(driftTokens*c.prompt.tokens())),
		Cause: d.Cause.Name, CauseText: d.Cause.Text, RunnersUp: d.Cause.RunnersUp,
		Cost:       c.cost(w, max(0, (d.now.miss-d.now.usual)*d.now.prompted)),
		Next:       "No need to hurry. " + nextSteps(d.Cause.Name) + " If the work itself changed, this is the new normal: kvwatch accept " + w.pool.name + ".",
		Confidence: confidence(requests), Numbers: v.Numbers,
	}
}
