package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/common/model"
)

// backtestText is the result for a person: one line for each alert, then why
// each fired, then what a change made of it.
func backtestText(out backtestOutput, notes []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s to %s (%s), %s: %s.\n", utc(out.From), utc(out.To), age(out.To.Sub(out.From)),
		count(int(out.Samples), "sample"), count(len(out.Alerts), "alert"))
	if len(out.Alerts) > 0 {
		b.WriteByte('\n')
		w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
		fmt.Fprintln(w, "FIRED\tALERT\tSEVERITY\tABOUT\tONSET\tLASTED\tBEFORE THE QUEUE\tCAUSE")
		for _, a := range out.Alerts {
			fmt.Fprintln(w, strings.Join(a.cells(), "\t"))
		}
		_ = w.Flush() // a strings.Builder takes everything
		b.WriteByte('\n')
		for _, a := range out.Alerts {
			fmt.Fprintf(&b, "%s %s: %s\n", utc(a.FiredAt), a.Name, cmp.Or(a.summary, a.Evidence.Seen))
		}
	}
	if out.WithoutSet != nil {
		writeComparison(&b, out)
	}
	for i, n := range notes {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

// cells are what a table tells of an alert.
func (a backtestAlert) cells() []string {
	return []string{utc(a.FiredAt), a.Name, a.Severity, a.about(), a.onset(), a.lasted(), a.lead(), a.cause()}
}

// onset is by how long the condition held before the alert fired.
func (a backtestAlert) onset() string { return age(a.FiredAt.Sub(a.ActiveAt)) + " earlier" }

func (a backtestAlert) lasted() string {
	if a.ResolvedAt == nil {
		return "to the end"
	}
	return age(a.ResolvedAt.Sub(a.FiredAt))
}

func (a backtestAlert) lead() string {
	switch {
	case a.LeadSeconds == nil:
		return "no queue"
	case *a.LeadSeconds == 0:
		return "within it"
	default:
		return age(time.Duration(*a.LeadSeconds * float64(time.Second)))
	}
}

func (a backtestAlert) cause() string {
	if a.Cause == nil {
		return "-"
	}
	return *a.Cause
}

// about is what the alert is about: its labels, without those that all have.
func (a backtestAlert) about() string {
	if pool := a.Labels["pool"]; pool != "" {
		return pool
	}
	if instance := a.Labels[model.InstanceLabel]; instance != "" {
		return a.Labels[model.JobLabel] + "/" + instance
	}
	return "-"
}

// writeComparison says what a change made of the alerts.
func writeComparison(b *strings.Builder, out backtestOutput) {
	fmt.Fprintf(b, "\nWith %s, against the configured rules:\n", strings.Join(out.WithoutSet.Set, ", "))
	rows := compare(out.WithoutSet.Alerts, out.Alerts)
	if len(rows) == 0 {
		b.WriteString("no alert either way\n")
		return
	}
	w := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ALERT\tABOUT\tWITHOUT\tWITH\tFIRST FIRED")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", r.name, r.about, r.without, r.with, r.shift())
	}
	_ = w.Flush()
}

// compared is one alert about one subject in two sets of rules.
type compared struct {
	name, about             string
	without, with           int
	firstWithout, firstWith time.Time
}

// shift says by how much the first alert came earlier or later.
func (c compared) shift() string {
	switch d := c.firstWith.Sub(c.firstWithout); {
	case c.without == 0:
		return "new, " + utc(c.firstWith)
	case c.with == 0:
		return "gone, was " + utc(c.firstWithout)
	case d == 0:
		return "the same, " + utc(c.firstWith)
	case d < 0:
		return age(-d) + " earlier"
	default:
		return age(d) + " later"
	}
}

// compare counts the alerts of both by name and subject.
func compare(without, with []backtestAlert) []compared {
	rows := map[string]*compared{}
	row := func(a backtestAlert) *compared {
		key := a.Name + "\xff" + a.about()
		if rows[key] == nil {
			rows[key] = &compared{name: a.Name, about: a.about()}
		}
		return rows[key]
	}
	for _, a := range without {
		r := row(a)
		if r.without++; r.firstWithout.IsZero() {
			r.firstWithout = a.FiredAt
		}
	}
	for _, a := range with {
		r := row(a)
		if r.with++; r.firstWith.IsZero() {
			r.firstWith = a.FiredAt
		}
	}
	var all []compared
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		all = append(all, *rows[key])
	}
	return all
}

// age writes a duration for people, of at most two units.
func age(d time.Duration) string {
	two := func(large time.Duration, largeUnit string, small time.Duration, smallUnit string) string {
		text := fmt.Sprintf("%d %s", d/large, largeUnit)
		if rest := d % large / small; rest > 0 {
			text += fmt.Sprintf(" %d %s", rest, smallUnit)
		}
		return text
	}
	switch d = d.Round(time.Second); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return two(time.Minute, "min", time.Second, "s")
	case d < 48*time.Hour:
		return two(time.Hour, "h", time.Minute, "min")
	default:
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	}
}
