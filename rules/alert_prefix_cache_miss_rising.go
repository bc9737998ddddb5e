package rules

import "time"

func init() {
	alert(Alerting{
		Name:     missRising,
		Help:     "A pool computes prompt tokens again that its cache used to hold, by 40 full prompts more than 1.5 times its usual.",
		Severity: SeverityWarning,
		Settings: excessRuleSettings(1.5),
		Pool:     func(*settings) detector[PoolWindow] { return excessDetector{level: levelWarn} },
	})
}

// excessDetector is one level of D1; the pool's cacheExcess does the work.
type excessDetector struct{ level int }

// Judge implements detector.
func (d excessDetector) Judge(w PoolWindow, firing time.Time) Verdict {
	return w.pool.excess.verdict(w, d.level, firing)
}
