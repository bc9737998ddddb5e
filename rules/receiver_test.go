package rules

import (
	"strings"
	"testing"
	"time"
)

// TestNotificationsFailing follows two receivers, one of which fails, through a
// restart and to the end.
func TestNotificationsFailing(t *testing.T) {
	t.Parallel()
	state := t.TempDir() + "/rules.json"
	e, err := New(Options{StateFile: state, Rules: map[string]Override{Watchdog: {Disabled: true}}})
	if err != nil {
		t.Fatal(err)
	}
	now := testStart
	ops := ReceiverHealth{Receiver: "ops", Integration: "slack/0"}
	mail := ReceiverHealth{Receiver: "ops", Integration: "email/0", Tried: true}
	run := func(d time.Duration) {
		t.Helper()
		for end := now.Add(d); now.Before(end); {
			now = now.Add(15 * time.Second)
			e.SetReceivers([]ReceiverHealth{ops, mail})
			if err := e.Eval(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
	}
	firing := func() *Alert {
		t.Helper()
		var out *Alert
		for _, a := range e.Alerts() {
			if a.State != StateFiring {
				continue
			}
			if out != nil {
				t.Fatalf("two alerts fire: %s, %s", a.Annotations["summary"], out.Annotations["summary"])
			}
			out = &a
		}
		return out
	}
	run(10 * time.Minute)
	if a := firing(); a != nil {
		t.Errorf("nothing was sent yet: %s", a.Annotations["summary"])
	}
	ops.Tried, ops.FailingSince, ops.Failures, ops.Waiting, ops.Refused, ops.Error = true, now, 3, 2, true, "channel_not_found"
	run(5 * time.Minute)
	if a := firing(); a != nil {
		t.Errorf("it fires before five minutes: %s", a.Annotations["summary"])
	}
	run(15 * time.Second)
	a := firing()
	if a == nil {
		t.Fatal("it does not fire")
	}
	checkEvidence(t, *a)
	if a.Labels["receiver"] != "ops" || a.Labels["integration"] != "slack/0" || a.Severity != SeverityCritical {
		t.Errorf("labels %v", a.Labels)
	}
	for _, want := range []string{"channel_not_found", "3 requests", "2 incidents not told", "answers and refuses", "check receiver ops --send"} {
		if !strings.Contains(a.Annotations["description"], want) {
			t.Errorf("it does not say %q: %s", want, a.Annotations["description"])
		}
	}

	if err := e.Save(); err != nil {
		t.Fatal(err)
	}
	if e, err = New(Options{StateFile: state, Rules: map[string]Override{Watchdog: {Disabled: true}}}); err != nil {
		t.Fatal(err)
	}
	before := ops
	ops = ReceiverHealth{Receiver: "ops", Integration: "slack/0"}
	run(time.Minute)
	if firing() == nil {
		t.Error("that nothing was sent since a restart ends it")
	}
	ops = before
	run(time.Minute)
	if b := firing(); b == nil || !b.FiredAt.Equal(a.FiredAt) {
		t.Errorf("it is another alert after the restart: %+v", b)
	}
	ops = ReceiverHealth{Receiver: "ops", Integration: "slack/0", Tried: true}
	run(15 * time.Second)
	if firing() != nil {
		t.Error("it does not end when requests arrive")
	}
	if all := e.Alerts(); len(all) != 1 || !strings.Contains(all[0].Annotations["summary"], "Receiver ops is told again") {
		t.Errorf("at the end: %+v", all)
	}
}

// TestReceiverGone ends the alert about a receiver that the configuration has no
// more.
func TestReceiverGone(t *testing.T) {
	t.Parallel()
	e, err := New(Options{Rules: map[string]Override{Watchdog: {Disabled: true}}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		now := testStart.Add(time.Duration(i) * 15 * time.Second)
		var all []ReceiverHealth
		if i < 30 {
			all = []ReceiverHealth{{Receiver: "ops", Integration: "slack/0", Tried: true, FailingSince: testStart, Error: "gone", Failures: 1}}
		}
		e.SetReceivers(all)
		if err := e.Eval(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if i == 29 && e.Alerts()[0].State != StateFiring {
			t.Error("it does not fire")
		}
	}
	if all := e.Alerts(); len(all) != 1 || all[0].State != StateResolved || !strings.Contains(all[0].Annotations["summary"], "no more") {
		t.Errorf("at the end: %+v", all)
	}
}
