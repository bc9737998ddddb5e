package collector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// SourcePrometheus is a server with Prometheus's query API, as a target of its
// own: its state says whether what stands behind it can be known.
const SourcePrometheus = "prometheus"

// PrometheusJob is the job label of such servers.
const PrometheusJob = "prometheus"

// forgetAfter is after how many good answers without it a target is none.
const forgetAfter = 3

// PrometheusOptions is what a Prometheus is made of.
type PrometheusOptions struct {
	Global  GlobalConfig
	Sources []PrometheusConfig
	// Sink is given every round, as a Collector's is.
	Sink func(ctx context.Context, round *Round)
	// Taken says that a target is scraped as well: it is then left out here. nil
	// is never.
	Taken func(job, instance string) bool
	// Logger is told when a server or a target changes its state; nil discards.
	Logger *slog.Logger
	// UserAgent names kvwatch to the servers; "kvwatch" where empty.
	UserAgent string
}

// Prometheus reads targets from servers that have scraped them already. Each
// round of queries gives a Round for every target (job, instance) whose `up`
// has a new sample, with the time of that scrape; the series pass through the
// same tables as those of pages. A server that cannot be asked is down itself,
// its targets are not: what is behind it becomes stale.
type Prometheus struct {
	sink      func(context.Context, *Round)
	taken     func(job, instance string) bool
	logger    *slog.Logger
	userAgent string
	desks     sync.Pool
	loops     sync.WaitGroup

	// mu protects all below.
	mu      sync.Mutex
	ctx     context.Context // of Run
	servers []*promServer
}

// NewPrometheus makes the readers. It fails where an entry is wrong or a file
// that it names cannot be read; nothing is contacted before Backfill or Run.
func NewPrometheus(o PrometheusOptions) (*Prometheus, error) {
	if o.Sink == nil {
		return nil, errors.New("prometheus_sources: no sink given")
	}
	p := &Prometheus{
		sink: o.Sink, taken: o.Taken, userAgent: cmp.Or(o.UserAgent, "kvwatch"),
		logger: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
	}
	if p.taken == nil {
		p.taken = func(string, string) bool { return false }
	}
	servers, err := p.build(o.Global, o.Sources)
	p.servers = servers
	return p, err
}

// build makes the servers of a configuration; those that stay as they are are kept.
func (p *Prometheus) build(g GlobalConfig, sources []PrometheusConfig) ([]*promServer, error) {
	if err := CheckPrometheusConfig(sources); err != nil {
		return nil, err
	}
	var all []*promServer
	for i := range sources {
		c := sources[i].withDefaults(g)
		c.line = 0 // where it stands makes no difference
		var s *promServer
		for _, old := range p.servers {
			if reflect.DeepEqual(old.config, c) {
				s = old
			}
		}
		if s == nil {
			var err error
			if s, err = p.newServer(c); err != nil {
				return nil, err
			}
		}
		all = append(all, s)
	}
	return all, nil
}

func (p *Prometheus) newServer(c PrometheusConfig) (*promServer, error) {
	client, err := config.NewClientFromConfig(c.HTTPClientConfig, SourcePrometheus, config.WithUserAgent(p.userAgent))
	if err != nil {
		return nil, fmt.Errorf("prometheus_sources: %s: %w", c.URL.Host, err)
	}
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if !c.HTTPClientConfig.FollowRedirects || len(via) > 1 || !sameHost(req.URL, via[0].URL) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	target := Target{
		Labels: labels.FromStrings(model.JobLabel, PrometheusJob, model.InstanceLabel, c.URL.Host),
		URL:    publicURL(c.URL.URL), Source: SourcePrometheus,
	}
	s := &promServer{
		config: c, reader: p, targets: map[string]*promTarget{}, done: make(chan struct{}),
		self: p.newScraper(target, &ScrapeConfig{HTTPClientConfig: c.HTTPClientConfig}),
	}
	s.self.found.address, s.self.found.timeout = c.URL.String(), time.Duration(c.Timeout)
	s.client = queryClient{client: client, base: c.URL.URL, asker: s.self, series: c.SampleLimit}
	return s, nil
}

// newScraper holds the rounds and the state of a target that nobody here scrapes.
func (p *Prometheus) newScraper(t Target, c *ScrapeConfig) *targetScraper {
	r := newRounds(t, c.limits())
	r.desks = &p.desks
	return &targetScraper{
		found: found{config: c, target: t}, sink: p.sink, logger: p.logger, rounds: r,
		public: TargetStatus{
			Job: t.Labels.Get(model.JobLabel), Instance: t.Labels.Get(model.InstanceLabel),
			URL: t.URL, Source: t.Source, State: StateUnknown, Since: time.Now(),
		},
	}
}

