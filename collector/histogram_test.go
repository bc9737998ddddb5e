package collector

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// classic is what a page yields, each histogram as the series that it stands for.
func (y yield) classic() []Sample { return classic(y.samples, y.histograms) }

// samplesOf is the round's samples and those that its histograms stand for.
func samplesOf(r *Round) []Sample { return classic(r.Samples, r.Histograms) }

func classic(samples []Sample, histograms []Histogram) []Sample {
	var all []Sample
	for _, h := range histograms {
		name := h.Series.Labels.Get(model.MetricNameLabel)
		for part := range h.Parts() {
			b := labels.NewBuilder(h.Series.Labels).Set(model.MetricNameLabel, name+part.Suffix)
			if part.Suffix == BucketSuffix {
				b.Set(labels.BucketLabel, labels.FormatOpenMetricsFloat(part.Bound))
			}
			all = append(all, Sample{Series: &Series{Labels: b.Labels()}, Value: part.Value})
		}
	}
	return append(all, samples...)
}
