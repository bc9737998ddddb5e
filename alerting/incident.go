package alerting

import (
	"slices"
	"strings"
	"time"

	"kvwatch/rules"
)

// Incident is one group of alerts as the page shows it.
type Incident struct {
	// Key names the incident: its route and the labels that it is grouped by.
	Key string `json:"key"`
	// Receiver is the receiver of its route.
	Receiver string `json:"receiver"`
	// Labels are the labels that it is grouped by.
	Labels map[string]string `json:"labels"`
	// Status is firing while any of its alerts is, else resolved.
	Status rules.AlertState `json:"status"`
	// Severity is the worst of its firing alerts, or of all when none fires.
	Severity string `json:"severity"`
	// Title says in one line what is going on.
	Title string `json:"title"`
	// Since is when the first of its alerts began.
	Since time.Time `json:"since"`
	// ResolvedAt is when the last of its alerts resolved; zero while firing.
	ResolvedAt time.Time `json:"resolved_at"`
	// Alerts are firing first, the worst first.
	Alerts []rules.Alert `json:"alerts"`
	// Deliveries say what each integration of the receiver was told.
	Deliveries []Delivery `json:"deliveries"`
}

// Delivery is the last notification of an incident to one integration of a receiver.
type Delivery struct {
	// Integration is receiver/kind/index.
	Integration string `json:"integration"`
	// Outcome is success, waiting (nothing went out yet), retried (the last
	// request failed or is under way, or it waits while others fail) or failed (refused for good).
	Outcome string `json:"outcome"`
	// At is when the last request went out; zero before the first.
	At time.Time `json:"at"`
	// Reason says why it went out.
	Reason Reason `json:"reason,omitempty"`
	// Error is why the last request failed; empty when it did not.
	Error string `json:"error,omitempty"`
}

// Incidents returns what is going on and what was over within the last day:
// firing first, the worst first, then the latest to end.
func (d *Dispatcher) Incidents() []Incident {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := []Incident{}
	for _, key := range sortedNames(d.groups) {
		g := d.groups[key]
		deliveries := []Delivery{}
		for _, id := range d.receivers[g.node.receiver] {
			deliveries = append(deliveries, d.log.get(logKey{key, id}).delivery(id))
		}
		out = append(out, newIncident(key, g.node.receiver, g.labels, g.snapshot(), deliveries))
	}
	out = append(out, d.past()...)
	slices.SortStableFunc(out, compareIncidents)
	return out
}

// past returns the incidents that are over, from the log. The caller holds mu.
func (d *Dispatcher) past() []Incident {
	var out []Incident
	at := map[string]int{}
	for _, e := range d.log.all() {
		if _, going := d.groups[e.Group]; going || !e.Over || e.last() == nil {
			continue
		}
		i, seen := at[e.Group]
		if !seen {
			receiver, _, _ := strings.Cut(e.Integration, "/")
			i, at[e.Group] = len(out), len(out)
			out = append(out, newIncident(e.Group, receiver, e.Labels, e.last().Alerts, nil))
		}
		out[i].Deliveries = append(out[i].Deliveries, e.delivery(e.Integration))
	}
	return out
}

func newIncident(key, receiver string, lbls map[string]string, alerts []rules.Alert, deliveries []Delivery) Incident {
	in := Incident{
		Key: key, Receiver: receiver, Labels: lbls, Alerts: alerts, Deliveries: deliveries,
		Status: statusOf(alerts), Severity: worst(alerts), Title: title(alerts), Since: since(alerts),
	}
	if in.Status == rules.StateResolved {
		in.ResolvedAt = until(alerts)
	}
	return in
}

func compareIncidents(a, b Incident) int {
	if a.Status != b.Status {
		if a.Status == rules.StateFiring {
			return -1
		}
		return 1
	}
	if a.Status == rules.StateFiring {
		if c := rank(b.Severity) - rank(a.Severity); c != 0 {
			return c
		}
	}
	return b.ResolvedAt.Compare(a.ResolvedAt)
}

// delivery returns the entry as the page shows it.
func (e entry) delivery(id string) Delivery {
	out := Delivery{Integration: id, Outcome: outcomeWaiting, Error: e.Error}
	if last := e.last(); last != nil && e.Tried {
		out.At, out.Reason = last.At, last.Reason
	}
	switch {
	case !e.Tried:
		out.Error = ""
	case e.Intent != nil:
		out.Outcome = outcomeRetried
	case e.Error != "":
		out.Outcome = outcomeFailed
	default:
		out.Outcome = outcomeSuccess
	}
	return out
}
