// Package collector reads model servers and the gateway before them: it
// discovers targets, scrapes their metrics pages, drops what nobody wants on
// the raw bytes, gives what is left its canonical name and hands each round on
// to a function. It knows vLLM (V0 to 0.33) and LiteLLM; it imports nothing of
// kvwatch.
package collector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
)

// alignWithin is how far a scrape's time may lie beside its schedule and still
// be written as the scheduled time: even steps take less room in the store, and
// a thousandth of the usual interval changes no rate that matters. Those that
// share a place take their turns within it.
const alignWithin = 15 * time.Millisecond

// grid is what the targets' places within their interval are a multiple of:
// those that share one are scraped one right after the other. A process that
// wakes for each alone, every few milliseconds, takes up to half as much CPU time
// again: it sleeps and wakes each time, and others have the caches meanwhile.
const grid = 250 * time.Millisecond

// Options is what a Collector is made of.
type Options struct {
	// Global and Scrapes are the blocks of the configuration.
	Global  GlobalConfig
	Scrapes []ScrapeConfig
	// Sink is given every round, also the failed ones. Rounds of one target
	// come one after another, those of different targets at the same time. The
	// next scrape of the target waits until it returns.
	Sink func(ctx context.Context, round *Round)
	// Tap is given every round before Sink, with the page as it was received,
	// its compression undone; what was read of it where it was refused. The page
	// is valid until it returns. nil spares the copy.
	Tap func(round *Round, page []byte)
	// Logger is told when a target changes its state; nil discards.
	Logger *slog.Logger
	// Registerer is given the discovery's own metrics; nil keeps them private.
	Registerer prometheus.Registerer
	// UserAgent names kvwatch to the targets; "kvwatch" where empty.
	UserAgent string
}

// Collector discovers targets and scrapes each on its own schedule.
type Collector struct {
	sink      func(context.Context, *Round)
	tap       func(*Round, []byte)
	logger    *slog.Logger
	userAgent string
	gzips     sync.Pool
	desks     sync.Pool
	twins     twins
	crew      crew

	manager     *discovery.Manager
	stopManager context.CancelFunc
	loops       sync.WaitGroup

	// mu protects all below.
	mu   sync.Mutex
	ctx  context.Context // of Run; loops begin under it whenever targets are found
	jobs []*job
	// groups is what discovery last told, by job; nil before it told anything.
	groups  map[string][]*targetgroup.Group
	running map[string]*loop
	// ended says that Run waits for the loops: none may begin any more.
	ended bool
	// complaints are the discovery's faults that were logged already.
	complaints map[string]bool
}

// job is one scrape configuration with its client.
type job struct {
	config ScrapeConfig
	client *http.Client
}

// loop is a target being scraped.
type loop struct {
	scraper *targetScraper
	job     *job
	stop    context.CancelCauseFunc
	done    chan struct{}
}

// Why a loop ends while the collector goes on.
var (
	errRetired  = errors.New("no longer a target")
	errReplaced = errors.New("the target's settings changed")
)

// New makes a collector. It fails where the configuration is wrong or a file
// that it names cannot be read; nothing is contacted before Run.
func New(o Options) (*Collector, error) {
	if o.Sink == nil {
		return nil, errors.New("collector: no sink given")
	}
	c := &Collector{
		sink:      o.Sink,
		tap:       o.Tap,
		logger:    cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		userAgent: cmp.Or(o.UserAgent, "kvwatch"),
		running:   map[string]*loop{},
	}
	jobs, err := c.build(o.Global, o.Scrapes)
	if err != nil {
		return nil, err
	}
	c.jobs = jobs
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	metrics, err := discovery.CreateAndRegisterSDMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("collector: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.stopManager = cancel
	c.manager = discovery.NewManager(ctx, slog.New(redactingHandler{c.logger.Handler()}), o.Registerer, metrics, discovery.Name("scrape"))
	if c.manager == nil {
		cancel()
		return nil, errors.New("collector: discovery could not be set up")
	}
	return c, nil
}

// Run scrapes until ctx is done and all loops have ended. It is called once.
func (c *Collector) Run(ctx context.Context) error {
	defer c.loops.Wait()
	defer c.end()
	c.loops.Go(func() { _ = c.manager.Run() })
	if err := c.start(ctx); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case groups, ok := <-c.manager.SyncCh():
			if !ok {
				return nil
			}
			c.mu.Lock()
			c.groups = groups
			c.sync()
			c.mu.Unlock()
		}
	}
}

