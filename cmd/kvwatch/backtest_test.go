package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
	"kvwatch/collector/history"
	"kvwatch/rules"
)

// labSets are what the rules of a recording of half an hour need, as in
// recordingRules.
var labSets = []string{"PrefixCacheCollapse.time_scale=0.01", "PrefixCacheCollapse.resolve_prompts=64"}

// backtested runs the command and reads its JSON; told is what went to people.
func backtested(t *testing.T, o backtestOptions) (out backtestOutput, told string, err error) {
	t.Helper()
	var stdout, notes bytes.Buffer
	o.output, o.now, o.progress, o.notes = "json", time.Now(), io.Discard, &notes
	if err = o.run(t.Context(), &stdout); err == nil {
		decoder := json.NewDecoder(&stdout)
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&out)
	}
	return out, notes.String(), err
}

// recordedPhases names the phase of the recording that a moment lies in.
func recordedPhases(t *testing.T) func(time.Time) string {
	t.Helper()
	type phase struct {
		T     float64 `json:"t"`
		Phase string  `json:"phase"`
	}
	all := readLines[phase](t, "phases.jsonl")
	return func(at time.Time) string {
		name := ""
		for _, p := range all {
			if !at.Before(time.UnixMilli(int64(p.T * 1000))) {
				name = p.Phase
			}
		}
		return name
	}
}

// checkIncidents holds D1 to the phases in which it must fire, and to silence
// in all others.
func checkIncidents(t *testing.T, out backtestOutput) {
	t.Helper()
	phase := recordedPhases(t)
	for _, name := range []string{"PrefixCacheMissRising", "PrefixCacheCollapse"} {
		var got []string
		for _, a := range out.Alerts {
			if a.Name != name {
				continue
			}
			over := "never"
			if a.ResolvedAt != nil {
				over = phase(*a.ResolvedAt)
			}
			got = append(got, phase(a.FiredAt)+" to "+over)
			if a.Cause == nil || a.Evidence.Seen == "" || a.Evidence.Next == "" || !a.ActiveAt.Before(a.FiredAt) {
				t.Errorf("%s lacks a cause, evidence or its onset: %+v", name, a)
			}
		}
		if want := []string{"working_set to calm", "broken_prefix to recover2"}; !slices.Equal(got, want) {
			t.Errorf("%s fired in %v, want %v", name, got, want)
		}
	}
	if !slices.ContainsFunc(out.Alerts, func(a backtestAlert) bool { return a.Name == "TargetDown" && a.Labels["instance"] == "engine-b:8000" }) {
		t.Error("TargetDown of engine b is missing; it was away for five minutes")
	}
}

