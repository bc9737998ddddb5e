package rules

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// derivation is one series that every subject of a kind may have; W is the window
// of such a subject.
type derivation[W any] struct {
	name string
	// label is the one label that it has beside those of its subject, "" where
	// there is none.
	label, value string
	summary      bool
	eval         func(w W, value string) Result
}

// derivations are the series of all kinds of subjects, in order of name.
type derivations struct {
	engine  []derivation[EngineWindow]
	pool    []derivation[PoolWindow]
	gateway []derivation[GatewayWindow]
	target  []derivation[TargetWindow]
}

// allDerivations are those of all recordings.
func allDerivations() derivations {
	var all derivations
	for _, r := range sortedRecordings() {
		all.engine = addDerivations(all.engine, r, r.Name, r.Engine)
		all.pool = addDerivations(all.pool, r, r.poolName(), r.Pool)
		all.gateway = addDerivations(all.gateway, r, r.Name, r.Gateway)
		all.target = addDerivations(all.target, r, r.Name, r.Target)
	}
	return all
}

// addDerivations adds what a recording has for a kind of subject: nothing without eval.
func addDerivations[W any](to []derivation[W], r Recording, name string, eval func(W, string) Result) []derivation[W] {
	if eval == nil {
		return to
	}
	for _, value := range r.values() {
		to = append(to, derivation[W]{name: name, label: r.Label, value: value, summary: r.Kind == KindSummary, eval: eval})
	}
	return to
}

// output makes the output of a subject.
func (d *derivation[W]) output(subject labels.Labels) *output {
	b := labels.NewBuilder(subject).Set(model.MetricNameLabel, d.name)
	if d.label != "" {
		b.Set(d.label, d.value)
	}
	return newOutput(b.Labels(), d.summary)
}

// derive works out the series of one subject and puts them into the batch.
// outputs are by the place of the series; there is none of a series that never
// applied to the subject, as all states but one of most targets.
func derive[W any](b *batch, w W, series []derivation[W], outputs []*output, subject func() labels.Labels) {
	for i, o := range outputs {
		d := &series[i]
		r := d.eval(w, d.value)
		if r.Quality == "" && (o == nil || o.result.Quality == "") {
			continue // it did not apply before either
		}
		if o == nil {
			o = d.output(subject())
			outputs[i] = o
		}
		o.result = r
		b.put(o)
	}
}
