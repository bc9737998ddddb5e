package rules

import "time"

const (
	// excessCap bounds the sum, as a multiple of the level's threshold.
	excessCap = 2
	// drainRest is how long the sum must be below half of its threshold, and
	// refireRest the same for an alert that fired again within refireWindow of
	// its last resolve; such a one needs refireCloses recovered blocks in a row.
	drainRest    = 5 * time.Minute
	refireRest   = 20 * time.Minute
	refireWindow = time.Hour
	refireCloses = 16
)

// excessTrack is D1 on one source.
type excessTrack struct {
	source   cacheSource
	Baseline baseline                  `json:"baseline"`
	Recovery recovery                  `json:"recovery"`
	Levels   [excessLevels]excessLevel `json:"levels"`
	// Replicas holds, by engine, what replicas keeps in memory.
	Replicas map[string]replica `json:"replicas,omitempty"`
	// ContaminatedAt is when the guard rejected the counters last, in Unix
	// milliseconds; 0 is never.
	ContaminatedAt int64 `json:"contaminated_at,omitempty"`
	// CoveredTo is how far the pool's covered time was counted, in Unix milliseconds.
	CoveredTo int64 `json:"covered_to"`

	replicas map[*unit]*replica
	// contaminated says that the guard rejects the counters just now.
	contaminated bool
}

// replica is what a track remembers of one engine.
type replica struct {
	// Cursor is the time of the last page that was counted, in Unix milliseconds.
	Cursor int64 `json:"cursor"`
	// Excess is the engine's own sum, by level.
	Excess [excessLevels]float64 `json:"excess"`
	// Missed and Prompted are tokens since the onset, by level.
	Missed   [excessLevels]float64 `json:"missed"`
	Prompted [excessLevels]float64 `json:"prompted"`
}

// excessLevel is one level's sum.
type excessLevel struct {
	// S is the sum in tokens (in D1r in calls); Onset is when it was 0 for the
	// last time, in Unix milliseconds.
	S     float64 `json:"s"`
	Onset int64   `json:"onset"`
	// Recomputed is what S would be without its cap and without its floor: the
	// tokens computed beyond kappa times the usual since the onset.
	Recomputed float64 `json:"recomputed"`
	// Cost is the tokens computed beyond the usual since the onset, uncapped.
	Cost float64 `json:"cost"`
	// FiredAt is when the alert fired, 0 when it does not; DrainedSince when S
	// fell below half of the threshold; ResolvedAt when it resolved last.
	FiredAt      int64 `json:"fired_at,omitempty"`
	DrainedSince int64 `json:"drained_since,omitempty"`
	ResolvedAt   int64 `json:"resolved_at,omitempty"`
	// Recovered counts the consecutive closes at which it was recovered.
	Recovered int `json:"recovered,omitempty"`
	// Cause is what was found when it fired.
	Cause *excessCause `json:"cause,omitempty"`
}

func newExcessTrack(s cacheSource) *excessTrack {
	return &excessTrack{source: s, replicas: map[*unit]*replica{}}
}

// replica finds or makes what is remembered of u.
func (t *excessTrack) replica(u *unit) *replica {
	r, ok := t.replicas[u]
	if !ok {
		saved := t.Replicas[u.key()]
		r = &saved
		t.replicas[u] = r
	}
	return r
}

// remember writes the replicas into the form of the state file.
func (t *excessTrack) remember() {
	t.Replicas = make(map[string]replica, len(t.replicas))
	for u, r := range t.replicas {
		t.Replicas[u.key()] = *r
	}
}

// tick adds the pages since the tick before, which was at begin.
func (t *excessTrack) tick(w PoolWindow, c *cacheExcess, begin int64) {
	heavy := c.prompt.tokens()
	t.contaminated = t.source == sourceCounters && t.guard(w, c.conf.scale, heavy)
	missed, prompted, covered := 0.0, 0.0, 0.0
	members := w.pool.changed
	if len(t.replicas) == 0 { // the track is new: it begins with the pages that are there
		members = w.pool.members
	}
	for _, u := range members {
		if !u.offers(t.source) {
			continue
		}
		m, q, dt := t.take(u, c)
		missed += m
		prompted += q
		covered += dt
	}
	if t.contaminated {
		t.ContaminatedAt = w.ms
		t.Baseline.discard()
		t.Recovery.closed = false
		return
	}
	valid := t.Baseline.valid() && heavy > 0
	for i := range t.Levels {
		l := &t.Levels[i]
		if l.Onset == 0 {
			l.Onset = begin
		}
		if valid {
			l.add(missed, prompted, t.Baseline.usual(), heavy, c.conf.levels[i])
		}
		if l.S == 0 && l.FiredAt == 0 {
			l.Onset = w.ms
			t.forget(i)
		}
	}
	t.Recovery.add(begin, missed, prompted, covered, c.conf.resolvePrompts*heavy, c.conf.scale)
	if t.frozen(c.conf, heavy) {
		t.Baseline.discard()
	} else {
		t.Baseline.add(missed, prompted, covered, baselineTokens*heavy, c.conf.scale)
	}
}

