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
	Tables []table
}

// table has a caption, a head and rows of as many cells.
type table struct {
	Caption string
	Head    []string
	Rows    [][]string
}

// sections are the review in the order in which one reads it.
func (r *Review) sections() []section {
	all := []section{{Title: "In short", Items: r.Summary}}
	for i := range r.Pools {
		all = append(all, r.poolSection(&r.Pools[i]))
	}
	all = append(all, r.incidentSection())
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
	t := table{Caption: "Days (UTC)", Head: []string{"day", "requests", "most a second", "output tokens", "cache hits", "KV at most", "waiting at most", "TTFT P95", "alerts"}}
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
	s.Text = []string{"What the rules told of this period, as they are configured now. Before the queue is the time from the alert to the next sustained queue of the same pool; the cost counts prompt tokens that were computed beyond the usual share, and alerts at the same time share theirs."}
	t := table{Head: []string{"fired (UTC)", "alert", "about", "lasted", "before the queue", "cause", "cost", "what it said"}}
	for _, i := range r.Incidents {
		lasted, lead, cost := "not over at the end", "no queue came", []string{}
		if i.ResolvedAt != nil {
			lasted = length(i.ResolvedAt.Sub(i.FiredAt))
		}
		if i.LeadSeconds != nil {
			lead = length(time.Duration(*i.LeadSeconds * float64(time.Second)))
		}
		if i.ExcessTokens != nil {
			cost = append(cost, number(*i.ExcessTokens)+" prompt tokens")
		}
		if i.Cost != "" {
			cost = append(cost, i.Cost)
		}
		t.Rows = append(t.Rows, []string{moment(i.FiredAt), i.Alert + " (" + i.Severity + ")", i.About, lasted, lead, i.Cause, strings.Join(cost, "; "), i.Summary})
	}
	s.Tables = []table{t}
	return s
}

func planSection(l *sizing.Live) section {
	s := section{Title: "Plan " + l.Plan + " against pool " + l.Pool}
	t := table{Caption: fmt.Sprintf("Assumptions, by %d hours that pages cover", l.Hours), Head: []string{"assumption", "planned", "measured", "verdict", "why"}}
	for _, a := range l.Assumptions {
		live := "unknown"
		if a.Live != nil {
			live = number(*a.Live)
			if a.Low != nil && a.High != nil {
				live += fmt.Sprintf(" (%s to %s)", number(*a.Low), number(*a.High))
			}
		}
		t.Rows = append(t.Rows, []string{a.Name, number(a.Planned) + " " + a.Unit, live, a.Verdict, a.Why})
	}
	need := table{Caption: "What the load needs", Head: []string{"resource", "by the plan", "by what was measured", "planned"}}
	of := func(in map[string]float64, resource string) string {
		if v, ok := in[resource]; ok {
			return number(v)
		}
		return "unknown"
	}
	for _, resource := range sizing.Resources() {
		need.Rows = append(need.Rows, []string{resource, of(l.Before, resource), of(l.Required, resource), of(l.Planned, resource)})
	}
	s.Tables = []table{t, need}
	if l.Knee.Text != "" {
		s.Text = append(s.Text, "Knee: "+l.Knee.Text)
	}
	if l.GrowthText != "" {
		s.Text = append(s.Text, "Growth: "+l.GrowthText)
	}
	if l.Costs == nil {
		s.Text = append(s.Text, "Costs: "+l.CostsText)
		return s
	}
	costs := table{Caption: "Cost of a million output tokens within the SLO, in " + l.Costs.Currency, Head: []string{"for", "cost"}}
	for _, basis := range sizing.Bases() {
		if v, ok := l.Costs.PerMillion[basis]; ok {
			costs.Rows = append(costs.Rows, []string{strings.ReplaceAll(basis, "_", " "), fmt.Sprintf("%.3f", v)})
		}
	}
	if l.Costs.Text != "" {
		s.Text = append(s.Text, l.Costs.Text)
	}
	s.Tables = append(s.Tables, costs)
	return s
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
