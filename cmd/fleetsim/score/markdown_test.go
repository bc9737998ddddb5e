package score

import (
	"slices"
	"strings"
	"testing"
)

// The tables say what was reached, of what, and whether that is enough.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	about := func(scenario, detector string) Subject { return Subject{scenario, "A", detector} }
	r := Result{
		Seeds: Seeds(TableSeed, 4),
		Incidents: []IncidentScore{
			{Subject: about("affinity_random", "D1 warn"), Cause: "routing", Incidents: 4, Found: 4, Minutes: []float64{2, 3, 4, 5}, Fires: 5, CausesTold: 4, CausesRight: 3},
			{Subject: about("affinity_random", naiveHit5m), Cause: "routing", Incidents: 4, Found: 1, Minutes: []float64{12}, Fires: 9},
			{Subject: about("rag_onset", "D1 warn"), Cause: "content", Incidents: 4, Found: 3, Minutes: []float64{20, 21, 22}, Fires: 3},
			{Subject: about("model_switch_wave", "D1 warn"), Cause: "content", Mild: true, Incidents: 4},
			{Subject: about("restarts", "D1 warn"), Incidents: 8, Fires: 2},
			{Subject: about("restarts", naiveHit5m), Incidents: 8},
		},
		Quiet: []QuietScore{
			{Subject: about("healthy_week", "D1 warn"), ReplicaWeeks: 20, False: 2, True: 1},
			{Subject: about("healthy_week", naiveHit5m), ReplicaWeeks: 20},
			{Subject: about("low_traffic", "D1 warn"), ReplicaWeeks: 10},
			{Subject: about("low_traffic", naiveHit5m), ReplicaWeeks: 10, False: 100},
			{Subject: about("affinity_random", "D1 warn"), ReplicaWeeks: 20},
			{Subject: about("affinity_random", naiveHit5m), ReplicaWeeks: 20, True: 10},
		},
		Queues: []QueueScore{
			{Subject: about("affinity_random", "D1 warn"), Queues: 4, Leads: []float64{3, 9}},
			{Subject: about("affinity_random", union), Queues: 4, Leads: []float64{3, 9, 10, 12}},
		},
		Demand: []DemandScore{{Subject: about(growing, "D8"), Runs: 2, Found: 1, Days: []float64{28}}},
	}
	got := r.Markdown()
	for _, want := range []string{
		"which runs `fleetsim score --seeds 4 --first-seed 901`; do not edit.",
		"Seeds 901, 902, 903, 904 (seeds of the table, which nobody had looked at",
		"Quiet time in all: 30 replica-weeks.",
		"| D1 warn: affinity lost (A) | 100 %, 4 min | 100 %, 3.5 min | met |",
		"| D1 warn: retrieved text sets in (A) | 100 %, 30 min | 75 %, 21 min | **missed** |",
		"| D1 warn: false alarms per replica-week | ≤ 0.05 | 0.1 (2 in 20) | **missed** |",
		"| D1 warn: fires with one to three sessions | 0 | 0 | met |",
		"| " + union + ": before all sustained queues (A) | ≥ 80 % | 100 % of 4, 9.5 min | met |",
		"| affinity_random (A) | 4 | routing | 100 % 3.5 / 4.7 | 25 % 12 / 12 |",
		"| model_switch_wave (A) | 4 | content | - | - |",
		"| D1 warn | 7 of 8 | 1.14 | 3 of 4 |",
		"| healthy_week (A) | 20.0 | 0.1 + 0.05 | 0 + 0 |",
		"| low_traffic (A) | 10.0 | 0 + 0 | 10 + 0 |",
		"| before and after incidents | 20.0 | 0 + 0 | 0 + 0.5 |",
		"| **all but those with few sessions or seats** | 20.0 | 0.1 + 0.05 | 0 + 0 |",
		"| restarts (A) | 8 | 0.25 | 0 |",
		"| detector | A, ramps (0) | A, all (4) | B, ramps (0) | B, all (0) |",
		"| D1 warn | - | 50 % 6.0 | - | - |",
		"| demand_growth (A) | D8 | 1 of 2 | 28 |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "crash spiral") {
		t.Error("a target is listed that nothing was run for")
	}
	r.Seeds = Seeds(1, 1)
	if !strings.Contains(r.Markdown(), "Seeds 1 (seeds for looking and tuning:") {
		t.Error("seeds for tuning are not told as such")
	}
}

