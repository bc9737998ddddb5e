package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kvwatch/collector"
)

const (
	// settled is how long after its end a call is put in its place: gateways
	// write rows late, and several write them out of order.
	settled = time.Minute
	// sureFirst is how long after the log's beginning a session must begin to be
	// sure that its first call in the log was its first.
	sureFirst = 10 * time.Minute
	// taskIdle ends a task: so long nobody waits for an answer any more.
	taskIdle = 300 * time.Second
	// gateIdle is how long a session rests before it counts as one of a single call.
	gateIdle = 2 * time.Minute
	// sessionKept is how long a session without calls is remembered at least.
	sessionKept = 2 * time.Hour
	// mostSessions and mostWaiting bound memory: half of the first are kept for
	// sure, and of the second none is lost but some are placed early.
	mostSessions = 100_000
	mostWaiting  = 200_000
	// sameStart is how close two rows of one session begin that are attempts of
	// the same call.
	sameStart = 5 // milliseconds
)

// sessions follows the calls of gateways' logs: the session that each belongs
// to, what went before it there, and the pool that served it.
type sessions struct {
	sources map[string]*callSource
	// waiting holds the calls that ended too short ago to be put in their place.
	waiting []loggedCall
	// young and old are two generations of sessions: a session that calls is
	// moved to the young ones, and what is old when the next generation begins
	// is forgotten.
	young, old map[uint64]*session
	turnedAt   int64
	sweptAt    int64
	pools      map[string]*poolCalls
	// claims remembers which pool serves a model on a host, until the next Eval.
	claims map[servedModel]string
	// unclaimed counts the calls that no pool serves, since the start.
	unclaimed uint64
}

// callSource is one log and how its last read went.
type callSource struct {
	name   string
	state  collector.State
	reason string
	from   time.Time
	// read is when it was last read with success.
	read time.Time
}

// loggedCall is a call and the log that it stands in.
type loggedCall struct {
	collector.Call
	log *callSource
}

// servedModel is what tells the pool of a call.
type servedModel struct{ model, group, host string }

// session is what is remembered of one session; times are Unix milliseconds.
type session struct {
	lastStart, lastEnd int64
	taskStart          int64
	// lastPrompt and lastOutput are the tokens of the newest call that tells them.
	lastPrompt, lastOutput int64
	calls                  int32
	taskOpen               bool
	// failed says that the last row was an attempt that failed, and failedAt
	// where its call stands: the attempt that succeeds stands there too.
	failed            bool
	failedAt          place
	group, deployment string
	pool              string
}

// ObserveCalls takes what one read of a gateway's log yielded. It keeps no
// slice of r.
func (e *Engine) ObserveCalls(r *collector.CallRound) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &e.sessions
	if s.sources == nil {
		s.sources = map[string]*callSource{}
	}
	src := s.sources[r.Source]
	if src == nil {
		src = &callSource{name: r.Source}
		s.sources[r.Source] = src
	}
	src.state, src.reason, src.from = r.State, r.Reason, r.From
	if r.State == collector.StateUp {
		src.read = r.Time
	}
	for _, c := range r.Calls {
		s.waiting = append(s.waiting, loggedCall{c, src})
	}
	e.assign(e.instant(e.now)) // pools are known as soon as an engine was scraped
	clear(s.claims)
	e.placeCalls(r.Time)
}

// tickCalls brings what is told of sessions up to now.
func (e *Engine) tickCalls(now time.Time) {
	s := &e.sessions
	if len(s.sources) == 0 {
		return
	}
	clear(s.claims) // pools may have come
	e.placeCalls(now)
	if ms := now.UnixMilli(); ms-s.sweptAt >= time.Minute.Milliseconds() {
		s.sweptAt = ms
		e.sweepSessions(ms)
	}
	for _, name := range slices.Sorted(maps.Keys(s.pools)) {
		p := s.pools[name]
		p.tick(now, e.servedShare(p, now))
		p.stale = stale(p.logs, now)
	}
	for _, p := range e.pools {
		p.calls, p.logged, p.unclaimed = s.pools[p.name], true, s.unclaimed
		p.logStale = stale(s.sources, now)
	}
}

