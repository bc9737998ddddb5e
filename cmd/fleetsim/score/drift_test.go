package score

import (
	"context"
	"strings"
	"testing"
	"time"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/rules/sizing"
)

// TestDriftOfKnownHistories holds plans against a history whose truth is known:
// one that fits, those with one assumption wrong by 1.5 to 3 times either way,
// and one with too little history. The right assumption is named, and no other.
func TestDriftOfKnownHistories(t *testing.T) {
	t.Parallel()
	known, err := driftHistory(t.Context(), fleet.Config{Seed: 4711, Workload: fleet.Workload{
		Sessions: 6, OutputTokens: fleet.Spread{Median: 200, Sigma: 0.8}, TurnSeconds: fleet.Spread{Median: 60, Sigma: 0.8},
		FirstTokens: fleet.Spread{Median: 6000, Sigma: 0.8}, MaxContext: 100_000,
	}})
	if err != nil {
		t.Fatal(err)
	}
	d := &DriftMatrix{seeds: []uint64{4711}}
	d.hold(4711, known)
	if right, all := d.right(); right != all || all != 2+len(driftAssumptions)*len(driftFactors) || len(d.wrong) > 0 {
		t.Errorf("%d of %d are right:\n%s", right, all, strings.Join(d.wrong, "\n"))
	}
	text := d.Markdown()
	for _, want := range []string{"38 of 38 are right", "| context, 1.50 times | **1** | | | | | | |", "| nothing | | | | | | | **1** |", "Nothing.\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}

	// A verdict that is not right is counted and told.
	d.rows[0].take(d, 1, &sizing.Live{Assumptions: []sizing.Judged{{Name: "workload.people", Verdict: sizing.Drifted, Why: "a test"}}})
	d.rows[1].take(d, 1, &sizing.Live{Assumptions: []sizing.Judged{{Name: "workload.context_tokens_max", Verdict: sizing.Holds, Why: "a test"}}})
	d.seeds = append(d.seeds, 1)
	if right, all := d.right(); right != 37 || all != 76 || len(d.wrong) != 2 || !strings.Contains(d.wrong[0], "seed 1, nothing: workload.people is told to have drifted: a test") {
		t.Errorf("%d of %d, %q", right, all, d.wrong)
	}

	few := sizing.Evidence{From: known.now.Add(-24 * time.Hour), To: known.now, Slots: known.slots[:8*12]}
	for _, j := range sizing.Reevaluate(known.plan(), sizing.Config{}, few).Assumptions {
		if j.Verdict != sizing.CannotTell || j.Why == "" {
			t.Errorf("%s of 8 hours: %s, %q", j.Name, j.Verdict, j.Why)
		}
	}
	all := sizing.Evidence{From: known.now.Add(-24 * time.Hour), To: known.now, Slots: known.slots}
	for _, j := range sizing.Reevaluate(known.plan(), sizing.Config{}, all).Assumptions {
		for _, a := range driftAssumptions {
			if j.Name == a.key && j.Verdict != sizing.Holds {
				t.Errorf("%s fits, but: %s, %s", j.Name, j.Verdict, j.Why)
			}
		}
	}
}

// TestDriftIsInterrupted: what was asked to end ends.
func TestDriftIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Drift(ctx, []uint64{1}); err == nil {
		t.Error("it went on")
	}
}
