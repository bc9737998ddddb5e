package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/rules"
)

// value is one number with what a person must know to trust it. Value is nil
// when it is unknown, and then Reason says why.
type value struct {
	Value   *float64 `json:"value"`
	Unit    string   `json:"unit,omitempty"`
	Quality string   `json:"quality"`
	// Trust says the quality in words; empty when there is nothing to say.
	Trust  string `json:"trust,omitempty"`
	Reason string `json:"reason,omitempty"`
	From   string `json:"from,omitempty"`
}

// add puts a recorded series under its short name; a summary is spread over its quantiles.
func (vs values) add(name string, r rules.Recorded) {
	key := name + sibling(r.Labels)
	if r.Summary == nil {
		v := newValue(r)
		vs[key] = v
		if strings.HasPrefix(key, "queue_waiting_requests:") {
			vs.sum("queue_waiting_requests", v)
		}
		return
	}
	for _, q := range r.Summary.Quantiles {
		r.Value = q.Value
		v := newValue(r)
		vs[key+":"+strconv.FormatFloat(q.Q, 'g', -1, 64)] = v
	}
	if len(r.Summary.Quantiles) == 0 {
		vs[key] = unknownOf(newValue(r))
	}
}

// sibling is the label, after a colon, that tells a series from others of its name and owner.
func sibling(ls labels.Labels) string {
	for _, name := range []string{"window", "reason", "by", "cause", "prompt", "slo", "position", "switch"} {
		if v := ls.Get(name); v != "" {
			return ":" + v
		}
	}
	return ""
}

// sum adds a part to a total. A total is known as soon as one part is: the
// reasons for waiting that an engine does not tell apart are simply not there.
func (vs values) sum(key string, part value) {
	total, ok := vs[key]
	if !ok || total.Value == nil {
		vs[key] = part
		return
	}
	if part.Value != nil {
		added := *total.Value + *part.Value
		total.Value = &added
		vs[key] = total
	}
}

func newValue(r rules.Recorded) value {
	v := value{
		Value:   finite(r.Value, r.Known),
		Unit:    unitOf(r.Labels.Get(model.MetricNameLabel)),
		Quality: string(r.Quality),
		Trust:   trust(r.Quality, r.Coverage),
		Reason:  r.Reason,
		From:    r.From,
	}
	if v.Value == nil {
		return unknownOf(v)
	}
	return v
}

// unknownOf makes sure that an unknown value says why.
func unknownOf(v value) value {
	v.Value = nil
	if v.Reason == "" {
		v.Reason = "not known, and no reason was given"
	}
	return v
}

// finite returns nil for what is no number: JSON has no NaN, and unknown is never zero.
func finite(f float64, known bool) *float64 {
	if !known || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

// unitOf reads the unit off a series' name, as the names of DESIGN section 7 hold it.
func unitOf(name string) string {
	switch name = strings.TrimSuffix(name, "_total"); {
	case strings.HasSuffix(name, "_ratio"), strings.HasSuffix(name, "_ratio_baseline"):
		return "ratio"
	case strings.HasSuffix(name, "_tokens_per_second"):
		return "tokens/s"
	case strings.HasSuffix(name, "_seconds"):
		return "seconds"
	case strings.HasSuffix(name, "_tokens"):
		return "tokens"
	case strings.HasSuffix(name, "_prompts"):
		return "prompts"
	case strings.HasSuffix(name, "_requests"):
		return "requests"
	case strings.HasSuffix(name, "_seats"):
		return "seats"
	default:
		return ""
	}
}

// trust says a quality in words that a person on call understands.
func trust(q rules.Quality, coverage float64) string {
	switch q {
	case rules.QualityOK:
		return ""
	case rules.QualityPartial:
		if coverage > 0 {
			return fmt.Sprintf("partial: covers %.0f %%", coverage*100)
		}
		return "partial"
	case rules.QualityStale:
		return "stale: no fresh scrape"
	case rules.QualityReset:
		return "a counter restarted inside the window"
	case rules.QualitySampled:
		return "one worker of several answered"
	case rules.QualityAbsent:
		return "not available"
	case rules.QualityVersionStep:
		return "the meaning changed with a version"
	default:
		return string(q)
	}
}
