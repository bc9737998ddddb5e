package alerting

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kvwatch/rules"
)

// TestWaysAroundAFailingReceiver holds the steps against what the routes say.
func TestWaysAroundAFailingReceiver(t *testing.T) {
	t.Parallel()
	const receivers = `
receivers:
  - {name: nobody}
  - {name: a, terminal_configs: [{}]}
  - {name: heart, heartbeat_configs: [{url: "http://127.0.0.1:9/"}]}
  - {name: b, terminal_configs: [{}]}
  - {name: twice, terminal_configs: [{}, {}]}
`
	for _, tt := range []struct {
		name, route, alertname, failing string
		want                            string // steps, the receivers of each
	}{
		{"another alert goes its way", `{receiver: a}`, "A", "a", "a"},
		{"routes give another", `{receiver: a, routes: [{matchers: [alertname="NotificationsFailing"], receiver: b}]}`, "NotificationsFailing", "a", "b | twice"},
		{"routes give the one that fails", `{receiver: a, routes: [{matchers: [alertname="NotificationsFailing"], receiver: b}]}`, "NotificationsFailing", "b", "a | twice"},
		{"two by the routes, one of which fails", `{receiver: twice, routes: [{matchers: [receiver="a"], receiver: a, continue: true}, {receiver: b}]}`, "NotificationsFailing", "a", "b | twice"},
		{"the root fails", `{receiver: a}`, "NotificationsFailing", "a", "b | twice"},
		{"the root is nobody", `{receiver: nobody}`, "NotificationsFailing", "b", "a | twice"},
		{"its other integration comes last", `{receiver: twice}`, "NotificationsFailing", "twice", "a | b | twice"},
		{"a heart that is not heard", `{receiver: b}`, "NotificationsFailing", "heart", "b | a | twice"},
		{"an Alertmanager", `{receiver: b}`, "NotificationsFailing", pushedTo, "b | a | twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := mustConfig(t, "route: "+tt.route+receivers)
			var steps []string
			for _, step := range c.ways().of(map[string]string{"alertname": tt.alertname, "receiver": tt.failing}) {
				var names []string
				for _, n := range step {
					names = append(names, n.receiver)
				}
				steps = append(steps, strings.Join(names, " "))
			}
			if diff := cmp.Diff(tt.want, strings.Join(steps, " | ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// failing is the alert about a receiver that fails.
func failing(receiver string, at time.Time) rules.Alert {
	return fires(rules.NotificationsFailing, "critical", at, "receiver", receiver, "integration", "webhook/0")
}

// refuses answers every request with an error that may pass.
func refuses(w http.ResponseWriter, _ *http.Request) bool {
	w.WriteHeader(http.StatusBadGateway)
	return false
}

// TestToldAroundAFailingReceiver lets receivers fail one after another, with a
// restart in between: each that hears of the beginning hears of the end.
func TestToldAroundAFailingReceiver(t *testing.T) {
	t.Parallel()
	a, b, c := newHook(t), newHook(t), newHook(t)
	config := fmt.Sprintf(`
route: {receiver: a, group_by: [alertname, receiver], group_wait: 0s, group_interval: 1m, routes: [{matchers: [alertname="Y"], receiver: b}]}
receivers:
  - {name: a, webhook_configs: [{url: %q}]}
  - {name: b, webhook_configs: [{url: %q}]}
  - {name: c, webhook_configs: [{url: %q}]}
`, a.URL, b.URL, c.URL)
	dir := t.TempDir()
	d := open(t, dir, config)
	at := func(offset time.Duration, alerts ...rules.Alert) {
		d.Dispatch(t.Context(), t0.Add(offset), alerts)
		d.Tick(t.Context(), t0.Add(offset))
	}
	x, aFails, bFails := fires("X", "warning", t0), failing("a", t0), failing("b", t0)
	a.behave(refuses)
	at(0, x)
	at(5*time.Minute, x, aFails)
	b.want(t, "the next receiver hears that the first fails", "firing: +NotificationsFailing")
	c.want(t, "the third need not know")

	b.behave(refuses)
	y := fires("Y", "warning", t0)
	at(10*time.Minute, x, y, aFails)
	at(11*time.Minute, x, y, aFails)
	c.want(t, "b does not take Y, so that c is told of a too", "firing: +NotificationsFailing")
	at(15*time.Minute, x, y, aFails, bFails)
	c.want(t, "a fails, so that c is told that b does", "firing: +NotificationsFailing")

	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, config)
	at(17*time.Minute, x, y, aFails, bFails)
	c.want(t, "nothing is new after a restart")
	a.behave(nil)
	b.behave(nil)
	at(20*time.Minute, x, y, ends(aFails, t0.Add(19*time.Minute)), ends(bFails, t0.Add(19*time.Minute)))
	at(22*time.Minute, x, y)
	a.want(t, "a hears what waited for it: the routes give it what is about b", "firing: +X", "resolved: -NotificationsFailing")
	b.want(t, "b hears what waited, and the end of what it was told", "firing: +Y", "resolved: -NotificationsFailing")
	c.want(t, "and c both ends", "resolved: -NotificationsFailing", "resolved: -NotificationsFailing")
}

// TestNobodyElseToTell says once that there is nobody, however long it lasts.
func TestNobodyElseToTell(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	h.behave(refuses)
	var logged lockedBuffer
	d, err := New(Options{Config: mustConfig(t, hookConfig(h)), Logger: logTo(&logged)})
	if err != nil {
		t.Fatal(err)
	}
	said := func() int { return strings.Count(logged.String(), "configure a second receiver") }
	for i := range 20 {
		now := t0.Add(time.Duration(i) * time.Minute)
		d.Dispatch(t.Context(), now, []rules.Alert{failing("hook", t0)})
		d.Tick(t.Context(), now)
	}
	if said() != 1 || h.tried() != 0 {
		t.Errorf("said %d times, tried %d times: %s", said(), h.tried(), logged.String())
	}
	d.Dispatch(t.Context(), t0.Add(time.Hour), []rules.Alert{ends(failing("hook", t0), t0)})
	d.Dispatch(t.Context(), t0.Add(2*time.Hour), []rules.Alert{failing("hook", t0)})
	if said() != 2 {
		t.Errorf("it is not said again of the next time: %d", said())
	}
}

// TestReceiversHealth follows what the rules are told of a receiver.
func TestReceiversHealth(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	d := open(t, "", hookConfig(h))
	at := func(offset time.Duration, alerts ...rules.Alert) {
		d.Dispatch(t.Context(), t0.Add(offset), alerts)
		d.Tick(t.Context(), t0.Add(offset))
	}
	want := func(when string, w rules.ReceiverHealth) {
		t.Helper()
		w.Receiver, w.Integration = "hook", "webhook/0"
		if diff := cmp.Diff([]rules.ReceiverHealth{w}, d.Receivers()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	a, b := fires("A", "warning", t0, "pool", "a"), fires("B", "warning", t0, "pool", "b")
	want("before anything was sent", rules.ReceiverHealth{})
	h.behave(answers(http.StatusBadGateway, http.StatusNotFound, http.StatusNotFound, http.StatusOK))
	at(0, a)
	at(5*time.Second, a)
	want("one failed", rules.ReceiverHealth{
		Tried: true, FailingSince: t0.Add(5 * time.Second), Failures: 1, Waiting: 1, Error: "the server answered 502 Bad Gateway",
	})
	at(time.Minute, a, b)
	want("and was refused; another waits", rules.ReceiverHealth{
		Tried: true, FailingSince: t0.Add(5 * time.Second), Failures: 2, Waiting: 1, Refused: true, Error: "the server answered 404 Not Found",
	})
	at(65*time.Second, a, b)
	want("the other arrived: the first is still not told", rules.ReceiverHealth{
		Tried: true, FailingSince: t0.Add(5 * time.Second), Waiting: 1, Refused: true, Error: "the server answered 404 Not Found",
	})
	at(10*time.Minute, ends(a, t0.Add(9*time.Minute)), b)
	at(11*time.Minute, ends(a, t0.Add(9*time.Minute)), b)
	want("its end arrived", rules.ReceiverHealth{Tried: true})

	quiet := open(t, "", fmt.Sprintf(`receivers: [{name: hook, webhook_configs: [{url: %q, send_resolved: false}]}]`, h.URL))
	h.behave(refuses)
	d = quiet
	at(0, a)
	at(5*time.Second, a)
	at(time.Hour, ends(a, t0.Add(time.Minute)))
	want("an end that is not told shows nothing of the receiver", rules.ReceiverHealth{
		Tried: true, FailingSince: t0.Add(5 * time.Second), Failures: 1, Error: "the server answered 502 Bad Gateway",
	})
	if err := d.Reload(mustConfig(t, hookConfig(h))); err != nil {
		t.Fatal(err)
	}
	want("a reload may be the cure", rules.ReceiverHealth{})
}
