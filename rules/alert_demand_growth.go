package rules

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

const demandGrowthName = "DemandGrowth"

func init() {
	alert(Alerting{
		Name:     demandGrowthName,
		Help:     "The demand on a pool grows by over 5% a week: its daily tokens, or the daily peak of its prefill occupancy or of how fast its cache turns over. Judged once a week.",
		Severity: SeverityInfo,
		Settings: []Setting{
			{Name: "slope", Default: 0.05, Positive: true, Help: "growth per week that fires, as the logarithm of the ratio"},
			{Name: "rising", Default: 0.85, Positive: true, Help: "share of the pairs of days of one weekday that must rise"},
			{Name: "days", Default: 21.0, Positive: true, Help: "whole days that are needed; 28 are kept"},
		},
		Pool: func(s *settings) detector[PoolWindow] {
			return &demandDetector{settings: s, demandKeeper: demandKeeper{demandDays: demandDays{scale: s.timeScale}}}
		},
	})
}

// demandDetector is D8.
type demandDetector struct {
	*settings
	demandKeeper
}

// demandKeeper is what survives a restart.
type demandKeeper struct {
	demandDays
	finding *demandFinding
}

// demandFinding is what the last week that ended has shown.
type demandFinding struct {
	// At is when it was judged, in Unix milliseconds.
	At int64 `json:"at"`
	// Series are those that could be judged.
	Series []demandGrowth `json:"series"`
	// Headroom is what was left at the days' peaks then; 0 is unknown.
	Headroom float64 `json:"headroom,omitempty"`
	// Told says that its alert fired: it does so once.
	Told bool `json:"told,omitempty"`
}

// key is the series' name for machines.
func (g demandGrowth) key() string {
	switch g.Name {
	case demandTokens:
		return "tokens"
	case demandOccupancy:
		return "occupancy"
	default:
		return "turnover"
	}
}

// The series of D8, as they are told.
const (
	demandTokens    = "tokens per day"
	demandOccupancy = "peak prefill occupancy"
	demandPressure  = "peak cache turnover (1/residency)"
)

// Judge implements detector.
func (d *demandDetector) Judge(w PoolWindow, firing time.Time) Verdict {
	if w.Fresh() == 0 {
		return unknown(reasonNobodyRead)
	}
	if d.tick(w) {
		d.finding = d.find(w.ms)
	}
	v := Verdict{Phase: PhaseLearning, Text: fmt.Sprintf("learning, %d of %g whole days", len(d.Days), d.number("days"))}
	if d.finding == nil {
		if len(d.Days) >= int(d.number("days")) {
			v.Phase, v.Text = PhaseWatching, fmt.Sprintf("%s; judged at the next midnight from Sunday to Monday", plural(len(d.Days), "whole day"))
		}
		return v
	}
	v.Phase, v.Text = PhaseWatching, "growth per week: "+d.text(d.finding.Series)
	v.Value, v.Numbers = d.numbers()
	over := d.grown(d.finding.Series)
	if d.finding.Told && firing.IsZero() || len(over) == 0 { // told already, and ended for want of data
		v.Over = fmt.Sprintf("Pool %s: the demand no longer grows by more than %s a week: %s", w.pool.name, percent(math.Expm1(d.number("slope"))), v.Text)
		return v
	}
	d.finding.Told = !firing.IsZero()
	v.Active, v.Since = true, time.UnixMilli(d.finding.At).UTC()
	d.tell(w, &v, over)
	return v
}

// numbers are the growth of each series per week, the steepest first.
func (d *demandDetector) numbers() (steepest float64, ns []Number) {
	const unit = "ratio/week"
	steepest = d.finding.Series[0].Slope
	for _, g := range d.finding.Series {
		steepest = max(steepest, g.Slope)
		ns = append(ns, Number{Name: "growth_" + g.key(), Value: math.Expm1(g.Slope), Unit: unit})
	}
	head := []Number{{Name: "growth", Value: math.Expm1(steepest), Unit: unit}, {Name: "threshold", Value: math.Expm1(d.number("slope")), Unit: unit}}
	return steepest, append(head, ns...)
}

// find judges the whole days; nil where they are too few.
func (d *demandDetector) find(at int64) *demandFinding {
	f := &demandFinding{At: at, Headroom: d.headroom()}
	for _, s := range []struct {
		name string
		of   func(demandDay) float64
	}{
		{demandTokens, func(day demandDay) float64 { return day.Tokens }},
		{demandOccupancy, func(day demandDay) float64 { return day.Occupancy }},
		{demandPressure, func(day demandDay) float64 { return day.Pressure }},
	} {
		if g, ok := d.growth(s.name, int(d.number("days")), s.of); ok {
			f.Series = append(f.Series, g)
		}
	}
	if len(f.Series) == 0 {
		return nil
	}
	return f
}

