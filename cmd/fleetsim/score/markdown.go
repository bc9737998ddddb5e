package score

import (
	"fmt"
	"slices"
	"strings"
)

// Markdown writes the tables for a person. It depends on the result alone, so
// that equal corpora give equal files on all machines.
func (r Result) Markdown() string {
	var b strings.Builder
	usual := r.apart()
	usual.writeHead(&b)
	usual.writeTargets(&b)
	usual.writeIncidents(&b)
	usual.writeFires(&b)
	usual.writeQuiet(&b)
	usual.writeEvents(&b)
	usual.writeQueues(&b)
	usual.writeDemand(&b)
	usual.writeKnees(&b)
	usual.writeCalibration(&b)
	r.writeVariants(&b)
	return b.String()
}

// writeHead says how the tables were made and what their words mean.
func (r Result) writeHead(b *strings.Builder) {
	seeds := make([]string, len(r.Seeds))
	for i, s := range r.Seeds {
		seeds[i] = fmt.Sprint(s)
	}
	kind := fmt.Sprintf("seeds of the table, which nobody had looked at before it was made; those below %d are for looking and tuning", TableSeed)
	if r.Seeds[0] < TableSeed {
		kind = fmt.Sprintf("seeds for looking and tuning: the table has those from %d on", TableSeed)
	}
	weeks := 0.0
	for _, q := range r.Quiet {
		if q.Detector == r.detectors(anyKind)[0] && !slices.Contains(r.withIncidents(), q.entry()) {
			weeks += q.ReplicaWeeks
		}
	}
	command := fmt.Sprintf("fleetsim score --seeds %d --first-seed %d", len(r.Seeds), r.Seeds[0])
	fmt.Fprintf(b, `# Scores of the detectors

Made by `+"`make score`"+`, which runs `+"`%s`"+`; do not edit. Each scenario of the simulated fleet (cmd/fleetsim, its labels are the truth) is run with its own hardware (A: bound by prefill, B: tight in KV), and all detectors and the naive rules see the same pages of the engines every 15 s; nobody sees the gateway's page or logs of calls. Equal seeds give equal tables on any machine.

Seeds %s (%s). Runs of over three days use every third of them, as what they tell of false alarms grows with their length. Quiet time in all: %.0f replica-weeks.

- *found* is the share of incidents in which it fired, of those labelled; then the median and the 90th percentile of the minutes from the onset, or where something creeps from when there was an excess (1.6 times the usual share of recomputed tokens over 15 minutes, for D2 1.3 times over an hour; below 0 is before). What already fired at the onset does not count.
- *false* is a fire in quiet time while the true share of recomputed tokens of 15 minutes stayed under 1.6 times the usual one from 15 minutes before to 20 minutes after; *true* is one on a real excess that the fleet had by itself. Of what tells of queues, false is a fire without that excess and without a sustained queue within 4 hours, true one on an excess that no queue followed.
- A *sustained queue* is requests waiting in at least 40 %% of all pairs of an engine and a look, over 10 minutes. An alert up to 4 hours before speaks of it.
- Six hours in which detectors learn do not count as quiet time; what fires in them counts.
- The naive rules are evaluated as Prometheus would, over the pool's sums.

`, command, strings.Join(seeds, ", "), kind, weeks)
}

// which detectors a table has.
const anyKind = kind(-1)

// detectors are the names of those of a kind that the result has, in order.
func (r Result) detectors(of kind) []string {
	var names []string
	for _, d := range scored() {
		has := slices.ContainsFunc(r.Quiet, func(q QuietScore) bool { return q.Detector == d.Name })
		if has && (of == anyKind || d.kind == of) {
			names = append(names, d.Name)
		}
	}
	return names
}

