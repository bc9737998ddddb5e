package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
)

// The two levels of D1 and the alerts that speak for them.
const (
	levelWarn = iota
	levelPage
	excessLevels

	missRising    = "PrefixCacheMissRising"
	cacheCollapse = "PrefixCacheCollapse"
)

const (
	// guardWindow, guardFactor and guardSlack (in heavy prompts) say when the
	// counters count a waiting request again and again.
	guardWindow = 5 * time.Minute
	guardFactor = 1.2
	guardSlack  = 3
	// learnWindow and learnMiss are what pages before there is a baseline.
	learnWindow = time.Hour
	learnMiss   = 0.5
	// newNormal is how long an alert fires before what it tells of is the normal.
	newNormal = 72 * time.Hour
)

// excessSettings are those of one level.
type excessSettings struct {
	// kappa is the multiple of the usual miss ratio that is tolerated.
	kappa float64
	// prompts is H, the excess that fires, in heavy prompts.
	prompts float64
}

// excessConfig holds the settings of D1.
type excessConfig struct {
	levels [excessLevels]excessSettings
	// resolvePrompts is the prompted tokens, in heavy prompts, that a recovery
	// is judged on.
	resolvePrompts float64
	// scale is the time_scale of both rules.
	scale float64
}

func newExcessConfig(rules map[string]*settings) excessConfig {
	c := excessConfig{scale: rules[missRising].timeScale, resolvePrompts: rules[missRising].number("resolve_prompts")}
	for i, name := range []string{missRising, cacheCollapse} {
		c.levels[i] = excessSettings{kappa: rules[name].number("kappa"), prompts: rules[name].number("threshold_prompts")}
	}
	return c
}

// excessRuleSettings are the settings of either of D1's alerts.
func excessRuleSettings(kappa float64) []Setting {
	return []Setting{
		{Name: "kappa", Default: kappa, Positive: true, Help: "multiple of the usual miss ratio that is tolerated"},
		{Name: "threshold_prompts", Default: 40.0, Positive: true, Help: "excess that fires, in heavy prompts"},
		{Name: "resolve_prompts", Default: 384.0, Positive: true, Help: "prompted tokens that a recovery is judged on, in heavy prompts; the same for " + missRising + " and " + cacheCollapse},
	}
}

// sharedOverrides gives D1's two rules the settings that they share: what only
// one of them sets holds for both, what both set must be the same.
func sharedOverrides(overrides map[string]Override) (map[string]Override, error) {
	warn, page := overrides[missRising], overrides[cacheCollapse]
	var errs []error
	if warn.TimeScale != 0 && page.TimeScale != 0 && warn.TimeScale != page.TimeScale {
		errs = append(errs, fmt.Errorf("rules: %s has time_scale %g and %s has %g: they share what they learn, so give both the same",
			missRising, warn.TimeScale, cacheCollapse, page.TimeScale))
	}
	const key = "resolve_prompts"
	a, okA := warn.Settings[key]
	b, okB := page.Settings[key]
	if okA && okB && fmt.Sprint(a) != fmt.Sprint(b) {
		errs = append(errs, fmt.Errorf("rules: %s has %s %v and %s has %v: they judge a recovery by the same blocks, so give both the same",
			missRising, key, a, cacheCollapse, b))
	}
	shared := maps.Clone(overrides)
	if shared == nil {
		shared = map[string]Override{}
	}
	for _, o := range []struct {
		name string
		Override
	}{{missRising, warn}, {cacheCollapse, page}} {
		o.TimeScale = max(warn.TimeScale, page.TimeScale)
		if okA || okB {
			o.Settings = maps.Clone(o.Settings)
			if o.Settings == nil {
				o.Settings = map[string]any{}
			}
			if o.Settings[key] = a; !okA {
				o.Settings[key] = b
			}
		}
		shared[o.name] = o.Override
	}
	return shared, errors.Join(errs...)
}

