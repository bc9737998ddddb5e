package alerting

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/slack-go/slack/slacktest"

	"kvwatch/rules"
)

// workspace is slack-go's test server with the calls that it lacks, and a
// record of what came.
type workspace struct {
	*slacktest.Server

	mu     sync.Mutex
	calls  []url.Values
	stamps int
	files  [][]byte
	fail   func(call string, w http.ResponseWriter) (failed bool)
}

func newWorkspace(t testing.TB, more ...func(slacktest.Customize)) *workspace {
	w := &workspace{}
	w.Server = slacktest.NewTestServer(func(c slacktest.Customize) {
		for _, add := range more {
			add(c)
		}
		for _, call := range []string{"chat.postMessage", "chat.update", "files.getUploadURLExternal", "files.completeUploadExternal"} {
			c.Handle("/"+call, func(rw http.ResponseWriter, r *http.Request) { w.serve(call, rw, r) })
		}
	})
	w.Handle("/upload/chart", http.HandlerFunc(w.upload))
	w.Start()
	t.Cleanup(w.Stop)
	return w
}

// upload takes a file.
func (w *workspace) upload(rw http.ResponseWriter, r *http.Request) {
	file, header, err := r.FormFile("file")
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	raw, err := io.ReadAll(file)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil && w.fail("upload", rw) {
		return
	}
	w.files = append(w.files, raw)
	w.calls = append(w.calls, url.Values{"call": {"upload"}, "text": {header.Filename}})
}

func (w *workspace) serve(call string, rw http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil && w.fail(call, rw) {
		return
	}
	form := r.PostForm
	form.Set("call", call)
	w.calls = append(w.calls, form)
	if call == "files.getUploadURLExternal" {
		fmt.Fprintf(rw, `{"ok":true,"upload_url":%q,"file_id":"F1"}`, strings.TrimSuffix(w.GetAPIURL(), "/")+"/upload/chart")
		return
	}
	if call == "files.completeUploadExternal" {
		fmt.Fprint(rw, `{"ok":true,"files":[{"id":"F1"}]}`)
		return
	}
	stamp := form.Get("ts")
	if stamp == "" {
		w.stamps++
		stamp = fmt.Sprintf("1772460000.%06d", w.stamps)
	}
	fmt.Fprintf(rw, `{"ok":true,"channel":"C0123","ts":%q}`, stamp)
}

// breaks makes the server fail by f from now on; nil mends it.
func (w *workspace) breaks(f func(call string, w http.ResponseWriter) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = f
}

// take returns the calls since the last look, in short.
func (w *workspace) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, c := range w.calls {
		text := c.Get("text")
		if before, _, found := strings.Cut(text, ":"); found {
			text = before
		}
		line := strings.TrimPrefix(c.Get("call"), "chat.") + " " + c.Get("channel")
		if ts := c.Get("ts"); ts != "" {
			line += " ts=" + ts[len(ts)-1:]
		}
		if ts := c.Get("thread_ts"); ts != "" {
			line += " thread=" + ts[len(ts)-1:]
		}
		if c.Get("reply_broadcast") == "true" {
			line += " broadcast"
		}
		out = append(out, line+" | "+text)
	}
	w.calls = nil
	return out
}

func (w *workspace) want(t *testing.T, when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.take()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func (w *workspace) config() string {
	return fmt.Sprintf(`
route: {receiver: oncall, group_by: [pool], group_interval: 1m, repeat_interval: 1h}
receivers: [{name: oncall, slack_configs: [{token: xoxb-secret-secret, channel: "#oncall", api_url: %q}]}]
`, w.GetAPIURL())
}

func TestSlackThread(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	dir := t.TempDir()
	d := open(t, dir, w.config())
	warn, page := fires("Rising", "warning", t0, "pool", "agents"), fires("Collapse", "critical", t0, "pool", "agents")
	at := func(offset time.Duration, alerts ...rules.Alert) {
		d.Dispatch(t.Context(), t0.Add(offset), alerts)
		d.Tick(t.Context(), t0.Add(offset))
	}
	at(0, warn)
	at(5*time.Second, warn)
	w.want(t, "begins", "postMessage #oncall | 🟠 WARNING", "postMessage C0123 thread=1 | Details")
	at(65*time.Second, warn)
	w.want(t, "the numbers change: only an edit", "update C0123 ts=1 | 🟠 WARNING")

	// A restart continues the same thread.
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, w.config())
	at(70*time.Second, warn)
	at(75*time.Second, warn)
	w.want(t, "the restart says nothing")
	at(140*time.Second, warn, page)
	w.want(t, "worse: the channel is told again",
		"update C0123 ts=1 | 🔴 CRITICAL", "postMessage C0123 thread=1 broadcast | 🔴 Severity rose to critical")
	at(200*time.Second, ends(warn, t0.Add(150*time.Second)), page)
	w.want(t, "one of two is over", "update C0123 ts=1 | 🔴 CRITICAL", "postMessage C0123 thread=1 | 🔴 Some resolved, still firing")
	at(time.Hour+300*time.Second, page)
	w.want(t, "still there", "update C0123 ts=1 | 🔴 CRITICAL", "postMessage C0123 thread=1 broadcast | 🔴 Still firing after 1 h 6 min")
	at(2*time.Hour, ends(page, t0.Add(2*time.Hour)))
	w.want(t, "over", "update C0123 ts=1 | ✅ RESOLVED (was critical)", "postMessage C0123 thread=1 | ✅ Resolved")
	again := fires("Collapse", "critical", t0.Add(3*time.Hour), "pool", "agents")
	at(3*time.Hour, again)
	at(3*time.Hour+5*time.Second, again)
	w.want(t, "another incident is another thread", "postMessage #oncall | 🔴 CRITICAL", "postMessage C0123 thread=7 | Details")
}

