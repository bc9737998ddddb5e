package review

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kvwatch/rules/sizing"
)

// maxRegimes is how many stretches of a bad cache are listed: those that cost most.
const maxRegimes = 12

// section is one part of the review, as Markdown and HTML both show it.
type section struct {
	Title  string
	Text   []string
	Items  []string
	Charts []chart
	// ChartText says what the charts' points are.
	ChartText string
	Tables    []table
}

// table has a caption, a head and rows of as many cells.
type table struct {
	Caption string
	Head    []string
	Rows    [][]string
	// Folded is a table that the page shows when it is asked for.
	Folded bool
}

// sections are the review in the order in which one reads it.
func (r *Review) sections() []section {
	all := []section{{Title: "In short", Items: r.Summary}}
	for i := range r.Pools {
		all = append(all, r.poolSection(&r.Pools[i]))
	}
	all = append(all, r.incidentSection())
	if len(r.Journal) > 0 {
		all = append(all, r.journalSection())
	}
	for _, l := range r.Plans {
		all = append(all, planSection(l))
	}
	if len(r.Plans) == 0 {
		all = append(all, section{Title: "Plans", Text: []string{"No plan was named, so there is nothing to hold the period against, and no price: --plan, or plans in the configuration."}})
	}
	return append(all, r.dataSection())
}

func (r *Review) poolSection(p *Pool) section {
	s := section{Title: "Pool " + p.Pool, Charts: r.charts(p)}
	s.ChartText = fmt.Sprintf("Means of %s, so peaks are higher. Shaded: incidents of the pool, red where critical, amber where a warning.", length(pointLength(r.To.Sub(r.From))))
	facts := table{Head: []string{"what", "over the period"}}
	add := func(what, value string) { facts.Rows = append(facts.Rows, []string{what, value}) }
	add("requests", number(p.Requests))
	add("output tokens", number(p.OutputTokens))
	if p.PromptTokens != nil {
		add("prompt tokens", fmt.Sprintf("%s, of which %s were computed (cache hits %s)", number(*p.PromptTokens), number(*p.ComputedTokens), share(1 - *p.ComputedTokens / *p.PromptTokens)))
		add("computed beyond the usual", number(p.Excess))
	}
	add("time to first token, P95", timeCell(p.TTFTP95))
	add("time between tokens, P95", timeCell(p.ITLP95))
	add("wait for the engine, mean", timeCell(p.WaitMean))
	add("gateway's own time, P95", timeCell(p.OverheadP95))
	if p.IdleRatio != nil {
		add("engines without a request", share(*p.IdleRatio)+" of their time")
	}
	peaks := table{Caption: "Peaks, means of five minutes", Head: []string{"what", "most", "when (UTC)"}}
	for _, k := range p.Peaks {
		value := number(k.Value)
		switch k.Unit {
		case "ratio":
			value = share(k.Value)
		case "per second":
			value += " a second"
		}
		peaks.Rows = append(peaks.Rows, []string{k.Name, value, moment(k.At)})
	}
	s.Tables = append(s.Tables, facts, peaks)
	if len(p.Days) > 1 {
		s.Tables = append(s.Tables, dayTable(p.Days))
	}
	if worse := regimeTable(p.Regimes); len(worse.Rows) > 0 {
		s.Tables = append(s.Tables, worse)
	} else if p.UsualMiss != nil {
		s.Text = append(s.Text, "The cache did as usual all the time.")
	}
	return s
}

func dayTable(days []Day) table {
	t := table{Caption: "Days (UTC)", Head: []string{"day", "requests", "most a second", "output tokens", "cache hits", "KV at most", "waiting at most", "TTFT P95", "incidents"}}
	for _, d := range days {
		t.Rows = append(t.Rows, []string{
			d.Day, number(d.Requests), number(d.PeakRate), number(d.OutputTokens), shareCell(d.HitRatio), shareCell(d.PeakKV), numberCell(d.PeakWaiting), timeCell(d.TTFTP95), fmt.Sprint(d.Incidents),
		})
	}
	return t
}

