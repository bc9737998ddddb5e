package collector

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/common/model"
)

// secured is an engine behind TLS that wants a user and a password.
func secured(t *testing.T, running int) (address, caFile string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "kvwatch" || password != secretKey || r.URL.Path != "/engine/metrics" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(smallPage(running)))
	}))
	t.Cleanup(server.Close)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(server.URL, "https://"), caFile
}

// TestHTTPDiscovery finds targets by a real server, which wants a key, and
// scrapes them over TLS with a password, as relabelling says.
func TestHTTPDiscovery(t *testing.T) {
	t.Parallel()
	first, ca := secured(t, 3)
	second, _ := secured(t, 5) // Go's test servers share a certificate
	var groups atomic.Pointer[string]
	tell := func(targets ...string) {
		text := fmt.Sprintf(`[{"targets":[%s],"labels":{"__meta_path":"/engine/metrics","zone":"b"}}]`, strings.Join(targets, ","))
		groups.Store(&text)
	}
	quoted := func(s string) string { return fmt.Sprintf("%q", s) }
	tell(quoted(first), quoted("dropped:1"))
	sd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+secretKey {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(*groups.Load()))
	}))
	defer sd.Close()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(secretKey), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := decodeFile(fmt.Sprintf(`
global: {scrape_interval: 100ms, scrape_timeout: 100ms}
scrape_configs:
  - job_name: found
    scheme: https
    http_sd_configs: [{url: %q, refresh_interval: 100ms, authorization: {credentials: %s}}]
    basic_auth: {username: kvwatch, password_file: %q}
    tls_config: {ca_file: %q}
    relabel_configs:
      - {source_labels: [__address__], regex: "dropped:.*", action: drop}
      - {source_labels: [__meta_path], target_label: __metrics_path__}
      - {source_labels: [zone, __address__], separator: "/", target_label: instance}
      - {regex: zone, action: labeldrop}
`, sd.URL, secretKey, password, ca))
	if err != nil {
		t.Fatal(err)
	}
	k := newListener()
	c, err := New(Options{Global: f.Global, Scrapes: f.Scrapes, Sink: k.sink})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()

	until := func(what string, holds func(r kept) bool) {
		t.Helper()
		k.until(t, what, c, holds)
	}
	up := func(address string, running float64) func(kept) bool {
		name := fmt.Sprintf(`{__name__="vllm:num_requests_running", engine="0", instance="b/%s", job="found", model_name="m"}`, address)
		return func(r kept) bool { return r.State == StateUp && r.values[name] == running }
	}
	until("the target that was told is scraped", up(first, 3))
	tell(quoted(second))
	until("another comes", up(second, 5))
	until("the first goes", func(r kept) bool {
		return r.State == StateUnknown && r.Target.Labels.Get(model.InstanceLabel) == "b/"+first
	})
	if targets := c.Targets(); len(targets) != 1 || targets[0].URL != "https://"+second+"/engine/metrics" {
		t.Errorf("targets %+v", targets)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