// take counts the pages of u since its cursor. covered is the time in seconds
// that they add to the pool's covered time, the union over its engines.
func (t *excessTrack) take(u *unit, c *cacheExcess) (missed, prompted, covered float64) {
	r := t.replica(u)
	long := u.target.long
	last := long.last()
	if r.Cursor == 0 {
		r.Cursor = last
	}
	if last <= r.Cursor {
		return 0, 0, 0
	}
	if u.cold(last, c.conf.scale) { // what sleep dropped is expected to be missed
		r.Cursor = last
		return 0, 0, 0
	}
	missed, prompted = u.missed(t.source, r.Cursor, last)
	covered = coverTo(&t.CoveredTo, u, r.Cursor)
	r.Cursor = last
	if t.contaminated || !t.Baseline.valid() {
		return missed, prompted, covered
	}
	usual := t.Baseline.usual()
	for i := range r.Excess {
		r.Excess[i] = max(0, r.Excess[i]+missed-c.conf.levels[i].kappa*usual*prompted)
		r.Missed[i] += missed
		r.Prompted[i] += prompted
	}
	return missed, prompted, covered
}

// coverTo moves a pool's covered time, the union over its engines, on to the
// newest page of u, and says by how many seconds the pages since from add to it.
func coverTo(to *int64, u *unit, from int64) (seconds float64) {
	last := u.target.long.last()
	if last <= *to {
		return 0
	}
	own := u.increase(totalCovered, from, last)
	seconds = float64(last-max(last-int64(own*1000), *to)) / 1000
	*to = last
	return seconds
}

// guard says whether the counters count more than was prompted.
func (t *excessTrack) guard(w PoolWindow, scale, heavy float64) bool {
	d := scaled(guardWindow, scale)
	queried, _ := w.sum(func(e EngineWindow) (float64, bool) { return e.Increase(totalQueries, d), true })
	prompted, told := w.sum(func(e EngineWindow) (float64, bool) { return e.Increase(totalPrompt, d), e.unit.has(totalPrompt) })
	return told > 0 && queried > guardFactor*prompted+guardSlack*heavy
}

// frozen says whether the baseline must not learn from what happens now.
func (t *excessTrack) frozen(conf excessConfig, heavy float64) bool {
	for i, l := range t.Levels {
		if l.FiredAt > 0 || heavy > 0 && l.S > conf.levels[i].prompts*heavy/2 {
			return true
		}
	}
	return false
}

func (t *excessTrack) firing() bool {
	for _, l := range t.Levels {
		if l.FiredAt > 0 {
			return true
		}
	}
	return false
}

// forget ends a level's account of who carried the excess.
func (t *excessTrack) forget(level int) {
	for _, r := range t.replicas {
		r.Excess[level], r.Missed[level], r.Prompted[level] = 0, 0, 0
	}
	l := &t.Levels[level]
	l.Recomputed, l.Cost, l.Cause = 0, 0, nil
}

// clear forgets the normal and all that was held against it.
func (t *excessTrack) clear() {
	t.Baseline = baseline{}
	t.Recovery = recovery{}
	for i := range t.Levels {
		t.Levels[i] = excessLevel{ResolvedAt: t.Levels[i].ResolvedAt}
		t.forget(i)
	}
}

// add is the CUSUM.
func (l *excessLevel) add(missed, prompted, usual, heavy float64, conf excessSettings) {
	more := missed - conf.kappa*usual*prompted
	l.S = max(0, min(l.S+more, excessCap*conf.prompts*heavy))
	l.Recomputed += more
	l.Cost += missed - usual*prompted
}

// noteFiring takes over when the level's alert fired.
func (l *excessLevel) noteFiring(firing time.Time) {
	at := int64(0)
	if !firing.IsZero() {
		at = firing.UnixMilli()
	}
	if at != l.FiredAt {
		l.FiredAt, l.DrainedSince, l.Recovered = at, 0, 0
	}
}

// over says whether a firing level ends: drained for long enough, or recovered
// often enough in a row.
func (l *excessLevel) over(now int64, drained, closed, recovered bool, scale float64) bool {
	rest, closes := drainRest, 1
	if l.ResolvedAt > 0 && l.FiredAt-l.ResolvedAt <= scaled(refireWindow, scale).Milliseconds() {
		rest, closes = refireRest, refireCloses
	}
	switch {
	case !drained:
		l.DrainedSince = 0
	case l.DrainedSince == 0:
		l.DrainedSince = now
	}
	if closed {
		l.Recovered++
		if !recovered {
			l.Recovered = 0
		}
	}
	return drained && now-l.DrainedSince >= scaled(rest, scale).Milliseconds() || l.Recovered >= closes
}

// resolve begins the level anew.
func (l *excessLevel) resolve(now int64) {
	*l = excessLevel{Onset: now, ResolvedAt: now}
}
