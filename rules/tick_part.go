package rules

import (
	"runtime"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/errgroup"
)

// tickPart is what of a tick can be worked out beside the other parts: a pool and
// the targets whose engines are all in it. All that is asked about a pool is
// asked in one go, while its members' windows are at hand.
type tickPart struct {
	pools   []*pool
	targets []*target // those that are due
	batch   batch
}

// divide makes a part of each pool with its own targets, and one, last, of what
// belongs to no pool, as gateways, and of pools that share a page.
func (e *Engine) divide(due []*target) []*tickPart {
	pools := e.sortedPools()
	for _, p := range pools {
		p.sharesPage = false
		p.part.pools, p.part.targets = append(p.part.pools[:0], p), p.part.targets[:0]
	}
	for _, t := range e.sortedTargets() {
		t.markShared()
	}
	rest := &e.rest
	rest.pools, rest.targets = rest.pools[:0], rest.targets[:0]
	for _, t := range due {
		own := rest
		if p := t.pool(); p != nil && !p.sharesPage {
			own = &p.part
		}
		own.targets = append(own.targets, t)
	}
	e.parts = e.parts[:0]
	for _, p := range pools {
		if p.sharesPage {
			rest.pools = append(rest.pools, p)
		} else {
			e.parts = append(e.parts, &p.part)
		}
	}
	e.parts = append(e.parts, rest)
	return e.parts
}

// markShared marks the pools of a page that has engines of several.
func (t *target) markShared() {
	first := t.pool()
	for _, u := range t.units {
		if u.pool != nil && u.pool != first {
			first.sharesPage, u.pool.sharesPage = true, true
		}
	}
}

// evaluate works out all parts, those of pools side by side.
func (e *Engine) evaluate(n instant, due []*target) {
	parts := e.divide(due)
	pools, rest := parts[:len(parts)-1], parts[len(parts)-1]
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, p := range pools {
		group.Go(func() error {
			e.evaluatePart(n, p)
			return nil
		})
	}
	_ = group.Wait() // none fails
	e.evaluatePart(n, rest)
}

// evaluatePart lets the pools learn and evaluates the series: first those of
// the targets and their engines, then those of pools, which rest on them. Then
// it asks the detectors.
func (e *Engine) evaluatePart(n instant, p *tickPart) {
	for _, pool := range p.pools {
		pool.tick(n.pool(pool))
	}
	p.batch.reset()
	if !e.opts.AlertsOnly {
		e.record(n, p)
	}
	for _, pool := range p.pools {
		e.judge(n, pool.watches, nil)
	}
	for _, t := range p.targets {
		e.judge(n, t.watches, t)
		for _, u := range t.units {
			e.judge(n, u.watches, nil)
		}
		t.noteOpen()
	}
}

// record works out the series of the part.
func (e *Engine) record(n instant, p *tickPart) {
	for _, t := range p.targets {
		derive(&p.batch, n.target(t), e.derivations.target, t.outputs, t.subject)
		for _, u := range t.units {
			if u.engine == "" {
				derive(&p.batch, n.gateway(u), e.derivations.gateway, u.outputs, t.subject)
			} else {
				derive(&p.batch, n.engine(u), e.derivations.engine, u.outputs, u.subject)
			}
		}
	}
	for _, pool := range p.pools {
		if pool.recordDue(n) {
			derive(&p.batch, n.pool(pool), e.derivations.pool, pool.outputs, pool.subject)
		}
	}
}

// recordDue says whether the pool's series are worked out at this tick: once in
// a scrape interval, since members that are scraped one after another would
// else have them worked out anew at every tick. Each pool has its own moment.
func (p *pool) recordDue(n instant) bool {
	interval := p.interval(n.interval).Milliseconds()
	switch {
	case p.recordedAt == 0:
		p.recordedAt = n.ms - int64(xxhash.Sum64String(p.name)%uint64(interval))
		return true
	case n.ms-p.recordedAt < interval*4/5: // ticks are not on the millisecond
		return false
	}
	p.recordedAt = n.ms
	return true
}
