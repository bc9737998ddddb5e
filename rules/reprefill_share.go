package rules

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

const (
	// longPrompt and longComputed are the sizes, in heavy prompts, over which a
	// call has a long prompt, and over which it computed it again.
	longPrompt   = 0.21
	longComputed = 0.105
	// boundStay is how much nearer, as a ratio, another bound of the histogram
	// must be before it takes the place of the pinned one: P wavers with the
	// time of day, and each change costs the baseline.
	boundStay = 1.2
	// shareCalls is how many calls with a long prompt an hour of the baseline needs.
	shareCalls = 60
	// shareEvidence is how many of them a share needs that is told, over
	// shareWindow or, where it holds too few, over shareLong.
	shareEvidence = 20
	shareWindow   = 15 * time.Minute
	shareLong     = time.Hour
)

// shareConfig holds the settings of D1r.
type shareConfig struct {
	// kappa is the multiple of the usual share that is tolerated.
	kappa float64
	// threshold is the excess that fires, resolve the one below which it ends, in calls.
	threshold, resolve float64
	// scale is the rule's time_scale.
	scale float64
}

func newShareConfig(s *settings) shareConfig {
	return shareConfig{kappa: s.number("kappa"), threshold: s.number("threshold_calls"), resolve: s.number("resolve_calls"), scale: s.timeScale}
}

// reprefillShare is D1r of one pool: a CUSUM of the calls that computed a long
// prompt again, beyond kappa times the usual share of the calls with one.
type reprefillShare struct {
	conf shareConfig
	shareState
	seen map[*unit]*shareSeen
}

// shareState is the part of it that survives a restart.
type shareState struct {
	// PromptBound and ComputedBound are the bounds of the two histograms, in
	// tokens, pinned together with the baseline; 0 until P is known.
	PromptBound   float64  `json:"prompt_bound"`
	ComputedBound float64  `json:"computed_bound"`
	Baseline      baseline `json:"baseline"`
	// Level is the sum, in calls.
	Level excessLevel `json:"level"`
	// Long counts the calls with a long prompt since the onset, Again those of
	// them that computed it again.
	Long      float64 `json:"long"`
	Again     float64 `json:"again"`
	CoveredTo int64   `json:"covered_to"`
	TickAt    int64   `json:"tick_at"`
	// Recent holds the calls of the last hour by minute, oldest first.
	Recent []shareNote `json:"recent,omitempty"`
}

// shareNote is the calls of one minute.
type shareNote struct {
	// At is its first tick, in Unix milliseconds.
	At    int64   `json:"at"`
	Long  float64 `json:"long"`
	Again float64 `json:"again"`
}

// shareSeen is what was counted of one engine.
type shareSeen struct {
	long, again float64
	// page is the time of its last page, in Unix milliseconds.
	page  int64
	begun bool
}

func newReprefillShare(conf shareConfig) *reprefillShare {
	return &reprefillShare{conf: conf, seen: map[*unit]*shareSeen{}}
}

// tick takes what the pages since the tick before brought. heavy is P, 0 while
// it is unknown.
func (s *reprefillShare) tick(w PoolWindow, heavy float64) {
	begin := s.TickAt
	if begin == 0 {
		begin = w.ms
	}
	s.TickAt = w.ms
	s.pin(w, heavy)
	long, again, covered := 0.0, 0.0, 0.0
	for _, u := range w.pool.members {
		l, a, dt := s.take(u)
		long += l
		again += a
		covered += dt
	}
	s.note(w.ms, long, again)
	s.add(w.ms, begin, long, again)
	if s.frozen() {
		s.Baseline.discard()
	} else {
		s.Baseline.add(again, long, covered, shareCalls, s.conf.scale)
	}
}

// add is the CUSUM, in calls.
func (s *reprefillShare) add(now, begin int64, long, again float64) {
	l := &s.Level
	if l.Onset == 0 {
		l.Onset = begin
	}
	if s.Baseline.valid() {
		l.add(again, long, s.Baseline.usual(), 1, excessSettings{kappa: s.conf.kappa, prompts: s.conf.threshold})
		s.Long += long
		s.Again += again
	}
	if l.S == 0 && l.FiredAt == 0 {
		*l = excessLevel{Onset: now}
		s.Long, s.Again = 0, 0
	}
}

// note keeps the calls, so that a share can be told of a window.
func (s *reprefillShare) note(at int64, long, again float64) {
	if long == 0 && again == 0 {
		return
	}
	if n := len(s.Recent); n == 0 || at-s.Recent[n-1].At >= time.Minute.Milliseconds() {
		oldest := at - shareLong.Milliseconds()
		s.Recent = slices.DeleteFunc(s.Recent, func(n shareNote) bool { return n.At <= oldest })
		s.Recent = append(s.Recent, shareNote{At: at})
	}
	n := &s.Recent[len(s.Recent)-1]
	n.Long += long
	n.Again += again
}

