package score

import (
	"fmt"
	"slices"
	"strings"
)

// target is one thing that detectors must reach on runs they were not tuned on.
// Times may be over by a fifth.
type target struct {
	what, want string
	// measure is what was reached, and whether that is enough; empty text where
	// the result has nothing to measure it by.
	measure func(r Result) (got string, met bool)
}

// slack is by how much times may be over.
const slack = 1.2

// targets are all of them, in the order of the table.
func targets() []target {
	var all []target
	for _, t := range []struct {
		what, scenario string
		minutes        float64
	}{
		{"affinity lost", "affinity_random", 4},
		{"a quarter misrouted", "affinity_quarter", 10},
		{"one replica without cache", "replica_cacheless", 10},
		{"retrieved text sets in", "rag_onset", 30},
	} {
		all = append(all, found("D1 warn", t.what, entry{t.scenario, "A"}, 1, t.minutes))
	}
	return append(all,
		found("D1 warn", "crash spiral", entry{"double_crash", "B"}, 1, 8),
		found("D1 warn", "affinity lost while pages are lost", entry{"affinity_with_gaps", "A"}, 1, 5),
		found("D1 page", "crash spiral, in spite of the restarts", entry{"double_crash", "B"}, 1, 10),
		falseAlarms("D1 warn", 0.05),
		fewSessions("D1 warn"),
		falseAlarms("D1 page", 0.02),
		allFires("D1 page", "near the knee", healthy, 0.15),
		allFires("D1 page", "at 75 % load", "flat", 0.02),
		allFires("D1 page", "while the chats' number changes twelvefold", "chat_mix", 0),
		atEvents("D1 page", "restarts", "rolling_deploys"),
		perIncident("D1 page", 1.1),
		falseAlarms("D2", 0.12),
		found("D2", "working set grows", entry{"working_set_growth", "A"}, 0.9, 210),
		before("D3", "A", true, 0.75, 30),
		before("D3", "B", true, 0.9, 30),
		falseAlarms("D3", 0.08),
		kneeWithin("A"),
		kneeWithin("B"),
		before(union, "A", false, 0.8, 0),
		before(union, "B", false, 0.8, 0),
		unionFalse(0.12),
		calibratedWithin(),
		found("D6", "one of eight replicas without cache", entry{"eight_replica_cacheless", "A"}, 1, 7.7),
		allFires("D6", "of eight replicas", "eight_replicas", 0.12),
	)
}

func found(name, what string, e entry, recall, most float64) target {
	return target{
		fmt.Sprintf("%s: %s (%s)", name, what, e.profile), fmt.Sprintf("%.0f %%, %.0f min", 100*recall, most),
		func(r Result) (string, bool) {
			s := of(r.Incidents, e, name)
			if s == nil {
				return "", false
			}
			if s.Found == 0 || len(s.Minutes) == 0 {
				return percent(s.Found, s.Incidents), false
			}
			median := quantile(s.Minutes, 0.5)
			return fmt.Sprintf("%s, %s min", percent(s.Found, s.Incidents), minutes(median)),
				float64(s.Found) >= recall*float64(s.Incidents) && median <= slack*most
		},
	}
}

func falseAlarms(name string, most float64) target {
	return target{name + ": false alarms per replica-week", fmt.Sprintf("≤ %.2f", most), func(r Result) (string, bool) {
		sum := r.quietSum(name, r.quietEntries()...)
		return counted(sum.False, sum.ReplicaWeeks, most)
	}}
}

func fewSessions(name string) target {
	return target{name + ": fires with one to three sessions", "0", func(r Result) (string, bool) {
		sum := r.quietSum(name, entriesOf(r.Quiet, func(s QuietScore) bool { return few(s.entry()) })...)
		if sum.ReplicaWeeks == 0 {
			return "", false
		}
		return fmt.Sprint(sum.False + sum.True), sum.False+sum.True == 0
	}}
}

func allFires(name, what, scenario string, most float64) target {
	return target{fmt.Sprintf("%s: all fires %s per replica-week", name, what), fmt.Sprintf("≤ %.2f", most), func(r Result) (string, bool) {
		sum := r.quietSum(name, entry{scenario, "A"})
		return counted(sum.False+sum.True, sum.ReplicaWeeks, most)
	}}
}

