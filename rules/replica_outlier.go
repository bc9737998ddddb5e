package rules

import (
	"encoding/json"
	"time"
)

// peersWindow is what the peers of a replica are judged by.
const peersWindow = 15 * time.Minute

// replicaExcess is D6 of one engine: a CUSUM of the prompt tokens that it
// prefilled again beyond kappa times what its pool usually misses, or what its
// peers miss just now where that is more.
type replicaExcess struct {
	conf excessSettings
	// resolvePrompts is the prompted tokens, in heavy prompts, that a recovery
	// is judged on.
	resolvePrompts float64
	scale          float64
	replicaState
}

// replicaState is the part of it that survives a restart.
type replicaState struct {
	Level    excessLevel `json:"level"`
	Recovery recovery    `json:"recovery"`
	// Cursor is the time of the last page that was counted, in Unix milliseconds.
	Cursor int64 `json:"cursor"`
	// Missed and Prompted are tokens since the onset.
	Missed   float64 `json:"missed"`
	Prompted float64 `json:"prompted"`
}

// take counts the pages since the cursor. tolerated is the miss ratio that is
// normal, 0 while nothing can be judged: then they are only passed over.
func (r *replicaExcess) take(w EngineWindow, tolerated, heavy float64) {
	u := w.unit
	last := u.target.long.last()
	if last-r.Cursor > longWindow.Milliseconds() { // what was before is too old to add to
		*r = replicaExcess{conf: r.conf, resolvePrompts: r.resolvePrompts, scale: r.scale}
		r.Cursor = last
	}
	r.Recovery.closed = false
	l := &r.Level
	if l.Onset == 0 {
		l.Onset = w.ms
	}
	if last > r.Cursor {
		from := r.Cursor
		r.Cursor = last
		if tolerated > 0 && !u.cold(last, r.scale) {
			r.add(w, from, tolerated, heavy)
		}
	}
	if l.S == 0 && l.FiredAt == 0 {
		*l = excessLevel{Onset: w.ms, ResolvedAt: l.ResolvedAt}
		r.Missed, r.Prompted = 0, 0
	}
}

// add takes the pages since from.
func (r *replicaExcess) add(w EngineWindow, from int64, tolerated, heavy float64) {
	u := w.unit
	missed, prompted := u.missed(w.pool.excess.active, from, r.Cursor)
	r.Level.add(missed, prompted, tolerated, heavy, r.conf)
	r.Missed += missed
	r.Prompted += prompted
	if r.Level.FiredAt > 0 { // blocks of before the fire say nothing of its end
		r.Recovery.add(max(from, r.Level.FiredAt), missed, prompted, w.IncreaseIn(totalCovered, from, r.Cursor), r.resolvePrompts*heavy, r.scale)
	}
}

// judge says whether the alert holds; firing is when it fired, zero when it
// does not fire. It ends as D1 does.
func (r *replicaExcess) judge(w EngineWindow, firing time.Time, tolerated, heavy float64) bool {
	l := &r.Level
	if firing.IsZero() && l.FiredAt > 0 { // it ended for want of data: what was before that is over
		r.resolve(w.ms)
	}
	l.noteFiring(firing)
	if firing.IsZero() {
		return l.S >= r.conf.prompts*heavy
	}
	drained := l.S < r.conf.prompts*heavy/2
	recovered := r.Recovery.closed && r.Recovery.recovered(l.FiredAt, tolerated, r.resolvePrompts*heavy, r.scale)
	if l.over(w.ms, drained, r.Recovery.closed, recovered, r.scale) {
		r.resolve(w.ms)
		return false
	}
	return true
}

// resolve begins anew.
func (r *replicaExcess) resolve(now int64) {
	r.Level.resolve(now)
	r.Recovery, r.Missed, r.Prompted = recovery{}, 0, 0
}

// save holds nothing of an engine that is as it should be: there are many.
func (r *replicaExcess) save() (json.RawMessage, error) {
	if r.Level.S == 0 && r.Level.FiredAt == 0 && r.Level.ResolvedAt == 0 {
		return nil, nil
	}
	return json.Marshal(r.replicaState)
}

func (r *replicaExcess) load(raw json.RawMessage) error {
	return json.Unmarshal(raw, &r.replicaState)
}

// peerMisses is what all members of a pool computed and prompted lately.
type peerMisses struct {
	ms     int64
	d      time.Duration
	source cacheSource

	missed, prompted float64
}

// peers is the miss ratio of the pool's other engines over a window, 0 where
// they were asked nothing. Each engine of the pool asks for it within one Eval.
func (w EngineWindow) peers(d time.Duration) float64 {
	p, source := &w.pool.peers, w.pool.excess.active
	from := w.ms - d.Milliseconds()
	if p.ms != w.ms || p.d != d || p.source != source {
		*p = peerMisses{ms: w.ms, d: d, source: source}
		for _, u := range w.pool.members {
			missed, prompted := u.missed(source, from, w.ms)
			p.missed += missed
			p.prompted += prompted
		}
	}
	missed, prompted := w.unit.missed(source, from, w.ms)
	if p.prompted <= prompted {
		return 0
	}
	return min(max((p.missed-missed)/(p.prompted-prompted), 0), 1)
}
