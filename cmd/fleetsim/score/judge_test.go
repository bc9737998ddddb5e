package score

import (
	"slices"
	"testing"
	"time"

	"kvwatch/cmd/fleetsim/fleet"
)

// truth is a history of so many hours in which a tenth is recomputed, and three
// times as much in the spans.
func truth(hours int, bad ...fleet.Span) fleet.History {
	h := fleet.History{Quiet: fleet.Span{End: time.Duration(hours) * time.Hour}}
	for at := time.Minute; at <= time.Duration(hours)*time.Hour; at += time.Minute {
		missed := uint64(100)
		for _, span := range bad {
			if at > span.Begin && at <= span.End {
				missed = 300
			}
		}
		h.Minutes = append(h.Minutes, fleet.Minute{End: at, Engines: []fleet.EngineMinute{{LookedUp: 1000, Missed: missed}}})
	}
	return h
}

func testRun(hours int) Run {
	return Run{Entry{"test", "A", time.Duration(hours) * time.Hour}, 1}
}

func detectorNamed(t *testing.T, name string) detector {
	t.Helper()
	all := scored()
	i := slices.IndexFunc(all, func(d detector) bool { return d.Name == name })
	if i < 0 {
		t.Fatalf("no detector %q", name)
	}
	return all[i]
}

