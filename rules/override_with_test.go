package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
)

func TestOverrideWith(t *testing.T) {
	t.Parallel()
	minute := model.Duration(time.Minute)
	base := Override{Severity: SeverityInfo, TimeScale: 2, Settings: map[string]any{"a": 1}}
	for set, want := range map[string]Override{
		"for=1m":            {For: &minute, Severity: SeverityInfo, TimeScale: 2, Settings: map[string]any{"a": 1}},
		"severity=critical": {Severity: SeverityCritical, TimeScale: 2, Settings: map[string]any{"a": 1}},
		"time_scale=0.5":    {Severity: SeverityInfo, TimeScale: 0.5, Settings: map[string]any{"a": 1}},
		"disabled=true":     {Severity: SeverityInfo, TimeScale: 2, Disabled: true, Settings: map[string]any{"a": 1}},
		"labels={team: x}":  {Severity: SeverityInfo, TimeScale: 2, Labels: map[string]string{"team": "x"}, Settings: map[string]any{"a": 1}},
		"a=2.5":             {Severity: SeverityInfo, TimeScale: 2, Settings: map[string]any{"a": 2.5}},
		"b=5m":              {Severity: SeverityInfo, TimeScale: 2, Settings: map[string]any{"a": 1, "b": "5m"}},
	} {
		key, value, _ := strings.Cut(set, "=")
		got, err := base.With(key, value)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", set, err, diff)
		}
	}
	if base.Settings["a"] != 1 || len(base.Settings) != 1 {
		t.Errorf("the override itself was changed: %+v", base)
	}
	for _, set := range []string{"for=soon", "severity=loud", "time_scale=-1", "a={", "labels=x"} {
		key, value, _ := strings.Cut(set, "=")
		if got, err := base.With(key, value); err == nil {
			t.Errorf("%s gives %+v", set, got)
		}
	}
}
