package alerting

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/slacktest"

	"kvwatch/rules"
)

// desk is a workspace whose app has buttons: what it writes goes to presses, what
// people are answered comes from answers.
type desk struct {
	*workspace

	opened  chan struct{}             // a connection was opened
	presses chan string               // what Slack tells of, as JSON; "" ends the connection
	acked   chan string               // envelopes that were answered
	answers chan slack.WebhookMessage // what the person is told
	refusal string
}

func newDesk(t *testing.T) *desk {
	k := &desk{
		opened: make(chan struct{}, 16), presses: make(chan string), acked: make(chan string, 16), answers: make(chan slack.WebhookMessage, 16),
	}
	k.workspace = newWorkspace(t, func(c slacktest.Customize) {
		c.Handle("/apps.connections.open", k.open)
		c.Handle("/socket", slacktest.Websocket(k.serveSocket))
		c.Handle("/answer", k.answer)
	})
	return k
}

func (k *desk) open(w http.ResponseWriter, _ *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refusal != "" {
		fmt.Fprintf(w, `{"ok":false,"error":%q}`, k.refusal)
		return
	}
	fmt.Fprintf(w, `{"ok":true,"url":%q}`, strings.Replace(k.GetAPIURL(), "http:", "ws:", 1)+"socket")
}

// refuses makes Slack refuse the app token from now on.
func (k *desk) refuses(code string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refusal = code
}

func (k *desk) serveSocket(c *websocket.Conn) {
	k.opened <- struct{}{}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			var ack struct {
				EnvelopeID string `json:"envelope_id"`
			}
			if err := c.ReadJSON(&ack); err != nil {
				return
			}
			k.acked <- ack.EnvelopeID
		}
	}()
	for {
		select {
		case <-gone:
			return
		case text := <-k.presses:
			if text == "" || c.WriteMessage(websocket.TextMessage, []byte(text)) != nil {
				return
			}
		}
	}
}

func (k *desk) answer(w http.ResponseWriter, r *http.Request) {
	var m slack.WebhookMessage
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	k.answers <- m
}

// config has an app token, and waits for nothing.
func (k *desk) config() string {
	return strings.NewReplacer("{token:", "{app_token: xapp-secret-secret, token:", "group_interval", "group_wait: 1ms, group_interval").Replace(k.workspace.config())
}

// callback is a press as Slack tells it.
func (k *desk) callback(action, channel, message string) slack.InteractionCallback {
	return slack.InteractionCallback{
		Type: slack.InteractionTypeBlockActions, ResponseURL: k.GetAPIURL() + "answer",
		User:           slack.User{ID: "U1", Name: "maria"},
		Container:      slack.Container{ChannelID: channel, MessageTs: message},
		ActionCallback: slack.ActionCallbacks{BlockActions: []*slack.BlockAction{{ActionID: action, BlockID: "b"}}},
	}
}

// envelope is a press on its way through the socket.
func (k *desk) envelope(id, action string) string {
	return fmt.Sprintf(`{"type":"interactive","envelope_id":%q,"accepts_response_payload":true,"payload":{"type":"block_actions",
		"response_url":%q,"user":{"id":"U1","name":"maria"},"container":{"type":"message","channel_id":"C0123","message_ts":"1772460000.000001"},
		"actions":[{"type":"button","action_id":%q,"block_id":"b"}]}}`, id, k.GetAPIURL()+"answer", action)
}

// press presses a button and returns what the person is told, "" for nothing.
func (k *desk) press(t *testing.T, d *Dispatcher, now time.Time, c slack.InteractionCallback) string {
	t.Helper()
	for _, s := range d.env.sockets.apps {
		s.interaction(t.Context(), c, func(p press) string { return d.pressed(p, now) })
	}
	select {
	case m := <-k.answers:
		if m.ResponseType != slack.ResponseTypeEphemeral {
			t.Errorf("everybody is answered: %+v", m)
		}
		return m.Text
	default:
		return ""
	}
}