// row writes one row of a table.
func row(b *strings.Builder, cells ...string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// head writes a table's head.
func head(b *strings.Builder, cells ...string) {
	row(b, cells...)
	b.WriteString("|" + strings.Repeat("---|", len(cells)) + "\n")
}

// entry is one scenario with one hardware.
type entry struct{ scenario, profile string }

func (s Subject) entry() entry { return entry{s.Scenario, s.Profile} }

func (e entry) String() string { return e.scenario + " (" + e.profile + ")" }

// entriesOf are those of scores that keep wants, in order.
func entriesOf[S interface{ subject() Subject }](all []S, keep func(S) bool) []entry {
	var entries []entry
	for _, s := range all {
		if e := s.subject().entry(); keep(s) && !slices.Contains(entries, e) {
			entries = append(entries, e)
		}
	}
	return entries
}

// of finds the score of a detector on an entry; nil without one.
func of[S interface{ subject() Subject }](all []S, e entry, detector string) *S {
	i := slices.IndexFunc(all, func(s S) bool { return s.subject() == Subject{e.scenario, e.profile, detector} })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// writeIncidents writes recall and time to detect.
func (r Result) writeIncidents(b *strings.Builder) {
	names := r.detectors(kindCache)
	b.WriteString("## Incidents: found, median / p90 minutes\n\nIn the lower part are those that the miss ratio of a whole pool shows hardly or not at all: what is found in them is a bonus, and logs of calls are what sees them.\n\n")
	head(b, append([]string{"scenario", "runs", "cause"}, names...)...)
	for _, mild := range []bool{false, true} {
		for _, e := range entriesOf(r.Incidents, func(s IncidentScore) bool { return s.Cause != "" && s.Mild == mild }) {
			first := of(r.Incidents, e, names[0])
			cells := []string{e.String(), fmt.Sprint(first.Incidents), first.Cause}
			for _, name := range names {
				cells = append(cells, foundText(of(r.Incidents, e, name)))
			}
			row(b, cells...)
		}
		if !mild {
			row(b, append([]string{"*hardly visible:*"}, make([]string, len(names)+2)...)...)
		}
	}
	b.WriteString("\n")
}

func foundText(s *IncidentScore) string {
	switch {
	case s == nil || s.Found == 0:
		return "-"
	case len(s.Minutes) == 0:
		return percent(s.Found, s.Incidents)
	}
	return fmt.Sprintf("%s %s / %s", percent(s.Found, s.Incidents), minutes(quantile(s.Minutes, 0.5)), minutes(quantile(s.Minutes, 0.9)))
}

func percent(of, all int) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(of)/float64(all))
}

func minutes(v float64) string {
	if v > -10 && v < 10 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// writeFires writes how often detectors fire in an incident, and what they name.
func (r Result) writeFires(b *strings.Builder) {
	b.WriteString("## Fires per incident, and the cause\n\nOver all incidents above the line that it found.\n\n")
	head(b, "detector", "found", "fires per incident found", "cause right, of those that name one")
	for _, name := range r.detectors(kindCache) {
		var sum IncidentScore
		for _, s := range r.Incidents {
			if s.Detector == name && s.Cause != "" && !s.Mild {
				sum.add(s)
			}
		}
		fires := "-"
		if sum.Found > 0 {
			fires = fmt.Sprintf("%.2f", float64(sum.Fires)/float64(sum.Found))
		}
		row(b, name, fmt.Sprintf("%d of %d", sum.Found, sum.Incidents), fires, share(sum.CausesRight, sum.CausesTold))
	}
	b.WriteString("\n")
}

func share(of, all int) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", of, all)
}

// writeQuiet writes the false alarms.
func (r Result) writeQuiet(b *strings.Builder) {
	names := r.detectors(anyKind)
	b.WriteString("## Quiet time: false + true fires per replica-week\n\n")
	head(b, append([]string{"scenario", "replica-weeks"}, names...)...)
	incidents := r.withIncidents()
	for _, e := range entriesOf(r.Quiet, func(QuietScore) bool { return true }) {
		if !slices.Contains(incidents, e) {
			r.quietRow(b, e.String(), names, e)
		}
	}
	r.quietRow(b, "**all but those with few sessions or seats**", names, r.quietEntries()...)
	r.quietRow(b, "before and after incidents", names, incidents...)
	b.WriteString("\nThe last row counts for nothing: with equal seeds and equal load the day before an incident is the same one in many scenarios.\n\n")
}

// withIncidents are the entries that have incidents.
func (r Result) withIncidents() []entry {
	return entriesOf(r.Incidents, func(s IncidentScore) bool { return s.Cause != "" })
}

