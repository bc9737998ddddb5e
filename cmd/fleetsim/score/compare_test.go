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
				{Subject: about, Cause: "routing", Incidents: 2, Found: 2, Minutes: []float64{10, 12}, Fires: 2, CausesTold: 2, CausesRight: 2},
				{Subject: event, Incidents: 4},
				{Subject: Subject{"affinity_random", "A", naiveHit5m}, Cause: "routing", Incidents: 2, Found: 2},
			},
			Quiet:  []QuietScore{{Subject: about, ReplicaWeeks: 1}, {Subject: Subject{"affinity_random", "A", naiveTTFT}}},
			Queues: []QueueScore{{Subject: about, Queues: 2, Leads: []float64{3, 4}}, {Subject: Subject{"affinity_random", "A", naiveTTFT}, Queues: 2, Leads: []float64{1}}},
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
		"again":         {func(r *Result) { r.Incidents[0].Fires = 3 }, "fired 3 times in 2 incidents, before 2 in 2"},
		"wrong cause":   {func(r *Result) { r.Incidents[0].CausesRight = 1 }, "1 of 2 causes right, before 2 of 2"},
		"unseen queue":  {func(r *Result) { r.Queues[0].Leads = []float64{4} }, "saw 1 of 2 queues before they were there, before 2 of 2"},
		"naive": {func(r *Result) {
			r.Incidents[2].Found, r.Incidents[2].Fires, r.Quiet[1].False, r.Queues[1].Leads = 0, 9, 9, nil
		}, ""},
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
