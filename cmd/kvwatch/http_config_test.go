package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
	"kvwatch/collector/history"
	"kvwatch/dashboards/web"
)

// secured serves over TLS, to whoever has the password or the key, and returns
// its address and a folder with its certificate (ca.pem) and both secrets.
func secured(t *testing.T, h http.Handler) (address, dir string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if (user != "watcher" || password != "hush-password") && r.Header.Get("Authorization") != "Bearer hush-key" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of handshakes that are to fail
	server.StartTLS()
	t.Cleanup(server.Close)
	dir = t.TempDir()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	writeFile(t, filepath.Join(dir, "ca.pem"), string(certificate))
	writeFile(t, filepath.Join(dir, "password"), "hush-password\n")
	writeFile(t, filepath.Join(dir, "key"), "hush-key\n")
	return server.URL, dir
}

// A server behind TLS is reached as the file says, whose own paths are beside it.
func TestInspectWithHTTPConfig(t *testing.T) {
	t.Parallel()
	const trusted = "tls_config: {ca_file: ca.pem}\n"
	for name, test := range map[string]struct {
		config string
		key    bool
		state  collector.State
		says   string
	}{
		"password in a file":  {config: trusted + "basic_auth: {username: watcher, password_file: password}", state: collector.StateUp},
		"password":            {config: trusted + "basic_auth: {username: watcher, password: hush-password}", state: collector.StateUp},
		"key":                 {config: trusted + "authorization: {credentials_file: key}", state: collector.StateUp},
		"key beside the file": {config: trusted, key: true, state: collector.StateUp},
		"no credentials":      {config: trusted, state: collector.StateUnauthorised, says: "http.yml authorises with"},
		"another password":    {config: trusted + "basic_auth: {username: watcher, password: hush-other}", state: collector.StateUnauthorised, says: "http.yml authorises with"},
		"another authority":   {config: "authorization: {credentials_file: key}", state: collector.StateDown, says: "unknown authority"},
		"whoever it is":       {config: "tls_config: {insecure_skip_verify: true}\nauthorization: {credentials: hush-key}", state: collector.StateUp},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, dir := secured(t, pageAt("/metrics", "", vllmPage))
			o := inspectOptions{watch: 3 * time.Second, http: httpOptions{configFile: writeFile(t, filepath.Join(dir, "http.yml"), test.config)}}
			if test.key {
				o.http.tokenFile = filepath.Join(dir, "key")
			}
			r := watchLive(t, o, address, (&handClock{at: time.Now()}).clock())
			if r.State != test.state || !strings.Contains(r.Reason, test.says) || strings.Contains(r.Reason, "hush") {
				t.Errorf("%s: %s; expected %s: %s", r.State, r.Reason, test.state, test.says)
			}
		})
	}
}

