// Package review is the capacity review of a recorded period: what was asked of
// each pool, what its cache, memory and queue did, what fired and what it cost,
// how plans hold, and how far the period can be trusted. It computes from what
// rules measured and told, and writes JSON, Markdown and a page.
package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"kvwatch/rules/sizing"
)

// Input is what a review is made from.
type Input struct {
	From, To time.Time
	// Source is where the period was read from, in words.
	Source string
	// Slots of each pool, in order of time.
	Slots map[string][]sizing.Slot
	// Incidents are the alerts that the rules told, in order of time.
	Incidents []Incident
	// MeasureLead finds each incident's time to the next queue from the slots; else it
	// is what they have.
	MeasureLead bool
	// Plans are those of the pools, worked out again.
	Plans []*sizing.Live
	// Journal is what operators told and kvwatch recommended, in order of time.
	Journal []Event
	// Notes say what is wrong with the record; Learning what rules could not judge yet.
	Notes, Learning []string
}

// Review is what `kvwatch review --output=json` prints.
type Review struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Source string    `json:"source"`
	// Summary is the review in a few sentences.
	Summary []string `json:"summary"`
	Pools   []Pool   `json:"pools"`
	// Episodes are what people would call incidents, Incidents the single alerts.
	Episodes  []Episode  `json:"episodes"`
	Incidents []Incident `json:"incidents"`
	// Plans against what was measured, each with its assumptions, costs and knee.
	Plans []*sizing.Live `json:"plans"`
	// Journal is what operators told, what kvwatch recommended, and what came of it.
	Journal []Event `json:"journal"`
	Data    Data    `json:"data"`
}

// Event is an entry of the journal.
type Event struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Pool string    `json:"pool,omitempty"`
	Text string    `json:"text,omitempty"`
}

// Incident is one alert that the rules told.
type Incident struct {
	Alert    string    `json:"alertname"`
	Severity string    `json:"severity"`
	Pool     string    `json:"pool,omitempty"`
	About    string    `json:"about"`
	ActiveAt time.Time `json:"active_at"`
	FiredAt  time.Time `json:"fired_at"`
	// ResolvedAt is null where it was not over at the end.
	ResolvedAt *time.Time `json:"resolved_at" jsonschema:"oneof_type=string;null"`
	Cause      string     `json:"cause,omitempty"`
	// LeadSeconds is the time to the next sustained queue in the same pool, null
	// where none came.
	LeadSeconds *float64 `json:"lead_seconds" jsonschema:"oneof_type=number;null"`
	Summary     string   `json:"summary"`
	// Cost is what the alert itself said that it costs.
	Cost string `json:"cost,omitempty"`
	// ExcessTokens are prompt tokens computed beyond the pool's usual share from
	// onset to end, where the alert is about the cache; null where it is not.
	ExcessTokens *float64 `json:"excess_prompt_tokens" jsonschema:"oneof_type=number;null"`
}

// Data is how far the period can be trusted.
type Data struct {
	// Covered is the share of the period in which at least one engine of a pool was
	// read, by pool.
	Covered map[string]float64 `json:"covered_ratio"`
	// Gaps without any scrape, targets that were not read, and the like.
	Notes []string `json:"notes"`
	// Learning are detectors that could not judge yet at the end.
	Learning []string `json:"learning"`
	// Unknown is what could not be measured, with the reason.
	Unknown []string `json:"unknown"`
}

// Pool is what was seen of one pool.
type Pool struct {
	Pool string `json:"pool"`
	// Engines is the most that were read at once.
	Engines int `json:"engines"`
	// Totals of the period; prompt tokens and those of them that were computed are
	// null where engines do not tell both.
	Requests       float64  `json:"requests"`
	OutputTokens   float64  `json:"output_tokens"`
	PromptTokens   *float64 `json:"prompt_tokens" jsonschema:"oneof_type=number;null"`
	ComputedTokens *float64 `json:"computed_prompt_tokens" jsonschema:"oneof_type=number;null"`
	// IdleRatio is the share of the engines' time in which none of their requests ran.
	IdleRatio *float64 `json:"idle_ratio" jsonschema:"oneof_type=number;null"`
	// TTFTP95 and ITLP95 are over all calls and tokens, in seconds; null where the
	// buckets do not tell.
	TTFTP95 *float64 `json:"ttft_p95_seconds" jsonschema:"oneof_type=number;null"`
	ITLP95  *float64 `json:"itl_p95_seconds" jsonschema:"oneof_type=number;null"`
	// WaitMean is how long a request waited for its engine, in seconds.
	WaitMean *float64 `json:"wait_mean_seconds" jsonschema:"oneof_type=number;null"`
	// OverheadP95 is the gateway's own time on a call, in seconds.
	OverheadP95 *float64 `json:"gateway_overhead_p95_seconds" jsonschema:"oneof_type=number;null"`
	// Peaks are the greatest five minutes of each measure that was seen.
	Peaks []Peak `json:"peaks"`
	// UsualMiss is the usual share of prompt tokens that were computed: the median of
	// the slots by prompt tokens; null without any.
	UsualMiss *float64 `json:"usual_miss_ratio" jsonschema:"oneof_type=number;null"`
	// Regimes are the stretches in which the cache did as usual or worse.
	Regimes []Regime `json:"cache_regimes"`
	// Excess is the prompt tokens that were computed beyond the usual in all regimes
	// that were worse.
	Excess float64 `json:"excess_prompt_tokens"`
	Days   []Day   `json:"days"`
	// Series are what the charts draw.
	Series []Series `json:"series"`
}

