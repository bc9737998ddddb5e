package alerting

import (
	"time"

	"kvwatch/rules"
)

// Reason says why a notification goes out. The set is small and closed.
type Reason string

// The reasons.
const (
	// ReasonNone means that there is nothing to tell.
	ReasonNone Reason = ""
	// ReasonFirst is the first word of an incident.
	ReasonFirst Reason = "first"
	// ReasonSeverity means that the worst severity rose.
	ReasonSeverity Reason = "severity_rise"
	// ReasonNewAlerts means that alerts joined the incident.
	ReasonNewAlerts Reason = "new_alerts"
	// ReasonSomeResolved means that some of its alerts resolved, not all.
	ReasonSomeResolved Reason = "some_resolved"
	// ReasonResolved is the end of an incident.
	ReasonResolved Reason = "resolved"
	// ReasonMissed is the end of an incident of which nobody could be told while it lasted.
	ReasonMissed Reason = "missed"
	// ReasonRepeat means that the repeat interval is over and it still fires.
	ReasonRepeat Reason = "repeat"
	// ReasonUnfinished means that the daemon ended in the middle of a request.
	ReasonUnfinished Reason = "unfinished"
	// ReasonChanged means that only numbers or texts changed; only receivers
	// that can edit what they sent hear of it.
	ReasonChanged Reason = "changed"
	// ReasonAcknowledged and ReasonSilenced mean that somebody acknowledged the
	// incident, or that a silence covers all of it; only receivers that can edit
	// what they sent hear of it.
	ReasonAcknowledged Reason = "acknowledged"
	ReasonSilenced     Reason = "silenced"
)

// quiet says that nobody's attention is asked for.
func (r Reason) quiet() bool {
	return r == ReasonChanged || r == ReasonAcknowledged || r == ReasonSilenced
}

// Notification is what one receiver is told about one incident.
type Notification struct {
	// Receiver is the name of the receiver in the configuration.
	Receiver string
	// GroupKey names the incident: its route and the labels it is grouped by.
	GroupKey string
	// GroupLabels are the labels that all alerts of the incident share by grouping.
	GroupLabels map[string]string
	// Reason says why this notification goes out.
	Reason Reason
	// Sequence counts what the receiver took of this incident before; it stays
	// the same when a notification is tried again.
	Sequence int
	// Told holds the keys of the alerts that the receiver was told of as firing.
	Told map[string]bool
	// Alerts are firing or resolved: firing first, the worst first, the oldest
	// first among equals.
	Alerts []rules.Alert
	// Now is the time of this notification.
	Now time.Time
	// ExternalURL is the address of the page; empty when it is not known.
	ExternalURL string
	// Acknowledged says who has taken the incident on; nil for nobody.
	Acknowledged *Acknowledgement
	// Silenced is the silence that covers all that fires; nil for none.
	Silenced *Silence
	// Memory is what the receiver noted earlier in this incident.
	Memory Memory
}

// Memory keeps what a receiver must know for the rest of an incident, such as
// the message that it edits. It is as durable as the notification log.
type Memory interface {
	// Get returns what was set under key, "" if nothing.
	Get(key string) string
	// Set keeps value under key. It is on disk when Set returns.
	Set(key, value string)
}

// Status is firing while any alert of the incident is.
func (n Notification) Status() rules.AlertState { return statusOf(n.Alerts) }

func statusOf(alerts []rules.Alert) rules.AlertState {
	for _, a := range alerts {
		if a.State == rules.StateFiring {
			return rules.StateFiring
		}
	}
	return rules.StateResolved
}
