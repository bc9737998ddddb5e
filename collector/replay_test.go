package collector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

// writeRecording makes a directory of files.
func writeRecording(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pageOfStart is a page of an engine that began at a time, in Unix seconds.
func pageOfStart(running, start int) string {
	return smallPage(running) + fmt.Sprintf("process_start_time_seconds %d\n", start)
}

// twoEngines is a recording of ten seconds.
func twoEngines(t *testing.T) string {
	t.Helper()
	return writeRecording(t, map[string]string{
		"a/1000000.prom": pageOfStart(1, 900), "a/1005000.prom": pageOfStart(2, 900), "a/1010000.down": "timeout: too slow",
		"b/1002000.prom": smallPage(7),
		"targets.yml":    "a: {job: vllm, instance: 'engine-a:8000', source: vllm}",
	})
}

// listener keeps rounds that may come from several goroutines.
type listener struct {
	mu     sync.Mutex
	rounds []kept
	more   chan struct{}
}

func newListener() *listener { return &listener{more: make(chan struct{}, 1000)} }

func (k *listener) sink(_ context.Context, r *Round) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rounds = append(k.rounds, keep(r))
	k.more <- struct{}{}
}

// wait returns the first n rounds once they are there.
func (k *listener) wait(t *testing.T, n int) []kept {
	t.Helper()
	limit := time.After(time.Minute)
	for range n {
		select {
		case <-k.more:
		case <-limit:
			t.Fatalf("%d rounds, want %d", len(k.rounds), n)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.rounds)
}

// until waits for a round of the collector of which holds is true.
func (k *listener) until(t *testing.T, what string, c *Collector, holds func(r kept) bool) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		k.mu.Lock()
		found := slices.ContainsFunc(k.rounds, holds)
		rounds := len(k.rounds)
		k.mu.Unlock()
		if found {
			return
		}
		select {
		case <-k.more:
		case <-limit:
			t.Fatalf("%s: never in %d rounds; targets %+v", what, rounds, c.Targets())
		}
	}
}

func replayOf(recordings ...RecordingConfig) []ScrapeConfig {
	c := DefaultScrapeConfig()
	c.JobName, c.Source, c.Recordings = "incident", SourceRecording, recordings
	c.Gateway.Workers = 2
	return []ScrapeConfig{c}
}

