package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

// assign gives new engines their pool, and new subjects their outputs and watches.
func (e *Engine) assign(n instant) {
	for _, t := range e.sortedTargets() {
		if t.outputs == nil && t.lastScrape > 0 {
			e.equipTarget(t)
		}
		for _, u := range t.units {
			switch {
			case u.engine == "":
				if u.outputs == nil {
					e.equipGateway(u)
				}
			case u.modelName == "" || u.pool != nil && u.pooledAs == u.modelName:
			default:
				e.leave(n, u)
				e.end(u.outputs)
				e.join(u)
			}
		}
	}
}

// join puts an engine into its pool.
func (e *Engine) join(u *unit) {
	p := e.poolFor(u)
	u.pool, u.pooledAs = p, u.modelName
	p.members = append(p.members, u)
	slices.SortFunc(p.members, func(a, b *unit) int { return strings.Compare(a.key(), b.key()) })
	p.check()
	u.outputs = make([]*output, len(e.derivations.engine))
	e.watchEngine(u)
}

// watchEngine gives an engine its watches.
func (e *Engine) watchEngine(u *unit) {
	subject := labels.NewBuilder(u.subject()).Set("pool", u.pool.name).Labels()
	window := func(n instant) EngineWindow { return n.engine(u) } // one for all of them
	u.watches = e.watchesOf(func(a *Alerting, s *settings) *watch {
		if a.Engine == nil {
			return nil
		}
		return watchOver(a, s, subject, a.Engine(s), window)
	})
	u.target.open = true
}

// leave takes an engine out of its pool.
func (e *Engine) leave(n instant, u *unit) {
	if u.pool == nil {
		return
	}
	u.pool.leave(u)
	u.pool = nil
	e.retire(n, u.watches, "the engine left its pool")
	u.watches = nil
}

// poolFor finds the pool that claims u, or makes its default pool.
func (e *Engine) poolFor(u *unit) *pool {
	claims := claiming(e.conf, u)
	switch len(claims) {
	case 0:
		return e.pool(u.target.job+"/"+u.modelName, nil, u.modelName)
	case 1:
	default:
		e.logger.Error("an engine is claimed by two pools: tell them apart by jobs or model_name; the first has it",
			"job", u.target.job, "instance", u.target.instance, "model_name", u.modelName, "pools", claims[0].Name+", "+claims[1].Name)
	}
	p := e.pool(claims[0].Name, claims[0], u.modelName)
	if len(claims) > 1 {
		p.claimed = fmt.Sprintf("%s is claimed by %q and by %q", u.target.instance, claims[0].Name, claims[1].Name)
	}
	return p
}

// claiming lists the configured pools that claim u.
func claiming(conf []PoolConfig, u *unit) []*PoolConfig {
	var claims []*PoolConfig
	for i := range conf {
		if conf[i].matches(u.target.job, u.modelName) {
			claims = append(claims, &conf[i])
		}
	}
	return claims
}

// pool finds or makes a pool.
func (e *Engine) pool(name string, conf *PoolConfig, modelName string) *pool {
	if p := e.pools[name]; p != nil {
		return p
	}
	p := &pool{
		name: name, conf: conf, modelName: modelName, journal: e.journal,
		excess: newCacheExcess(newExcessConfig(e.rules)),
		share:  newReprefillShare(newShareConfig(e.rules[reprefillShareHigh])),
		drift:  &cacheDrift{conf: newDriftConfig(e.rules[prefixCacheDrift])},
		noFit:  newNoFit(e.rules), headroom: newPoolHeadroom(name, e.rules),
	}
	p.price = e.prices[name]
	e.pools[name] = p
	if s, ok := e.remembered.Pools[name]; ok {
		if err := p.load(s); err != nil {
			e.logger.Error("what was learned of a pool cannot be read; it learns anew", "pool", name, "err", err)
		}
		delete(e.remembered.Pools, name)
	}
	e.equipPool(p)
	return p
}

// equipPool gives a pool its outputs and watches.
func (e *Engine) equipPool(p *pool) {
	p.outputs = make([]*output, len(e.derivations.pool))
	p.watches = e.watchesOf(func(a *Alerting, s *settings) *watch {
		if a.Pool == nil {
			return nil
		}
		return watchOver(a, s, p.subject(), a.Pool(s), func(n instant) PoolWindow { return n.pool(p) })
	})
}

// equipTarget gives a target its outputs and watches.
func (e *Engine) equipTarget(t *target) {
	t.outputs = make([]*output, len(e.derivations.target))
	e.watchTarget(t)
}

func (e *Engine) watchTarget(t *target) {
	subject := t.subject()
	window := func(n instant) TargetWindow { return n.target(t) } // one for all of them
	t.watches = e.watchesOf(func(a *Alerting, s *settings) *watch {
		if a.Target == nil {
			return nil
		}
		return watchOver(a, s, subject, a.Target(s), window)
	})
	t.open = true
}

// watchFleet makes the watches over all that is watched.
func (e *Engine) watchFleet() {
	e.fleet = e.watchesOf(func(a *Alerting, s *settings) *watch {
		if a.Fleet == nil {
			return nil
		}
		return watchOver(a, s, labels.EmptyLabels(), a.Fleet(s), e.fleetWindow)
	})
}

// watchesOf makes a watch of each rule that is on and for which newWatch makes
// one; each takes up what the state file knows of it.
func (e *Engine) watchesOf(newWatch func(*Alerting, *settings) *watch) []*watch {
	var watches []*watch
	for _, name := range alertNames() {
		s := e.rules[name]
		if s.disabled {
			continue
		}
		if w := newWatch(alertings[name], s); w != nil {
			e.takeUp(w)
			watches = append(watches, w)
		}
	}
	return watches
}

// equipGateway gives a gateway its outputs.
func (e *Engine) equipGateway(u *unit) {
	u.outputs = make([]*output, len(e.derivations.gateway))
	e.watchGateway(u)
}

// watchGateway gives a gateway its watches.
func (e *Engine) watchGateway(u *unit) {
	subject := u.target.subject()
	u.watches = e.watchesOf(func(a *Alerting, s *settings) *watch {
		if a.Gateway == nil {
			return nil
		}
		return watchOver(a, s, subject, a.Gateway(s), func(n instant) GatewayWindow { return n.gateway(u) })
	})
	u.target.open = true
}

// takeUp gives a watch what the state file knows of it.
func (e *Engine) takeUp(w *watch) {
	s, ok := e.remembered.Watches[w.key()]
	if !ok {
		return
	}
	delete(e.remembered.Watches, w.key())
	w.watchState = s.watchState
	if w.keeper == nil || s.Detector == nil {
		return
	}
	if err := w.keeper.load(s.Detector); err != nil {
		e.logger.Error("what a detector learned cannot be read; it learns anew", "alert", w.about(), "err", err)
	}
}
