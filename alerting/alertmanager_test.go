package alerting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	yaml "go.yaml.in/yaml/v3"

	"kvwatch/rules"
)

// fakeAlertmanager takes what is pushed; a real one is told in the tests of the binary.
type fakeAlertmanager struct {
	*httptest.Server

	mu     sync.Mutex
	got    [][]pushedAlert
	status int
	path   string
}

func newFakeAlertmanager(t *testing.T) *fakeAlertmanager {
	f := &fakeAlertmanager{status: http.StatusOK}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		var batch []pushedAlert
		if err := json.NewDecoder(r.Body).Decode(&batch); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.path = r.URL.Path
		if f.status == http.StatusOK {
			f.got = append(f.got, batch)
		}
		w.WriteHeader(f.status)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeAlertmanager) answer(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = status
}

// take returns the alerts of each request since the last call.
func (f *fakeAlertmanager) take() [][]pushedAlert {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.got
	f.got = nil
	return out
}

func alertmanagersConfig(servers ...*fakeAlertmanager) string {
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, fmt.Sprintf("%q", strings.TrimPrefix(s.URL, "http://")))
	}
	return fmt.Sprintf(`alertmanagers: [{timeout: 5s, path_prefix: /am, static_configs: [{targets: [%s]}], alert_relabel_configs: [{regex: replica, action: labeldrop}, {source_labels: [alertname], regex: Watchdog, action: drop}]}]`, strings.Join(hosts, ", "))
}

