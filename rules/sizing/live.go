package sizing

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// Evidence is what was measured of the pool of a plan.
type Evidence struct {
	// From and To are the window that was looked at.
	From, To time.Time
	// Slots are in order of time; those of which nothing is known are left out.
	Slots []Slot
	// Growth is by how much demand grows; nil where it is not known.
	Growth *Growth
	// Headroom is by how much the load may still grow at the peak of the day, as
	// LoadHeadroomLow predicts it; 0 is unknown.
	Headroom float64
}

// Growth is how demand grows, as DemandGrowth judges it.
type Growth struct {
	// PerWeek is the growth per week, as a share; Days is how many whole days it
	// was read from.
	PerWeek float64 `json:"per_week"`
	Days    int     `json:"days"`
}

// Live is a plan worked out again from what was measured.
type Live struct {
	Plan string `json:"plan"`
	Pool string `json:"pool"`
	// From and To are the window, Hours those of it that pages cover.
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Hours int       `json:"hours"`
	// Assumptions are in the plan's order, those that drifted first.
	Assumptions []Judged `json:"assumptions"`
	// Required is what the load needs by all that was measured, Before what the plan
	// itself works out, Planned what it has; by resource, what is unknown is absent.
	Required map[string]float64 `json:"required"`
	Before   map[string]float64 `json:"before"`
	Planned  map[string]float64 `json:"planned"`
	// Drift are the resources of which another number is required because of
	// assumptions that drifted, all of those together.
	Drift []Change `json:"drift"`
	// Seen are numbers that no assumption of the plan stands for, with their names.
	Seen []Seen `json:"seen"`
	// Knee is where the recorded load met the SLO's end.
	Knee PassiveKnee `json:"knee"`
	// Growth is that of the demand; nil is unknown, and GrowthText says why, or
	// what it means.
	Growth     *Growth  `json:"growth"`
	WeeksLeft  *float64 `json:"weeks_left"`
	GrowthText string   `json:"growth_text"`
	// Costs are nil without prices, and CostsText says so.
	Costs     *Costs `json:"costs"`
	CostsText string `json:"costs_text,omitempty"`

	written *Plan
}

// Seen is a number that was measured beside the assumptions.
type Seen struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Written is the plan with what was measured in place of what was assumed, dated
// on the day. Promises, decisions and prices stay as they are.
func (l *Live) Written(day time.Time) *Plan {
	p := l.written.clone()
	p.Date = day.Format(time.DateOnly)
	return p
}

// Reevaluate works a plan out again from what was measured.
func Reevaluate(p *Plan, config Config, seen Evidence) *Live {
	r := &review{plan: p, config: config, seen: seen, base: calculate(p, config), evidence: gather(seen.Slots)}
	r.knee = passiveKnee(p, r.slots)
	l := &Live{
		Plan: p.Plan, Pool: p.Pool, From: seen.From, To: seen.To, Hours: len(r.hours), Before: r.base.required, Planned: r.base.planned(),
		Knee: r.knee, Drift: []Change{}, Growth: seen.Growth, written: p.clone(), Assumptions: []Judged{},
	}
	drifted := p.clone()
	for _, m := range r.measures() {
		j := m.judge()
		if m.live.known() && m.apply != nil {
			alone := p.clone()
			m.apply(alone, m.live.Value)
			if j.Verdict == Drifted {
				m.apply(drifted, m.live.Value)
				j.Changes = changes(r.base.required, calculate(alone, config).required)
			}
			if m.written && j.Verdict != CannotTell {
				m.apply(l.written, m.live.Value)
			}
		}
		l.Assumptions = append(l.Assumptions, j)
	}
	slices.SortStableFunc(l.Assumptions, func(a, b Judged) int { return cmp.Compare(rank(a), rank(b)) })
	l.Drift = append(l.Drift, changes(r.base.required, calculate(drifted, config).required)...)
	r.writeSpeed(l)
	l.Required = calculate(l.written, config).required
	l.Seen = r.beside()
	l.WeeksLeft, l.GrowthText = r.weeksLeft()
	l.Costs, l.CostsText = r.costs()
	return l
}

// rank puts what drifted first, and of that what changes something.
func rank(j Judged) int {
	switch {
	case j.Verdict == Drifted && len(j.Changes) > 0:
		return 0
	case j.Verdict == Drifted:
		return 1
	default:
		return 2
	}
}

// changes lists the resources of which another number is required.
func changes(from, to map[string]float64) []Change {
	var all []Change
	for _, resource := range Resources() {
		a, known := from[resource]
		b, still := to[resource]
		if known && still && math.Abs(a-b) > rounding*math.Max(a, b) {
			all = append(all, Change{Resource: resource, From: a, To: b})
		}
	}
	return all
}

