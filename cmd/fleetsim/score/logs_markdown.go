package score

import (
	"fmt"
	"slices"
	"strings"
)

// logTargets are what detectors with logs of calls must reach (recall, minutes).
func logTargets() []target {
	return []target{
		found(logsContent, "sessions switch models", entry{"model_switch_wave", "A"}, 1, 15),
		found(logsRouting, "the gateway forgets once", entry{"affinity_forgotten_once", "A"}, 1, 1),
		found(logsRouting, "affinity lost with one to three sessions", entry{"affinity_low_traffic", "A"}, 1, 20),
		logFalse(logsRouting, nil),
		logFalse(logsContent, []string{"rag_heavy"}), // where it is not applicable
	}
}

// logFalse is that nothing is told where nothing happens.
func logFalse(name string, without []string) target {
	return target{name + ": false alarms per replica-week", "0", func(r Result) (string, bool) {
		entries := entriesOf(r.Quiet, func(s QuietScore) bool {
			return s.Detector == name && !slices.Contains(without, s.Scenario) && !slices.Contains(r.withIncidents(), s.entry())
		})
		sum := r.quietSum(name, entries...)
		return counted(sum.False+sum.True, sum.ReplicaWeeks, 0)
	}}
}

// LogsMarkdown writes the tables of a score with logs of calls.
func (r Result) LogsMarkdown() string {
	var b strings.Builder
	seeds := make([]string, len(r.Seeds))
	for i, s := range r.Seeds {
		seeds[i] = fmt.Sprint(s)
	}
	fmt.Fprintf(&b, `## With logs of calls

Runs of their own, in which the rules read the gateway's table of calls every 30 s, beside the engines' pages, and what rests on it is scored. Seeds %s, of runs of over three days every third of them. Words and tables are those of above. A row is written 10 s after its call has ended, and its call is counted a minute after that end, because real gateways write late: no time to detect is shorter.

`, strings.Join(seeds, ", "))
	r.writeTargetTable(&b, logTargets())
	r.writeLogIncidents(&b)
	r.writeLogQuiet(&b)
	return b.String()
}

// logHead begins a table with a column of each detector.
func logHead(b *strings.Builder, cells ...string) {
	for _, d := range logDetectors {
		cells = append(cells, d.Name)
	}
	head(b, cells...)
}

// logRow is one row of a table with a cell of each detector.
func logRow(b *strings.Builder, cell func(name string) string, cells ...string) {
	for _, d := range logDetectors {
		cells = append(cells, cell(d.Name))
	}
	row(b, cells...)
}

func (r Result) writeLogIncidents(b *strings.Builder) {
	b.WriteString("### Incidents: found, median / p90 minutes; cause right\n\n")
	logHead(b, "scenario", "runs", "cause")
	for _, e := range entriesOf(r.Incidents, func(s IncidentScore) bool { return s.Cause != "" }) {
		first := of(r.Incidents, e, logsRouting)
		logRow(b, func(name string) string {
			s := of(r.Incidents, e, name)
			if text := foundText(s); s == nil || s.CausesTold == 0 {
				return text
			}
			return foundText(s) + "; " + share(s.CausesRight, s.CausesTold)
		}, e.String(), fmt.Sprint(first.Incidents), first.Cause)
	}
}

func (r Result) writeLogQuiet(b *strings.Builder) {
	b.WriteString("\n### Quiet time: false + true fires per replica-week; events that are no incidents: fires per event\n\n")
	logHead(b, "scenario", "replica-weeks", "events")
	incidents := r.withIncidents()
	for _, e := range entriesOf(r.Quiet, func(s QuietScore) bool { return !slices.Contains(incidents, s.entry()) }) {
		event := of(r.Incidents, e, logsRouting)
		events := "-"
		if event != nil {
			events = fmt.Sprint(event.Incidents)
		}
		logRow(b, func(name string) string {
			quiet := of(r.Quiet, e, name)
			text := rate(quiet.False, quiet.ReplicaWeeks) + " + " + rate(quiet.True, quiet.ReplicaWeeks)
			if s := of(r.Incidents, e, name); s != nil {
				text += "; " + rate(s.Fires, float64(s.Incidents))
			}
			return text
		}, e.String(), fmt.Sprintf("%.1f", of(r.Quiet, e, logsRouting).ReplicaWeeks), events)
	}
}
