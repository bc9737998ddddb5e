package rules

import (
	"math"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
)

// output is one derived series of one subject: what it was last, and the
// series under which history holds it.
type output struct {
	// value is the series itself, which history does not hold of a summary.
	value  part
	result Result
	// parts are what history holds of a summary, once it is known: its
	// quantiles, its sum and its count.
	parts   []part
	summary bool
	// told is the series that tells of the quality, nil where history is told of none.
	told *qualityPart
}

// part is one stored series of an output.
type part struct {
	series collector.Series
	// stored says that it had a value at the last Eval.
	stored bool
}

type qualityPart struct {
	quality Quality
	part
}

// newOutput makes the output of a series.
func newOutput(ls labels.Labels, summary bool) *output {
	return &output{value: part{series: collector.Series{Labels: ls}}, summary: summary}
}

// labels are those of the series.
func (o *output) labels() labels.Labels { return o.value.series.Labels }

// name is its family's.
func (o *output) name() string { return o.labels().Get(model.MetricNameLabel) }

// split makes the parts of a summary.
func (o *output) split() {
	o.parts = make([]part, 0, quantiles+2)
	add := func(name, value string) {
		ls := labels.NewBuilder(o.labels()).Set(name, value).Labels()
		o.parts = append(o.parts, part{series: collector.Series{Labels: ls}})
	}
	for _, q := range summaryQuantiles() {
		add(model.QuantileLabel, strconv.FormatFloat(q, 'f', -1, 64))
	}
	add(model.MetricNameLabel, o.name()+collector.SumSuffix)
	add(model.MetricNameLabel, o.name()+collector.CountSuffix)
}

// partValue is the value of the i-th part of a summary, NaN when it has none.
func (o *output) partValue(i int) float64 {
	if !o.result.Known {
		return math.NaN()
	}
	qs := summaryQuantiles()
	switch i {
	case len(qs):
		return o.result.Summary.Sum
	case len(qs) + 1:
		return float64(o.result.Summary.Count)
	}
	for _, q := range o.result.Summary.Quantiles {
		if q.Q == qs[i] {
			return q.Value
		}
	}
	return math.NaN()
}

// batch is what one Eval stores.
type batch struct {
	samples []collector.Sample
	stale   []*collector.Series
}

// reset empties it. Nothing is left behind: series would live on in what the next
// tick does not overwrite.
func (b *batch) reset() {
	clear(b.samples)
	clear(b.stale)
	b.samples, b.stale = b.samples[:0], b.stale[:0]
}

// put stores what the output has, and marks stale what it has no more.
func (b *batch) put(o *output) {
	if o.summary {
		b.putSummary(o)
	} else {
		b.one(&o.value, o.result.Value, o.result.Known && !math.IsNaN(o.result.Value))
	}
	b.putQuality(o)
}

func (b *batch) putSummary(o *output) {
	if o.result.Known && o.parts == nil {
		o.split()
	}
	for i := range o.parts {
		v := o.partValue(i)
		b.one(&o.parts[i], v, !math.IsNaN(v))
	}
}

// putQuality tells history of a quality where there is something to tell. The
// series is made anew each time that there is: history finds it by its labels.
func (b *batch) putQuality(o *output) {
	q := o.result.Quality
	if o.told != nil && o.told.quality != q {
		b.one(&o.told.part, 0, false)
		o.told = nil
	}
	if q == QualityOK || q == "" {
		return
	}
	if o.told == nil {
		o.told = &qualityPart{quality: q, part: part{series: collector.Series{Labels: o.qualityLabels(q)}}}
	}
	b.one(&o.told.part, 1, true)
}

func (b *batch) one(p *part, v float64, has bool) {
	switch {
	case has:
		b.samples = append(b.samples, collector.Sample{Series: &p.series, Value: v})
	case p.stored:
		b.stale = append(b.stale, &p.series)
	}
	p.stored = has
}

// drop marks all of the output's series stale.
func (b *batch) drop(o *output) {
	o.result = Result{}
	b.put(o)
}

// qualityLabels are those of the series that tells of q.
func (o *output) qualityLabels(q Quality) labels.Labels {
	return labels.NewBuilder(o.labels()).
		Set(model.MetricNameLabel, SeriesQuality).
		Set("series", o.name()).
		Set("quality", string(q)).Labels()
}

// recorded appends what the output says now; nothing where it does not apply.
func (o *output) recorded(to []Recorded) []Recorded {
	r := o.result
	if r.Quality == "" {
		return to
	}
	rec := Recorded{
		Labels: o.labels(), Value: r.Value, Known: r.Known, Quality: r.Quality,
		Coverage: r.Coverage, Reason: r.Reason, From: r.From,
	}
	if r.Known {
		rec.Summary = r.Summary
	}
	return append(to, rec)
}

// SeriesQuality is the family that tells of each derived series' quality.
const SeriesQuality = "kvwatch_series_quality"

const alertsSeries = "kvwatch_alerts"

// ownFamilies describes them.
func ownFamilies() []RecordingInfo {
	return []RecordingInfo{
		{
			Name: SeriesQuality, Kind: KindGauge, Labels: []string{"series", "quality"},
			Help: "How far a derived series can be trusted: 1 for the quality that it has now; it carries the labels of the series.",
		},
		{
			Name: alertsSeries, Kind: KindGauge, Labels: []string{"alertname", "severity", "state"},
			Help: "Number of alerts by name, severity and state (pending, firing).",
		},
	}
}
