package sizing

import (
	"fmt"
	"math"
	"strings"
)

// What a level needs to hold beside the objectives.
const (
	// maxErrors is the greatest share of requests that may fail.
	maxErrors = 0.01
	// minAchieved is the least share of an offered rate that has to be answered.
	minAchieved = 0.95
	// minSample is how many requests it takes to say what share is within the objectives.
	minSample = 20
)

// ReasonAtLeast is the knee's reason where every level holds: the load was never
// great enough to find it.
const ReasonAtLeast = "at least"

// Where a goodput comes from.
const (
	// FromReport is the report's own, by the objectives that it was made with.
	FromReport = "report"
	// FromReportUnknown is the report's own by objectives that it does not state.
	FromReportUnknown = "report_unstated"
	// FromRequests was counted over all requests of the level.
	FromRequests = "requests"
	// FromSample was counted over those that the report kept.
	FromSample = "sample"
	// FromThroughput is the throughput of a level that meets the objectives: at
	// least the share of the percentile is within them.
	FromThroughput = "throughput"
)

// JudgedLevel is a level held against objectives.
type JudgedLevel struct {
	Level

	// Measured says whether all that the objectives ask for is there.
	Measured bool
	// MeetsSLO says whether the objectives hold, Holds whether failures, the rate
	// and saturation allow it too.
	MeetsSLO, Holds bool
	// Why it does not hold, or cannot be judged.
	Why []string
	// Goodput is output tokens per second within the objectives; nil is unknown.
	Goodput *float64
	// GoodputFrom says where it comes from.
	GoodputFrom string
}

// Knee is the greatest load at which the objectives hold, and at all lower ones.
type Knee struct {
	// Level counts from 0 in the order of the offered load; nil where none holds.
	Level *int
	// Reason is what ends it, or ReasonAtLeast.
	Reason string
}

// FindKnee sorts levels by the load that they offered, judges each, and finds
// the knee (G; SIZING section 7).
func FindKnee(levels []Level, slo Objectives) ([]JudgedLevel, Knee) {
	SortLevels(levels)
	judged := make([]JudgedLevel, len(levels))
	for i := range levels {
		judged[i] = judge(levels[i], slo)
	}
	return judged, findKnee(judged)
}

func findKnee(judged []JudgedLevel) Knee {
	for i := range judged {
		if judged[i].Holds {
			continue
		}
		why := fmt.Sprintf("level %d does not hold: %s", i, strings.Join(judged[i].Why, ", "))
		if i == 0 {
			return Knee{Reason: "no level holds from the lowest on: " + why}
		}
		return knee(i-1, why)
	}
	if len(judged) == 0 {
		return Knee{Reason: "no level was measured"}
	}
	return knee(len(judged)-1, ReasonAtLeast)
}

func knee(level int, reason string) Knee { return Knee{Level: &level, Reason: reason} }

// judge holds one level against the objectives.
func judge(l Level, slo Objectives) JudgedLevel {
	j := JudgedLevel{Level: l, Measured: l.Requests.Successful > 0, MeetsSLO: true}
	if !j.Measured {
		j.Why = append(j.Why, "no request was answered")
		j.MeetsSLO = false
	}
	for _, o := range slo {
		v, ok := l.value(o)
		switch {
		case !j.Measured && l.Requests.Successful == 0:
		case !ok:
			j.Measured, j.MeetsSLO = false, false
			j.Why = append(j.Why, o.Name()+" was not measured")
		case !o.held(v):
			j.MeetsSLO = false
			j.Why = append(j.Why, broken(o, v))
		}
	}
	j.Holds = j.MeetsSLO
	for _, why := range l.broken() {
		j.Holds = false
		j.Why = append(j.Why, why)
	}
	j.goodput(slo)
	return j
}

// value is what an objective is held against.
func (l *Level) value(o Objective) (float64, bool) {
	if o.Metric == Attainment {
		return orZero(l.Attained), l.Attained != nil
	}
	return l.Quantile(o.Metric, o.Quantile)
}

