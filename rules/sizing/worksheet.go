package sizing

import (
	"errors"
	"math"
	"slices"
	"strings"
)

// Config is what is known of the model's config.json.
type Config struct {
	// Geometry is nil where there is none.
	Geometry *Geometry
	// Problem says why not, "" where the plan names no file.
	Problem string
}

// Worksheet is a plan worked out, step by step.
type Worksheet struct {
	Plan string `json:"plan" yaml:"plan"`
	// Steps are in the order in which they follow from each other.
	Steps []Step `json:"steps" yaml:"steps"`
	// Required is what the load needs, by resource; what is unknown is absent.
	Required map[string]float64 `json:"required" yaml:"required"`
	// Sensitivity is what the first result does when an assumption is 20 % off, the
	// greatest effect first.
	Sensitivity []Sensitivity `json:"sensitivity" yaml:"sensitivity"`
	// EngineFlags are what to start vLLM with, GatewaySettings what to set in
	// LiteLLM, by name.
	EngineFlags     map[string]any `json:"engine_flags" yaml:"engine_flags"`
	GatewaySettings map[string]any `json:"gateway_settings" yaml:"gateway_settings"`

	// Planned is what the plan has of each resource; what it does not say is absent.
	Planned map[string]float64 `json:"-" yaml:"-"`
	// Assumed are the values that the plan leaves out and that were taken anyway.
	Assumed []string `json:"-" yaml:"-"`
	// Findings are where the plan contradicts itself or lacks something.
	Findings []string `json:"-" yaml:"-"`
	// SensitivityOf names the result that Sensitivity is about.
	SensitivityOf string `json:"-" yaml:"-"`
	// Levers are what-ifs, the one that saves most first.
	Levers []Lever `json:"-" yaml:"-"`
	// Settings are EngineFlags and GatewaySettings with their reasons.
	Settings []Setting `json:"-" yaml:"-"`
}

// Step is one formula with its inputs and result.
type Step struct {
	Name string `json:"name" yaml:"name"`
	// Formula in the names of the inputs.
	Formula string `json:"formula" yaml:"formula"`
	// Inputs by name, and the profile that the step is about where there are several;
	// null is unknown.
	Inputs map[string]any `json:"inputs" yaml:"inputs"`
	// Value is null where it cannot be computed.
	Value *float64 `json:"value" yaml:"value"`
	Unit  string   `json:"unit" yaml:"unit"`
	// Source of the formula; then what was assumed, or what is unknown.
	Source string `json:"source" yaml:"source"`

	// Order is that of the inputs in the formula.
	Order []string `json:"-" yaml:"-"`
	// Unknown are the keys that are missing, or why there is no value.
	Unknown []string `json:"-" yaml:"-"`
}

// Size works a plan out.
func Size(p *Plan, config Config) *Worksheet {
	c := calculate(p, config)
	w := &Worksheet{
		Plan: p.Plan, Steps: c.steps, Required: c.required, Planned: c.planned(), Assumed: c.assumed,
		EngineFlags: map[string]any{}, GatewaySettings: map[string]any{},
	}
	w.Findings = c.findings(w)
	w.SensitivityOf, w.Sensitivity = sensitivity(p, config, c)
	w.Levers = levers(p, config, c)
	w.Settings = c.settings()
	for _, s := range w.Settings {
		if s.Gateway {
			w.GatewaySettings[s.Name] = s.Value
		} else {
			w.EngineFlags[s.Name] = s.Value
		}
	}
	return w
}

// Step finds the step of that name; of a profile's, the last, which is the sum
// where there is one.
func (w *Worksheet) Step(name string) (Step, bool) {
	for _, s := range slices.Backward(w.Steps) {
		if s.Name == name {
			return s, true
		}
	}
	return Step{}, false
}

// operand is a number that a formula takes: known, or missing with the reasons.
type operand struct {
	name    string
	value   float64
	missing []string
	// assumed says what was taken in place of a key that is absent.
	assumed string
}

func (o operand) known() bool { return len(o.missing) == 0 }

// as is the operand under another name.
func (o operand) as(name string) operand {
	o.name = name
	return o
}

// given is a key of the plan; its name is the last part.
func given(key string, v *float64) operand {
	name := key[strings.LastIndexByte(key, '.')+1:]
	if v == nil {
		return operand{name: name, missing: []string{key}}
	}
	return operand{name: name, value: *v}
}

// orElse is a key of the plan with what holds where it is absent, and why.
func orElse(key string, v *float64, other float64, assumed string) operand {
	o := given(key, v)
	if v == nil {
		return operand{name: o.name, value: other, assumed: key + " " + assumed}
	}
	return o
}

// known is a number that is always there.
func known(name string, v float64) operand { return operand{name: name, value: v} }

// lacking is a number that is not there, and why.
func lacking(name, why string) operand { return operand{name: name, missing: []string{why}} }

// sheet collects the steps.
type sheet struct {
	steps   []Step
	assumed []string
}

// formula is a step before it is computed.
type formula struct {
	name, text, unit, source string
	// profile it is about, where there are several.
	profile string
}

// step computes f of the inputs, writes the step down and returns its result.
// What is missing of the inputs is missing of the result.
func (s *sheet) step(f formula, compute func(x []float64) (float64, error), inputs ...operand) operand {
	step := Step{Name: f.name, Formula: f.text, Unit: f.unit, Source: f.source, Inputs: map[string]any{}}
	if f.profile != "" {
		step.Inputs["profile"] = f.profile
	}
	result := operand{name: f.name}
	var assumed []string
	x := make([]float64, 0, len(inputs))
	for _, in := range inputs {
		step.Order = append(step.Order, in.name)
		step.Inputs[in.name] = nil
		for _, why := range in.missing {
			result.missing = addOnce(result.missing, why)
		}
		if !in.known() {
			continue
		}
		step.Inputs[in.name] = in.value
		x = append(x, in.value)
		if in.assumed != "" {
			assumed = addOnce(assumed, in.assumed)
		}
	}
	if result.known() {
		result.value, result.missing = finite(compute(x))
	}
	step.Unknown = result.missing
	if !result.known() {
		step.Source += "; unknown: " + strings.Join(result.missing, ", ")
		s.steps = append(s.steps, step)
		return result
	}
	value := result.value
	step.Value = &value
	if len(assumed) > 0 {
		step.Source += "; assumed: " + strings.Join(assumed, ", ")
	}
	for _, a := range assumed {
		s.assumed = addOnce(s.assumed, a)
	}
	s.steps = append(s.steps, step)
	return result
}

// finite takes a computed value, or why there is none.
func finite(v float64, err error) (value float64, missing []string) {
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		err = errors.New("these inputs give no finite number")
	}
	if err != nil {
		return 0, []string{err.Error()}
	}
	return v, nil
}

func addOnce(list []string, entry string) []string {
	if slices.Contains(list, entry) {
		return list
	}
	return append(slices.Clip(list), entry)
}

// exact wraps a formula that always has a result.
func exact(f func(x []float64) float64) func(x []float64) (float64, error) {
	return func(x []float64) (float64, error) { return f(x), nil }
}

// sum adds what is known of all; one that is unknown makes the sum so.
func sum(name string, all []operand) operand {
	total := operand{name: name}
	for _, o := range all {
		total.value += o.value
		for _, why := range o.missing {
			total.missing = addOnce(total.missing, why)
		}
	}
	return total
}
