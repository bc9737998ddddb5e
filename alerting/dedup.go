package alerting

import (
	"reflect"
	"strings"
	"time"

	"kvwatch/rules"
)

// question is whether an integration must be told about an incident.
type question struct {
	view

	now    time.Time
	known  entry
	traits traits
}

// reason decides it and says why. It is a function of the question alone.
func (q question) reason() Reason {
	firing := statusOf(q.alerts) == rules.StateFiring
	switch {
	case len(q.alerts) == 0:
		return q.hush()
	case !firing && !q.open():
		return ReasonNone
	case !firing:
		return q.end()
	case !q.open(), q.known.Sent == nil:
		return ReasonFirst
	}
	if r := q.compare(); r != ReasonNone {
		return r
	}
	switch {
	case q.known.Intent != nil:
		return ReasonUnfinished
	case q.traits.edits && q.acknowledged != nil && !q.acknowledged.At.Equal(q.known.Sent.Acknowledged):
		return ReasonAcknowledged
	case q.acknowledged == nil && q.repeats():
		return ReasonRepeat
	case q.traits.edits && q.stale():
		return ReasonChanged
	}
	return ReasonNone
}

// hush is the reason when nothing may be told: what can be edited says that a
// silence is the cause, and when what is silenced is over.
func (q question) hush() Reason {
	if !q.traits.edits || !q.open() || q.known.Sent == nil {
		return ReasonNone
	}
	switch firing := statusOf(q.hushed) == rules.StateFiring; {
	case firing && q.silence != nil && q.silence.ID != q.known.Sent.Silence:
		return ReasonSilenced
	case !firing && len(q.hushed) > 0 && q.known.Sent.Silence != "" && q.traits.sendResolved:
		return ReasonChanged
	}
	return ReasonNone
}

// open says that the integration was told, or may have been told, of an
// incident whose end it was not told of.
func (q question) open() bool { return q.known.Tried && !q.known.Over }

// end is the reason when nothing fires any more.
func (q question) end() Reason {
	switch {
	case !q.traits.sendResolved:
		return ReasonNone
	case q.known.Sent == nil:
		return ReasonMissed
	default:
		return ReasonResolved
	}
}

// compare holds the alerts that fire against those that were told.
func (q question) compare() Reason {
	if rank(worst(q.alerts)) > rank(worst(q.known.Sent.Alerts)) {
		return ReasonSeverity
	}
	told := firingKeys(q.known.Sent.Alerts)
	reason := ReasonNone
	for _, a := range q.alerts {
		if a.State == rules.StateFiring && !told[a.Key()] {
			reason = ReasonNewAlerts
		}
	}
	if reason != ReasonNone || !q.traits.sendResolved {
		return reason
	}
	for _, a := range q.alerts {
		// One that was told and is not there is muted: nothing to tell.
		if a.State == rules.StateResolved && told[a.Key()] {
			return ReasonSomeResolved
		}
	}
	return ReasonNone
}

// repeats says that the repeat interval is over. One that lies further ahead than
// it is long is the mark of a clock that was set back.
func (q question) repeats() bool {
	return q.now.Sub(q.known.Sent.NotifiedAt).Abs() >= q.node.repeatInterval
}

// stale says that what can be edited shows old numbers, or an old duration.
func (q question) stale() bool {
	return q.now.Sub(q.known.Sent.At).Abs() >= q.node.groupInterval/2 || q.known.Sent.Silence != "" || !reflect.DeepEqual(texts(q.alerts), texts(q.known.Sent.Alerts))
}

// texts is what a message shows of alerts.
func texts(alerts []rules.Alert) []any {
	out := make([]any, 0, 4*len(alerts))
	for _, a := range alerts {
		e := a.Evidence
		out = append(out, a.Key(), a.State, a.Annotations, [...]string{e.Seen, e.Against, e.CauseText, e.Cost, e.Next, e.Confidence, strings.Join(e.Events, "; ")})
	}
	return out
}

func firingKeys(alerts []rules.Alert) map[string]bool {
	out := map[string]bool{}
	for _, a := range alerts {
		if a.State == rules.StateFiring {
			out[a.Key()] = true
		}
	}
	return out
}
