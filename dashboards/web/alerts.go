package web

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"kvwatch/alerting"
	"kvwatch/rules"
)

// shownResolved is how many resolved alerts the page lists.
const shownResolved = 20

// alertLists holds the alerts by state, the gravest and the newest first.
type alertLists struct {
	Firing   []alertView `json:"firing"`
	Pending  []alertView `json:"pending"`
	Resolved []alertView `json:"resolved"`
}

type alertView struct {
	Name       string            `json:"alertname"`
	Severity   string            `json:"severity"`
	Pool       string            `json:"pool,omitempty"`
	Labels     map[string]string `json:"labels"`
	Summary    string            `json:"summary"`
	Evidence   rules.Evidence    `json:"evidence"`
	ActiveAt   *time.Time        `json:"active_at"`
	FiredAt    *time.Time        `json:"fired_at"`
	ResolvedAt *time.Time        `json:"resolved_at"`
	// Runbook is the address of the runbook relative to the page; empty when there is none.
	Runbook string `json:"runbook,omitempty"`
	// Muted is why nobody is told; nil when people are.
	Muted *alerting.Muting `json:"muted,omitempty"`
}

func (p *page) alertLists() alertLists {
	lists := alertLists{Firing: []alertView{}, Pending: []alertView{}, Resolved: []alertView{}}
	for _, a := range p.o.Alerts() {
		if a.Name == rules.Watchdog {
			continue
		}
		v := p.alertView(a)
		switch a.State {
		case rules.StateFiring:
			lists.Firing = append(lists.Firing, v)
		case rules.StatePending:
			lists.Pending = append(lists.Pending, v)
		case rules.StateResolved:
			lists.Resolved = append(lists.Resolved, v)
		}
	}
	slices.SortStableFunc(lists.Firing, gravestFirst)
	slices.SortStableFunc(lists.Pending, gravestFirst)
	slices.SortStableFunc(lists.Resolved, func(a, b alertView) int { return newestFirst(a.ResolvedAt, b.ResolvedAt) })
	if len(lists.Resolved) > shownResolved {
		lists.Resolved = lists.Resolved[:shownResolved]
	}
	return lists
}

func (p *page) alertView(a rules.Alert) alertView {
	v := alertView{
		Name: a.Name, Severity: a.Severity, Pool: a.Labels["pool"], Labels: a.Labels, Evidence: a.Evidence,
		Summary:  cmp.Or(a.Annotations["summary"], a.Evidence.Seen, a.Name),
		ActiveAt: timeOrNil(a.ActiveAt), FiredAt: timeOrNil(a.FiredAt), ResolvedAt: timeOrNil(a.ResolvedAt),
	}
	if _, ok := p.runbooks[a.Name]; ok {
		v.Runbook = "runbooks/" + a.Name
	}
	if p.o.Muted != nil && a.State != rules.StateResolved {
		if m := p.o.Muted(a.Labels, p.o.Now()); m.Text != "" {
			v.Muted = &m
		}
	}
	return v
}

func gravestFirst(a, b alertView) int {
	return cmp.Or(
		cmp.Compare(gravity(a.Severity), gravity(b.Severity)),
		newestFirst(a.ActiveAt, b.ActiveAt),
		cmp.Compare(a.Name, b.Name),
	)
}

func gravity(severity string) int {
	switch severity {
	case rules.SeverityCritical:
		return 0
	case rules.SeverityWarning:
		return 1
	default:
		return 2
	}
}

func newestFirst(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	default:
		return b.Compare(*a)
	}
}

// promAlert is an alert in the shape of Prometheus's /api/v1/alerts.
type promAlert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       rules.AlertState  `json:"state"`
	ActiveAt    *time.Time        `json:"activeAt,omitempty"`
	Value       string            `json:"value"`
}

// alerts answers /api/v1/alerts. As in Prometheus, resolved alerts are not in it.
func (p *page) alerts(w http.ResponseWriter, _ *http.Request) {
	p.success(w, map[string]any{"alerts": promAlerts(p.o.Alerts(), "")})
}

// promAlerts gives the pending and firing alerts of one name, or of all.
func promAlerts(alerts []rules.Alert, name string) []promAlert {
	list := []promAlert{}
	for _, a := range alerts {
		if a.State == rules.StateResolved || (name != "" && a.Name != name) {
			continue
		}
		annotations := a.Annotations
		if annotations == nil {
			annotations = map[string]string{}
		}
		list = append(list, promAlert{
			Labels: a.Labels, Annotations: annotations, State: a.State, ActiveAt: timeOrNil(a.ActiveAt),
			Value: strconv.FormatFloat(a.Value, 'e', -1, 64),
		})
	}
	return list
}
