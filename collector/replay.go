package collector

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// lingerFor is how long the targets of a recording that has ended are kept as
// they were last, before their series end.
const lingerFor = time.Minute

// ReplayOptions is what a Replay is made of.
type ReplayOptions struct {
	// Scrapes are all scrape configurations; those whose source is
	// SourceRecording are played.
	Scrapes []ScrapeConfig
	// Sink is given every round, as a Collector's is.
	Sink func(ctx context.Context, round *Round)
	// Taken says that a target is scraped live: pages of the same job and
	// instance are then left out. nil is never.
	Taken func(job, instance string) bool
	// Logger is told what an operator should know; nil discards.
	Logger *slog.Logger
}

// Replay plays recordings as if their targets were scraped now: the first page
// is of the moment in which it begins, and the others follow as they did then.
// So the rounds' times, and the start times of processes on the pages, are the
// recorded ones shifted; at a speed other than 1 the time between is shorter
// or longer by that much, and rates are higher or lower. Recordings with speed
// 0 end now instead: CatchUp hands their rounds on at once, with the times
// between them as they were.
type Replay struct {
	sink   func(context.Context, *Round)
	taken  func(job, instance string) bool
	logger *slog.Logger
	linger time.Duration
	desks  sync.Pool
	loops  sync.WaitGroup

	// mu protects all below.
	mu      sync.Mutex
	ctx     context.Context // of Run
	players map[playerKey]*player
}

// playerKey says what is played; two players of one Replay differ in it.
type playerKey struct {
	job, path string
	speed     float64
	gateway   GatewaySettings
}

// player plays one recording.
type player struct {
	key       playerKey
	recording *Recording
	// scrapers hold each folder's rounds and what a person sees of them.
	scrapers []*targetScraper
	// from is the time at which the recording's first page is shown.
	from time.Time
	buf  bytes.Buffer
	stop context.CancelFunc
	done chan struct{}
}

// NewReplay opens the recordings. It fails where one cannot be read, or where
// two hold the same target.
func NewReplay(o ReplayOptions) (*Replay, error) {
	if o.Sink == nil {
		return nil, errors.New("replay: no sink given")
	}
	r := &Replay{
		sink: o.Sink, taken: o.Taken, linger: lingerFor,
		logger: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
	}
	if r.taken == nil {
		r.taken = func(string, string) bool { return false }
	}
	players, err := r.open(o.Scrapes)
	if err != nil {
		return nil, err
	}
	r.players = players
	return r, nil
}

// open opens what is not open yet, and returns all that the configuration names.
func (r *Replay) open(scrapes []ScrapeConfig) (players map[playerKey]*player, err error) {
	players = map[playerKey]*player{}
	defer func() {
		if err == nil {
			return
		}
		for key, p := range players {
			if r.players[key] != p {
				err = errors.Join(err, p.recording.Close())
			}
		}
	}()
	for i := range scrapes {
		c := &scrapes[i]
		for _, one := range c.Recordings {
			key := playerKey{job: c.JobName, path: one.Path, speed: one.Speed, gateway: c.Gateway}
			p := r.players[key]
			if p == nil {
				if p, err = r.openOne(c, key); err != nil {
					return players, fmt.Errorf("%s: %w", c.where(), err)
				}
			}
			if players[key] != nil {
				return players, fmt.Errorf("%s: recording %s is named twice", c.where(), one.Path)
			}
			players[key] = p
		}
	}
	return players, checkPlayed(players)
}

func (r *Replay) openOne(c *ScrapeConfig, key playerKey) (*player, error) {
	recording, err := OpenRecording(key.path)
	if err != nil {
		return nil, err
	}
	p := &player{key: key, recording: recording}
	for _, t := range recording.Targets() {
		target := *t
		target.Gateway = key.gateway
		if target.Labels.Get(model.JobLabel) == recordedJob { // not named by targets.yml
			target.Labels = labels.NewBuilder(target.Labels).Set(model.JobLabel, key.job).Labels()
		}
		own := newRounds(target, c.limits())
		own.desks = &r.desks
		p.scrapers = append(p.scrapers, &targetScraper{
			found: found{config: c, target: target}, sink: r.sink, logger: r.logger,
			rounds: own,
			public: TargetStatus{
				Job: target.Labels.Get(model.JobLabel), Instance: target.Labels.Get(model.InstanceLabel),
				URL: target.URL, Source: target.Source, State: StateUnknown, Since: time.Now(),
			},
		})
	}
	return p, nil
}