// quietEntries are those that false alarms are counted in: without incidents,
// with enough sessions for a pool to speak of, and not so few seats that queues
// are a matter of chance.
func (r Result) quietEntries() []entry {
	incidents := r.withIncidents()
	return entriesOf(r.Quiet, func(s QuietScore) bool {
		return !few(s.entry()) && !slices.Contains(seats, s.Profile) && !slices.Contains(incidents, s.entry())
	})
}

// few says whether an entry has one to three sessions.
func few(e entry) bool { return strings.Contains(e.scenario, "low_traffic") }

// quietSum adds up what a detector told in the quiet time of entries.
func (r Result) quietSum(name string, entries ...entry) QuietScore {
	var sum QuietScore
	for _, e := range entries {
		if s := of(r.Quiet, e, name); s != nil {
			sum.add(*s)
		}
	}
	return sum
}

func (r Result) quietRow(b *strings.Builder, title string, names []string, entries ...entry) {
	if len(entries) == 0 {
		return
	}
	cells := []string{title, fmt.Sprintf("%.1f", r.quietSum(names[0], entries...).ReplicaWeeks)}
	for _, name := range names {
		sum := r.quietSum(name, entries...)
		cells = append(cells, rate(sum.False, sum.ReplicaWeeks)+" + "+rate(sum.True, sum.ReplicaWeeks))
	}
	row(b, cells...)
}

func rate(n int, weeks float64) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2g", float64(n)/weeks)
}

// writeEvents writes what is told of events that are no incidents.
func (r Result) writeEvents(b *strings.Builder) {
	entries := entriesOf(r.Incidents, func(s IncidentScore) bool { return s.Cause == "" })
	if len(entries) == 0 {
		return
	}
	names := r.detectors(anyKind)
	b.WriteString("## Events that are no incidents: fires per event\n\n")
	head(b, append([]string{"scenario", "events"}, names...)...)
	for _, e := range entries {
		cells := []string{e.String(), fmt.Sprint(of(r.Incidents, e, names[0]).Incidents)}
		for _, name := range names {
			s := of(r.Incidents, e, name)
			cells = append(cells, rate(s.Fires, float64(s.Incidents)))
		}
		row(b, cells...)
	}
	b.WriteString("\n")
}

// ramps are the scenarios in which load grows until there is a queue.
var ramps = []string{"load_ramp", "working_set_growth"} //nolint:gochecknoglobals // a table

// queueSum adds up a detector's leads over the queues of a profile.
func (r Result) queueSum(name, profile string, rampsOnly bool) QueueScore {
	var sum QueueScore
	for _, s := range r.Queues {
		if s.Detector == name && s.Profile == profile && (!rampsOnly || slices.Contains(ramps, s.Scenario)) {
			sum.add(s)
		}
	}
	return sum
}

// writeQueues writes how long before the queue there was an alert.
func (r Result) writeQueues(b *strings.Builder) {
	b.WriteString("## Before a sustained queue: seen, median lead in minutes\n\nAll are all sustained queues, shocks included: those of incidents and those that the fleet had by itself.\n\n")
	names := append(append(r.detectors(kindCache), r.detectors(kindQueue)...), union)
	cells := []string{"detector"}
	for _, profile := range []string{"A", "B"} {
		for _, of := range []string{"ramps", "all"} {
			n := r.queueSum(union, profile, of == "ramps").Queues
			cells = append(cells, fmt.Sprintf("%s, %s (%d)", profile, of, n))
		}
	}
	head(b, cells...)
	for _, name := range names {
		cells := []string{name}
		for _, profile := range []string{"A", "B"} {
			for _, rampsOnly := range []bool{true, false} {
				cells = append(cells, leadText(r.queueSum(name, profile, rampsOnly)))
			}
		}
		row(b, cells...)
	}
	b.WriteString("\n")
}

func leadText(s QueueScore) string {
	if len(s.Leads) == 0 {
		return "-"
	}
	return fmt.Sprintf("%s %s", percent(len(s.Leads), s.Queues), minutes(quantile(s.Leads, 0.5)))
}
