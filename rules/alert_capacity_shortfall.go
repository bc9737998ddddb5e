package rules

import (
	"fmt"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "CapacityShortfall",
		Help:     "Because an assumption of a sizing plan drifted, more replicas, GPUs, nodes or gateway workers are required than the plan has.",
		Severity: SeverityWarning, For: time.Hour,
		Plan: func(s *settings) detector[PlanWindow] { return capacityShortfall{} },
	})
}

type capacityShortfall struct{}

// Judge implements detector.
func (capacityShortfall) Judge(w PlanWindow, _ time.Time) Verdict {
	r := w.review
	if text := r.blind(); text != "" {
		return unknown(text)
	}
	short, drifted := r.short(), r.drifted()
	v := Verdict{
		Active: len(short) > 0 && len(drifted) > 0, Phase: PhaseWatching, Value: float64(len(short)), Numbers: r.planNumbers(),
		Text: fmt.Sprintf("plan %s: %s", r.Plan, r.tally()),
	}
	if !v.Active {
		return v
	}
	v.Summary = fmt.Sprintf("Plan %s is short: %s are required, because %s drifted", r.Plan, changesText(short), assumptionNames(drifted))
	v.Evidence = Evidence{
		Seen:       fmt.Sprintf("Over %s: %s.", spell(r.To.Sub(r.From)), assumptionsText(drifted)),
		Against:    fmt.Sprintf("What was measured takes %s that the plan has. Peaks count, not means: the P95 of the hours' peaks.", changesText(short)),
		CauseText:  r.GrowthText,
		Cost:       r.costText(),
		Next:       fmt.Sprintf("Look at whether latency suffers already (SLOBurn, QueueGrowing). Then add what is missing, or relieve the assumption; `kvwatch size PLAN --url KVWATCH` shows the levers of %s. kvwatch changes nothing itself.", r.Plan),
		Confidence: r.confidence(drifted), Numbers: v.Numbers,
	}
	return v
}