func regimeTable(all []Regime) table {
	worse := slices.DeleteFunc(slices.Clone(all), func(r Regime) bool { return !r.Worse })
	slices.SortStableFunc(worse, func(a, b Regime) int {
		switch {
		case a.Excess > b.Excess:
			return -1
		case a.Excess < b.Excess:
			return 1
		}
		return 0
	})
	t := table{Caption: "When the cache did worse than usual, the dearest first", Head: []string{"from (UTC)", "to", "cache hits", "prompt tokens", "computed beyond the usual"}}
	if len(worse) > maxRegimes {
		t.Caption += fmt.Sprintf("; %d of %d", maxRegimes, len(worse))
		worse = worse[:maxRegimes]
	}
	for _, r := range worse {
		t.Rows = append(t.Rows, []string{moment(r.From), moment(r.To), share(r.HitRatio), number(r.PromptTokens), number(r.Excess)})
	}
	return t
}

func (r *Review) incidentSection() section {
	s := section{Title: "Incidents"}
	if len(r.Incidents) == 0 {
		s.Text = []string{"No alert fired."}
		return s
	}
	s.Text = []string{"Alerts about the same that follow each other within half an hour are one incident; those for information make none. Tokens beyond the usual were computed because the cache did not have them, each counted once. A queue is told from the incident's first alert on."}
	if len(r.Episodes) > 0 {
		s.Tables = append(s.Tables, episodeTable(r.Episodes, len(r.Pools)))
	} else {
		s.Text = append(s.Text, "None: all alerts were for information.")
	}
	s.Tables = append(s.Tables, r.nameTable(), r.alertTable())
	return s
}

// nameTable says how often each alert fired.
func (r *Review) nameTable() table {
	t := table{Caption: "Alerts by name", Head: []string{"alert", "severity", "fired", "in all"}}
	for _, n := range r.fired() {
		t.Rows = append(t.Rows, []string{n.name, n.severity, plural(n.times, "time", "times"), length(n.lasted)})
	}
	return t
}

// alertTable lists every alert.
func (r *Review) alertTable() table {
	t := table{
		Caption: fmt.Sprintf("Every alert (%d)", len(r.Incidents)), Folded: true,
		Head: []string{"fired (UTC)", "alert", "about", "lasted", "before the queue", "cause", "prompt tokens beyond the usual", "what it said"},
	}
	for _, i := range r.Incidents {
		lasted, lead, cost := "not over at the end", "no queue within a day", ""
		if i.ResolvedAt != nil {
			lasted = length(i.ResolvedAt.Sub(i.FiredAt))
		}
		if i.LeadSeconds != nil && *i.LeadSeconds <= leadWithin.Seconds() {
			lead = length(time.Duration(*i.LeadSeconds * float64(time.Second)))
		}
		if i.ExcessTokens != nil {
			cost = number(*i.ExcessTokens)
		}
		t.Rows = append(t.Rows, []string{moment(i.FiredAt), i.Alert + " (" + i.Severity + ")", i.About, lasted, lead, i.Cause, cost, i.Summary})
	}
	return t
}

