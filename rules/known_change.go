package rules

import (
	"fmt"
	"time"
)

// knownChange says which restart or deploy moved the pool's sessions: the newest
// one that ended within restartWindow before the last loss. "" is none.
func (w PoolWindow) knownChange(lastLoss int64, scale float64) string {
	from := lastLoss - scaled(restartWindow, scale).Milliseconds()
	newest, text := int64(0), ""
	note := func(began, ended int64, what string) {
		if began <= lastLoss && ended > from && ended > newest {
			newest, text = ended, fmt.Sprintf("At %s %s", clock(time.UnixMilli(began)), what)
		}
	}
	for _, e := range w.pool.journal.events {
		if e.about(w.pool.name) && (e.Kind == EventDeploy || e.Kind == EventMaintenance) {
			note(e.At.UnixMilli(), e.end().UnixMilli(), "a "+e.Kind+" was told of")
		}
	}
	for _, u := range w.pool.members {
		if u.resetAt > 0 {
			note(u.resetAt, u.resetAt, u.name()+" began again")
		}
		// A crash shows as this first. A single page that is lost is none.
		if t := u.target; t.downAt-t.firstBad >= downForSure.Milliseconds() {
			note(t.firstBad, t.downAt, u.name()+" could not be read any more")
		}
	}
	return text
}

// downForSure is how long no page may be read until calls are taken to have left
// the engine.
const downForSure = time.Minute
