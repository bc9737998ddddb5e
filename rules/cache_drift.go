package rules

import (
	"encoding/json"
	"fmt"
	"time"
)

// driftTokens is the prompted tokens that a drift needs, in heavy prompts.
const driftTokens = 320

// driftConfig holds the settings of D2, its durations scaled.
type driftConfig struct {
	// ratio fires, resolve is the one below which it ends.
	ratio, resolve float64
	// window is what the miss ratio is told of, rest how long it must be below
	// resolve, limit how long an alert fires before what it tells of is the normal.
	window, rest, limit time.Duration
}

func newDriftConfig(s *settings) driftConfig {
	return driftConfig{
		ratio: s.number("ratio"), resolve: s.number("resolve_ratio"),
		// Windows reach no further back.
		window: min(s.duration("window"), longWindow), rest: s.duration("rest"), limit: scaled(newNormal, s.timeScale),
	}
}

// cacheDrift is D2 of one pool: its miss ratio over two hours against its usual.
type cacheDrift struct {
	conf driftConfig
	driftState
	now driftReading
}

// driftState is the part of it that survives a restart.
type driftState struct {
	// Usual is D1's usual miss ratio as it was when the drift began, and Source
	// what both were read from: what drifted must not become the usual that it
	// is held against. 0 while there is no drift.
	Usual  float64 `json:"usual,omitempty"`
	Source string  `json:"source,omitempty"`
	// Begun is when that was; FiredAt when the alert fired, 0 when it does not;
	// FallenSince when the ratio fell below where the alert ends. In Unix
	// milliseconds.
	Begun       int64 `json:"begun,omitempty"`
	FiredAt     int64 `json:"fired_at,omitempty"`
	FallenSince int64 `json:"fallen_since,omitempty"`
	// Cause is what was found when it began.
	Cause *excessCause `json:"cause,omitempty"`
}

// driftReading is what the window that ends now tells.
type driftReading struct {
	// miss and usual are ratios, ratio is one over the other, prompted is tokens.
	miss, usual, ratio, prompted float64
	// unknown says why there is no ratio, "" where there is one; phase is the
	// detector's then.
	unknown, phase string
}

// tick reads the drift, and pins the usual miss ratio when one begins.
func (d *cacheDrift) tick(w PoolWindow) {
	if t := w.pool.excess.track(); t != nil && d.Usual > 0 && d.Source != t.source.key() {
		d.release() // a baseline of one source says nothing of another
	}
	d.now = d.read(w)
	switch {
	case d.now.unknown != "" || d.FiredAt > 0:
	case d.now.ratio < d.conf.ratio:
		d.release()
	case d.Usual == 0:
		d.Usual, d.Source, d.Begun = d.now.usual, w.pool.excess.active.key(), w.ms
	}
}

// read works out the drift, or why it is not known.
func (d *cacheDrift) read(w PoolWindow) driftReading {
	c := w.pool.excess
	t := c.track()
	heavy := c.prompt.tokens()
	if text := c.blind(w); text != "" {
		return driftReading{unknown: text, phase: PhaseUnknown}
	}
	switch {
	case t.ContaminatedAt > w.ms-d.conf.window.Milliseconds():
		return driftReading{unknown: "the cache counters counted more tokens than were prompted: " + untrustedText, phase: PhaseUnknown}
	case heavy == 0:
		return driftReading{unknown: c.learningPrompts(), phase: PhaseLearning}
	case !t.Baseline.valid():
		return driftReading{unknown: fmt.Sprintf("learning, %d of %d hours", len(t.Baseline.Entries), baselineValid), phase: PhaseLearning}
	}
	r := driftReading{usual: t.Baseline.usual()}
	if d.Usual > 0 {
		r.usual = d.Usual
	}
	missed := 0.0
	for _, u := range w.pool.members {
		if w.engine(u).sleptWithin(d.conf.window) { // what sleep dropped is expected to be missed
			continue
		}
		m, q := u.missed(c.active, w.ms-d.conf.window.Milliseconds(), w.ms)
		missed += m
		r.prompted += q
	}
	if need := driftTokens * heavy; r.prompted < need {
		r.unknown, r.phase = fmt.Sprintf("insufficient evidence: %s prompt tokens within %s, %s are needed", amount(r.prompted), spell(d.conf.window), amount(need)), PhaseUnknown
		return r
	}
	r.miss = min(max(missed/r.prompted, 0), 1)
	r.ratio = r.miss / r.usual
	return r
}

// onset is when what drifts began, in Unix milliseconds: where D1 sums an excess
// up, when it began to, else before the window that the drift was first seen in.
func (d *cacheDrift) onset(t *excessTrack) int64 {
	if l := t.Levels[levelWarn]; l.S > 0 {
		return l.Onset
	}
	return d.Begun - d.conf.window.Milliseconds()
}

// release ends a drift: D1's usual miss ratio holds again.
func (d *cacheDrift) release() { d.driftState = driftState{} }

// judge says whether the alert's condition holds; firing is when it fired, zero
// when it does not fire.
func (d *cacheDrift) judge(now, firing time.Time) bool {
	if d.Usual == 0 {
		return false
	}
	if firing.IsZero() {
		d.FiredAt, d.FallenSince = 0, 0
		return d.now.unknown == "" && d.now.ratio >= d.conf.ratio
	}
	d.FiredAt = firing.UnixMilli()
	switch {
	case d.now.unknown != "" || d.now.ratio >= d.conf.resolve:
		d.FallenSince = 0
	case d.FallenSince == 0:
		d.FallenSince = now.UnixMilli()
	}
	fallen := d.FallenSince > 0 && now.UnixMilli()-d.FallenSince >= d.conf.rest.Milliseconds()
	if fallen || now.Sub(firing) >= d.conf.limit {
		d.release()
		return false
	}
	return true
}

func (d *cacheDrift) save() (json.RawMessage, error) { return json.Marshal(d.driftState) }

func (d *cacheDrift) load(raw json.RawMessage) error { return json.Unmarshal(raw, &d.driftState) }
