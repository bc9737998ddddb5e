package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"kvwatch/rules/sizing"
)

// chartWidth is how many characters the greatest throughput takes.
const chartWidth = 40

// kneeText is the result for people.
func kneeText(c *kneeComparison) string {
	var b strings.Builder
	for i, r := range c.Reports {
		if i > 0 {
			b.WriteString("\n\n")
		}
		r.text(&b)
	}
	if len(c.Reports) > 1 {
		c.text(&b)
	}
	return b.String()
}

func (r *kneeReport) text(b *strings.Builder) {
	fmt.Fprintf(b, "%s (GuideLLM %s", r.File, r.Layout)
	if r.Version != "" {
		fmt.Fprintf(b, ", %s", r.Version)
	}
	b.WriteByte(')')
	if r.Model != "" {
		fmt.Fprintf(b, ", model %s", r.Model)
	}
	fmt.Fprintf(b, "\nSLO: %s\n\n%s\n", r.SLO, r.sentence())
	r.table(b)
	r.chart(b)
	r.money(b)
	if r.Baseline != nil {
		r.Baseline.text(b)
	}
	writeList(b, "To know before believing it", r.Warnings)
}

// sentence is the knee in words.
func (r *kneeReport) sentence() string {
	at := r.at()
	if at == nil {
		return "Knee: none; " + r.Knee.Reason + "."
	}
	least := ""
	if r.openEnded() {
		least = "at least "
	}
	text := fmt.Sprintf("Knee: %slevel %d, %s", least, *r.Knee.Level, at.load())
	if at.Goodput != nil {
		text += fmt.Sprintf(", %s output tokens/s within the SLO", figure(*at.Goodput))
	}
	if r.openEnded() {
		return text + ". Every level holds: the test has to go on with more load."
	}
	return text + ". Then " + r.Knee.Reason + "."
}

// load is what a level offers.
func (l *kneeLevel) load() string {
	switch {
	case l.Rate != nil:
		return figure(*l.Rate) + " req/s"
	case l.Strategy == "throughput":
		return "all at once"
	case l.Concurrency != nil:
		return figure(*l.Concurrency) + " at a time"
	default:
		return l.Strategy
	}
}

func (r *kneeReport) table(b *strings.Builder) {
	table := heading(b, "Levels, by the load that they offered")
	power := slices.ContainsFunc(r.Levels, func(l kneeLevel) bool { return l.PowerWatts != nil })
	head := "  \toffered\tanswered/s\tunder way\tTTFT P95\tP99\tITL P95\tP99\ttokens/s\tgoodput\terrors\t"
	if power {
		head += "W\tJ/token\t"
	}
	fmt.Fprintln(table, head)
	for i := range r.Levels {
		l := &r.Levels[i]
		fmt.Fprintf(table, "  %d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t", i, l.load(), numberCell(l.AchievedRate), numberCell(l.Concurrency),
			timeCell(l.TTFTP95), timeCell(l.TTFTP99), timeCell(l.ITLP95), timeCell(l.ITLP99), numberCell(l.OutputTPS), numberCell(l.Goodput), percentCell(l.ErrorsRatio))
		if power {
			fmt.Fprintf(table, "%s\t%s\t", numberCell(l.PowerWatts), numberCell(l.JoulesPerToken))
		}
		fmt.Fprintf(table, "%s\n", r.mark(i))
	}
	_ = table.Flush()
}

// mark says what becomes of a level.
func (r *kneeReport) mark(i int) string {
	l := &r.Levels[i]
	switch {
	case r.Knee.Level != nil && *r.Knee.Level == i:
		return "<- knee"
	case l.Holds:
		return "holds"
	default:
		return strings.Join(l.Why, ", ")
	}
}

// chart draws throughput by level, and how much of it is within the SLO.
func (r *kneeReport) chart(b *strings.Builder) {
	most := 0.0
	for i := range r.Levels {
		if v := r.Levels[i].OutputTPS; v != nil {
			most = max(most, *v)
		}
	}
	if most == 0 {
		return
	}
	table := heading(b, "Output tokens per second: # within the SLO, + over it, ? unknown")
	for i := range r.Levels {
		l := &r.Levels[i]
		mark := ""
		if r.Knee.Level != nil && *r.Knee.Level == i {
			mark = " <- knee"
		}
		fmt.Fprintf(table, "  %s\t|%s%s\n", l.load(), l.bar(most), mark)
	}
	_ = table.Flush()
}

