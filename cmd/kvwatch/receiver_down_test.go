package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// listener is a webhook's server that keeps what it is told.
type listener struct {
	mu   sync.Mutex
	told []string
}

// ServeHTTP takes a message.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var message struct {
		Status       string
		CommonLabels map[string]string
	}
	if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, message.Status+" "+message.CommonLabels["alertname"]+message.CommonLabels["receiver"])
}

func (l *listener) wants(want ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.told, want) {
		return fmt.Errorf("told %v, want %v", l.told, want)
	}
	return nil
}

// TestReceiverDown lets nobody be at a receiver's address: the other receiver hears
// of it, and of its end when somebody is there, who then hears what waited.
func TestReceiverDown(t *testing.T) {
	t.Parallel()
	people, backup := &listener{}, &listener{}
	second := httptest.NewServer(backup)
	t.Cleanup(second.Close)
	address := freeAddress(t)
	p := runDaemon(t, writeFile(t, filepath.Join(t.TempDir(), "kvwatch.yml"), fmt.Sprintf(`
global: {scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}
scrape_configs: [{job_name: vllm, static_configs: [{targets: ["127.0.0.1:1"]}]}]
rules: {TargetDown: {for: 0s}, NotificationsFailing: {for: 1s}}
route: {receiver: people, group_by: [alertname], group_wait: 0s, group_interval: 250ms}
receivers: [{name: people, webhook_configs: [{url: "http://%s/"}]}, {name: backup, webhook_configs: [{url: %q}]}]
`, address, second.URL)), t.TempDir())
	p.eventually(t, "the other receiver hears of it", func() error { return backup.wants("firing NotificationsFailingpeople") })

	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	first := &httptest.Server{Listener: l, Config: &http.Server{Handler: people}} //nolint:gosec // a test's
	first.Start()
	t.Cleanup(first.Close)
	p.eventually(t, "people hear what waited", func() error { return people.wants("firing TargetDown") })
	p.eventually(t, "the other receiver hears of its end", func() error {
		return backup.wants("firing NotificationsFailingpeople", "resolved NotificationsFailingpeople")
	})
}