func TestSlackFailures(t *testing.T) {
	t.Parallel()
	says := func(code string) func(string, http.ResponseWriter) bool {
		return func(_ string, w http.ResponseWriter) bool {
			fmt.Fprintf(w, `{"ok":false,"error":%q}`, code)
			return true
		}
	}
	status := func(code int, after string) func(string, http.ResponseWriter) bool {
		return func(_ string, w http.ResponseWriter) bool {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(code)
			return true
		}
	}
	for _, tt := range []struct {
		name  string
		fail  func(string, http.ResponseWriter) bool
		want  string
		again time.Duration // after the first try; 0: not before the next flush
	}{
		{"rate limit", status(429, "30"), "slack: the server answered 429 Too Many Requests; it asks to wait 30s", 30 * time.Second},
		{"rate limit in the body", says("ratelimited"), "slack: ratelimited", time.Second},
		{"unavailable", status(503, "20"), "slack: the server answered 503 Service Unavailable; it asks to wait 20s", 20 * time.Second},
		{"server error", status(500, ""), "slack: the server answered 500 Internal Server Error", time.Second},
		{"page of a proxy", func(_ string, w http.ResponseWriter) bool { fmt.Fprint(w, "<html>"); return true }, "slack: invalid character '<' looking for beginning of value", time.Second},
		{"hangs up", func(_ string, _ http.ResponseWriter) bool { panic(http.ErrAbortHandler) }, "slack: the request failed: EOF", time.Second},
		{"no longer member", says("not_in_channel"), "slack: not_in_channel: invite the bot to the channel", 0},
		{"wrong channel", says("channel_not_found"), "slack: channel_not_found: there is no such channel, or the bot cannot see it: check channel, and invite the bot", 0},
		{"wrong token", says("invalid_auth"), "slack: invalid_auth: Slack does not know the token: check token or token_file", 0},
		{"token revoked", says("token_revoked"), "slack: token_revoked: the token was revoked: install the app again and use its new token", 0},
		{"something new", says("brand_new_error"), "slack: brand_new_error", 0},
		{"forbidden", status(403, ""), "slack: the server answered 403 Forbidden", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			d := open(t, "", w.config())
			a := fires("A", "warning", t0, "pool", "agents")
			start := t0.Add(5 * time.Second)
			d.Dispatch(t.Context(), t0, []rules.Alert{a})
			w.breaks(tt.fail)
			d.Tick(t.Context(), start)
			if got := d.Incidents()[0].Deliveries[0].Error; got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
			w.breaks(nil)
			again := tt.again
			if again == 0 {
				again = time.Minute // group_interval
			}
			d.Tick(t.Context(), start.Add(again-time.Millisecond))
			w.want(t, "too early")
			d.Tick(t.Context(), start.Add(again))
			w.want(t, "again", "postMessage #oncall | 🟠 WARNING", "postMessage C0123 thread=1 | Details")
		})
	}
}

// TestSlackHangs gives up on a request that is not answered, and tries again.
func TestSlackHangs(t *testing.T) {
	t.Parallel()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer hangs.Close()
	d := open(t, "", fmt.Sprintf(`receivers: [{name: oncall, slack_configs: [{token: xoxb-secret-secret, channel: "#oncall", api_url: %q}]}]`, hangs.URL))
	d.timeout = 20 * time.Millisecond
	d.Dispatch(t.Context(), t0, []rules.Alert{fires("A", "warning", t0)})
	d.Tick(t.Context(), t0.Add(5*time.Second))
	if got := d.Incidents()[0].Deliveries[0]; got.Outcome != outcomeRetried || got.Error != "slack: no answer in time: context deadline exceeded" {
		t.Errorf("got %+v", got)
	}
}

