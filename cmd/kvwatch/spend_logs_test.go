package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"kvwatch/collector"
)

// TestSpendLogsAreTargets reads a log that nobody serves: it is told like a
// target that is down, its calls' sink is told too, and the password by nobody.
func TestSpendLogsAreTargets(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	config, err := parseConfig(filepath.Join(t.TempDir(), "kvwatch.yml"), fmt.Appendf(nil, `
global: {scrape_interval: 1s}
scrape_configs: [{job_name: vllm, static_configs: [{targets: [%q]}]}]
spend_logs: [{name: litellm, dsn: "postgres://kvwatch:hunter2@%s/litellm"}]
receivers: [{name: terminal, terminal_configs: [{}]}]
`, address, address))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	rounds := make(chan collector.CallRound, 1)
	in, err := newIntake(config, func(context.Context, *collector.Round) {}, func(r *collector.CallRound) { rounds <- *r }, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- in.run(ctx) }()
	round := <-rounds
	targets := in.targets()
	config.SpendLogs = nil
	if err := in.reload(config); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if round.State != collector.StateDown || !strings.Contains(round.Reason, "refused the connection") {
		t.Errorf("round %+v", round)
	}
	if len(targets) != 2 || targets[0].Job != "spend_logs" || targets[0].Instance != "litellm" || targets[0].State != collector.StateDown || targets[0].URL != "postgres://"+address+"/litellm" {
		t.Errorf("targets %+v", targets)
	}
	if all := fmt.Sprintf("%+v %+v %s", targets, round, &log); strings.Contains(all, "hunter2") {
		t.Errorf("the password is told: %s", all)
	}
	if got := in.targets(); len(got) != 1 {
		t.Errorf("after a reload without spend_logs: %+v", got)
	}
}

func TestSpendLogsErrorsHaveTheirPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"spend_logs: [{}]":                                   "kvwatch.yml:2:1: spend_logs: dsn is missing",
		"spend_logs:\n  - dsn: x\n    intervall: 5s":         `kvwatch.yml:4:5: spend_logs: unknown key "intervall"`,
		"spend_logs: [{dsn: x, name: a}, {dsn: y, name: a}]": `"a" is used twice`,
	} {
		_, err := parseConfig("kvwatch.yml", []byte("scrape_configs: [{job_name: vllm, static_configs: [{targets: [a]}]}]\n"+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}