// cacheExcess is D1 of one pool: a CUSUM of the prompt tokens that were
// prefilled again beyond kappa times the usual, in units of one heavy prompt.
// Its two levels share the baseline and P, and keep their sums apart.
type cacheExcess struct {
	conf   excessConfig
	prompt heavyPrompt
	// tracks holds one CUSUM and one baseline per source, nil where no engine
	// ever offered it: a source is never switched under a baseline.
	tracks [cacheSources]*excessTrack
	active cacheSource
	// accepted silences what pages without a baseline until there is one: an
	// operator, or 72 hours, said that misses are normal here. acceptedAt, in
	// Unix milliseconds, ends what fired before.
	accepted   bool
	acceptedAt int64
	residency  residencies

	seen map[*unit]*newPrompts
	// tickAt is when the last tick was, in Unix milliseconds.
	tickAt int64
}

func newCacheExcess(conf excessConfig) *cacheExcess {
	return &cacheExcess{conf: conf, active: -1, seen: map[*unit]*newPrompts{}}
}

// track is the one that is judged; nil while no engine offers a source.
func (c *cacheExcess) track() *excessTrack {
	if c.active < 0 {
		return nil
	}
	return c.tracks[c.active]
}

// tick takes what the pages since the tick before brought.
func (c *cacheExcess) tick(w PoolWindow) {
	begin := c.tickAt
	if begin == 0 {
		begin = w.ms
	}
	c.tickAt = w.ms
	c.takePrompts(w)
	for s := range cacheSources {
		if c.tracks[s] == nil && offered(w, s) > 0 {
			c.tracks[s] = newExcessTrack(s)
		}
		if t := c.tracks[s]; t != nil {
			t.tick(w, c, begin)
		}
	}
	c.choose(w)
	c.residency.tick(w, c.conf.scale)
	if t := c.track(); t != nil && t.Baseline.valid() {
		c.accepted = false
	}
}

// takePrompts updates P.
func (c *cacheExcess) takePrompts(w PoolWindow) {
	tau := scaled(heavyTau, c.conf.scale)
	for _, u := range w.pool.changed {
		seen, ok := c.seen[u]
		if !ok {
			seen = &newPrompts{}
			c.seen[u] = seen
		}
		seen.take(u.hists[histPrompt], func(calls, low, high float64) {
			c.prompt.decay(w.ms, tau)
			c.prompt.add(calls, low, high)
		})
	}
}

// offered counts the fresh members that have the source.
func offered(w PoolWindow, s cacheSource) int {
	n := 0
	for _, u := range w.pool.members {
		if w.engine(u).Fresh() && u.offers(s) {
			n++
		}
	}
	return n
}

// choose takes the best source that the most members have, and among those
// one that has a baseline before one that has not. It never leaves a source
// that an alert is firing on while anybody has it.
func (c *cacheExcess) choose(w PoolWindow) {
	best, most := cacheSource(-1), 0
	rank := func(s cacheSource) bool { return c.tracks[s].Baseline.valid() }
	for s := range cacheSources {
		n := offered(w, s)
		if n == 0 || c.tracks[s] == nil {
			continue
		}
		if s == c.active && c.tracks[s].firing() {
			return
		}
		if n > most || n == most && rank(s) && !rank(best) {
			best, most = s, n
		}
	}
	if best >= 0 {
		c.active = best
	}
}

// accept takes the present cache behaviour as the new normal.
func (c *cacheExcess) accept(now time.Time) {
	c.accepted, c.acceptedAt = true, now.UnixMilli()
	for _, t := range c.tracks {
		if t != nil {
			t.clear()
		}
	}
}

// recent is the miss ratio of the pool over a window, from the source that is
// judged, with the prompted tokens it rests on.
func (c *cacheExcess) recent(w PoolWindow, d time.Duration) (ratio, prompted float64) {
	return c.between(w, w.ms-d.Milliseconds(), w.ms)
}

func (c *cacheExcess) between(w PoolWindow, from, to int64) (ratio, prompted float64) {
	if c.active < 0 {
		return 0, 0
	}
	missed := 0.0
	for _, u := range w.pool.members {
		m, q := u.missed(c.active, from, to)
		missed += m
		prompted += q
	}
	if prompted <= 0 {
		return 0, 0
	}
	return min(max(missed/prompted, 0), 1), prompted
}

