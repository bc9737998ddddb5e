package alerting

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/slack-go/slack"

	"kvwatch/rules"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sample is a collapse as the rules tell it.
var sample = rules.Alert{
	Name: "PrefixCacheCollapse", Severity: "critical", State: rules.StateFiring,
	Labels: map[string]string{"alertname": "PrefixCacheCollapse", "severity": "critical", "pool": "agents", "model_name": "qwen3-coder-30b", "cluster": "madrid"},
	Annotations: map[string]string{
		"summary":       "The prefix cache of pool agents has collapsed: 41 % of prompt tokens hit, usually 94 %",
		"description":   "41 % of 2.1 million prompt tokens hit the cache in the last 5 min (612 requests)\nusually 94 %",
		"runbook_url":   "https://runbooks.example/PrefixCacheCollapse",
		"dashboard_url": "https://grafana.example/d/kvwatch-pool?var-pool=agents&from=now-1h",
	},
	Evidence: rules.Evidence{
		Seen:       "41 % of 2.1 million prompt tokens hit the cache in the last 5 min (612 requests)",
		Against:    "usually 94 %; alarm at 40 heavy prompts of excess, now 163",
		Cause:      "residency",
		CauseText:  "The working set no longer fits: a block stays 48 s in the cache, 310 s a day ago",
		RunnersUp:  []string{"routing without session affinity", "a changed system prompt"},
		Cost:       "1.2 million tokens computed again, about 14 GPU minutes since 13:52 UTC",
		Next:       "Lower max_num_seqs or add a replica; check that the router keeps sessions on their replica",
		Confidence: "high: 612 requests on 4 of 4 replicas",
		Numbers: []rules.Number{
			{Name: "hit_ratio", Value: 0.41234, Unit: "ratio"},
			{Name: "usual_hit_ratio", Value: 0.94, Unit: "ratio"},
			{Name: "excess", Value: 1234567, Unit: "tokens"},
			{Name: "cache_residency", Value: 48.2, Unit: "seconds"},
		},
	},
	ActiveAt: t0.Add(-8 * time.Minute), FiredAt: t0.Add(-2 * time.Minute), Value: 163,
}

// second joins it.
var second = rules.Alert{
	Name: "QueueGrowing", Severity: "warning", State: rules.StateFiring,
	Labels:      map[string]string{"alertname": "QueueGrowing", "severity": "warning", "pool": "agents", "model_name": "qwen3-coder-30b", "cluster": "madrid"},
	Annotations: map[string]string{"summary": "The queue of pool agents grows: 14 requests wait"},
	Evidence:    rules.Evidence{Seen: "14 requests wait, 3 more each minute", Next: "See what binds: kv"},
	ActiveAt:    t0.Add(-4 * time.Minute), FiredAt: t0.Add(-time.Minute),
}

// resolvedSample is the collapse when it is over.
func resolvedSample() rules.Alert { return ends(sample, t0.Add(15*time.Minute)) }

// notifications are the situations that the golden files show.
func notifications() map[string]Notification {
	base := Notification{
		Receiver: "oncall", GroupKey: `{}:{alertname="PrefixCacheCollapse", pool="agents"}`,
		GroupLabels: map[string]string{"pool": "agents"}, Now: t0, ExternalURL: "https://kvwatch.example",
	}
	with := func(r Reason, now time.Time, alerts ...rules.Alert) Notification {
		n := base
		n.Reason, n.Now, n.Alerts = r, now, alerts
		return n
	}
	told := func(n Notification, alerts ...rules.Alert) Notification {
		n.Told = firingKeys(alerts)
		return n
	}
	return map[string]Notification{
		"first":         with(ReasonFirst, t0, sample),
		"severity_rise": told(with(ReasonSeverity, t0, sample, second), second),
		"new_alerts":    told(with(ReasonNewAlerts, t0, sample, second), sample),
		"some_resolved": told(with(ReasonSomeResolved, t0, sample, ends(second, t0)), sample, second),
		"repeat":        with(ReasonRepeat, t0.Add(4*time.Hour), sample),
		"resolved":      with(ReasonResolved, t0.Add(15*time.Minute), resolvedSample()),
		"missed":        with(ReasonMissed, t0.Add(24*time.Hour), resolvedSample()),
	}
}

