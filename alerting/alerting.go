// Package alerting tells people about alerts: nobody twice, nobody missed.
//
// An alert from the rules goes through one stage a file: route (who is told),
// group (what makes one incident), mute (what is silenced, inhibited or at a
// quiet time is left out), dedup (is there anything new to say), retry (one
// sender for each integration of a receiver, one message after another) and,
// around every request, nflog (the notification log, which survives a crash).
// Receivers are one file each and register themselves. What is no alert, as a
// digest, goes to a receiver by a queue of its own (report).
//
// The words and their meaning are Alertmanager's: routes with matchers and
// continue, group_by, group_wait, group_interval, repeat_interval, send_resolved,
// inhibit_rules, silences, time intervals. Its packages pkg/labels (matchers) and
// timeinterval are used. Its packages dispatch, notify, nflog, inhibit, silence and config are
// not used: each of them imports its cluster package, with memberlist and what
// comes with it, and its receivers do not edit what they sent. The stages here
// are the parts of them that one process needs. Alertmanagers that are to tell
// people themselves are pushed every alert (alertmanager), by no route.
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
	// Dir is where the notification log and the silences are kept; empty keeps
	// them in memory.
	Dir string
	// ExternalURL is the address of the page, for links.
	ExternalURL string
	// Stdout is where the terminal receiver prints; nil prints nothing.
	Stdout io.Writer
	// Logger takes what goes wrong; nil logs nothing.
	Logger *slog.Logger
	// Registerer takes the metrics; nil takes none.
	Registerer prometheus.Registerer
	// Past reads recorded series for charts; nil draws none.
	Past Past
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
	silences    *silences
	reports     *reports
	metrics     metrics
	wake        chan struct{}

	// pushes are what Alertmanagers are told; alertmanagersChanged says that
	// others are to be told.
	pushes               pushes
	alertmanagersChanged chan struct{}

	// mu protects what follows. It is never held over a request or a write to disk.
	mu             sync.Mutex
	ways           ways
	unheard        map[string]bool // by key: alerts about a receiver of which no other can be told
	resolveTimeout time.Duration
	alertmanagers  []*AlertmanagerConfig
	calendar       calendar
	inhibitor      inhibitor
	firing         map[string]held // every alert that fires, told or not, by key
	spoken         time.Time       // when the rules last handed over alerts
	groups         map[string]*group
	senders        map[string]*sender  // by id
	receivers      map[string][]string // ids by receiver
	reportsTo      string              // the receiver of reports that name none
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
		logger:               logger,
		externalURL:          o.ExternalURL,
		jitter:               o.Jitter,
		timeout:              attemptTimeout,
		wake:                 make(chan struct{}, 1),
		pushes:               pushes{peers: map[string]*peer{}},
		alertmanagersChanged: make(chan struct{}, 1),
		unheard:              map[string]bool{},
		firing:               map[string]held{},
		groups:               map[string]*group{},
		senders:              map[string]*sender{},
	}
	d.env = environment{stdout: o.Stdout, logger: d.logger, past: o.Past, sockets: newSlackSockets()}
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
	if d.silences, err = openSilences(o.Dir); err != nil {
		return nil, errors.Join(err, d.log.close())
	}
	d.reports = openReports(o.Dir, d.logger)
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

// restore takes up the incidents that were going on when the log was last
// written. The caller holds mu.
func (d *Dispatcher) restore() {
	for _, e := range d.log.all() {
		last := e.last()
		if e.Over || last == nil {
			continue
		}
		for _, a := range last.Alerts {
			for _, n := range slices.Concat(d.ways.of(a.Labels)...) {
				if n.groupKey(n.groupLabels(a.Labels)) != e.Group {
					continue
				}
				g := d.groupFor(n, a, true)
				g.alerts[a.Key()] = held{alert: a}
				g.unseen = true
			}
		}
	}
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
	d.spoken = now
	push := map[string]rules.Alert{}
	for _, raw := range alerts {
		if raw.State != rules.StateFiring && raw.State != rules.StateResolved {
			continue
		}
		a, changed := clean(raw)
		if len(changed) > 0 {
			d.logger.Debug("What may point at a person was taken out of an alert", "alertname", a.Name, "fields", changed)
		}
		push[a.Key()] = a
		d.note(a, now)
		d.take(a, now)
	}
	d.pushes.set(push)
	d.noteMissing(now)
	for _, g := range d.groups {
		g.supersede(now)
		d.resolveMissing(g, now)
	}
	d.poke()
}

// Run flushes incidents when they are due and sends, until ctx ends. A request
// that is under way then is waited for, for a few seconds.
func (d *Dispatcher) Run(ctx context.Context) error {
	var senders sync.WaitGroup
	d.mu.Lock()
	d.start = func(s *sender) {
		senders.Go(func() { s.run(ctx, time.Now) })
		senders.Go(func() { s.illustrate(ctx) })
	}
	for _, s := range d.senders {
		d.start(s)
	}
	d.mu.Unlock()
	senders.Go(func() { d.env.sockets.run(ctx, func(p press) string { return d.pressed(p, time.Now()) }) })
	senders.Go(func() {
		if err := d.pushAll(ctx); err != nil {
			d.logger.Error("No Alertmanager is told", "err", err)
		}
	})
	senders.Go(func() { d.tellReports(ctx) })
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
		s.drawAll(ctx)
	}
	d.stepReports(ctx, now)
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
		d.log.expire(now, d.groups)
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
