package alerting

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"kvwatch/rules"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		failures int
		jitter   float64
		want     time.Duration
	}{
		{1, 0, time.Second},
		{2, 0, 2 * time.Second},
		{2, 0.5, 1500 * time.Millisecond},
		{6, 0, 32 * time.Second},
		{7, 0, time.Minute},
		{1 << 40, 0, time.Minute},
		{1000, 0.999, time.Minute - time.Duration(0.999*float64(30*time.Second))},
	} {
		if got := backoff(tt.failures, tt.jitter); got != tt.want {
			t.Errorf("backoff(%d, %v) = %s, want %s", tt.failures, tt.jitter, got, tt.want)
		}
	}
}

// TestMisbehaving puts a receiver that fails beside one that works.
func TestMisbehaving(t *testing.T) {
	t.Parallel()
	refuse := func(code int, after string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(code)
			return false
		}
	}
	for _, tt := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request) bool
		want   string
		again  time.Duration // 0: only at the next flush
	}{
		{"429 with seconds", refuse(429, "40"), "the server answered 429 Too Many Requests; it asks to wait 40s", 40 * time.Second},
		{"429 with a date", refuse(429, t0.Add(35*time.Second).Format(http.TimeFormat)), "the server answered 429 Too Many Requests; it asks to wait 30s", 30 * time.Second},
		{"429 that asks for a year", refuse(429, "31536000"), "the server answered 429 Too Many Requests; it asks to wait 8760h0m0s", time.Hour},
		{"429 with nonsense", refuse(429, "soon"), "the server answered 429 Too Many Requests", time.Second},
		{"503", refuse(503, "3"), "the server answered 503 Service Unavailable; it asks to wait 3s", 3 * time.Second},
		{"500", refuse(500, ""), "the server answered 500 Internal Server Error", time.Second},
		{"408", refuse(408, ""), "the server answered 408 Request Timeout", time.Second},
		{"404", refuse(404, ""), "the server answered 404 Not Found", 0},
		{"401", refuse(401, ""), "the server answered 401 Unauthorized", 0},
		{"hangs", func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return false }, "no answer in time: context deadline exceeded", time.Second},
		{"resets", func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, "the request failed: EOF", time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bad, good := newHook(t), newHook(t)
			bad.behave(tt.answer)
			d := open(t, t.TempDir(), fmt.Sprintf(`
route: {receiver: both, group_by: [pool], group_interval: 2h}
receivers: [{name: both, webhook_configs: [{url: %q, timeout: 1s}, {url: %q}]}]
`, bad.URL, good.URL))
			start := t0.Add(5 * time.Second)
			d.Dispatch(t.Context(), t0, []rules.Alert{fires("A", "warning", t0, "pool", "chat")})
			d.Tick(t.Context(), start)
			good.want(t, "the other is told", "firing: +A")
			if got := d.Incidents()[0].Deliveries[0].Error; got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
			bad.behave(nil)
			again := tt.again
			if again == 0 {
				again = 2 * time.Hour
			}
			d.Tick(t.Context(), start.Add(again-time.Millisecond))
			bad.want(t, "too early")
			d.Tick(t.Context(), start.Add(again))
			bad.want(t, "again", "firing: +A")
			good.want(t, "the other is not told twice")
			if got := d.Incidents()[0].Deliveries[0]; got.Outcome != outcomeSuccess || got.Error != "" {
				t.Errorf("afterwards %+v", got)
			}
		})
	}
}

// TestDownForAnHour keeps one place in the queue for each incident, tries no
// more than once a minute, and tells the newest state when the receiver is back.
func TestDownForAnHour(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	d := open(t, t.TempDir(), hookConfig(h))
	h.behave(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return false })
	stays := fires("Stays", "warning", t0, "pool", "stays")
	now := t0
	for ; now.Before(t0.Add(time.Hour)); now = now.Add(15 * time.Second) {
		stays.Evidence.Seen = "as of " + now.Format(time.TimeOnly)
		passes := fires("Passes", "critical", t0, "pool", "passes")
		if now.After(t0.Add(10 * time.Minute)) {
			passes = ends(passes, t0.Add(10*time.Minute))
		}
		d.Dispatch(t.Context(), now, []rules.Alert{stays, passes})
		d.Tick(t.Context(), now)
	}
	if got := h.tried(); got < 50 || got > 80 {
		t.Errorf("%d tries in an hour", got)
	}
	for _, s := range d.senders {
		if len(s.queue) > 2 {
			t.Errorf("%d in the queue", len(s.queue))
		}
	}
	h.behave(nil)
	d.Tick(t.Context(), now.Add(time.Minute))
	got := h.take()
	if len(got) != 2 || !strings.Contains(strings.Join(got, ";"), "resolved: -Passes") || !strings.Contains(strings.Join(got, ";"), "firing: +Stays") {
		t.Errorf("afterwards %q", got)
	}
}

func TestEndIsGivenUpAfterADay(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	var logged lockedBuffer
	d, err := New(Options{Config: mustConfig(t, hookConfig(h)), Logger: logTo(&logged)})
	if err != nil {
		t.Fatal(err)
	}
	a := fires("A", "warning", t0, "pool", "chat")
	first(a)(t, d, h)
	h.behave(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusNotFound); return false })
	for offset := time.Minute; offset < 26*time.Hour; offset += 10 * time.Minute {
		d.Dispatch(t.Context(), t0.Add(offset), []rules.Alert{ends(a, t0.Add(time.Minute))})
		d.Tick(t.Context(), t0.Add(offset))
	}
	if len(d.groups) != 0 {
		t.Error("the incident is kept for ever")
	}
	if !strings.Contains(logged.String(), "given up") {
		t.Error("nobody is told that it was given up")
	}
}

// panics is a receiver with a mistake.
type panics struct{}

func (panics) Notify(context.Context, Notification) (bool, error) { panic("a mistake") }

func TestReceiverThatPanics(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	d := open(t, "", hookConfig(h))
	for _, s := range d.senders {
		s.replace(panics{}, traits{})
	}
	first(fires("A", "warning", t0, "pool", "chat"))(t, d, h)
	if got := d.Incidents()[0].Deliveries[0]; got.Outcome != outcomeFailed || !strings.Contains(got.Error, "a mistake") {
		t.Errorf("got %+v", got)
	}
}