// end lets no more loops begin.
func (c *Collector) end() {
	c.stopManager()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

func (c *Collector) start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil {
		return errors.New("collector: already running")
	}
	c.ctx = ctx
	c.sync()
	return c.manager.ApplyConfig(discoverers(c.jobs))
}

// Reload takes a new configuration. Where it is wrong nothing changes. Targets
// that stay keep their series and their state.
func (c *Collector) Reload(g GlobalConfig, scrapes []ScrapeConfig) error {
	jobs, err := c.build(g, scrapes)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.jobs
	c.jobs = jobs
	for _, j := range old {
		if !slices.ContainsFunc(jobs, func(n *job) bool { return n.client == j.client }) {
			defer j.client.CloseIdleConnections()
		}
	}
	if c.ctx == nil || c.ended {
		return nil
	}
	c.sync()
	return c.manager.ApplyConfig(discoverers(jobs))
}

// build makes all of a configuration that can fail.
func (c *Collector) build(g GlobalConfig, scrapes []ScrapeConfig) ([]*job, error) {
	if err := CheckConfig(g, scrapes); err != nil {
		return nil, err
	}
	old := map[string]*job{}
	c.mu.Lock()
	for _, j := range c.jobs {
		old[j.config.JobName] = j
	}
	c.mu.Unlock()
	var jobs []*job
	for i := range scrapes {
		j := &job{config: scrapes[i].withDefaults(g)}
		for _, sd := range j.config.HTTPSDConfigs {
			if _, err := config.NewClientFromConfig(sd.HTTPClientConfig, "http_sd"); err != nil {
				return nil, fmt.Errorf("%s: http_sd_configs: %w", j.config.where(), err)
			}
		}
		if err := j.config.KubernetesSDConfigs.check(); err != nil {
			return nil, fmt.Errorf("%s: kubernetes_sd_configs: %w", j.config.where(), err)
		}
		if o := old[j.config.JobName]; o != nil && reflect.DeepEqual(o.config.HTTPClientConfig, j.config.HTTPClientConfig) {
			j.client = o.client // keeps its open connections
		} else {
			client, err := newClient(&j.config, c.userAgent)
			if err != nil {
				return nil, err
			}
			j.client = client
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// discoverers are the dynamic parts of the jobs. Static targets do not pass
// through the manager, so that they are there at once and never blink on reload.
func discoverers(jobs []*job) map[string]discovery.Configs {
	all := map[string]discovery.Configs{}
	for _, j := range jobs {
		if ds := j.config.discoverers(); len(ds) > 0 {
			all[j.config.JobName] = ds
		}
	}
	return all
}

// sync starts, keeps and stops loops so that they are those of the jobs'
// targets. The caller holds mu.
func (c *Collector) sync() {
	targets, owner, warnings := c.targets()
	for id, l := range c.running {
		if _, ok := targets[id]; !ok {
			l.stop(errRetired)
			delete(c.running, id)
		}
	}
	for id, f := range targets {
		old := c.running[id]
		if old != nil && old.same(f, owner[id]) {
			old.scraper.warn(warnings[id])
			continue
		}
		c.running[id] = c.begin(f, owner[id], warnings[id], old)
	}
}

// targets is what the jobs and discovery give now, by id.
func (c *Collector) targets() (targets map[string]found, owner map[string]*job, warnings map[string]string) {
	var all []found
	jobOf := map[*ScrapeConfig]*job{}
	complaints := map[string]bool{}
	for _, j := range c.jobs {
		jobOf[&j.config] = j
		groups := slices.Concat(j.config.StaticConfigs, c.groups[j.config.JobName])
		ts, errs := targetsOf(&j.config, groups)
		all = append(all, ts...)
		for _, err := range errs {
			complaints[fmt.Sprintf("%s: %v", j.config.where(), err)] = true
		}
	}
	kept, twice := distinct(all)
	targets, owner, warnings = map[string]found{}, map[string]*job{}, map[string]string{}
	for _, f := range kept {
		targets[f.id()], owner[f.id()] = f, jobOf[f.config]
	}
	for _, d := range twice {
		warnings[d.first.id()] = d.text()
		complaints[d.text()] = true
	}
	c.complain(complaints)
	return targets, owner, warnings
}

// complain logs the faults of discovery that are new.
func (c *Collector) complain(complaints map[string]bool) {
	for _, text := range slices.Sorted(maps.Keys(complaints)) {
		if !c.complaints[text] {
			c.logger.Warn("Discovered target is not scraped", "reason", text)
		}
	}
	c.complaints = complaints
}

// same says whether a running loop does what is wanted already.
func (l *loop) same(f found, j *job) bool {
	old := l.scraper.found
	return l.scraper.client == j.client && old.address == f.address && old.interval == f.interval && old.timeout == f.timeout &&
		old.config.HTTPClientConfig.FollowRedirects == f.config.HTTPClientConfig.FollowRedirects && l.keeps(f)
}

// keeps says whether the target's series stay the same series.
func (l *loop) keeps(f found) bool {
	old := l.scraper.found
	return labels.Equal(old.target.Labels, f.target.Labels) && old.target.Source == f.target.Source &&
		old.target.Gateway == f.target.Gateway && old.config.limits() == f.config.limits()
}

// begin starts a loop after the one that it replaces, if any, has ended. A
// target whose series stay keeps its page reader and its state.
func (c *Collector) begin(f found, j *job, warning string, old *loop) *loop {
	ctx, stop := context.WithCancelCause(c.ctx)
	l := &loop{job: j, stop: stop, done: make(chan struct{})}
	l.scraper = c.newScraper(f, j, warning)
	var after <-chan struct{}
	if old != nil {
		after = old.done
		if old.keeps(f) {
			old.stop(errReplaced)
		} else {
			old.stop(errRetired)
			old = nil
		}
	}
	start := func() {
		if old != nil {
			l.scraper.inherit(old.scraper)
		}
		l.scraper.run(ctx, &c.crew, func() {
			if errors.Is(context.Cause(ctx), errRetired) {
				l.scraper.retire(c.ctx)
			}
			stop(nil)
			close(l.done)
			c.loops.Done()
		})
	}
	c.loops.Add(1)
	if after == nil {
		start()
		return l
	}
	go func() {
		<-after
		start()
	}()
	return l
}

func (c *Collector) newScraper(f found, j *job, warning string) *targetScraper {
	r := newRounds(f.target, f.config.limits())
	r.desks = &c.desks
	return &targetScraper{
		found: f, client: j.client, gzips: &c.gzips, sink: c.sink, tap: c.tap, logger: c.logger, warning: warning,
		rounds: r, details: &details{}, twins: &c.twins,
		public: TargetStatus{
			Job: f.target.Labels.Get(model.JobLabel), Instance: f.target.Labels.Get(model.InstanceLabel),
			URL: f.target.URL, Source: f.target.Source, State: StateUnknown, Since: time.Now(), Warning: warning,
		},
	}
}

// Targets lists the targets in order of job and instance.
func (c *Collector) Targets() []TargetStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]TargetStatus, 0, len(c.running))
	for _, l := range c.running {
		all = append(all, l.scraper.status())
	}
	sortTargets(all)
	return all
}

