package rules

import "slices"

// peakSlots is how many slots of time the highest value of a day is kept by.
const peakSlots = 24

// queuePeak is the highest value of the last day, by hours: as cheap as one
// number for each, and never older than 24.
type queuePeak struct {
	// Slot numbers the hour that is running, Peaks are the hours' highest
	// values, the running one last.
	Slot  int64     `json:"slot"`
	Peaks []float64 `json:"peaks"`
}

// note takes a value; slot is the number of the hour that is running.
func (p *queuePeak) note(slot int64, v float64) {
	for ; p.Slot < slot && len(p.Peaks) > 0; p.Slot++ {
		p.Peaks = append(p.Peaks, 0)
		if len(p.Peaks) > peakSlots {
			p.Peaks = p.Peaks[1:]
		}
		if p.Slot+peakSlots < slot { // all that is kept is too old
			p.Peaks = p.Peaks[:0]
		}
	}
	if len(p.Peaks) == 0 {
		p.Slot, p.Peaks = slot, []float64{v}
		return
	}
	last := &p.Peaks[len(p.Peaks)-1]
	*last = max(*last, v)
}

// highest is the highest value, 0 of none.
func (p *queuePeak) highest() float64 {
	if len(p.Peaks) == 0 {
		return 0
	}
	return slices.Max(p.Peaks)
}
