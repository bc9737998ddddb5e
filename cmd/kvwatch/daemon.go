package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"kvwatch/alerting"
	"kvwatch/collector"
	"kvwatch/collector/history"
	"kvwatch/dashboards/web"
	"kvwatch/rules"
)

// shutdownTimeout bounds every step of the way down.
const shutdownTimeout = 5 * time.Second

// journalFile is the journal of events in the storage.
const journalFile = "journal.jsonl"

// daemonOptions is what flags and the configuration say.
type daemonOptions struct {
	Config *Config
	// ConfigFile is read again on a reload; empty where there is none (the demo).
	ConfigFile      string
	StoragePath     string
	RetentionTime   time.Duration
	RetentionSize   int64
	ExternalURL     string
	EnableLifecycle bool
	// TimeScaleNote is shown on the page where rules run faster than live; empty else.
	TimeScaleNote string
	Demo          bool
	Stdout        io.Writer
	Logger        *slog.Logger
}

// daemon is the wired pipeline: collector, history, rules, alerting and the page.
type daemon struct {
	o        daemonOptions
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *selfMetrics
	server   *server

	store      *history.Store
	history    *historyWriter
	writer     *history.RemoteWriter
	engine     *rules.Engine
	dispatcher *alerting.Dispatcher
	intake     *intake
	scheduler  *scheduler
	plans      *planReviewer
	incidents  *incidentLog
	reviews    *reviewer

	// reloading lets one reload happen at a time; it guards o.Config after start.
	reloading sync.Mutex
	// readied says that ready was reached once: targets that come later do not
	// take it back. started is when setup was done, in Unix nanoseconds.
	readied atomic.Bool
	started atomic.Int64
	// external holds the external labels; a reload changes them.
	external atomic.Pointer[labels.Labels]
	// interval is the time between two evaluations; a reload changes it.
	interval atomic.Int64
	// lastTick is when rules were last evaluated, in Unix nanoseconds; 0 before the first time.
	lastTick atomic.Int64
	// closers undo what setup did, last first.
	closers []closer
}

// closer is one named step of the way down.
type closer struct {
	name  string
	close func() error
}

// newDaemon makes a daemon that can answer HTTP; run does the rest.
func newDaemon(o daemonOptions) *daemon {
	d := &daemon{o: o, log: o.Logger, registry: prometheus.NewRegistry()}
	d.metrics = newSelfMetrics(d.registry)
	d.setGlobal(o.Config.Global)
	d.server = &server{registry: d.registry, metrics: newExporter(d.registry, d.recorded), alive: d.alive, ready: d.ready, log: o.Logger}
	if o.EnableLifecycle || o.ConfigFile == "" {
		d.server.reload = d.reload
	}
	d.server.accept = func(pool string) error {
		return d.whenStarted(func() error { return d.engine.Accept(pool, time.Now()) })
	}
	d.server.alertmanager = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := d.whenStarted(func() error { d.alertmanagerAPI().ServeHTTP(w, r); return nil }); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	d.server.mark = func(e rules.Event) error {
		return d.whenStarted(func() error { return d.engine.Mark(e, time.Now()) })
	}
	return d
}

// whenStarted does what needs the rules, once they are there.
func (d *daemon) whenStarted(do func() error) error {
	if d.server.page.Load() == nil {
		return errors.New("kvwatch is still starting; try again in a few seconds")
	}
	return do()
}

// recorded gives the derived series, none while the daemon starts.
func (d *daemon) recorded() (all []rules.Recorded) {
	_ = d.whenStarted(func() error { all = d.engine.Recorded(); return nil })
	return all
}

func (d *daemon) alertmanagerAPI() http.Handler {
	return d.dispatcher.AlertmanagerAPI(time.Unix(0, d.started.Load()), time.Now)
}

// setGlobal takes what of the global block the daemon itself goes by.
func (d *daemon) setGlobal(g collector.GlobalConfig) {
	d.interval.Store(int64(time.Duration(g.EvaluationInterval)))
	d.external.Store(&g.ExternalLabels)
}

// run serves HTTP on the listeners, sets the pipeline up and runs it until ctx
// ends. HTTP comes first: replaying a long history takes seconds in which
// /-/healthy must answer.
func (d *daemon) run(ctx context.Context, listeners []net.Listener, flags *toolkit.FlagConfig) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	httpServer := newHTTPServer(d.server.handler())
	var group errgroup.Group
	group.Go(func() error {
		defer cancel()
		if err := toolkit.ServeMultiple(listeners, httpServer, flags, d.log); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving HTTP: %w", err)
		}
		return nil
	})
	err = d.setup(ctx)
	if err == nil {
		err = d.loops(ctx)
	}
	cancel()
	stopCtx, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer stop()
	err = errors.Join(err, httpServer.Shutdown(stopCtx), group.Wait(), d.close())
	return err
}

