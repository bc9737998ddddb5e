package sizing

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// check holds every value to its bounds, and values to each other. An error
// begins with where the value stands, so that its line can be found.
func (p *Plan) check() error {
	var all []error
	for _, n := range p.numbers() {
		if *n.value == nil {
			continue
		}
		if err := within(**n.value, n.bounds); err != nil {
			all = append(all, fmt.Errorf("%s is %v: %w", strings.Join(n.path, ": "), **n.value, err))
		}
	}
	if p.Date != "" {
		if _, err := time.Parse(time.DateOnly, p.Date); err != nil {
			all = append(all, fmt.Errorf("date is %q: write year-month-day", p.Date))
		}
	}
	if c := p.Gateway.Counter; c != "" && c != "python" && c != "rust" {
		all = append(all, fmt.Errorf("gateway: counter is %q: python or rust", c))
	}
	return errors.Join(append(all, p.checkModel(), p.checkProfiles(), p.checkAssumptions())...)
}

// within holds a number to the bounds of its tag.
func within(v float64, bounds string) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return errors.New("it has to be a number")
	}
	for rule := range strings.SplitSeq(bounds, ",") {
		name, text, _ := strings.Cut(rule, "=")
		bound, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil: // a rule without a number
		case name == "minimum" && v < bound:
			return fmt.Errorf("at least %v", bound)
		case name == "maximum" && v > bound:
			return fmt.Errorf("at most %v", bound)
		case name == "exclusiveMinimum" && v <= bound:
			return fmt.Errorf("more than %v", bound)
		case name == "exclusiveMaximum" && v >= bound:
			return fmt.Errorf("less than %v", bound)
		case name == "multipleOf" && math.Mod(v, bound) != 0:
			return errors.New("a whole number")
		}
	}
	return nil
}

func (p *Plan) checkModel() error {
	var all []error
	if t := p.Model.WeightDType; t != "" {
		if _, err := BytesPerParameter(t); err != nil {
			all = append(all, fmt.Errorf("model: weight_dtype: %w", err))
		}
	}
	if t := p.Model.KVDType; t != "" && t != autoDType {
		if _, err := BytesPerKVElement(t); err != nil {
			all = append(all, fmt.Errorf("model: kv_dtype: %w, auto", err))
		}
	}
	if total, active := p.Model.Parameters, p.Model.ActiveParameters; total != nil && active != nil && *active > *total {
		all = append(all, fmt.Errorf("model: active_parameters is %v: no more than parameters, %v", *active, *total))
	}
	return errors.Join(all...)
}

func (p *Plan) checkProfiles() error {
	var all []error
	if len(p.Workload.Profiles) > 0 && p.Workload.People != nil {
		all = append(all, errors.New("workload: people stands beside profiles: give it in each profile"))
	}
	seen := map[string]bool{}
	for i, profile := range p.Workload.Profiles {
		switch {
		case profile.Name == "" && len(p.Workload.Profiles) > 1:
			all = append(all, fmt.Errorf("workload: profiles: %d: name is missing", i))
		case seen[profile.Name]:
			all = append(all, fmt.Errorf("workload: profiles: %d: name %q is there twice", i, profile.Name))
		case strings.ContainsAny(profile.Name, ".[]="):
			all = append(all, fmt.Errorf("workload: profiles: %d: name %q holds one of . [ ] =", i, profile.Name))
		}
		seen[profile.Name] = true
	}
	return errors.Join(all...)
}

func (p *Plan) checkAssumptions() error {
	var all []error
	seen := map[string]bool{}
	for i, a := range p.CriticalAssumptions {
		switch {
		case a.Name == "":
			all = append(all, fmt.Errorf("critical_assumptions: %d: name is missing", i))
		case a.Value == nil:
			all = append(all, fmt.Errorf("critical_assumptions: %d: %s has no value", i, a.Name))
		case seen[a.Name]:
			all = append(all, fmt.Errorf("critical_assumptions: %d: %s is there twice", i, a.Name))
		case readAssumptions[a.Name] && *a.Value <= 0:
			all = append(all, fmt.Errorf("critical_assumptions: %d: %s is %v: more than 0", i, a.Name, *a.Value))
		case a.Name == assumedHBMEfficiency && *a.Value > 1:
			all = append(all, fmt.Errorf("critical_assumptions: %d: %s is %v: at most 1", i, a.Name, *a.Value))
		}
		seen[a.Name] = true
	}
	for i, o := range p.Optimisations {
		if o.Name == "" {
			all = append(all, fmt.Errorf("optimisations: %d: name is missing", i))
		}
	}
	return errors.Join(all...)
}
