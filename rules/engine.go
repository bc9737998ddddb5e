package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"kvwatch/collector"
)

const (
	// defaultInterval is the scrape interval when none is given.
	defaultInterval = 15 * time.Second
	// staleIntervals is how many scrapes may be missed before a target is stale.
	staleIntervals = 3
	// leastFresh is the least time that a page stays fresh.
	leastFresh = 15 * time.Second
	// saveEvery is how often the state file is written when no alert changed.
	saveEvery = 30 * time.Second
	// storedAtOnce is how many derived samples are stored in one go.
	storedAtOnce = 2000
)

// Engine keeps the windows, derives the series and judges them. All methods
// are safe for concurrent use.
type Engine struct {
	opts   Options
	logger *slog.Logger

	// evalMu serialises Eval, and protects batches and what was saved last. batch is
	// what a tick stores beside its parts; atOnce is reused by append.
	evalMu  sync.Mutex
	batch   batch
	atOnce  []collector.Sample
	savedAt time.Time
	saved   string

	// mu protects what follows. Observe holds it for reading and the target's
	// own lock, everything else for writing.
	mu sync.RWMutex
	// fresh is how long a page speaks of now at the global scrape interval.
	fresh time.Duration
	rules map[string]*settings
	pools map[string]*pool
	conf  []PoolConfig
	// targets is by job and instance; byPointer finds them without building a key.
	targets map[targetKey]*target
	inOrder []*target
	due     []*target // of the last tick; reused
	// parts are those of the last tick, rest the one of all that is of no pool.
	parts     []*tickPart
	rest      tickPart
	byPointer map[*collector.Target]*target
	// fleet are the watches over all that is watched.
	fleet []*watch
	// plans are the sizing plans by name, prices what their engines cost, by pool.
	plans  map[string]*plan
	prices map[string]*EnginePrice
	// receivers are the integrations that are told of alerts.
	receivers map[receiverKey]*receiver
	// remembered holds what the state file knows of pools and watches that
	// did not appear yet, by name and key.
	remembered savedState
	sessions   sessions
	journal    *journal
	started    time.Time
	// derivations are the series that subjects may have.
	derivations derivations
	// own are the series that the engine makes itself, by their labels.
	own map[alertCount]*output
	// gone are outputs whose subject went; their series end at the next Eval.
	gone []*output
	now  time.Time
}

type targetKey struct{ job, instance string }

// instant is the time of an Eval, in the forms that windows need. fresh and
// interval are those of targets without an interval of their own.
type instant struct {
	now      time.Time
	ms       int64
	fresh    time.Duration
	interval time.Duration
}

func (e *Engine) instant(now time.Time) instant {
	return instant{now: now, ms: now.UnixMilli(), fresh: e.fresh, interval: e.opts.ScrapeInterval}
}

func (n instant) unit(u *unit) unitWindow {
	return unitWindow{now: n.now, ms: n.ms, fresh: u.target.freshOr(n.fresh), unit: u}
}

func (n instant) engine(u *unit) EngineWindow {
	return EngineWindow{unitWindow: n.unit(u), pool: u.pool}
}

func (n instant) pool(p *pool) PoolWindow {
	return PoolWindow{now: n.now, ms: n.ms, fresh: n.fresh, interval: p.interval(n.interval), pool: p}
}

func (n instant) gateway(u *unit) GatewayWindow { return GatewayWindow{unitWindow: n.unit(u)} }

func (n instant) target(t *target) TargetWindow {
	return TargetWindow{now: n.now, ms: n.ms, fresh: t.freshOr(n.fresh), target: t, pool: t.pool()}
}

