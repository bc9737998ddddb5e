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
type baseline struct {
	Entries []float64 `json:"entries"`
	// Missed and Prompted (tokens) and Covered (seconds) are of the hour that
	// is being filled.
	Missed   float64 `json:"missed"`
	Prompted float64 `json:"prompted"`
	Covered  float64 `json:"covered"`
}

// valid says whether enough was learned.
func (b *baseline) valid() bool { return len(b.Entries) >= baselineValid }

// usual is the usual miss ratio; it means nothing while it is not valid.
func (b *baseline) usual() float64 { return max(baselineFloor, median(b.Entries)) }

// add takes what a tick brought. heavy is P in tokens, 0 while it is unknown;
// scale is the rule's time_scale.
func (b *baseline) add(missed, prompted, covered, heavy, scale float64) {
	b.Missed += missed
	b.Prompted += prompted
	b.Covered += covered
	switch {
	case b.Covered >= baselineHour.Seconds()*scale && heavy > 0 && b.Prompted >= baselineTokens*heavy:
		b.Entries = append(b.Entries, min(max(b.Missed/b.Prompted, 0), 1))
		if len(b.Entries) > baselineRing {
			b.Entries = slices.Delete(b.Entries, 0, len(b.Entries)-baselineRing)
		}
	case b.Covered < baselineLimit.Seconds()*scale:
		return
	}
	b.discard()
}

// discard throws the partial hour away.
func (b *baseline) discard() { b.Missed, b.Prompted, b.Covered = 0, 0, 0 }

// median is the middle value, or the mean of the two in the middle; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Clone(values)
	slices.Sort(s)
	m := len(s) / 2
	if len(s)%2 == 1 {
		return s[m]
	}
	return (s[m-1] + s[m]) / 2
}
