package alerting

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kvwatch/rules"
)

// ask gets JSON of the API.
func ask(t *testing.T, h http.Handler, path string, to any) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	if err := json.Unmarshal(w.Body.Bytes(), to); err != nil {
		t.Fatalf("%s: %s: %v", path, w.Body, err)
	}
	return w.Code
}

// TestAlertAPI asks for alerts of which one is told, one silenced, one inhibited
// and one at a quiet time.
func TestAlertAPI(t *testing.T) {
	t.Parallel()
	d := open(t, "", `
route:
  receiver: ops
  group_by: [alertname]
  routes:
    - {matchers: [team="night"], receiver: night, mute_time_intervals: [always], continue: true}
receivers: [{name: ops, terminal_configs: [{}]}, {name: night, terminal_configs: [{}]}]
time_intervals: [{name: always, time_intervals: [{times: [{start_time: "00:00", end_time: "24:00"}]}]}]
inhibit_rules: [{source_matchers: [alertname="Source"], target_matchers: [alertname="Inhibited"], equal: [pool]}]
`)
	now := t0.Add(time.Minute)
	id, err := d.Silence(Silence{
		Matchers: []SilenceMatcher{{Name: "alertname", Value: "Silenced"}}, StartsAt: t0, EndsAt: t0.Add(time.Hour), CreatedBy: "ops", Comment: "roll-out",
	}, t0)
	if err != nil {
		t.Fatal(err)
	}
	d.Dispatch(t.Context(), now, []rules.Alert{
		fires("Source", "critical", t0, "pool", "chat"), fires("Inhibited", "warning", t0, "pool", "chat"),
		fires("Silenced", "warning", t0), fires("Quiet", "warning", t0, "team", "night"), ends(fires("Over", "warning", t0), now),
		fires(rules.Watchdog, "info", t0),
	})
	d.Tick(t.Context(), now)
	api := d.AlertmanagerAPI(t0, func() time.Time { return now })
	names := func(query string) string {
		t.Helper()
		var all []apiAlert
		if code := ask(t, api, "/api/v2/alerts?"+query, &all); code != http.StatusOK {
			t.Fatalf("%s: %d", query, code)
		}
		var out []string
		for _, a := range all {
			out = append(out, a.Labels["alertname"])
		}
		return strings.Join(slices.Sorted(slices.Values(out)), " ")
	}
	for query, want := range map[string]string{
		"":                               "Inhibited Quiet Silenced Source Watchdog",
		"active=false":                   "Inhibited Quiet Silenced",
		"silenced=false&inhibited=false": "Quiet Source Watchdog",
		"filter=" + url.QueryEscape(`pool="chat"`):                        "Inhibited Source",
		"filter=" + url.QueryEscape(`{pool="chat",severity!="critical"}`): "Inhibited",
		"receiver=night": "Quiet",
		"receiver=nigh":  "",
	} {
		if got := names(query); got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
	var one []apiAlert
	ask(t, api, "/api/v2/alerts?filter=alertname%3DInhibited", &one)
	source := newWebhookAlert(fires("Source", "critical", t0, "pool", "chat"), "").Fingerprint
	if diff := cmp.Diff(apiStatus{State: stateSuppressed, SilencedBy: []string{}, InhibitedBy: []string{source}, MutedBy: []string{}}, one[0].Status); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ask(t, api, "/api/v2/alerts?filter=alertname%3DSilenced", &one)
	if len(one) != 1 || one[0].Status.SilencedBy[0] != id || !one[0].StartsAt.Equal(t0) || !one[0].UpdatedAt.Equal(now) || !one[0].EndsAt.Equal(now.Add(DefaultResolveTimeout)) {
		t.Errorf("got %+v", one)
	}

	groups := func(query string) string {
		var all []apiGroup
		ask(t, api, "/api/v2/alerts/groups?"+query, &all)
		var out []string
		for _, g := range all {
			out = append(out, fmt.Sprintf("%s:%s:%d:%s", g.Receiver.Name, g.Labels["alertname"], len(g.Alerts), g.Alerts[0].Status.State))
		}
		return strings.Join(slices.Sorted(slices.Values(out)), " ")
	}
	if got, want := groups(""), "night:Quiet:1:suppressed ops:Inhibited:1:suppressed ops:Silenced:1:suppressed ops:Source:1:active"; got != want {
		t.Errorf("groups %s, want %s", got, want)
	}
	if got, want := groups("muted=false&receiver=ops"), "ops:Source:1:active"; got != want {
		t.Errorf("groups %s, want %s", got, want)
	}
	var receivers []apiReceiver
	ask(t, api, "/api/v2/receivers", &receivers)
	if diff := cmp.Diff([]apiReceiver{{"night"}, {"ops"}}, receivers); diff != "" {
		t.Error(diff)
	}
	var status struct{ Cluster struct{ Status string } }
	if ask(t, api, "/api/v2/status", &status); status.Cluster.Status != "disabled" {
		t.Errorf("status %+v", status)
	}
	for query, want := range map[string]string{
		"active=perhaps": "active must be true or false", "filter=a%20b": "is no matcher", "receiver=(": "no regular expression",
	} {
		for _, path := range []string{"/api/v2/alerts?", "/api/v2/alerts/groups?"} {
			var text string
			if code := ask(t, api, path+query, &text); code != http.StatusBadRequest || !strings.Contains(text, want) {
				t.Errorf("%s%s: %d %s", path, query, code, text)
			}
		}
	}
}

// slowClient is one at which something else happens before it reads on.
type slowClient struct {
	*httptest.ResponseRecorder

	before func()
}

// Write implements http.ResponseWriter.
func (c slowClient) Write(b []byte) (int, error) {
	c.before()
	return c.ResponseRecorder.Write(b)
}

// TestSlowClient: who reads the API slowly does not hold up what is told.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	d := open(t, "", "route: {receiver: ops}\nreceivers: [{name: ops, terminal_configs: [{}]}]\n")
	api := d.AlertmanagerAPI(t0, func() time.Time { return t0 })
	for _, path := range []string{"/api/v2/alerts", "/api/v2/alerts/groups", "/api/v2/receivers"} {
		free := false
		w := slowClient{httptest.NewRecorder(), func() {
			if free = d.mu.TryLock(); free {
				d.mu.Unlock()
			}
		}}
		api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if !free || w.Code != http.StatusOK {
			t.Errorf("%s answered %d; the dispatcher is free while it is written: %t", path, w.Code, free)
		}
	}
}
