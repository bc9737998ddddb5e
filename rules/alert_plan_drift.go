package rules

import (
	"fmt"
	"time"
)

const planDriftName = "PlanDrift"

func init() {
	alert(Alerting{
		Name:     planDriftName,
		Help:     "An assumption of a sizing plan no longer holds, and with what was measured in its place another number of replicas, GPUs, nodes or gateway workers is required, more or fewer.",
		Severity: SeverityInfo, For: time.Hour,
		Plan: func(s *settings) detector[PlanWindow] { return planDrift{} },
	})
}

type planDrift struct{}

// Judge implements detector.
func (planDrift) Judge(w PlanWindow, _ time.Time) Verdict {
	r := w.review
	if text := r.blind(); text != "" {
		return unknown(text)
	}
	changes, drifted := bought(r.Drift), r.drifted()
	v := Verdict{
		Active: len(changes) > 0 && len(drifted) > 0, Phase: PhaseWatching, Value: float64(len(drifted)), Numbers: r.planNumbers(),
		Text: fmt.Sprintf("plan %s: %s", r.Plan, r.tally()),
	}
	if !v.Active {
		return v
	}
	v.Summary = fmt.Sprintf("Plan %s: %s no longer holds, which takes %s", r.Plan, assumptionNames(drifted), changesText(changes))
	v.Evidence = Evidence{
		Seen:       fmt.Sprintf("Over %s: %s.", spell(r.To.Sub(r.From)), assumptionsText(drifted)),
		Against:    fmt.Sprintf("With what was measured in its place the plan takes %s. Fires when an assumption that drifted changes what has to be there.", changesText(changes)),
		Cost:       r.costText(),
		Next:       fmt.Sprintf("Read the plan's section on the page. `kvwatch size PLAN --url KVWATCH --write-plan` prints %s with what was measured, to review and commit. kvwatch changes nothing itself.", r.Plan),
		Confidence: r.confidence(drifted), Numbers: v.Numbers,
	}
	return v
}

// blind says why a plan cannot be judged, "" where it can.
func (r PlanReview) blind() string {
	if r.Hours == 0 {
		return fmt.Sprintf("history holds no hour of pool %s that pages cover", r.Pool)
	}
	return ""
}

// tally counts the verdicts.
func (r PlanReview) tally() string {
	n := map[string]int{}
	for _, j := range r.Assumptions {
		n[j.Verdict]++
	}
	return fmt.Sprintf("%s, %d hold, %d drifted, %d cannot be told", plural(len(r.Assumptions), "assumption"), n["holds"], n["drifted"], n["cannot tell"])
}
