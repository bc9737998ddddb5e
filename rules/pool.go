package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// pool is the replicas behind one router that serve one model, and what was
// learned about them.
type pool struct {
	name string
	// conf is the configured pool; nil for a default pool.
	conf      *PoolConfig
	modelName string
	members   []*unit
	// mixed and claimed say what is wrong with the membership.
	mixed, claimed string

	// calls is what gateways' logs tell of its calls, nil where they tell
	// nothing; logged says that there is such a log, logStale why none is read,
	// and unclaimed how many calls no pool served.
	calls     *poolCalls
	logged    bool
	logStale  string
	unclaimed uint64
	// refused are what gateways count of the pool's calls that an engine
	// answered with 503.
	refused []refusedBy

	// journal tells of the deploys of the pool.
	journal *journal

	excess   *cacheExcess
	share    *reprefillShare
	drift    *cacheDrift
	peers    peerMisses
	seats    seatSize
	noFit    noFit
	headroom poolHeadroom
	outputs  []*output
	watches  []*watch
	// price is what an engine costs by a plan, nil where none prices it.
	price *EnginePrice

	// recordedAt is when its series were worked out last, in Unix milliseconds.
	recordedAt int64
	// changed are the members with a new page since the tick before.
	changed []*unit
	// part is the pool's part of a tick; sharesPage says that one of its pages
	// has engines of another pool too, so that it has none of its own.
	part       tickPart
	sharesPage bool
}

// check says what is wrong with a pool of several models.
func (p *pool) check() {
	p.mixed = ""
	for _, u := range p.members {
		if u.modelName != p.modelName {
			p.mixed = fmt.Sprintf("it mixes %s and %s: a pool has one model, name it by model_name", p.modelName, u.modelName)
		}
	}
}

// leave takes out a member.
func (p *pool) leave(u *unit) {
	u.tickedPage = 0
	p.members = slices.DeleteFunc(p.members, func(m *unit) bool { return m == u })
	p.excess.leave(u)
	p.share.leave(u)
	p.seats.leave(u)
	p.noFit.leave(u)
	p.check()
}

// status is the pool as a person sees it.
func (p *pool) status() PoolStatus {
	s := PoolStatus{Name: p.name, ModelName: p.modelName, Engines: []PoolMember{}, Problem: p.claimed}
	if p.mixed != "" {
		s.Problem = p.mixed
	}
	for _, u := range p.members {
		s.Engines = append(s.Engines, PoolMember{Job: u.target.job, Instance: u.target.instance, Engine: u.engine})
	}
	return s
}

// subject holds the labels of the pool's series.
func (p *pool) subject() labels.Labels {
	return labels.FromStrings("model_name", p.modelName, "pool", p.name)
}

// maxNumSeqs is the configured --max-num-seqs, 0 when unknown.
func (p *pool) maxNumSeqs() int {
	if p.conf == nil {
		return 0
	}
	return p.conf.MaxNumSeqs
}

// heavyPrompt is the pool's P in tokens, 0 while it is not known.
func (p *pool) heavyPrompt() float64 {
	if p == nil {
		return 0
	}
	return p.excess.prompt.tokens()
}

// interval is the longest time between two scrapes of a member, where global
// holds for those without one of their own: so far apart are values of all.
func (p *pool) interval(global time.Duration) time.Duration {
	longest := time.Duration(0)
	for _, u := range p.members {
		longest = max(longest, u.target.intervalOr(global))
	}
	if longest == 0 {
		return global
	}
	return longest
}

// tick lets the pool learn from the pages since the tick before.
func (p *pool) tick(w PoolWindow) {
	p.changed = p.changed[:0]
	for _, u := range p.members {
		if u.tickedPage != u.target.page {
			u.tickedPage = u.target.page
			p.changed = append(p.changed, u)
		}
	}
	p.seats.tick(w)
	p.excess.tick(w)
	p.share.tick(w, p.heavyPrompt())
	p.drift.tick(w)
	p.noFit.tick(w)
	p.headroom.tick(w)
}

// accept takes the pool's present cache behaviour as the new normal.
func (p *pool) accept(now time.Time) {
	p.excess.accept(now)
	p.share.accept()
	p.drift.release()
}

// poolState is what a state file holds of a pool.
type poolState struct {
	Excess json.RawMessage `json:"cache_excess"`
	Share  json.RawMessage `json:"reprefill_share,omitempty"`
	Drift  json.RawMessage `json:"cache_drift,omitempty"`
	Seats  seatState       `json:"seats"`
	NoFit  []noFitCell     `json:"no_fit,omitempty"`
	// Left is when the last engine left; zero while there are any.
	Left time.Time `json:"left,omitzero"`
}