// sortTargets puts targets in order of job and instance.
func sortTargets(all []TargetStatus) {
	slices.SortFunc(all, func(a, b TargetStatus) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Instance, b.Instance))
	})
}

// Scrapes says whether a target of this job and instance is scraped now.
func (c *Collector) Scrapes(job, instance string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[targetID(job, instance)] != nil
}

// Ready says whether every known target was tried once.
func (c *Collector) Ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil || (c.groups == nil && len(discoverers(c.jobs)) > 0) {
		return false
	}
	for _, l := range c.running {
		if !l.scraper.tried() {
			return false
		}
	}
	return true
}

// run begins to scrape on schedule, until ctx is done, and then calls ended. The
// schedule depends on the target only: restarts do not move it, and the targets
// are spread.
func (s *targetScraper) run(ctx context.Context, crew *crew, ended func()) {
	offset := s.offset()
	due := func() time.Time { return nextScrape(time.Now(), s.found.interval, offset) }
	scrape := func(due time.Time) {
		now := time.Now()
		if d := now.Sub(due); d > -alignWithin && d < alignWithin {
			now = due
		}
		s.scrape(ctx, now)
	}
	crew.repeat(ctx, due, scrape, func() {
		s.twins.forget(s)
		s.details.wait()
		ended()
	})
}

// offset is the target's place within its interval, on the grid.
func (s *targetScraper) offset() time.Duration {
	place := time.Duration(xxhash.Sum64String(s.found.id()) % uint64(s.found.interval))
	return place.Truncate(grid)
}

// nextScrape is the first time after now that lies offset into an interval,
// counted from the Unix epoch.
func nextScrape(now time.Time, interval, offset time.Duration) time.Time {
	past := time.Duration((now.UnixNano() - int64(offset)) % int64(interval))
	return time.Unix(0, now.UnixNano()+int64(interval-past)).UTC()
}
