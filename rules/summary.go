package rules

import "math"

const (
	reasonFewSamples = "fewer than 5 observations in 5 minutes"
	reasonImpossible = "the window holds impossible intervals (an engine that was paused or shut down records those)"
	reasonBelow      = "some quantiles lie in the lowest bucket and are at most what is told, its bound"
	reasonAboveTop   = "some quantiles lie above the last finite bucket and are not told"
)

// engineSummary tells the last five minutes of one of the unit's histograms.
func (w unitWindow) summary(h hist, from string) Result {
	f := w.unit.hists[h]
	if f == nil || !w.unit.hasHist(h) || !w.Fresh() {
		return w.absent("the page has no " + from)
	}
	b := w.buckets(h, summaryWindow)
	switch {
	case b.count < minRequests:
		return w.absent(reasonFewSamples)
	case !b.possible():
		return w.absent(reasonImpossible)
	}
	r := w.known(0, summaryWindow, from)
	r.Summary = &Summary{Quantiles: b.summary(), Sum: f.sum + f.sumSkipped, Count: uint64(math.Round(f.count + f.countSkipped))}
	return r.noteEnds(b)
}

// noteEnds says when quantiles lie above the highest bound or below the lowest.
func (r Result) noteEnds(b bucketCounts) Result {
	switch qs := r.Summary.Quantiles; {
	case r.Reason != "":
	case len(qs) < quantiles:
		r.Reason = reasonAboveTop
	case qs[0].Value <= b.bounds[0]:
		r.Reason = reasonBelow
	}
	return r
}

// summary tells the same of all members together; those with other bounds than
// the first are left out.
func (w PoolWindow) summary(h hist, from string) Result {
	var all bucketCounts
	var s Summary
	told, count := 0, 0.0
	for _, u := range w.pool.members {
		e := w.engine(u)
		f := u.hists[h]
		if f == nil || !u.hasHist(h) || !e.Fresh() {
			continue
		}
		b := e.buckets(h, summaryWindow)
		if !b.possible() || !all.add(b) {
			continue
		}
		told++
		s.Sum += f.sum + f.sumSkipped
		count += f.count + f.countSkipped
	}
	switch {
	case told == 0:
		return w.absent("no engine of the pool has " + from)
	case all.count < minRequests:
		return w.absent(reasonFewSamples)
	}
	s.Quantiles, s.Count = all.summary(), uint64(math.Round(count))
	r := w.known(0, summaryWindow, told, from)
	r.Summary = &s
	return r.noteEnds(all)
}
