// Package alerting tells people about alerts: nobody twice, nobody missed.
//
// An alert from the rules goes through one stage a file: route (who is told),
// group (what makes one incident), dedup (is there anything new to say), retry
// (one sender for each integration of a receiver, one message after another)
// and, around every request, nflog (the notification log, which survives a
// crash). Receivers are one file each and register themselves.
//
// The words and their meaning are Alertmanager's: routes with matchers and
// continue, group_by, group_wait, group_interval, repeat_interval, send_resolved.
// Its package pkg/labels parses and applies the matchers; timeinterval imports as
// cleanly. Its packages dispatch, notify, nflog, inhibit, silence and config are
// not used: each of them imports its cluster package, with memberlist and what
// comes with it, and its receivers do not edit what they sent. The stages here
// are the parts of them that one process needs.
//
// Two things differ on purpose. An alert that the rules no longer mention is
// resolved after resolve_timeout only while the rules go on handing over
// alerts: when they are silent, nothing is known, and unknown is not resolved.
// And an incident that came and went while a receiver was down is still told,
// once, when the receiver is back.
package alerting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kvwatch/rules"
)

// Options are what New needs.
type Options struct {
	Config Config
	// Dir is where the notification log is kept; empty keeps it in memory.
	Dir string
	// ExternalURL is the address of the page, for links.
	ExternalURL string
	// Stdout is where the terminal receiver prints; nil prints nothing.
	Stdout io.Writer
	// Logger takes what goes wrong; nil logs nothing.
	Logger *slog.Logger
	// Registerer takes the metrics; nil takes none.
	Registerer prometheus.Registerer
	// Jitter gives numbers in [0, 1) that spread retries; nil is a random source.
	Jitter func() float64
}

// Dispatcher groups alerts into incidents and tells receivers about them. All
// its methods may be called at the same time.
type Dispatcher struct {
	logger      *slog.Logger
	env         environment
	externalURL string
	jitter      func() float64
	timeout     time.Duration // bounds one request
	log         *notificationLog
	metrics     metrics
	wake        chan struct{}

	// mu protects what follows. It is never held over a request or a write to disk.
	mu             sync.Mutex
	tree           *node // nil: nobody is told
	resolveTimeout time.Duration
	groups         map[string]*group
	senders        map[string]*sender  // by id
	receivers      map[string][]string // ids by receiver
	expired        time.Time           // when old incidents were last forgotten
	start          func(*sender)       // set while Run runs
}

