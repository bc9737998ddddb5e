package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/slack-go/slack/slacktest"
)

// process is the real binary, running.
type process struct {
	cmd    *exec.Cmd
	url    string
	stdout *syncBuffer
	stderr *syncBuffer
	exited chan error
}

// syncBuffer can be read while a process writes to it.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

var listening = regexp.MustCompile(`Listening on.*address=(\S+)`)

// start runs kvwatch and waits until it listens.
func start(t testing.TB, args ...string) *process {
	t.Helper()
	return startProgram(t, "kvwatch", args...)
}

// startProgram is start for one of the names to which the test binary answers.
func startProgram(t testing.TB, name string, args ...string) *process {
	t.Helper()
	p := launch(t, name, args...)
	p.eventually(t, "it listens", func() error {
		m := listening.FindStringSubmatch(p.stderr.String())
		if m == nil {
			return errors.New("no address in the log yet")
		}
		p.url = "http://" + m[1]
		return nil
	})
	return p
}

// launch starts a program and ends it with the test.
func launch(t testing.TB, name string, args ...string) *process {
	t.Helper()
	p := &process{stdout: &syncBuffer{}, stderr: &syncBuffer{}, exited: make(chan error, 1)}
	p.cmd = exec.CommandContext(t.Context(), name, args...)
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.exited <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("stdout of kvwatch:\n%s\nstderr of kvwatch:\n%s", p.stdout, p.stderr)
		}
	})
	return p
}

// runDaemon starts the daemon on config and waits until it is ready.
func runDaemon(t testing.TB, config, storage string, more ...string) *process {
	t.Helper()
	p := start(t, append([]string{"run", "--config.file=" + config, "--storage.path=" + storage, "--web.listen-address=127.0.0.1:0", "--web.enable-lifecycle"}, more...)...)
	p.eventually(t, "it is ready", func() error { _, err := p.get("/-/ready"); return err })
	return p
}

// eventually polls the running process, which has a clock of its own.
func (p *process) eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	p.until(t, 3*time.Minute, what, check) // a busy machine with the race detector is slow
}

// until is eventually with a limit of its own.
func (p *process) until(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.After(limit)
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	var last error
	for {
		if last = check(); last == nil {
			return
		}
		select {
		case <-poll.C:
		case err := <-p.exited:
			p.exited <- err
			t.Fatalf("waiting until %s: kvwatch ended: %v", what, err)
		case <-deadline:
			t.Fatalf("waiting until %s: %v", what, last)
		}
	}
}

// get returns the body of a 200.
func (p *process) get(path string) (string, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, res.Status, body)
	}
	return string(body), err
}

func (p *process) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// wait returns how the process ended.
func (p *process) wait(t testing.TB) error {
	t.Helper()
	select {
	case err := <-p.exited:
		p.exited <- err
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("kvwatch did not end")
		return nil
	}
}