// peek returns the texts of all calls until now.
func (w *workspace) peek() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, c := range w.calls {
		out = append(out, c.Get("text"))
	}
	return strings.Join(out, "\n")
}

// wait takes what comes.
func wait[T any](t *testing.T, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(time.Minute):
		t.Fatal("nothing came within a minute")
	}
	return got
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(time.Minute)
	for !holds() {
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("%s did not come within a minute", what)
		}
	}
}

const rootStamp = "1772460000.000001"

// lastRoot returns the blocks of the last call that wrote the root, as JSON.
func (w *workspace) lastRoot() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range slices.Backward(w.calls) {
		if c.Get("ts") != "" || c.Get("call") == "chat.postMessage" && c.Get("thread_ts") == "" {
			return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(c.Get("blocks"))
		}
	}
	return ""
}

// TestAcknowledge stops repeats until the incident gets worse, over a restart,
// and says who it was.
func TestAcknowledge(t *testing.T) {
	t.Parallel()
	k := newDesk(t)
	dir := t.TempDir()
	d := open(t, dir, k.config())
	warn, page := fires("Rising", "warning", t0, "pool", "agents"), fires("Collapse", "critical", t0, "pool", "agents")
	at := func(offset time.Duration, alerts ...rules.Alert) {
		d.Dispatch(t.Context(), t0.Add(offset), alerts)
		d.Tick(t.Context(), t0.Add(offset))
	}
	at(0, warn)
	at(time.Second, warn)
	if root := k.lastRoot(); !strings.Contains(root, slackAcknowledge) || !strings.Contains(root, slackSilence4h) || !strings.Contains(root, "http://kvwatch:14600") {
		t.Errorf("the root's buttons: %s", root)
	}
	k.take()
	acknowledge := k.callback(slackAcknowledge, "C0123", rootStamp)
	if told := k.press(t, d, t0.Add(10*time.Second), acknowledge); told != "" {
		t.Errorf("the person is told %q", told)
	}
	at(10*time.Second, warn)
	if root := k.lastRoot(); !strings.Contains(root, "*Acknowledged by maria*") || strings.Contains(root, slackAcknowledge) || !strings.Contains(root, slackSilence1h) {
		t.Errorf("the root after it: %s", root)
	}
	k.want(t, "at once", "update C0123 ts=1 | 🟠 WARNING", "postMessage C0123 thread=1 | 👀 Acknowledged by maria")
	if told := k.press(t, d, t0.Add(20*time.Second), acknowledge); told != "maria acknowledged it already, at Mon 2 Mar 14:00 UTC." {
		t.Errorf("the second press: %q", told)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, k.config())
	at(time.Minute, warn)
	k.take()
	at(3*time.Hour, warn)
	k.want(t, "no repeat", "update C0123 ts=1 | 🟠 WARNING")
	at(3*time.Hour+2*time.Minute, warn, page)
	if root := k.lastRoot(); strings.Contains(root, "Acknowledged by") || !strings.Contains(root, slackAcknowledge) {
		t.Errorf("worse: %s", root)
	}
	k.want(t, "worse", "update C0123 ts=1 | 🔴 CRITICAL", "postMessage C0123 thread=1 broadcast | 🔴 Severity rose to critical")
	at(4*time.Hour+3*time.Minute, warn, page)
	k.want(t, "nobody has taken on what is worse", "update C0123 ts=1 | 🔴 CRITICAL", "postMessage C0123 thread=1 broadcast | 🔴 Still firing after 4 h 4 min")
	at(4*time.Hour+5*time.Minute, warn, ends(page, t0.Add(4*time.Hour+4*time.Minute)))
	at(9*time.Hour, warn)
	if calls := strings.Join(k.take(), "\n"); !strings.Contains(calls, "broadcast | 🟠 Still firing after 9 h 1 min") {
		t.Errorf("an old acknowledgement is back:\n%s", calls)
	}
}