// Run asks all servers, each on its own schedule, until ctx is done.
func (p *Prometheus) Run(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	for _, s := range p.servers {
		p.begin(s)
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.loops.Wait()
	return nil
}

// begin starts the loop of a server; the caller holds mu.
func (p *Prometheus) begin(s *promServer) {
	ctx, stop := context.WithCancel(p.ctx)
	s.stop = stop
	p.loops.Go(func() {
		defer close(s.done)
		defer stop()
		s.run(ctx)
		if p.ctx.Err() == nil {
			s.retire(p.ctx)
		}
	})
}

// Reload takes a new configuration. Where it is wrong nothing changes. Servers
// that stay go on, and the series of those that went end.
func (p *Prometheus) Reload(g GlobalConfig, sources []PrometheusConfig) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	servers, err := p.build(g, sources)
	if err != nil {
		return err
	}
	kept := map[*promServer]bool{}
	for _, s := range servers {
		kept[s] = true
	}
	known := map[*promServer]bool{}
	for _, s := range p.servers {
		known[s] = true
		if !kept[s] && s.stop != nil {
			s.stop()
			<-s.done
		}
	}
	p.servers = servers
	for _, s := range servers {
		if !known[s] && p.ctx != nil {
			p.begin(s)
		}
	}
	return nil
}

// Targets lists the servers and what is behind them, in order of job and instance.
func (p *Prometheus) Targets() []TargetStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []TargetStatus
	for _, s := range p.servers {
		all = append(all, s.status()...)
	}
	sortTargets(all)
	return all
}

// Ready says whether every server was asked once.
func (p *Prometheus) Ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		if !s.self.tried() {
			return false
		}
	}
	return p.ctx != nil
}

// promServer is one server and what it knows. Its methods are called by one
// goroutine at a time; status may be called by any.
type promServer struct {
	config PrometheusConfig
	reader *Prometheus
	client queryClient
	self   *targetScraper
	stop   context.CancelFunc
	done   chan struct{}

	// mu protects targets against status.
	mu      sync.Mutex
	targets map[string]*promTarget
}

// promTarget is one target as a server knows it.
type promTarget struct {
	*targetScraper
	// last is the time of its last round, in Unix milliseconds.
	last int64
	// missed counts the good answers in a row that did not have it.
	missed int
	page   []StoredSample
}

func (s *promServer) status() []TargetStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []TargetStatus{s.self.status()}
	for _, t := range s.targets {
		all = append(all, t.status())
	}
	return all
}

// run asks on schedule until ctx is done.
func (s *promServer) run(ctx context.Context) {
	interval := time.Duration(s.config.Interval)
	offset := time.Duration(xxhash.Sum64String(s.config.URL.String()) % uint64(interval))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(nextScrape(time.Now(), interval, offset)))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			s.round(ctx, time.Now())
		}
	}
}

// round asks once and hands on what is new.
func (s *promServer) round(ctx context.Context, now time.Time) {
	began := time.Now()
	seen := newPromAnswer(1)
	err := s.look(ctx, seen)
	if ctx.Err() != nil {
		return
	}
	var own *Round
	if err != nil {
		why := failureOf(err)
		own = s.self.rounds.failed(why, now)
		s.unknown(why)
	} else {
		s.show(seen, 0, func(r *Round, _ pageInfo) { s.reader.sink(ctx, r) })
		s.forget(ctx, seen)
		own = s.self.rounds.well(now)
	}
	own.Duration = time.Since(began)
	s.reader.sink(ctx, own)
	s.self.warn(seen.warning(own.State))
	s.self.report(own, pageInfo{}, selfTold{}, false)
}

// well makes a round of a target that has no page of its own.
func (r *rounds) well(at time.Time) *Round {
	r.down[0] = Sample{Series: r.up, Value: 1}
	r.round = Round{Target: r.target, Time: at, State: StateUp, Samples: r.down[:]}
	return &r.round
}

// look asks for the present values.
func (s *promServer) look(ctx context.Context, seen *promAnswer) error {
	return s.queries(ctx, time.Duration(s.config.Timeout), seen, s.client.instant)
}