// atEvents is that nothing is told of events that are no incidents.
func atEvents(name string, scenarios ...string) target {
	return target{fmt.Sprintf("%s: fires at events of %s", name, strings.Join(scenarios, " and ")), "0", func(r Result) (string, bool) {
		events, fires := 0, 0
		for _, scenario := range scenarios {
			if s := of(r.Incidents, entry{scenario, "A"}, name); s != nil {
				events, fires = events+s.Incidents, fires+s.Fires
			}
		}
		if events == 0 {
			return "", false
		}
		return fmt.Sprintf("%d of %d", fires, events), fires == 0
	}}
}

// counted is a rate with what it rests on.
func counted(n int, weeks, most float64) (string, bool) {
	if weeks == 0 {
		return "", false
	}
	return fmt.Sprintf("%s (%d in %.0f)", rate(n, weeks), n, weeks), float64(n)/weeks <= most
}

func perIncident(name string, most float64) target {
	return target{name + ": fires per incident", fmt.Sprintf("≤ %.2f", most), func(r Result) (string, bool) {
		var sum IncidentScore
		for _, s := range r.Incidents {
			if s.Detector == name && s.Cause != "" && !s.Mild {
				sum.add(s)
			}
		}
		if sum.Found == 0 {
			return "", false
		}
		fires := float64(sum.Fires) / float64(sum.Found)
		return fmt.Sprintf("%.2f", fires), fires <= most
	}}
}

func before(name, profile string, rampsOnly bool, recall, lead float64) target {
	what, want := "before all sustained queues", fmt.Sprintf("≥ %.0f %%", 100*recall)
	if rampsOnly {
		what = "before the queue of a ramp"
	}
	if lead > 0 {
		want += fmt.Sprintf(", ≥ %.0f min", lead)
	}
	return target{fmt.Sprintf("%s: %s (%s)", name, what, profile), want, func(r Result) (string, bool) {
		sum := r.queueSum(name, profile, rampsOnly)
		switch {
		case sum.Queues == 0:
			return "", false
		case len(sum.Leads) == 0:
			return "0 %", false
		}
		median := quantile(sum.Leads, 0.5)
		return fmt.Sprintf("%s of %d, %s min", percent(len(sum.Leads), sum.Queues), sum.Queues, minutes(median)),
			float64(len(sum.Leads)) >= recall*float64(sum.Queues) && median >= lead/slack
	}}
}

func unionFalse(most float64) target {
	return target{union + ": false alarms per replica-week", fmt.Sprintf("≤ %.2f", most), func(r Result) (string, bool) {
		n, weeks := 0, 0.0
		for _, name := range []string{"D1 warn", "D3", "D4"} {
			sum := r.quietSum(name, r.quietEntries()...)
			n, weeks = n+sum.False, max(weeks, sum.ReplicaWeeks)
		}
		return counted(n, weeks, most)
	}}
}

// writeTargets writes what had to be reached and what was.
func (r Result) writeTargets(b *strings.Builder) {
	b.WriteString("## Targets\n\nTimes may be over by a fifth.\n\n")
	there := r.detectors(anyKind)
	r.writeTargetTable(b, slices.DeleteFunc(targets(), func(t target) bool {
		name, _, _ := strings.Cut(t.what, ":")
		return name != union && !slices.Contains(there, name)
	}))
}

// writeDemand writes whether growth over weeks was told.
func (r Result) writeDemand(b *strings.Builder) {
	if len(r.Demand) == 0 {
		return
	}
	b.WriteString("## Demand over weeks\n\nIt must fire where demand grows by 2 % a day, and never where it does not.\n\n")
	head(b, "scenario", "detector", "fired", "days until the first")
	for _, s := range r.Demand {
		days := "-"
		if len(s.Days) > 0 {
			days = fmt.Sprintf("%.0f", quantile(s.Days, 0.5))
		}
		row(b, s.entry().String(), s.Detector, fmt.Sprintf("%d of %d", s.Found, s.Runs), days)
	}
	b.WriteString("\n")
}
