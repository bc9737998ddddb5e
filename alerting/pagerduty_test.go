package alerting

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kvwatch/rules"
)

func TestPagerduty(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var events []pagerdutyEvent
	status := http.StatusAccepted
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var e pagerdutyEvent
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		if status == http.StatusAccepted {
			events = append(events, e)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	take := func() []pagerdutyEvent {
		mu.Lock()
		defer mu.Unlock()
		out := events
		events = nil
		return out
	}
	answer := func(code int) {
		mu.Lock()
		defer mu.Unlock()
		status = code
	}
	c := mustConfig(t, fmt.Sprintf(`
route: {receiver: pager, group_by: [pool], group_interval: 1m}
receivers: [{name: pager, pagerduty_configs: [{routing_key_file: key, url: %q}]}]
`, server.URL))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("R0UT1NG\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.SetDirectory(dir)
	d, err := New(Options{Config: c, ExternalURL: "http://kvwatch:14600", Jitter: func() float64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	at := play(t, d)
	a := fires("PrefixCacheMissRising", "warning", t0, "pool", "agents")
	a.Evidence = rules.Evidence{Seen: "Miss ratio 40 %.", Next: "Look at the router."}
	a.Annotations["runbook_url"] = "http://kvwatch:14600/runbooks/PrefixCacheMissRising"
	at(0, a)
	answer(http.StatusTooManyRequests)
	at(5*time.Second, a)
	answer(http.StatusAccepted)
	at(7*time.Second, a)
	got := take()
	if len(got) != 1 {
		t.Fatalf("%d events, want one", len(got))
	}
	key := got[0].DedupKey
	want := pagerdutyEvent{
		RoutingKey: "R0UT1NG", Action: "trigger", DedupKey: key, Client: "kvwatch", ClientURL: "http://kvwatch:14600",
		Payload: &pagerdutyPayload{
			Summary: "PrefixCacheMissRising summary", Source: "pool agents", Severity: "warning", Timestamp: t0.Add(-time.Minute), Component: "agents", Class: "PrefixCacheMissRising",
			Details: map[string]string{"When": "since 13:59 UTC (67 s)", "Seen": "Miss ratio 40 %.", "Next": "Look at the router."},
		},
		Links: []pagerdutyLink{{"http://kvwatch:14600/runbooks/PrefixCacheMissRising", "Runbook"}, {"http://kvwatch:14600", "kvwatch"}},
	}
	if diff := cmp.Diff(want, got[0]); diff != "" || len(key) != 64 {
		t.Errorf("the event (-want +got):\n%s", diff)
	}
	worse := fires("PrefixCacheCollapse", "critical", t0.Add(time.Minute), "pool", "agents")
	at(2*time.Minute, a, worse)
	if got := take(); len(got) != 1 || got[0].DedupKey != key || got[0].Action != "trigger" || got[0].Payload.Severity != "critical" {
		t.Errorf("worse: %+v", got)
	}
	at(5*time.Minute, ends(a, t0.Add(5*time.Minute)), ends(worse, t0.Add(5*time.Minute)))
	if diff := cmp.Diff([]pagerdutyEvent{{RoutingKey: "R0UT1NG", Action: "resolve", DedupKey: key}}, take()); diff != "" {
		t.Errorf("the end (-want +got):\n%s", diff)
	}
}

func TestPagerdutySettings(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"{}":                                        "give either routing_key or routing_key_file",
		"{routing_key: a, routing_key_file: b}":     "give either routing_key or routing_key_file",
		"{routing_key: a, url: x}":                  "url must be an address",
		"{routing_key: a, severity: critical}":      `unknown key "severity"`,
		"{routing_key: a, http_config: {proxy: x}}": `unknown key "proxy"`,
	} {
		_, err := parseConfig("receivers: [{name: a, pagerduty_configs: [" + entry + "]}]")
		wantError(t, entry, err, want)
	}
}
