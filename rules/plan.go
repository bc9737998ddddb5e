package rules

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/rules/sizing"
)

// PlanReview is a sizing plan worked out again from what was measured.
type PlanReview struct {
	// At is when it was.
	At time.Time `json:"at"`
	*sizing.Live
	// Price is what an engine of the plan's pool costs; nil without prices.
	Price *EnginePrice `json:"-"`
}

// EnginePrice is what an hour of an engine costs by a plan.
type EnginePrice struct {
	Plan, Currency string
	PerHour        float64
	// GPUs are those of an engine.
	GPUs float64
}

// plan is a sizing plan that is watched.
type plan struct {
	review  PlanReview
	subject labels.Labels
	watches []*watch
	// outputs are its series, by their labels.
	outputs map[string]*output
	// recommended says that the journal holds a recommendation about it that is
	// still open.
	recommended bool
}

// PlanWindow is all that a rule may see of one plan at one instant.
type PlanWindow struct {
	now    time.Time
	review PlanReview
}

// SetPlans takes the plans as they were worked out last. Those that are not among
// them any more are watched no longer.
func (e *Engine) SetPlans(reviews []PlanReview) {
	e.mu.Lock()
	defer e.mu.Unlock()
	there := map[string]bool{}
	for _, r := range reviews {
		there[r.Plan] = true
		p := e.plans[r.Plan]
		if p != nil && p.subject.Get("pool") != r.Pool {
			e.dropPlan(r.Plan)
			p = nil
		}
		if p == nil {
			p = &plan{subject: labels.FromStrings("plan", r.Plan, "pool", r.Pool), outputs: map[string]*output{}, recommended: e.openRecommendation(r.Plan)}
			e.plans[r.Plan] = p
			e.watchPlan(p)
		}
		p.review = r
		e.renew(p)
	}
	for name := range e.plans {
		if !there[name] {
			e.dropPlan(name)
		}
	}
	prices := map[string]*EnginePrice{}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(e.plans))) { // of two plans of a pool, the first prices it
		if r := e.plans[name].review; r.Price != nil {
			prices[r.Pool] = r.Price
		}
	}
	e.setPrices(prices)
}

// SetPrices takes what the engines of pools cost, by pool, where no plan is
// watched that tells it: alerts then say what they cost.
func (e *Engine) SetPrices(prices map[string]*EnginePrice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setPrices(prices)
}

func (e *Engine) setPrices(prices map[string]*EnginePrice) {
	e.prices = prices
	for _, p := range e.pools {
		p.price = prices[p.name]
	}
}

// Plans returns the plans as they were worked out last, by name.
func (e *Engine) Plans() []PlanReview {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := []PlanReview{}
	for _, p := range e.sortedPlans() {
		all = append(all, p.review)
	}
	return all
}

func (e *Engine) sortedPlans() []*plan {
	return slices.SortedFunc(maps.Values(e.plans), func(a, b *plan) int { return strings.Compare(a.review.Plan, b.review.Plan) })
}

// dropPlan ends what is about a plan.
func (e *Engine) dropPlan(name string) {
	p := e.plans[name]
	for _, o := range p.outputs {
		e.gone = append(e.gone, o)
	}
	e.retire(e.instant(e.now), p.watches, "the configuration has the plan no more")
	delete(e.plans, name)
}

// watchPlan gives a plan its watches.
func (e *Engine) watchPlan(p *plan) {
	p.watches = e.watchesOf(func(a *Alerting, s *settings) *watch {
		if a.Plan == nil {
			return nil
		}
		return watchOver(a, s, p.subject, a.Plan(s), func(n instant) PlanWindow { return PlanWindow{now: n.now, review: p.review} })
	})
}

// The families of plans.
const (
	planRequired  = "kvwatch_plan_required"
	planPlanned   = "kvwatch_plan_planned"
	planRatio     = "kvwatch_plan_assumption_ratio"
	planIdle      = "kvwatch_plan_idle_ratio"
	planCost      = "kvwatch_cost_per_million_tokens"
	reasonNoPlace = "it is not known"
)

// planFamilies describes them.
func planFamilies() []RecordingInfo {
	return []RecordingInfo{
		{Name: planRequired, Kind: KindGauge, Labels: []string{"plan", "resource"}, Help: "What the load needs of a resource by a sizing plan with what was measured in place of its assumptions."},
		{Name: planPlanned, Kind: KindGauge, Labels: []string{"plan", "resource"}, Help: "What a sizing plan has of a resource."},
		{Name: planRatio, Kind: KindGauge, Labels: []string{"plan", "assumption"}, Help: "What was measured over what a sizing plan assumes; absent where it cannot be told."},
		{Name: planIdle, Kind: KindGauge, Labels: []string{"plan"}, Help: "Share of the time in which engines of the plan's pool ran no request."},
		{
			Name: planCost, Kind: KindGauge, Labels: []string{"plan", "currency", "basis"},
			Help: "Cost of a million output tokens within the SLO at the prices of a sizing plan: total, and of that prefill_new, prefill_repeated, decode and idle.",
		},
	}
}

