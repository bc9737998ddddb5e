package sizing

import (
	"fmt"
	"math"
)

// The verdicts on an assumption.
const (
	Holds      = "holds"
	Drifted    = "drifted"
	CannotTell = "cannot tell"
)

const (
	// driftFactor is by how much what is measured may differ from an assumption
	// that holds, either way: less is within what a plan's head-room is for.
	driftFactor = 1.25
	// vagueFactor is how far the interval of a measurement that shows that an
	// assumption holds may reach.
	vagueFactor = 1.6
	// missSlack is the difference between two hit ratios that is never a drift:
	// near 1 a share of misses doubles by a hair.
	missSlack = 0.005
)

// Judged is an assumption held against what was measured.
type Judged struct {
	// Name is the key of the plan, or of a step where the plan has none.
	Name string `json:"assumption"`
	Unit string `json:"unit"`
	// Planned is the plan's value.
	Planned float64 `json:"planned"`
	// Live is what was measured, Low and High the interval in which it lies (95 %);
	// nil where it was not.
	Live *float64 `json:"live"`
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	// Ratio is Live over Planned; nil where it is not known.
	Ratio *float64 `json:"ratio"`
	// Samples is how many requests it rests on, of Hours hours.
	Samples int `json:"samples"`
	Hours   int `json:"hours"`
	// Verdict is holds, drifted or cannot tell, and Why says in words why.
	Verdict string `json:"verdict"`
	Why     string `json:"why"`
	// Changes are the resources of which another number is required when this
	// assumption alone is replaced by what was measured.
	Changes []Change `json:"changes,omitempty"`
}

// Change is what one resource becomes.
type Change struct {
	Resource string  `json:"resource"`
	From     float64 `json:"from"`
	To       float64 `json:"to"`
}

// measure is an assumption with its measurement, before it is judged.
type measure struct {
	name, unit string
	planned    float64
	live       Estimate
	// promise is a bound that is kept, not a number that is expected: +1 where less
	// is fine (a latency), -1 where more is (a speed), 0 for an expectation.
	promise int
	// least says that what was measured is a lower bound: a promise that it does not
	// show to be kept may be kept all the same.
	least bool
	// most says that it is an upper bound: one above the plan shows nothing.
	most bool
	// misses says that one less the value is judged: the work that a hit ratio leaves.
	misses bool
	// how says how it was measured where that is not plain.
	how string
	// apply puts a value into a plan; nil where the plan has no place for it.
	apply func(p *Plan, v float64)
	// written says that apply is also what a plan that is written anew takes.
	written bool
}

// judge holds the measurement against the plan.
func (m measure) judge() Judged {
	j := Judged{Name: m.name, Unit: m.unit, Planned: m.planned, Samples: m.live.Samples, Hours: m.live.Hours}
	if !m.live.known() {
		j.Verdict, j.Why = CannotTell, m.live.Problem
		return j
	}
	live, low, high := m.live.Value, m.live.Low, m.live.High
	j.Live, j.Low, j.High = &live, &low, &high
	if m.planned != 0 {
		ratio := live / m.planned
		j.Ratio = &ratio
	}
	if m.promise != 0 {
		j.Verdict, j.Why = m.kept()
	} else {
		j.Verdict, j.Why = m.drift()
	}
	if m.how != "" {
		j.Why += "; " + m.how
	}
	return j
}

// drift judges an expectation.
func (m measure) drift() (verdict, why string) {
	planned, value, low, high, what := m.planned, m.live.Value, m.live.Low, m.live.High, ""
	if m.misses {
		planned, value, low, high, what = 1-planned, 1-value, 1-high, 1-low, " of the misses"
	}
	if planned <= 0 {
		return CannotTell, "the plan's value leaves nothing to compare with"
	}
	ratio, from, to := value/planned, low/planned, high/planned
	said := factor(ratio) + what
	if factor(from) != factor(to) {
		said += fmt.Sprintf(", %s to %s by chance", factor(from), factor(to))
	}
	if m.most {
		said = "at most " + said
	}
	switch {
	case m.most && to > 1/driftFactor && ratio > 1:
		return CannotTell, said
	case m.misses && math.Abs(value-planned) < missSlack:
		return Holds, fmt.Sprintf("within %g of the plan", missSlack)
	case from > driftFactor || to < 1/driftFactor:
		return Drifted, said
	case ratio > driftFactor || ratio < 1/driftFactor:
		return CannotTell, said + ": more hours are needed to tell a drift from chance"
	case to > vagueFactor || from < 1/vagueFactor:
		return CannotTell, said + ": too vague to say that it holds"
	default:
		return Holds, said
	}
}

// kept judges a promise: whether it is kept, not how far it is from being broken.
func (m measure) kept() (verdict, why string) {
	ratio, from, to := m.live.Value/m.planned, m.live.Low/m.planned, m.live.High/m.planned
	worst, best := to, from
	if m.promise < 0 {
		ratio, worst, best = 1/ratio, 1/from, 1/to
	}
	said := fmt.Sprintf("%s of what is promised", factor(m.live.Value/m.planned))
	switch {
	case ratio <= 1:
		return Holds, "kept: " + said
	case m.least:
		return CannotTell, "at least " + said
	case best > 1:
		return Drifted, "not kept: " + said
	default:
		return CannotTell, fmt.Sprintf("%s, but it may be kept by chance (%s to %s)", said, factor(best), factor(worst))
	}
}

// factor is a ratio as it is told: below 10 with two digits behind the point.
func factor(ratio float64) string {
	if ratio >= 10 {
		return fmt.Sprintf("%.0f times", ratio)
	}
	return fmt.Sprintf("%.2f times", ratio)
}