func planSection(l *sizing.Live) section {
	s := section{Title: "Plan " + l.Plan + " against pool " + l.Pool}
	t := table{Caption: fmt.Sprintf("Assumptions, by %d hours that pages cover", l.Hours), Head: []string{"assumption", "planned", "measured", "verdict", "why"}}
	order := []string{sizing.Drifted, sizing.Holds, sizing.CannotTell}
	sorted := slices.SortedStableFunc(slices.Values(l.Assumptions), func(a, b sizing.Judged) int {
		return slices.Index(order, a.Verdict) - slices.Index(order, b.Verdict)
	})
	for _, a := range sorted {
		live := "unknown"
		if a.Live != nil {
			live = number(*a.Live)
			if a.Low != nil && a.High != nil && number(*a.Low) != number(*a.High) {
				live += fmt.Sprintf(" (%s to %s)", number(*a.Low), number(*a.High))
			}
		}
		t.Rows = append(t.Rows, []string{assumptionName(a.Name), number(a.Planned) + " " + a.Unit, live, a.Verdict, a.Why})
	}
	need := table{Caption: "What the load needs", Head: []string{"resource", "by the plan", "by what was measured", "planned"}}
	of := func(in map[string]float64, resource string) string {
		if v, ok := in[resource]; ok {
			return number(v)
		}
		return "unknown"
	}
	for _, resource := range sizing.Resources() {
		need.Rows = append(need.Rows, []string{resourceName(resource), of(l.Before, resource), of(l.Required, resource), of(l.Planned, resource)})
	}
	beside := table{Caption: "Measured beside the assumptions, at the peaks of the hours", Head: []string{"what", "measured"}}
	for _, v := range l.Seen {
		unit := v.Unit
		if unit == "ratio" {
			unit = ""
		}
		beside.Rows = append(beside.Rows, []string{shortName(v.Name), strings.TrimSpace(number(v.Value) + " " + unit)})
	}
	s.Tables = []table{t, need}
	if len(beside.Rows) > 0 {
		s.Tables = append(s.Tables, beside)
	}
	if l.Knee.Text != "" {
		s.Text = append(s.Text, "Knee: "+l.Knee.Text)
	}
	if l.GrowthText != "" {
		s.Text = append(s.Text, l.GrowthText)
	}
	if l.Costs == nil {
		s.Text = append(s.Text, "Costs: "+l.CostsText)
		return s
	}
	costs := table{
		Caption: fmt.Sprintf("Cost in %s, of %s output tokens within the SLO and %s GPU-hours at %s", l.Costs.Currency, number(l.Costs.Goodput), number(l.Costs.GPUHours), price(l.Costs.PerGPUHour)),
		Head:    []string{"for", "per million tokens", "of the period"},
	}
	for _, basis := range sizing.Bases() {
		if v, ok := l.Costs.PerMillion[basis]; ok {
			costs.Rows = append(costs.Rows, []string{costNames[basis], price(v), fmt.Sprintf("%.0f", v*l.Costs.Goodput/1e6)})
		}
	}
	for _, other := range []struct {
		what  string
		value *float64
	}{{"by the plan", l.Costs.Planned}, {"the same, rented", l.Costs.Cloud}} {
		if other.value != nil {
			costs.Rows = append(costs.Rows, []string{other.what, price(*other.value), ""})
		}
	}
	if l.Costs.Text != "" {
		s.Text = append(s.Text, l.Costs.Text)
	}
	s.Tables = append(s.Tables, costs)
	return s
}

// costNames are the bases of a cost in words.
var costNames = map[string]string{ //nolint:gochecknoglobals // a table, never written.
	sizing.BasisTotal: "all of it", sizing.BasisPrefillNew: "prompts that were new", sizing.BasisPrefillRepeated: "prompts computed again",
	sizing.BasisDecode: "output", sizing.BasisIdle: "engines without a request",
}

// price spells money.
func price(v float64) string {
	if v != 0 && v < 0.1 {
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// journalSection is what people told and kvwatch recommended.
func (r *Review) journalSection() section {
	t := table{Head: []string{"at (UTC)", "what", "pool", "text"}}
	for _, e := range r.Journal {
		pool := e.Pool
		if pool == "" {
			pool = "all"
		}
		t.Rows = append(t.Rows, []string{moment(e.At), e.Kind, pool, e.Text})
	}
	return section{Title: "Marks and recommendations", Tables: []table{t}}
}

func (r *Review) dataSection() section {
	s := section{Title: "How far to trust it", Text: []string{"Read from " + r.Source + "."}}
	for _, name := range sortedKeys(r.Data.Covered) {
		s.Items = append(s.Items, fmt.Sprintf("%s was read in %s of the period.", name, share(r.Data.Covered[name])))
	}
	for _, group := range []struct {
		what  string
		lines []string
	}{{"", r.Data.Notes}, {"Not measured: ", r.Data.Unknown}, {"Still learning: ", r.Data.Learning}} {
		for _, line := range group.lines {
			s.Items = append(s.Items, group.what+line)
		}
	}
	return s
}

func sortedKeys(m map[string]float64) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func timeCell(s *float64) string {
	if s == nil {
		return "unknown"
	}
	return seconds(*s)
}

// seconds spells a short time.
func seconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.3g ms", 1000*s)
	}
	return fmt.Sprintf("%.3g s", s)
}

func shareCell(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return share(*v)
}

func numberCell(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return number(*v)
}

// length spells how long something was, in the two units that suit it.
func length(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	case d >= time.Hour && d%time.Hour >= time.Minute:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	case d >= time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	default:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
}
