package sizing

import (
	"strings"
	"testing"
)

// TestCountingTimeIsMeasured: the gateway's own time on a call bounds how long it
// counts a prompt's tokens: below the plan it is a drift, and takes fewer workers;
// above it nothing is shown.
func TestCountingTimeIsMeasured(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		ownTime      float64 // seconds a call
		gateway      bool
		verdict, why string
		changes      bool
	}{
		{"much less than planned", 0.04, true, Drifted, "at most 0.22 times", true},
		{"as planned", 0.17, true, Holds, "at most 0.94 times", false},
		{"more than planned", 0.4, true, CannotTell, "at most 2.22 times", false},
		{"no gateway", 0, false, CannotTell, "no gateway tells its own time on a call", false},
	} {
		slots := week(72, func(int) float64 { return 60 })
		for i := range slots {
			if c.gateway {
				slots[i].Overhead = Histogram{Bounds: seconds, Counts: make([]float64, len(seconds)), Sum: 60 * c.ownTime, Count: 60}
			}
		}
		p := withKeys(t, agentsPlan, "critical_assumptions", "[{count_ms: 180}]", "slo.rps_target", "60")
		live := Reevaluate(p, class30(), Evidence{From: monday, To: slots[len(slots)-1].Start.Add(SlotLength), Slots: slots})
		found := false
		for _, j := range live.Assumptions {
			if j.Name != "critical_assumptions.count_ms" {
				continue
			}
			found = true
			fewer := false
			for _, change := range j.Changes {
				fewer = fewer || change.Resource == ResourceGatewayReplicas && change.To < change.From
			}
			if j.Verdict != c.verdict || !strings.Contains(j.Why, c.why) || fewer != c.changes {
				t.Errorf("%s: %s, %q, changes %v", c.name, j.Verdict, j.Why, j.Changes)
			}
		}
		if !found {
			t.Errorf("%s: count_ms is not judged", c.name)
		}
	}
}
