package alerting

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kvwatch/rules"
)

// Muting says why an alert is not told, although it fires. It is empty for one
// that is.
type Muting struct {
	// SilencedBy are the IDs of the silences that cover it.
	SilencedBy []string `json:"silenced_by,omitempty"`
	// InhibitedBy is the alert because of which it is not told.
	InhibitedBy string `json:"inhibited_by,omitempty"`
	// MutedBy are the time intervals in which none of its routes speaks.
	MutedBy []string `json:"muted_by,omitempty"`
	// Until is when the silence or the quiet time ends; zero when that is not known.
	Until time.Time `json:"until,omitzero"`
	// Text says all of that to people.
	Text string `json:"text,omitempty"`
}

// Muted says whether and why an alert with these labels would not be told now.
func (d *Dispatcher) Muted(lbls map[string]string, now time.Time) Muting {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out Muting
	var texts []string
	for _, s := range d.silences.active(now) {
		if !s.covers(lbls) {
			continue
		}
		out.SilencedBy = append(out.SilencedBy, s.ID)
		if len(out.SilencedBy) == 1 {
			out.Until = s.EndsAt
			texts = append(texts, fmt.Sprintf("Silenced by %s until %s: %s", s.CreatedBy, moment(s.EndsAt), s.Comment))
		}
	}
	if source, ok := d.inhibitor.by(lbls); ok {
		out.InhibitedBy = named(source)
		texts = append(texts, "Inhibited by "+out.InhibitedBy+", which fires")
	}
	if names, until := d.quiet(lbls, now); len(names) > 0 {
		out.MutedBy = names
		text := "Its routes do not speak now (" + strings.Join(names, ", ") + ")"
		if !until.IsZero() {
			text += ", until " + moment(until)
		}
		if until.After(out.Until) {
			out.Until = until
		}
		texts = append(texts, text)
	}
	out.Text = strings.Join(texts, ". ")
	return out
}

// quiet returns the time intervals because of which no route of the alert speaks
// and when the first of them may again. The caller holds mu.
func (d *Dispatcher) quiet(lbls map[string]string, now time.Time) (names []string, until time.Time) {
	for _, n := range d.takers(rules.Alert{Labels: lbls}, d.groups) {
		by := d.calendar.mutes(n, now)
		if len(by) == 0 {
			return nil, time.Time{}
		}
		names = append(names, by...)
		if end := d.calendar.until(n, now); until.IsZero() || !end.IsZero() && end.Before(until) {
			until = end
		}
	}
	slices.Sort(names)
	return slices.Compact(names), until
}

// heard returns the alerts of an incident that may be told now, in the order of
// a message. What is muted is as if it were not there, resolved or not: so it is
// in Alertmanager. The caller holds mu.
func (d *Dispatcher) heard(g *group, now time.Time) []rules.Alert {
	if len(d.calendar.mutes(g.node, now)) > 0 {
		return nil
	}
	active := d.silences.active(now)
	return slices.DeleteFunc(g.snapshot(), func(a rules.Alert) bool {
		if d.dead(a, now) {
			return true
		}
		if _, inhibited := d.inhibitor.by(a.Labels); inhibited {
			return true
		}
		return slices.ContainsFunc(active, func(s Silence) bool { return s.covers(a.Labels) })
	})
}

// dead says that an alert that proves that kvwatch lives must not be told: the
// rules have not spoken for too long. Of other alerts that is no news. The caller
// holds mu.
func (d *Dispatcher) dead(a rules.Alert, now time.Time) bool {
	return a.Name == rules.Watchdog && now.Sub(d.spoken) >= d.resolveTimeout
}

// named says which alert it is: its name and what it is about.
func named(a rules.Alert) string {
	if about := place(a.Labels); about != "" {
		return a.Name + " (" + about + ")"
	}
	return a.Name
}

// moment writes a time that may be days away.
func moment(t time.Time) string { return t.UTC().Format("Mon 2 Jan 15:04 UTC") }
