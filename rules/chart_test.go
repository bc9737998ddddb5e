package rules

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChartsNameRecordedSeries holds the picture of each alert to series that
// history has, with all their labels.
func TestChartsNameRecordedSeries(t *testing.T) {
	t.Parallel()
	reg := Registered()
	labelsOf := func(name string) []string {
		for _, r := range reg.Recordings {
			if r.Name == name {
				labels := slices.Clone(r.Labels)
				if r.Kind == KindSummary {
					labels = append(labels, "quantile")
				}
				return labels
			}
		}
		return nil
	}
	pool := map[string]string{"pool": "p", "model_name": "m"}
	engine := map[string]string{"pool": "p", "job": "j", "instance": "i", "engine": "0", "model_name": "m"}
	target := map[string]string{"job": "j", "instance": "i"}
	charts := 0
	for _, info := range reg.Alerts {
		a := Alert{Name: info.Name, Labels: target}
		switch rule := alertings[info.Name]; {
		case rule.Pool != nil:
			a.Labels = pool
		case rule.Engine != nil:
			a.Labels = engine
		case rule.Fleet != nil, rule.Plan != nil:
			a.Labels = nil
		}
		a.Evidence.Numbers = []Number{{Name: "itl_p95_burn_1h", Value: 3}}
		c, ok := ChartOf(a)
		if !ok {
			continue
		}
		charts++
		for _, q := range []Query{c.Line, c.Usual} {
			known := labelsOf(q.Name)
			for name := range q.Labels {
				if !slices.Contains(known, name) {
					t.Errorf("%s draws %s by %s; the series has %v", info.Name, q.Name, name, known)
				}
			}
		}
		if c.Title == "" || c.Line.Name == "" {
			t.Errorf("%s: %+v", info.Name, c)
		}
	}
	if charts < 15 {
		t.Errorf("only %d alerts have a chart", charts)
	}
}

func TestChartOf(t *testing.T) {
	t.Parallel()
	pool := map[string]string{"pool": "p", "model_name": "m", "cluster": "madrid"}
	for _, tt := range []struct {
		name  string
		alert Alert
		want  Chart
		drawn bool
	}{
		{
			"a collapse",
			Alert{Name: "PrefixCacheCollapse", Labels: pool},
			Chart{
				Title: "Prefix cache hit rate", Unit: "ratio",
				Line:  Query{"kvwatch_pool_prefix_cache_hit_ratio", map[string]string{"pool": "p", "model_name": "m", "window": "5m"}},
				Usual: Query{"kvwatch_pool_prefix_cache_hit_ratio_baseline", map[string]string{"pool": "p", "model_name": "m"}},
			},
			true,
		},
		{
			"a gateway, with its limit",
			Alert{
				Name: "GatewaySaturated", Labels: map[string]string{"job": "litellm", "instance": "gw:4000"},
				Evidence: Evidence{Numbers: []Number{{Name: "saturation", Value: 0.9, Unit: "ratio"}, {Name: "threshold_saturation", Value: 0.8, Unit: "ratio"}}},
			},
			Chart{
				Title: "Gateway: requests in flight of what fits", Unit: "ratio", Limit: 0.8, HasLimit: true,
				Line: Query{"kvwatch_gateway_saturation_ratio", map[string]string{"job": "litellm", "instance": "gw:4000"}},
			},
			true,
		},
		{
			"the objective that burns the fastest",
			Alert{Name: "SLOBurn", Labels: pool, Evidence: Evidence{Numbers: []Number{{Name: "ttft_p95_burn_1h", Value: 2}, {Name: "itl_p95_burn_1h", Value: 9}}}},
			Chart{
				Title: "Tokens in time", Unit: "ratio",
				Line: Query{"kvwatch_pool_slo_attainment_ratio", map[string]string{"pool": "p", "model_name": "m", "slo": "itl_p95"}},
			},
			true,
		},
		{"a target that is down", Alert{Name: "TargetDown", Labels: map[string]string{"job": "j", "instance": "i"}}, Chart{}, false},
		{"an engine of a pool that is down", Alert{Name: "EngineStalled", Labels: map[string]string{"pool": "p", "instance": "i"}}, Chart{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, drawn := ChartOf(tt.alert)
			if diff := cmp.Diff(tt.want, got); diff != "" || drawn != tt.drawn {
				t.Errorf("drawn %t (-want +got):\n%s", drawn, diff)
			}
		})
	}
}
