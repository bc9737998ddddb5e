package alerting

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"kvwatch/rules"
)

// TestAlert is the name of the alert that SendTest sends. No rule has it.
const TestAlert = "KvwatchTest"

// Attempt is how a test message fared at one integration of a receiver.
type Attempt struct {
	// Integration is receiver/kind/index.
	Integration string
	// Sent is how many messages went through.
	Sent int
	// Err is why the last one did not; nil when all did.
	Err error
}

// SendTest sends a message that says that it is a test to each integration of
// the receiver, and then its end to those that are told of ends. It goes by no
// route, nothing mutes it and nothing of it is kept.
func (c Config) SendTest(ctx context.Context, receiver, externalURL string, stdout io.Writer, now time.Time) ([]Attempt, error) {
	rc, err := c.receiver(receiver)
	if err != nil {
		return nil, err
	}
	d := &Dispatcher{env: environment{stdout: stdout, logger: slog.New(slog.DiscardHandler)}}
	parts, err := d.build(Config{Receivers: []ReceiverConfig{rc}})
	if err != nil {
		return nil, err
	}
	out := make([]Attempt, 0, len(parts))
	for _, p := range parts {
		out = append(out, p.try(ctx, externalURL, now))
	}
	return out, nil
}

// Integrations returns the places that a receiver tells, as receiver/kind/index.
func (c Config) Integrations(receiver string) ([]string, error) {
	rc, err := c.receiver(receiver)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(rc.integrations))
	for _, ic := range rc.integrations {
		out = append(out, ic.id(receiver))
	}
	return out, nil
}

// receiver finds a receiver that tells somebody.
func (c Config) receiver(name string) (ReceiverConfig, error) {
	names := make([]string, 0, len(c.Receivers))
	for _, rc := range c.Receivers {
		switch {
		case rc.Name == name && len(rc.integrations) == 0:
			return rc, fmt.Errorf("receiver %q has no integration: it tells nobody", name)
		case rc.Name == name:
			return rc, nil
		}
		names = append(names, rc.Name)
	}
	return ReceiverConfig{}, fmt.Errorf("there is no receiver %q: there are %s", name, cmp.Or(strings.Join(names, ", "), "none"))
}

// try sends the test messages to one integration.
func (p part) try(ctx context.Context, externalURL string, now time.Time) Attempt {
	out := Attempt{Integration: p.id}
	a := testAlert(p.receiver, now)
	n := Notification{
		Receiver: p.receiver, GroupKey: fmt.Sprintf("{}:{test=%q}", now.UTC().Format(time.RFC3339Nano)), GroupLabels: map[string]string{"alertname": TestAlert},
		Reason: ReasonFirst, Alerts: []rules.Alert{a}, Now: now, ExternalURL: externalURL, Memory: notes{},
	}
	messages := []Notification{n}
	if p.traits.sendResolved {
		a.State, a.ResolvedAt = rules.StateResolved, now
		n.Reason, n.Sequence, n.Told, n.Alerts = ReasonResolved, 1, map[string]bool{a.Key(): true}, []rules.Alert{a}
		messages = append(messages, n)
	}
	for _, m := range messages {
		bounded, cancel := context.WithTimeout(ctx, attemptTimeout)
		_, out.Err = p.built.Notify(bounded, m)
		cancel()
		if out.Err != nil {
			return out
		}
		out.Sent++
	}
	return out
}

// testAlert says that it is a test.
func testAlert(receiver string, now time.Time) rules.Alert {
	return rules.Alert{
		Name: TestAlert, Severity: rules.SeverityInfo, State: rules.StateFiring, ActiveAt: now, FiredAt: now,
		Labels:      map[string]string{"alertname": TestAlert, "severity": rules.SeverityInfo, "receiver": receiver},
		Annotations: map[string]string{"summary": fmt.Sprintf("This is a test of kvwatch's receiver %s: nothing is wrong", receiver)},
		Evidence: rules.Evidence{
			Seen: "Somebody ran kvwatch check receiver --send.",
			Next: "Nothing. If you can read this, alerts reach you by this way.",
		},
	}
}

// notes is a memory that nothing outlives.
type notes map[string]string

// Get returns what was set under key, "" if nothing.
func (n notes) Get(key string) string { return n[key] }

// Set keeps value under key.
func (n notes) Set(key, value string) { n[key] = value }
