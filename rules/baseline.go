package rules

import (
	"slices"
	"time"
)

const (
	// baselineHour is the covered time that one entry is made of, and
	// baselineTokens the prompted tokens, in heavy prompts, that it needs.
	baselineHour   = time.Hour
	baselineTokens = 32
	// baselineLimit is how long an entry may go on accumulating.
	baselineLimit = 24 * time.Hour
	// baselineRing is the number of entries kept, baselineValid how many make
	// the baseline valid, baselineFloor the least usual miss ratio.
	baselineRing  = 72
	baselineValid = 6
	baselineFloor = 0.02
)

// baseline is a pool's usual miss ratio: the median over hours of covered time.
// D1 counts tokens with it, D1r calls.
type baseline struct {
	Entries []float64 `json:"entries"`
	// Missed and Prompted (tokens or calls) and Covered (seconds) are of the
	// hour that is being filled.
	Missed   float64 `json:"missed"`
	Prompted float64 `json:"prompted"`
	Covered  float64 `json:"covered"`

	// middle is the median of the first ranked entries; each engine asks for it
	// at each tick.
	middle float64
	ranked int
}

// valid says whether enough was learned.
func (b *baseline) valid() bool { return len(b.Entries) >= baselineValid }

// usual is the usual miss ratio; it means nothing while it is not valid.
func (b *baseline) usual() float64 { return max(baselineFloor, b.median()) }

// median is that of the entries.
func (b *baseline) median() float64 {
	if b.ranked != len(b.Entries) {
		b.middle, b.ranked = median(b.Entries), len(b.Entries)
	}
	return b.middle
}

// add takes what a tick brought. need is what an hour must have of prompted, 0
// while that is unknown; scale is the rule's time_scale.
func (b *baseline) add(missed, prompted, covered, need, scale float64) {
	b.Missed += missed
	b.Prompted += prompted
	b.Covered += covered
	switch {
	case b.Covered >= baselineHour.Seconds()*scale && need > 0 && b.Prompted >= need:
		b.Entries = append(b.Entries, min(max(b.Missed/b.Prompted, 0), 1))
		if len(b.Entries) > baselineRing {
			b.Entries = slices.Delete(b.Entries, 0, len(b.Entries)-baselineRing)
		}
		b.ranked = 0
	case b.Covered < baselineLimit.Seconds()*scale:
		return
	}
	b.discard()
}

// discard throws the partial hour away.
func (b *baseline) discard() { b.Missed, b.Prompted, b.Covered = 0, 0, 0 }

// median is the middle value, or the mean of the two in the middle; 0 of none.
func median(values []float64) float64 {
	s := slices.Clone(values)
	slices.Sort(s)
	return sortedMedian(s)
}