func broken(o Objective, v float64) string {
	if o.Metric == Attainment {
		return fmt.Sprintf("attainment %.3g %% is under %.3g %%", 100*v, 100*o.Limit)
	}
	return fmt.Sprintf("%s %s is over %s", o.Name(), Seconds(v), Seconds(o.Limit))
}

// broken says what forbids a level beside the objectives.
func (l *Level) broken() []string {
	var why []string
	if errors := l.ErrorsRatio(); errors != nil && *errors > maxErrors {
		why = append(why, fmt.Sprintf("%.3g %% of requests failed, more than %g %%", 100**errors, 100*maxErrors))
	}
	if l.Loop == OpenLoop && l.Rate != nil && l.Requests.Successful > 0 {
		switch {
		case l.AchievedRate == nil:
			why = append(why, "the rate that was answered was not measured")
		case *l.AchievedRate < minAchieved**l.Rate:
			why = append(why, fmt.Sprintf("%.3g of %.3g requests per second were answered, under %g %%", *l.AchievedRate, *l.Rate, 100*minAchieved))
		}
	}
	if l.OverSaturated {
		why = append(why, "the tool found it over-saturated")
	}
	return why
}

// goodput finds the output tokens per second within the objectives, by the best
// evidence that there is.
func (j *JudgedLevel) goodput(slo Objectives) {
	good, all := goodTokens(j.Sample, slo)
	complete := int64(len(j.Sample)) == j.Requests.Successful
	switch {
	case j.OutputTPS == nil || j.Requests.Successful == 0:
	case len(slo) == 0:
		j.Goodput, j.GoodputFrom = j.OutputTPS, FromThroughput
	case j.AttainedTPS != nil && slo.asReported(j.Own):
		j.Goodput, j.GoodputFrom = j.AttainedTPS, FromReport
	case slo.asReported(nil):
	case all > 0 && (complete || len(j.Sample) >= minSample):
		v := *j.OutputTPS * good / all
		j.Goodput, j.GoodputFrom = &v, FromSample
		if complete {
			j.GoodputFrom = FromRequests
		}
	case j.AttainedTPS != nil && len(j.Own) == 0:
		j.Goodput, j.GoodputFrom = j.AttainedTPS, FromReportUnknown
	case j.MeetsSLO:
		j.Goodput, j.GoodputFrom = j.OutputTPS, FromThroughput
	}
}

// asReported says whether the objectives are those that the report itself was
// made with: none but an attainment of them, or the same limits.
func (o Objectives) asReported(own map[Metric]float64) bool {
	limits := 0
	for _, one := range o {
		if one.Metric == Attainment {
			continue
		}
		limits++
		if limit, ok := own[one.Metric]; !ok || limit != one.Limit {
			return false
		}
	}
	return len(o) > 0 && (limits == 0 || limits == len(own))
}

// goodTokens adds the output tokens of requests that are within every limit, and
// of all whose times are known.
func goodTokens(sample []Request, slo Objectives) (good, all float64) {
	for i := range sample {
		met, known := sample[i].meets(slo)
		if !known || math.IsNaN(sample[i].OutputTokens) {
			continue
		}
		all += sample[i].OutputTokens
		if met {
			good += sample[i].OutputTokens
		}
	}
	return good, all
}

func (r *Request) meets(slo Objectives) (met, known bool) {
	met = true
	for _, o := range slo {
		if o.Metric == Attainment {
			continue
		}
		v := r.value(o.Metric)
		if math.IsNaN(v) {
			return false, false
		}
		met = met && o.held(v)
	}
	return met, true
}

func (r *Request) value(m Metric) float64 {
	switch m {
	case TTFT:
		return r.TTFT
	case ITL:
		return r.ITL
	case TPOT:
		return r.TPOT
	case E2E:
		return r.E2E
	case Attainment:
	}
	return math.NaN()
}
