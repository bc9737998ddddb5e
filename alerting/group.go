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

// supersede drops the alerts whose place another one has taken: the same labels
// but for the severity, which is how a rule says that something got worse. Two
// that the rules mention at the same time are two alerts.
func (g *group) supersede(now time.Time) {
	current := func(h held) bool { return h.alert.State == rules.StateFiring && h.seen.Equal(now) }
	present, old := map[string]bool{}, false
	for _, h := range g.alerts {
		old = old || !current(h)
	}
	if !old {
		return
	}
	for _, h := range g.alerts {
		if current(h) {
			present[identity(h.alert)] = true
		}
	}
	maps.DeleteFunc(g.alerts, func(_ string, h held) bool { return !current(h) && present[identity(h.alert)] })
}

// identity is the alert's key without its severity.
func identity(a rules.Alert) string {
	a.Labels = maps.Clone(a.Labels)
	delete(a.Labels, "severity")
	return a.Key()
}

// holds says whether the alert is in the group.
func (g *group) holds(a rules.Alert) bool {
	_, ok := g.alerts[a.Key()]
	return ok
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

// note keeps which alerts fire, whether or not anybody is told of them. The
// caller holds mu.
func (d *Dispatcher) note(a rules.Alert, now time.Time) {
	if a.State == rules.StateFiring {
		d.firing[a.Key()] = held{alert: a, seen: now}
	} else {
		delete(d.firing, a.Key())
	}
}

// noteMissing drops what the rules have not mentioned for a while, and says to
// the inhibitor what fires. The caller holds mu.
func (d *Dispatcher) noteMissing(now time.Time) {
	maps.DeleteFunc(d.firing, func(_ string, h held) bool { return now.Sub(h.seen) >= d.resolveTimeout })
	d.inhibitor.refresh(d.firing)
}

// take puts one alert into its groups. One that resolved and is not in a group is
// none of our business: nobody was told of it. The caller holds mu.
func (d *Dispatcher) take(a rules.Alert, now time.Time) {
	firing := a.State == rules.StateFiring
	takers := d.takers(a, d.groups)
	d.mindUnheard(a, takers)
	for _, n := range takers {
		g := d.groupFor(n, a, firing)
		if g == nil || !firing && !g.holds(a) {
			continue
		}
		if g.nextFlush.IsZero() {
			g.nextFlush = now.Add(g.node.groupWait)
		}
		g.unseen = false
		g.take(a, now)
	}
}

// resolveMissing ends the alerts that the rules have not mentioned for a while.
// The caller holds mu.
func (d *Dispatcher) resolveMissing(g *group, now time.Time) {
	for key, h := range g.alerts {
		if h.alert.State != rules.StateFiring {
			continue
		}
		if h.seen.IsZero() || h.seen.After(now) {
			h.seen = now
		}
		if now.Sub(h.seen) >= d.resolveTimeout {
			h.alert.State, h.alert.ResolvedAt = rules.StateResolved, now
			g.unseen = false
		}
		g.alerts[key] = h
	}
}

// groupFor returns the group of an alert at a node of the routing tree; one that
// does not exist is made, or nil when create is false. The caller holds mu.
func (d *Dispatcher) groupFor(n *node, a rules.Alert, create bool) *group {
	lbls := n.groupLabels(a.Labels)
	key := n.groupKey(lbls)
	g, ok := d.groups[key]
	if !ok && create {
		g = &group{key: key, labels: lbls, node: n, alerts: map[string]held{}}
		d.groups[key] = g
	}
	return g
}

// flushGroup hands one incident to the senders that have something to tell, and
// forgets what everybody knows to be over. The caller holds mu.
func (d *Dispatcher) flushGroup(g *group, now time.Time) {
	v := d.view(g, now)
	told := map[string]bool{} // alerts that somebody believes to be firing
	waiting, unknown := g.inFlight > 0, false
	for _, id := range d.receivers[g.node.receiver] {
		known := d.log.get(logKey{g.key, id})
		if g.unseen && known.Intent == nil {
			unknown = true
			continue
		}
		if !known.Over {
			maps.Copy(told, known.believed())
		}
		s := d.senders[id]
		q := question{now: now, view: v, known: known, traits: s.traitsNow()}
		if q.reason() != ReasonNone {
			waiting = true
			s.enqueue(g.key)
		} else {
			s.health.drop(g.key)
		}
	}
	if unknown {
		// Since the start the rules have not said how these alerts stand.
		g.nextFlush = now.Add(max(g.node.groupWait, time.Second))
		return
	}
	g.nextFlush = now.Add(g.node.groupInterval)
	heard := map[string]bool{}
	for _, a := range v.alerts {
		heard[a.Key()] = true
	}
	maps.DeleteFunc(told, func(key string, _ bool) bool { return !heard[key] })
	d.forget(g, now, told, waiting)
}

// forget drops resolved alerts that nobody believes to be firing or that nobody
// is to be told of, and the group when it is over. The caller holds mu.
func (d *Dispatcher) forget(g *group, now time.Time, told map[string]bool, waiting bool) {
	switch {
	case g.firing():
		if g.inFlight == 0 {
			maps.DeleteFunc(g.alerts, func(key string, h held) bool {
				return h.alert.State == rules.StateResolved && !told[key]
			})
		}
		return
	case waiting && now.Sub(g.lastResolved()) <= giveUpAfter:
		return
	case waiting:
		d.logger.Error("The end of an incident could not be told for too long and is given up", "incident", g.key)
	}
	delete(d.groups, g.key)
	for _, id := range d.receivers[g.node.receiver] {
		d.log.over(logKey{g.key, id}, now)
		d.senders[id].health.drop(g.key)
	}
}

// view is an incident as it stands when it is told.
type view struct {
	key    string
	labels map[string]string
	node   *node
	// alerts are those that may be told, without what is muted.
	alerts []rules.Alert
	// acknowledged says who has taken the incident on; nil for nobody.
	acknowledged *Acknowledgement
	// hushed are all alerts where none may be told, and silence is what covers
	// all that fire of them, if one does.
	hushed  []rules.Alert
	silence *Silence
}

// view returns the incident as it stands now. The caller holds mu.
func (d *Dispatcher) view(g *group, now time.Time) view {
	v := view{key: g.key, labels: g.labels, node: g.node, alerts: d.heard(g, now)}
	v.acknowledged = d.acknowledgement(g, v.alerts)
	if len(v.alerts) == 0 {
		v.hushed = g.snapshot()
		v.silence = d.silenceOf(v.hushed, now)
	}
	return v
}

// shown are the alerts that a message shows: those that are silenced, where a
// message says that they are.
func (v view) shown() []rules.Alert {
	if len(v.alerts) == 0 {
		return v.hushed
	}
	return v.alerts
}

// begin returns the incident as it stands now and keeps it until end.
func (d *Dispatcher) begin(key string, now time.Time) (view, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, ok := d.groups[key]
	if !ok {
		return view{}, false
	}
	g.inFlight++
	return d.view(g, now), true
}

// end lets go of what begin kept.
func (d *Dispatcher) end(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g, ok := d.groups[key]; ok && g.inFlight > 0 {
		g.inFlight--
	}
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