// setup builds the pipeline, each stage handing on to the next by a function.
func (d *daemon) setup(ctx context.Context) (err error) {
	c := d.o.Config
	d.writer = history.NewRemoteWriter(d.o.StoragePath, d.registry, d.log.With("component", "remote_write"))
	if d.store, err = history.Open(history.Options{
		Dir: d.o.StoragePath, RetentionTime: d.o.RetentionTime, RetentionSize: d.o.RetentionSize, Logger: d.log.With("component", "history"),
		Written: d.writer,
	}); err != nil {
		return err
	}
	d.onClose("history", d.store.Close)
	d.onClose("remote_write", d.writer.Close)
	if err = d.writer.Apply(c.Global.ExternalLabels, c.RemoteWrite); err != nil {
		return err
	}
	d.history = newHistoryWriter(d.store, d.registry, d.log.With("component", "history"))

	if d.dispatcher, err = alerting.New(alerting.Options{
		Config: c.Alerting, Dir: filepath.Join(d.o.StoragePath, "alerting"), ExternalURL: d.o.ExternalURL,
		Stdout: d.o.Stdout, Logger: d.log.With("component", "alerting"), Registerer: d.registry, Past: d.past,
	}); err != nil {
		return err
	}
	d.onClose("alerting", d.dispatcher.Close)

	if d.engine, err = rules.New(rules.Options{
		Pools: c.Pools, Rules: c.Rules, ScrapeInterval: time.Duration(c.Global.ScrapeInterval),
		Append: d.history.append, Dispatch: d.dispatch, StateFile: filepath.Join(d.o.StoragePath, "rules.json"), Journal: filepath.Join(d.o.StoragePath, journalFile),
		ExternalURL: d.o.ExternalURL, Logger: d.log.With("component", "rules"),
	}); err != nil {
		return err
	}
	d.onClose("rules", d.engine.Save)
	if d.intake, err = newIntake(c, d.sink, d.engine.ObserveCalls, d.log.With("component", "collector")); err != nil {
		return err
	}
	d.onClose("recordings", d.intake.close)
	if err = d.intake.fill(ctx, time.Now(), d.store); err != nil {
		return fmt.Errorf("filling history back: %w", err)
	}
	if err = d.engine.Restore(ctx, time.Now(), d.store.Scan); err != nil {
		return fmt.Errorf("refilling the hot windows from %s: %w", d.o.StoragePath, err)
	}

	d.scheduler = newScheduler(d.log.With("component", "schedules"))
	d.plans = &planReviewer{scan: d.store.Scan, engine: d.engine, log: d.log.With("component", "sizing")}
	d.plans.reload(c)
	d.scheduler.add(jobSizing, d.plans.review)
	if d.incidents, err = openIncidents(filepath.Join(d.o.StoragePath, "incidents.jsonl"), time.Now(), d.log.With("component", "reviews")); err != nil {
		return err
	}
	if d.reviews, err = openReviewer(&reviewer{
		dir: filepath.Join(d.o.StoragePath, "reviews"), externalURL: d.o.ExternalURL, scan: d.store.Scan, engine: d.engine, incidents: d.incidents,
		tell: d.dispatcher.Report, log: d.log.With("component", "reviews"),
	}); err != nil {
		return err
	}
	d.reviews.reload(c)
	d.scheduler.add(jobReview, d.reviews.review)
	d.scheduler.add(jobDigest, d.reviews.digest)
	d.setSchedules(c.Schedules)
	d.registry.MustRegister(newScrapeDurations(d.intake.targets))
	return d.openPage()
}

// openPage puts the page in place of the notice that kvwatch is starting.
func (d *daemon) openPage() error {
	page, err := web.New(web.Options{
		Version: versionString(), ExternalURL: d.o.ExternalURL, Demo: d.o.Demo, TimeScaleNote: d.o.TimeScaleNote,
		Interval: time.Duration(d.o.Config.Global.ScrapeInterval),
		Targets:  d.intake.targets, Recorded: d.engine.Recorded, Alerts: d.engine.Alerts, Detectors: d.engine.Detectors, Pools: d.engine.Pools,
		Sessions: d.engine.Sessions, Events: d.engine.Events, Plans: d.engine.Plans, Muted: d.muted,
		Reviews: d.reviews.list, ReadReview: d.reviews.read,
		Queryable: d.store.Queryable(), Now: time.Now, Logger: d.log.With("component", "web"), Runbooks: rules.Runbooks(),
	})
	if err != nil {
		return err
	}
	d.started.Store(time.Now().UnixNano())
	d.server.page.Store(&page)
	return nil
}