// stale says why none of the logs says anything of now; empty when one does.
func stale(logs map[string]*callSource, now time.Time) string {
	said := ""
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		switch l := logs[name]; {
		case l.read.IsZero():
			said = fmt.Sprintf("the log of calls was not read yet: %s", cmp.Or(l.reason, string(l.state)))
		case now.Sub(l.read) > quarter:
			said = fmt.Sprintf("the log of calls was not read for %s: %s", spell(now.Sub(l.read)), cmp.Or(l.reason, string(l.state)))
		default:
			return ""
		}
	}
	return said
}

// placeCalls puts the calls in their place that ended long enough ago, in the
// order in which they began.
func (e *Engine) placeCalls(now time.Time) {
	s := &e.sessions
	until := now.Add(-settled)
	ripe := func(c loggedCall) bool { return !c.End.After(until) }
	if len(s.waiting) > mostWaiting {
		ripe = func(loggedCall) bool { return true }
	}
	var ready []loggedCall
	kept := s.waiting[:0]
	for _, c := range s.waiting {
		if ripe(c) {
			ready = append(ready, c)
		} else {
			kept = append(kept, c)
		}
	}
	clear(s.waiting[len(kept):])
	s.waiting = kept
	slices.SortStableFunc(ready, func(a, b loggedCall) int { return a.Start.Compare(b.Start) })
	for i := range ready {
		e.placeCall(&ready[i].Call, ready[i].log)
	}
}

// placeCall finds out where in its session a call stands, and counts it.
func (e *Engine) placeCall(c *collector.Call, log *callSource) {
	s := &e.sessions
	p := e.callsOf(c)
	if p == nil {
		s.unclaimed++
		p = &poolCalls{} // the session goes on all the same
	} else {
		p.logs[log.name] = log
		p.arrive(c)
	}
	usable := !c.Failed && !c.Answered && c.PromptTokens > 0 && c.OutputTokens > 0
	if c.Session == 0 {
		if usable {
			p.count(c, positionUnknown)
		}
		return
	}
	start, end := c.Start.UnixMilli(), max(c.End.UnixMilli(), c.Start.UnixMilli())
	known, isNew := s.session(c.Session, end)
	if usable && !isNew && known.calls > 0 && !known.failed && start-known.lastStart <= sameStart && start >= known.lastStart && c.PromptTokens == known.lastPrompt {
		known.lastEnd = max(known.lastEnd, end) // another attempt of the same call
		return
	}
	// A failed call is part of the conversation, and says nothing of the cache.
	at := where(known, isNew, start, c.Start.Sub(log.from) < sureFirst)
	if known.failed && start-known.lastStart <= sameStart {
		at = known.failedAt
	}
	if usable {
		p.count(c, at)
		p.switched(c, known, at)
		p.place(c, known, at)
	}
	known.goOn(c, p, start, end, usable, at)
}

// where tells a call's place from what is known of its session.
func where(s *session, isNew bool, start int64, maybeBefore bool) place {
	switch {
	case isNew && maybeBefore:
		return positionUnknown
	case isNew:
		return positionFirst
	case start <= s.lastEnd:
		return positionOverlap // parallel calls of sub-agents
	default:
		return place{gap: time.Duration(start-s.lastEnd) * time.Millisecond}
	}
}

// goOn takes the call into the session.
func (s *session) goOn(c *collector.Call, p *poolCalls, start, end int64, usable bool, at place) {
	if at.gap >= taskIdle || !s.taskOpen {
		p.endTask(s)
		s.taskStart, s.taskOpen = start, true
	}
	if usable {
		if s.calls == 0 {
			p.sessions++
		}
		s.calls++
		p.sessionCalls++
		if start >= s.lastStart {
			s.group, s.deployment, s.lastPrompt, s.lastOutput = c.ModelGroup, servedBy(c), c.PromptTokens, c.OutputTokens
		}
	}
	if p.name != "" {
		s.pool = p.name
	}
	s.failed, s.failedAt = !usable, at
	s.lastStart, s.lastEnd = max(s.lastStart, start), max(s.lastEnd, end)
}

// servedBy names the replica that served a call.
func servedBy(c *collector.Call) string { return cmp.Or(c.Deployment, c.Host) }

