package rules

import (
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// names lists the families that a batch stores and ends, the latter with a minus,
// and empties it.
func (b *batch) names() string {
	var all []string
	for _, s := range b.samples {
		all = append(all, s.Series.Labels.Get(model.MetricNameLabel)+s.Series.Labels.Get("quality"))
	}
	for _, s := range b.stale {
		all = append(all, "-"+s.Labels.Get(model.MetricNameLabel)+s.Labels.Get("quality"))
	}
	b.reset()
	return strings.Join(all, " ")
}

func TestDerive(t *testing.T) {
	t.Parallel()
	results := map[string]Result{}
	series := []derivation[int]{
		{name: "v", eval: func(int, string) Result { return results["v"] }},
		{name: "s", summary: true, eval: func(int, string) Result { return results["s"] }},
		{name: "never", label: "of", value: "x", eval: func(_ int, value string) Result { return results[value] }},
	}
	outputs := make([]*output, len(series))
	var b batch
	ok := func(v float64) Result { return Result{Known: true, Value: v, Quality: QualityOK} }
	const partial, absent, reset = SeriesQuality + "partial", SeriesQuality + "absent", SeriesQuality + "reset"
	for i, step := range []struct {
		v, s Result
		want string
	}{
		{Result{}, Result{}, ""},
		{ok(1), Result{Quality: QualityAbsent}, "v " + absent},
		{Result{Known: true, Quality: QualityPartial}, Result{Quality: QualityAbsent}, "v " + partial + " " + absent},
		{Result{Known: true, Quality: QualityReset}, Result{Quality: QualityAbsent}, "v " + reset + " " + absent + " -" + partial},
		{ok(2), Result{Known: true, Quality: QualityOK, Summary: &Summary{Quantiles: []Quantile{{0.5, 1}}, Sum: 3, Count: 2}}, "v s s_sum s_count -" + reset + " -" + absent},
		{Result{Known: true, Quality: QualityPartial}, Result{Quality: QualityAbsent}, "v " + partial + " " + absent + " -s -s_sum -s_count"},
		{Result{}, Result{}, "-v -" + partial + " -" + absent},
		{Result{}, Result{}, ""},
	} {
		results["v"], results["s"] = step.v, step.s
		derive(&b, 0, series, outputs, func() labels.Labels { return labels.FromStrings("pool", "p") })
		if got := b.names(); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
	if outputs[2] != nil {
		t.Errorf("a series that never applied has an output: %+v", outputs[2])
	}
	if got := outputs[0].labels().String(); got != `{__name__="v", pool="p"}` {
		t.Errorf("labels %s", got)
	}
	for _, s := range b.samples[:cap(b.samples)] {
		if s.Series != nil {
			t.Errorf("an empty batch holds %s", s.Series.Labels)
		}
	}
}