// TestSilenceByButton silences what the incident's alerts share, says so in the
// thread, and shows the end without a word.
func TestSilenceByButton(t *testing.T) {
	t.Parallel()
	k := newDesk(t)
	dir := t.TempDir()
	d := open(t, dir, k.config())
	a, b := fires("Rising", "warning", t0, "pool", "agents"), fires("Queue", "warning", t0, "pool", "agents")
	at := func(offset time.Duration, alerts ...rules.Alert) {
		d.Dispatch(t.Context(), t0.Add(offset), alerts)
		d.Tick(t.Context(), t0.Add(offset))
	}
	at(0, a, b)
	at(time.Second, a, b)
	k.take()
	if told := k.press(t, d, t0.Add(time.Minute), k.callback(slackSilence4h, "C0123", rootStamp)); told != "" {
		t.Errorf("the person is told %q", told)
	}
	at(time.Minute, a, b)
	if root := k.lastRoot(); !strings.Contains(root, "*Silenced by maria* until <!date^1772474460^{time}|18:01 UTC>") || strings.Contains(root, slackSilence1h) {
		t.Errorf("the root after it: %s", root)
	}
	k.want(t, "at once", "update C0123 ts=1 | 🟠 WARNING", "postMessage C0123 thread=1 | 🔕 Silenced by maria")
	list := d.Silences(t0.Add(time.Minute))
	if len(list) != 1 || list[0].CreatedBy != "maria" || list[0].EndsAt != t0.Add(4*time.Hour+time.Minute) {
		t.Fatalf("silences %+v", list)
	}
	var matchers []string
	for _, m := range list[0].Matchers {
		matchers = append(matchers, m.String())
	}
	if diff := cmp.Diff([]string{`pool="agents"`, `severity="warning"`}, matchers); diff != "" {
		t.Errorf("matchers (-want +got):\n%s", diff)
	}
	if told := k.press(t, d, t0.Add(2*time.Minute), k.callback(slackSilence1h, "C0123", rootStamp)); told != "maria silenced it already, until Mon 2 Mar 18:01 UTC." {
		t.Errorf("a shorter one: %q", told)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, k.config())
	at(10*time.Minute, a, b)
	at(3*time.Hour, a, b)
	k.want(t, "silent, over a restart too")
	at(3*time.Hour+5*time.Minute, ends(a, t0.Add(3*time.Hour+time.Minute)), ends(b, t0.Add(3*time.Hour+time.Minute)))
	k.want(t, "the end is shown and not told", "update C0123 ts=1 | ✅ RESOLVED (was warning)")
	if n := len(d.Incidents()); n != 1 || d.Incidents()[0].Status != rules.StateResolved {
		t.Errorf("incidents %+v", d.Incidents())
	}
}

// TestSilenceEnds has what still fires told again when its silence is over.
func TestSilenceEnds(t *testing.T) {
	t.Parallel()
	k := newDesk(t)
	d := open(t, "", k.config())
	a := fires("Rising", "warning", t0, "pool", "agents")
	at := func(offset time.Duration) {
		d.Dispatch(t.Context(), t0.Add(offset), []rules.Alert{a})
		d.Tick(t.Context(), t0.Add(offset))
	}
	at(0)
	at(time.Second)
	k.press(t, d, t0.Add(2*time.Second), k.callback(slackSilence1h, "C0123", rootStamp))
	at(2 * time.Second)
	at(30 * time.Minute)
	k.take()
	at(time.Hour + time.Minute)
	if root := k.lastRoot(); strings.Contains(root, "Silenced by") || !strings.Contains(root, slackSilence1h) {
		t.Errorf("the root: %s", root)
	}
	k.want(t, "over", "update C0123 ts=1 | 🟠 WARNING", "postMessage C0123 thread=1 broadcast | 🟠 Still firing after 1 h 2 min")
}

