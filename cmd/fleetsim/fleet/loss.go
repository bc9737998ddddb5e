package fleet

import (
	"math/rand/v2"
	"time"
)

// loss is how a scenario loses pages on their way: single ones, and all of one
// target's for a while. Which ones depends on the seed and on the time only, so
// that looking changes nothing.
type loss struct {
	seed uint64
	// share is that of the single pages, 0 to 1.
	share float64
	// outages are, for each target, spans in time order.
	outages [][]Span
}

// Span is a stretch of simulated time.
type Span struct {
	Begin, End time.Duration
}

// newLoss draws the outages of so many targets up to a time: one in some 12
// hours, of 3 to 20 minutes.
func newLoss(seed uint64, targets int, share float64, until time.Duration) *loss {
	l := &loss{seed: seed, share: share}
	random := rand.New(rand.NewPCG(seed, lossStream))
	for range targets {
		var outages []Span
		for at := time.Duration(0); ; {
			at += time.Duration(random.ExpFloat64() * float64(12*time.Hour))
			if at > until {
				break
			}
			end := at + 3*time.Minute + time.Duration(random.Float64()*float64(17*time.Minute))
			outages = append(outages, Span{at, end})
			at = end
		}
		l.outages = append(l.outages, outages)
	}
	return l
}

// takes says whether the page of a target is lost at a time. Nothing is lost
// without a loss.
func (l *loss) takes(target int, now time.Duration) bool {
	if l == nil {
		return false
	}
	for _, o := range l.outages[target] {
		if now >= o.Begin && now < o.End {
			return true
		}
	}
	// One draw for each target and time, whoever asks and how often.
	draw := rand.NewPCG(l.seed^uint64(target)<<48, uint64(now))
	draw.Uint64()
	return float64(draw.Uint64()>>11)/(1<<53) < l.share
}
