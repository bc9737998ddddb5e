package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// realServer is a server of somebody else's, started for one test.
type realServer struct {
	url string
	cmd *exec.Cmd
}

// startServer runs a program that listens on the address it is told, and waits
// until it answers at path. The test fails where the program is missing:
// deploy/ci/setup installs it.
func startServer(t *testing.T, path, program string, args func(address string) []string) *realServer {
	t.Helper()
	binary, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%s is not installed: run deploy/ci/setup (%v)", program, err)
	}
	address := freeAddress(t)
	var logs syncBuffer
	cmd := exec.CommandContext(t.Context(), binary, args(address)...)
	cmd.Stdout, cmd.Stderr = &logs, &logs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if err := <-exited; t.Failed() {
			t.Logf("%s ended: %v\n%s", program, err, tail(logs.String(), 4000))
		}
	})
	s := &realServer{url: "http://" + address, cmd: cmd}
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(time.Minute)
	for {
		_, err := s.get(path)
		if err == nil {
			return s
		}
		select {
		case <-poll.C:
		case err := <-exited:
			exited <- err
			t.Fatalf("%s ended: %v\n%s", program, err, logs.String())
		case <-limit:
			t.Fatalf("%s does not answer: %v\n%s", program, err, logs.String())
		}
	}
}

// freeAddress is a port of the loopback where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }

func (s *realServer) get(path string) (string, error) {
	p := process{url: s.url}
	return p.get(path)
}

// post sends a body.
func (s *realServer) post(path, body string) error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		text, _ := io.ReadAll(res.Body)
		return fmt.Errorf("%s: %s: %s", path, res.Status, text)
	}
	return nil
}

// query answers an instant query with the values of its vector.
func (s *realServer) query(expr string) ([]float64, error) {
	p := process{url: s.url}
	return p.query(expr)
}

// startPrometheus runs Debian's Prometheus on a configuration and, where it is
// not empty, a history in OpenMetrics.
func startPrometheus(t *testing.T, config, history string) *realServer {
	t.Helper()
	dir := t.TempDir()
	file := writeFile(t, filepath.Join(dir, "prometheus.yml"), config)
	data := filepath.Join(dir, "data")
	if history != "" {
		text := writeFile(t, filepath.Join(dir, "history"), history)
		cmd := exec.CommandContext(t.Context(), "promtool", "tsdb", "create-blocks-from", "openmetrics", text, data)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("promtool: %v\n%s", err, out)
		}
	}
	return startServer(t, "/-/ready", "prometheus", func(address string) []string {
		return []string{"--config.file=" + file, "--storage.tsdb.path=" + data, "--web.listen-address=" + address, "--web.enable-remote-write-receiver", "--log.level=warn"}
	})
}

// startVictoriaMetrics runs Debian's VictoriaMetrics, which scrapes by
// Prometheus's configuration.
func startVictoriaMetrics(t *testing.T, config, history string) *realServer {
	t.Helper()
	dir := t.TempDir()
	file := writeFile(t, filepath.Join(dir, "prometheus.yml"), config)
	s := startServer(t, "/health", "victoria-metrics", func(address string) []string {
		return []string{
			"-promscrape.config=" + file, "-storageDataPath=" + filepath.Join(dir, "data"), "-httpListenAddr=" + address,
			// It hides the newest 30 seconds else, and the test would wait for them.
			"-search.latencyOffset=1s", "-loggerLevel=WARN", "-memory.allowedBytes=200MB",
		}
	})
	if history != "" {
		if err := s.post("/api/v1/import/prometheus", inMilliseconds(history)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.get("/internal/force_flush"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// inMilliseconds rewrites OpenMetrics' times, which are seconds, as the text format has them.
func inMilliseconds(text string) string {
	var b bytes.Buffer
	for line := range strings.Lines(text) {
		if i := strings.LastIndexByte(line, ' '); line[0] != '#' && i > 0 {
			b.WriteString(line[:i+1] + strings.Replace(strings.TrimSpace(line[i+1:]), ".", "", 1) + "\n")
		}
	}
	return b.String()
}

// eventually polls until check holds.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

// TestServersAreThere says plainly what is missing.
func TestServersAreThere(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"prometheus", "promtool", "victoria-metrics", "prometheus-alertmanager", "amtool"} {
		if _, err := exec.LookPath(program); errors.Is(err, exec.ErrNotFound) {
			t.Errorf("%s is not installed: run deploy/ci/setup (in %s)", program, os.Getenv("PATH"))
		}
	}
}
