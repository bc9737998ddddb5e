package alerting

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"kvwatch/rules"
)

func digest() Report {
	return Report{
		ID: "digest 2026-03-02T09:00:00Z", Kind: "digest", Title: "kvwatch digest: all pools are well", At: t0,
		Lines: []string{"agents: 4 engines, cache hits 94 %", "Fired: nothing, <said> someone@example.com"}, Link: "http://kvwatch:14600/reviews/x.html",
	}
}

// TestReportReachesEachKind tells one report to every kind that takes them, beside
// one that does not.
func TestReportReachesEachKind(t *testing.T) {
	t.Parallel()
	h, w, m := newHook(t), newWorkspace(t), newMailServer(t, true)
	var stdout bytes.Buffer
	c := mustConfig(t, fmt.Sprintf(`
receivers:
  - name: all
    webhook_configs: [{url: %q}]
    slack_configs: [{token: xoxb-secret-secret, channel: "#oncall", api_url: %q}]
    email_configs: [{to: boss@example.com, from: kvwatch@example.com, smarthost: %q, tls_config: {ca_file: %q}}]
    terminal_configs: [{}]
    heartbeat_configs: [{url: "http://127.0.0.1:1/"}]
  - name: pages
    heartbeat_configs: [{url: "http://127.0.0.1:1/"}]
`, h.URL, w.GetAPIURL(), m.address, m.ca))
	d, err := New(Options{Config: c, Stdout: &stdout})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Report("", digest()); err != nil {
		t.Fatal(err)
	}
	d.Tick(t.Context(), t0)
	if len(h.got) != 1 || h.got[0].Status != statusReport || len(h.got[0].Alerts) != 0 || h.got[0].Receiver != "all" ||
		h.got[0].CommonAnnotations["description"] != "agents: 4 engines, cache hits 94 %\nFired: nothing, <said> <redacted>" {
		t.Errorf("the webhook got %+v", h.got)
	}
	if len(w.calls) != 1 || w.calls[0].Get("text") != digest().Title || w.calls[0].Get("thread_ts") != "" {
		t.Errorf("Slack got %v", w.calls)
	}
	for _, want := range []string{`*agents:* 4 engines`, `\u0026lt;said\u0026gt;`, `http://kvwatch:14600/reviews/x.html|All of it`} {
		if blocks := w.calls[0].Get("blocks"); !strings.Contains(blocks, want) {
			t.Errorf("Slack's blocks lack %s: %s", want, blocks)
		}
	}
	got := m.take()
	if len(got) != 1 {
		t.Fatalf("%d mails", len(got))
	}
	mail := readMail(t, got[0].text)
	if mail.subject != digest().Title || mail.header.Get("References") != "" || !strings.Contains(mail.body, "agents: 4 engines, cache hits 94 %\n") {
		t.Errorf("the mail is %v\n%s", mail.header, mail.body)
	}
	if text := stdout.String(); !strings.Contains(text, "■ kvwatch digest: all pools are well\n  agents: 4 engines") {
		t.Errorf("the terminal has %q", text)
	}
	d.Tick(t.Context(), t0.Add(time.Hour)) // each is told once
	if len(h.got) != 1 || len(w.calls) != 1 || len(m.take()) != 0 {
		t.Error("it was told again")
	}

	for receiver, want := range map[string]string{"": "", "all": "", "pages": "takes alerts alone", "none": `there is no receiver "none": there are all, pages`} {
		err := c.CheckReport(receiver)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", receiver, err, want)
		}
	}
	if err := (Config{}).CheckReport(""); err != nil {
		t.Errorf("nobody to tell: %v", err)
	}
}

// TestReportIsTriedAgain: a receiver that fails is asked again with pauses, also
// after a restart, alerts go on meanwhile, and after a day it is given up.
func TestReportIsTriedAgain(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	h.behave(answers(http.StatusServiceUnavailable, http.StatusBadGateway))
	dir, registry := t.TempDir(), prometheus.NewRegistry()
	d, err := New(Options{Config: mustConfig(t, hookConfig(h)), Dir: dir, Registerer: registry, Jitter: func() float64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Report("hook", digest()); err != nil {
		t.Fatal(err)
	}
	d.Tick(t.Context(), t0) // 503
	a := fires("A", "warning", t0, "pool", "chat")
	h.behave(nil)
	d.Dispatch(t.Context(), t0, []rules.Alert{a})
	d.Tick(t.Context(), t0)
	h.behave(answers(http.StatusBadGateway))
	d.Tick(t.Context(), t0.Add(500*time.Millisecond)) // too early for the report
	if h.tried() != 1 {
		t.Errorf("%d tries before the pause is over", h.tried())
	}
	d.Tick(t.Context(), t0.Add(2*time.Second)) // 502
	h.behave(nil)
	d.Tick(t.Context(), t0.Add(5*time.Second)) // the report again, and the alert
	if got := h.take(); len(got) != 2 || got[0] != "firing: +A" || got[1] != "report:" {
		t.Errorf("told %q", got)
	}
	if got := testutil.ToFloat64(d.metrics.notifications.WithLabelValues("hook", outcomeRetried)); got != 2 {
		t.Errorf("%v requests are counted as retried", got)
	}

	// What waits at the end is told by the next daemon.
	if err := d.Report("hook", digest()); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, hookConfig(h))
	d.Tick(t.Context(), t0.Add(time.Minute))
	h.want(t, "after the restart", "report:")

	h.behave(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	})
	if err := d.Report("hook", digest()); err != nil {
		t.Fatal(err)
	}
	d.Tick(t.Context(), t0.Add(time.Hour))
	d.Tick(t.Context(), t0.Add(25*time.Hour))
	h.behave(nil)
	d.Tick(t.Context(), t0.Add(26*time.Hour))
	h.want(t, "a day later")
	if raw, err := os.ReadFile(filepath.Join(dir, reportsName)); err != nil || string(raw) != "[]\n" {
		t.Errorf("the queue holds %q, %v", raw, err)
	}

	if err := os.WriteFile(filepath.Join(dir, reportsName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, hookConfig(h))
	if err := d.Report("hook", digest()); err != nil {
		t.Fatal(err)
	}
	d.Tick(t.Context(), t0.Add(27*time.Hour))
	h.want(t, "after a queue that cannot be read", "report:")
}

// TestReportToNobody: a receiver that a reload took away is not told.
func TestReportToNobody(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	d := open(t, "", hookConfig(h))
	if err := d.Report("hook", digest()); err != nil {
		t.Fatal(err)
	}
	if err := d.Reload(Config{}); err != nil {
		t.Fatal(err)
	}
	d.Tick(t.Context(), t0)
	if err := d.Report("", digest()); err != nil {
		t.Error(err)
	}
	d.Tick(t.Context(), t0)
	if h.tried() != 0 || len(d.reports.waiting) != 0 {
		t.Errorf("%d tries, %d wait", h.tried(), len(d.reports.waiting))
	}
}