// share is the part of the calls with a long prompt that computed it again, in
// the window that ends at the given time, and how many such calls there were.
func (s *reprefillShare) share(at int64, d time.Duration) (ratio, calls float64, ok bool) {
	again := 0.0
	for _, n := range slices.Backward(s.Recent) {
		if n.At <= at-d.Milliseconds() {
			break
		}
		calls += n.Long
		again += n.Again
	}
	if calls < shareEvidence {
		return 0, calls, false
	}
	return min(again/calls, 1), calls, true
}

// pin takes the bounds that lie nearest to the two sizes. Where P has moved
// them, a new baseline starts, also while the alert fires: what it is held
// against counts other calls.
func (s *reprefillShare) pin(w PoolWindow, heavy float64) {
	if heavy == 0 {
		return
	}
	for _, u := range w.pool.members {
		if !w.engine(u).Fresh() || !u.offers(sourceHistograms) {
			continue
		}
		prompt := nearestBound(u.hists[histPrompt].bounds, longPrompt*heavy, s.PromptBound)
		computed := nearestBound(u.hists[histComputed].bounds, longComputed*heavy, s.ComputedBound)
		if prompt != s.PromptBound || computed != s.ComputedBound {
			s.shareState = shareState{PromptBound: prompt, ComputedBound: computed, CoveredTo: s.CoveredTo, TickAt: s.TickAt}
			clear(s.seen)
		}
		return
	}
}

// nearestBound is the finite bound that is nearest to v by ratio. The one that
// was pinned before stays until another is clearly nearer.
func nearestBound(bounds []float64, v, pinned float64) float64 {
	best, least, stays := 0.0, math.Inf(1), math.Inf(1)
	for _, b := range bounds {
		if b <= 0 || math.IsInf(b, 1) {
			continue
		}
		off := max(b/v, v/b)
		if off < least {
			best, least = b, off
		}
		if b == pinned {
			stays = off
		}
	}
	if !math.IsInf(stays, 1) && stays <= boundStay*least {
		return pinned
	}
	return best
}

// take counts the calls of u since it was last asked.
func (s *reprefillShare) take(u *unit) (long, again, covered float64) {
	if s.PromptBound == 0 || !u.offers(sourceHistograms) {
		return 0, 0, 0
	}
	seen, ok := s.seen[u]
	if !ok {
		seen = &shareSeen{}
		s.seen[u] = seen
	}
	before := *seen
	*seen = shareSeen{page: u.target.long.last(), begun: true}
	var okLong, okAgain bool
	seen.long, okLong = u.hists[histPrompt].above(s.PromptBound)
	seen.again, okAgain = u.hists[histComputed].above(s.ComputedBound)
	if !okLong || !okAgain || !before.begun || seen.page <= before.page || u.cold(seen.page, s.conf.scale) {
		return 0, 0, 0
	}
	return max(seen.long-before.long, 0), max(seen.again-before.again, 0), coverTo(&s.CoveredTo, u, before.page)
}

// frozen says whether the baseline must not learn from what happens now.
func (s *reprefillShare) frozen() bool {
	return s.Level.FiredAt > 0 || s.Level.S > s.conf.threshold/2
}

// leave forgets an engine that left the pool.
func (s *reprefillShare) leave(u *unit) { delete(s.seen, u) }

// accept takes the present share as the new normal.
func (s *reprefillShare) accept() {
	s.Baseline, s.Level = baseline{}, excessLevel{}
	s.Long, s.Again = 0, 0
}

// judge says whether the alert holds; firing is when it fired, zero when it
// does not fire.
func (s *reprefillShare) judge(now time.Time, firing time.Time) bool {
	l := &s.Level
	ms := now.UnixMilli()
	if firing.IsZero() && l.FiredAt > 0 { // it ended for want of data: what was before that is over
		s.resolve(ms)
	}
	l.noteFiring(firing)
	switch {
	case !s.Baseline.valid():
		return false
	case firing.IsZero():
		return l.S >= s.conf.threshold
	case now.Sub(firing) >= scaled(newNormal, s.conf.scale):
		s.accept()
		return false
	case l.over(ms, l.S < s.conf.resolve, false, false, s.conf.scale):
		s.resolve(ms)
		return false
	default:
		return true
	}
}

// resolve begins the sum anew.
func (s *reprefillShare) resolve(now int64) {
	s.Level = excessLevel{Onset: now}
	s.Long, s.Again = 0, 0
}

func (s *reprefillShare) save() (json.RawMessage, error) { return json.Marshal(s.shareState) }

func (s *reprefillShare) load(raw json.RawMessage) error { return json.Unmarshal(raw, &s.shareState) }
