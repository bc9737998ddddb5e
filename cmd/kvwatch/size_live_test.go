package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
	"kvwatch/collector/history"
	"kvwatch/rules/sizing"
)

// workedHistory is a folder with 26 hours, up to a time, of an engine that takes a
// call a second, of 10 000 prompt tokens with 9 000 cached and 300 of output, for 10 s.
func workedHistory(t *testing.T, to time.Time) string {
	t.Helper()
	dir := t.TempDir()
	store, err := history.Open(history.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]*collector.Series{}
	series := func(name, le string) *collector.Series {
		if known[name+le] == nil {
			b := labels.NewBuilder(labels.FromStrings(model.MetricNameLabel, name, "job", "vllm", "instance", "gone:8000"))
			if name != collector.Up {
				b.Set("engine", "0").Set("model_name", "m").Set("le", le)
			}
			known[name+le] = &collector.Series{Labels: b.Labels()}
		}
		return known[name+le]
	}
	for i := range 26 * 12 {
		n := float64(300 * i)
		samples := []collector.Sample{
			{Series: series(collector.Up, ""), Value: 1},
			{Series: series(collector.VLLMRunning, ""), Value: 10},
			{Series: series(collector.VLLMPromptTokens, ""), Value: 10_000 * n},
			{Series: series(collector.VLLMPromptCached, ""), Value: 9000 * n},
			{Series: series(collector.VLLMGenerationTokens, ""), Value: 300 * n},
		}
		for name, value := range map[string]float64{collector.VLLMTTFT: 0.4, collector.VLLMQueueTime: 0.1, collector.VLLMGenerationHist: 300, collector.VLLMPromptHist: 10_000, collector.VLLMTPOT: 0.02} {
			samples = append(samples, collector.Sample{Series: series(name+"_sum", ""), Value: value * n}, collector.Sample{Series: series(name+"_count", ""), Value: n})
			for _, le := range []float64{0.01, 0.03, 0.5, 1, 250, 350, 9000, 11_000} {
				v := 0.0
				if value <= le {
					v = n
				}
				samples = append(samples, collector.Sample{Series: series(name+"_bucket", fmt.Sprint(le)), Value: v})
			}
		}
		if err := store.Append(t.Context(), to.Add(time.Duration(i-26*12)*sizing.SlotLength), samples, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// wrongPlan plans 40 people where 100 work, and fits else.
const wrongPlan = `plan: agents
owner: platform
pool: vllm/m
date: 2026-01-01
slo: {ttft_p95_ms: 1000}
workload: {people: 40, calls_per_session: 36, session_s: 3600, prompt_tokens_p50: 10000, output_tokens_p50: 300, hit_ratio: 0.9, duty_cycle: 0.1}
engine: {concurrency: 5}
hardware: {replicas: 1, gpus_per_node: 4}
cost: {currency: EUR, node_capex: 160000, years: 4, node_opex_per_year: 40000}
`

// liveWords are what each way of asking says of it.
var liveWords = []string{
	"drifted", "workload.people", "2.50 times", "holds", "workload.hit_ratio", "cannot tell", "workload.session_s",
	"replicas", "Passive knee: ", "Growth is judged once a week", "Cost of a million output tokens within the SLO, in EUR",
}

// checkWritten holds a plan that was written anew to what was measured.
func checkWritten(t *testing.T, text, day string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "written.yaml")
	writeFile(t, file, text)
	p, err := loadPlan(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if p.Date != day || p.Owner != "platform" || *p.Workload.People < 98 || *p.Workload.People > 102 || *p.SLO.TTFTP95Ms != 1000 || *p.Hardware.Replicas != 1 {
		t.Errorf("written anew:\n%s", text)
	}
}

// TestSizeAgainstHistory: size holds a plan against a folder, and prints it anew.
func TestSizeAgainstHistory(t *testing.T) {
	t.Parallel()
	to := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	plan := filepath.Join(t.TempDir(), "agents.yaml")
	writeFile(t, plan, wrongPlan)
	o := sizeOptions{file: plan, storage: workedHistory(t, to), output: "text", window: defaultPlanWindow}
	run := func(o sizeOptions) (string, error) {
		var out bytes.Buffer
		err := o.run(t.Context(), &out, to.Add(time.Hour))
		return out.String(), err
	}
	text, err := run(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range append(liveWords, "2026-11-28T10:0", "hours that pages cover)") {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	o.output = "json"
	text, err = run(o)
	var live sizing.Live
	if err := errors.Join(err, json.Unmarshal([]byte(text), &live)); err != nil || live.Required["replicas"] != 2 || live.Before["replicas"] != 1 || live.Assumptions[0].Name != "workload.people" {
		t.Errorf("%v: %s", err, text)
	}
	o.writePlan = true
	if text, err = run(o); err != nil {
		t.Fatal(err)
	}
	checkWritten(t, text, "2026-11-29")

	// What if the plan were right.
	o.writePlan, o.output, o.set = false, "text", []string{"workload.people=100"}
	if text, err = run(o); err != nil || strings.Contains(text, "drifted") {
		t.Errorf("with the right number of people: %v\n%s", err, text)
	}
	o.set = []string{"pool=chat"}
	if _, err = run(o); err == nil || !strings.Contains(err.Error(), `history has no pool "chat": it has vllm/m; give the pools with --config.file`) {
		t.Errorf("of a pool that history does not have: %v", err)
	}
	o.set, o.url = nil, "http://127.0.0.1:1"
	if _, err = run(o); err == nil || !strings.Contains(err.Error(), "leave out --set and --storage.path") {
		t.Errorf("with both: %v", err)
	}
}

// TestPlansOfTheDaemon: the daemon holds its plans against its history at the start
// and after a reload, and tells of them by series, API and size.
func TestPlansOfTheDaemon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, plan := filepath.Join(dir, "kvwatch.yml"), filepath.Join(dir, "agents.yaml")
	writeFile(t, config, "scrape_configs: [{job_name: vllm, static_configs: [{targets: [\"127.0.0.1:1\"]}]}]\nplans: [\"*.yaml\"]\nschedules: {sizing: \"@daily\"}\n")
	writeFile(t, plan, wrongPlan)
	p := runDaemon(t, config, workedHistory(t, time.Now()))
	says := func(path string, words ...string) func() error {
		return func() error {
			body, err := p.get(path)
			for _, w := range words {
				if err == nil && !strings.Contains(body, w) {
					err = fmt.Errorf("%s does not say %s: %s", path, w, body)
				}
			}
			return err
		}
	}
	p.eventually(t, "the API has the plan", says("/api/v1/kvwatch/plans", `"plan":"agents"`, `"assumption":"workload.people"`, `"verdict":"drifted"`))
	p.eventually(t, "the series are there", says("/metrics",
		`kvwatch_plan_required{plan="agents",resource="replicas"} 2`, `kvwatch_plan_planned{plan="agents",resource="replicas"} 1`,
		`kvwatch_plan_assumption_ratio{assumption="workload.people",plan="agents"} 2.5`, `kvwatch_cost_per_million_tokens{basis="total",currency="EUR",plan="agents"}`))
	p.eventually(t, "the alerts are pending", says("/api/v1/alerts", "PlanDrift", "CapacityShortfall"))

	ask := func(o sizeOptions) string {
		t.Helper()
		var out bytes.Buffer
		o.file, o.url = plan, p.url
		if err := o.run(t.Context(), &out, time.Now()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	text := ask(sizeOptions{output: "text"})
	for _, want := range liveWords {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	checkWritten(t, ask(sizeOptions{writePlan: true}), time.Now().Format(time.DateOnly))

	writeFile(t, plan, strings.Replace(wrongPlan, "people: 40", "people: 100", 1))
	p.signal(t, syscall.SIGHUP)
	p.eventually(t, "the changed plan is held against history", func() error {
		body, err := p.get("/api/v1/kvwatch/plans")
		if err == nil && (strings.Contains(body, `"verdict":"drifted"`) || !strings.Contains(body, `"planned":100,`)) {
			err = errors.New("it still drifts")
		}
		return err
	})
	writeFile(t, plan, "pool: vllm/m\npeople: 3\n")
	p.signal(t, syscall.SIGHUP)
	p.eventually(t, "a plan that is wrong refuses the reload", says("/metrics", "kvwatch_config_last_reload_successful 0"))
	if err := says("/api/v1/kvwatch/plans", `"plan":"agents"`)(); err != nil {
		t.Error(err)
	}
}
