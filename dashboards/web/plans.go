package web

import (
	"net/http"

	"go.yaml.in/yaml/v3"

	"kvwatch/rules"
)

// reviewedPlan is a sizing plan held against what was measured, with the plan as
// it would be written anew.
type reviewedPlan struct {
	rules.PlanReview
	// Written is YAML, to review and commit.
	Written string `json:"written"`
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
		all = append(all, reviewedPlan{PlanReview: r, Written: string(text)})
	}
	p.success(w, all)
}
