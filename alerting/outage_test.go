package alerting

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kvwatch/rules"
)

// TestOutageIsToldElsewhere takes a receiver away for an hour while 200 incidents
// begin and half of them end, with the rules that the daemon has: the other
// receiver hears of it once and of its end once, what waits is one place for each
// incident, and everything is told once, as it is, when the receiver is back.
func TestOutageIsToldElsewhere(t *testing.T) {
	t.Parallel()
	ops, backup := newHook(t), newHook(t)
	d := open(t, t.TempDir(), fmt.Sprintf(`
route: {receiver: ops, group_by: [alertname, pool], group_wait: 5s, group_interval: 1m, repeat_interval: 4h}
receivers:
  - {name: ops, webhook_configs: [{url: %q}]}
  - {name: backup, webhook_configs: [{url: %q}]}
`, ops.URL, backup.URL))
	var fleet []rules.Alert
	engine, err := rules.New(rules.Options{Dispatch: func(ctx context.Context, now time.Time, alerts []rules.Alert) {
		d.Dispatch(ctx, now, append(alerts, fleet...))
	}})
	if err != nil {
		t.Fatal(err)
	}
	now := t0
	tick := func() {
		t.Helper()
		now = now.Add(15 * time.Second)
		engine.SetReceivers(d.Receivers())
		if err := engine.Eval(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		d.Tick(t.Context(), now)
	}
	fleet = append(fleet, fires("First", "warning", now, "pool", "p"))
	tick()
	tick()
	ops.want(t, "before the outage", "firing: +First")

	ops.behave(refuses)
	down := now
	heard := time.Duration(0)
	for i := 0; now.Before(down.Add(time.Hour)); i++ {
		if i < 200 {
			fleet = append(fleet, fires("Storm", "warning", now, "pool", fmt.Sprintf("p%03d", i)))
		}
		if i >= 40 && i%2 == 0 && i/2 < 100 {
			fleet[i/2+1] = ends(fleet[i/2+1], now)
		}
		tick()
		for id, s := range d.senders {
			if st := s.status(); len(s.queue) > len(d.groups) || st.Waiting > len(d.groups) {
				t.Fatalf("%s: %d in the queue, %d wait for %d incidents", id, len(s.queue), st.Waiting, len(d.groups))
			}
		}
		if got := backup.take(); got != nil {
			if diff := cmp.Diff([]string{"firing: +NotificationsFailing"}, got); diff != "" || heard > 0 {
				t.Fatalf("the other receiver after %s: %s", now.Sub(down), diff)
			}
			heard = now.Sub(down)
		}
	}
	if heard < 5*time.Minute || heard > 8*time.Minute {
		t.Errorf("the other receiver heard of it after %s", heard)
	}
	if got := ops.tried(); got > 100 {
		t.Errorf("%d tries in an hour", got)
	}

	ops.behave(nil)
	for range 5 * 60 / 15 {
		tick()
	}
	told := map[string]int{}
	for _, text := range ops.take() {
		told[text]++
	}
	ended := 0
	for _, a := range fleet {
		if a.State == rules.StateResolved {
			ended++
		}
	}
	if diff := cmp.Diff(map[string]int{"firing: +Storm": 200 - ended, "resolved: -Storm": ended}, told); diff != "" {
		t.Errorf("when it is back (-want +got):\n%s", diff)
	}
	backup.want(t, "its end", "resolved: -NotificationsFailing")
	for _, s := range d.Receivers() {
		if s.Waiting != 0 || !s.FailingSince.IsZero() {
			t.Errorf("afterwards %+v", s)
		}
	}
}