func TestIncidentScores(t *testing.T) {
	t.Parallel()
	onset := 10 * time.Hour
	for name, test := range map[string]struct {
		incident fleet.Incident
		fires    []fire
		want     IncidentScore
	}{
		"found": {
			fleet.Incident{Onset: onset, Cause: fleet.CauseRouting},
			[]fire{{at: onset + 3*time.Minute, cause: "routing_or_content"}, {at: onset + time.Hour, cause: "restart"}},
			IncidentScore{Found: 1, Minutes: []float64{3}, Fires: 2, CausesTold: 1, CausesRight: 1},
		},
		"wrong cause": {
			fleet.Incident{Onset: onset, Cause: fleet.CauseReplica},
			[]fire{{at: onset + 3*time.Minute, cause: "routing_or_content"}},
			IncidentScore{Found: 1, Minutes: []float64{3}, Fires: 1, CausesTold: 1},
		},
		"fired before and on": {
			fleet.Incident{Onset: onset, Cause: fleet.CauseRouting},
			[]fire{{at: onset - time.Minute}},
			IncidentScore{},
		},
		"long after its end": {
			fleet.Incident{Onset: onset, End: onset + time.Hour, Cause: fleet.CauseRouting},
			[]fire{{at: onset + 4*time.Hour}},
			IncidentScore{},
		},
		"creeping, told before the excess": { // that begins at 12 h, and is 1.6 times as much over 15 minutes at 12:05
			fleet.Incident{Onset: onset, Cause: fleet.CauseResidency},
			[]fire{{at: 12 * time.Hour, cause: "residency"}},
			IncidentScore{Found: 1, Minutes: []float64{-5}, Fires: 1, CausesTold: 1, CausesRight: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &played{
				run: testRun(20), scenario: fleet.Scenario{Incident: test.incident}, engines: 4,
				truth: truth(20, fleet.Span{Begin: 12 * time.Hour, End: 15 * time.Hour}),
				fires: map[string][]fire{"D1 warn": test.fires},
			}
			got, ok := p.incidents(detectorNamed(t, "D1 warn"), p.stretches())
			if !ok || got.Incidents != 1 {
				t.Fatalf("got %+v", got)
			}
			if got.Found != test.want.Found || got.Fires != test.want.Fires || !slices.Equal(got.Minutes, test.want.Minutes) ||
				got.CausesTold != test.want.CausesTold || got.CausesRight != test.want.CausesRight {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// Fires in quiet time are false, or on a real excess; those in incidents are neither.
func TestQuietScores(t *testing.T) {
	t.Parallel()
	p := &played{
		run: testRun(30), engines: 4,
		scenario: fleet.Scenario{Incident: fleet.Incident{Onset: 20 * time.Hour, End: 21 * time.Hour}},
		truth:    truth(30, fleet.Span{Begin: 10 * time.Hour, End: 11 * time.Hour}),
	}
	p.truth.Queues = []fleet.Span{{Begin: 28 * time.Hour, End: 28*time.Hour + time.Minute}}
	fires := []fire{
		{at: 5 * time.Hour}, {at: 10*time.Hour + 10*time.Minute}, // one on nothing, one on the excess
		{at: 22 * time.Hour},                                                            // the incident's
		{at: 26 * time.Hour}, {at: 29 * time.Hour}, {at: 23*time.Hour + 30*time.Minute}, // before the queue, after it, long before
	}
	p.fires = map[string][]fire{"D1 warn": fires, naiveTTFT: fires}
	weeks := 4 * (30 - 6 - 3) / (7 * 24.0) // less learning, and the incident with its two hours after
	for name, want := range map[string]QuietScore{
		"D1 warn": {False: 4, True: 1},
		naiveTTFT: {False: 3, True: 1}, // the one before the queue is followed by it
	} {
		got := p.quiet(detectorNamed(t, name), p.stretches())
		if got.False != want.False || got.True != want.True || got.ReplicaWeeks != weeks {
			t.Errorf("%s: got %+v, want %+v in %v replica-weeks", name, got, want, weeks)
		}
	}
}

// Of the queues of an incident the first counts, in quiet time those that are apart.
func TestQueueScores(t *testing.T) {
	t.Parallel()
	p := &played{
		run: testRun(60), engines: 4,
		scenario: fleet.Scenario{Incident: fleet.Incident{Onset: 50 * time.Hour}}, truth: truth(1),
	}
	span := func(begin, end time.Duration) fleet.Span { return fleet.Span{Begin: begin, End: end} }
	p.truth.Queues = []fleet.Span{
		span(10*time.Hour, 10*time.Hour+30*time.Minute), span(11*time.Hour, 12*time.Hour), // one
		span(20*time.Hour, 21*time.Hour),                        // two
		span(51*time.Hour, 52*time.Hour), span(54*time.Hour, 0), // three, of the incident
	}
	queues := p.queues(p.stretches())
	if want := []time.Duration{10 * time.Hour, 20 * time.Hour, 51 * time.Hour}; !slices.Equal(queues, want) {
		t.Fatalf("queues %v, want %v", queues, want)
	}
	score := p.leads("any", []fire{
		{at: 9*time.Hour + 30*time.Minute, end: 10 * time.Hour}, // half an hour before the first
		{at: 14 * time.Hour, end: 15 * time.Hour},               // speaks of none
		{at: 40 * time.Hour},                                    // still on: counts as four hours
	}, queues)
	if want := []float64{30, 240}; score.Queues != 3 || !slices.Equal(score.Leads, want) {
		t.Errorf("got %+v, want leads %v", score, want)
	}
}

func TestDemandScores(t *testing.T) {
	t.Parallel()
	p := &played{run: Run{Entry{growing, "A", 35 * 24 * time.Hour}, 1}, engines: 4, truth: truth(1)}
	p.fires = map[string][]fire{"D8": {{at: 21 * 24 * time.Hour}, {at: 28 * 24 * time.Hour}}}
	d := detectorNamed(t, "D8")
	if got := p.demand(d); got.Runs != 1 || got.Found != 1 || !slices.Equal(got.Days, []float64{21}) {
		t.Errorf("got %+v", got)
	}
	if got := p.quiet(d, nil); got.False != 0 {
		t.Errorf("where demand grows, %d fires are false", got.False)
	}
	p.run.Scenario = "demand_flat"
	if got := p.quiet(d, nil); got.False != 2 {
		t.Errorf("where it does not, %d fires are false", got.False)
	}
}
