package rules

import (
	"fmt"
	"time"
)

// NotificationsFailing is the alert about a receiver that cannot be told. It goes
// to another one.
const NotificationsFailing = "NotificationsFailing"

func init() {
	alert(Alerting{
		Name:     NotificationsFailing,
		Help:     "Requests to a receiver fail, or an Alertmanager takes no alerts: what kvwatch has to tell does not arrive there. It is told to another receiver than the one that fails.",
		Severity: SeverityCritical, For: 5 * time.Minute,
		Receiver: func(s *settings) detector[ReceiverWindow] { return notificationsFailing{s} },
	})
}

type notificationsFailing struct{ *settings }

// Judge implements detector.
func (d notificationsFailing) Judge(w ReceiverWindow, _ time.Time) Verdict {
	h := w.health
	name := h.Integration + " of receiver " + h.Receiver
	switch {
	case !h.Tried:
		return unknown("nothing was sent to " + name + " since kvwatch started or took its configuration")
	case h.FailingSince.IsZero():
		return Verdict{
			Phase: PhaseWatching, Text: name + " takes what it is sent",
			Over: fmt.Sprintf("Receiver %s is told again: %s takes what it is sent", h.Receiver, h.Integration),
		}
	}
	failing := max(w.now.Sub(h.FailingSince), 0)
	v := Verdict{
		Active: true, Since: h.FailingSince, Phase: PhaseWatching, Value: failing.Seconds(),
		Text:    fmt.Sprintf("%s has failed for %s", name, spell(failing)),
		Summary: fmt.Sprintf("Receiver %s cannot be told: requests to %s have failed for %s", h.Receiver, h.Integration, spell(failing)),
		Numbers: []Number{
			{Name: "failing_seconds", Value: failing.Seconds(), Unit: "seconds"},
			{Name: "requests_failed", Value: float64(h.Failures), Unit: "requests"},
			{Name: "incidents_waiting", Value: float64(h.Waiting), Unit: "incidents"},
		},
	}
	v.Evidence = Evidence{
		Seen:       fmt.Sprintf("%s to %s failed in a row. The last error: %s.", plural(h.Failures, "request"), name, h.Error),
		Against:    fmt.Sprintf("Fires when something that it has to be told cannot be told for %s.", spell(d.hold)),
		CauseText:  h.cause(),
		Cost:       h.cost(),
		Next:       fmt.Sprintf("Mend what the error names; `kvwatch check receiver %s --send` tries it. Until then watch the page: this receiver's people hear nothing.", h.Receiver),
		Confidence: "high: kvwatch's own requests", Numbers: v.Numbers,
	}
	return v
}

// cause says what such an error is likely to mean.
func (h ReceiverHealth) cause() string {
	if h.Refused {
		return "It answers and refuses: a key that was revoked, an address or a channel that is not there, or a message that it does not take."
	}
	return "It does not answer, or asks to be left alone for a while: an outage there, or the network, a name server or a proxy between it and kvwatch."
}

// cost says what waits.
func (h ReceiverHealth) cost() string {
	if h.Waiting == 0 {
		return "Nothing waits for it now; the next message shows whether it is mended."
	}
	return fmt.Sprintf("%s not told to it; each is told once, in its newest state, as soon as it takes them.", plural(h.Waiting, "incident"))
}
