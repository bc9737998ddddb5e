package alerting

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"kvwatch/rules"
)

// told reads the alerts of testdata/alerts, which the rules told in their tests,
// with the summary of their end as the annotation over.
func told(t *testing.T) map[string]rules.Alert {
	t.Helper()
	files, err := filepath.Glob("testdata/alerts/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no alerts: %v", err)
	}
	out := map[string]rules.Alert{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var a rules.Alert
		if err := json.Unmarshal(raw, &a); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[a.Name] = a
	}
	return out
}

// stage is one message of an incident.
type stage struct {
	name string
	n    Notification
}

// stages are the life of an incident of one alert.
func stages(a rules.Alert) []stage {
	began := a.FiredAt.Add(10 * time.Second)
	at := func(name string, r Reason, now time.Time, a rules.Alert) stage {
		return stage{name, Notification{
			Receiver: "oncall", GroupKey: "{}:{" + a.Name + "}", GroupLabels: map[string]string{"alertname": a.Name},
			Reason: r, Now: now, Alerts: []rules.Alert{a}, ExternalURL: "https://kvwatch.example", Told: map[string]bool{a.Key(): r != ReasonFirst},
		}}
	}
	worse := a
	worse.Labels = maps.Clone(a.Labels)
	worse.Severity, worse.Labels["severity"] = rules.SeverityCritical, rules.SeverityCritical
	updated := at("updated", ReasonChanged, began.Add(20*time.Minute), a)
	updated.n.Acknowledged = &Acknowledgement{By: "maria", At: began.Add(4 * time.Minute), Severity: a.Severity}
	out := []stage{at("firing", ReasonFirst, began, a), updated}
	if a.Severity != rules.SeverityCritical {
		out = append(out, at("escalated", ReasonSeverity, began.Add(25*time.Minute), worse))
	}
	over := ends(worse, began.Add(5*time.Hour-30*time.Second))
	over.Annotations = maps.Clone(a.Annotations)
	if text := over.Annotations["over"]; text != "" {
		over.Annotations["summary"] = text
	}
	return append(out, at("still firing", ReasonRepeat, began.Add(4*time.Hour), worse), at("resolved", ReasonResolved, began.Add(5*time.Hour), over))
}

// storm is what many alerts at once look like.
func storm(alerts map[string]rules.Alert) stage {
	s := stages(alerts["PrefixCacheCollapse"])[0]
	s.name = "storm"
	for _, name := range sortedNames(alerts) {
		if name != "PrefixCacheCollapse" {
			s.n.Alerts = append(s.n.Alerts, alerts[name])
		}
	}
	for i := range 40 {
		a := alerts["TargetDown"]
		a.Labels = maps.Clone(a.Labels)
		a.Labels["instance"] = fmt.Sprintf("vllm-%d:8000", i)
		a.Annotations = map[string]string{"summary": fmt.Sprintf("vllm-%d:8000 of job vllm is down", i)}
		s.n.Alerts = append(s.n.Alerts, a)
	}
	slices.SortStableFunc(s.n.Alerts, compareAlerts)
	return s
}

// TestWording holds the messages of alerts as the rules tell them, by every way.
func TestWording(t *testing.T) {
	t.Parallel()
	alerts := told(t)
	incidents := map[string][]stage{"Storm": {storm(alerts)}}
	for name, a := range alerts {
		incidents[name] = stages(a)
	}
	for name, list := range incidents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			for i, s := range list {
				fmt.Fprintf(&b, "═══ %s ═══\n\n", s.name)
				wording(t, &b, s.n, i == 0)
			}
			golden(t, filepath.Join("messages", name+".txt"), []byte(b.String()))
			if *preview != "" {
				page(t, filepath.Join(*preview, name+".html"), name, list)
			}
		})
	}
}

// wording writes a notification as each way tells it.
func wording(t *testing.T, b *strings.Builder, n Notification, begins bool) {
	t.Helper()
	section := func(name, text string) {
		if text != "" {
			fmt.Fprintf(b, "─── %s\n%s\n\n", name, strings.TrimSpace(text))
		}
	}
	text, reply, broadcast := slackReply(n, begins)
	where := "Slack, in the thread"
	if broadcast {
		where += " and to the channel"
	}
	section("Slack, on a locked phone", slackFallback(n))
	section("Slack, the first message", plainBlocks(t, slackRoot(n, true)))
	section("Slack, the push of the reply", text)
	section(where, plainBlocks(t, reply))
	if n.Reason == ReasonChanged {
		return // only what can be edited is told
	}
	if begins || n.Reason == ReasonResolved {
		section("Slack, incoming webhook", plainBlocks(t, slackWhole(n)))
		section("terminal", terminalText(n))
		section("e-mail", "Subject: "+emailSubject(n)+"\n\n"+emailText(n))
	}
	event := newPagerdutyEvent("key", n)
	if event.Payload != nil {
		section("PagerDuty, "+event.Action, event.Payload.Summary)
	}
}

// plainBlocks writes blocks as lines, marked up as Slack gets them.
func plainBlocks(t *testing.T, blocks []slack.Block) string {
	t.Helper()
	var lines []string
	for _, block := range blocks {
		actions, ok := block.(*slack.ActionBlock)
		if !ok {
			text, _ := blockText(t, block)
			lines = append(lines, text)
			continue
		}
		var buttons []string
		for _, e := range actions.Elements.ElementSet {
			buttons = append(buttons, "["+e.(*slack.ButtonBlockElement).Text.Text+"]")
		}
		lines = append(lines, strings.Join(buttons, " "))
	}
	return strings.Join(lines, "\n")
}

func TestBrief(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("many words ", 20)
	for text, want := range map[string]string{
		"":                                 "",
		"Short. The rest is in the thread": "Short. The rest is in the thread",
		"A sentence that says it. Another": "A sentence that says it.",
		"It holds 1.5 times of what it had before. More": "It holds 1.5 times of what it had before.",
		"What is long and has a mark: " + long:           "What is long and has a mark.",
		"What has two; marks: " + long:                   "What has two; marks.",
		"No: " + long:                                    "No: " + long,
		long:                                             long,
	} {
		if got := brief(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := briefly([]line{{"Next", "Do this or that: " + long}}); got[0].text != "Do this or that: "+long {
		t.Errorf("what to do is cut: %v", got)
	}
}
