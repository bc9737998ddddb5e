package review

import (
	"time"

	"kvwatch/rules/sizing"
)

// queuedShare is the share of the engines' time in which requests wait, over two
// slots, from which on a queue is sustained.
const queuedShare = 0.4

// measureLead finds how long after an incident about the pool fired a sustained
// queue came, to five minutes; it is 0 within one. A queue counts once it has
// lasted for two slots.
func (i *Incident) measureLead(pool string, slots []sizing.Slot) {
	if i.Pool != pool {
		return
	}
	for n := 1; n < len(slots); n++ {
		before, s := slots[n-1], slots[n]
		end := s.Start.Add(sizing.SlotLength)
		if !end.After(i.FiredAt) || s.Start.Sub(before.Start) != sizing.SlotLength {
			continue
		}
		if engines := before.EngineSeconds + s.EngineSeconds; engines > 0 && before.QueuedSeconds+s.QueuedSeconds >= queuedShare*engines {
			lead := time.Duration(0)
			if s.Start.After(i.FiredAt) {
				lead = end.Sub(i.FiredAt)
			}
			i.LeadSeconds = new(lead.Seconds())
			return
		}
	}
}