// golden compares with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got); go test -update writes it anew:\n%s", file, diff)
	}
}

func indented(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGoldenMessages(t *testing.T) {
	t.Parallel()
	for name, n := range notifications() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, "terminal_"+name+".txt", []byte(terminalText(n)))
			golden(t, "webhook_"+name+".json", indented(t, newWebhookPayload(n, 0)))
			text, reply, broadcast := slackReply(n, n.Reason == ReasonFirst || n.Reason == ReasonMissed)
			golden(t, "slack_"+name+".json", indented(t, struct {
				Text      string        `json:"text"`
				Root      []slack.Block `json:"root"`
				ReplyText string        `json:"reply_text"`
				Reply     []slack.Block `json:"reply"`
				Broadcast bool          `json:"reply_broadcast"`
			}{slackFallback(n), slackRoot(n, false), text, reply, broadcast}))
			golden(t, "slack_webhook_"+name+".json", indented(t, slackWhole(n)))
		})
	}
}

func TestMessageLimits(t *testing.T) {
	t.Parallel()
	long := sample
	long.Annotations = map[string]string{"summary": strings.Repeat("<&> ", 900), "description": strings.Repeat("wörter ", 900)}
	long.Annotations["runbook_url"] = "https://runbooks.example/" + strings.Repeat("a", 3000)
	long.Evidence.Seen = strings.Repeat("&", 4000)
	long.Evidence.Next = strings.Repeat("<!channel> ", 1000)
	var alerts []rules.Alert
	for range 100 {
		alerts = append(alerts, long)
	}
	n := Notification{Reason: ReasonFirst, Alerts: alerts, Now: t0}
	_, reply, _ := slackReply(n, true)
	for name, blocks := range map[string][]slack.Block{"root": slackRoot(n, false), "root with buttons": slackRoot(n, true), "reply": reply, "whole": slackWhole(n)} {
		if len(blocks) > slackBlockLimit {
			t.Errorf("%s: %d blocks", name, len(blocks))
		}
		cuts := 0
		for _, b := range blocks {
			if actions, ok := b.(*slack.ActionBlock); ok {
				checkButtons(t, actions)
				continue
			}
			text, limit := blockText(t, b)
			if c := len([]rune(text)); c > limit || c == 0 {
				t.Errorf("%s: a %s of %d characters", name, b.BlockType(), c)
			}
			if strings.Contains(text, "<!channel>") {
				t.Errorf("%s: a mention got through", name)
			}
			if strings.HasSuffix(text, cutNote) {
				cuts++
				body := strings.TrimSuffix(text, cutNote)
				if i := strings.LastIndex(body, "&"); i >= 0 && b.BlockType() != slack.MBTHeader && !strings.Contains(body[i:], ";") {
					t.Errorf("%s: cut inside an entity: %q", name, text[len(text)-20:])
				}
			}
		}
		if cuts == 0 {
			t.Errorf("%s: nothing says that it was cut", name)
		}
	}
	if c := len([]rune(slackFallback(n))); c > slackTextLimit {
		t.Errorf("the fallback has %d characters", c)
	}
}

// checkButtons holds buttons to Slack's limits.
func checkButtons(t *testing.T, b *slack.ActionBlock) {
	t.Helper()
	if n := len(b.Elements.ElementSet); n == 0 || n > 25 {
		t.Errorf("%d buttons", n)
	}
	names := map[string]bool{}
	for _, e := range b.Elements.ElementSet {
		button, ok := e.(*slack.ButtonBlockElement)
		if !ok || len([]rune(button.Text.Text)) > slackButtonLimit || len(button.URL) > slackAddressLimit || names[button.ActionID] {
			t.Errorf("the button %+v", e)
			continue
		}
		names[button.ActionID] = true
	}
}

func blockText(t *testing.T, b slack.Block) (text string, limit int) {
	t.Helper()
	switch b := b.(type) {
	case *slack.HeaderBlock:
		return b.Text.Text, slackHeaderLimit
	case *slack.SectionBlock:
		return b.Text.Text, slackSectionLimit
	case *slack.ContextBlock:
		return b.ContextElements.Elements[0].(*slack.TextBlockObject).Text, slackSectionLimit
	}
	t.Fatalf("an unexpected block %T", b)
	return "", 0
}

