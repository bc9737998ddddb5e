package rules

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Reload swaps pools, overrides and the global scrape interval (0 is 15 s);
// windows, what was learned and open alerts stay. A failed reload changes nothing.
func (e *Engine) Reload(pools []PoolConfig, overrides map[string]Override, scrapeInterval time.Duration) error {
	resolved, err := resolveRules(overrides)
	if err := errors.Join(checkPools(pools), err); err != nil {
		return err
	}
	e.evalMu.Lock()
	defer e.evalMu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.checkClaims(pools); err != nil {
		return err
	}
	state, err := e.state()
	if err != nil {
		return err
	}
	live := e.allWatches()
	// Nothing can fail from here on. Pools and watches are made anew, as after
	// a restart, and take up what was known under their names.
	for _, p := range e.pools {
		e.end(p.outputs)
	}
	e.rules, e.conf, e.remembered = resolved, slices.Clone(pools), state
	e.setInterval(scrapeInterval)
	clear(e.pools)
	for _, t := range e.sortedTargets() {
		for _, u := range t.units {
			if u.engine != "" {
				e.end(u.outputs)
				u.pool, u.pooledAs, u.outputs, u.watches = nil, "", nil, nil
			} else if u.outputs != nil {
				e.watchGateway(u)
			}
		}
		if t.outputs != nil {
			e.watchTarget(t)
		}
	}
	e.watchFleet()
	for _, p := range e.plans {
		e.watchPlan(p)
	}
	for _, r := range e.receivers {
		e.watchReceiver(r)
	}
	e.assign(e.instant(e.now))
	e.endOrphans(live)
	return nil
}

// setInterval takes the global scrape interval, and lets windows reach as far as
// rules ask for with it.
func (e *Engine) setInterval(d time.Duration) {
	if d <= 0 {
		d = defaultInterval
	}
	e.opts.ScrapeInterval, e.fresh = d, freshFor(d)
	for _, t := range e.targets {
		t.middleWindow = middleWindow(e.rules)
		t.reach(d)
	}
}

// endOrphans resolves the alerts of watches that the new settings have no more.
func (e *Engine) endOrphans(old []*watch) {
	for _, w := range old {
		s, ok := e.remembered.Watches[w.key()]
		if !ok || s.Alert == nil {
			continue
		}
		s.end(e.now, about(s.Alert.Name, s.Alert.Labels)+" ended: the configuration has it no more")
		e.remembered.Watches[w.key()] = s
	}
}

// checkClaims finds the engines that two pools would claim.
func (e *Engine) checkClaims(pools []PoolConfig) error {
	var errs []error
	for _, t := range e.sortedTargets() {
		for _, u := range t.units {
			if claims := claiming(pools, u); u.modelName != "" && len(claims) > 1 {
				errs = append(errs, fmt.Errorf("pools: %q and %q both claim the engine %s of job %s: tell them apart by jobs or model_name",
					claims[0].Name, claims[1].Name, t.instance, t.job))
			}
		}
	}
	return errors.Join(errs...)
}
