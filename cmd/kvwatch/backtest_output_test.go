package main

import (
	"strings"
	"testing"
	"time"

	"kvwatch/rules"
)

// sampleBacktest is a result with one of everything.
func sampleBacktest() backtestOutput {
	at := func(minutes int) time.Time { return benchStart.Add(time.Duration(minutes) * time.Minute) }
	collapse := backtestAlert{
		Name: "PrefixCacheCollapse", Severity: "critical", Labels: map[string]string{"pool": "agents"}, ActiveAt: at(50), FiredAt: at(60), ResolvedAt: new(at(90)),
		Cause: new("residency"), LeadSeconds: new(754.0), Evidence: rules.Evidence{Seen: "Seen <b>so</b> much", Next: "Look there"}, summary: "It collapsed",
	}
	down := backtestAlert{Name: "TargetDown", Severity: "warning", Labels: map[string]string{"job": "vllm", "instance": "a"}, ActiveAt: at(99), FiredAt: at(100), LeadSeconds: new(0.0), Evidence: rules.Evidence{Seen: "It is down"}}
	later := collapse
	later.FiredAt = at(75)
	return backtestOutput{
		From: at(0), To: at(120), Samples: 1234, Alerts: []backtestAlert{collapse, down},
		WithoutSet: &backtestComparison{Set: []string{"PrefixCacheCollapse.resolve_prompts=64"}, Alerts: []backtestAlert{later}},
		queues:     map[string][]timeRange{"agents": {{from: at(73), to: at(80)}}},
	}
}

func TestBacktestText(t *testing.T) {
	t.Parallel()
	const want = `2026-11-02T00:00:00Z to 2026-11-02T02:00:00Z (2 h), 1234 samples: 2 alerts.

FIRED                 ALERT                SEVERITY  ABOUT   ONSET            LASTED      BEFORE THE QUEUE  CAUSE
2026-11-02T01:00:00Z  PrefixCacheCollapse  critical  agents  10 min earlier   30 min      12 min 34 s       residency
2026-11-02T01:40:00Z  TargetDown           warning   vllm/a  60 s earlier     to the end  within it         -

2026-11-02T01:00:00Z PrefixCacheCollapse: It collapsed
2026-11-02T01:40:00Z TargetDown: It is down

With PrefixCacheCollapse.resolve_prompts=64, against the configured rules:
ALERT                ABOUT   WITHOUT  WITH  FIRST FIRED
PrefixCacheCollapse  agents  1        1     15 min earlier
TargetDown           vllm/a  0        1     new, 2026-11-02T01:40:00Z

note: a note
`
	got := backtestText(sampleBacktest(), []string{"a note"})
	if squeeze(got) != squeeze(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if quiet := backtestText(backtestOutput{From: benchStart, To: benchStart.Add(time.Hour), WithoutSet: &backtestComparison{Set: []string{"x"}}}, nil); !strings.Contains(quiet, "0 alerts") || !strings.Contains(quiet, "no alert either way") {
		t.Error(quiet)
	}
}

// squeeze leaves one space between words.
func squeeze(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func TestBacktestHTML(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := writeBacktestHTML(&b, sampleBacktest(), []string{"a <i>note</i>"}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"PrefixCacheCollapse", "sustained queue", `class="critical"`, `class="warning"`, `class="queue"`, "12 min 34 s", "Look there",
		"Seen &lt;b&gt;so&lt;/b&gt; much", "a &lt;i&gt;note&lt;/i&gt;", "With PrefixCacheCollapse.resolve_prompts=64", "prefers-color-scheme: dark",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, outside := range []string{"http://", "https://", "<script", "@import", "url(/"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page needs %s", outside)
		}
	}
	line := newTimeline(sampleBacktest())
	if len(line.Rows) != 3 {
		t.Fatalf("rows: %+v", line.Rows)
	}
	const half, width = timelineLabel + (timelineWidth-timelineLabel)/2, (timelineWidth - timelineLabel) / 4
	if bar := line.Rows[0].Bars[0]; bar.X != half || bar.Width != width || bar.Onset >= bar.X {
		t.Errorf("an alert from half to three quarters is drawn as %+v", bar)
	}
	if bar := line.Rows[1].Bars[0]; bar.X+bar.Width != timelineWidth {
		t.Errorf("an alert that does not end is drawn as %+v", bar)
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 s", 119 * time.Second: "119 s", 2 * time.Minute: "2 min", 754 * time.Second: "12 min 34 s",
		170 * time.Minute: "2 h 50 min", 26 * time.Hour: "26 h", 60 * time.Hour: "2.5 days",
	} {
		if got := age(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}
