package main

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/rules"
)

// seriesExporter shows the derived series on /metrics as they stand. It is an
// unchecked collector: which series exist depends on what can be computed, and
// what cannot is absent.
type seriesExporter struct {
	recorded func() []rules.Recorded
	help     map[string]string
}

// newSeriesExporter takes the series from recorded and their help from the rules' table.
func newSeriesExporter(recorded func() []rules.Recorded) *seriesExporter {
	help := map[string]string{}
	for _, r := range rules.Registered().Recordings {
		help[r.Name] = r.Help
	}
	return &seriesExporter{recorded: recorded, help: help}
}

// Describe sends nothing, which makes the collector unchecked.
func (*seriesExporter) Describe(chan<- *prometheus.Desc) {}

// Collect sends every series that has a value.
func (x *seriesExporter) Collect(ch chan<- prometheus.Metric) {
	for _, r := range x.recorded() {
		if !r.Known {
			continue
		}
		name := r.Labels.Get(model.MetricNameLabel)
		names, values := splitLabels(r.Labels)
		desc := prometheus.NewDesc(name, x.help[name], names, nil)
		if r.Summary != nil {
			quantiles := make(map[float64]float64, len(r.Summary.Quantiles))
			for _, q := range r.Summary.Quantiles {
				quantiles[q.Q] = q.Value
			}
			ch <- prometheus.MustNewConstSummary(desc, r.Summary.Count, r.Summary.Sum, quantiles, values...)
			continue
		}
		kind := prometheus.GaugeValue
		if strings.HasSuffix(name, "_total") {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(desc, kind, r.Value, values...)
	}
}

// splitLabels returns the label names and values without the metric's name.
func splitLabels(ls labels.Labels) (names, values []string) {
	ls.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel {
			names = append(names, l.Name)
			values = append(values, l.Value)
		}
	})
	return slices.Clip(names), slices.Clip(values)
}