// TestBacktestRealEngines runs the rules over half an hour of real engines by
// every way in which a history can come.
func TestBacktestRealEngines(t *testing.T) {
	t.Parallel()
	const archive = testdata + "recording.tar.zst"
	first, last := recordedSpan(t, archive)
	t.Run("recording", func(t *testing.T) {
		t.Parallel()
		out, _, err := backtested(t, backtestOptions{recording: archive, sets: labSets})
		if err != nil {
			t.Fatal(err)
		}
		checkIncidents(t, out)
		if !out.From.Equal(first) || !out.To.Equal(last) || out.Samples < 200_000 {
			t.Errorf("%s to %s, %d samples", out.From, out.To, out.Samples)
		}
		if out.WithoutSet == nil || !slices.Equal(out.WithoutSet.Set, labSets) {
			t.Fatalf("no comparison: %+v", out.WithoutSet)
		}
		for _, a := range out.WithoutSet.Alerts {
			if strings.HasPrefix(a.Name, "PrefixCache") {
				t.Errorf("%s fired without time_scale: half an hour is too short to learn", a.Name)
			}
		}
	})
	t.Run("storage of kvwatch", func(t *testing.T) {
		t.Parallel()
		file := labConfig(t, "pools: [{name: agents, jobs: [vllm]}]")
		out, _, err := backtested(t, backtestOptions{storage: recordedStorage(t, archive), configFile: file})
		if err != nil {
			t.Fatal(err)
		}
		checkIncidents(t, out)
		if out.WithoutSet != nil {
			t.Error("a comparison with nothing")
		}
		if got := out.Alerts[0].Labels["pool"]; got != "agents" {
			t.Errorf("pool %q", got)
		}
	})

	text := openMetrics(t, archive)
	t.Run("storage of Prometheus", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "promtool", "tsdb", "create-blocks-from", "openmetrics", writeFile(t, filepath.Join(t.TempDir(), "history"), text), dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("promtool: %v\n%s", err, out)
		}
		before := fileNames(t, dir)
		out, _, err := backtested(t, backtestOptions{storage: dir, configFile: labConfig(t, "")})
		if err != nil {
			t.Fatal(err)
		}
		checkIncidents(t, out)
		if after := fileNames(t, dir); !slices.Equal(before, after) {
			t.Errorf("the storage was changed: %v, before %v", after, before)
		}
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		s := startPrometheus(t, "scrape_configs: []", text)
		file := labConfig(t, fmt.Sprintf(`prometheus_sources: [{url: %q, match: ['{__name__=~"(vllm:|litellm_).+",job!="node"}']}]`, s.url))
		out, _, err := backtested(t, backtestOptions{
			server: s.url, configFile: file, from: utc(first.Add(-time.Minute)), to: fmt.Sprint(last.Add(time.Minute).Unix()),
		})
		if err != nil {
			t.Fatal(err)
		}
		checkIncidents(t, out)
		if !out.To.Equal(last.Add(time.Minute).Truncate(time.Second)) {
			t.Errorf("ends %s", out.To)
		}
	})
}

// labConfig is a configuration with the rules of labSets, and one line more.
func labConfig(t *testing.T, line string) string {
	t.Helper()
	return writeFile(t, filepath.Join(t.TempDir(), "kvwatch.yml"), `
global: {scrape_interval: 5s}
rules: {PrefixCacheCollapse: {time_scale: 0.01, resolve_prompts: 64}}
`+line)
}