// query answers an instant query with the values of its vector.
func (p *process) query(expr string) ([]float64, error) {
	body, err := p.get("/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil, err
	}
	var res struct {
		Data struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(body), &res); err != nil {
		return nil, err
	}
	var out []float64
	for _, r := range res.Data.Result {
		var v float64
		if _, err := fmt.Sscan(fmt.Sprint(r.Value[1]), &v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// slackCall is one request that the stand-in for Slack's servers took.
type slackCall struct{ method, thread, text string }

// slackServer is slack-go's test server, keeping what was asked of it.
type slackServer struct {
	*slacktest.Server
	mu    sync.Mutex
	calls []slackCall
}

func newSlack(t *testing.T) *slackServer {
	t.Helper()
	s := &slackServer{}
	s.Server = slacktest.NewTestServer(func(c slacktest.Customize) {
		for _, method := range []string{"chat.postMessage", "chat.update"} {
			c.Handle("/"+method, func(w http.ResponseWriter, r *http.Request) {
				s.mu.Lock()
				defer s.mu.Unlock()
				ts := r.FormValue("ts")
				if ts == "" {
					ts = fmt.Sprintf("1700000000.%06d", len(s.calls)+1)
				}
				s.calls = append(s.calls, slackCall{method, r.FormValue("thread_ts"), r.FormValue("text") + r.FormValue("blocks") + r.FormValue("attachments")})
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"ok":true,"channel":"C0000001","ts":%q,"message":{"text":"x"}}`, ts)
			})
		}
	})
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// roots returns the messages that begin a thread.
func (s *slackServer) roots() []slackCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []slackCall
	for _, c := range s.calls {
		if c.method == "chat.postMessage" && c.thread == "" {
			out = append(out, c)
		}
	}
	return out
}

// engineServer serves a real vLLM page; hold makes the next scrape hang.
type engineServer struct {
	*httptest.Server
	mu      sync.Mutex
	hold    chan struct{}
	reached chan struct{}
}

func newEngine(t *testing.T) *engineServer {
	t.Helper()
	return newEngineAt(t, "127.0.0.1:0")
}

// newEngineAt is newEngine on an address of the test's choice.
func newEngineAt(t *testing.T, address string) *engineServer {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("testdata/vllm-0.24.0.prom")
	if err != nil {
		t.Fatal(err)
	}
	e := &engineServer{reached: make(chan struct{}, 1)}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		hold := e.hold
		e.mu.Unlock()
		_, _ = w.Write(page[:len(page)/2])
		if hold != nil {
			_ = http.NewResponseController(w).Flush()
			select {
			case e.reached <- struct{}{}:
			default:
			}
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
		_, _ = w.Write(page[len(page)/2:])
	}))
	_ = e.Listener.Close()
	e.Listener = listener
	e.Start()
	t.Cleanup(e.Close)
	return e
}

func (e *engineServer) address() string { return strings.TrimPrefix(e.URL, "http://") }

func (e *engineServer) holdScrapes() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold = make(chan struct{})
}

func writeFile(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// configFor watches one engine and one address where nobody listens, and tells Slack.
func configFor(t *testing.T, engine *engineServer, slack *slackServer) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "slack.token"), "xoxb-not-a-real-token")
	return writeFile(t, filepath.Join(dir, "kvwatch.yml"), fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: vllm
    static_configs: [{targets: [%q, "127.0.0.1:1"]}]
rules:
  TargetDown: {for: 0s}
route: {receiver: oncall, group_by: [alertname, instance], group_wait: 1s}
receivers:
  - name: oncall
    slack_configs: [{token_file: slack.token, channel: "#llm-oncall", api_url: %q}]
`, engine.address(), slack.GetAPIURL()))
}

func TestKillDuringScrape(t *testing.T) {
	t.Parallel()
	slack, engine, storage := newSlack(t), newEngine(t), t.TempDir()
	config := configFor(t, engine, slack)

	first := runDaemon(t, config, storage)
	first.eventually(t, "Slack was told of the dead target", func() error {
		if len(slack.roots()) == 0 {
			return errors.New("no message yet")
		}
		return nil
	})
	const committed = `sum(count_over_time(up[10m])) + sum(count_over_time(vllm:time_to_first_token_seconds_bucket[10m]))`
	engine.holdScrapes()
	<-engine.reached
	before, err := first.query(committed)
	if err != nil || len(before) != 1 || before[0] < 20 {
		t.Fatalf("samples before the kill: %v, %v", before, err)
	}
	firedBefore := firedAt(t, first)
	first.signal(t, syscall.SIGKILL)
	_ = first.wait(t)
	engine.mu.Lock()
	engine.hold = nil
	engine.mu.Unlock()

	second := runDaemon(t, config, storage)
	after, err := second.query(committed)
	if err != nil || len(after) != 1 || after[0] < before[0] {
		t.Errorf("samples after the restart: %v (%v), fewer than the %v before", after, err, before)
	}
	second.eventually(t, "rules were evaluated five times", func() error {
		body, err := second.get("/metrics")
		var n int
		if m := regexp.MustCompile(`(?m)^kvwatch_rule_evaluation_seconds_count (\d+)`).FindStringSubmatch(body); m != nil {
			_, _ = fmt.Sscan(m[1], &n)
		}
		if n < 5 {
			return errors.Join(err, fmt.Errorf("%d evaluations", n))
		}
		return nil
	})
	if roots := slack.roots(); len(roots) != 1 {
		t.Errorf("Slack holds %d root messages after the restart, want 1: %v", len(roots), roots)
	}
	if fired := firedAt(t, second); fired != firedBefore {
		t.Errorf("the alert fired at %s before the kill and at %s after it", firedBefore, fired)
	}
}

// firedAt returns when TargetDown fired, as the API tells it.
func firedAt(t *testing.T, p *process) string {
	t.Helper()
	var at string
	p.eventually(t, "TargetDown is among the alerts", func() error {
		body, err := p.get("/api/v1/alerts")
		if err != nil {
			return err
		}
		var res struct {
			Data struct {
				Alerts []struct {
					Labels   map[string]string `json:"labels"`
					State    string            `json:"state"`
					ActiveAt string            `json:"activeAt"`
				} `json:"alerts"`
			} `json:"data"`
		}
		if err := json.Unmarshal([]byte(body), &res); err != nil {
			return err
		}
		for _, a := range res.Data.Alerts {
			if a.Labels["alertname"] == "TargetDown" && a.State == "firing" {
				at = a.ActiveAt
				return nil
			}
		}
		return fmt.Errorf("not among the alerts: %s", body)
	})
	return at
}

func TestMetricsPageIsClean(t *testing.T) {
	t.Parallel()
	p := runDaemon(t, configFor(t, newEngine(t), newSlack(t)), t.TempDir())
	p.eventually(t, "derived series are exported", func() error {
		body, err := p.get("/metrics")
		if err != nil {
			return err
		}
		if !strings.Contains(body, "kvwatch_target_up") || !strings.Contains(body, "kvwatch_target_scrape_duration_seconds") {
			return errors.New("no derived series yet")
		}
		return nil
	})
	body, err := p.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("promtool's linter: %s: %s", problem.Metric, problem.Text)
	}
	if strings.Contains(body, "xoxb-") {
		t.Error("/metrics holds the Slack token")
	}
}

func TestReloadAndStop(t *testing.T) {
	t.Parallel()
	slack, engine := newSlack(t), newEngine(t)
	config := configFor(t, engine, slack)
	p := runDaemon(t, config, t.TempDir())
	good, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}

	writeFile(t, config, string(good)+"\nscrape_confgs: []\n")
	if res := p.post(t, "/-/reload"); !strings.Contains(res, `unknown key "scrape_confgs"`) {
		t.Errorf("a bad reload answered %q", res)
	}
	if body, err := p.get("/metrics"); err != nil || !strings.Contains(body, "kvwatch_config_last_reload_successful 0") {
		t.Errorf("the failed reload is not counted (%v)", err)
	}
	writeFile(t, config, strings.Replace(string(good), `, "127.0.0.1:1"`, "", 1))
	p.signal(t, syscall.SIGHUP)
	p.eventually(t, "SIGHUP took the new configuration", func() error {
		body, err := p.get("/api/v1/targets")
		if err == nil && strings.Contains(body, "127.0.0.1:1\"") {
			err = errors.New("the removed target is still there")
		}
		return err
	})
	if body, err := p.get("/metrics"); err != nil || !strings.Contains(body, "kvwatch_config_last_reload_successful 1") {
		t.Errorf("the reload is not counted as a success (%v)", err)
	}

	// A file that cannot be read is found before anything changes.
	bad := strings.Replace(string(good), "TargetDown: {for: 0s}", "TargetDown: {for: 4242s}", 1)
	writeFile(t, config, bad+`  - {name: page, webhook_configs: [{url: "http://127.0.0.1:1/", http_config: {tls_config: {ca_file: nope.pem}}}]}`)
	if res := p.post(t, "/-/reload"); !strings.Contains(res, "nope.pem") {
		t.Errorf("a reload with a missing certificate answered %q", res)
	}
	if body, err := p.get("/api/v1/rules"); err != nil || strings.Contains(body, `"duration":4242`) {
		t.Errorf("half of the refused configuration is in force (%v)", err)
	}

	if res := p.post(t, "/api/v1/kvwatch/accept?pool=nobody"); !strings.Contains(res, "nobody") {
		t.Errorf("accepting an unknown pool answered %q", res)
	}

	for body, want := range map[string]string{
		`{"kind": "deploy", "text": "router 2.4"}`: "It is drawn on the page and quoted in alerts",
		`{"kind": "deploy", "pool": "nobody"}`:     `there is no pool "nobody"`,
		`{"kind": "party"}`:                        `kind is "party"`,
		`{"kind": "deploy", "who": "me"}`:          "unknown field",
		`deploy`:                                   "the body is no event",
	} {
		if res := p.send(t, "/api/v1/kvwatch/events", body); !strings.Contains(res, want) {
			t.Errorf("the event %s is answered %q, want %q", body, res, want)
		}
	}
	if body, err := p.get("/api/v1/kvwatch/events"); err != nil || strings.Count(body, `"kind"`) != 1 || !strings.Contains(body, "router 2.4") {
		t.Errorf("the events are %s (%v), want the one that was fine", body, err)
	}

	p.signal(t, syscall.SIGTERM)
	if err := p.wait(t); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
}

func (p *process) post(t *testing.T, path string) string {
	t.Helper()
	return p.send(t, path, "")
}

func (p *process) send(t *testing.T, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestSecondDaemonOnTheSameStorage(t *testing.T) {
	t.Parallel()
	config, storage := configFor(t, newEngine(t), newSlack(t)), t.TempDir()
	runDaemon(t, config, storage)
	out, err := exec.CommandContext(t.Context(), "kvwatch", "run", "--config.file="+config, "--storage.path="+storage, "--web.listen-address=127.0.0.1:0").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in use by another kvwatch") {
		t.Errorf("a second daemon on the same storage: %v\n%s", err, out)
	}
}
