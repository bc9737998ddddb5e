package web

import (
	"net/http"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"kvwatch/rules"
)

// reviewedPlan is a sizing plan held against what was measured, with the plan as
// it would be written anew.
type reviewedPlan struct {
	rules.PlanReview
	// Written is YAML, to review and commit.
	Written string `json:"written"`
	// Journal is what was recommended about it, and what came of it.
	Journal []rules.Event `json:"journal"`
}

// planEventsShown is how far back what was recommended is shown.
const planEventsShown = 90 * 24 * time.Hour

// planEvents are what was recommended about a plan, "" is all, and what came of it,
// in order of time.
func (p *page) planEvents(plan string) []rules.Event {
	now := p.o.Now()
	return slices.DeleteFunc(p.o.Events(now.Add(-planEventsShown), now), func(e rules.Event) bool {
		return e.Plan == "" || plan != "" && e.Plan != plan
	})
}

// plans answers /api/v1/kvwatch/plans.
func (p *page) plans(w http.ResponseWriter, _ *http.Request) {
	all := []reviewedPlan{}
	for _, r := range p.o.Plans() {
		text, err := yaml.Marshal(r.Written(r.At))
		if err != nil {
			p.failure(w, http.StatusInternalServerError, "internal", "plan "+r.Plan+" cannot be written: "+err.Error())
			return
		}
		all = append(all, reviewedPlan{PlanReview: r, Written: string(text), Journal: p.planEvents(r.Plan)})
	}
	p.success(w, all)
}
