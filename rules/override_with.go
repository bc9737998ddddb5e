package rules

import (
	"fmt"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"
)

// With returns the override with one key set to a value as it would stand in
// the configuration. Whether the rule has that key, Validate says.
func (o Override) With(key, value string) (Override, error) {
	var one Override
	if err := yaml.Unmarshal([]byte(key+": "+value), &one); err != nil {
		return o, fmt.Errorf("the value cannot be read: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	switch key {
	case "for":
		o.For = one.For
	case "severity":
		o.Severity = one.Severity
	case "labels":
		o.Labels = one.Labels
	case "disabled":
		o.Disabled = one.Disabled
	case "time_scale":
		o.TimeScale = one.TimeScale
	default:
		o.Settings = maps.Clone(o.Settings)
		if o.Settings == nil {
			o.Settings = map[string]any{}
		}
		o.Settings[key] = one.Settings[key]
	}
	return o, nil
}
