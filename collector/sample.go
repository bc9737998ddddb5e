package collector

import (
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Series is one time series of one target, or one that the rules derive. It is
// made once, when it is first seen, and kept for as long as it is exposed: the
// pointer is the series' identity for everything downstream.
type Series struct {
	// Labels is the full label set, __name__ included. Raw series carry their
	// canonical exposed name (see names.go), job, instance and, for vLLM,
	// engine and model_name.
	Labels labels.Labels
	// Ref belongs to the store that the series is appended to; nobody else
	// reads or writes it. 0 means not yet stored.
	Ref uint64
	// Whole says that the series is that of a Histogram.
	Whole bool
}

// Sample is one value of one series; its time is that of its Round.
type Sample struct {
	Series *Series
	Value  float64
}

// Round is what one scrape of one target yielded. Its slices are reused: they
// are valid until the function that was given the Round returns.
type Round struct {
	Target *Target
	// Time is when the scrape began; exposed timestamps are ignored.
	Time     time.Time
	Duration time.Duration
	State    State
	// Sampled says that several workers answer behind one address, each with
	// counters of its own: the page is one of them, and nothing can be rated.
	Sampled bool
	// Version is that of the server, as it tells it beside its page; empty
	// while unknown. It is told for gating only: history does not keep it.
	Version string
	// Reason says in plain words what is wrong and what to do; empty when up.
	// It never holds a secret.
	Reason string
	// Samples holds the wanted series of the page, and always the sample of
	// the target's own `up` series (1 when State is StateUp, else 0). The last
	// round of a target that is no longer one has none, StateUnknown, and all
	// its series in Stale, `up` included.
	Samples []Sample
	// Histograms are those of the page of which the buckets are wanted; none of
	// their series is among the Samples.
	Histograms []Histogram
	// Stale lists series that were exposed the round before and are gone now.
	// A failed scrape makes all of the target's series stale.
	Stale []*Series
}

// Len is how many samples of the page the round holds: a histogram counts for
// all of its series.
func (r *Round) Len() int {
	n := len(r.Samples)
	for i := range r.Histograms {
		n += r.Histograms[i].Len()
	}
	return n
}
