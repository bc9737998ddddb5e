package alerting

import (
	"testing"
	"time"

	"kvwatch/rules"
)

func TestReason(t *testing.T) {
	t.Parallel()
	a, b := fires("A", "warning", t0), fires("B", "critical", t0)
	aEnds, bEnds := ends(a, t0), ends(b, t0)
	list := func(alerts ...rules.Alert) []rules.Alert { return alerts }
	sent := func(ago time.Duration, alerts ...rules.Alert) *delivered {
		return &delivered{At: t0.Add(-ago), NotifiedAt: t0.Add(-ago), Alerts: alerts}
	}
	changed := a
	changed.Evidence.Seen = "other numbers"
	for _, tt := range []struct {
		name   string
		alerts []rules.Alert
		known  entry
		traits traits
		want   Reason
	}{
		{"never told, fires", list(a), entry{}, traits{sendResolved: true}, ReasonFirst},
		{"never told, resolved", list(aEnds), entry{}, traits{sendResolved: true}, ReasonNone},
		{"tried, fires", list(a), entry{Tried: true}, traits{sendResolved: true}, ReasonFirst},
		{"tried, resolved", list(aEnds), entry{Tried: true}, traits{sendResolved: true}, ReasonMissed},
		{"tried, resolved, unwanted", list(aEnds), entry{Tried: true}, traits{}, ReasonNone},
		{"told, the same", list(a), entry{Tried: true, Sent: sent(time.Minute, a)}, traits{sendResolved: true}, ReasonNone},
		{"told, one more, worse", list(a, b), entry{Tried: true, Sent: sent(time.Minute, a)}, traits{}, ReasonSeverity},
		{"told, one more, not worse", list(b, a), entry{Tried: true, Sent: sent(time.Minute, b)}, traits{}, ReasonNewAlerts},
		{"told, one less", list(a, bEnds), entry{Tried: true, Sent: sent(time.Minute, a, b)}, traits{sendResolved: true}, ReasonSomeResolved},
		{"told, one less, unwanted", list(a, bEnds), entry{Tried: true, Sent: sent(time.Minute, a, b)}, traits{}, ReasonNone},
		{"told, over", list(aEnds), entry{Tried: true, Sent: sent(time.Minute, a)}, traits{sendResolved: true}, ReasonResolved},
		{"told, long ago", list(a), entry{Tried: true, Sent: sent(4*time.Hour, a)}, traits{}, ReasonRepeat},
		{"told, not so long ago", list(a), entry{Tried: true, Sent: sent(4*time.Hour-1, a)}, traits{}, ReasonNone},
		{"told of the end", list(aEnds), entry{Tried: true, Over: true, Sent: sent(time.Minute, aEnds)}, traits{sendResolved: true}, ReasonNone},
		{"told of the end, fires again", list(a), entry{Tried: true, Over: true, Sent: sent(time.Minute, aEnds)}, traits{sendResolved: true}, ReasonFirst},
		{"other numbers, cannot edit", list(changed), entry{Tried: true, Sent: sent(time.Minute, a)}, traits{}, ReasonNone},
		{"other numbers, can edit", list(changed), entry{Tried: true, Sent: sent(time.Minute, a)}, traits{edits: true}, ReasonChanged},
		{"the same numbers, just edited", list(a), entry{Tried: true, Sent: sent(time.Minute, a)}, traits{edits: true}, ReasonNone},
		{"the same numbers, old duration", list(a), entry{Tried: true, Sent: sent(5*time.Minute, a)}, traits{edits: true}, ReasonChanged},
		{"ended inside a request", list(a), entry{Tried: true, Sent: sent(time.Minute, a), Intent: sent(0, a, b)}, traits{}, ReasonUnfinished},
	} {
		q := question{now: t0, view: view{alerts: tt.alerts, node: newTree(&Route{Receiver: "x"})}, known: tt.known, traits: tt.traits}
		if got := q.reason(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