// renew takes the series of a plan from its review.
func (e *Engine) renew(p *plan) {
	kept := map[string]bool{}
	put := func(name string, value float64, known bool, reason string, pairs ...string) {
		ls := labels.FromStrings(append(pairs, model.MetricNameLabel, name, "plan", p.review.Plan)...)
		key := ls.String()
		kept[key] = true
		o := p.outputs[key]
		if o == nil {
			o = newOutput(ls, false)
			p.outputs[key] = o
		}
		o.result = Result{Value: value, Known: known, Quality: QualityOK, From: "the pool's history of " + spell(p.review.To.Sub(p.review.From))}
		if !known {
			o.result.Quality, o.result.Reason = QualityAbsent, reason
		}
	}
	for _, resource := range sizing.Resources() {
		required, known := p.review.Required[resource]
		planned, has := p.review.Planned[resource]
		if known || has {
			put(planRequired, required, known, reasonNoPlace, "resource", resource)
			put(planPlanned, planned, has, "the plan does not say", "resource", resource)
		}
	}
	for _, j := range p.review.Assumptions {
		put(planRatio, orZero(j.Ratio), j.Ratio != nil, j.Why, "assumption", j.Name)
	}
	if c := p.review.Costs; c != nil {
		put(planIdle, c.IdleShare, true, "")
		for _, basis := range sizing.Bases() {
			v, known := c.PerMillion[basis]
			put(planCost, v, known, reasonNoPlace, "currency", c.Currency, "basis", basis)
		}
	}
	for key, o := range p.outputs {
		if !kept[key] {
			e.gone = append(e.gone, o)
			delete(p.outputs, key)
		}
	}
}

// orZero is a number that may not be known, 0 then.
func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// planOutputs lists the series of all plans in a steady order.
func (e *Engine) planOutputs() []*output {
	var all []*output
	for _, p := range e.sortedPlans() {
		for _, key := range slices.Sorted(maps.Keys(p.outputs)) {
			all = append(all, p.outputs[key])
		}
	}
	return all
}

// Growth is how a pool's demand grows, as DemandGrowth judged it last, and the
// head-room at the peak of the day then, 0 where it is not known. nil is unknown.
func (e *Engine) Growth(pool string) (growth *sizing.Growth, headroom float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.pools[pool]
	if p == nil {
		return nil, 0
	}
	for _, w := range p.watches {
		d, ok := w.keeper.(*demandDetector)
		if !ok || d.finding == nil {
			continue
		}
		steepest := slices.MaxFunc(d.finding.Series, func(a, b demandGrowth) int { return cmp.Compare(a.Slope, b.Slope) })
		return &sizing.Growth{PerWeek: math.Expm1(steepest.Slope), Days: steepest.Days}, d.finding.Headroom
	}
	return nil, 0
}

// drifted are the assumptions that drifted and change a number that is bought.
func (r PlanReview) drifted() []sizing.Judged {
	var all []sizing.Judged
	for _, j := range r.Assumptions {
		if j.Verdict == sizing.Drifted && len(bought(j.Changes)) > 0 {
			all = append(all, j)
		}
	}
	return all
}

// bought are the changes of replicas, GPUs, nodes and the gateway's workers.
func bought(changes []sizing.Change) []sizing.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c sizing.Change) bool {
		switch c.Resource {
		case sizing.ResourceReplicas, sizing.ResourceGPUs, sizing.ResourceNodes, sizing.ResourceGatewayWorkers, sizing.ResourceGatewayReplicas:
			return false
		default:
			return true
		}
	})
}

// short are the resources of which the drift needs more than the plan has, by all
// that was measured.
func (r PlanReview) short() []sizing.Change {
	var all []sizing.Change
	for _, c := range bought(r.Drift) {
		need, known := r.Required[c.Resource]
		has, planned := r.Planned[c.Resource]
		if known && planned && c.To > has && need > has {
			all = append(all, sizing.Change{Resource: c.Resource, From: has, To: need})
		}
	}
	return all
}

// changesText lists changes: "3 replicas instead of 2".
func changesText(changes []sizing.Change) string {
	parts := make([]string, 0, len(changes))
	for _, c := range changes {
		parts = append(parts, fmt.Sprintf("%g %s instead of %g", c.To, strings.ReplaceAll(c.Resource, "_", " "), c.From))
	}
	return strings.Join(parts, ", ")
}

// assumptionsText lists assumptions with their numbers.
func assumptionsText(all []sizing.Judged) string {
	parts := make([]string, 0, len(all))
	for _, j := range all {
		parts = append(parts, fmt.Sprintf("%s is %s, planned %s (%s; %s in %s)",
			j.Name, amount(orZero(j.Live)), amount(j.Planned), j.Why, plural(j.Samples, "request"), plural(j.Hours, "hour")))
	}
	return strings.Join(parts, ". ")
}

// assumptionNames lists their names.
func assumptionNames(all []sizing.Judged) string {
	names := make([]string, 0, len(all))
	for _, j := range all {
		names = append(names, j.Name)
	}
	return strings.Join(names, ", ")
}

// costText says what the output costs now and what the plan reckons with; "" without prices.
func (r PlanReview) costText() string {
	c := r.Costs
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("A million output tokens within the SLO cost %.3g %s", c.PerMillion[sizing.BasisTotal], c.Currency)
	if c.Planned != nil {
		text += fmt.Sprintf(", planned %.3g", *c.Planned)
	}
	return fmt.Sprintf("%s; engines ran no request %s of the time.", text, percent(c.IdleShare))
}

// confidence says how much the assumptions rest on.
func (r PlanReview) confidence(all []sizing.Judged) string {
	word := "high"
	if r.Hours < 7*24*3/4 {
		word = "medium"
	}
	least := all[0].Samples
	for _, j := range all {
		least = min(least, j.Samples)
	}
	return fmt.Sprintf("%s: %s, %s at least", word, plural(r.Hours, "hour"), plural(least, "request"))
}

// planNumbers are the figures of a plan for machines.
func (r PlanReview) planNumbers() []Number {
	var ns []Number
	for _, resource := range sizing.Resources() {
		if need, ok := r.Required[resource]; ok {
			ns = append(ns, Number{Name: "required_" + resource, Value: need, Unit: resource})
		}
		if has, ok := r.Planned[resource]; ok {
			ns = append(ns, Number{Name: "planned_" + resource, Value: has, Unit: resource})
		}
	}
	return ns
}
