package alerting

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"kvwatch/rules"
)

// giveUpAfter is how long the end of an incident is kept for a receiver that
// does not take it.
const giveUpAfter = 24 * time.Hour

// group is an incident: the alerts that one route puts into one message.
type group struct {
	key    string
	labels map[string]string
	node   *node
	alerts map[string]held
	// nextFlush is when receivers hear of it next; zero until the first look at
	// the clock after a restart.
	nextFlush time.Time
	// unseen says that it comes from the notification log and that the rules
	// have not mentioned any of its alerts since.
	unseen bool
	// inFlight counts the requests that are under way.
	inFlight int
}

// held is an alert as it was last seen.
type held struct {
	alert rules.Alert
	seen  time.Time
}

// take puts an alert into the group as it is now.
func (g *group) take(a rules.Alert, now time.Time) {
	old, known := g.alerts[a.Key()]
	if known && a.State == rules.StateResolved && old.alert.State == rules.StateResolved {
		a = old.alert // the first end counts
	}
	g.alerts[a.Key()] = held{alert: a, seen: now}
}

// due says that the group must be flushed. A next flush that is further away
// than any interval is the mark of a clock that was set back.
func (g *group) due(now time.Time) bool {
	return !now.Before(g.nextFlush) || g.nextFlush.Sub(now) > max(g.node.groupWait, g.node.groupInterval)
}

// firing says whether any alert of the group fires.
func (g *group) firing() bool {
	for _, h := range g.alerts {
		if h.alert.State == rules.StateFiring {
			return true
		}
	}
	return false
}

// lastResolved returns when the last alert of the group resolved.
func (g *group) lastResolved() time.Time {
	var out time.Time
	for _, h := range g.alerts {
		if h.alert.ResolvedAt.After(out) {
			out = h.alert.ResolvedAt
		}
	}
	return out
}

// snapshot returns the alerts in the order of a message.
func (g *group) snapshot() []rules.Alert {
	out := make([]rules.Alert, 0, len(g.alerts))
	for _, key := range slices.Sorted(maps.Keys(g.alerts)) {
		out = append(out, g.alerts[key].alert)
	}
	slices.SortStableFunc(out, compareAlerts)
	return out
}

// compareAlerts orders firing before resolved, worse before better, older
// before younger, then by name and labels.
func compareAlerts(a, b rules.Alert) int {
	if fa, fb := a.State == rules.StateFiring, b.State == rules.StateFiring; fa != fb {
		if fa {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(rank(b.Severity), rank(a.Severity)),
		began(a).Compare(began(b)),
		strings.Compare(a.Name, b.Name),
		strings.Compare(a.Key(), b.Key()),
	)
}

// began returns when the alert's condition began to hold.
func began(a rules.Alert) time.Time {
	if a.ActiveAt.IsZero() {
		return a.FiredAt
	}
	return a.ActiveAt
}

// rank orders severities; one that we do not know is below info.
func rank(severity string) int {
	switch severity {
	case rules.SeverityCritical:
		return 3
	case rules.SeverityWarning:
		return 2
	case rules.SeverityInfo:
		return 1
	default:
		return 0
	}
}

// worst returns the worst severity of the alerts that fire, of all when none does.
func worst(alerts []rules.Alert) string {
	firing := statusOf(alerts) == rules.StateFiring
	out := ""
	for _, a := range alerts {
		if (a.State == rules.StateFiring) == firing && rank(a.Severity) >= rank(out) {
			out = a.Severity
		}
	}
	return out
}

func cmpKeys(a, b logKey) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Integration, b.Integration))
}
