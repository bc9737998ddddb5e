package rules

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// alertCount is one series of kvwatch_alerts.
type alertCount struct {
	name, severity string
	state          AlertState
}

// countAlerts renews kvwatch_alerts from all alerts, pending ones too: 0 where nothing is open, so that the
// series are there before the first alert.
func (e *Engine) countAlerts(alerts []Alert) {
	counts := map[alertCount]float64{}
	for name, s := range e.rules {
		if s.disabled {
			continue
		}
		counts[alertCount{name, s.severity, StatePending}] = 0
		counts[alertCount{name, s.severity, StateFiring}] = 0
	}
	for _, a := range alerts {
		if a.State != StateResolved {
			counts[alertCount{a.Name, a.Severity, a.State}]++
		}
	}
	for key, o := range e.own {
		if _, ok := counts[key]; !ok {
			e.gone = append(e.gone, o)
			delete(e.own, key)
		}
	}
	for key, n := range counts {
		o := e.own[key]
		if o == nil {
			o = newOutput(labels.FromStrings(model.MetricNameLabel, alertsSeries, "alertname", key.name, "severity", key.severity, "state", string(key.state)), false)
			e.own[key] = o
		}
		o.result = Result{Value: n, Known: true, Quality: QualityOK}
		e.batch.put(o)
	}
}

// ownOutputs lists the series that the engine makes itself.
func (e *Engine) ownOutputs() []*output {
	keys := slices.SortedFunc(maps.Keys(e.own), func(a, b alertCount) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.severity, b.severity), cmp.Compare(a.state, b.state))
	})
	all := make([]*output, 0, len(keys))
	for _, k := range keys {
		all = append(all, e.own[k])
	}
	return all
}
