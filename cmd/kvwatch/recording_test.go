package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"kvwatch/collector"
	"kvwatch/collector/history"
	"kvwatch/rules"
)

// The recording is half an hour of two real vLLM engines behind a real LiteLLM;
// its README names what happens in each phase, and the expected ratios were
// worked out from the pages by another program.
const testdata = "../../collector/testdata/"

// step is the recording's scrape interval.
const step = 5 * time.Second

// pipeline is the daemon's stages without its clocks: history and rules, fed by
// a recording, judged every five seconds of its time.
type pipeline struct {
	store    *history.Store
	engine   *rules.Engine
	alerts   map[string][]rules.Alert // by name: each incident once, as it was last seen
	seen     map[string]int
	onTick   func(now time.Time)
	dispatch func(ctx context.Context, now time.Time, alerts []rules.Alert)
}

func newPipeline(t *testing.T, overrides map[string]rules.Override) *pipeline {
	t.Helper()
	store, err := history.Open(history.Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &pipeline{store: store, alerts: map[string][]rules.Alert{}, seen: map[string]int{}}
	p.engine, err = rules.New(rules.Options{
		Rules: overrides, ScrapeInterval: step, Append: store.Append, Dispatch: p.keep, ExternalURL: "http://kvwatch:14600",
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// keep collects each incident once, in its newest form.
func (p *pipeline) keep(ctx context.Context, now time.Time, alerts []rules.Alert) {
	for _, a := range alerts {
		key := a.Key() + a.FiredAt.String()
		i, ok := p.seen[key]
		if !ok {
			i = len(p.alerts[a.Name])
			p.seen[key] = i
			p.alerts[a.Name] = append(p.alerts[a.Name], a)
		}
		p.alerts[a.Name][i] = a
	}
	if p.dispatch != nil {
		p.dispatch(ctx, now, alerts)
	}
}

// replay feeds the recording; rules are evaluated one millisecond before every
// fifth second, so that a window of one minute is a minute of the clock.
func (p *pipeline) replay(t *testing.T, path string) {
	t.Helper()
	rec, err := collector.OpenRecording(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close() })
	var next time.Time
	err = rec.Replay(t.Context(), func(r *collector.Round) error {
		if next.IsZero() {
			next = r.Time.Truncate(step).Add(step - time.Millisecond)
		}
		for r.Time.After(next) {
			p.tick(t, next)
			next = next.Add(step)
		}
		if err := p.store.AppendRound(t.Context(), r); err != nil {
			return err
		}
		p.engine.Observe(r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p.tick(t, next)
}

func (p *pipeline) tick(t *testing.T, now time.Time) {
	t.Helper()
	if err := p.engine.Eval(t.Context(), now); err != nil {
		t.Fatalf("evaluating at %s: %v", now, err)
	}
	if p.onTick != nil {
		p.onTick(now)
	}
}

// recorded returns the derived series whose labels hold all of want.
func (p *pipeline) recorded(name string, want map[string]string) (rules.Recorded, bool) {
	for _, r := range p.engine.Recorded() {
		if r.Labels.Get(model.MetricNameLabel) != name {
			continue
		}
		match := true
		for k, v := range want {
			match = match && r.Labels.Get(k) == v
		}
		if match {
			return r, true
		}
	}
	return rules.Recorded{}, false
}

// window is one line of expected_minutes.jsonl or expected_phases.jsonl.
type window struct {
	Target  string   `json:"target"`
	Phase   string   `json:"phase"`
	From    int64    `json:"from"`
	Cached  *float64 `json:"hit_ratio_cached"`
	Prompt  float64  `json:"prompt_tokens"`
	KVMax   float64  `json:"kv_max"`
	Waiting float64  `json:"waiting_max"`
}

func readLines[T any](t *testing.T, name string) []T {
	t.Helper()
	f, err := os.Open(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []T
	for s := bufio.NewScanner(f); s.Scan(); {
		var one T
		if err := json.Unmarshal(s.Bytes(), &one); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, one)
	}
	return all
}

// recordingRules are the settings for a recording of half an hour with small
// prompts: a hundredth of all durations, and fewer prompts to call it recovered.
func recordingRules() map[string]rules.Override {
	all := map[string]rules.Override{}
	for _, a := range rules.Registered().Alerts {
		all[a.Name] = rules.Override{TimeScale: 0.01}
	}
	for _, name := range []string{"PrefixCacheCollapse", "PrefixCacheMissRising"} {
		all[name] = rules.Override{TimeScale: 0.01, Settings: map[string]any{"resolve_prompts": 64}}
	}
	return all
}

func TestRecordingMinutes(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, recordingRules())
	expected := map[int64][]window{}
	for _, w := range readLines[window](t, "expected_minutes.jsonl") {
		expected[w.From] = append(expected[w.From], w)
	}
	shown, absent := 0, 0
	p.onTick = func(now time.Time) {
		from := now.Add(time.Millisecond).Unix() - 60
		var cached, prompt float64
		for _, w := range expected[from] {
			r, ok := p.recorded("kvwatch_prefix_cache_hit_ratio", map[string]string{"instance": w.Target + ":8000", "window": "1m"})
			switch {
			case w.Cached == nil && ok && r.Known:
				t.Errorf("%s minute %d: shows %g where there were no prompts", w.Target, from, r.Value)
			case ok && r.Known:
				shown++
				if math.Abs(r.Value-*w.Cached) > 0.00006 {
					t.Errorf("%s minute %d: hit ratio %.5f, expected %.4f", w.Target, from, r.Value, *w.Cached)
				}
			default:
				absent++
				if ok && r.Reason == "" {
					t.Errorf("%s minute %d: absent without a reason", w.Target, from)
				}
				if w.Prompt > 5*3100 {
					t.Errorf("%s minute %d: absent (%s) with %.0f prompt tokens", w.Target, from, r.Reason, w.Prompt)
				}
			}
			if w.Cached != nil {
				cached += *w.Cached * w.Prompt
				prompt += w.Prompt
			}
		}
		if r, ok := p.recorded("kvwatch_pool_prefix_cache_hit_ratio", map[string]string{"window": "1m"}); ok && r.Known && prompt > 0 {
			if want := cached / prompt; math.Abs(r.Value-want) > 0.0001 {
				t.Errorf("pool minute %d: hit ratio %.5f, expected %.5f", from, r.Value, want)
			}
		}
	}
	p.replay(t, testdata+"recording.tar.zst")
	t.Logf("%d engine minutes shown and equal, %d absent for want of evidence", shown, absent)
	if shown < 40 {
		t.Errorf("only %d engine minutes show a ratio", shown)
	}
}

func TestRecordingAlerts(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, recordingRules())
	p.replay(t, testdata+"recording.tar.zst")

	type phase struct {
		T     float64 `json:"t"`
		Phase string  `json:"phase"`
	}
	phases := readLines[phase](t, "phases.jsonl")
	at := func(when time.Time) (string, time.Duration) {
		name, since := "", time.Duration(0)
		for _, ph := range phases {
			if start := time.UnixMilli(int64(ph.T * 1000)); !when.Before(start) {
				name, since = ph.Phase, when.Sub(start)
			}
		}
		return name, since
	}
	for name, all := range p.alerts {
		for _, a := range all {
			in, since := at(a.FiredAt)
			out, until := at(a.ResolvedAt)
			t.Logf("%s %v: fired %s +%.0fs, resolved %s +%.0fs; %s", name, a.Labels, in, since.Seconds(), out, until.Seconds(), a.Annotations["summary"])
		}
	}
	for _, name := range []string{"PrefixCacheMissRising", "PrefixCacheCollapse"} {
		var fired, resolved []string
		for _, a := range p.alerts[name] {
			in, _ := at(a.FiredAt)
			out, _ := at(a.ResolvedAt)
			fired, resolved = append(fired, in), append(resolved, out)
		}
		if got, want := fired, []string{"working_set", "broken_prefix"}; !slices.Equal(got, want) {
			t.Errorf("%s fired in %v, expected %v", name, got, want)
		}
		if got, want := resolved, []string{"calm", "recover2"}; !slices.Equal(got, want) {
			t.Errorf("%s resolved in %v, expected %v", name, got, want)
		}
	}
	if len(p.alerts["QueueGrowing"]) == 0 {
		t.Error("QueueGrowing never fired; it must in kv_pressure")
	}
	if len(p.alerts["TargetDown"]) == 0 {
		t.Error("TargetDown never fired; engine b was away for five minutes")
	}
}
