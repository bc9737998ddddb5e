package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/rules"
)

// exporter gathers what /metrics shows: what kvwatch tells of itself and the
// derived series as they stand. Which of these exist depends on what can be
// computed; what cannot is absent. They do not go through the registry: of a
// thousand engines they are 58 000 lines, and the registry would make, hash and
// sort descriptions of each at every scrape.
type exporter struct {
	own prometheus.Gatherer
	// recorded gives the derived series, nothing while kvwatch starts.
	recorded func() []rules.Recorded
	help     map[string]string
}

// newExporter takes the derived series from recorded and their help from the rules' table.
func newExporter(own prometheus.Gatherer, recorded func() []rules.Recorded) *exporter {
	help := map[string]string{}
	for _, r := range rules.Registered().Recordings {
		help[r.Name] = r.Help
	}
	return &exporter{own: own, recorded: recorded, help: help}
}

// Gather returns all families in the order of their names.
func (x *exporter) Gather() ([]*dto.MetricFamily, error) {
	families, err := x.own.Gather()
	d := derivedFamilies{help: x.help, byName: map[string]*dto.MetricFamily{}, pairs: map[labels.Label]*dto.LabelPair{}}
	for _, r := range x.recorded() {
		d.add(r)
	}
	for _, f := range d.byName {
		families = append(families, f)
	}
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return families, err
}

// derivedFamilies are the derived series of one scrape by the name of their family.
type derivedFamilies struct {
	help   map[string]string
	byName map[string]*dto.MetricFamily
	// pairs holds each label once: thousands of series share it.
	pairs map[labels.Label]*dto.LabelPair
}

// add puts in a series that has a value, and the one that tells of its quality.
func (d *derivedFamilies) add(r rules.Recorded) {
	name := r.Labels.Get(model.MetricNameLabel)
	pairs := d.pairsOf(r.Labels)
	if r.Known {
		switch {
		case r.Summary != nil:
			d.put(name, dto.MetricType_SUMMARY, &dto.Metric{Label: pairs, Summary: summaryOf(r.Summary)})
		case strings.HasSuffix(name, "_total"):
			d.put(name, dto.MetricType_COUNTER, &dto.Metric{Label: pairs, Counter: &dto.Counter{Value: new(r.Value)}})
		default:
			d.put(name, dto.MetricType_GAUGE, gaugeOf(pairs, r.Value))
		}
	}
	told := append(slices.Clone(pairs), d.pair("series", name), d.pair("quality", string(r.Quality)))
	slices.SortFunc(told, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	d.put(rules.SeriesQuality, dto.MetricType_GAUGE, gaugeOf(told, 1))
}

// put adds a series to its family.
func (d *derivedFamilies) put(name string, kind dto.MetricType, m *dto.Metric) {
	f, ok := d.byName[name]
	if !ok {
		f = &dto.MetricFamily{Name: new(name), Help: new(d.help[name]), Type: kind.Enum()}
		d.byName[name] = f
	}
	f.Metric = append(f.Metric, m)
}

// pairsOf are the labels without the metric's name, in their order.
func (d *derivedFamilies) pairsOf(ls labels.Labels) []*dto.LabelPair {
	pairs := make([]*dto.LabelPair, 0, ls.Len())
	ls.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel {
			pairs = append(pairs, d.pair(l.Name, l.Value))
		}
	})
	return pairs
}

func (d *derivedFamilies) pair(name, value string) *dto.LabelPair {
	l := labels.Label{Name: name, Value: value}
	p, ok := d.pairs[l]
	if !ok {
		p = &dto.LabelPair{Name: new(name), Value: new(strings.ToValidUTF8(value, "\uFFFD"))}
		d.pairs[l] = p
	}
	return p
}

// gaugeOf makes all of a gauge at once, for there are many.
func gaugeOf(pairs []*dto.LabelPair, value float64) *dto.Metric {
	var all struct {
		metric dto.Metric
		gauge  dto.Gauge
		value  float64
	}
	all.value = value
	all.gauge.Value = &all.value
	all.metric.Label, all.metric.Gauge = pairs, &all.gauge
	return &all.metric
}

func summaryOf(s *rules.Summary) *dto.Summary {
	m := &dto.Summary{SampleCount: &s.Count, SampleSum: &s.Sum}
	for i := range s.Quantiles {
		q := &s.Quantiles[i]
		m.Quantile = append(m.Quantile, &dto.Quantile{Quantile: &q.Q, Value: &q.Value})
	}
	return m
}