func recordedSpan(t *testing.T, archive string) (first, last time.Time) {
	t.Helper()
	rec, err := collector.OpenRecording(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	return rec.Span()
}

// recordedStorage is a storage that kvwatch wrote of a recording.
func recordedStorage(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	store, err := history.Open(history.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := collector.OpenRecording(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	err = rec.Replay(t.Context(), func(r *collector.Round) error { return store.AppendRound(t.Context(), r) })
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// openMetrics is a recording as a Prometheus would have stored it: the pages'
// own names and labels, those of the target and one of discovery's, and a
// target that is no LLM server.
func openMetrics(t *testing.T, archive string) string {
	t.Helper()
	rec, err := collector.OpenRecording(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	wanted := map[string]bool{collector.ProcessStart: true}
	for _, name := range collector.StoredNames(rules.Reads()...) {
		wanted[name] = true
	}
	var b strings.Builder
	for p := range rec.Pages() {
		own := fmt.Sprintf("job=%q,instance=%q,namespace=\"models\"", p.Target.Labels.Get(model.JobLabel), p.Target.Labels.Get(model.InstanceLabel))
		at := float64(p.Time.UnixMilli()) / 1000
		up := 1
		if p.Down {
			up = 0
		}
		fmt.Fprintf(&b, "up{%s} %d %.3f\n", own, up, at)
		if p.Down {
			continue
		}
		for line := range strings.Lines(pageText(t, p)) {
			end := strings.IndexAny(line, "{ ")
			if end <= 0 || !wanted[line[:end]] {
				continue
			}
			rest, _ := strings.CutPrefix(strings.TrimSpace(line[end:]), "{")
			if line[end] == ' ' {
				fmt.Fprintf(&b, "%s{%s} %s %.3f\n", line[:end], own, rest, at)
				continue
			}
			fmt.Fprintf(&b, "%s{%s,%s %.3f\n", line[:end], own, rest, at)
		}
	}
	fmt.Fprintf(&b, "node_load1{job=\"node\",instance=\"host\"} 1 %.3f\n# EOF\n", 1795984000.0)
	return b.String()
}

func pageText(t *testing.T, p collector.Page) string {
	t.Helper()
	f, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func fileNames(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestBacktestCallsFeedSessions gives the rules the rows of the gateway's table
// beside the recording.
func TestBacktestCallsFeedSessions(t *testing.T) {
	t.Parallel()
	config, err := backtestConfig("")
	if err != nil {
		t.Fatal(err)
	}
	past, err := openPastRecording(testdata+"recording.tar.zst", config)
	if err != nil {
		t.Fatal(err)
	}
	defer past.Close()
	first, _ := recordedSpan(t, testdata+"recording.tar.zst")
	o := backtestOptions{spendLogs: testdata + "spendlogs.csv.zst", to: utc(first.Add(10 * time.Minute)), progress: io.Discard, now: time.Now()}
	span, err := o.span(t.Context(), past)
	if err != nil {
		t.Fatal(err)
	}
	test, err := o.newBacktest(config, nil, span)
	if err != nil {
		t.Fatal(err)
	}
	if n := test.calls.Len(); n < 200 || n > 1000 {
		t.Errorf("%d of the 2261 calls ended in the first ten minutes", n)
	}
	recording, err := rules.New(rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	test.variants[0].engine = recording // derives what the calls say, too
	if err := test.run(t.Context(), past); err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, r := range recording.Recorded() {
		if name := r.Labels.Get(model.MetricNameLabel); r.Known && strings.HasPrefix(name, "kvwatch_pool_session_") {
			found[name+r.Labels.Get("position")] = r.Value
		}
	}
	// Turns are too few yet to be told from the rest.
	if r := found["kvwatch_pool_session_hit_ratiowithin_turn"]; r < 0.5 || r > 1 || found["kvwatch_pool_session_coverage_ratio"] < 0.9 {
		t.Errorf("of sessions only %v is told", found)
	}
	if notes := strings.Join(test.notes(), "\n"); strings.Contains(notes, "spend logs") {
		t.Error(notes)
	}
}

// TestBacktestSpendLogsAlerts holds the alerts that rest on the rows to the
// phases in which they must fire. A row is told of over a minute after its call,
// so that what collapses at the end of working_set is told in calm.
func TestBacktestSpendLogsAlerts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kvwatch.yml")
	if err := os.WriteFile(file, []byte(`pools: [{name: agents, jobs: [vllm], turn_gap: 4s}]
rules:
  SessionAffinityLost: {time_scale: 0.01, recovery_prompts: 32}
  PromptPrefixChanged: {time_scale: 0.01, recovery_prompts: 32}
  TurnBoundaryCollapse: {time_scale: 0.01, window: 400m}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, told, err := backtested(t, backtestOptions{recording: testdata + "recording.tar.zst", spendLogs: testdata + "spendlogs.csv.zst", configFile: file})
	if err != nil {
		t.Fatal(err)
	}
	phase := recordedPhases(t)
	var got []string
	for _, a := range out.Alerts {
		if a.Severity == rules.SeverityWarning && slices.Contains([]string{"SessionAffinityLost", "PromptPrefixChanged", "TurnBoundaryCollapse"}, a.Name) {
			over := "never"
			if a.ResolvedAt != nil {
				over = phase(*a.ResolvedAt)
			}
			got = append(got, fmt.Sprintf("%s %s to %s: %s", a.Name, phase(a.FiredAt), over, *a.Cause))
		}
	}
	want := []string{
		"SessionAffinityLost affinity_loss to recover: routing",
		"TurnBoundaryCollapse calm to kv_pressure: residency",
		"PromptPrefixChanged broken_prefix to recover2: content",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q; %s", got, want, told)
	}
}

// quietStorage is a storage with a vLLM engine without any trouble and a job of
// another kind, scraped every 15 seconds at the given times.
func quietStorage(t *testing.T, times ...time.Time) string {
	t.Helper()
	dir := t.TempDir()
	store, err := history.Open(history.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	reader := collector.NewSavedReader(collector.Target{Labels: labels.FromStrings(model.JobLabel, "vllm", model.InstanceLabel, "vllm-0:8000")})
	page := gunzip(t, testdata+"vllm-0.24.0-idle.prom.gz")
	foreign := collector.Sample{Series: &collector.Series{Labels: labels.FromStrings(model.MetricNameLabel, "node_load1", model.JobLabel, "node", model.InstanceLabel, "host")}}
	for _, at := range times {
		round, _ := reader.Page(bytes.NewReader(page), at)
		if err := store.Append(t.Context(), at, append(round.Samples, foreign), nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(times) == 0 {
		if err := store.Append(t.Context(), benchStart, []collector.Sample{foreign}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// every lists the times of scrapes.
func every(step time.Duration, from time.Time, n int) []time.Time {
	all := make([]time.Time, n)
	for i := range all {
		all[i] = from.Add(time.Duration(i) * step)
	}
	return all
}

func TestBacktestHoles(t *testing.T) {
	t.Parallel()
	times := append(every(15*time.Second, benchStart, 40), every(15*time.Second, benchStart.Add(3*time.Hour), 40)...)
	out, told, err := backtested(t, backtestOptions{storage: quietStorage(t, times...)})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(told, "nothing was scraped from 2026-11-02T00:09:45Z to 2026-11-02T03:00:00Z (2 h 50 min)") {
		t.Errorf("the hole is not told: %s", told)
	}
	if len(out.Alerts) > 0 || !out.From.Equal(benchStart) || !out.To.Equal(times[len(times)-1]) {
		t.Errorf("%s to %s: %+v", out.From, out.To, out.Alerts)
	}
	if !strings.Contains(told, "still learning") {
		t.Errorf("that the cache detector was still learning is not told: %s", told)
	}
}

func TestBacktestRefuses(t *testing.T) {
	t.Parallel()
	storage := quietStorage(t, every(15*time.Second, benchStart, 10)...)
	foreign := quietStorage(t)
	missing := filepath.Join(t.TempDir(), "nowhere")
	nothing := freeAddress(t)
	csv := writeFile(t, filepath.Join(t.TempDir(), "calls.csv"), "request_id,startTime\na,b\n")
	for name, tc := range map[string]struct {
		o    backtestOptions
		want string
	}{
		"no history":          {backtestOptions{}, "say what to read: --storage.path, --recording or --prometheus.url"},
		"two histories":       {backtestOptions{storage: storage, server: "http://a"}, "--prometheus.url and --storage.path are given"},
		"no such storage":     {backtestOptions{storage: missing}, "does not exist"},
		"an empty folder":     {backtestOptions{storage: t.TempDir()}, "holds no history"},
		"foreign series":      {backtestOptions{storage: foreign}, "holds no series of vLLM or LiteLLM"},
		"no such recording":   {backtestOptions{recording: missing}, "no such file"},
		"not a recording":     {backtestOptions{recording: t.TempDir()}, "no pages"},
		"an empty range":      {backtestOptions{storage: storage, from: "2026-11-03T00:00:00Z", to: "2026-11-04T00:00:00Z"}, "holds no series of vLLM or LiteLLM between 2026-11-03T00:00:00Z and 2026-11-04T00:00:00Z"},
		"only a lead-in":      {backtestOptions{storage: storage, from: "2026-11-02T12:00:00Z", to: "2026-11-02T13:00:00Z"}, "holds no series of vLLM or LiteLLM between"},
		"the wrong way":       {backtestOptions{storage: storage, from: "2026-11-04T00:00:00Z", to: "2026-11-03T00:00:00Z"}, "is not before --to"},
		"no time":             {backtestOptions{storage: storage, from: "yesterday"}, `--from "yesterday" is no time`},
		"no address":          {backtestOptions{server: "localhost:9090"}, "write http://prometheus:9090"},
		"credentials in it":   {backtestOptions{server: "http://a:hunter2@b"}, "holds user info"},
		"nobody answers":      {backtestOptions{server: "http://" + nothing}, "refused"},
		"no such rule":        {backtestOptions{storage: storage, sets: []string{"Nothing.for=5m"}}, "Nothing is no alert"},
		"no such setting":     {backtestOptions{storage: storage, sets: []string{"TargetDown.kappa=5"}}, "kappa is no setting of this rule"},
		"a bad value":         {backtestOptions{storage: storage, sets: []string{"TargetDown.for=soon"}}, "--set TargetDown.for=soon"},
		"no setting":          {backtestOptions{storage: storage, sets: []string{"TargetDown"}}, "write Rule.key=value"},
		"no configuration":    {backtestOptions{storage: storage, configFile: missing}, "no such file"},
		"too often":           {backtestOptions{storage: storage, interval: time.Millisecond}, "at least 100ms"},
		"no spend logs":       {backtestOptions{storage: storage, spendLogs: missing}, "no such file"},
		"another table":       {backtestOptions{storage: storage, spendLogs: csv}, `there is no column "endTime"`},
		"a server without":    {backtestOptions{server: foreignServer(t)}, "holds no series of vLLM or LiteLLM between"},
		"not a server at all": {backtestOptions{server: notAServer(t)}, "does not answer as Prometheus's query API does"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := backtested(t, tc.o)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v\nwant %s", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Error("the password is told")
			}
		})
	}
}

// foreignServer is a server that knows nothing of what it is asked for.
func foreignServer(t *testing.T) string {
	t.Helper()
	return answering(t, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
}

func notAServer(t *testing.T) string {
	t.Helper()
	return answering(t, "<html>hello</html>")
}

func answering(t *testing.T, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	t.Cleanup(s.Close)
	return s.URL
}

// TestBacktestSpanIsBounded leaves out what lies outside of the range, but
// learns from what lies before it.
func TestBacktestSpanIsBounded(t *testing.T) {
	t.Parallel()
	const archive = testdata + "recording.tar.zst"
	phase := recordedPhases(t)
	first, last := recordedSpan(t, archive)
	from, to := first.Add(25*time.Minute), last.Truncate(time.Second)
	out, _, err := backtested(t, backtestOptions{recording: archive, configFile: labConfig(t, ""), from: from.Format(time.RFC3339Nano), to: fmt.Sprint(to.UnixMilli())})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range out.Alerts {
		if a.Name == "PrefixCacheCollapse" {
			got = append(got, phase(a.FiredAt))
		}
	}
	if want := []string{"broken_prefix"}; !slices.Equal(got, want) || !out.From.Equal(from) || !out.To.Equal(to) {
		t.Errorf("from %s to %s it fired in %v, want %v", out.From, out.To, got, want)
	}
}

func TestParsePast(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"":                     {},
		"30d":                  now.Add(-30 * 24 * time.Hour),
		"1h30m":                now.Add(-90 * time.Minute),
		"2026-11-29T20:24:11Z": time.Date(2026, 11, 29, 20, 24, 11, 0, time.UTC),
		"1795983851":           time.Unix(1795983851, 0),
		"1795983851885":        time.UnixMilli(1795983851885),
	} {
		if got, err := parsePast("--from", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s (%v), want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"d", "-30d", "yesterday", "2026-11-29"} {
		if got, err := parsePast("--to", text, now); err == nil || !strings.Contains(err.Error(), "--to") {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// The schema beside the command is that of its types.
func TestBacktestSchema(t *testing.T) {
	t.Parallel()
	checkSchema(t, "backtest", reflect.TypeFor[backtestOutput]())
}
