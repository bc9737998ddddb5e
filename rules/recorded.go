package rules

import "github.com/prometheus/prometheus/model/labels"

// Quality says how far a derived series can be trusted.
type Quality string

// The qualities. Unknown is never zero: a series that cannot be computed has no
// value, a quality that says so and a Reason.
const (
	QualityOK          Quality = "ok"
	QualityPartial     Quality = "partial"      // with Coverage
	QualityStale       Quality = "stale"        // no fresh scrape
	QualityReset       Quality = "reset"        // a counter restarted inside the window
	QualitySampled     Quality = "sampled"      // one worker of several answered
	QualityAbsent      Quality = "absent"       // feature off, name missing, too little evidence
	QualityVersionStep Quality = "version_step" // the meaning changed with a version
)

// Recorded is one derived series as it stands now.
type Recorded struct {
	// Labels holds __name__ and the labels of DESIGN section 7.
	Labels labels.Labels `json:"labels"`
	// Value is set when Known.
	Value float64 `json:"value"`
	// Known says that the series has a value; when false it is absent from
	// /metrics and Reason says why.
	Known bool `json:"known"`
	// Summary is set for series with quantiles, instead of Value.
	Summary *Summary `json:"summary,omitempty"`
	Quality Quality  `json:"quality"`
	// Coverage is in 0..1 where Quality is partial, else 0.
	Coverage float64 `json:"coverage,omitempty"`
	// Reason says in plain words why the series is absent or not ok.
	Reason string `json:"reason,omitempty"`
	// From is the exposed name (or formula of names) that was read.
	From string `json:"from,omitempty"`
}

// Summary holds quantiles over the last five minutes and cumulative sums from the source.
type Summary struct {
	// Quantiles holds 0.5, 0.9, 0.95 and 0.99 in that order, values in the unit
	// of the series' name. Quantiles that cannot be told are left out.
	Quantiles []Quantile `json:"quantiles"`
	Sum       float64    `json:"sum"`
	Count     uint64     `json:"count"`
}

// Quantile is one point of a distribution.
type Quantile struct {
	Q     float64 `json:"q"`
	Value float64 `json:"value"`
}