// New makes an Engine and loads its state file. It fails when pools or
// overrides are wrong, or when the state file cannot be read.
func New(o Options) (*Engine, error) {
	resolved, err := resolveRules(o.Rules)
	if err := errors.Join(checkPools(o.Pools), err); err != nil {
		return nil, err
	}
	if o.ScrapeInterval <= 0 {
		o.ScrapeInterval = defaultInterval
	}
	e := &Engine{
		opts: o, logger: o.Logger, fresh: freshFor(o.ScrapeInterval),
		rules: resolved, conf: slices.Clone(o.Pools), pools: map[string]*pool{},
		targets: map[targetKey]*target{}, byPointer: map[*collector.Target]*target{},
		derivations: allDerivations(), own: map[alertCount]*output{}, plans: map[string]*plan{}, receivers: map[receiverKey]*receiver{},
	}
	if e.logger == nil {
		e.logger = slog.New(slog.DiscardHandler)
	}
	var skipped int
	var errJournal error
	e.remembered, err = loadState(o.StateFile)
	e.journal, skipped, errJournal = openJournal(o.Journal)
	if err := errors.Join(err, errJournal); err != nil {
		return nil, err
	}
	if skipped > 0 {
		e.logger.Warn("the journal of events has lines that cannot be read; they are skipped", "file", o.Journal, "lines", skipped)
	}
	e.watchFleet()
	return e, nil
}

// Observe takes what one scrape yielded into the windows. It keeps no slice of r.
func (e *Engine) Observe(r *collector.Round) {
	e.mu.RLock()
	t := e.byPointer[r.Target]
	if t == nil {
		e.mu.RUnlock()
		t = e.addTarget(r.Target)
		e.mu.RLock()
	}
	defer e.mu.RUnlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.observe(r)
}

// addTarget finds or makes the target of a pointer that was not seen yet.
func (e *Engine) addTarget(c *collector.Target) *target {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.targetFor(c.Labels.Get("job"), c.Labels.Get("instance"))
	for old, at := range e.byPointer {
		if at == t {
			delete(e.byPointer, old)
		}
	}
	e.byPointer[c] = t
	return t
}

func (e *Engine) targetFor(job, instance string) *target {
	key := targetKey{job, instance}
	t := e.targets[key]
	if t == nil {
		t = newTarget(job, instance, e.opts.ScrapeInterval, middleWindow(e.rules))
		e.targets[key] = t
		e.inOrder = nil
	}
	return t
}

// Eval runs one tick at now: records, then detectors, then alert states, then
// Append, persisting and Dispatch.
func (e *Engine) Eval(ctx context.Context, now time.Time) error {
	e.evalMu.Lock()
	defer e.evalMu.Unlock()
	alerts, state, err := e.tick(now)
	if err != nil {
		return err
	}
	var errs []error
	if err := e.append(ctx, now, e.batches()); err != nil {
		errs = append(errs, fmt.Errorf("storing derived series: %w", err))
	}
	// The state is on disk before anybody is told: after a crash in between,
	// the alert is still open and is told then.
	if err := e.save(now, alerts, state); err != nil {
		errs = append(errs, err)
	}
	if e.opts.Dispatch != nil {
		e.opts.Dispatch(ctx, now, alerts)
	}
	return errors.Join(errs...)
}

// batches are those of the last tick.
func (e *Engine) batches() []*batch {
	all := make([]*batch, 0, len(e.parts)+1)
	for _, p := range e.parts {
		all = append(all, &p.batch)
	}
	return append(all, &e.batch)
}

// append stores what was derived, a part at a time: what is stored at once is
// held by the database all over again.
func (e *Engine) append(ctx context.Context, now time.Time, batches []*batch) error {
	if e.opts.Append == nil {
		return nil
	}
	var errs []error
	var stale []*collector.Series
	samples := e.atOnce[:0]
	for _, b := range batches {
		for _, s := range b.samples {
			if len(samples) == storedAtOnce {
				errs = append(errs, e.opts.Append(ctx, now, samples, nil))
				samples = samples[:0]
			}
			samples = append(samples, s)
		}
		stale = append(stale, b.stale...)
	}
	e.atOnce = samples
	errs = append(errs, e.opts.Append(ctx, now, samples, nil))
	if len(stale) > 0 {
		errs = append(errs, e.opts.Append(ctx, now, nil, stale))
	}
	return errors.Join(errs...)
}

