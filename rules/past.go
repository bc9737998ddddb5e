package rules

import (
	"strings"
	"time"
)

const (
	// pastBin is the time that one value of a detector's past stands for, and
	// pastBins how many are kept: six hours.
	pastBin  = 5 * time.Minute
	pastBins = 72
)

// past is how near a detector came to firing over the last hours: the largest
// share of its threshold in each bin. It begins anew with a restart.
type past struct {
	bins []PastShare
}

// PastShare is how near a detector came to firing within one stretch of time.
type PastShare struct {
	// At is when the stretch began.
	At time.Time `json:"at"`
	// Share is the judged number over its threshold, the largest of the stretch.
	Share float64 `json:"share"`
}

// note takes the numbers of a verdict; those without a threshold are not noted.
func (p *past) note(now time.Time, numbers []Number, scale float64) {
	share, ok := thresholdShare(numbers)
	if !ok {
		return
	}
	at := now.Truncate(max(scaled(pastBin, scale), time.Second))
	if n := len(p.bins); n > 0 && !at.After(p.bins[n-1].At) {
		p.bins[n-1].Share = max(p.bins[n-1].Share, share)
		return
	}
	if len(p.bins) == pastBins {
		copy(p.bins, p.bins[1:])
		p.bins = p.bins[:pastBins-1]
	}
	p.bins = append(p.bins, PastShare{At: at, Share: share})
}

// thresholdShare is the judged number over its threshold: threshold_<what>
// belongs to the first other number of its unit.
func thresholdShare(numbers []Number) (share float64, ok bool) {
	for i, t := range numbers {
		if !strings.HasPrefix(t.Name, "threshold") || t.Value <= 0 {
			continue
		}
		for j, n := range numbers {
			if j != i && n.Unit == t.Unit {
				return n.Value / t.Value, true
			}
		}
	}
	return 0, false
}
