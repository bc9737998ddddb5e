package rules

import (
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
)

// output is one derived series of one subject: what it was last, and the
// series under which history holds it.
type output struct {
	labels  labels.Labels
	eval    func(instant) Result
	result  Result
	summary bool
	// parts are the stored series: one, or the quantiles, sum and count of a
	// summary.
	parts []part
	// qualities are the series that tell of the quality, one per quality seen.
	qualities []qualitySeries
}

// part is one stored series of an output.
type part struct {
	series *collector.Series
	// stored says that it had a value at the last Eval.
	stored bool
}

type qualitySeries struct {
	quality Quality
	series  *collector.Series
	stored  bool
}

// newOutput makes the output of recording r under the given name.
func newOutput(r *Recording, name, value string, subject labels.Labels, eval func(instant) Result) *output {
	b := labels.NewBuilder(subject).Set(model.MetricNameLabel, name)
	if r.Label != "" {
		b.Set(r.Label, value)
	}
	o := &output{labels: b.Labels(), eval: eval, summary: r.Kind == KindSummary}
	if !o.summary {
		o.parts = []part{{series: &collector.Series{Labels: o.labels}}}
		return o
	}
	for _, q := range summaryQuantiles() {
		o.addPart(labels.NewBuilder(o.labels).Set("quantile", strconv.FormatFloat(q, 'f', -1, 64)))
	}
	o.addPart(labels.NewBuilder(o.labels).Set(model.MetricNameLabel, name+"_sum"))
	o.addPart(labels.NewBuilder(o.labels).Set(model.MetricNameLabel, name+"_count"))
	return o
}

func (o *output) addPart(b *labels.Builder) {
	o.parts = append(o.parts, part{series: &collector.Series{Labels: b.Labels()}})
}

// partValue is the value of the i-th part, NaN when it has none.
func (o *output) partValue(i int) float64 {
	if !o.result.Known {
		return math.NaN()
	}
	if !o.summary {
		return o.result.Value
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

func (b *batch) reset() { b.samples, b.stale = b.samples[:0], b.stale[:0] }

// append adds what another one stores.
func (b *batch) append(other *batch) {
	b.samples = append(b.samples, other.samples...)
	b.stale = append(b.stale, other.stale...)
}

// record evaluates the outputs and stores them.
func (b *batch) record(n instant, outputs []*output) {
	for _, o := range outputs {
		r := o.eval(n)
		if r.Quality == "" && o.result.Quality == "" {
			continue // it did not apply before either, as all states but one of a target
		}
		o.result = r
		b.put(o)
	}
}

// put stores what the output has, and marks stale what it has no more.
func (b *batch) put(o *output) {
	for i := range o.parts {
		p := &o.parts[i]
		v := o.partValue(i)
		p.stored = b.one(p.series, v, !math.IsNaN(v), p.stored)
	}
	// History is told of qualities only where there is something to tell.
	told := o.result.Quality != QualityOK && o.result.Quality != ""
	if told {
		o.quality(o.result.Quality)
	}
	for i := range o.qualities {
		q := &o.qualities[i]
		q.stored = b.one(q.series, 1, told && q.quality == o.result.Quality, q.stored)
	}
}

func (b *batch) one(s *collector.Series, v float64, has, had bool) bool {
	switch {
	case has:
		b.samples = append(b.samples, collector.Sample{Series: s, Value: v})
	case had:
		b.stale = append(b.stale, s)
	}
	return has
}

// drop marks all of the output's series stale.
func (b *batch) drop(o *output) {
	o.result = Result{}
	b.put(o)
}

// quality makes the series that tells of q, where it is not there yet.
func (o *output) quality(q Quality) {
	if slices.ContainsFunc(o.qualities, func(s qualitySeries) bool { return s.quality == q }) {
		return
	}
	ls := labels.NewBuilder(o.labels).
		Set(model.MetricNameLabel, SeriesQuality).
		Set("series", o.labels.Get(model.MetricNameLabel)).
		Set("quality", string(q)).Labels()
	o.qualities = append(o.qualities, qualitySeries{quality: q, series: &collector.Series{Labels: ls}})
}

// recorded appends what the output says now; nothing where it does not apply.
func (o *output) recorded(to []Recorded) []Recorded {
	r := o.result
	if r.Quality == "" {
		return to
	}
	rec := Recorded{
		Labels: o.labels, Value: r.Value, Known: r.Known, Quality: r.Quality,
		Coverage: r.Coverage, Reason: r.Reason, From: r.From,
	}
	if r.Known && o.summary {
		s := r.Summary
		rec.Summary = &s
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