// tick does the part of Eval that needs the windows. state is nil when there
// is nothing to save.
func (e *Engine) tick(now time.Time) (alerts []Alert, state *savedState, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started.IsZero() {
		e.started = now
	}
	e.now = now
	n := e.instant(now)
	e.expire(n)
	e.assign(n)
	if err := e.dropEmptyPools(n); err != nil {
		return nil, nil, err
	}
	e.tickCalls(now)
	e.tickRefused()
	e.batch.reset()
	e.evaluate(n, e.dueTargets(n))
	if !e.opts.AlertsOnly {
		for _, o := range e.planOutputs() { // which the last review has told
			e.batch.put(o)
		}
	}
	e.judge(n, e.fleet, nil)
	for _, p := range e.sortedPlans() {
		e.judge(n, p.watches, nil)
	}
	for _, r := range e.sortedReceivers() {
		e.judge(n, r.watches, nil)
	}
	e.forgetRemembered(n)
	e.journalPlans(now)
	e.forgetPlaced()
	alerts = e.alerts()
	if !e.opts.AlertsOnly {
		e.countAlerts(alerts)
	}
	alerts = slices.DeleteFunc(alerts, func(a Alert) bool { return a.State == StatePending }) // nobody is told of those
	for _, o := range e.gone {
		e.batch.drop(o)
	}
	e.gone = nil
	if !e.saveDue(now, alerts) {
		return alerts, nil, nil
	}
	s, err := e.state()
	return alerts, &s, err
}

// judge asks the detectors of the watches and moves their alerts on. of is the
// target that they are over, whose labels do not name its pool; nil where they are
// over something else.
func (e *Engine) judge(n instant, watches []*watch, of *target) {
	for _, w := range watches {
		v := w.judge(n, w.firing())
		if v.Active {
			pool := w.subject.Get("pool")
			if of != nil {
				pool = of.poolName()
			}
			v.Evidence.Events = quotes(e.journal.events, pool, w.onset(n.now, v), n.now)
		}
		w.step(n.now, v, e.opts.ExternalURL)
	}
}

// forgetRemembered ends, after a while, what the state file told of and nothing
// came back for.
func (e *Engine) forgetRemembered(n instant) {
	if n.now.Sub(e.started) <= resolvedKept {
		return
	}
	for key, s := range e.remembered.Watches {
		s.forget(n.now)
		if s.Alert != nil {
			s.end(n.now, about(s.Alert.Name, s.Alert.Labels)+" ended: what it was about did not come back after a restart")
		}
		if s.Left.IsZero() {
			s.Left = n.now
		}
		e.remembered.Watches[key] = s
		if len(s.Resolved) == 0 && (s.Detector == nil || n.now.Sub(s.Left) > learnedKept) {
			delete(e.remembered.Watches, key)
		}
	}
}

// expire drops targets that were not scraped for longer than any window.
func (e *Engine) expire(n instant) {
	for key, t := range e.targets {
		if t.lastScrape == 0 || n.ms-t.lastScrape <= (longWindow+t.freshOr(e.fresh)).Milliseconds() {
			continue
		}
		for _, u := range t.units {
			e.leave(n, u)
			e.retire(n, u.watches, "the target is not scraped any more")
			e.end(u.outputs)
		}
		e.retire(n, t.watches, "the target is not scraped any more")
		e.end(t.outputs)
		delete(e.targets, key)
		e.inOrder = nil
		maps.DeleteFunc(e.byPointer, func(_ *collector.Target, at *target) bool { return at == t })
	}
}

// end lets the series of outputs end at the next Eval: their subject went.
func (e *Engine) end(outputs []*output) {
	for _, o := range outputs {
		if o != nil {
			e.gone = append(e.gone, o)
		}
	}
}

