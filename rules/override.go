package rules

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Override is one entry of `rules`: what differs from an alert's defaults.
type Override struct {
	// For replaces the detector's hold; nil keeps it.
	For *model.Duration `yaml:"for,omitempty"`
	// KeepFiringFor is how long a firing alert goes on after its condition ended.
	KeepFiringFor *model.Duration `yaml:"keep_firing_for,omitempty"`
	// Severity replaces the severity; "" keeps it.
	Severity string `yaml:"severity,omitempty"`
	// Labels are added to the alert's labels.
	Labels map[string]string `yaml:"labels,omitempty"`
	// Disabled turns the alert off.
	Disabled bool `yaml:"disabled,omitempty"`
	// TimeScale is a factor on all of the rule's durations; 0 is 1.
	TimeScale float64 `yaml:"time_scale,omitempty"`
	// Settings holds the detector's own settings: numbers, or durations as text.
	Settings map[string]any `yaml:",inline"`
}

// UnmarshalYAML decodes and checks what does not depend on the rule's name;
// Validate checks the rest.
func (o *Override) UnmarshalYAML(unmarshal func(any) error) error {
	type rule Override
	var p rule
	if err := unmarshal(&p); err != nil {
		return err
	}
	*o = Override(p)
	return o.check()
}

func (o Override) check() error {
	switch o.Severity {
	case "", SeverityCritical, SeverityWarning, SeverityInfo:
	default:
		return fmt.Errorf("severity is %q: it is %s, %s or %s", o.Severity, SeverityCritical, SeverityWarning, SeverityInfo)
	}
	if !(o.TimeScale >= 0) || math.IsInf(o.TimeScale, 0) {
		return fmt.Errorf("time_scale is %g: it is a positive factor on all durations of the rule", o.TimeScale)
	}
	for name := range o.Labels {
		switch name {
		case "alertname", "severity", "pool", "model_name", "job", "instance":
			return fmt.Errorf("labels: %s is set by the alert itself: choose another name", name)
		}
		if !model.LegacyValidation.IsValidLabelName(name) {
			return fmt.Errorf("labels: %q is no label name", name)
		}
	}
	return nil
}

// Setting is one setting of a detector beside those that every rule has.
type Setting struct {
	// Name is the key under the rule's name.
	Name string
	// Default is a float64 or a time.Duration.
	Default any
	// Help says what it is, with its unit.
	Help string
	// Positive says that zero and below make no sense.
	Positive bool
}

// settings are the values that hold for one rule: defaults and overrides.
type settings struct {
	hold      time.Duration
	keep      time.Duration // how long the alert goes on after its condition ended
	severity  string
	labels    map[string]string
	disabled  bool
	timeScale float64
	numbers   map[string]float64
	durations map[string]time.Duration
}

// number is a setting without a unit.
func (s *settings) number(name string) float64 { return s.numbers[name] }

// duration is a setting in time, scaled.
func (s *settings) duration(name string) time.Duration { return scaled(s.durations[name], s.timeScale) }

// resolveSettings applies o to a's defaults. The error names rule and key.
func resolveSettings(a *Alerting, o Override) (*settings, error) {
	s := &settings{
		hold: a.For, severity: a.Severity, labels: o.Labels, disabled: o.Disabled, timeScale: 1,
		numbers: map[string]float64{}, durations: map[string]time.Duration{},
	}
	if err := o.check(); err != nil {
		return s, fmt.Errorf("rules: %s: %w", a.Name, err)
	}
	if o.For != nil {
		s.hold = time.Duration(*o.For)
	}
	if o.Severity != "" {
		s.severity = o.Severity
	}
	if o.TimeScale != 0 {
		s.timeScale = o.TimeScale
	}
	s.hold = scaled(s.hold, s.timeScale)
	if o.KeepFiringFor != nil {
		s.keep = scaled(time.Duration(*o.KeepFiringFor), s.timeScale)
	}
	for _, set := range a.Settings {
		s.set(set, set.Default)
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(o.Settings)) {
		if err := s.override(a, key, o.Settings[key]); err != nil {
			errs = append(errs, fmt.Errorf("rules: %s: %s %w", a.Name, key, err))
		}
	}
	return s, errors.Join(errs...)
}

func (s *settings) set(set Setting, v any) {
	switch v := v.(type) {
	case float64:
		s.numbers[set.Name] = v
	case time.Duration:
		s.durations[set.Name] = v
	}
}

func (s *settings) override(a *Alerting, key string, raw any) error {
	i := slices.IndexFunc(a.Settings, func(set Setting) bool { return set.Name == key })
	if i < 0 {
		return fmt.Errorf("is no setting of this rule: it has %s", strings.Join(settingNames(a), ", "))
	}
	set := a.Settings[i]
	v, err := settingValue(set, raw)
	if err != nil {
		return err
	}
	s.set(set, v)
	return nil
}

// settingNames lists what may stand under a rule's name.
func settingNames(a *Alerting) []string {
	names := []string{"for", "keep_firing_for", "severity", "labels", "disabled", "time_scale"}
	for _, set := range a.Settings {
		names = append(names, set.Name)
	}
	return names
}

// settingValue reads raw as the kind that the setting's default has.
func settingValue(set Setting, raw any) (any, error) {
	if _, ok := set.Default.(time.Duration); ok {
		text, ok := raw.(string)
		if !ok {
			return nil, fmt.Errorf("is %v: it is a duration such as 5m", raw)
		}
		d, err := model.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("is %q: it is a duration such as 5m", text)
		}
		if set.Positive && d <= 0 {
			return nil, errors.New("must be over 0")
		}
		return time.Duration(d), nil
	}
	var v float64
	switch n := raw.(type) {
	case int:
		v = float64(n)
	case float64:
		v = n
	default:
		return nil, fmt.Errorf("is %v: it is a number", raw)
	}
	if set.Positive && v <= 0 || v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil, fmt.Errorf("is %g: it must be a number over 0", v)
	}
	return v, nil
}

// Validate checks pools and overrides as New does, without building anything.
func Validate(pools []PoolConfig, overrides map[string]Override) error {
	_, err := resolveRules(overrides)
	return errors.Join(checkPools(pools), err)
}

// resolveRules gives each registered alert the settings that hold for it.
func resolveRules(overrides map[string]Override) (map[string]*settings, error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if _, ok := alertings[name]; !ok {
			errs = append(errs, fmt.Errorf("rules: %s is no alert: there are %s", name, strings.Join(alertNames(), ", ")))
		}
	}
	overrides, err := sharedOverrides(overrides)
	errs = append(errs, err)
	resolved := make(map[string]*settings, len(alertings))
	for name, a := range alertings {
		s, err := resolveSettings(a, overrides[name])
		errs = append(errs, err)
		resolved[name] = s
	}
	return resolved, errors.Join(errs...)
}