// Peak is the greatest mean over five minutes.
type Peak struct {
	Name  string    `json:"name"`
	Value float64   `json:"value"`
	Unit  string    `json:"unit"`
	At    time.Time `json:"at"`
}

// Day is one day in UTC.
type Day struct {
	Day      string  `json:"day"`
	Requests float64 `json:"requests"`
	// PeakRate is requests per second in the greatest five minutes.
	PeakRate     float64  `json:"peak_requests_per_second"`
	OutputTokens float64  `json:"output_tokens"`
	HitRatio     *float64 `json:"hit_ratio" jsonschema:"oneof_type=number;null"`
	PeakKV       *float64 `json:"peak_kv_usage_ratio" jsonschema:"oneof_type=number;null"`
	PeakWaiting  *float64 `json:"peak_waiting" jsonschema:"oneof_type=number;null"`
	TTFTP95      *float64 `json:"ttft_p95_seconds" jsonschema:"oneof_type=number;null"`
	// Incidents is how many episodes about this pool began on that day.
	Incidents int `json:"incidents"`
}

// New makes a review.
func New(in Input) *Review {
	r := &Review{
		From: in.From.UTC(), To: in.To.UTC(), Source: in.Source, Pools: []Pool{}, Incidents: append([]Incident{}, in.Incidents...),
		Plans: append([]*sizing.Live{}, in.Plans...), Journal: append([]Event{}, in.Journal...),
		Data: Data{Covered: map[string]float64{}, Notes: append([]string{}, in.Notes...), Learning: append([]string{}, in.Learning...), Unknown: []string{}},
	}
	held := map[string][]sizing.Slot{}
	for _, name := range sortedNames(in.Slots) {
		slots := between(in.Slots[name], in.From, in.To)
		if len(slots) == 0 {
			continue
		}
		p := newPool(name, slots)
		if last := len(p.Regimes) - 1; last >= 0 && p.Regimes[last].To.After(r.To) {
			p.Regimes[last].To = r.To
		}
		r.Pools = append(r.Pools, p)
		r.Data.Covered[name] = min(float64(len(slots))*sizing.SlotLength.Seconds()/max(in.To.Sub(in.From), sizing.SlotLength).Seconds(), 1)
		r.Data.Unknown = append(r.Data.Unknown, p.unknown()...)
		for i := range r.Incidents {
			r.Incidents[i].addExcess(&p, slots)
			if in.MeasureLead {
				r.Incidents[i].measureLead(name, slots)
			}
		}
		held[name] = slots
	}
	r.Episodes = newEpisodes(r.Incidents, r.To)
	for i := range r.Pools {
		p := &r.Pools[i]
		for k := range r.Episodes {
			r.Episodes[k].addExcess(p, held[p.Pool])
		}
		r.countIncidents(p)
	}
	r.Summary = r.summary()
	return r
}