// session finds or makes a session.
func (s *sessions) session(id uint64, now int64) (known *session, isNew bool) {
	if s.young == nil {
		s.young, s.turnedAt = map[uint64]*session{}, now
	}
	if len(s.young) >= mostSessions/2 || now-s.turnedAt > sessionKept.Milliseconds() {
		s.old, s.young, s.turnedAt = s.young, map[uint64]*session{}, now
	}
	if known = s.young[id]; known != nil {
		return known, false
	}
	if known = s.old[id]; known != nil {
		delete(s.old, id)
	} else {
		known, isNew = &session{}, true
	}
	s.young[id] = known
	return known, isNew
}

// sweepSessions ends tasks, and counts the sessions that rest.
func (e *Engine) sweepSessions(now int64) {
	s := &e.sessions
	e.checkCallPools()
	for _, p := range s.pools {
		p.rested, p.singles, p.callsEach = 0, 0, p.callsEach[:0]
	}
	for _, generation := range []map[uint64]*session{s.young, s.old} {
		for _, one := range generation {
			p := s.pools[one.pool]
			idle := now - settled.Milliseconds() - one.lastEnd
			if p == nil || one.calls == 0 || idle < gateIdle.Milliseconds() || idle > time.Hour.Milliseconds() {
				continue
			}
			p.rested++
			if one.calls == 1 {
				p.singles++
			}
			if idle >= taskIdle.Milliseconds() {
				p.endTask(one)
				p.callsEach = append(p.callsEach, float64(one.calls))
			}
		}
	}
	for _, p := range s.pools {
		slices.Sort(p.callsEach)
	}
}

// checkCallPools makes pools anew whose turn gap was configured anew: their
// gaps are counted in steps of it.
func (e *Engine) checkCallPools() {
	for name, p := range e.sessions.pools {
		conf, ok := e.callPool(name)
		if !ok {
			delete(e.sessions.pools, name)
		} else if want := conf.turnGap(); p.turnGap != want {
			e.sessions.pools[name] = newPoolCalls(name, want)
		}
	}
}

// callPool finds a pool's settings by its name.
func (e *Engine) callPool(name string) (conf PoolConfig, ok bool) {
	for _, c := range e.conf {
		if c.Name == name {
			return c, true
		}
	}
	p := e.pools[name]
	return PoolConfig{Name: name}, p != nil
}

// turnGap is the pause that makes a turn where the calls do not show it.
func (c PoolConfig) turnGap() time.Duration {
	return cmp.Or(time.Duration(c.TurnGap), defaultTurnGap)
}

// callsOf finds the pool that served a call; nil where none did.
func (e *Engine) callsOf(c *collector.Call) *poolCalls {
	s := &e.sessions
	key := servedModel{c.Model, c.ModelGroup, c.Host}
	name, ok := s.claims[key]
	if !ok {
		if name = e.claimCall(key); s.claims == nil || len(s.claims) > mostClaims {
			s.claims = map[servedModel]string{}
		}
		s.claims[key] = name
	}
	if name == "" {
		return nil
	}
	if s.pools == nil {
		s.pools = map[string]*poolCalls{}
	}
	if s.pools[name] == nil {
		conf, _ := e.callPool(name)
		s.pools[name] = newPoolCalls(name, conf.turnGap())
	}
	return s.pools[name]
}

// mostClaims bounds the memory of claims: clients may ask for any model.
const mostClaims = 4096

// claimCall names the pool that serves a model: the one that names it in
// gateway_models, else the one that has the engine's address, else the one
// whose model has that name. Where several do, the address decides.
func (e *Engine) claimCall(m servedModel) string {
	var named, modelled []string
	for _, c := range e.conf {
		if slices.Contains(c.GatewayModels, m.group) {
			named = append(named, c.Name)
		}
	}
	if len(named) == 1 {
		return named[0]
	}
	for _, p := range e.sortedPools() {
		if len(named) > 0 && !slices.Contains(named, p.name) || len(named) == 0 && p.conf != nil && len(p.conf.GatewayModels) > 0 {
			continue
		}
		for _, u := range p.members {
			if m.host != "" && u.target.instance == m.host {
				return p.name
			}
		}
		// LiteLLM puts a provider before the model's own name.
		_, bare, _ := strings.Cut(m.model, "/")
		if p.modelName == m.model || p.modelName == bare || p.modelName == m.group {
			modelled = append(modelled, p.name)
		}
	}
	if len(modelled) == 1 {
		return modelled[0]
	}
	return ""
}