// state is what the state file holds of the pool.
func (p *pool) state() (poolState, error) {
	s := poolState{Seats: p.seats.save(), NoFit: slices.Clone(p.noFit.cells)}
	var errs [3]error
	s.Excess, errs[0] = p.excess.save()
	s.Share, errs[1] = p.share.save()
	s.Drift, errs[2] = p.drift.save()
	if err := errors.Join(errs[:]...); err != nil {
		return poolState{}, fmt.Errorf("saving what was learned of pool %s: %w", p.name, err)
	}
	return s, nil
}

// load takes up what the state file knows of the pool.
func (p *pool) load(s poolState) error {
	p.seats.load(s.Seats)
	p.noFit.cells = s.NoFit
	var errs []error
	for _, part := range []struct {
		keeper keeper
		raw    json.RawMessage
	}{{p.excess, s.Excess}, {p.share, s.Share}, {p.drift, s.Drift}} {
		if part.raw != nil { // a file of before there was the part
			errs = append(errs, part.keeper.load(part.raw))
		}
	}
	return errors.Join(errs...)
}

// PoolWindow is all that a rule may see of one pool at one instant.
type PoolWindow struct {
	now time.Time
	ms  int64
	// fresh is how old a page may be of a target without an interval of its own.
	fresh time.Duration
	// interval is the longest scrape interval of the members.
	interval time.Duration
	pool     *pool
}

// engine is the window of one member.
func (w PoolWindow) engine(u *unit) EngineWindow {
	return EngineWindow{unitWindow: unitWindow{now: w.now, ms: w.ms, fresh: u.target.freshOr(w.fresh), unit: u}, pool: w.pool}
}

// Fresh counts the members that were read lately.
func (w PoolWindow) Fresh() int {
	n := 0
	for _, u := range w.pool.members {
		if w.engine(u).Fresh() {
			n++
		}
	}
	return n
}

// sum adds up f over the members that can tell it, and counts them.
func (w PoolWindow) sum(f func(EngineWindow) (float64, bool)) (sum float64, told int) {
	for _, u := range w.pool.members {
		if v, ok := f(w.engine(u)); ok {
			sum += v
			told++
		}
	}
	return sum, told
}

const reasonNobodyRead = "no engine of the pool was read lately"

// absent is a pool's result without a value.
func (w PoolWindow) absent(reason string) Result {
	if w.Fresh() == 0 {
		return Result{Quality: QualityStale, Reason: reasonNobodyRead}
	}
	for _, u := range w.pool.members {
		if e := w.engine(u); e.Fresh() && e.sampled() {
			return Result{Quality: QualitySampled, Reason: sampledReason}
		}
	}
	return Result{Quality: QualityAbsent, Reason: reason}
}

// known is a pool's result that told of the members could tell, over the
// window d (0: from the last pages).
func (w PoolWindow) known(v float64, d time.Duration, told int, from string) Result {
	r := Result{Value: v, Known: true, Quality: QualityOK, From: from}
	if all := len(w.pool.members); told < all {
		r.Quality, r.Coverage = QualityPartial, float64(told)/float64(all)
		r.Reason = "only a part of the pool's engines could tell"
		return r
	}
	if d == 0 {
		return r
	}
	worst := math.Inf(1)
	for _, u := range w.pool.members {
		e := w.engine(u)
		q, covered := e.quality(d)
		switch q {
		case QualityReset, QualitySampled, QualityVersionStep:
			m := e.known(v, d, from)
			return m
		case QualityPartial:
			worst = min(worst, covered)
		case QualityOK, QualityStale, QualityAbsent:
		}
	}
	if worst <= 1 {
		r.Quality, r.Coverage = QualityPartial, worst
		r.Reason = "pages cover only a part of the window"
	}
	return r
}

// series is f summed over the members at each scrape interval of the window
// that ends now, oldest first. x is seconds before now, negative. A time at
// which a fresh member had no value ends the series: what lies before it is
// left out. A window shorter than least intervals is stretched to them.
func (w PoolWindow) series(d time.Duration, least int, f func(EngineWindow, int64) (float64, bool)) (x, y []float64) {
	step := w.interval.Milliseconds()
	n := max(int(d.Milliseconds()/step), least)
	for i := range n + 1 {
		at := w.ms - int64(i)*step
		sum, told := 0.0, 0
		for _, u := range w.pool.members {
			if v, ok := f(w.engine(u), at); ok {
				sum += v
				told++
			}
		}
		if told == 0 {
			break
		}
		x = append(x, -float64(i)*w.interval.Seconds())
		y = append(y, sum)
	}
	slices.Reverse(x)
	slices.Reverse(y)
	return x, y
}

// gaugeAt is the gauge as of the newest page at or before t.
func (w unitWindow) gaugeAt(g gauge, t int64) (float64, bool) {
	return w.unit.target.short.gaugeAt(w.unit.gauges[g].column, t, w.fresh.Milliseconds())
}

// waitingAt is what waited for capacity at t.
func (w unitWindow) waitingAt(t int64) (float64, bool) {
	if v, ok := w.gaugeAt(gaugeWaitingCapacity, t); ok {
		return v, true
	}
	return w.gaugeAt(gaugeWaiting, t)
}