// sink is the first hand-over: a round goes to history, then to the hot windows.
func (d *daemon) sink(ctx context.Context, r *collector.Round) {
	d.history.appendRound(ctx, r) // says itself when it fails
	d.engine.Observe(r)
}

// dispatch adds the external labels, which say whose alerts these are.
func (d *daemon) dispatch(ctx context.Context, now time.Time, alerts []rules.Alert) {
	d.incidents.take(now, alerts)
	for i := range alerts {
		alerts[i].Labels = d.withExternal(alerts[i].Labels)
	}
	d.dispatcher.Dispatch(ctx, now, alerts)
}

// withExternal adds the external labels that are not there.
func (d *daemon) withExternal(lbls map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, lbls)
	d.external.Load().Range(func(l labels.Label) {
		if _, ok := out[l.Name]; !ok {
			out[l.Name] = l.Value
		}
	})
	return out
}

// muted says why an alert is not told, by the labels that it is told with.
func (d *daemon) muted(lbls map[string]string, now time.Time) alerting.Muting {
	return d.dispatcher.Muted(d.withExternal(lbls), now)
}

// loops runs every long-lived part until ctx ends or one of them fails.
func (d *daemon) loops(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return named("alerting", d.dispatcher.Run(ctx)) })
	group.Go(func() error { return d.scheduler.run(ctx) })
	group.Go(func() error { return tidy(ctx) })
	group.Go(func() error {
		if err := d.intake.catchUp(ctx, time.Duration(d.interval.Load()), d.tick); err != nil {
			return err
		}
		group.Go(func() error { return d.evaluate(ctx) })
		d.scheduler.hasten(jobSizing, time.Now())
		return d.intake.run(ctx)
	})
	return group.Wait()
}

// evaluate owns the rules' clock.
func (d *daemon) evaluate(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for at := time.Now(); ; {
		interval := time.Duration(d.interval.Load())
		due := nextTick(at, time.Now(), interval)
		timer.Reset(min(time.Until(due), interval))
		select {
		case <-ctx.Done():
			return nil
		case now := <-timer.C:
			at = onTime(due, now)
			d.tick(ctx, at)
			d.metrics.evaluation.Observe(time.Since(now).Seconds())
			d.lastTick.Store(now.UnixNano())
		}
	}
}

// tick evaluates the rules once, at a time of the wall clock or of a recording.
func (d *daemon) tick(ctx context.Context, now time.Time) {
	d.engine.SetReceivers(d.dispatcher.Receivers())
	if err := d.engine.Eval(ctx, now); err != nil && ctx.Err() == nil {
		d.log.Error("evaluating rules", "err", err)
	}
}

// alive fails when the rules have not been evaluated for three intervals.
func (d *daemon) alive() error {
	last := d.lastTick.Load()
	if last == 0 {
		return nil // still starting
	}
	if age, most := time.Since(time.Unix(0, last)), 3*time.Duration(d.interval.Load())+10*time.Second; age > most {
		return fmt.Errorf("the rules were not evaluated for %s (expected every %s)", age.Round(time.Second), time.Duration(d.interval.Load()))
	}
	return nil
}

// ready fails until history is replayed, each target was tried once (a job with
// a long interval holds it back for a minute at most) and the rules ran.
func (d *daemon) ready() error {
	switch {
	case d.readied.Load():
		return nil
	case d.server.page.Load() == nil:
		return errors.New("starting: history is being replayed")
	case !d.intake.ready() && time.Since(time.Unix(0, d.started.Load())) < firstRounds:
		return errors.New("starting: the first round of scrapes is not done")
	case d.lastTick.Load() == 0:
		return errors.New("starting: rules were not evaluated yet")
	default:
		d.readied.Store(true)
		return nil
	}
}

func (d *daemon) onClose(name string, f func() error) {
	d.closers = append(d.closers, closer{name: name, close: f})
}

// close undoes setup in reverse; a step that fails does not keep the others from running.
func (d *daemon) close() error {
	var errs []error
	for _, c := range slices.Backward(d.closers) {
		errs = append(errs, named("closing "+c.name, c.close()))
	}
	d.closers = nil
	return errors.Join(errs...)
}

// named says whose error it is; being told to stop is none.
func named(what string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// checkStorage fails early, and plainly, where nothing can be written.
func checkStorage(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("--storage.path %s cannot be written: %w; give a folder that this user may write", path, err)
	}
	return nil
}
