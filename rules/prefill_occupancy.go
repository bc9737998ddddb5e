package rules

import "time"

// prefillWindow is the span over which occupancy is told.
const prefillWindow = 10 * time.Minute

// occupancyCovered is the part of a window that pages must cover before an
// occupancy is told of it.
const occupancyCovered = 0.25

// prefillShare is the time that an engine's requests spent in prefill, and the
// time that was seen, over one window.
type prefillShare struct {
	// busy is the sum of (time to first token - queue time) over the requests
	// that got their first token, in seconds.
	busy float64
	// covered is in replica-seconds.
	covered float64
}

// ratio is occ = (d TTFT_sum - d queue_time_sum) / covered replica-seconds.
// Where an engine computes several prompts side by side it can be above 1.
func (p prefillShare) ratio() float64 { return p.busy / p.covered }

// prefillShare reads that of one engine; false where it is not known.
func (w unitWindow) prefillShare(d time.Duration) (prefillShare, bool) {
	if !w.Fresh() || !w.unit.hasHist(histTTFT) || !w.unit.hasHist(histQueueTime) {
		return prefillShare{}, false
	}
	first, queued := w.sums(histTTFT, d), w.sums(histQueueTime, d)
	// The sums are held as long as rules ask for them: after a reload that has them
	// ask for more they are of a part of the window for a while, and so is the time.
	from := max(w.ms-d.Milliseconds(), w.unit.target.middle.first())
	p := prefillShare{busy: max(first.sum-queued.sum, 0), covered: w.IncreaseIn(totalCovered, from, w.ms)}
	return p, first.possible() && queued.possible() && p.covered >= occupancyCovered*d.Seconds()
}

// sums is what a histogram gained in the window, without its buckets; of their
// bounds the highest alone.
func (w unitWindow) sums(h hist, d time.Duration) bucketCounts {
	return bucketCounts{bounds: w.unit.hists[h].highest(), sum: w.HistSum(h, d), count: w.HistCount(h, d)}
}

// prefillShare is that of the members which tell it, together.
func (w PoolWindow) prefillShare(d time.Duration) (all prefillShare, told int) {
	for _, u := range w.pool.members {
		if p, ok := w.engine(u).prefillShare(d); ok {
			all.busy += p.busy
			all.covered += p.covered
			told++
		}
	}
	return all, told
}

// aborted estimates how many of the window's first tokens were of requests
// that were aborted afterwards, whose queue time is then never told: first
// tokens, less the requests that finished, less those that run now and did not
// at its beginning. finished are those that finished.
func (w PoolWindow) aborted(d time.Duration) (aborted, finished float64) {
	for _, u := range w.pool.members {
		e := w.engine(u)
		running, okNow := e.Gauge(gaugeRunning)
		before, okBefore := e.gaugeAt(gaugeRunning, w.ms-d.Milliseconds())
		if _, ok := e.prefillShare(d); !ok || !okNow || !okBefore {
			continue
		}
		done := e.HistCount(histQueueTime, d)
		finished += done
		aborted += max(e.HistCount(histTTFT, d)-done-(running-before), 0)
	}
	return aborted, finished
}