// grown are the series that grow enough to be told.
func (d *demandDetector) grown(series []demandGrowth) []demandGrowth {
	var over []demandGrowth
	for _, g := range series {
		if g.Slope > d.number("slope") && g.Rising >= d.number("rising") {
			over = append(over, g)
		}
	}
	return over
}

// text lists the growth of each series.
func (d *demandDetector) text(series []demandGrowth) string {
	parts := make([]string, 0, len(series))
	for _, g := range series {
		parts = append(parts, fmt.Sprintf("%s %+.0f%%", g.Name, 100*math.Expm1(g.Slope)))
	}
	return strings.Join(parts, ", ")
}

func (d *demandDetector) tell(w PoolWindow, v *Verdict, over []demandGrowth) {
	v.Summary = fmt.Sprintf("Pool %s: the demand grows, per week: %s", w.pool.name, d.text(over))
	var seen []string
	steepest := over[0]
	for _, g := range over {
		seen = append(seen, fmt.Sprintf("%s: %+.1f%% a week over %s (%.3g on the first, %.3g on the last); %s of %d pairs of days of the same weekday rise.",
			strings.ToUpper(g.Name[:1])+g.Name[1:], 100*math.Expm1(g.Slope), plural(g.Days, "whole day"), g.First, g.Last, percent(g.Rising), g.Pairs))
		if g.Slope > steepest.Slope {
			steepest = g
		}
	}
	v.Evidence = Evidence{
		Seen: strings.Join(seen, " "),
		Against: fmt.Sprintf("Fires when at least %s of the pairs rise and their median slope is over %s a week, of at least %g whole days; judged at local midnight from Sunday to Monday (%s).",
			percent(d.number("rising")), percent(math.Expm1(d.number("slope"))), d.number("days"), v.Since.In(w.now.Location()).Format("2 Jan")),
		CauseText:  demandCause(over) + " " + d.horizon(steepest),
		Next:       "No need to hurry. Plan the next engine for this pool, and look at what grows: sessions, turns of a session or the size of prompts.",
		Confidence: demandConfidence(steepest), Numbers: v.Numbers,
	}
}

// leastHeadroom is the headroom at which LoadHeadroomLow speaks.
const leastHeadroom = 1.2

// horizon says when the headroom is gone at this pace: ln(headroom/1.2) / slope weeks.
func (d *demandDetector) horizon(g demandGrowth) string {
	left := d.finding.Headroom
	switch {
	case left <= 0:
		return "When the headroom is gone is not known: it could not be predicted within the last week."
	case left <= leastHeadroom:
		return fmt.Sprintf("The headroom at the peak of the day is %.2f already.", left)
	default:
		return fmt.Sprintf("At this pace (%s) the headroom at the peak of the day, %.2f, falls to %g in %.1f weeks.",
			g.Name, left, leastHeadroom, math.Log(left/leastHeadroom)/g.Slope)
	}
}

// demandCause reads what grows together.
func demandCause(over []demandGrowth) string {
	has := map[string]bool{}
	for _, g := range over {
		has[g.Name] = true
	}
	switch {
	case has[demandTokens]:
		return "More is asked for: more sessions, more calls of each or longer prompts."
	case has[demandPressure]:
		return "The tokens asked for do not grow, but the cache turns over faster at the peak of the day: larger contexts, more live sessions at once or fewer hits."
	default:
		return "The tokens asked for do not grow, but prefill is busier at the peak of the day: fewer hits, or a sharper peak."
	}
}

func demandConfidence(g demandGrowth) string {
	word := "medium"
	if g.Days >= demandKept-1 && g.Rising > 0.95 {
		word = "high"
	}
	return fmt.Sprintf("%s: %s, %d pairs", word, plural(g.Days, "whole day"), g.Pairs)
}

type savedDemand struct {
	demandState
	Finding *demandFinding `json:"finding,omitempty"`
}

func (k *demandKeeper) save() (json.RawMessage, error) {
	return json.Marshal(savedDemand{k.demandState, k.finding})
}

func (k *demandKeeper) load(raw json.RawMessage) error {
	var s savedDemand
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	k.demandState, k.finding = s.demandState, s.Finding
	return nil
}
