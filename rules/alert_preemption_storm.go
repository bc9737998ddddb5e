package rules

import (
	"fmt"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "PreemptionStorm",
		Help:     "An engine throws over 5% as many requests out of its KV cache as it finishes, and at least 5, within 10 minutes.",
		Severity: SeverityWarning, For: 2 * time.Minute,
		Settings: []Setting{
			{Name: "ratio", Default: 0.05, Positive: true, Help: "preemptions over finished requests that are too many"},
			{Name: "preemptions", Default: 5.0, Positive: true, Help: "preemptions that there must be at least"},
			{Name: "window", Default: 10 * time.Minute, Positive: true, Help: "time over which both are counted, 10 minutes at most"},
		},
		Engine: func(s *settings) detector[EngineWindow] { return preemptionStorm{s} },
	})
}

type preemptionStorm struct{ *settings }

// Judge implements detector.
func (d preemptionStorm) Judge(w EngineWindow, firing time.Time) Verdict {
	switch {
	case !w.Fresh():
		return unknown(staleReason(w.unit.target, w.ms))
	case !w.unit.has(totalPreemptions):
		return unknown("the engine counts no preemptions")
	}
	window := max(min(d.duration("window"), shortWindow), leastScrapes*w.interval())
	preempted, finished := w.Increase(totalPreemptions, window), w.Increase(totalFinished, window)
	share := preempted / max(finished, 1)
	v := Verdict{
		Active: preempted >= d.number("preemptions") && preempted > d.number("ratio")*finished,
		Phase:  PhaseWatching, Value: preempted,
		Text: fmt.Sprintf("%s and %s in %s", plural(int(preempted), "preemption"), plural(int(finished), "finished request"), spell(window)),
		Numbers: []Number{
			{Name: "preempted", Value: share, Unit: "of the finished"},
			{Name: "threshold_preempted", Value: d.number("ratio"), Unit: "of the finished"},
			{Name: "preemptions", Value: preempted, Unit: "requests"},
			{Name: "finished", Value: finished, Unit: "requests"},
		},
	}
	if preempted < d.number("preemptions") {
		v.Numbers = v.Numbers[2:] // a share of so few says nothing
	}
	if !firing.IsZero() {
		v.Over = fmt.Sprintf("%s of pool %s: %s", w.unit.name(), w.pool.name, v.Text)
	}
	if v.Active {
		d.tell(w, &v, preempted, finished, window)
	}
	return v
}

func (d preemptionStorm) tell(w EngineWindow, v *Verdict, preempted, finished float64, window time.Duration) {
	v.Summary = fmt.Sprintf("%s of pool %s throws requests out of its KV cache: %s", w.unit.name(), w.pool.name, v.Text)
	seen := v.Text + "."
	if usage, ok := w.usage(); ok {
		seen += fmt.Sprintf(" KV usage now %s.", percent(usage))
	}
	if running, ok := w.Gauge(gaugeRunning); ok {
		seen += fmt.Sprintf(" %s running.", amount(running))
	}
	v.Evidence = Evidence{
		Seen: seen,
		Against: fmt.Sprintf("Fires over %s of the finished requests and at least %g within %s.",
			percent(d.number("ratio")), d.number("preemptions"), spell(window)),
		CauseText:  "Running requests grow beyond the KV cache: outputs are longer than there was room for when they were admitted.",
		Cost:       "Each preempted request is computed again from its first token; neither the prefix cache's counters nor the prompt tokens show that work.",
		Next:       "Lower --max-num-seqs, or give the cache room (gpu-memory-utilization, fp8 KV cache, an engine more); long max_tokens with many at once are the usual reason.",
		Confidence: confidence(finished + preempted), Numbers: v.Numbers,
	}
}
