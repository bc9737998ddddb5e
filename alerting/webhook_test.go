package alerting

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvwatch/rules"
)

func TestWebhookSettings(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	var auth string
	h.behave(func(_ http.ResponseWriter, r *http.Request) bool {
		auth = r.Header.Get("Authorization")
		return true
	})
	dir := t.TempDir()
	for name, text := range map[string]string{"hook.url": h.URL + "\n", "hook.key": "s3cret\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := mustConfig(t, `
route: {receiver: hook, group_by: []}
receivers:
  - name: hook
    webhook_configs:
      - {url_file: hook.url, max_alerts: 1, timeout: 10s, http_config: {authorization: {credentials_file: hook.key}}}
`)
	c.SetDirectory(dir)
	d, err := New(Options{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	d.Dispatch(t.Context(), t0, []rules.Alert{fires("A", "info", t0), fires("B", "critical", t0), fires("C", "info", t0)})
	d.Tick(t.Context(), t0.Add(5*time.Second))
	if len(h.got) != 1 || len(h.got[0].Alerts) != 1 || h.got[0].TruncatedAlerts != 2 || h.got[0].Alerts[0].Labels["alertname"] != "B" {
		t.Errorf("got %+v", h.got)
	}
	if p := h.got[0]; len(p.CommonLabels) != 0 || p.GroupLabels == nil || p.Version != "4" || p.GroupKey != "{}:{}" {
		t.Errorf("got %+v", p)
	}
	if auth != "Bearer s3cret" {
		t.Errorf("authorization %q", auth)
	}
	for _, text := range []string{"", "not an address"} {
		if err := os.WriteFile(filepath.Join(dir, "hook.url"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d.Dispatch(t.Context(), t0.Add(time.Hour), []rules.Alert{fires("D", "info", t0)})
		d.Tick(t.Context(), t0.Add(time.Hour+10*time.Minute))
		if got := d.Incidents()[0].Deliveries[0]; got.Outcome != outcomeFailed || !strings.Contains(got.Error, "url_file") {
			t.Errorf("with %q: %+v", text, got)
		}
	}
}

// TestRouteGone changes the routes over a restart, so that no route leads to
// an incident any more: it is said, and nobody is told anything wrong.
func TestRouteGone(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	dir := t.TempDir()
	d := open(t, dir, hookConfig(h))
	first(fires("A", "warning", t0, "pool", "chat"))(t, d, h)
	h.want(t, "told", "firing: +A")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	var logged lockedBuffer
	c := mustConfig(t, fmt.Sprintf(`
resolve_timeout: 1m
route: {receiver: hook, group_by: [alertname], group_interval: 30s}
receivers: [{name: hook, webhook_configs: [{url: %q}]}]
`, h.URL))
	d, err := New(Options{Config: c, Dir: dir, Logger: logTo(&logged)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if !strings.Contains(logged.String(), "routes have changed") {
		t.Errorf("the log says %q", logged.String())
	}
	for offset := time.Minute; offset < 10*time.Minute; offset += 30 * time.Second {
		d.Dispatch(t.Context(), t0.Add(offset), nil)
		d.Tick(t.Context(), t0.Add(offset))
	}
	h.want(t, "afterwards")
}