// checkPlayed refuses the same target in two recordings.
func checkPlayed(players map[playerKey]*player) error {
	paths := map[string]string{}
	for key, p := range players {
		for _, s := range p.scrapers {
			if other, twice := paths[s.found.id()]; twice {
				first, second := min(key.path, other), max(key.path, other)
				return fmt.Errorf("recordings %s and %s both hold instance %q of job %q: name them apart in targets.yml",
					first, second, s.public.Instance, s.public.Job)
			}
			paths[s.found.id()] = key.path
		}
	}
	return nil
}

// quietAfter is how long there was no page when CatchUp's clock goes on by
// quietStep: longer than any window of the rules.
const (
	quietAfter = 3 * time.Hour
	quietStep  = time.Minute
)

// CatchUp plays all recordings with speed 0, merged in the order of time, so
// that their last pages are of the time now. tick is called every step of that
// time, as the clock of a daemon would have; in a gap that is longer than all that
// the rules look at it is called less often, so that one of weeks takes seconds.
// Call it before Run.
func (r *Replay) CatchUp(ctx context.Context, now time.Time, step time.Duration, tick func(now time.Time) error) error {
	var next, last time.Time
	for p, page := range merge(r.fast(now)) {
		at := p.shift(page.Time)
		if next.IsZero() {
			next = at.Add(step)
		}
		for at.After(next) {
			if err := tick(next); err != nil {
				return err
			}
			steps := time.Duration(1)
			if next.Sub(last) >= quietAfter {
				steps = max(min(quietStep, at.Sub(next))/step, 1)
			}
			next = next.Add(steps * step)
		}
		last = at
		if err := ctx.Err(); err != nil {
			return err
		}
		r.show(ctx, p, page, at)
	}
	if next.IsZero() {
		return nil
	}
	return tick(now)
}

// fast lists the players with speed 0, set so that they end now.
func (r *Replay) fast(now time.Time) []*player {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*player
	for _, p := range r.players {
		if p.key.speed == 0 {
			first, last := p.recording.Span()
			p.from = now.Add(first.Sub(last))
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *player) int {
		return cmp.Or(cmp.Compare(a.key.job, b.key.job), cmp.Compare(a.key.path, b.key.path))
	})
	return all
}

// merge gives the pages of all players in the order of the times at which they
// are shown.
func merge(players []*player) iter.Seq2[*player, Page] {
	type head struct {
		player *player
		page   Page
		next   func() (Page, bool)
	}
	return func(yield func(*player, Page) bool) {
		var heads []head
		for _, p := range players {
			next, stop := iter.Pull(p.recording.Pages())
			defer stop()
			if page, ok := next(); ok {
				heads = append(heads, head{p, page, next})
			}
		}
		for len(heads) > 0 {
			first := 0
			for i := range heads {
				if heads[i].player.shift(heads[i].page.Time).Before(heads[first].player.shift(heads[first].page.Time)) {
					first = i
				}
			}
			h := &heads[first]
			if !yield(h.player, h.page) {
				return
			}
			var ok bool
			if h.page, ok = h.next(); !ok {
				heads = slices.Delete(heads, first, first+1)
			}
		}
	}
}

// Run plays all recordings that have a speed, each from its beginning, until
// ctx is done. It is called once.
func (r *Replay) Run(ctx context.Context) error {
	r.mu.Lock()
	r.ctx = ctx
	for _, p := range r.players {
		r.begin(p)
	}
	r.mu.Unlock()
	<-ctx.Done()
	r.loops.Wait()
	return nil
}

// begin starts a player; the caller holds mu.
func (r *Replay) begin(p *player) {
	ctx, stop := context.WithCancel(r.ctx)
	p.stop, p.done = stop, make(chan struct{})
	if p.key.speed > 0 {
		p.from = time.Now()
	}
	r.loops.Go(func() {
		defer close(p.done)
		defer stop()
		r.play(ctx, p)
		r.retire(p)
	})
}

