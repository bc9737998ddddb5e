package rules

import "time"

// throughout says whether the gauge was as it should be on every page of the
// window that ends now, and whether there are pages for so long. A window
// shorter than two intervals is stretched to them.
func (w unitWindow) throughout(g gauge, d time.Duration, holds func(float64) bool) bool {
	r, column := w.unit.target.short, w.unit.gauges[g].column
	from := w.ms - w.atLeastTwo(d).Milliseconds()
	if column.number == 0 || r.n == 0 || r.time(r.start) > from+w.interval().Milliseconds() {
		return false // not seen for so long
	}
	for i := r.upTo(from); i < r.n; i++ {
		if !holds(r.get(column, r.slot(i))) { // NaN where the page did not have it
			return false
		}
	}
	return true
}

// interval is the time between two pages, 5 seconds where they come faster.
func (w unitWindow) interval() time.Duration { return w.fresh / staleIntervals }

// atLeastTwo stretches a window to two intervals.
func (w unitWindow) atLeastTwo(d time.Duration) time.Duration { return max(d, 2*w.interval()) }
