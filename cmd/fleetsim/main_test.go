package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"kvwatch/collector"
)

// output is what a running command has printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newOutput() *output { return &output{more: make(chan struct{}, 100)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	select {
	case o.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

// targets waits until n targets are printed.
func (o *output) targets(t *testing.T, n int) []string {
	t.Helper()
	for {
		o.mu.Lock()
		text := o.text.String()
		o.mu.Unlock()
		if found := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindAllString(text, -1); len(found) == n {
			var config map[string]any
			if err := yaml.Unmarshal([]byte(text), &config); err != nil {
				t.Fatalf("what is printed is no configuration: %v\n%s", err, text)
			}
			return found
		}
		select {
		case <-o.more:
		case <-t.Context().Done():
			t.Fatalf("no %d targets printed:\n%s", n, text)
		}
	}
}

// start runs the command until the test is over.
func start(t *testing.T, args ...string) *output {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	printed, done := newOutput(), make(chan error, 1)
	go func() { done <- run(ctx, args, printed) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("fleetsim %v: %v", args, err)
		}
	})
	return printed
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestServesAFleet(t *testing.T) {
	t.Parallel()
	targets := start(t, "--listen=127.0.0.1:0", "--engines=2", "--sessions=6", "--scenario=healthy").targets(t, 3)
	if page := get(t, "http://"+targets[0]+"/metrics"); !strings.Contains(page, "vllm:prompt_tokens_total{") {
		t.Errorf("the first target is no engine: %.100s", page)
	}
	if page := get(t, "http://"+targets[2]+"/metrics"); !strings.Contains(page, "litellm_in_flight_requests ") {
		t.Errorf("the last target is no gateway: %.100s", page)
	}
}

func TestServesARecording(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "engine-a")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	const page = "# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{engine=\"0\"} 1.0\n"
	for _, name := range []string{"1795983855000.prom", "1795993855000.prom"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	targets := start(t, "--listen=127.0.0.1:0", "--recording="+filepath.Dir(folder), "--from=1795983856").targets(t, 1)
	if got := get(t, "http://"+targets[0]+"/metrics"); got != page {
		t.Errorf("served %q, want %q", got, page)
	}
}

// Both ways to write the past say what was written and what happens in it.
func TestWritesThePast(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"history": {[]string{"history", "--storage.path"}, "samples from 2026-01-01T00:00:00Z to 2026-01-01T00:02:52Z in "},
		"record":  {[]string{"record"}, "60 pages and 0 failed scrapes from 2026-01-01T00:00:00Z to 2026-01-01T00:02:52Z in "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var printed bytes.Buffer
			path, calls := filepath.Join(t.TempDir(), "past"), filepath.Join(t.TempDir(), "calls.csv.zst")
			if err := run(t.Context(), append(test.args, path, "--scenario=affinity_lost", "--days=0.002", "--spend-logs", calls), &printed); err != nil {
				t.Fatal(err)
			}
			text := printed.String()
			for _, want := range []string{test.want + path + "\n", " calls in " + calls + "\nincident at 2026-01-01T00:02:30Z, cause routing\n"} {
				if !strings.Contains(text, want) {
					t.Errorf("printed %q", text)
				}
			}
			if rows, err := collector.ReadSpendLogsFile(calls, time.Time{}, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil || rows.Len() < 50 {
				t.Errorf("the calls: %v", err)
			}
			if entries, err := os.ReadDir(path); err != nil || len(entries) == 0 {
				t.Errorf("nothing was written: %v", err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	var listen net.ListenConfig
	taken, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"scenario":  {[]string{"--scenario=flood"}, "flood"},
		"sessions":  {[]string{"--sessions=-1"}, "sessions must be positive"},
		"speed":     {[]string{"--speed=0"}, "--speed=0: must be positive"},
		"port":      {[]string{"--listen=" + taken.Addr().String()}, "choose another --listen"},
		"recording": {[]string{"--recording=nowhere"}, "nowhere"},
		"flag":      {[]string{"--engine=3"}, "unknown long flag"},
		"seeds":     {[]string{"score", "--seeds=0"}, "--seeds=0 --parallel="},
		"full":      {[]string{"history", "--storage.path=."}, "storage path . is not empty"},
		"days":      {[]string{"record", "--days=-1", "nowhere"}, "--days=-1 --scrape-interval=15s: give a positive number"},
		"start":     {[]string{"record", "--start=yesterday", "nowhere"}, "--start: \"yesterday\" is neither"},
		"calls":     {[]string{"record", "--spend-logs=calls.parquet", "nowhere"}, "must end in .csv or .csv.zst"},
		"there":     {[]string{"record", "--scenario=healthy", "."}, "exists already"},
		"corpus":    {[]string{"score", "--scenario=demo"}, `"demo" is not in the corpus`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), test.args, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 11, 29, 20, 24, 15, 0, time.UTC)
	last := first.Add(35 * time.Minute)
	from, to, err := replayOptions{from: "2026-11-29T20:30:00Z", to: "1795985000.5"}.span(first, last)
	if err != nil || !from.Equal(first.Add(345*time.Second)) || to.UnixMilli() != 1795985000500 {
		t.Errorf("from %v to %v, %v", from, to, err)
	}
	if from, to, err := (replayOptions{}).span(first, last); err != nil || from != first || to != last {
		t.Errorf("the whole is %v to %v, %v", from, to, err)
	}
	for _, o := range []replayOptions{{from: "yesterday"}, {to: "12:00"}, {from: "2027-01-01T00:00:00Z"}, {to: "0"}} {
		if _, _, err := o.span(first, last); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
