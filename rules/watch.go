package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

const (
	// resolvedKept is how long a resolved alert is told of, as Prometheus does.
	resolvedKept = 15 * time.Minute
	// unknownGrace is how long an alert stays pending or firing when its
	// detector has no fresh data any more.
	unknownGrace = 5 * time.Minute
)

// watch is one alert over one subject: its detector and where the alert stands.
type watch struct {
	rule     *Alerting
	settings *settings
	subject  labels.Labels
	// judge asks the detector; keeper is the same detector where it keeps
	// something, else nil.
	judge  func(n instant, firing time.Time) Verdict
	keeper keeper
	watchState
	last lastVerdict
	past past
}

// lastVerdict is what is kept of a verdict, for those who ask where a detector stands.
type lastVerdict struct {
	phase, text, severity string
	numbers               []Number
}

// watchOver puts a detector over a subject, whose window at an Eval is window's.
func watchOver[W any](a *Alerting, s *settings, subject labels.Labels, d detector[W], window func(instant) W) *watch {
	w := &watch{
		rule: a, settings: s, subject: subject,
		judge: func(n instant, firing time.Time) Verdict { return d.Judge(window(n), firing) },
	}
	w.keeper, _ = d.(keeper)
	return w
}

// watchState is the part of a watch that survives a restart.
type watchState struct {
	// Alert is the open alert, pending or firing; nil when there is none.
	Alert *Alert `json:"alert,omitempty"`
	// PendingSince is when the condition was first seen to hold, UnknownSince
	// when the data went.
	PendingSince time.Time `json:"pending_since,omitzero"`
	UnknownSince time.Time `json:"unknown_since,omitzero"`
	// ClearSince is when the condition of an alert that is kept firing ended.
	ClearSince time.Time `json:"clear_since,omitzero"`
	// Resolved holds the alerts that resolved lately.
	Resolved []Alert `json:"resolved,omitempty"`
}

// savedWatch is a watch as a file holds it.
type savedWatch struct {
	watchState
	// Detector is what its keeper saved.
	Detector json.RawMessage `json:"detector,omitempty"`
	// Left is when the subject went; zero while it is there.
	Left time.Time `json:"left,omitzero"`
}

// saved is the watch as a file holds it, nil when there is nothing to hold.
func (w *watch) saved() (*savedWatch, error) {
	s := savedWatch{watchState: w.watchState}
	if w.keeper != nil {
		raw, err := w.keeper.save()
		if err != nil {
			return nil, fmt.Errorf("saving what %s learned: %w", w.about(), err)
		}
		s.Detector = raw
	}
	if s.Alert == nil && len(s.Resolved) == 0 && s.Detector == nil {
		return nil, nil
	}
	s.Resolved = slices.Clone(s.Resolved)
	if s.Alert != nil {
		a := s.Alert.clone()
		s.Alert = &a
	}
	return &s, nil
}

// key identifies the watch in the state file.
func (w *watch) key() string { return w.rule.Name + w.subject.String() }

// firing is when the alert fired, zero when it does not fire.
func (w *watchState) firing() time.Time {
	if w.Alert == nil {
		return time.Time{}
	}
	return w.Alert.FiredAt
}

// onset is when what an active verdict tells of began.
func (w *watch) onset(now time.Time, v Verdict) time.Time {
	switch {
	case w.Alert != nil:
		return w.Alert.ActiveAt
	case !v.Since.IsZero():
		return v.Since
	default:
		return now
	}
}

// step moves the alert on by one verdict.
func (w *watch) step(now time.Time, v Verdict, externalURL string) {
	w.last = lastVerdict{phase: v.Phase, text: v.Text, severity: v.Severity, numbers: v.Numbers}
	w.past.note(now, v.Numbers, w.settings.timeScale)
	w.forget(now)
	switch {
	case v.Active:
		w.UnknownSince, w.ClearSince = time.Time{}, time.Time{}
		w.hold(now, v, externalURL)
	case w.Alert == nil:
	case v.Phase == PhaseUnknown && !w.unknownTooLong(now):
	case w.kept(now):
	default:
		w.end(now, w.over(v))
	}
}

// hold opens the alert or renews it, and fires it when it held long enough.
func (w *watch) hold(now time.Time, v Verdict, externalURL string) {
	severity := w.severity(v.Severity)
	if w.Alert != nil && w.Alert.Severity != severity {
		// Severity is a label: the alert goes on under another identity.
		active := w.Alert.ActiveAt
		pending := w.PendingSince
		w.end(now, fmt.Sprintf("%s goes on as %s", strings.TrimSuffix(w.Alert.Annotations["summary"], "."), severity))
		w.open(now, v, severity)
		w.Alert.ActiveAt, w.PendingSince = active, pending
	}
	if w.Alert == nil {
		w.open(now, v, severity)
	}
	a := w.Alert
	a.Value, a.Evidence = v.Value, v.Evidence
	a.Annotations = annotations(w.rule.Name, v, externalURL)
	if a.State == StatePending && now.Sub(w.PendingSince) >= w.settings.hold {
		a.State, a.FiredAt = StateFiring, now
	}
}

func (w *watch) open(now time.Time, v Verdict, severity string) {
	since := v.Since
	if since.IsZero() {
		since = now
	}
	w.PendingSince = now
	w.Alert = &Alert{Name: w.rule.Name, Severity: severity, Labels: w.labels(severity), State: StatePending, ActiveAt: since}
}