// review is a plan being worked out again.
type review struct {
	plan   *Plan
	config Config
	seen   Evidence
	base   *chain
	knee   PassiveKnee
	evidence
}

// only is the plan's profile where it has one; several share what is measured.
func (r *review) only() *population {
	if len(r.base.loads) == 1 {
		return r.base.loads[0]
	}
	return nil
}

// The numbers of slots that estimates are made of.
func rate(s Slot) (float64, bool) { return s.Requests / SlotLength.Seconds(), s.EngineSeconds > 0 }
func requests(s Slot) float64     { return s.Requests }
func prompts(s Slot) Histogram    { return s.PromptTokens }
func outputs(s Slot) Histogram    { return s.OutputTokens }
func perToken(s Slot) Histogram   { return s.TPOT }
func overhead(s Slot) Histogram   { return s.Overhead }
func gaps(s Slot) Histogram       { return s.ITL }
func gauge(of *float64) (float64, bool) {
	if of == nil {
		return 0, false
	}
	return *of, true
}
func running(s Slot) (float64, bool)  { return gauge(s.Running) }
func waiting(s Slot) (float64, bool)  { return gauge(s.Waiting) }
func kvTokens(s Slot) (float64, bool) { return gauge(s.KVTokens) }
func inFlight(s Slot) (float64, bool) { return gauge(s.InFlight) }

// meanRate is requests per second in the hours with traffic: those with over a
// tenth of the rate of the peak hours.
func (r *review) meanRate(peak Estimate) (mean Estimate, activeHours float64) {
	if !peak.known() {
		return peak, 0
	}
	sum, active := 0.0, 0
	for _, h := range r.hours {
		if v := h.Requests / time.Hour.Seconds(); v > peak.Value/10 {
			sum += v
			active++
		}
	}
	mean = peak.times(sum / float64(max(active, 1)) / peak.Value)
	return mean, 24 * float64(active) / float64(len(r.hours))
}

// writeSpeed gives the written plan the share of a session in which calls really
// run, where the plan works it out from the speed that it promises.
func (r *review) writeSpeed(l *Live) {
	u := r.only()
	if u == nil || u.DutyCycle != nil || !u.drives() {
		return
	}
	if e := r.dutyCycle(u); e.known() {
		putLoad(l.written, "duty_cycle", min(1, e.Value))
	}
}

// beside are numbers that a person wants to see and no assumption stands for.
func (r *review) beside() []Seen {
	seen := []Seen{}
	add := func(name, unit string, e Estimate) {
		if e.known() {
			seen = append(seen, Seen{Name: name, Value: e.Value, Unit: unit})
		}
	}
	missed := r.of(1000, func(s Slot) float64 { return s.Missed }, func(s Slot) float64 { return s.Prompted })
	peak := r.peak(rate)
	add("peak_rps", "requests/s", peak)
	add("peak_sequences", "sequences", r.peak(running))
	add("peak_waiting", "requests", r.peak(waiting))
	add("peak_kv_tokens", "tokens", r.peak(kvTokens))
	add("peak_gateway_in_flight", "requests", r.peak(inFlight))
	add("new_tokens_per_call", "tokens", r.level(50, requests, func(s Slot) (float64, bool) { return s.Missed / s.Requests, s.Prompted > 0 }))
	add("miss_ratio", "ratio", missed)
	add("prefill_tokens_per_s", "tokens/s while a prompt is computed", r.of(60, func(s Slot) float64 { return s.Missed }, func(s Slot) float64 { return s.PrefillSeconds }))
	add("itl_p95_ms", "ms", r.quantile(0.95, gaps).times(1000))
	add("gateway_overhead_p95_ms", "ms", r.quantile(0.95, overhead).times(1000))
	hours := 0.0
	for _, s := range r.slots {
		hours += s.EngineSeconds / 3600
	}
	if hours > 0 {
		seen = append(seen, Seen{Name: "gpu_hours", Value: hours * r.base.tensorParallel.value, Unit: "GPU-hours in the hours that were read"})
	}
	return seen
}

// putLoad sets a number of the plan's only profile.
func putLoad(p *Plan, name string, v float64) {
	prefix := "workload."
	if len(p.Workload.Profiles) > 0 {
		prefix = "workload.profiles." + cmp.Or(p.Workload.Profiles[0].Name, "0") + "."
	}
	put64(p, prefix+name, v)
}

// put64 sets the number of that key.
func put64(p *Plan, key string, v float64) {
	for _, n := range p.numbers() {
		if strings.TrimSuffix(n.key, ".value") == key {
			*n.value = &v
		}
	}
}