// Recorded returns all derived series as of the last Eval, those without a
// value too; SeriesQuality is not among them, for each tells its own.
func (e *Engine) Recorded() []Recorded {
	e.mu.Lock()
	defer e.mu.Unlock()
	outputs := e.outputs()
	all := make([]Recorded, 0, len(outputs))
	for _, o := range outputs {
		all = o.recorded(all)
	}
	return all
}

// outputs lists all outputs in a steady order.
func (e *Engine) outputs() []*output {
	var all []*output
	for _, t := range e.sortedTargets() {
		all = append(all, t.outputs...)
		for _, u := range t.units {
			all = append(all, u.outputs...)
		}
	}
	for _, p := range e.sortedPools() {
		all = append(all, p.outputs...)
	}
	all = slices.Concat(all, e.planOutputs(), e.ownOutputs())
	return slices.DeleteFunc(all, func(o *output) bool { return o == nil })
}

// sortedTargets is sorted anew when a target came or went.
func (e *Engine) sortedTargets() []*target {
	if len(e.inOrder) != len(e.targets) {
		e.inOrder = slices.SortedFunc(maps.Values(e.targets), func(a, b *target) int {
			return cmp.Or(strings.Compare(a.job, b.job), strings.Compare(a.instance, b.instance))
		})
	}
	return e.inOrder
}

func (e *Engine) sortedPools() []*pool {
	return slices.SortedFunc(maps.Values(e.pools), func(a, b *pool) int { return strings.Compare(a.name, b.name) })
}

// Alerts returns the alerts that are pending, firing or resolved not long ago.
func (e *Engine) Alerts() []Alert {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.alerts()
}

func (e *Engine) alerts() []Alert {
	all := []Alert{}
	for _, w := range e.watches(func(t *target) bool { return t.open }) {
		all = w.alerts(all)
	}
	for _, key := range slices.Sorted(maps.Keys(e.remembered.Watches)) {
		s := e.remembered.Watches[key]
		all = s.alerts(all)
	}
	return all
}

// allWatches lists all watches in a steady order.
func (e *Engine) allWatches() []*watch { return e.watches(func(*target) bool { return true }) }

// watches lists them without those of targets that are not wanted.
func (e *Engine) watches(wanted func(*target) bool) []*watch {
	var all []*watch
	for _, p := range e.sortedPools() {
		all = append(all, p.watches...)
	}
	for _, t := range e.sortedTargets() {
		if !wanted(t) {
			continue
		}
		all = append(all, t.watches...)
		for _, u := range t.units {
			all = append(all, u.watches...)
		}
	}
	all = append(all, e.fleet...)
	for _, p := range e.sortedPlans() {
		all = append(all, p.watches...)
	}
	for _, r := range e.sortedReceivers() {
		all = append(all, r.watches...)
	}
	return all
}

// Detectors says where each detector stands.
func (e *Engine) Detectors() []DetectorStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := []DetectorStatus{}
	for _, w := range e.allWatches() {
		all = append(all, w.status())
	}
	return all
}

// Pools returns the pools and the engines in them.
func (e *Engine) Pools() []PoolStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := []PoolStatus{}
	for _, p := range e.sortedPools() {
		all = append(all, p.status())
	}
	return all
}

// Accept takes the pool's present cache behaviour as the new normal: what D1
// learned is forgotten, its alerts resolve at the next Eval, and it stays
// silent until it has learned anew. It is on disk when Accept returns.
func (e *Engine) Accept(name string, now time.Time) error {
	if err := e.accept(name, now); err != nil {
		return err
	}
	return e.Save()
}

func (e *Engine) accept(name string, now time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.pools[name]
	if p == nil {
		return fmt.Errorf("there is no pool %q: %s", name, e.poolsThere())
	}
	if err := e.journal.add(Event{At: now, Pool: name, Kind: EventAccept}); err != nil {
		return err
	}
	p.accept(now)
	return nil
}