// queries asks for all series, then for what says when and how their targets
// were scraped. Each query has the time-out for itself.
func (s *promServer) queries(ctx context.Context, timeout time.Duration, seen *promAnswer, ask func(context.Context, string, func(*querySeries) error) (bool, error)) error {
	one := func(query string, take func(*querySeries) error) error {
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		partial, err := ask(limited, query, take)
		seen.partial = seen.partial || partial
		return err
	}
	for _, selector := range s.config.selectors() {
		if err := one(selector, seen.series); err != nil {
			return err
		}
	}
	jobs := seen.jobs(s.targets)
	if len(jobs) == 0 {
		return nil
	}
	for _, selector := range s.config.targetSelectors([]string{Up, ProcessStart}, jobs) {
		if err := one(selector, func(q *querySeries) error { return seen.ofTarget(q, s.targets) }); err != nil {
			return err
		}
	}
	for _, selector := range s.config.targetSelectors([]string{Up}, jobs) {
		if err := one("timestamp("+selector+")", seen.scraped); err != nil {
			return err
		}
	}
	return nil
}

// show hands on a round for each target that has something new at the i-th
// time of the answer.
func (s *promServer) show(seen *promAnswer, i int, sink func(*Round, pageInfo)) {
	for _, id := range seen.inOrder(i) {
		one := seen.targets[id]
		if s.reader.taken(one.job, one.instance) {
			seen.taken++
			continue
		}
		at, up := one.when(i, seen.times[i]), one.up.at(i)
		if isMissing(up) && !one.any(i) {
			continue // the server knows nothing of it at this time
		}
		t := s.target(id, one)
		if t.missed = 0; at <= t.last {
			continue // no scrape since
		}
		t.last = at
		began := time.Now()
		round, info := s.roundOf(t, one, i, time.UnixMilli(at).UTC(), up)
		round.Duration = time.Since(began)
		sink(round, info)
		t.report(round, info, selfTold{}, false)
		t.rounds.done()
	}
}

func (s *promServer) roundOf(t *promTarget, one *promSeen, i int, at time.Time, up float64) (*Round, pageInfo) {
	host := s.config.URL.Host
	switch {
	case one.twice:
		return t.rounds.failed(failure{StateNotMetrics, fmt.Sprintf("%s holds several targets of this job and instance: tell them apart by match, as in {cluster=\"a\"}", host)}, at), pageInfo{}
	case up == 0:
		return t.rounds.failed(failure{StateDown, fmt.Sprintf("%s cannot scrape it (its up is 0): its page of targets says why", host)}, at), pageInfo{}
	}
	t.page = one.page(t.page[:0], i)
	return t.rounds.stored(t.page, at)
}

// target finds or makes a target.
func (s *promServer) target(id string, one *promSeen) *promTarget {
	if t := s.targets[id]; t != nil {
		return t
	}
	t := &promTarget{targetScraper: s.reader.newScraper(Target{
		Labels:  labels.FromStrings(model.JobLabel, one.job, model.InstanceLabel, one.instance),
		URL:     s.self.public.URL,
		Source:  one.source,
		Gateway: s.config.Gateway,
	}, &ScrapeConfig{SampleLimit: s.config.SampleLimit})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.targets[id] = t
	return t
}

// forget ends the series of targets that the server has no more.
func (s *promServer) forget(ctx context.Context, seen *promAnswer) {
	for id, t := range s.targets {
		if seen.targets[id] != nil {
			continue
		}
		if t.missed++; t.missed >= forgetAfter {
			t.retire(ctx)
			s.mu.Lock()
			delete(s.targets, id)
			s.mu.Unlock()
		}
	}
}

// unknown says of all targets that nobody can tell.
func (s *promServer) unknown(why failure) {
	for _, t := range s.targets {
		t.mu.Lock()
		t.public.State, t.public.Reason = StateUnknown, "the server that knows it cannot be asked: "+why.reason
		t.mu.Unlock()
	}
}

// retire ends the series of a server that is no longer one.
func (s *promServer) retire(ctx context.Context) {
	for _, t := range s.targets {
		t.retire(ctx)
	}
	s.self.retire(ctx)
}

// failureOf says what an error of the client means.
func failureOf(err error) failure {
	if e, ok := errors.AsType[*queryError](err); ok {
		return e.failure
	}
	return failure{StateDown, "the server cannot be asked: " + kindOf(err)}
}

// isMissing says whether there is no value.
func isMissing(v float64) bool { return math.IsNaN(v) }
