package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"kvwatch/rules"
)

// detectorView is a detector's status with how far it is from firing.
type detectorView struct {
	rules.DetectorStatus
	ForSeconds float64 `json:"for_seconds"`
	Runbook    string  `json:"runbook,omitempty"`
}

func (p *page) detectorViews(statuses []rules.DetectorStatus) []detectorView {
	views := make([]detectorView, 0, len(statuses))
	for _, s := range statuses {
		v := detectorView{DetectorStatus: s, ForSeconds: s.For.Seconds()}
		if _, ok := p.runbooks[s.Alert]; ok {
			v.Runbook = "runbooks/" + s.Alert
		}
		views = append(views, v)
	}
	slices.SortStableFunc(views, nearestFirst)
	return views
}

// nearestFirst puts what fires in front, then what is about to, then the rest by
// how near it is, in quarters of its threshold, and how grave it would be.
func nearestFirst(a, b detectorView) int {
	return cmp.Or(
		cmp.Compare(a.distance(), b.distance()),
		cmp.Compare(gravity(a.Severity), gravity(b.Severity)),
		cmp.Compare(a.Labels["pool"], b.Labels["pool"]),
		cmp.Compare(a.Alert, b.Alert),
	)
}

// distance is how far from firing a detector is, in steps so large that rows do
// not change places at every look.
func (d detectorView) distance() int {
	const firing, pending, threshold, none = 0, 1, 2, 7
	switch {
	case d.Phase == string(rules.StateFiring):
		return firing
	case d.Phase == string(rules.StatePending):
		return pending
	case d.Share == nil:
		return none
	}
	return threshold + int(4*(1-min(1, max(0, *d.Share))))
}

// forPage leaves to explain what the page does not show: the past, for there may
// be thousands of detectors, and Watchdog, which fires whatever happens.
func forPage(views []detectorView) []detectorView {
	views = slices.DeleteFunc(views, func(d detectorView) bool { return d.Alert == rules.Watchdog })
	for i := range views {
		views[i].Past = nil
	}
	return views
}

// explanation is the answer of /api/v1/kvwatch/explain.
type explanation struct {
	Detectors []detectorView `json:"detectors"`
	Alerts    []alertView    `json:"alerts"`
}

// explain tells where the detectors stand, also when nothing fires: those of an
// alert (alert=), of a subject (pool=, job=, instance=, engine=), or all.
func (p *page) explain(w http.ResponseWriter, r *http.Request) {
	alert := r.FormValue("alert")
	about := func(name string, labels map[string]string) bool {
		for _, label := range []string{"pool", "job", "instance", "engine"} {
			if asked := r.FormValue(label); asked != "" && labels[label] != asked {
				return false
			}
		}
		return alert == "" || alert == name
	}
	out := explanation{Detectors: []detectorView{}, Alerts: []alertView{}}
	for _, v := range p.detectorViews(p.o.Detectors()) {
		if about(v.Alert, v.Labels) {
			out.Detectors = append(out.Detectors, v)
		}
	}
	for _, a := range p.o.Alerts() {
		if about(a.Name, a.Labels) {
			out.Alerts = append(out.Alerts, p.alertView(a))
		}
	}
	if len(out.Detectors) == 0 && len(out.Alerts) == 0 && r.Form.Encode() != "" {
		p.failure(w, http.StatusNotFound, "not_found",
			fmt.Sprintf("no detector has %s; without parameters all are listed", r.Form.Encode()))
		return
	}
	p.success(w, out)
}

// promRule is a detector in the shape of a rule of Prometheus's /api/v1/rules.
type promRule struct {
	State          string            `json:"state"`
	Name           string            `json:"name"`
	Query          string            `json:"query"`
	Duration       float64           `json:"duration"`
	KeepFiringFor  float64           `json:"keepFiringFor"`
	Labels         map[string]string `json:"labels"`
	Annotations    map[string]string `json:"annotations"`
	Alerts         []promAlert       `json:"alerts"`
	Health         string            `json:"health"`
	EvaluationTime float64           `json:"evaluationTime"`
	LastEvaluation time.Time         `json:"lastEvaluation"`
	Type           string            `json:"type"`
}

type promGroup struct {
	Name           string     `json:"name"`
	File           string     `json:"file"`
	Rules          []promRule `json:"rules"`
	Interval       float64    `json:"interval"`
	Limit          int        `json:"limit"`
	EvaluationTime float64    `json:"evaluationTime"`
	LastEvaluation time.Time  `json:"lastEvaluation"`
}

// rules answers /api/v1/rules with one group that holds the built-in
// detectors. They are no PromQL; their query is the series that shows their alerts.
func (p *page) rules(w http.ResponseWriter, r *http.Request) {
	groups := []promGroup{}
	if kind := r.FormValue("type"); kind == "" || kind == "alert" {
		now := p.o.Now()
		groups = append(groups, promGroup{
			Name: "kvwatch", File: "built in", Interval: p.o.Interval.Seconds(), LastEvaluation: now,
			Rules: promRules(p.o.Detectors(), p.o.Alerts(), now),
		})
	}
	p.success(w, map[string]any{"groups": groups})
}

func promRules(detectors []rules.DetectorStatus, alerts []rules.Alert, now time.Time) []promRule {
	var names []string
	for _, d := range detectors {
		names = append(names, d.Alert)
	}
	for _, a := range alerts {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	list := []promRule{}
	for _, name := range slices.Compact(names) {
		active := promAlerts(alerts, name)
		list = append(list, promRule{
			State: ruleState(active), Name: name, KeepFiringFor: kept(detectors, name), Query: fmt.Sprintf("kvwatch_alerts{alertname=%q}", name),
			Labels: map[string]string{}, Annotations: map[string]string{"summary": standing(detectors, name)},
			Alerts: active, Health: "ok", LastEvaluation: now, Type: "alerting",
		})
	}
	return list
}

// kept is for how many seconds an alert goes on after its condition ended.
func kept(detectors []rules.DetectorStatus, name string) float64 {
	for _, d := range detectors {
		if d.Alert == name {
			return d.KeepFiringFor.Seconds()
		}
	}
	return 0
}

func ruleState(active []promAlert) string {
	state := "inactive"
	for _, a := range active {
		if a.State == rules.StateFiring {
			return "firing"
		}
		state = "pending"
	}
	return state
}

// standing joins what the detectors of one alert say of themselves.
func standing(detectors []rules.DetectorStatus, name string) string {
	var parts []string
	for _, d := range detectors {
		if d.Alert != name {
			continue
		}
		if pool := d.Labels["pool"]; pool != "" {
			parts = append(parts, pool+": "+d.Text)
		} else {
			parts = append(parts, d.Text)
		}
	}
	return strings.Join(parts, "; ")
}