// play shows each page when its time has come, and waits a while after the last.
func (r *Replay) play(ctx context.Context, p *player) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	wait := func(until time.Time) bool {
		timer.Reset(time.Until(until))
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		}
	}
	if p.key.speed > 0 {
		for page := range p.recording.Pages() {
			at := p.shift(page.Time)
			if !wait(at) {
				return
			}
			r.show(ctx, p, page, at)
		}
	}
	r.logger.Info("Recording has ended", "job", p.key.job, "path", p.key.path)
	wait(time.Now().Add(r.linger))
}

// retire ends all series of a player whose recording has ended, unless
// everything ends.
func (r *Replay) retire(p *player) {
	if r.ctx.Err() != nil {
		return
	}
	for _, s := range p.scrapers {
		gone := s.rounds.gone(time.Now())
		gone.Reason = "the recording has ended"
		r.sink(r.ctx, gone)
		s.report(gone, pageInfo{}, selfTold{}, false)
	}
}

// shift is the time at which a page of the recorded time t is shown.
func (p *player) shift(t time.Time) time.Time {
	first, _ := p.recording.Span()
	since := t.Sub(first)
	if p.key.speed > 0 {
		since = time.Duration(float64(since) / p.key.speed)
	}
	return p.from.Add(since)
}

// show hands on one page as a round of the time at.
func (r *Replay) show(ctx context.Context, p *player, page Page, at time.Time) {
	s := p.scrapers[page.entry.folder]
	if r.taken(s.public.Job, s.public.Instance) {
		s.warn("a target of this job and instance is scraped: the recorded one is left out")
		s.report(&Round{Target: s.rounds.target, Time: at, State: StateUnknown}, pageInfo{}, selfTold{}, false)
		return
	}
	began := time.Now()
	round, info := page.replay(s.rounds, at, &p.buf)
	p.shiftStart(round)
	round.Duration = time.Since(began)
	r.sink(ctx, round)
	s.report(round, info, selfTold{}, false)
	s.rounds.done()
}

// shiftStart moves the process' start along with the page: else every process
// would seem to have begun long before the first page of it.
func (p *player) shiftStart(round *Round) {
	for i := range round.Samples {
		one := &round.Samples[i]
		if one.Series.Labels.Get(model.MetricNameLabel) == ProcessStart {
			moved := p.shift(time.UnixMilli(int64(one.Value * 1000)))
			one.Value = float64(moved.UnixMilli()) / 1000
		}
	}
}

// Reload takes new scrape configurations. Recordings that stay play on; one
// that comes anew begins, unless it has speed 0. Where something is wrong
// nothing changes.
func (r *Replay) Reload(scrapes []ScrapeConfig) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range scrapes {
		c := &scrapes[i]
		for _, one := range c.Recordings {
			if r.players[playerKey{c.JobName, one.Path, one.Speed, c.Gateway}] == nil && one.Speed == 0 {
				return fmt.Errorf("%s: recording %s %w", c.where(), one.Path, errNotOnReload)
			}
		}
	}
	players, err := r.open(scrapes)
	if err != nil {
		return err
	}
	var errs []error
	for key, p := range r.players {
		if players[key] == p {
			continue
		}
		if p.stop != nil {
			p.stop()
			<-p.done
		}
		errs = append(errs, p.recording.Close())
	}
	for key, p := range players {
		if r.players[key] != p && r.ctx != nil {
			r.begin(p)
		}
	}
	r.players = players
	return errors.Join(errs...)
}

// Targets lists the recorded targets in order of job and instance.
func (r *Replay) Targets() []TargetStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []TargetStatus
	for _, p := range r.players {
		for _, s := range p.scrapers {
			all = append(all, s.status())
		}
	}
	sortTargets(all)
	return all
}

// Close closes the recordings; Run has ended by then.
func (r *Replay) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, p := range r.players {
		errs = append(errs, p.recording.Close())
	}
	return errors.Join(errs...)
}