// TestBadPresses answers each with a sentence, and changes nothing.
func TestBadPresses(t *testing.T) {
	t.Parallel()
	const unknown = "kvwatch does not know this message: its incident was over more than a day ago, or another kvwatch posted it. Nothing was changed."
	for _, tt := range []struct {
		name  string
		over  bool
		press func(k *desk) slack.InteractionCallback
		want  string
	}{
		{"another message", false, func(k *desk) slack.InteractionCallback { return k.callback(slackAcknowledge, "C0123", "1.1") }, unknown},
		{"another channel", false, func(k *desk) slack.InteractionCallback { return k.callback(slackSilence1h, "C9", rootStamp) }, unknown},
		{"over", true, func(k *desk) slack.InteractionCallback { return k.callback(slackSilence1h, "C0123", rootStamp) }, "This incident is over. Nothing was changed."},
		{
			"no message", false, func(k *desk) slack.InteractionCallback { return k.callback(slackAcknowledge, "", "") },
			"kvwatch cannot read what was pressed: it does not say below which message. Nothing was changed.",
		},
		{
			"nobody", false,
			func(k *desk) slack.InteractionCallback {
				c := k.callback(slackAcknowledge, "C0123", rootStamp)
				c.User = slack.User{}
				return c
			},
			"kvwatch cannot read what was pressed: it does not say who pressed. Nothing was changed.",
		},
		{
			"another app's button", false, func(k *desk) slack.InteractionCallback { return k.callback("approve", "C0123", rootStamp) },
			"kvwatch cannot read what was pressed: it is none of its buttons. Nothing was changed.",
		},
		{"a link", false, func(k *desk) slack.InteractionCallback { return k.callback(slackFollow+"_0", "C0123", rootStamp) }, ""},
		{"nothing at all", false, func(*desk) slack.InteractionCallback { return slack.InteractionCallback{} }, ""},
		{
			"an empty action", false,
			func(*desk) slack.InteractionCallback {
				return slack.InteractionCallback{ActionCallback: slack.ActionCallbacks{BlockActions: []*slack.BlockAction{nil}}}
			},
			"",
		},
		{
			"an answer that would go elsewhere", false,
			func(k *desk) slack.InteractionCallback {
				c := k.callback("approve", "C0123", rootStamp)
				c.ResponseURL = "http://127.0.0.1:1/answer"
				return c
			},
			"",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := newDesk(t)
			d := open(t, "", k.config())
			a := fires("Rising", "warning", t0, "pool", "agents")
			d.Dispatch(t.Context(), t0, []rules.Alert{a})
			d.Tick(t.Context(), t0.Add(time.Second))
			if tt.over {
				d.Dispatch(t.Context(), t0.Add(2*time.Minute), []rules.Alert{ends(a, t0.Add(time.Minute))})
				d.Tick(t.Context(), t0.Add(2*time.Minute))
			}
			k.take()
			if got := k.press(t, d, t0.Add(2*time.Minute), tt.press(k)); got != tt.want {
				t.Errorf("told %q, want %q", got, tt.want)
			}
			if len(d.Silences(t0.Add(2*time.Minute))) != 0 {
				t.Error("it silenced something")
			}
			d.Tick(t.Context(), t0.Add(2*time.Minute+time.Second))
			if calls := strings.Join(k.take(), "\n"); strings.Contains(calls, "Acknowledged") {
				t.Errorf("it acknowledged something: %s", calls)
			}
		})
	}
}

// TestNothingInCommon has alerts that no one silence covers.
func TestNothingInCommon(t *testing.T) {
	t.Parallel()
	k := newDesk(t)
	d := open(t, "", strings.Replace(k.config(), "group_by: [pool]", "group_by: [cluster]", 1))
	d.Dispatch(t.Context(), t0, []rules.Alert{fires("A", "warning", t0, "pool", "a"), fires("B", "critical", t0, "pool", "b")})
	d.Tick(t.Context(), t0.Add(time.Second))
	got := k.press(t, d, t0.Add(time.Minute), k.callback(slackSilence1h, "C0123", rootStamp))
	if want := "The alerts of this incident have no label in common, so that one silence cannot cover them: use kvwatch silence add. Nothing was changed."; got != want {
		t.Errorf("told %q", got)
	}
}