// New checks the configuration, builds the receivers and takes up from the
// notification log in Dir. An error says what to mend.
func New(o Options) (*Dispatcher, error) {
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	d := &Dispatcher{
		logger:      logger.With("component", "alerting"),
		externalURL: o.ExternalURL,
		jitter:      o.Jitter,
		timeout:     attemptTimeout,
		wake:        make(chan struct{}, 1),
		groups:      map[string]*group{},
		senders:     map[string]*sender{},
	}
	d.env = environment{stdout: o.Stdout, logger: d.logger}
	if d.env.stdout == nil {
		d.env.stdout = io.Discard
	}
	if d.jitter == nil {
		d.jitter = rand.Float64
	}
	parts, err := d.build(o.Config)
	if err != nil {
		return nil, err
	}
	if d.log, err = openLog(o.Dir, d.logger); err != nil {
		return nil, err
	}
	if d.metrics, err = newMetrics(o.Registerer); err != nil {
		return nil, errors.Join(err, d.log.close())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.install(o.Config, parts)
	d.restore()
	return d, nil
}

// Close closes the notification log. Run must have ended.
func (d *Dispatcher) Close() error { return d.log.close() }

// part is an integration that was built and is not yet used.
type part struct {
	id, receiver string
	built        Receiver
	traits       traits
}

// build makes everything of a configuration that can fail.
func (d *Dispatcher) build(c Config) ([]part, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	var out []part
	for _, rc := range c.Receivers {
		for _, ic := range rc.integrations {
			built, err := ic.settings.receiver(d.env)
			if err != nil {
				return nil, fmt.Errorf("receiver %q: %s entry %d: %w", rc.Name, configKey(ic.kind), ic.index+1, err)
			}
			id := fmt.Sprintf("%s/%s/%d", rc.Name, ic.kind, ic.index)
			out = append(out, part{id: id, receiver: rc.Name, built: built, traits: ic.settings.traits()})
		}
	}
	return out, nil
}

// Reload takes a new configuration: it builds what can fail, then swaps.
// Incidents, queues and the notification log stay. After an error the old
// configuration is in effect.
func (d *Dispatcher) Reload(c Config) error {
	parts, err := d.build(c)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.install(c, parts)
	d.regroup()
	d.poke()
	return nil
}

// install puts what was built into effect. The caller holds mu.
func (d *Dispatcher) install(c Config, parts []part) {
	d.tree, d.resolveTimeout = c.tree(), c.resolveTimeout()
	d.receivers = map[string][]string{}
	stays := map[string]bool{}
	for _, rc := range c.Receivers {
		d.receivers[rc.Name] = nil
		d.metrics.expect(rc.Name)
	}
	for _, p := range parts {
		stays[p.id] = true
		d.receivers[p.receiver] = append(d.receivers[p.receiver], p.id)
		if s, ok := d.senders[p.id]; ok {
			s.replace(p.built, p.traits)
			continue
		}
		s := &sender{
			id: p.id, name: p.receiver, d: d, receiver: p.built, traits: p.traits,
			queued: map[string]bool{}, logger: d.logger.With("integration", p.id), wake: make(chan struct{}, 1),
		}
		d.senders[p.id] = s
		if d.start != nil {
			d.start(s)
		}
	}
	for id, s := range d.senders {
		if !stays[id] {
			s.stop()
			delete(d.senders, id)
		}
	}
}

// regroup puts the alerts of all groups where the new routes want them. A group
// whose key is the same keeps its times. The caller holds mu.
func (d *Dispatcher) regroup() {
	old := d.groups
	d.groups = map[string]*group{}
	for _, g := range old {
		for _, h := range g.alerts {
			for _, now := range d.groupsFor(h.alert) {
				now.alerts[h.alert.Key()] = h
				now.nextFlush, now.unseen, now.inFlight = g.nextFlush, g.unseen, 0
				if was, ok := old[now.key]; ok {
					now.nextFlush, now.unseen, now.inFlight = was.nextFlush, was.unseen, was.inFlight
				}
			}
		}
	}
	d.orphans()
}

// groupsFor returns the groups of an alert, made where they do not exist. The
// caller holds mu.
func (d *Dispatcher) groupsFor(a rules.Alert) []*group {
	if d.tree == nil {
		return nil
	}
	nodes := d.tree.match(a.Labels)
	out := make([]*group, 0, len(nodes))
	for _, n := range nodes {
		lbls := n.groupLabels(a.Labels)
		key := n.groupKey(lbls)
		g, ok := d.groups[key]
		if !ok {
			g = &group{key: key, labels: lbls, node: n, alerts: map[string]held{}}
			d.groups[key] = g
		}
		g.node = n
		out = append(out, g)
	}
	return out
}

// restore takes up the incidents that were going on when the log was last
// written. The caller holds mu.
func (d *Dispatcher) restore() {
	for _, e := range d.log.all() {
		last := e.last()
		if e.Over || last == nil {
			continue
		}
		for _, a := range last.Alerts {
			for _, g := range d.groupsFor(a) {
				if g.key == e.Group {
					g.alerts[a.Key()] = held{alert: a}
					g.unseen = true
				}
			}
		}
	}
	maps.DeleteFunc(d.groups, func(_ string, g *group) bool { return len(g.alerts) == 0 })
	d.orphans()
}

// orphans says which incidents no route leads to any more: their messages stay
// as they are. The caller holds mu.
func (d *Dispatcher) orphans() {
	for _, e := range d.log.all() {
		if _, ok := d.groups[e.Group]; !ok && !e.Over {
			d.logger.Warn("The routes have changed and an incident is left as it was last told", "incident", e.Group, "integration", e.Integration)
		}
	}
}

// Dispatch takes all alerts that are firing or lately resolved; others are
// ignored. It never waits for a receiver. An alert that is missing for
// resolve_timeout counts as resolved.
func (d *Dispatcher) Dispatch(_ context.Context, now time.Time, alerts []rules.Alert) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, raw := range alerts {
		if raw.State != rules.StateFiring && raw.State != rules.StateResolved {
			continue
		}
		a, changed := clean(raw)
		if len(changed) > 0 {
			d.logger.Debug("What may point at a person was taken out of an alert", "alertname", a.Name, "fields", changed)
		}
		d.take(a, now)
	}
	for _, g := range d.groups {
		d.resolveMissing(g, now)
	}
	d.poke()
}

// take puts one alert into its groups. One that resolved and is not known is
// none of our business: nobody was told of it. The caller holds mu.
func (d *Dispatcher) take(a rules.Alert, now time.Time) {
	if a.State == rules.StateResolved && !d.knows(a) {
		return
	}
	for _, g := range d.groupsFor(a) {
		if a.State == rules.StateResolved {
			if _, known := g.alerts[a.Key()]; !known {
				continue
			}
		}
		if g.nextFlush.IsZero() {
			g.nextFlush = now.Add(g.node.groupWait)
		}
		g.unseen = false
		g.take(a, now)
	}
}

// knows says whether any group holds the alert. The caller holds mu.
func (d *Dispatcher) knows(a rules.Alert) bool {
	if d.tree == nil {
		return false
	}
	for _, n := range d.tree.match(a.Labels) {
		if g, ok := d.groups[n.groupKey(n.groupLabels(a.Labels))]; ok {
			if _, ok := g.alerts[a.Key()]; ok {
				return true
			}
		}
	}
	return false
}

