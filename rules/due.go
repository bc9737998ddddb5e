package rules

// due says whether what is the target's own, its series and its watches and
// those of its engines, is worked out at this tick: when it was scraped since
// the last time, when a scrape is overdue, and while one of its alerts is open.
// Between two scrapes nothing else changes, and a thousand engines are scraped
// a third at a time. Pools learn and are judged at every tick, see recordDue for
// their series.
func (t *target) due(n instant) bool {
	if t.lastScrape == t.judgedScrape && n.ms-t.judgedAt < t.freshOr(n.fresh).Milliseconds()/staleIntervals && !t.open {
		return false
	}
	t.judgedScrape, t.judgedAt = t.lastScrape, n.ms
	return true
}

// noteOpen notes whether one of the target's alerts is open or ended lately. It
// is asked when they were judged, so that a tick need not look at the watches of
// a thousand targets with which all is well.
func (t *target) noteOpen() {
	t.open = telling(t.watches)
	for _, u := range t.units {
		t.open = t.open || telling(u.watches)
	}
}

// telling says whether one of the watches has something to tell, or was never asked.
func telling(watches []*watch) bool {
	for _, w := range watches {
		if w.Alert != nil || len(w.Resolved) > 0 || w.last.phase == "" {
			return true
		}
	}
	return false
}

// dueTargets lists the targets that are due, in order of job and instance.
func (e *Engine) dueTargets(n instant) []*target {
	e.due = e.due[:0]
	for _, t := range e.sortedTargets() {
		if t.due(n) {
			e.due = append(e.due, t)
		}
	}
	return e.due
}
