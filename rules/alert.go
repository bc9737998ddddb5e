package rules

import (
	"sort"
	"strings"
	"time"
)

// AlertState is pending, firing or resolved, as in Prometheus and Alertmanager.
type AlertState string

// The alert states.
const (
	StatePending  AlertState = "pending"
	StateFiring   AlertState = "firing"
	StateResolved AlertState = "resolved"
)

// Watchdog is the alert that always fires. It says nothing of the fleet, so that
// it is told only where a route asks for it by name, and is in no list of what
// happened.
const Watchdog = "Watchdog"

// Severities.
const (
	SeverityCritical = "critical"
	SeverityWarning  = "warning"
	SeverityInfo     = "info"
)

// Alert is one alert with everything that its message needs, so that a receiver asks nobody.
type Alert struct {
	// Name is the alert's CamelCase name.
	Name string `json:"alertname"`
	// Severity is critical, warning or info.
	Severity string `json:"severity"`
	// Labels identify the alert; they include alertname and severity, and pool, or job and instance, or all of them (an engine's).
	Labels map[string]string `json:"labels"`
	// Annotations are summary, description, runbook_url and dashboard_url.
	Annotations map[string]string `json:"annotations"`
	Evidence    Evidence          `json:"evidence"`
	State       AlertState        `json:"state"`
	// ActiveAt is when the condition began to hold (D1: the onset).
	ActiveAt time.Time `json:"active_at"`
	// FiredAt is when it went from pending to firing; zero while pending.
	FiredAt time.Time `json:"fired_at"`
	// ResolvedAt is zero unless resolved.
	ResolvedAt time.Time `json:"resolved_at"`
	// Value is the number that the condition judges.
	Value float64 `json:"value"`
}

// Evidence is what an alert says, as structured fields and as text.
type Evidence struct {
	// Seen says what was seen: numbers, window, sample size.
	Seen string `json:"seen"`
	// Against says what it is held against: baseline and threshold.
	Against string `json:"against"`
	// Cause is one of restart, residency, replica, routing, content,
	// routing_or_content, counter_untrusted, unknown; empty where causes are not told.
	Cause string `json:"cause,omitempty"`
	// CauseText says the cause in plain words; RunnersUp the next likely ones.
	CauseText string   `json:"cause_text,omitempty"`
	RunnersUp []string `json:"runners_up,omitempty"`
	// Cost says what it costs: tokens prefilled again, GPU seconds.
	Cost string `json:"cost,omitempty"`
	// Next says what to do next.
	Next string `json:"next"`
	// Confidence says how sure the finding is and why.
	Confidence string `json:"confidence,omitempty"`
	// Events quotes what operators told of around the onset: deploys,
	// maintenance, notes.
	Events []string `json:"events,omitempty"`
	// Numbers holds the same figures for machines.
	Numbers []Number `json:"numbers,omitempty"`
}

// Number is one figure of an alert's evidence.
type Number struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Key identifies the alert among all: its labels in order. Two alerts with the
// same Key are the same alert at different times.
func (a Alert) Key() string {
	names := make([]string, 0, len(a.Labels))
	for n := range a.Labels {
		names = append(names, n)
	}
	sort.Strings(names)
	var b strings.Builder
	for _, n := range names {
		b.WriteString(n)
		b.WriteByte(0xff)
		b.WriteString(a.Labels[n])
		b.WriteByte(0xff)
	}
	return b.String()
}

// DetectorStatus explains a detector now, also when nothing fires.
type DetectorStatus struct {
	Alert  string            `json:"alertname"`
	Labels map[string]string `json:"labels"`
	// Severity is that of its alert, or the one that it would have.
	Severity string `json:"severity"`
	// Phase is learning, watching, pending, firing or unknown.
	Phase string `json:"phase"`
	// Text says in plain words where it stands: "learning, 3 of 6 hours".
	Text    string   `json:"text"`
	Numbers []Number `json:"numbers,omitempty"`
	// Share is the judged number over its threshold, as a ratio; nil where no
	// number is held against a threshold.
	Share *float64 `json:"share,omitempty"`
	// Fires says when the alert fires, For how long that must hold, and
	// KeepFiringFor how long the alert goes on after it does not.
	Fires         string        `json:"fires"`
	For           time.Duration `json:"-"`
	KeepFiringFor time.Duration `json:"-"`
	// Past is how near it came over the last six hours, oldest first; empty
	// where no number is held against a threshold.
	Past []PastShare `json:"past,omitempty"`
}