// end closes the alert: a firing one is resolved and its summary says so, a
// pending one never was.
func (w *watchState) end(now time.Time, summary string) {
	a := w.Alert
	w.Alert, w.PendingSince, w.UnknownSince, w.ClearSince = nil, time.Time{}, time.Time{}, time.Time{}
	if a.State != StateFiring {
		return
	}
	a.State, a.ResolvedAt = StateResolved, now
	told := map[string]string{}
	maps.Copy(told, a.Annotations)
	told["summary"] = summary
	a.Annotations = told
	w.Resolved = append(w.Resolved, *a)
}

// over says that the alert is over, and how things are now.
func (w *watch) over(v Verdict) string {
	switch {
	case v.Phase == PhaseUnknown:
		return fmt.Sprintf("%s ended for want of data: %s", w.about(), v.Text)
	case v.Over != "":
		return v.Over
	default:
		return fmt.Sprintf("%s is over: now %s", w.about(), v.Text)
	}
}

// overText is the text of an alert's end, "" while it does not fire: nobody reads
// it then, and detectors are asked a thousand times a second.
func overText(firing time.Time, format string, args ...any) string {
	if firing.IsZero() {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// about names the alert and what it is about.
func (w *watch) about() string { return about(w.rule.Name, w.subject.Map()) }

// about names an alert with the given labels.
func about(name string, labels map[string]string) string {
	switch pool, instance := labels["pool"], labels["instance"]; { // an engine's has both
	case labels["plan"] != "":
		return fmt.Sprintf("%s of plan %s", name, labels["plan"])
	case labels["receiver"] != "":
		return fmt.Sprintf("%s of receiver %s", name, labels["receiver"])
	case instance != "":
		return fmt.Sprintf("%s of %s of job %s", name, instance, labels["job"])
	case pool != "":
		return fmt.Sprintf("%s of pool %s", name, pool)
	default:
		return name
	}
}

func (w *watch) unknownTooLong(now time.Time) bool {
	if w.UnknownSince.IsZero() {
		w.UnknownSince = now
	}
	return now.Sub(w.UnknownSince) > unknownGrace
}

// kept says that the alert goes on firing although its condition has ended.
func (w *watch) kept(now time.Time) bool {
	if w.settings.keep == 0 || w.Alert.State != StateFiring {
		return false
	}
	if w.ClearSince.IsZero() {
		w.ClearSince = now
	}
	return now.Sub(w.ClearSince) < w.settings.keep
}

// forget drops what resolved too long ago, or fires again.
func (w *watchState) forget(now time.Time) {
	kept := w.Resolved[:0]
	for _, a := range w.Resolved {
		if now.Sub(a.ResolvedAt) <= resolvedKept {
			kept = append(kept, a)
		}
	}
	w.Resolved = kept
}

// severity is the override's, else the verdict's, else the rule's.
func (w *watch) severity(verdicts string) string {
	if verdicts != "" && w.settings.severity == w.rule.Severity {
		return verdicts
	}
	return w.settings.severity
}

// labels identify the alert.
func (w *watch) labels(severity string) map[string]string {
	ls := maps.Clone(w.settings.labels)
	if ls == nil {
		ls = map[string]string{}
	}
	w.subject.Range(func(l labels.Label) {
		if l.Value != "" {
			ls[l.Name] = l.Value
		}
	})
	ls["alertname"], ls["severity"] = w.rule.Name, severity
	return ls
}

// alerts appends what the watch has to tell: the open alert and those that
// resolved lately, unless the same alert is open again.
func (w *watchState) alerts(to []Alert) []Alert {
	open := ""
	if a := w.Alert; a != nil {
		if a.State == StateFiring {
			open = a.Key()
		}
		to = append(to, a.clone())
	}
	for _, a := range w.Resolved {
		if open == "" || a.Key() != open {
			to = append(to, a.clone())
		}
	}
	return to
}

// status says where the detector stands.
func (w *watch) status() DetectorStatus {
	s := DetectorStatus{
		Alert: w.rule.Name, Labels: w.subject.Map(), Phase: w.last.phase, Text: w.last.text,
		Numbers: w.last.numbers, Past: slices.Clone(w.past.bins), Fires: w.rule.Help, For: w.settings.hold,
		KeepFiringFor: w.settings.keep, Severity: w.severity(w.last.severity),
	}
	if share, ok := thresholdShare(w.last.numbers); ok {
		s.Share = &share
	}
	if w.Alert == nil {
		return s
	}
	s.Phase, s.Severity = string(w.Alert.State), w.Alert.Severity
	if summary := w.Alert.Annotations["summary"]; summary != "" {
		s.Text = summary
	}
	return s
}

// clone copies what a receiver might keep.
func (a *Alert) clone() Alert {
	c := *a
	c.Labels, c.Annotations = maps.Clone(a.Labels), maps.Clone(a.Annotations)
	return c
}

// annotations are the texts of an alert.
func annotations(name string, v Verdict, externalURL string) map[string]string {
	e := v.Evidence
	var parts []string
	for _, s := range []string{e.Seen, e.Against, e.CauseText, e.Cost, e.Next} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return map[string]string{
		"summary":       v.Summary,
		"description":   strings.Join(parts, "\n"),
		"runbook_url":   externalURL + "/runbooks/" + name,
		"dashboard_url": externalURL + "/",
	}
}