// TestSlackHalfDone fails between the root and its reply: the root is not
// posted twice, and the reply comes.
func TestSlackHalfDone(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	d := open(t, t.TempDir(), w.config())
	d.Dispatch(t.Context(), t0, []rules.Alert{fires("A", "warning", t0, "pool", "agents")})
	posts := 0
	w.breaks(func(_ string, rw http.ResponseWriter) bool {
		posts++
		if posts == 2 {
			rw.WriteHeader(http.StatusBadGateway)
		}
		return posts == 2
	})
	d.Tick(t.Context(), t0.Add(5*time.Second))
	w.want(t, "the reply fails", "postMessage #oncall | 🟠 WARNING")
	d.Tick(t.Context(), t0.Add(6*time.Second))
	w.want(t, "the reply comes", "update C0123 ts=1 | 🟠 WARNING", "postMessage C0123 thread=1 | Details")
}

func TestSlackRootDeleted(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	d := open(t, "", w.config())
	a := fires("A", "warning", t0, "pool", "agents")
	d.Dispatch(t.Context(), t0, []rules.Alert{a})
	d.Tick(t.Context(), t0.Add(5*time.Second))
	w.take()
	w.breaks(func(call string, rw http.ResponseWriter) bool {
		if call == "chat.update" {
			fmt.Fprint(rw, `{"ok":false,"error":"message_not_found"}`)
		}
		return call == "chat.update"
	})
	d.Dispatch(t.Context(), t0.Add(2*time.Minute), []rules.Alert{ends(a, t0.Add(time.Minute))})
	d.Tick(t.Context(), t0.Add(2*time.Minute))
	w.want(t, "a new root", "postMessage #oncall | ✅ RESOLVED (was warning)", "postMessage C0123 thread=3 | ✅ Resolved")
}

func TestSlackTokenFile(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	dir := t.TempDir()
	c := mustConfig(t, fmt.Sprintf(`receivers: [{name: oncall, slack_configs: [{token_file: slack.token, channel: "#oncall", api_url: %q}]}]`, w.GetAPIURL()))
	c.SetDirectory(dir)
	d, err := New(Options{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	d.Dispatch(t.Context(), t0, []rules.Alert{fires("A", "warning", t0)})
	d.Tick(t.Context(), t0.Add(5*time.Second))
	if got := d.Incidents()[0].Deliveries[0]; got.Outcome != "failed" || !strings.Contains(got.Error, "token_file") {
		t.Errorf("without the file: %+v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "slack.token"), []byte("xoxb-from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Tick(t.Context(), t0.Add(6*time.Minute))
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.calls) == 0 || w.calls[0].Get("token") != "xoxb-from-file" {
		t.Errorf("calls %v", w.calls)
	}
}

func TestSlackIncomingWebhook(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var bodies []string
	answer := answers(http.StatusTooManyRequests, http.StatusOK)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		if !answer(w, r) {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(body))
	}))
	defer srv.Close()
	d := open(t, "", fmt.Sprintf(`receivers: [{name: oncall, slack_configs: [{api_url: %q}]}]`, srv.URL+"/T000/B000/secret"))
	d.Dispatch(t.Context(), t0, []rules.Alert{sample})
	d.Tick(t.Context(), t0.Add(5*time.Second))
	d.Tick(t.Context(), t0.Add(11*time.Second))
	if len(bodies) != 0 {
		t.Error("sent before Retry-After was over")
	}
	d.Tick(t.Context(), t0.Add(12*time.Second))
	d.Dispatch(t.Context(), t0.Add(10*time.Minute), []rules.Alert{sample})
	d.Tick(t.Context(), t0.Add(10*time.Minute))
	if len(bodies) != 1 || !strings.Contains(bodies[0], "CRITICAL") || !strings.Contains(bodies[0], `"blocks"`) {
		t.Fatalf("got %q", bodies)
	}
	d.Dispatch(t.Context(), t0.Add(16*time.Minute), []rules.Alert{resolvedSample()})
	d.Tick(t.Context(), t0.Add(16*time.Minute))
	if len(bodies) != 2 || !strings.Contains(bodies[1], "RESOLVED") {
		t.Errorf("got %q", bodies)
	}
}
