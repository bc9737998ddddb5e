package rules

import "time"

// refused counts the calls for one model that a gateway's deployments answered
// with 503: what vLLM does when its queue is at its cap, and before 0.32 the
// only place where that shows with its code.
type refused struct {
	column column
	// sum is what was added since the first page.
	sum float64
}

// mostRefused bounds how many models are told apart: clients may ask for any.
const mostRefused = 256

// refusedFor finds or makes the count of a model.
func (t *target) refusedFor(model string) *refused {
	if t.refused == nil {
		t.refused = map[string]*refused{}
	}
	if len(t.refused) >= mostRefused {
		model = ""
	}
	if t.refused[model] == nil {
		t.refused[model] = &refused{column: t.short.addCount()}
	}
	return t.refused[model]
}

// refusedBy is one gateway's count of a pool.
type refusedBy struct {
	gateway *target
	count   *refused
}

// tickRefused gives each pool the counts of the models that it alone serves.
func (e *Engine) tickRefused() {
	for _, p := range e.pools {
		p.refused = p.refused[:0]
	}
	for _, t := range e.sortedTargets() {
		for asked, r := range t.refused {
			if p := e.pools[e.claimCall(servedModel{group: asked})]; p != nil {
				p.refused = append(p.refused, refusedBy{t, r})
			}
		}
	}
}

// in counts those of (from, to]. Several pools ask one gateway at once.
func (r refusedBy) in(from, to time.Time) float64 {
	r.gateway.mu.Lock()
	defer r.gateway.mu.Unlock()
	return r.gateway.short.increase(r.count.column, from.UnixMilli(), to.UnixMilli())
}

// refusedIn counts the pool's calls that an engine answered with 503 in
// (from, to], as gateways count them that are read and not several workers in
// turn.
func (w PoolWindow) refusedIn(from, to time.Time) float64 {
	n := 0.0
	for _, r := range w.pool.refused {
		if w.ms-r.gateway.lastGood <= r.gateway.freshOr(w.fresh).Milliseconds() && !r.gateway.turns {
			n += r.in(from, to)
		}
	}
	return n
}