// Variants stand in tables of their own, beside what they are variants of, and
// in no total.
func TestMarkdownOfVariants(t *testing.T) {
	t.Parallel()
	about := func(scenario, profile string) Subject { return Subject{scenario, profile, "D1 warn"} }
	r := Result{
		Seeds: Seeds(TableSeed, 1),
		Incidents: []IncidentScore{
			{Subject: about("affinity_random", "A"), Cause: "routing", Incidents: 2, Found: 2, Minutes: []float64{2, 3}, Fires: 2},
			{Subject: about("affinity_random_by_minute", "A"), Cause: "routing", Incidents: 2, Found: 2, Minutes: []float64{3, 5}, Fires: 9},
		},
		Quiet: []QuietScore{
			{Subject: about("healthy_week", "A"), ReplicaWeeks: 4},
			{Subject: about("near_knee", "B"), ReplicaWeeks: 4, True: 8},
			{Subject: about("near_knee_counters", "B"), ReplicaWeeks: 4, False: 16},
		},
		Queues: []QueueScore{{Subject: about("near_knee", "B"), Queues: 4}},
	}
	got := r.Markdown()
	usual, variants, found := strings.Cut(got, "## Older versions of vLLM")
	if !found {
		t.Fatalf("no variants in:\n%s", got)
	}
	for _, want := range []string{
		"| D1 warn: false alarms per replica-week | ≤ 0.05 | 0 (0 in 4) | met |",
		"| D1 warn | 2 of 2 | 1.00 | - |",
		"| detector | A, ramps (0) | A, all (0) | B, ramps (0) | B, all (0) |",
	} {
		if !strings.Contains(usual, want) {
			t.Errorf("no %q in:\n%s", want, usual)
		}
	}
	for _, want := range []string{
		"| D1 warn: affinity lost, read once a minute | 100 %, ≤ 1 min more | 100 %, +1.5 min | **missed** |",
		"| D1 warn: false alarms per replica-week, the same near the knee | ≤ 0.25 | 4 (16 in 4) | **missed** |",
		"| affinity_random (A) | 2 | 100 % 2.5 / 2.9 |\n| affinity_random_by_minute (A) | 2 | 100 % 4.0 / 4.8 |",
		"| near_knee (B) | 4.0 | 0 + 2 |\n| near_knee_counters (B) | 4.0 | 4 + 0 |",
	} {
		if !strings.Contains(variants, want) {
			t.Errorf("no %q in:\n%s", want, variants)
		}
	}
	if strings.Contains(usual, "near_knee") || strings.Contains(usual, "by_minute") {
		t.Errorf("a variant stands among what counts:\n%s", usual)
	}
	r.Incidents, r.Quiet = r.Incidents[:1], r.Quiet[:1]
	if strings.Contains(r.Markdown(), "Older versions") {
		t.Error("a table of variants without any")
	}
}

// Each reason is one of a target that there is, and is told while it is missed.
func TestReasons(t *testing.T) {
	t.Parallel()
	all := slices.Concat(targets(), variantTargets(), logTargets())
	for what := range reasons {
		if !slices.ContainsFunc(all, func(t target) bool { return t.what == what }) {
			t.Errorf("no target is called %q", what)
		}
	}
	told := func(found int) bool {
		about := Subject{"double_crash", "B", "D1 warn"}
		r := Result{
			Seeds:     Seeds(1, 3),
			Incidents: []IncidentScore{{Subject: about, Cause: "restart", Incidents: 3, Found: found, Minutes: []float64{2, 2, 3}[:found]}},
			Quiet:     []QuietScore{{Subject: about}},
		}
		return strings.Contains(r.Markdown(), "- *D1 warn: crash spiral (B)*: In the run that is not found")
	}
	if !told(2) || told(3) {
		t.Errorf("why a target is missed is told of 2 of 3: %v, of 3 of 3: %v", told(2), told(3))
	}
}
