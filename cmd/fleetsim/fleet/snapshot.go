package fleet

import (
	"math"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Snapshot is a page as numbers, for whoever needs many pages and no text: the
// samples that the text has, without those of _created families.
type Snapshot struct {
	// Life tells the pages of one process from those of the next: when it
	// changes, Labels begin anew.
	Life uint64
	// Labels are those of each sample, __name__ and le included. Within a life
	// they only grow in number, so that an index stands for one series. They
	// are shared: read them only.
	Labels []labels.Labels
	// Values has the value of each of Labels. It is used again by the next call
	// with the same Snapshot.
	Values []float64
}

// EngineSnapshot is EnginePage without text; it has the same errors.
func (f *Fleet) EngineSnapshot(i int, into *Snapshot) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.enginePage(i)
	if err == nil {
		p.snapshot(into)
	}
	return err
}

// GatewaySnapshot is GatewayPage without text; it has the same errors.
func (f *Fleet) GatewaySnapshot(into *Snapshot) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.gatewayPage()
	if err == nil {
		p.snapshot(into)
	}
	return err
}

// snapshot fills in the values of all series in the order in which they were
// added to the page.
func (p *page) snapshot(into *Snapshot) {
	values := into.Values[:0]
	for ; p.labelled < len(p.all); p.labelled++ {
		p.sampleLabels = p.all[p.labelled].appendLabels(p.sampleLabels)
	}
	for _, s := range p.all {
		values = s.appendValues(values)
	}
	*into = Snapshot{Life: p.life, Labels: p.sampleLabels, Values: values}
}

// appendValues puts a series' values behind those of others.
func (s *series) appendValues(values []float64) []float64 {
	switch s.family.kind {
	case model.MetricTypeHistogram:
		var cumulative uint64
		for _, n := range s.buckets {
			cumulative += n
			values = append(values, float64(cumulative))
		}
		return append(values, float64(s.count), s.sum)
	case model.MetricTypeSummary:
		return append(values, float64(s.count), s.sum)
	default:
		return append(values, s.value)
	}
}

// appendLabels puts the labels of a series' values behind those of others, in
// the order of appendValues.
func (s *series) appendLabels(all []labels.Labels) []labels.Labels {
	f := s.family
	builder := labels.NewBuilder(labels.EmptyLabels())
	for i, name := range f.labels {
		builder.Set(name, s.labelValues[i])
	}
	sample := func(suffix string) labels.Labels { return builder.Set(model.MetricNameLabel, f.name+suffix).Labels() }
	switch f.kind {
	case model.MetricTypeHistogram:
		for i := range s.buckets {
			bound := math.Inf(1)
			if i < len(f.bounds) {
				bound = f.bounds[i]
			}
			builder.Set(model.BucketLabel, string(appendNumber(nil, bound)))
			all = append(all, sample("_bucket"))
		}
		builder.Del(model.BucketLabel)
		return append(all, sample("_count"), sample("_sum"))
	case model.MetricTypeSummary:
		return append(all, sample("_count"), sample("_sum"))
	default:
		return append(all, sample(""))
	}
}