// TestSocket presses through a real connection that breaks in between.
func TestSocket(t *testing.T) {
	t.Parallel()
	k := newDesk(t)
	d := open(t, t.TempDir(), k.config())
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { done <- d.Run(ctx) }()
	wait(t, k.opened)
	now := time.Now()
	d.Dispatch(t.Context(), now, []rules.Alert{fires("Rising", "warning", now, "pool", "agents")})
	eventually(t, "the message", func() bool { return strings.Contains(k.peek(), "Details") })
	k.presses <- "this is no JSON"
	k.presses <- k.envelope("e1", slackAcknowledge)
	if id := wait(t, k.acked); id != "e1" {
		t.Errorf("answered %q", id)
	}
	eventually(t, "the acknowledgement in the thread", func() bool { return strings.Contains(k.peek(), "👀 Acknowledged by maria") })
	k.presses <- ""
	wait(t, k.opened)
	k.presses <- k.envelope("e2", slackSilence1h)
	wait(t, k.acked)
	eventually(t, "the silence in the thread", func() bool { return strings.Contains(k.peek(), "🔕 Silenced by maria") })
	k.presses <- k.envelope("e3", slackAcknowledge)
	if m := wait(t, k.answers); !strings.HasPrefix(m.Text, "maria acknowledged it already") {
		t.Errorf("told %q", m.Text)
	}
	// A new configuration without the app hears no more.
	if err := d.Reload(mustConfig(t, k.workspace.config())); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestAppTokenRefused says so once; messages have links, until there is another token.
func TestAppTokenRefused(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"token_revoked":          "token_revoked: the app token was revoked: install the app again and use its new token",
		"invalid_auth":           "invalid_auth: Slack does not know the app token: check app_token or app_token_file",
		"missing_scope":          "missing_scope: the app token lacks the scope connections:write: make a new one",
		"not_allowed_token_type": "not_allowed_token_type",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			k := newDesk(t)
			k.refuses(code)
			var logged lockedBuffer
			d, err := New(Options{Config: mustConfig(t, k.config()), ExternalURL: "http://kvwatch:14600", Logger: logTo(&logged)})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range d.env.sockets.apps {
				s.pause = time.Millisecond
			}
			done := make(chan error, 1)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go func() { done <- d.Run(ctx) }()
			eventually(t, "the refusal", func() bool { return strings.Contains(logged.String(), want) })
			now := time.Now()
			d.Dispatch(t.Context(), now, []rules.Alert{fires("Rising", "warning", now, "pool", "agents")})
			eventually(t, "the message", func() bool { return strings.Contains(k.peek(), "Details") })
			if root := k.lastRoot(); strings.Contains(root, slackAcknowledge) || !strings.Contains(root, "<http://kvwatch:14600|kvwatch>") {
				t.Errorf("the root: %s", root)
			}
			k.refuses("")
			wait(t, k.opened)
			eventually(t, "the buttons", func() bool { return strings.Contains(logged.String(), "Slack's buttons work again") })
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			text := logged.String()
			if n := strings.Count(text, "Slack does not take the app token"); n != 1 {
				t.Errorf("said %d times", n)
			}
			if strings.Contains(text, "xapp-secret-secret") {
				t.Error("the log has the token")
			}
		})
	}
}

func TestSlackAppConfig(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{app_token: xapp-1, api_url: "http://a/"}`:                            "an app token is for the buttons of messages that a bot posts",
		`{app_token: xapp-1, app_token_file: f, token: xoxb-1, channel: "#c"}`: "app_token and app_token_file are both there: keep one",
		`{app_token_file: f, token_file: g, channel: "#c"}`:                    "",
	} {
		_, err := parseConfig(fmt.Sprintf(`receivers: [{name: a, slack_configs: [%s]}]`, text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