func newTestReplay(t *testing.T, k *listener, scrapes []ScrapeConfig) *Replay {
	t.Helper()
	r, err := NewReplay(ReplayOptions{Scrapes: scrapes, Sink: k.sink})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestCatchUp(t *testing.T) {
	t.Parallel()
	var story []string
	now := at(0)
	sink := func(_ context.Context, r *Round) {
		k := keep(r)
		line := fmt.Sprintf("%s %s/%s %s", r.Time.Sub(now), r.Target.Labels.Get(model.JobLabel), r.Target.Labels.Get(model.InstanceLabel), r.State)
		for name, v := range k.values {
			if strings.Contains(name, ProcessStart) {
				line += fmt.Sprintf(", began %s", time.UnixMilli(int64(v*1000)).Sub(now))
			}
		}
		story = append(story, line)
	}
	r, err := NewReplay(ReplayOptions{Scrapes: replayOf(RecordingConfig{Path: twoEngines(t)}), Sink: sink})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.CatchUp(t.Context(), now, 4*time.Second, func(at time.Time) error {
		story = append(story, fmt.Sprintf("%s tick", at.Sub(now)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"-10s vllm/engine-a:8000 up, began -1m50s",
		"-8s incident/b up",
		"-6s tick",
		"-5s vllm/engine-a:8000 up, began -1m50s",
		"-2s tick",
		"0s vllm/engine-a:8000 timeout",
		"0s tick",
	}
	if !slices.Equal(story, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(story, "\n"), strings.Join(want, "\n"))
	}
	targets := r.Targets()
	if len(targets) != 2 || targets[0].State != StateUp || targets[1].State != StateTimeout || targets[1].Reason != "too slow" || targets[1].URL != "recording:a" {
		t.Errorf("targets %+v", targets)
	}
	failed := errors.New("stop")
	if err := r.CatchUp(t.Context(), now, time.Second, func(time.Time) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("a tick's error became %v", err)
	}
}

// TestCatchUpGap: in a gap of weeks the clock goes on faster, once nothing is
// left that the rules look at, and is exact again when the next page comes.
func TestCatchUpGap(t *testing.T) {
	t.Parallel()
	const gap = 30 * 24 * time.Hour
	path := writeRecording(t, map[string]string{
		"a/1000000.prom": smallPage(1), fmt.Sprintf("a/%d.prom", 1_000_000+gap.Milliseconds()): smallPage(2),
	})
	r := newTestReplay(t, newListener(), replayOf(RecordingConfig{Path: path}))
	var ticks []time.Time
	if err := r.CatchUp(t.Context(), at(0), 7*time.Second, func(at time.Time) error {
		ticks = append(ticks, at)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	begin := at(0).Add(-gap)
	for i, tick := range ticks[:len(ticks)-1] {
		since, last := tick.Sub(begin), time.Duration(0)
		if i > 0 {
			last = ticks[i-1].Sub(begin)
		}
		if step := since - last; since%(7*time.Second) != 0 || since <= quietAfter && step != 7*time.Second || step > quietStep {
			t.Fatalf("tick %d is %s after the first page, %s after the one before", i, since, step)
		}
	}
	if last := ticks[len(ticks)-2]; at(0).Sub(last) > 7*time.Second || len(ticks) > int(gap/(50*time.Second)) {
		t.Errorf("%d ticks, the last before the page %s before it", len(ticks), at(0).Sub(last))
	}
}

func TestPlay(t *testing.T) {
	t.Parallel()
	k := newListener()
	r := newTestReplay(t, k, replayOf(RecordingConfig{Path: twoEngines(t), Speed: 100}))
	r.linger = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	began, done := time.Now(), make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	rounds := k.wait(t, 6)
	if first := rounds[0].Time; first.Before(began) || first.Sub(began) > 10*time.Second {
		t.Errorf("the first page is of %s, after %s", first, first.Sub(began))
	}
	for i, want := range []time.Duration{0, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond} {
		if since := rounds[i].Time.Sub(rounds[0].Time); since != want {
			t.Errorf("page %d comes after %s, want %s", i, since, want)
		}
	}
	for _, gone := range rounds[4:] {
		if gone.State != StateUnknown || len(gone.stale) < 1 {
			t.Errorf("the last round of a target is %s with %d stale series", gone.State, len(gone.stale))
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestReplayReload(t *testing.T) {
	t.Parallel()
	k := newListener()
	slow, other := RecordingConfig{Path: twoEngines(t), Speed: 1e-6}, RecordingConfig{Path: writeRecording(t, map[string]string{"c/1.prom": smallPage(1)}), Speed: 1}
	r := newTestReplay(t, k, replayOf(slow))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	k.wait(t, 1)
	for _, tt := range []struct {
		want    string
		scrapes []ScrapeConfig
	}{
		{"speed 0", replayOf(slow, RecordingConfig{Path: other.Path})},
		{"no such file", replayOf(slow, RecordingConfig{Path: "nowhere", Speed: 1})},
		{"named twice", replayOf(slow, slow)},
		{`both hold instance "engine-a:8000"`, replayOf(slow, RecordingConfig{Path: slow.Path, Speed: 1})},
	} {
		if err := r.Reload(tt.scrapes); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("reload gave %v, want %q", err, tt.want)
		}
	}
	if err := r.Reload(replayOf(slow, other)); err != nil {
		t.Fatal(err)
	}
	if rounds := k.wait(t, 1); rounds[1].Target.Labels.Get(model.InstanceLabel) != "c" {
		t.Errorf("the one that stays began anew: %+v", rounds[1].Round)
	}
	if err := r.Reload(replayOf(other)); err != nil {
		t.Fatal(err)
	}
	if rounds := k.wait(t, 2); rounds[2].State != StateUnknown || rounds[3].State != StateUnknown {
		t.Errorf("the one that went left %+v", rounds[2:])
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestReplayLeavesOutWhatIsScraped(t *testing.T) {
	t.Parallel()
	k := newListener()
	var logs bytes.Buffer
	r, err := NewReplay(ReplayOptions{
		Scrapes: replayOf(RecordingConfig{Path: twoEngines(t)}), Sink: k.sink, Logger: slog.New(slog.NewTextHandler(&logs, nil)),
		Taken: func(job, instance string) bool { return job == "vllm" && instance == "engine-a:8000" },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.CatchUp(t.Context(), at(0), time.Minute, func(time.Time) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if len(k.rounds) != 1 || k.rounds[0].Target.Labels.Get(model.InstanceLabel) != "b" {
		t.Errorf("rounds %+v", k.rounds)
	}
	if w := r.Targets()[1].Warning; !strings.Contains(w, "is scraped") {
		t.Errorf("warning %q", w)
	}
}

func TestRecordingConfig(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, config, want string }{
		{"the usual", `{job_name: r, source: recording, recordings: [{path: x.tar.zst}, {path: y, speed: 0}]}`, ""},
		{"without source", `{job_name: r, recordings: [{path: x}]}`, `line 1: scrape_configs job "r": recordings needs source: recording`},
		{"without recordings", `{job_name: r, source: recording}`, "recordings is empty"},
		{"with targets", `{job_name: r, source: recording, recordings: [{path: x}], static_configs: [{targets: [a]}]}`, "belong into an entry of their own"},
		{"without path", `{job_name: r, source: recording, recordings: [{speed: 1}]}`, "path is missing"},
		{"a negative speed", `{job_name: r, source: recording, recordings: [{path: x, speed: -1}]}`, "speed must be 0"},
		{"no number", `{job_name: r, source: recording, recordings: [{path: x, speed: .nan}]}`, "speed must be 0"},
		{"a typo", `{job_name: r, source: recording, recordings: [{pth: x}]}`, `unknown key "pth"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, err := decodeFile("scrape_configs: [" + tt.config + "]")
			if err == nil {
				err = CheckConfig(f.Global, f.Scrapes)
			}
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	f, err := decodeFile(`scrape_configs: [{job_name: r, source: recording, recordings: [{path: x}, {path: /y, speed: 0}]}]`)
	if err != nil {
		t.Fatal(err)
	}
	f.Scrapes[0].SetDirectory("/etc/kvwatch")
	if got := f.Scrapes[0].Recordings; got[0] != (RecordingConfig{"/etc/kvwatch/x", 1}) || got[1] != (RecordingConfig{"/y", 0}) {
		t.Errorf("recordings %+v", got)
	}
}
