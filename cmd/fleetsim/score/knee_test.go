package score

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kvwatch/cmd/fleetsim/fleet"
)

// ramp is a run whose load grows from hour 10 on, from 1 to 2 within 5 hours,
// with a sustained queue at hour 13 (or none), and estimates of that before.
func ramp(queue time.Duration) *played {
	p := &played{
		run:      Run{Entry{kneeRamp, "A", 20 * time.Hour}, 1},
		scenario: fleet.Scenario{Incident: fleet.Incident{Onset: 10 * time.Hour, Cause: fleet.CauseResidency}},
	}
	for at := time.Minute; at <= 20*time.Hour; at += time.Minute {
		load := 1 + min(max(0, (at-10*time.Hour).Hours()/5), 1)
		p.truth.Minutes = append(p.truth.Minutes, fleet.Minute{End: at, Engines: []fleet.EngineMinute{{LookedUp: uint64(1e6 * load)}}})
	}
	if queue > 0 {
		p.truth.Queues = []fleet.Span{{Begin: 9 * time.Hour, End: 9*time.Hour + time.Minute}, {Begin: queue}}
	}
	for at := time.Duration(0); at <= 20*time.Hour; at += readEvery {
		r := reading{at: at, headroom: 1.6, occupancy: 0.2}
		if at > 10*time.Hour {
			r.headroom, r.occupancy = 1, 0.9 // what is told later does not count
		}
		p.readings = append(p.readings, r)
	}
	return p
}

func TestKnee(t *testing.T) {
	t.Parallel()
	// From 12:20 to 12:50 the load is 1.467 to 1.567 times that before: 1.52.
	want := []KneeScore{
		{Subject{kneeRamp, "A", kneeHeadroom}, []float64{1.52}, []float64{1.05}},
		{Subject{kneeRamp, "A", kneeFull}, []float64{1.52}, []float64{3.29}},
		{Subject{kneeRamp, "A", kneeBusy}, []float64{1.52}, []float64{1.98}},
	}
	if diff := cmp.Diff(want, ramp(13*time.Hour).knees()); diff != "" {
		t.Error(diff)
	}
	if got := ramp(0).knees(); got != nil {
		t.Errorf("without a queue: %v", got)
	}
	few := ramp(13 * time.Hour)
	few.readings = few.readings[:90] // half an hour of the three
	if got := few.knees(); got != nil {
		t.Errorf("with few estimates: %v", got)
	}
	other := ramp(13 * time.Hour)
	other.run.Scenario = "affinity_random"
	if got := other.knees(); got != nil {
		t.Errorf("of another incident: %v", got)
	}
}

func TestKneeTarget(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ratios []float64
		got    string
		met    bool
	}{
		"near":          {[]float64{0.9, 1, 1.1}, "1.00 (0.92 to 1.08)", true},
		"one is far":    {[]float64{0.9, 1, 1.6}, "1.00 (0.92 to 1.48)", false},
		"all too small": {[]float64{0.7, 0.72, 0.75}, "0.72 (0.70 to 0.74)", false},
	} {
		r := Result{Knees: []KneeScore{{Subject{kneeRamp, "A", kneeHeadroom}, []float64{1.5}, test.ratios}}}
		if got, met := kneeWithin("A").measure(r); got != test.got || met != test.met {
			t.Errorf("%s: %q, %v, want %q, %v", name, got, met, test.got, test.met)
		}
		if got, _ := kneeWithin("B").measure(r); got != "" {
			t.Errorf("%s: of a profile that was not run: %q", name, got)
		}
	}
}
