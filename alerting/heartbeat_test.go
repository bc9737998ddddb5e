package alerting

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"kvwatch/rules"
)

// The heart beats as long as the rules speak, and no longer.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	var beats atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead && r.URL.Path == "/ping" {
			beats.Add(1)
		}
	}))
	t.Cleanup(server.Close)
	f := newFakeAlertmanager(t)
	d := open(t, "", fmt.Sprintf(`
route:
  receiver: all
  routes: [{matchers: [alertname="Watchdog"], receiver: dead man, group_interval: 1m, repeat_interval: 1m}]
receivers:
  - {name: all}
  - {name: dead man, heartbeat_configs: [{url: "%s/ping", method: HEAD}]}
`, server.URL)+`
alertmanagers: [{static_configs: [{targets: [a:1]}]}]
`)
	c := d.alertmanagers[0]
	p, err := d.newPeer(c, f.URL)
	if err != nil {
		t.Fatal(err)
	}
	at := play(t, d)
	dog := fires(rules.Watchdog, "info", t0)
	pushed := 0
	for offset := time.Duration(0); offset <= 10*time.Minute; offset += 15 * time.Second {
		if offset <= 4*time.Minute {
			at(offset, dog)
		} else {
			d.Tick(t.Context(), t0.Add(offset)) // the rules hang
		}
		p.push(t.Context(), t0.Add(offset))
		pushed += len(f.take())
	}
	// From 0:15 (group_wait) to 8:15, then the rules have been silent for resolve_timeout.
	if n := beats.Load(); n != 9 {
		t.Errorf("%d beats, want 9", n)
	}
	if pushed != 9 {
		t.Errorf("Alertmanagers were told %d times, want 9", pushed)
	}
	at(11*time.Minute, dog)
	at(12*time.Minute, dog)
	if n := beats.Load(); n != 11 {
		t.Errorf("%d beats once the rules speak again, want 2 more", n-9)
	}
}

func TestHeartbeatSettings(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"{}":                                   "give either url or url_file",
		"{url: 'ftp://x'}":                     "url must be an address",
		"{url: 'http://x', method: DELETE}":    "method must be GET, HEAD or POST",
		"{url: 'http://x', url_file: secret}":  "give either url or url_file",
		"{url: 'http://x', send_resolved: no}": `unknown key "send_resolved"`,
	} {
		_, err := parseConfig("receivers: [{name: a, heartbeat_configs: [" + entry + "]}]")
		wantError(t, entry, err, want)
	}
}
