//go:build slow

package main

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

// TestRecordingInRealTime runs the real daemon against servers that serve the
// recording in its own time order, from four minutes before the system prompt
// breaks until it is whole again: about nine minutes.
func TestRecordingInRealTime(t *testing.T) {
	t.Parallel()
	rec, err := collector.OpenRecording(testdata + "recording.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close() })

	from, began := time.Unix(1795985340, 0), time.Now()
	clock := func() time.Time { return from.Add(time.Since(began)) }
	var targets []string
	for _, folder := range rec.Folders() {
		server := httptest.NewServer(rec.Handler(folder, clock))
		t.Cleanup(server.Close)
		targets = append(targets, fmt.Sprintf("%q", strings.TrimPrefix(server.URL, "http://")))
	}
	slack, dir := newSlack(t), t.TempDir()
	writeFile(t, filepath.Join(dir, "slack.token"), "xoxb-not-a-real-token")
	config := writeFile(t, filepath.Join(dir, "kvwatch.yml"), fmt.Sprintf(`
global: {scrape_interval: 5s, scrape_timeout: 4s}
scrape_configs: [{job_name: recorded, static_configs: [{targets: [%s]}]}]
rules:
  PrefixCacheCollapse: {time_scale: 0.01, resolve_prompts: 64}
  PrefixCacheMissRising: {time_scale: 0.01, resolve_prompts: 64}
route: {receiver: oncall, group_by: [alertname, instance], group_wait: 1s, group_interval: 5s}
receivers: [{name: oncall, slack_configs: [{token_file: slack.token, channel: "#llm-oncall", api_url: %q}]}]
`, strings.Join(targets, ", "), slack.GetAPIURL()))
	p := runDaemon(t, config, t.TempDir())

	broken, whole := time.Unix(1795985592, 0), time.Unix(1795985779, 0)
	told := func(what string) func() error {
		return func() error {
			slack.mu.Lock()
			defer slack.mu.Unlock()
			for _, c := range slack.calls {
				if strings.Contains(c.text, "PrefixCacheCollapse") && strings.Contains(strings.ToLower(c.text), what) {
					return nil
				}
			}
			return errors.New("not told yet")
		}
	}
	p.until(t, 7*time.Minute, "Slack is told of the collapse", told("recomputed"))
	t.Logf("told of the collapse %.0f s after the prompt broke", clock().Sub(broken).Seconds())
	if clock().Before(broken) {
		t.Error("that was before it broke")
	}
	p.until(t, 6*time.Minute, "Slack is told that it is over", told("resolved"))
	t.Logf("told that it is over %.0f s after the prompt was whole again", clock().Sub(whole).Seconds())
	if clock().Before(whole) {
		t.Error("that was before it was over")
	}
}