// learningPage says whether so much is missed that it pages without a baseline.
func (c *cacheExcess) learningPage(w PoolWindow) bool {
	heavy := c.prompt.tokens()
	if c.accepted || heavy == 0 {
		return false
	}
	ratio, prompted := c.recent(w, scaled(learnWindow, c.conf.scale))
	return ratio > learnMiss && prompted >= baselineTokens*heavy
}

// leave forgets an engine that left the pool; when it comes back it begins anew.
func (c *cacheExcess) leave(u *unit) {
	delete(c.seen, u)
	for _, t := range c.tracks {
		if t != nil {
			delete(t.replicas, u)
			delete(t.Replicas, u.key())
		}
	}
}

// judge says whether the level's alert holds; firing is when it fired, zero
// when it does not fire.
func (c *cacheExcess) judge(w PoolWindow, level int, firing time.Time) bool {
	t := c.track()
	if t == nil || level == levelPage && c.active == sourceCounters {
		return false
	}
	if !firing.IsZero() && firing.UnixMilli() <= c.acceptedAt {
		return false
	}
	l := &t.Levels[level]
	heavy := c.prompt.tokens()
	learning := !t.Baseline.valid()
	if firing.IsZero() && l.FiredAt > 0 { // it ended for want of data: what was before that is over
		l.resolve(w.ms)
		t.forget(level)
	}
	l.noteFiring(firing)
	if firing.IsZero() {
		if learning {
			return level == levelPage && c.learningPage(w)
		}
		return heavy > 0 && l.S >= c.conf.levels[level].prompts*heavy
	}
	if w.now.Sub(firing) >= scaled(newNormal, c.conf.scale) {
		c.accept(w.now)
		return false
	}
	drained := l.S < c.conf.levels[level].prompts*heavy/2
	if learning {
		drained = !c.learningPage(w)
	}
	need := c.conf.resolvePrompts * heavy
	recovered := !learning && t.Recovery.closed && t.Recovery.recovered(l.FiredAt, t.Baseline.usual(), need, c.conf.scale)
	if l.over(w.ms, drained, t.Recovery.closed, recovered, c.conf.scale) {
		l.resolve(w.ms)
		t.forget(level)
		return false
	}
	return true
}

// excessState is what a state file holds of D1.
type excessState struct {
	Prompt    heavyPrompt             `json:"prompt"`
	Tracks    map[string]*excessTrack `json:"tracks"`
	Active    string                  `json:"active,omitempty"`
	Accepted  bool                    `json:"accepted,omitempty"`
	AcceptAt  int64                   `json:"accepted_at,omitempty"`
	Residency residencies             `json:"residency"`
	TickAt    int64                   `json:"tick_at"`
}

func (c *cacheExcess) save() (json.RawMessage, error) {
	s := excessState{Prompt: c.prompt, Tracks: map[string]*excessTrack{}, Accepted: c.accepted, AcceptAt: c.acceptedAt, Residency: c.residency, TickAt: c.tickAt}
	if c.active >= 0 {
		s.Active = c.active.key()
	}
	for source, t := range c.tracks {
		if t != nil {
			t.remember()
			s.Tracks[cacheSource(source).key()] = t
		}
	}
	return json.Marshal(s)
}

func (c *cacheExcess) load(raw json.RawMessage) error {
	var s excessState
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	c.prompt, c.accepted, c.acceptedAt, c.residency, c.tickAt = s.Prompt, s.Accepted, s.AcceptAt, s.Residency, s.TickAt
	for source := range cacheSources {
		t := s.Tracks[source.key()]
		if t == nil {
			continue
		}
		t.source, t.replicas = source, map[*unit]*replica{}
		for i := range t.Levels { // a file of before there was the sum without a cap
			if l := &t.Levels[i]; l.Recomputed == 0 {
				l.Recomputed = l.S
			}
		}
		c.tracks[source] = t
		if s.Active == source.key() {
			c.active = source
		}
	}
	return nil
}
