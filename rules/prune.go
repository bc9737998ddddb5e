package rules

import (
	"maps"
	"time"

	"kvwatch/collector"
)

const (
	// pruneEvery is how often a target forgets the series that are gone.
	pruneEvery = 10 * time.Minute
	// learnedKept is how long what was learned of a pool outlives its last engine.
	learnedKept = 30 * 24 * time.Hour
)

// prune forgets the series that were last seen before oldest, in Unix
// milliseconds: clients and labels may make new ones without end. What they
// added stays in the windows.
func (t *target) prune(oldest int64) {
	maps.DeleteFunc(t.byLabels, func(_ uint64, s *slot) bool { return s.seen < oldest })
	// Those that no rule reads share a slot; the ones still there find it again.
	maps.DeleteFunc(t.slots, func(_ *collector.Series, s *slot) bool { return s.seen < oldest || s == t.ignored || s == t.aside })
	// One that had no number yet has no time, but series that go on.
	shown := map[*histChild]bool{}
	for _, s := range t.slots {
		shown[s.child] = true
	}
	maps.DeleteFunc(t.children, func(_ uint64, c *histChild) bool { return c.at < oldest && !shown[c] })
	used := map[*served]bool{}
	for _, s := range t.byLabels {
		if s.gateway != nil {
			used[s.gateway.served] = true
		}
	}
	maps.DeleteFunc(t.served, func(_ string, s *served) bool { return !used[s] })
}

// dropEmptyPools ends the default pools that have no engine any more. What was
// learned of them is kept for a while, for engines that come back.
func (e *Engine) dropEmptyPools(n instant) error {
	for name, p := range e.pools {
		if p.conf != nil || len(p.members) > 0 {
			continue
		}
		learned, err := p.state()
		if err != nil {
			return err
		}
		learned.Left = n.now
		e.remembered.Pools[name] = learned
		e.retire(n, p.watches, "the pool has no engine any more")
		e.end(p.outputs)
		delete(e.pools, name)
	}
	maps.DeleteFunc(e.remembered.Pools, func(_ string, s poolState) bool {
		return !s.Left.IsZero() && n.now.Sub(s.Left) > learnedKept
	})
	return nil
}

// retire ends the alerts of watches whose subject went; what their detectors
// learned is kept for a while, for a subject that comes back.
func (e *Engine) retire(n instant, watches []*watch, why string) {
	for _, w := range watches {
		if w.Alert != nil {
			w.end(n.now, w.about()+" ended: "+why)
		}
		saved, err := w.saved()
		if err != nil {
			e.logger.Error("what a detector learned is lost with its subject", "err", err)
			continue
		}
		if saved != nil {
			saved.Left = n.now
			e.remembered.Watches[w.key()] = *saved
		}
	}
}
