package score

import (
	"slices"
	"time"

	"kvwatch/rules"
)

// readEvery is how often a run reads where the detectors stand.
const readEvery = 5 * time.Minute

// reading is where detectors stood at one time of a run; 0 is not known.
type reading struct {
	at time.Duration
	// headroom is D3's multiple of the load that the pool bears, occupancy the
	// mean number of prompts in prefill of one engine that it rests on.
	headroom, occupancy float64
	// noFit is D5's share of scrapes at which a usual call had no room; known
	// says that there is one.
	noFit      float64
	noFitKnown bool
}

// readings are those of a run, in order of time.
type readings []reading

// read adds where the detectors stand now.
func (r *readings) read(at time.Duration, all []rules.DetectorStatus) {
	now := reading{at: at}
	for _, d := range all {
		switch d.Alert {
		case "LoadHeadroomLow":
			now.headroom, _ = numberOf(d, "headroom")
			now.occupancy, _ = numberOf(d, "prefill_occupancy")
		case "KVSeatShortage":
			now.noFit, now.noFitKnown = numberOf(d, "no_fit_p50")
		}
	}
	*r = append(*r, now)
}

// numberOf is one of the numbers that a detector tells.
func numberOf(d rules.DetectorStatus, name string) (float64, bool) {
	i := slices.IndexFunc(d.Numbers, func(n rules.Number) bool { return n.Name == name })
	if i < 0 {
		return 0, false
	}
	return d.Numbers[i].Value, true
}
