package score

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kvwatch/cmd/fleetsim/fleet"
)

// queueing is a run of three hours in which 100 calls come in a minute and two
// engines let 10 and 20 of them wait; told is D5's share every half hour.
func queueing(profile string, told ...float64) *played {
	p := &played{run: Run{Entry{healthy, profile, 3 * time.Hour}, 1}}
	for at := time.Minute; at <= p.run.Length; at += time.Minute {
		p.truth.Minutes = append(p.truth.Minutes, fleet.Minute{End: at, Engines: []fleet.EngineMinute{{Admitted: 50, Delayed: 10}, {Admitted: 50, Delayed: 20}}})
	}
	for i, share := range told {
		p.readings = append(p.readings, reading{at: time.Duration(i) * calibrated, noFit: share, noFitKnown: true},
			reading{at: time.Duration(i)*calibrated + readEvery, noFit: 1, noFitKnown: true}) // between two that count
	}
	return p
}

func TestCalibration(t *testing.T) {
	t.Parallel()
	// The last one has no half hour after it, the first is too small to tell.
	score, ok := queueing("C", 0.01, 0.1, 0.2, 0.4, 0.5, 0.2, 0.9).calibration()
	want := CalibrationScore{Subject{healthy, "C", "D5"}, []CalibrationBin{
		{Calls: 3000, Queued: 900, Told: 300},
		{Calls: 6000, Queued: 1800, Told: 1200},
		{Calls: 6000, Queued: 1800, Told: 2700},
	}}
	if diff := cmp.Diff(want, score); diff != "" || !ok {
		t.Error(diff)
	}
	if _, ok := queueing("A", 0.1).calibration(); ok {
		t.Error("a profile with room is calibrated")
	}
	unknown := queueing("C", 0.2)
	unknown.readings[0].noFitKnown = false
	if score, _ := unknown.calibration(); score.Bins[1].Calls != 0 {
		t.Errorf("what is not known is counted: %v", score)
	}
}

func TestCalibrationTarget(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bins []CalibrationBin
		got  string
		met  bool
	}{
		"true":            {[]CalibrationBin{{Calls: 2000, Queued: 200, Told: 180}, {Calls: 2000, Queued: 500, Told: 600}}, "0.83 to 1.11", true},
		"too small":       {[]CalibrationBin{{Calls: 2000, Queued: 400, Told: 200}}, "2.00 to 2.00", false},
		"too large":       {[]CalibrationBin{{Calls: 2000, Queued: 100, Told: 200}}, "0.50 to 0.50", false},
		"too few to tell": {[]CalibrationBin{{Calls: 900, Queued: 400, Told: 200}}, "", false},
	} {
		r := Result{Calibration: []CalibrationScore{{Subject{healthy, "C", "D5"}, test.bins}}}
		if got, met := calibratedWithin().measure(r); got != test.got || met != test.met {
			t.Errorf("%s: %q, %v, want %q, %v", name, got, met, test.got, test.met)
		}
	}
}