func (l *kneeLevel) bar(most float64) string {
	if l.OutputTPS == nil {
		return " not measured"
	}
	chars := func(v float64) int { return int(math.Round(chartWidth * v / most)) }
	all := chars(*l.OutputTPS)
	if l.Goodput == nil {
		return strings.Repeat("?", all)
	}
	good := min(chars(*l.Goodput), all)
	return strings.Repeat("#", good) + strings.Repeat("+", all-good)
}

// money says what the knee means in replicas and prices.
func (r *kneeReport) money(b *strings.Builder) {
	s := r.Sizing
	if s == nil {
		return
	}
	bound := ""
	if r.openEnded() {
		bound = "at most "
	}
	var lines []string
	if s.Replicas > 0 {
		var demand []string
		if s.DemandTPS > 0 {
			demand = append(demand, figure(s.DemandTPS)+" output tokens/s")
		}
		if s.DemandRPS > 0 {
			demand = append(demand, figure(s.DemandRPS)+" req/s")
		}
		lines = append(lines, fmt.Sprintf("%s take %s%s replicas, each at its knee; none is spare.", strings.Join(demand, " and "), bound, figure(s.Replicas)))
	}
	if s.CostPerMillion > 0 {
		lines = append(lines, fmt.Sprintf("A million output tokens within the SLO cost %s%.3f %s at %.4g %s an hour and replica.", bound, s.CostPerMillion, s.Currency, s.PricePerHour, s.Currency))
	}
	if s.CostPerHour > 0 {
		lines = append(lines, fmt.Sprintf("All replicas cost %s%.4g %s an hour.", bound, s.CostPerHour, s.Currency))
	}
	writeList(b, "What it means", lines)
}

func (k *kneeBaseline) text(b *strings.Builder) {
	verdict := "no regression"
	if k.Regression {
		verdict = "REGRESSION"
	}
	lines := []string{
		fmt.Sprintf("goodput at the knee: %s there, change %s", numberCell(k.Goodput), percentCell(k.GoodputChange)),
		fmt.Sprintf("load at the knee: %s req/s there, change %s", numberCell(k.AchievedRate), percentCell(k.RateChange)),
	}
	writeList(b, fmt.Sprintf("Against %s: %s", k.File, verdict), append(lines, k.Why...))
}

// text compares several reports, the best first.
func (c *kneeComparison) text(b *strings.Builder) {
	b.WriteByte('\n')
	table := heading(b, "Compared, the greatest goodput first")
	fmt.Fprintln(table, "  report\tknee\tgoodput\tTTFT P95\tITL P95\tJ/token\treplicas\tcost per million\tSLO")
	sorted := slices.Clone(c.Reports)
	slices.SortStableFunc(sorted, func(x, y *kneeReport) int {
		return -int(math.Copysign(1, orNone(x.Knee.Goodput)-orNone(y.Knee.Goodput)))
	})
	for _, r := range sorted {
		at, s := r.at(), r.Sizing
		if at == nil {
			fmt.Fprintf(table, "  %s\tnone\t-\t-\t-\t-\t-\t-\t%s\n", r.File, r.SLO)
			continue
		}
		least := ""
		if r.openEnded() {
			least = "at least "
		}
		replicas, cost := "-", "-"
		if s != nil && s.Replicas > 0 {
			replicas = figure(s.Replicas)
		}
		if s != nil && s.CostPerMillion > 0 {
			cost = fmt.Sprintf("%.3f %s", s.CostPerMillion, s.Currency)
		}
		fmt.Fprintf(table, "  %s\t%s%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.File, least, at.load(), numberCell(at.Goodput), timeCell(at.TTFTP95), timeCell(at.ITLP95), numberCell(at.JoulesPerToken), replicas, cost, r.SLO)
	}
	_ = table.Flush()
}

func orNone(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func numberCell(v *float64) string {
	if v == nil {
		return "-"
	}
	return figure(*v)
}

func percentCell(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3g %%", 100**v)
}

// duration spells seconds.
func timeCell(v *float64) string {
	if v == nil {
		return "-"
	}
	return sizing.Seconds(*v)
}
