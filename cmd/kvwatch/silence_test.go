package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"kvwatch/alerting"
)

// shell runs kvwatch to its end and returns what it printed.
func shell(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), args, &out)
	return out.String(), err
}

// TestSilences silences an alert of a running daemon from the shell, looks at it
// as people do, kills the daemon, and lets Alertmanager's own amtool end it.
func TestSilences(t *testing.T) {
	t.Parallel()
	config := writeFile(t, filepath.Join(t.TempDir(), "kvwatch.yml"), `
global: {scrape_interval: 1s, scrape_timeout: 1s, external_labels: {cluster: lab}}
scrape_configs: [{job_name: vllm, static_configs: [{targets: ["127.0.0.1:1"]}]}]
rules: {TargetDown: {for: 0s}}
route: {receiver: terminal, group_by: [alertname], group_wait: 3s, group_interval: 1s}
receivers: [{name: terminal, terminal_configs: [{}]}]
`)
	storage := t.TempDir()
	p := runDaemon(t, config, storage)

	out, err := shell(t, "silence", "add", "cluster=lab", "instance=~127.*", "--duration=2h", "--comment=roll-out", "--author=ops", "--url="+p.url)
	id, _, found := strings.Cut(out, " silences ")
	if err != nil || !found || !strings.Contains(out, `{cluster="lab", instance=~"127.*"} until `) {
		t.Fatalf("silence add: %s (%v)", out, err)
	}
	p.eventually(t, "the alert fires and nobody is told", func() error {
		out, err := shell(t, "alerts", "--url="+p.url)
		if err != nil || !strings.Contains(out, "TargetDown, job vllm, instance 127.0.0.1:1, since ") || !strings.Contains(out, "Not told: Silenced by ops until ") {
			return fmt.Errorf("%s (%w)", out, err)
		}
		return nil
	})
	out, err = shell(t, "alerts", "--output=json", "--url="+p.url)
	var alerts shownAlerts
	if err := errors.Join(err, json.Unmarshal([]byte(out), &alerts)); err != nil || len(alerts.Firing) != 1 || alerts.Firing[0].Muted.SilencedBy[0] != id {
		t.Errorf("alerts --output=json: %s (%v)", out, err)
	}
	p.signal(t, syscall.SIGKILL)
	_ = p.wait(t)
	if told := p.stdout.String(); strings.Contains(told, "127.0.0.1:1") {
		t.Errorf("it was told although it is silenced:\n%s", told)
	}

	p = runDaemon(t, config, storage)
	out, err = shell(t, "silence", "list", "--url="+p.url)
	if err != nil || !regexp.MustCompile(`^`+id+`  active   \{cluster="lab", instance=~"127.\*"\}  .* UTC  ops: roll-out\n$`).MatchString(out) {
		t.Errorf("silence list after the restart: %s (%v)", out, err)
	}
	amtool(t, p, "silence", "expire", id)
	p.eventually(t, "the terminal is told", func() error {
		if told := p.stdout.String(); !strings.Contains(told, "127.0.0.1:1") {
			return errors.New("nothing yet")
		}
		return nil
	})
	if out, err := shell(t, "silence", "list", "--url="+p.url); err != nil || out != "Nothing is silenced.\n" {
		t.Errorf("silence list: %s (%v)", out, err)
	}
	if _, err := shell(t, "silence", "expire", id, "--url="+p.url); err == nil || !strings.Contains(err.Error(), "400 Bad Request: the silence has ended already") {
		t.Errorf("expired twice: %v", err)
	}

	// Alertmanager's client sees the alert with the receiver that is told.
	var seen []struct {
		Labels    map[string]string
		Receivers []struct{ Name string }
		Status    struct{ State string }
	}
	out = amtool(t, p, "alert", "query", "--output=json", "instance=~127.*", "--active")
	if err := json.Unmarshal([]byte(out), &seen); err != nil || len(seen) != 1 || seen[0].Labels["alertname"] != "TargetDown" ||
		len(seen[0].Receivers) != 1 || seen[0].Receivers[0].Name != "terminal" || seen[0].Status.State != "active" {
		t.Errorf("amtool alert query: %s (%v)", out, err)
	}
	if out := amtool(t, p, "alert", "query", "--output=extended", "alertname=Other"); strings.Contains(out, "TargetDown") {
		t.Errorf("amtool alert query of others: %s", out)
	}

	made := strings.TrimSpace(amtool(t, p, "silence", "add", "alertname=TargetDown", "--duration=1h", "--comment=roll-out", "--author=ops"))
	if queried := amtool(t, p, "silence", "query", "--output=json"); !strings.Contains(queried, made) {
		t.Errorf("amtool made %s and sees %s", made, queried)
	}
	out, err = shell(t, "silence", "list", "--expired", "--output=json", "--url="+p.url)
	var list []alerting.Silence
	if err := errors.Join(err, json.Unmarshal([]byte(out), &list)); err != nil || len(list) != 2 || list[0].ID != made || list[1].ID != id {
		t.Errorf("silence list --expired: %s (%v)", out, err)
	}

	// A page of another site, open in an operator's browser, must not silence.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, p.url+"/api/v2/silence/"+made, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://elsewhere.example")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("another site's page may end silences: %s", res.Status)
	}
}

// amtool runs Alertmanager's client against the daemon.
func amtool(t *testing.T, p *process, args ...string) string {
	t.Helper()
	program, err := exec.LookPath("amtool")
	if err != nil {
		t.Fatalf("%v; deploy/ci/setup installs it", err)
	}
	out, err := exec.CommandContext(t.Context(), program, append(args, "--alertmanager.url="+p.url, "--no-version-check")...).CombinedOutput()
	if err != nil {
		t.Fatalf("amtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
