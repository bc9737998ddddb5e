package alerting

import (
	"encoding/json"
	"slices"
	"time"

	"kvwatch/rules"
)

// acknowledgedNote is the note of the notification log under which an incident
// keeps who acknowledged it. It is forgotten with the incident.
const acknowledgedNote = "acknowledged"

// Acknowledgement says who has taken an incident on. While it holds, nothing is
// repeated; it holds until the incident is over or gets worse.
type Acknowledgement struct {
	// By is the name of the person, who gave it by pressing a button.
	By string `json:"by"`
	// At is when he pressed.
	At time.Time `json:"at"`
	// Severity is how bad the incident was then.
	Severity string `json:"severity"`
}

// acknowledgement returns the one that holds for an incident with these alerts,
// nil for none. The caller holds mu.
func (d *Dispatcher) acknowledgement(g *group, alerts []rules.Alert) *Acknowledgement {
	for _, id := range d.receivers[g.node.receiver] {
		e := d.log.get(logKey{g.key, id})
		a, ok := e.acknowledgement()
		if ok && e.Tried && !e.Over && rank(worst(alerts)) <= rank(a.Severity) {
			return &a
		}
	}
	return nil
}

// acknowledgement returns what the entry keeps.
func (e entry) acknowledgement() (a Acknowledgement, ok bool) {
	text := e.Memory[acknowledgedNote]
	if text == "" {
		return a, false
	}
	return a, json.Unmarshal([]byte(text), &a) == nil
}

// worsened forgets the acknowledgement of something that was not as bad: when it
// gets better again, it is not as if nothing had happened.
func (d *Dispatcher) worsened(v view, now time.Time) {
	d.mu.Lock()
	ids := slices.Clone(d.receivers[v.node.receiver])
	d.mu.Unlock()
	for _, id := range ids {
		k := logKey{v.key, id}
		if a, ok := d.log.get(k).acknowledgement(); ok && rank(a.Severity) < rank(worst(v.alerts)) {
			memory{d.log, k, now}.Set(acknowledgedNote, "")
		}
	}
}

// silenceOf returns the silence that covers all of the alerts that fire and
// lasts the longest, nil where there is none.
func (d *Dispatcher) silenceOf(alerts []rules.Alert, now time.Time) *Silence {
	if statusOf(alerts) != rules.StateFiring {
		return nil
	}
	for _, s := range d.silences.active(now) {
		if !slices.ContainsFunc(alerts, func(a rules.Alert) bool { return a.State == rules.StateFiring && !s.covers(a.Labels) }) {
			return &s
		}
	}
	return nil
}