// peerOf returns the peer of the only Alertmanager of a configuration, found as
// discovery finds it.
func peerOf(t *testing.T, d *Dispatcher, f *fakeAlertmanager) *peer {
	t.Helper()
	c := d.alertmanagers[0]
	group := &targetgroup.Group{Targets: []model.LabelSet{{model.AddressLabel: model.LabelValue(strings.TrimPrefix(f.URL, "http://"))}}}
	addresses := addressesOf(c, []*targetgroup.Group{group}, d.logger)
	if len(addresses) != 1 {
		t.Fatalf("addresses %v, want one", addresses)
	}
	p, err := d.newPeer(c, addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPush(t *testing.T) {
	t.Parallel()
	f := newFakeAlertmanager(t)
	d := open(t, "", alertmanagersConfig(f))
	p := peerOf(t, d, f)
	a := fires("A", "warning", t0, "pool", "chat", "replica", "b")
	dog := fires(rules.Watchdog, "info", t0)
	dispatch := func(offset time.Duration, alerts ...rules.Alert) {
		t.Helper()
		d.Dispatch(t.Context(), t0.Add(offset), alerts)
		p.push(t.Context(), t0.Add(offset))
	}
	dispatch(0, a, dog)
	want := [][]pushedAlert{{{
		Labels: map[string]string{"alertname": "A", "severity": "warning", "pool": "chat"}, Annotations: map[string]string{"summary": "A summary"},
		StartsAt: t0, EndsAt: t0.Add(4 * time.Minute), GeneratorURL: newWebhookAlert(a, "http://kvwatch:14600").GeneratorURL,
	}}}
	if diff := cmp.Diff(want, f.take()); diff != "" || f.path != "/am/api/v2/alerts" {
		t.Errorf("pushed to %s (-want +got):\n%s", f.path, diff)
	}
	quiet := func(when string) {
		t.Helper()
		if got := f.take(); len(got) != 0 {
			t.Errorf("%s: pushed %v", when, got)
		}
	}
	dispatch(15*time.Second, a)
	quiet("nothing new")
	dispatch(time.Minute, a)
	if got := f.take(); len(got) != 1 || !got[0][0].EndsAt.Equal(t0.Add(5*time.Minute)) {
		t.Errorf("after a minute: %v, want it again, to hold for four more", got)
	}
	over := ends(a, t0.Add(65*time.Second))
	f.answer(http.StatusServiceUnavailable)
	dispatch(70*time.Second, over)
	quiet("the server is down")
	f.answer(http.StatusOK)
	dispatch(70*time.Second+500*time.Millisecond, over)
	quiet("before the pause is over")
	dispatch(72*time.Second, over)
	if got := f.take(); len(got) != 1 || !got[0][0].EndsAt.Equal(t0.Add(65*time.Second)) {
		t.Errorf("once it is back: %v, want the end", got)
	}
	dispatch(10*time.Minute, over)
	quiet("the end is told once")
	again := fires("A", "warning", t0.Add(11*time.Minute), "pool", "chat", "replica", "b")
	dispatch(11*time.Minute, again)
	if got := f.take(); len(got) != 1 || !got[0][0].StartsAt.Equal(again.FiredAt) {
		t.Errorf("it fires again: %v", got)
	}
	f.answer(http.StatusBadRequest)
	dispatch(12*time.Minute, again)
	dispatch(12*time.Minute+15*time.Second, again)
	for outcome, want := range map[string]float64{outcomeSuccess: 4, outcomeRetried: 1, outcomeFailed: 1} {
		if got := testutil.ToFloat64(d.metrics.notifications.WithLabelValues(pushedTo, outcome)); got != want {
			t.Errorf("%s: %g requests, want %g", outcome, got, want)
		}
	}
	dispatch(13*time.Minute + time.Second)
	if len(p.told) != 0 {
		t.Errorf("what the rules have forgotten is kept: %v", p.told)
	}
}

func TestPushOfAStorm(t *testing.T) {
	t.Parallel()
	f := newFakeAlertmanager(t)
	d := open(t, "", alertmanagersConfig(f))
	p := peerOf(t, d, f)
	var storm []rules.Alert
	for i := range 1000 {
		storm = append(storm, fires("A", "warning", t0, "instance", fmt.Sprint(i)))
	}
	d.Dispatch(t.Context(), t0, storm)
	p.push(t.Context(), t0)
	var sizes []int
	for _, batch := range f.take() {
		sizes = append(sizes, len(batch))
	}
	if want := []int{256, 256, 256, 232}; !slices.Equal(sizes, want) {
		t.Errorf("batches of %v, want %v", sizes, want)
	}
}

// TestRunPushes finds the servers as the daemon does, and follows a reload.
func TestRunPushes(t *testing.T) {
	t.Parallel()
	first, second := newFakeAlertmanager(t), newFakeAlertmanager(t)
	d := open(t, "", alertmanagersConfig(first))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	d.Dispatch(ctx, time.Now(), []rules.Alert{fires("A", "warning", time.Now())})
	within(t, "the first one is told", func() error {
		if len(first.take()) == 0 {
			return errors.New("nothing came")
		}
		return nil
	})
	if err := d.Reload(mustConfig(t, alertmanagersConfig(second))); err != nil {
		t.Fatal(err)
	}
	within(t, "after a reload the second one is told", func() error {
		if len(second.take()) == 0 {
			return errors.New("nothing came")
		}
		return nil
	})
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// within waits until check finds nothing wrong.
func within(t *testing.T, what string, check func() error) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(30 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func TestAlertmanagersConfig(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"alertmanagers: [{}]": "an entry names no Alertmanager",
		"alertmanagers: [~]":  "an entry is empty",
		"alertmanagers: [{static_configs: [{targets: [a:1]}], sigv4: {region: x}}]":                       "sigv4 is not supported",
		"alertmanagers: [{static_configs: [{targets: [\"http://a:1\"]}]}]":                                "http://a:1",
		"alertmanagers: [{static_configs: [{targets: [a:1]}], prefix: x}]":                                `unknown key "prefix"`,
		"alertmanagers: [{static_configs: [{targets: [a:1]}], bearer_token: hunt, bearer_token_file: x}]": "at most one of",
	} {
		_, err := parseConfig(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunt") {
			t.Errorf("%s: the error is %v, want one with %q", text, err, want)
		}
	}
	_, err := New(Options{Config: mustConfig(t, `alertmanagers: [{static_configs: [{targets: [a:1]}], tls_config: {ca_file: nope.pem}}]`)})
	wantError(t, "a certificate that is not there", err, "nope.pem")
	c := mustConfig(t, `alertmanagers: [{static_configs: [{targets: [a:1]}], basic_auth: {username: u, password: hunter2}}]`)
	raw, err := yaml.Marshal(c)
	if err != nil || strings.Contains(string(raw), "hunter2") || !strings.Contains(string(raw), "a:1") {
		t.Errorf("written again: %s (%v)", raw, err)
	}
}

func TestAlertmanagerAddresses(t *testing.T) {
	t.Parallel()
	c := mustConfig(t, `
alertmanagers:
  - scheme: https
    static_configs: [{targets: [a:1]}]
    relabel_configs:
      - {source_labels: [role], regex: spare, action: drop}
      - {source_labels: [path], regex: (.+), target_label: __alerts_path__, replacement: /x/api/v2/alerts}
`).Alertmanagers[0]
	group := &targetgroup.Group{Labels: model.LabelSet{"role": "main"}, Targets: []model.LabelSet{
		{"__address__": "a:9093"}, {"__address__": "b:9093", "role": "spare"}, {"__address__": "c:9093", "path": "y"}, {"x": "y"},
	}}
	want := []string{"https://a:9093/api/v2/alerts", "https://c:9093/x/api/v2/alerts"}
	if diff := cmp.Diff(want, addressesOf(c, []*targetgroup.Group{group}, slog.New(slog.DiscardHandler))); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}