func sortedNames(slots map[string][]sizing.Slot) []string {
	var names []string
	for name := range slots {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// between leaves the slots that begin in the period, or hold its beginning.
func between(all []sizing.Slot, from, to time.Time) []sizing.Slot {
	first := from.Add(-sizing.SlotLength)
	return slices.DeleteFunc(slices.Clone(all), func(s sizing.Slot) bool { return !s.Start.After(first) || !s.Start.Before(to) })
}

// countIncidents fills in how many began on each day.
func (r *Review) countIncidents(p *Pool) {
	for i := range p.Days {
		for _, e := range r.Episodes {
			if e.Pool == p.Pool && e.From.UTC().Format(time.DateOnly) == p.Days[i].Day {
				p.Days[i].Incidents++
			}
		}
	}
}

// summary is the review in a few sentences, of what somebody forwards.
func (r *Review) summary() []string {
	var all []string
	for i := range r.Pools {
		all = append(all, r.Pools[i].sentence())
	}
	all = append(all, r.incidentSentence())
	for _, l := range r.Plans {
		all = append(all, planSentence(l))
	}
	if n := len(r.Data.Notes); n > 0 {
		all = append(all, fmt.Sprintf("The record has %s to know of: see the end.", plural(n, "gap or fault", "gaps or faults")))
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

func (p *Pool) sentence() string {
	text := fmt.Sprintf("%s: %s requests on up to %s", p.Pool, number(p.Requests), plural(p.Engines, "engine", "engines"))
	if peak, ok := p.peak(peakRate); ok {
		text += fmt.Sprintf(", at most %s a second (%s)", number(peak.Value), moment(peak.At))
	}
	if p.UsualMiss != nil {
		text += fmt.Sprintf(". The cache usually served %s of the prompt tokens", share(1-*p.UsualMiss))
		if p.Excess > 0 {
			text += fmt.Sprintf("; %s were computed beyond that, %s of all that were computed", number(p.Excess), share(p.Excess/max(*p.ComputedTokens, 1)))
		}
	}
	if kv, ok := p.peak(peakKV); ok {
		text += fmt.Sprintf(". KV memory was at most %s full", share(kv.Value))
	}
	if waiting, ok := p.peak(peakWaiting); ok && waiting.Value >= 1 {
		text += fmt.Sprintf("; up to %s requests waited (%s)", number(waiting.Value), moment(waiting.At))
	} else if ok {
		text += "; nothing queued"
	}
	return text + "."
}

func (r *Review) incidentSentence() string {
	if len(r.Incidents) == 0 {
		return "No alert fired."
	}
	text := r.alertSentence()
	if len(r.Episodes) == 0 {
		return "No incident; " + text
	}
	worst := slices.MaxFunc(r.Episodes, func(a, b Episode) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(value(a.ExcessTokens), value(b.ExcessTokens)), b.From.Compare(a.From))
	})
	critical := 0
	for _, e := range r.Episodes {
		if e.Severity == "critical" {
			critical++
		}
	}
	all := plural(len(r.Episodes), "incident", "incidents")
	if critical > 0 && len(r.Episodes) > 1 {
		all += fmt.Sprintf(", %d of them critical", critical)
	}
	about := fmt.Sprintf("%s, %s: %s", moment(worst.From), worst.lasted(), worst.what())
	if worst.Cause != "" {
		about += "; the cause is told as " + worst.Cause
	}
	if len(r.Episodes) == 1 {
		return fmt.Sprintf("%s (%s). In all, %s", all, about, text)
	}
	return fmt.Sprintf("%s; the worst: %s. In all, %s", all, about, text)
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// shownNames is how many names of alerts a sentence has.
const shownNames = 4

// alertSentence counts the single alerts.
func (r *Review) alertSentence() string {
	byName := map[string]int{}
	open := 0
	for _, i := range r.Incidents {
		byName[i.Alert]++
		if i.ResolvedAt == nil {
			open++
		}
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(byName[b]-byName[a], cmp.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", byName[name], name)
	}
	if more := len(names) - shownNames; more > 1 {
		names = append(names[:shownNames], fmt.Sprintf("and %d other kinds", more))
	}
	text := fmt.Sprintf("%s fired: %s", plural(len(r.Incidents), "alert", "alerts"), strings.Join(names, ", "))
	if open > 0 {
		text += fmt.Sprintf("; %d not over at the end", open)
	}
	return text + "."
}

func planSentence(l *sizing.Live) string {
	var drifted []string
	holds, unknown := 0, 0
	for _, a := range l.Assumptions {
		switch a.Verdict {
		case sizing.Drifted:
			drifted = append(drifted, driftText(a))
		case sizing.Holds:
			holds++
		default:
			unknown++
		}
	}
	parts := []string{fmt.Sprintf("Plan %s: %s, %d drifted, %d cannot be told", l.Plan, plural(holds, "assumption holds", "assumptions hold"), len(drifted), unknown)}
	if len(drifted) > 0 {
		text := "above all " + strings.Join(drifted[:min(len(drifted), 3)], ", ")
		if len(drifted) <= 3 {
			text = strings.Join(drifted, ", ")
		}
		parts[0] += " (" + text + ")"
	}
	var needs []string
	for _, c := range l.Drift {
		text := fmt.Sprintf("%s %s (reckoned %s", number(c.To), resourceName(c.Resource), number(c.From))
		if has, ok := l.Planned[c.Resource]; ok {
			text += ", has " + number(has)
		}
		needs = append(needs, text+")")
	}
	if len(needs) > 0 {
		parts = append(parts, "it needs "+strings.Join(needs, ", "))
	}
	if l.Costs != nil {
		if total, ok := l.Costs.PerMillion[sizing.BasisTotal]; ok {
			parts = append(parts, fmt.Sprintf("a million output tokens within the SLO cost %s %s", price(total), l.Costs.Currency))
		}
	}
	return strings.Join(parts, "; ") + "."
}
