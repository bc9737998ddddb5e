package alerting

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	yaml "go.yaml.in/yaml/v3"

	"kvwatch/rules"
)

// t0 is when every test begins.
var t0 = time.Date(2026, 3, 2, 14, 0, 0, 0, time.UTC)

// parseConfig decodes as the daemon does: strictly.
func parseConfig(text string) (Config, error) {
	var c Config
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil {
		return Config{}, err
	}
	return c, c.Check()
}

func mustConfig(t testing.TB, text string) Config {
	t.Helper()
	c, err := parseConfig(text)
	if err != nil {
		t.Fatalf("config: %v\n%s", err, text)
	}
	return c
}

// open makes a dispatcher that closes with the test.
func open(t testing.TB, dir, text string) *Dispatcher {
	t.Helper()
	d, err := New(Options{Config: mustConfig(t, text), Dir: dir, ExternalURL: "http://kvwatch:14600", Jitter: func() float64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// fires is an alert that began a minute before it fired at the given time.
func fires(name, severity string, at time.Time, lbls ...string) rules.Alert {
	a := rules.Alert{
		Name: name, Severity: severity, State: rules.StateFiring,
		Labels:      map[string]string{"alertname": name, "severity": severity},
		Annotations: map[string]string{"summary": name + " summary"},
		ActiveAt:    at.Add(-time.Minute), FiredAt: at,
	}
	for i := 0; i+1 < len(lbls); i += 2 {
		a.Labels[lbls[i]] = lbls[i+1]
	}
	return a
}

// ends is the alert when it has resolved.
func ends(a rules.Alert, at time.Time) rules.Alert {
	a.State, a.ResolvedAt = rules.StateResolved, at
	return a
}

// hook is a webhook server that keeps what it took and can be told to misbehave.
type hook struct {
	*httptest.Server

	mu     sync.Mutex
	got    []webhookPayload
	tries  int
	answer func(w http.ResponseWriter, r *http.Request) (taken bool)
	came   chan struct{}
}

func newHook(t testing.TB) *hook {
	h := &hook{came: make(chan struct{}, 1000)}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h.mu.Lock()
	h.tries++
	answer := h.answer
	h.mu.Unlock()
	if answer != nil && !answer(w, r) {
		return
	}
	var p webhookPayload
	if err := json.Unmarshal(body, &p); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.got = append(h.got, p)
	h.mu.Unlock()
	h.came <- struct{}{}
}

func (h *hook) behave(answer func(w http.ResponseWriter, r *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

// take returns what came since the last call, one line each: status and, for
// each alert, its name with + for firing and - for resolved.
func (h *hook) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, p := range h.got {
		text := string(p.Status) + ":"
		for _, a := range p.Alerts {
			sign := "+"
			if a.Status == rules.StateResolved {
				sign = "-"
			}
			text += " " + sign + a.Labels["alertname"]
		}
		out = append(out, text)
	}
	h.got = nil
	return out
}

func (h *hook) tried() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tries
}

// want compares what a hook took since the last look.
func (h *hook) want(t *testing.T, when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, h.take()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func hookConfig(h *hook) string {
	return fmt.Sprintf(`
route: {receiver: hook, group_by: [pool], group_wait: 5s, group_interval: 1m, repeat_interval: 1h}
receivers: [{name: hook, webhook_configs: [{url: %q}]}]
`, h.URL)
}

func TestLifeOfAnIncident(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	d := open(t, t.TempDir(), hookConfig(h))
	a, b := fires("A", "warning", t0, "pool", "chat"), fires("B", "critical", t0, "pool", "chat")
	other := fires("C", "info", t0, "pool", "agents")
	at := func(offset time.Duration, alerts ...rules.Alert) {
		d.Dispatch(t.Context(), t0.Add(offset), alerts)
		d.Tick(t.Context(), t0.Add(offset))
	}

	at(0, a)
	h.want(t, "group_wait is not over")
	at(4 * time.Second)
	h.want(t, "still not")
	at(5*time.Second, a)
	h.want(t, "after group_wait", "firing: +A")
	at(6*time.Second, a, other)
	at(11*time.Second, a, other)
	h.want(t, "another pool is another incident", "firing: +C")
	at(20*time.Second, a, b)
	h.want(t, "group_interval is not over")
	at(65*time.Second, a, b)
	h.want(t, "the second alert after group_interval", "firing: +B +A")
	at(125*time.Second, ends(a, t0.Add(100*time.Second)), b)
	h.want(t, "one of two resolved", "firing: +B -A")
	at(185*time.Second, ends(a, t0.Add(100*time.Second)), b)
	at(245*time.Second, b)
	h.want(t, "nothing new")
	at(125*time.Second+time.Hour, b)
	h.want(t, "one repeated; one that was missing meanwhile has ended", "resolved: -C", "firing: +B")
	at(200*time.Second+time.Hour, ends(b, t0.Add(time.Hour)), ends(other, t0.Add(time.Hour)))
	h.want(t, "both are over", "resolved: -B")
	at(2*time.Hour, ends(b, t0.Add(time.Hour)))
	h.want(t, "nothing after the end")
	if n := len(d.groups); n != 0 {
		t.Errorf("%d groups are left", n)
	}
	at(3*time.Hour, fires("A", "warning", t0.Add(3*time.Hour), "pool", "chat"))
	at(3*time.Hour+5*time.Second, fires("A", "warning", t0.Add(3*time.Hour), "pool", "chat"))
	h.want(t, "a new incident", "firing: +A")
}

func TestNotToldOf(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	d := open(t, "", hookConfig(h))
	a := fires("A", "warning", t0, "pool", "chat")
	pending := a
	pending.State = rules.StatePending
	for offset, alert := range map[time.Duration]rules.Alert{
		0:           pending,
		time.Minute: ends(a, t0),
	} {
		d.Dispatch(t.Context(), t0.Add(offset), []rules.Alert{alert})
		d.Tick(t.Context(), t0.Add(offset+30*time.Minute))
	}
	h.want(t, "pending, or resolved before anybody knew")
	d.Dispatch(t.Context(), t0, []rules.Alert{a})
	d.Dispatch(t.Context(), t0.Add(3*time.Second), []rules.Alert{ends(a, t0.Add(3*time.Second))})
	d.Tick(t.Context(), t0.Add(time.Minute))
	h.want(t, "over before group_wait was")
	if len(d.groups) != 0 {
		t.Error("the group is left")
	}
}

func TestMissingAlertResolvesOnlyWhileTheRulesSpeak(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	d := open(t, "", hookConfig(h))
	a := fires("A", "warning", t0, "pool", "chat")
	d.Dispatch(t.Context(), t0, []rules.Alert{a})
	d.Tick(t.Context(), t0.Add(5*time.Second))
	h.want(t, "told", "firing: +A")
	d.Tick(t.Context(), t0.Add(30*time.Minute))
	h.want(t, "the rules are silent: nothing is known")
	d.Dispatch(t.Context(), t0.Add(31*time.Minute), []rules.Alert{a})
	d.Dispatch(t.Context(), t0.Add(35*time.Minute), nil)
	d.Tick(t.Context(), t0.Add(35*time.Minute))
	h.want(t, "resolve_timeout is not over")
	d.Dispatch(t.Context(), t0.Add(36*time.Minute), nil)
	d.Tick(t.Context(), t0.Add(36*time.Minute))
	h.want(t, "it is", "resolved: -A")
}

func TestSeverityRisesAndFalls(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	d := open(t, "", hookConfig(h))
	warn, page := fires("A", "warning", t0, "pool", "chat"), fires("A", "critical", t0, "pool", "chat")
	at := func(offset time.Duration, alerts ...rules.Alert) {
		d.Dispatch(t.Context(), t0.Add(offset), alerts)
		d.Tick(t.Context(), t0.Add(offset))
	}
	at(0, warn)
	at(5*time.Second, warn)
	h.want(t, "begins", "firing: +A")
	at(65*time.Second, page)
	h.want(t, "the same alert, worse", "firing: +A")
	at(125*time.Second, ends(page, t0.Add(120*time.Second)), warn)
	h.want(t, "better again", "firing: +A")
	at(185*time.Second, ends(warn, t0.Add(180*time.Second)))
	h.want(t, "over", "resolved: -A")
	at(245*time.Second, warn, page)
	at(250*time.Second, warn, page)
	h.want(t, "two that are there together are two", "firing: +A +A")
}

func TestSendResolvedFalse(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	d := open(t, "", fmt.Sprintf(`receivers: [{name: hook, webhook_configs: [{url: %q, send_resolved: false}]}]`, h.URL))
	for i := range 2 {
		at := t0.Add(time.Duration(i) * time.Hour)
		a := fires("A", "warning", at, "pool", "chat")
		d.Dispatch(t.Context(), at, []rules.Alert{a})
		d.Tick(t.Context(), at.Add(5*time.Second))
		h.want(t, "begins", "firing: +A")
		d.Dispatch(t.Context(), at.Add(6*time.Minute), []rules.Alert{ends(a, at)})
		d.Tick(t.Context(), at.Add(6*time.Minute))
		h.want(t, "ends unheard")
	}
}

func TestClockSetBack(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	d := open(t, "", hookConfig(h))
	future := t0.AddDate(1, 0, 0)
	d.Dispatch(t.Context(), future, []rules.Alert{fires("A", "warning", future, "pool", "chat")})
	d.Tick(t.Context(), future.Add(5*time.Second))
	h.want(t, "in the wrong year", "firing: +A")
	b := fires("B", "warning", t0, "pool", "chat")
	d.Dispatch(t.Context(), t0, []rules.Alert{fires("A", "warning", future, "pool", "chat"), b})
	d.Tick(t.Context(), t0)
	h.want(t, "set right: nobody waits a year", "firing: +B +A")
}

func TestReload(t *testing.T) {
	t.Parallel()
	h, h2 := newHook(t), newHook(t)
	d := open(t, "", hookConfig(h))
	a := fires("A", "warning", t0, "pool", "chat")
	d.Dispatch(t.Context(), t0, []rules.Alert{a})
	d.Tick(t.Context(), t0.Add(5*time.Second))
	h.want(t, "told", "firing: +A")

	if err := d.Reload(Config{Route: &Route{Receiver: "nobody"}}); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("a bad configuration was taken: %v", err)
	}
	if err := d.Reload(mustConfig(t, hookConfig(h))); err != nil {
		t.Fatal(err)
	}
	d.Tick(t.Context(), t0.Add(10*time.Minute))
	h.want(t, "the same incident under the same settings")

	if err := d.Reload(mustConfig(t, hookConfig(h2))); err != nil {
		t.Fatal(err)
	}
	d.Dispatch(t.Context(), t0.Add(12*time.Minute), []rules.Alert{ends(a, t0.Add(12*time.Minute))})
	d.Tick(t.Context(), t0.Add(12*time.Minute))
	h.want(t, "the old address hears nothing")
	h2.want(t, "the new address hears the end", "resolved: -A")

	if err := d.Reload(Config{}); err != nil {
		t.Fatal(err)
	}
	d.Dispatch(t.Context(), t0.Add(20*time.Minute), []rules.Alert{a})
	d.Tick(t.Context(), t0.Add(20*time.Minute))
	h2.want(t, "nobody is left to be told")
}

// TestRun sends through the real loop: one receiver hangs, the other is told
// all the same, Dispatch never waits, and Run ends with its context.
func TestRun(t *testing.T) {
	t.Parallel()
	bad, good := newHook(t), newHook(t)
	stuck, release := make(chan struct{}, 10), make(chan struct{})
	bad.behave(func(_ http.ResponseWriter, r *http.Request) bool {
		stuck <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return false
	})
	d := open(t, t.TempDir(), fmt.Sprintf(`
route: {receiver: both, group_wait: 0s, group_by: ["..."]}
receivers: [{name: both, webhook_configs: [{url: %q}, {url: %q}]}]
`, bad.URL, good.URL))
	ctx := t.Context()
	done := make(chan error, 1)
	running, cancel := context.WithCancel(ctx)
	go func() { done <- d.Run(running) }()
	now := time.Now()
	d.Dispatch(ctx, now, []rules.Alert{fires("A", "warning", now)})
	<-stuck
	<-good.came
	d.Dispatch(ctx, now, []rules.Alert{fires("A", "warning", now), fires("B", "warning", now)})
	<-good.came
	close(release)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	reg := prometheus.NewRegistry()
	d, err := New(Options{Config: mustConfig(t, hookConfig(h)), Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	h.behave(answers(http.StatusInternalServerError, http.StatusNotFound, http.StatusOK))
	d.Dispatch(t.Context(), t0, []rules.Alert{fires("A", "warning", t0)})
	for _, offset := range []time.Duration{5 * time.Second, 10 * time.Second, 2 * time.Minute} {
		d.Tick(t.Context(), t0.Add(offset))
	}
	want := `
# HELP kvwatch_notifications_total Requests to receivers by outcome: success, retried (failed, to be tried again), failed (refused for good).
# TYPE kvwatch_notifications_total counter
kvwatch_notifications_total{outcome="failed",receiver="hook"} 1
kvwatch_notifications_total{outcome="retried",receiver="hook"} 1
kvwatch_notifications_total{outcome="success",receiver="hook"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	if _, err := New(Options{Config: mustConfig(t, hookConfig(h)), Registerer: reg}); err == nil {
		t.Error("a second registration was taken")
	}
}

func TestIncidents(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	d := open(t, "", hookConfig(h))
	a, b := fires("A", "warning", t0, "pool", "chat"), fires("B", "critical", t0, "pool", "agents")
	d.Dispatch(t.Context(), t0, []rules.Alert{a, b})
	short := func() []string {
		var out []string
		for _, in := range d.Incidents() {
			del := in.Deliveries[0]
			out = append(out, fmt.Sprintf("%s %s %s %s %q %s", in.Labels["pool"], in.Status, in.Severity, in.Title, del.Outcome, del.Error))
		}
		return out
	}
	check := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, short()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("at first", `agents firing critical B summary "waiting" `, `chat firing warning A summary "waiting" `)
	h.behave(answers(http.StatusOK, http.StatusBadGateway))
	d.Tick(t.Context(), t0.Add(5*time.Second))
	check("one told, one not", `agents firing critical B summary "success" `, `chat firing warning A summary "retried" the server answered 502 Bad Gateway`)
	h.behave(nil)
	d.Dispatch(t.Context(), t0.Add(2*time.Minute), []rules.Alert{ends(b, t0.Add(time.Minute)), a})
	d.Tick(t.Context(), t0.Add(2*time.Minute))
	d.Tick(t.Context(), t0.Add(4*time.Minute))
	check("one over", `chat firing warning A summary "success" `, `agents resolved critical B summary "success" `)
	if _, err := json.Marshal(d.Incidents()); err != nil {
		t.Error(err)
	}
	d.Tick(t.Context(), t0.Add(48*time.Hour))
	check("a day later", `chat firing warning A summary "success" `)
}

// TestKindsAndFiles holds the table against the files: a kind that lives in no
// file of its name, or a file whose kind is not built, is a mistake.
func TestKindsAndFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && bytes.Contains(raw, []byte("\tregister(\"")) {
			found[strings.TrimSuffix(file, ".go")] = true
		}
	}
	for _, k := range Registered() {
		if !found[k.Name] {
			t.Errorf("%s is registered, but not by %s.go", k.Name, k.Name)
		}
		delete(found, k.Name)
		if k.Help == "" || !strings.HasSuffix(k.Help, ".") {
			t.Errorf("%s: help %q is no sentence", k.Name, k.Help)
		}
	}
	for file := range found {
		t.Errorf("%s.go registers a kind that is not there", file)
	}
}

// logTo is a logger whose output a test reads.
func logTo(b *lockedBuffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// answers gives each status once, in order, then 200; it takes what it answers 2xx.
func answers(codes ...int) func(w http.ResponseWriter, r *http.Request) bool {
	var mu sync.Mutex
	return func(w http.ResponseWriter, _ *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if len(codes) == 0 {
			return true
		}
		code := codes[0]
		codes = codes[1:]
		if code/100 == 2 {
			return true
		}
		w.WriteHeader(code)
		return false
	}
}

func BenchmarkDispatch(b *testing.B) {
	d := open(b, "", `receivers: [{name: none}]`)
	alerts := make([]rules.Alert, 1000)
	for i := range alerts {
		alerts[i] = fires("A", "warning", t0, "pool", fmt.Sprintf("p%d", i%100), "instance", fmt.Sprintf("10.0.0.%d:8000", i))
		alerts[i].Evidence = sample.Evidence
	}
	b.ReportAllocs()
	for b.Loop() {
		d.Dispatch(b.Context(), t0, alerts)
	}
}

// TestContinueAndResolved routes an alert to two incidents, one of which is
// already gone when it resolves.
func TestContinueAndResolved(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	d := open(t, "", fmt.Sprintf(`
route:
  receiver: hook
  routes:
    - {matchers: [pool="chat"], group_by: [pool], group_interval: 1m, continue: true}
    - {matchers: [pool="chat"], group_by: [alertname], group_wait: 10m}
receivers: [{name: hook, webhook_configs: [{url: %q}]}]
`, h.URL))
	a := fires("A", "warning", t0, "pool", "chat")
	first(a)(t, d, h)
	h.want(t, "the quick route", "firing: +A")
	over := ends(a, t0.Add(time.Minute))
	d.Dispatch(t.Context(), t0.Add(2*time.Minute), []rules.Alert{over})
	d.Tick(t.Context(), t0.Add(2*time.Minute))
	h.want(t, "its end", "resolved: -A")
	for offset := 3 * time.Minute; offset < 20*time.Minute; offset += time.Minute {
		d.Dispatch(t.Context(), t0.Add(offset), []rules.Alert{over})
		d.Tick(t.Context(), t0.Add(offset))
	}
	h.want(t, "the slow route has nothing to tell")
	if len(d.groups) != 0 {
		t.Errorf("%d groups are left", len(d.groups))
	}
}