// resolveMissing ends the alerts that the rules have not mentioned for a while.
// The caller holds mu.
func (d *Dispatcher) resolveMissing(g *group, now time.Time) {
	for key, h := range g.alerts {
		if h.alert.State != rules.StateFiring {
			continue
		}
		if h.seen.IsZero() || h.seen.After(now) {
			h.seen = now
		}
		if now.Sub(h.seen) >= d.resolveTimeout {
			h.alert.State, h.alert.ResolvedAt = rules.StateResolved, now
			g.unseen = false
		}
		g.alerts[key] = h
	}
}

// Run flushes incidents when they are due and sends, until ctx ends. A request
// that is under way then is waited for, for a few seconds.
func (d *Dispatcher) Run(ctx context.Context) error {
	var senders sync.WaitGroup
	d.mu.Lock()
	d.start = func(s *sender) { senders.Go(func() { s.run(ctx, time.Now) }) }
	for _, s := range d.senders {
		d.start(s)
	}
	d.mu.Unlock()
	for ctx.Err() == nil {
		timer := time.NewTimer(d.flush(time.Now()))
		select {
		case <-ctx.Done():
		case <-d.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	d.mu.Lock()
	d.start = nil
	d.mu.Unlock()
	senders.Wait()
	return nil
}

// Tick does at now what Run does all the time, and returns when everything that
// is due was tried. It is for tests and virtual clocks.
func (d *Dispatcher) Tick(ctx context.Context, now time.Time) {
	d.flush(now)
	d.mu.Lock()
	senders := d.senders
	ids := sortedNames(senders)
	list := make([]*sender, 0, len(ids))
	for _, id := range ids {
		list = append(list, senders[id])
	}
	d.mu.Unlock()
	for _, s := range list {
		s.drain(ctx, func() time.Time { return now })
	}
}

func (d *Dispatcher) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// longestPause is how long the loop sleeps when nothing is due.
const longestPause = time.Minute

// flush hands the incidents that are due to the senders and returns the time
// until the next one is due.
func (d *Dispatcher) flush(now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.expired).Abs() > 10*time.Minute {
		d.log.expire(now)
		d.expired = now
	}
	pause := longestPause
	for _, key := range slices.Sorted(maps.Keys(d.groups)) {
		g := d.groups[key]
		if g.nextFlush.IsZero() {
			g.nextFlush = now.Add(g.node.groupWait)
		}
		if g.due(now) {
			d.flushGroup(g, now)
		}
		pause = min(pause, g.nextFlush.Sub(now))
	}
	return max(pause, time.Millisecond)
}

// flushGroup hands one incident to the senders that have something to tell, and
// forgets what everybody knows to be over. The caller holds mu.
func (d *Dispatcher) flushGroup(g *group, now time.Time) {
	alerts := g.snapshot()
	told := map[string]bool{} // alerts that somebody believes to be firing
	waiting, unknown := g.inFlight > 0, false
	for _, id := range d.receivers[g.node.receiver] {
		known := d.log.get(logKey{g.key, id})
		if g.unseen && known.Intent == nil {
			unknown = true
			continue
		}
		if !known.Over {
			maps.Copy(told, known.believed())
		}
		s := d.senders[id]
		q := question{now: now, alerts: alerts, known: known, traits: s.traitsNow(), node: g.node}
		if q.reason() != ReasonNone {
			waiting = true
			s.enqueue(g.key)
		}
	}
	if unknown {
		// Since the start the rules have not said how these alerts stand.
		g.nextFlush = now.Add(max(g.node.groupWait, time.Second))
		return
	}
	g.nextFlush = now.Add(g.node.groupInterval)
	d.forget(g, now, told, waiting)
}

// forget drops resolved alerts that nobody believes to be firing, and the group
// when it is over. The caller holds mu.
func (d *Dispatcher) forget(g *group, now time.Time, told map[string]bool, waiting bool) {
	switch {
	case g.firing():
		if g.inFlight == 0 {
			maps.DeleteFunc(g.alerts, func(key string, h held) bool {
				return h.alert.State == rules.StateResolved && !told[key]
			})
		}
		return
	case waiting && now.Sub(g.lastResolved()) <= giveUpAfter:
		return
	case waiting:
		d.logger.Error("The end of an incident could not be told for too long and is given up", "incident", g.key)
	}
	delete(d.groups, g.key)
	for _, id := range d.receivers[g.node.receiver] {
		d.log.over(logKey{g.key, id}, now)
	}
}

// view is an incident as it stands when it is told.
type view struct {
	key    string
	labels map[string]string
	node   *node
	alerts []rules.Alert
}

// begin returns the incident as it stands now and keeps it until end.
func (d *Dispatcher) begin(key string) (view, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, ok := d.groups[key]
	if !ok {
		return view{}, false
	}
	g.inFlight++
	return view{key: key, labels: g.labels, node: g.node, alerts: g.snapshot()}, true
}

// end lets go of what begin kept.
func (d *Dispatcher) end(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g, ok := d.groups[key]; ok && g.inFlight > 0 {
		g.inFlight--
	}
}
