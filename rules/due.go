package rules

// due says whether what is the target's own, its series and its watches and
// those of its engines, is worked out at this tick: when it was scraped since
// the last time, when a scrape is overdue, and while one of its alerts is open.
// Between two scrapes nothing else changes, and a thousand engines are scraped
// a third at a time. Pools are worked out at every tick.
func (t *target) due(n instant) bool {
	if t.lastScrape == t.judgedScrape && n.ms-t.judgedAt < t.freshOr(n.fresh).Milliseconds()/staleIntervals && !t.attended() {
		return false
	}
	t.judgedScrape, t.judgedAt = t.lastScrape, n.ms
	return true
}

// attended says that one of the target's alerts is open, or one of its watches
// was never asked.
func (t *target) attended() bool {
	attended := func(watches []*watch) bool {
		for _, w := range watches {
			if w.Alert != nil || w.verdict.Phase == "" {
				return true
			}
		}
		return false
	}
	if attended(t.watches) {
		return true
	}
	for _, u := range t.units {
		if attended(u.watches) {
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
