package rules

import (
	"fmt"
	"slices"
	"time"
)

const (
	// restartWindow is how long after a restart it is the likely cause.
	restartWindow = 30 * time.Minute
	// shortResidency is a residency so short that no turn survives it. It is a
	// physical constant: time_scale leaves it alone.
	shortResidency = 60 * time.Second
	// residencyFall is the share of its median below which residency fell.
	residencyFall = 0.5
	// replicaShare is the share of the excess that names a replica.
	replicaShare = 0.6
)

// The causes that D1 tells.
const (
	causeRestart         = "restart"
	causeResidency       = "residency"
	causeReplica         = "replica"
	causeRoutingOrOthers = "routing_or_content"
)

// excessCause is the likely cause of an excess, and those that would come next.
type excessCause struct {
	Name      string   `json:"name"`
	Text      string   `json:"text"`
	RunnersUp []string `json:"runners_up,omitempty"`
	// Residency is that of the half hour before the onset, in seconds; 0 is unknown.
	Residency float64 `json:"residency,omitempty"`
}

// share is how much of a level's excess one engine carries.
type share struct {
	unit   *unit
	share  float64
	missed float64 // its miss ratio since the onset
	peers  float64 // that of all others
}

// cause looks for the likely cause of what began at onset, with the replicas'
// shares of the level's excess, in the order of DETECTORS section 11.6: the
// first that holds is told, the others that hold are runners-up.
func (c *cacheExcess) cause(w PoolWindow, level int, onset int64) excessCause {
	t := c.track()
	var found []excessCause
	if text := restarted(w, c.conf.scale); text != "" {
		found = append(found, excessCause{Name: causeRestart, Text: text})
	}
	residency, text := c.residencyFell(w, onset)
	if text != "" {
		found = append(found, excessCause{Name: causeResidency, Text: text})
	}
	if text := c.oneReplica(t, level); text != "" {
		found = append(found, excessCause{Name: causeReplica, Text: text})
	}
	found = append(found, excessCause{
		Name: causeRoutingOrOthers,
		Text: "Routing or content: calls of a session reach another replica than before, or the beginning of the prompts changed (system prompt, tools, model switch, retrieved text). The metrics alone cannot tell the two apart.",
	})
	first := found[0]
	for _, f := range found[1:] {
		first.RunnersUp = append(first.RunnersUp, f.Text)
	}
	first.Residency = residency
	return first
}

// restarted names the replicas that went away or began again lately.
func restarted(w PoolWindow, scale float64) string {
	var names []string
	for _, u := range w.pool.members {
		if u.restarted(w.ms, scale) {
			names = append(names, u.name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return restartText(slices.Compact(names), scale)
}

// restarted says whether within restartWindow before a time a counter of the
// engine began again, or the engine is away: a crash shows as that before its
// counters come back. Pages that were lost while its counters went on are none,
// and neither is a single one that is missing now.
func (u *unit) restarted(at int64, scale float64) bool {
	from := at - scaled(restartWindow, scale).Milliseconds()
	t := u.target
	away := t.downAt > t.lastGood && t.downAt-t.firstBad >= scaled(downForSure, scale).Milliseconds()
	return u.resetAt > from || away && t.downAt > from
}

func restartText(names []string, scale float64) string {
	return fmt.Sprintf("Restart: %s went away or began again within the last %s, and a fresh engine's cache is empty.",
		list(names), spell(scaled(restartWindow, scale)))
}

// residencyFell compares the half hour before the onset with the day.
func (c *cacheExcess) residencyFell(w PoolWindow, onset int64) (seconds float64, text string) {
	seconds, _, ok := w.residency(onset-scaled(residencyWindow, c.conf.scale).Milliseconds(), onset)
	if !ok {
		return 0, ""
	}
	usual, notes := c.residency.median(onset, c.conf.scale)
	before := spellSeconds(seconds)
	switch {
	case seconds < shortResidency.Seconds():
		return seconds, fmt.Sprintf("Residency or working set: before the onset a freed block stayed in the cache for %s only, less than people take between turns.", before)
	case notes > 0 && seconds < residencyFall*usual:
		return seconds, fmt.Sprintf("Residency or working set: before the onset a freed block stayed in the cache for %s, usual are %s: more live contexts than the cache holds.",
			before, spellSeconds(usual))
	default:
		return seconds, ""
	}
}

// oneReplica names the replica that carries the excess while its peers are normal.
func (c *cacheExcess) oneReplica(t *excessTrack, level int) string {
	shares := t.shares(level)
	if len(shares) < 2 || shares[0].share <= replicaShare || shares[0].peers > c.conf.levels[level].kappa*t.Baseline.usual() {
		return ""
	}
	return fmt.Sprintf("Replica: %s carries %s of the excess, its peers are normal (%s missed).",
		shares[0].unit.name(), percent(shares[0].share), percent(shares[0].peers))
}

// shares lists the engines by their part of the level's excess, largest first.
func (t *excessTrack) shares(level int) []share {
	excess, missed, prompted := 0.0, 0.0, 0.0
	for _, r := range t.replicas {
		excess += r.Excess[level]
		missed += r.Missed[level]
		prompted += r.Prompted[level]
	}
	if excess <= 0 {
		return nil
	}
	shares := make([]share, 0, len(t.replicas))
	for u, r := range t.replicas {
		s := share{unit: u, share: r.Excess[level] / excess}
		if r.Prompted[level] > 0 {
			s.missed = r.Missed[level] / r.Prompted[level]
		}
		if others := prompted - r.Prompted[level]; others > 0 {
			s.peers = (missed - r.Missed[level]) / others
		}
		shares = append(shares, s)
	}
	slices.SortFunc(shares, func(a, b share) int {
		switch {
		case a.share > b.share:
			return -1
		case a.share < b.share:
			return 1
		case a.unit.key() < b.unit.key():
			return -1
		default:
			return 1
		}
	})
	return shares
}
