package sizing

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// swing is by how much each assumption is taken to be off.
const swing = 0.20

// Sensitivity is what a result does when one assumption is off.
type Sensitivity struct {
	// Assumption is the key.
	Assumption string `json:"assumption" yaml:"assumption"`
	// Low and High are the result with the assumption 20 % less and 20 % more, null
	// where it cannot be computed.
	Low  *float64 `json:"low" yaml:"low"`
	High *float64 `json:"high" yaml:"high"`

	// effect is by how much the result moves, first rounded as it is bought, then
	// exactly.
	effect, exact float64
}

// Matters says whether the result moves at all.
func (s Sensitivity) Matters() bool { return s.effect > 0 || s.exact > 0 }

// decisions are numbers of a plan that somebody decided or read off a data
// sheet: they are no assumptions.
var decisions = []string{ //nolint:gochecknoglobals // a table, never written.
	"model.", "engine.tensor_parallel", "engine.max_num_seqs", "hardware.vram_gb", "hardware.hbm_gb_per_s", "hardware.flops",
	"hardware.gpus_per_node", "hardware.gpus", "hardware.nodes", "hardware.replicas", "gateway.",
}

// isAssumption says whether the number under key is one.
func isAssumption(key string) bool {
	return !slices.ContainsFunc(decisions, func(d string) bool { return key == d || strings.HasSuffix(d, ".") && strings.HasPrefix(key, d) })
}

// sensitivity reckons again with each assumption off by 20 %, and what the
// result is: the GPUs, else the cost of tokens, else the gateway's workers.
func sensitivity(p *Plan, config Config, base *chain) (of string, all []Sensitivity) {
	of, result := outcome(base)
	all = []Sensitivity{}
	if result == nil {
		return "", all
	}
	what := p.clone()
	for _, n := range what.numbers() {
		if *n.value == nil || **n.value == 0 || !isAssumption(n.key) {
			continue
		}
		before := *n.value
		s := Sensitivity{Assumption: strings.TrimSuffix(n.key, ".value")}
		off := func(factor float64) (*float64, float64) {
			v := clamp(*before*factor, n.bounds)
			*n.value = &v
			return result(calculate(what, config))
		}
		var low, high float64
		s.Low, low = off(1 - swing)
		s.High, high = off(1 + swing)
		*n.value = before
		s.effect, s.exact = math.Inf(1), math.Abs(high-low) // a result that is lost is the greatest effect
		if s.Low != nil && s.High != nil {
			s.effect = math.Abs(*s.High - *s.Low)
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b Sensitivity) int {
		return cmp.Or(cmp.Compare(b.effect, a.effect), cmp.Compare(b.exact, a.exact))
	})
	return of, all
}

// outcome picks the result that matters most of those that are known, rounded
// as it is bought and exactly.
func outcome(base *chain) (of string, result func(*chain) (rounded *float64, exact float64)) {
	value := func(o operand) *float64 {
		if !o.known() {
			return nil
		}
		return &o.value
	}
	switch {
	case base.gpus.known():
		return ResourceGPUs, func(c *chain) (*float64, float64) {
			if v, ok := c.required[ResourceGPUs]; ok {
				return &v, c.exactGPUs.value
			}
			return nil, 0
		}
	case base.perMillion.known():
		return "eur_per_million_tokens", func(c *chain) (*float64, float64) { return value(c.perMillion), c.perMillion.value }
	case base.gateway.workers.known():
		return ResourceGatewayWorkers, func(c *chain) (*float64, float64) {
			return value(c.gateway.workers), c.gateway.peakRPS.value
		}
	default:
		return "", nil
	}
}

// clamp keeps a number within its bounds: a hit ratio of 0.9 goes up to 1.
func clamp(v float64, bounds string) float64 {
	for rule := range strings.SplitSeq(bounds, ",") {
		name, text, _ := strings.Cut(rule, "=")
		bound, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil: // a rule without a number
		case name == "maximum":
			v = min(v, bound)
		case name == "minimum":
			v = max(v, bound)
		}
	}
	return v
}

// clone copies the plan so far that numbers of the copy can be replaced.
func (p *Plan) clone() *Plan {
	c := *p
	c.Workload.Profiles = slices.Clone(p.Workload.Profiles)
	c.Optimisations = slices.Clone(p.Optimisations)
	c.CriticalAssumptions = slices.Clone(p.CriticalAssumptions)
	return &c
}
