package score

import (
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	about := Subject{"affinity_random", "A", "D1 warn"}
	event := Subject{"restarts", "A", "D1 warn"}
	good := func() Result {
		return Result{
			Incidents: []IncidentScore{
				{Subject: about, Cause: "routing", Incidents: 2, Found: 2, Minutes: []float64{10, 12}, Fires: 2},
				{Subject: event, Incidents: 4},
				{Subject: Subject{"affinity_random", "A", naiveHit5m}, Cause: "routing", Incidents: 2, Found: 2},
			},
			Quiet: []QuietScore{{Subject: about, ReplicaWeeks: 1}, {Subject: Subject{"affinity_random", "A", naiveTTFT}}},
		}
	}
	for name, test := range map[string]struct {
		change func(*Result)
		want   string // empty: not worse
	}{
		"equal":         {func(*Result) {}, ""},
		"a little late": {func(r *Result) { r.Incidents[0].Minutes = []float64{12, 14} }, ""},
		"late":          {func(r *Result) { r.Incidents[0].Minutes = []float64{13, 14} }, "affinity_random (A), D1 warn: took 14 minutes, before 11"},
		"missed":        {func(r *Result) { r.Incidents[0].Found = 1 }, "found 1 of 2, before 2 of 2"},
		"more of them":  {func(r *Result) { r.Incidents[0].Incidents, r.Incidents[0].Found = 4, 4 }, ""},
		"gone":          {func(r *Result) { r.Incidents = r.Incidents[1:] }, "was not scored"},
		"at an event":   {func(r *Result) { r.Incidents[1].Fires = 1 }, "restarts (A), D1 warn: fired 1 times at what is no incident, before 0 times"},
		"false alarm":   {func(r *Result) { r.Quiet[0].False = 1 }, "1 false alarms, before 0"},
		"true alarm":    {func(r *Result) { r.Quiet[0].True = 1 }, ""},
		"naive":         {func(r *Result) { r.Incidents[2].Found, r.Quiet[1].False = 0, 9 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := good()
			test.change(&now)
			got := strings.Join(Compare(good(), now), "\n")
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