func TestMessageOfABareAlert(t *testing.T) {
	t.Parallel()
	n := Notification{Reason: ReasonFirst, Now: t0, Alerts: []rules.Alert{{Name: "Bare", State: rules.StateFiring, Severity: "page"}}}
	if got, want := terminalText(n), "\n▲ PAGE: Bare\n  time      14:00:00 UTC\n  alert     Bare\n"; got != want {
		t.Errorf("got %q", got)
	}
	if got := len(slackRoot(n, false)); got != 2 {
		t.Errorf("%d blocks", got)
	}
	for _, empty := range []int{len(slackRoot(Notification{}, true)), len(slackWhole(Notification{})), len(terminalText(Notification{})), len(slackFallback(Notification{}))} {
		if empty != 0 {
			t.Error("a message without an alert")
		}
	}
}

func TestQuantity(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		v    float64
		unit string
		want string
	}{
		{0.41234, "ratio", "41.2 %"},
		{1, "ratio", "100 %"},
		{0.0004, "ratio", "0.04 %"},
		{1234567, "tokens", "1.23 million tokens"},
		{25600, "tokens", "25.6 thousand tokens"},
		{9999, "tokens", "9999 tokens"},
		{3, "requests", "3 requests"},
		{2.5, "", "2.5"},
		{0.25, "seconds", "0.25 s"},
		{7500, "seconds", "2 h 5 min"},
		{0, "tokens", "0 tokens"},
		{-12345.6, "tokens", "-12.3 thousand tokens"},
	} {
		if got := quantity(tt.v, tt.unit); got != tt.want {
			t.Errorf("quantity(%v, %q) = %q, want %q", tt.v, tt.unit, got, tt.want)
		}
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ lbls, want string }{
		{"pool=agents model_name=qwen3", "pool agents, qwen3"},
		{"pool=vllm/qwen3 model_name=qwen3 cluster=madrid", "pool vllm/qwen3, cluster madrid"},
		{"job=vllm instance=vllm-0:8000 engine=1 model_name=qwen3", "vllm-0:8000, job vllm, engine 1, qwen3"},
		{"job=gateway", "job gateway"},
		{"", ""},
	} {
		lbls := map[string]string{}
		for pair := range strings.FieldsSeq(tt.lbls) {
			name, value, _ := strings.Cut(pair, "=")
			lbls[name] = value
		}
		if got := place(lbls); got != tt.want {
			t.Errorf("place(%s) = %q, want %q", tt.lbls, got, tt.want)
		}
	}
}

func TestDescriptionAndLinks(t *testing.T) {
	t.Parallel()
	n := Notification{Reason: ReasonFirst, Now: t0, ExternalURL: "http://kvwatch:14600"}
	for _, tt := range []struct{ description, seen, dashboard, with, without string }{
		{"what a user's rule says", "", "", "seen      what a user's rule says", "more"},
		{"a hint", "numbers", "", "more      a hint", "dashboard"},
		{"numbers, and why", "numbers", "http://kvwatch:14600/", "seen      numbers\n", "dashboard"},
		{"", "numbers", "http://grafana/d/1", "dashboard http://grafana/d/1", "more"},
		{"", "numbers", "/d/1", "kvwatch   http://kvwatch:14600", "dashboard"},
	} {
		n.Alerts = []rules.Alert{{
			Name: "A", State: rules.StateFiring, Evidence: rules.Evidence{Seen: tt.seen},
			Annotations: map[string]string{"description": tt.description, "dashboard_url": tt.dashboard},
		}}
		got := terminalText(n)
		if !strings.Contains(got, tt.with) || strings.Contains(got, tt.without) {
			t.Errorf("want %q and no %q in\n%s", tt.with, tt.without, got)
		}
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 89 * time.Second: "89 s", 90 * time.Second: "1 min", time.Hour: "1 h",
		125 * time.Minute: "2 h 5 min", 49 * time.Hour: "2 d 1 h",
	} {
		if got := duration(d); got != want {
			t.Errorf("duration(%s) = %q, want %q", d, got, want)
		}
	}
}