// A server that has scraped already is reached by the same file.
func TestInspectPrometheusWithHTTPConfig(t *testing.T) {
	t.Parallel()
	store, err := history.Open(history.Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	address, dir := secured(t, web.PromAPI(web.PromAPIOptions{Queryable: store.Queryable(), Now: time.Now, Version: "3.1.0", Logger: slog.New(slog.DiscardHandler)}))
	file := writeFile(t, filepath.Join(dir, "http.yml"), "tls_config: {ca_file: ca.pem}\nbasic_auth: {username: watcher, password_file: password}")
	err = run(t.Context(), []string{"inspect", "--http.config.file=" + file, address}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "it is kvwatch 3.1.0 that holds no series") {
		t.Errorf("%v", err)
	}
}

// What is written reaches the server as inspect did, and holds no secret.
func TestInspectWritesHTTPConfig(t *testing.T) {
	t.Parallel()
	address, dir := secured(t, pageAt("/metrics", "", vllmPage))
	written := func(settings string) string {
		t.Helper()
		file := writeFile(t, filepath.Join(dir, "http.yml"), settings)
		var out bytes.Buffer
		if err := run(t.Context(), []string{"inspect", "--for=3s", "--write-config", "--http.config.file=" + file, address}, &out); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "hush") {
			t.Errorf("a secret is told:\n%s", out.String())
		}
		return out.String()
	}
	text := written("tls_config: {ca_file: ca.pem}\nbasic_auth: {username: watcher, password_file: password}")
	c, err := parseConfig("written", []byte(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	client := c.ScrapeConfigs[0].HTTPClientConfig
	if client.TLSConfig.CAFile != filepath.Join(dir, "ca.pem") || client.BasicAuth.PasswordFile != filepath.Join(dir, "password") {
		t.Errorf("it names %s and %+v", client.TLSConfig.CAFile, client.BasicAuth)
	}
	text = written("tls_config: {ca_file: ca.pem}\nbasic_auth: {username: watcher, password: hush-password}")
	if _, err := parseConfig("written", []byte(text)); err != nil || !strings.Contains(text, "# the settings of the HTTP client are left out here, as they hold secrets") {
		t.Errorf("%v in:\n%s", err, text)
	}
}

func TestRecordWithHTTPConfig(t *testing.T) {
	t.Parallel()
	address, dir := secured(t, pageAt("/metrics", "", vllmPage))
	// One round is recorded of the server, whatever came of it.
	record := func(name, configFile string) (string, error) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := recording{
			urls: []string{address}, output: filepath.Join(dir, name), interval: 2 * time.Second, length: time.Minute,
			http: httpOptions{configFile: configFile}, progress: io.Discard, taken: func(*collector.Round) { cancel() },
		}
		var out bytes.Buffer
		err := r.run(ctx, &out)
		return out.String(), err
	}
	if out, err := record("without", ""); err == nil || !strings.Contains(out, "unknown authority") {
		t.Errorf("without the file: %v, %s", err, out)
	}
	file := writeFile(t, filepath.Join(dir, "http.yml"), "tls_config: {ca_file: ca.pem}\nauthorization: {credentials_file: key}")
	if out, err := record("with", file); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	rec, err := collector.OpenRecording(filepath.Join(dir, "with"))
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	if pages := slices.Collect(rec.Pages()); len(pages) == 0 || pages[0].Down {
		t.Errorf("%d pages", len(pages))
	}
}

// What is wrong with the file is told with its place, and without what it holds.
func TestHTTPConfigErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config, key, url, want string
	}{
		"a list":                {config: "basic_auth: [hush]", want: "http.yml:1"},
		"a text":                {config: "basic_auth: watcher:hush", want: "http.yml:1: a text does not belong here"},
		"a typo":                {config: "tls_config: {ca_fle: x}", want: `http.yml:1:14: unknown key "ca_fle"`},
		"no YAML":               {config: "basic_auth: {", want: "http.yml"},
		"no address":            {config: "proxy_url: http://watcher:hush@ho st", want: "is no address"},
		"a password with /":     {config: "proxy_url: http://watcher:hush/x@host", want: "is no address"},
		"no such certificate":   {config: "tls_config: {ca_file: none.pem}", want: "none.pem"},
		"two ways":              {config: "basic_auth: {username: a, password: hush}\nauthorization: {credentials: hush}", want: "at most one"},
		"a key beside it":       {config: "basic_auth: {username: a, password: hush}", key: "key", want: "both hold credentials"},
		"a password in the URL": {config: "authorization: {credentials: hush}", url: "http://watcher:hush@127.0.0.1:1", want: "both hold credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := writeFile(t, filepath.Join(t.TempDir(), "http.yml"), test.config)
			args := []string{"inspect", "--http.config.file=" + file}
			if test.key != "" {
				args = append(args, "--bearer-token-file="+test.key)
			}
			if test.url == "" {
				test.url = "http://127.0.0.1:1"
			}
			err := run(t.Context(), append(args, test.url), &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%v, expected %q", err, test.want)
			}
		})
	}
	err := run(t.Context(), []string{"record", "--http.config.file=/nowhere/http.yml", "http://127.0.0.1:1"}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "--http.config.file: open /nowhere/http.yml") {
		t.Errorf("a file that is missing: %v", err)
	}
}

// An address that is none may hold credentials: no block tells it.
func TestConfigHidesAddresses(t *testing.T) {
	t.Parallel()
	const job, server, other = "scrape_configs: [{job_name: a, source: vllm, %s}]", "prometheus_sources: [{url: 'http://p', %s}]", "remote_write: [{url: 'http://p', %s}]"
	for _, block := range []string{
		strings.Replace(job, "%s", "proxy_url: 'http://u:hush@ho st'", 1),
		strings.Replace(job, "%s", "http_sd_configs: [{url: 'http://u:hush@ho st'}]", 1),
		strings.Replace(server, "%s", "proxy_url: 'http://u:hush/x@host'", 1),
		strings.Replace(other, "%s", "proxy_url: 'http://u:hush@ho st'", 1),
		"prometheus_sources: [{url: 'http://u:hush@ho st'}]", "remote_write: [{url: 'http://u:hush@ho st'}]",
		"receivers: [{name: a, webhook_configs: [{url: 'http://u', http_config: {proxy_url: 'http://u:hush@ho st'}}]}]",
	} {
		if _, err := parseConfig("f.yml", []byte(block)); err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "is no address") {
			t.Errorf("%s: %v", block, err)
		}
	}
}
