package rules

import (
	"fmt"
	"time"

	"kvwatch/collector"
)

func init() {
	alert(Alerting{
		Name:     "MetricsDisabled",
		Help:     "A target answers, but its metrics are switched off; critical when over half of its pool is so.",
		Severity: SeverityWarning, For: time.Minute,
		Target: func(*settings) detector[TargetWindow] { return metricsDisabled{} },
	})
}

type metricsDisabled struct{}

// Judge implements detector.
func (metricsDisabled) Judge(w TargetWindow, firing time.Time) Verdict {
	t := w.target
	switch {
	case w.unseen() != "":
		return unknown(w.unseen())
	case t.state != collector.StateMetricsDisabled:
		return watchingState(t, firing)
	}
	v := Verdict{Active: true, Phase: PhaseWatching, Since: t.sinceOr(firing), Value: 1, Text: "state " + string(t.state)}
	v.Summary = fmt.Sprintf("%s of job %s has its metrics switched off", t.instance, t.job)
	v.Evidence = Evidence{
		Seen:      fmt.Sprintf("For %s %s answered without a metric of its own: %s", spell(w.now.Sub(v.Since)), t.instance, t.because()),
		Against:   "A page should hold the engine's or the gateway's own metrics.",
		CauseText: "The server runs with its statistics off (vLLM: --disable-log-stats).",
		Next:      "Start it without that switch; until then nothing is known of its cache, its queue or its KV.", Confidence: "high: the server's own answer",
	}
	off, all := w.poolIn(func(s collector.State) bool { return s == collector.StateMetricsDisabled })
	if all > 0 {
		v.Evidence.Numbers = []Number{{Name: "pool_disabled", Value: float64(off), Unit: "engines"}, {Name: "pool", Value: float64(all), Unit: "engines"}}
		v.Evidence.Seen += fmt.Sprintf(" %d of %s of pool %s are so.", off, plural(all, "engine"), w.pool.name)
		if 2*off > all {
			v.Severity = SeverityCritical
		}
	}
	return v
}
