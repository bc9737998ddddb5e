package collector

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/common/model"
)

func openReal(t testing.TB) *Recording {
	t.Helper()
	rec, err := OpenRecording("testdata/recording.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close() })
	return rec
}

func TestRealRecording(t *testing.T) {
	t.Parallel()
	rec := openReal(t)
	var targets []string
	for _, target := range rec.Targets() {
		targets = append(targets, target.Labels.String()+" "+target.Source)
	}
	want := []string{
		`{instance="engine-a:8000", job="vllm"} vllm`,
		`{instance="engine-b:8000", job="vllm"} vllm`,
		`{instance="gateway:4000", job="gateway"} litellm`,
	}
	if diff := cmp.Diff(want, targets); diff != "" {
		t.Errorf("targets: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"engine-a", "engine-b", "gateway"}, rec.Folders()); diff != "" {
		t.Errorf("folders: -want +got\n%s", diff)
	}
	states, last := map[State]int{}, time.Time{}
	err := rec.Replay(t.Context(), func(r *Round) error {
		states[r.State]++
		if r.Time.Before(last) {
			t.Errorf("%s comes after %s", r.Time, last)
		}
		last = r.Time
		if up := r.Samples[len(r.Samples)-1]; up.Series.Labels.Get(model.MetricNameLabel) != Up || (up.Value == 1) != (r.State == StateUp) {
			t.Errorf("%s: the last sample is %v", r.State, up)
		}
		if r.State != StateUp && len(r.Samples) != 1 {
			t.Errorf("%s: %d samples", r.State, len(r.Samples))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if states[StateUp] != 1150 || states[StateDown]+states[StateTimeout] != 122 || len(states) != 3 {
		t.Errorf("states %v, want 1150 pages and 122 failures", states)
	}
	if first, end := rec.Span(); !end.Equal(last) || end.Sub(first) < 35*time.Minute {
		t.Errorf("span %s to %s", first, end)
	}
}

// window is a line of expected_phases.jsonl or expected_minutes.jsonl.
type window struct {
	Target   string   `json:"target"`
	Phase    string   `json:"phase"`
	From     float64  `json:"from"`
	To       float64  `json:"to"`
	Pages    int      `json:"pages"`
	Down     int      `json:"down"`
	Cached   *float64 `json:"hit_ratio_cached"`
	Counters *float64 `json:"hit_ratio_counters"`
	Prompt   float64  `json:"prompt_tokens"`
	KVMax    float64  `json:"kv_max"`
	Waiting  float64  `json:"waiting_max"`
}

func readWindows(t *testing.T, name string) []window {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []window
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var w window
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	return all
}

// TestReplayGivesTheTruth holds what is replayed against figures that were
// worked out from the pages by another program.
func TestReplayGivesTheTruth(t *testing.T) {
	t.Parallel()
	type scrape struct {
		at     float64
		up     bool
		values map[string]float64
	}
	scrapes := map[string][]scrape{}
	wanted := map[*Series]string{}
	rec := openReal(t)
	err := rec.Replay(t.Context(), func(r *Round) error {
		s := scrape{at: float64(r.Time.UnixMilli()) / 1000, up: r.State == StateUp, values: map[string]float64{}}
		for _, one := range r.Samples {
			name, seen := wanted[one.Series]
			if !seen {
				name = one.Series.Labels.Get(model.MetricNameLabel)
				if !slices.Contains([]string{VLLMKVUsage, VLLMWaiting, VLLMPromptTokens, VLLMPromptCached, VLLMCacheQueries, VLLMCacheHits}, name) {
					name = ""
				}
				wanted[one.Series] = name
			}
			if name != "" {
				s.values[name] += one.Value
			}
		}
		folder, _, _ := strings.Cut(r.Target.Labels.Get(model.InstanceLabel), ":")
		scrapes[folder] = append(scrapes[folder], s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	windows := readWindows(t, "expected_minutes.jsonl")
	if len(windows) == 0 {
		t.Fatal("no expectations")
	}
	for _, w := range windows {
		if w.To == 0 {
			w.To = w.From + 60
		}
		got := window{Target: w.Target, Phase: w.Phase, From: w.From, To: w.To}
		increase := map[string]float64{}
		var before map[string]float64
		for _, s := range scrapes[w.Target] {
			if in := s.at >= w.From && s.at < w.To; in && !s.up {
				got.Pages++ // the expectation counts failures among them
				got.Down++
			} else if in {
				got.Pages++
				got.KVMax, got.Waiting = max(got.KVMax, s.values[VLLMKVUsage]), max(got.Waiting, s.values[VLLMWaiting])
				for _, name := range []string{VLLMPromptTokens, VLLMPromptCached, VLLMCacheQueries, VLLMCacheHits} {
					if d := s.values[name] - before[name]; before != nil && d >= 0 {
						increase[name] += d
					} else if before != nil {
						increase[name] += s.values[name]
					}
				}
			}
			if s.up {
				before = s.values
			}
		}
		got.Prompt = increase[VLLMPromptTokens]
		if got.Pages != w.Pages || got.Down != w.Down || got.Prompt != w.Prompt || got.Waiting != w.Waiting || math.Abs(got.KVMax-w.KVMax) > 1e-9 {
			t.Errorf("%s from %.0f:\ngot  %+v\nwant %+v", w.Target, w.From, got, w)
		}
		checkRatio(t, w, "cached", w.Cached, increase[VLLMPromptCached], increase[VLLMPromptTokens])
		checkRatio(t, w, "counters", w.Counters, increase[VLLMCacheHits], increase[VLLMCacheQueries])
	}
}

func checkRatio(t *testing.T, w window, name string, want *float64, over, under float64) {
	t.Helper()
	if want == nil {
		if under != 0 {
			t.Errorf("%s from %.0f: ratio by %s is %v of %v, want none", w.Target, w.From, name, over, under)
		}
		return
	}
	if got := over / under; math.Abs(got-*want) > 5.1e-5 {
		t.Errorf("%s from %.0f: ratio by %s is %.4f, want %.4f", w.Target, w.From, name, got, *want)
	}
}

// layout is files by their path in a recording.
type layout map[string]string

func (l layout) directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range l {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// archive writes the layout below a common folder.
func (l layout) archive(t *testing.T, ending, below string) string {
	t.Helper()
	moved := layout{}
	for name, text := range l {
		moved[below+name] = text
	}
	packed := gzipped(moved.tarball())
	if ending == ".tar.zst" {
		zw, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		packed = zw.EncodeAll(moved.tarball(), nil)
	}
	path := filepath.Join(t.TempDir(), "recording"+ending)
	if err := os.WriteFile(path, packed, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tarball writes to memory, where nothing fails.
func (l layout) tarball() []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range l {
		_ = w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(text))})
		_, _ = io.WriteString(w, text)
	}
	_ = w.Close()
	return b.Bytes()
}

// small is a recording with every kind of file, good and bad.
func small() layout {
	return layout{
		"b/1000.prom":     smallPage(1),
		"a/1000.prom":     smallPage(1),
		"a/2000.prom.gz":  string(gzipped([]byte(smallPage(2)))),
		"a/3000.down":     "TimeoutError",
		"a/4000.down":     "unauthorised: the server wants a key (HTTP 401)",
		"a/5000.down":     "",
		"a/6000.prom":     "<html></html>\n",
		"a/7000.prom.gz":  string(gzipped([]byte(smallPage(2)))[:30]),
		"a/8000.prom.gz":  "no gzip",
		"a/9000.prom":     strings.TrimSuffix(smallPage(3), "\n") + "\n# EOF\n",
		"b/2000.prom":     smallGatewayPage,
		"a/notes.txt":     "left alone",
		"a/01.prom":       "left alone",
		"a/-5.prom":       "left alone",
		"expected.jsonl":  "left alone",
		"a/deep/12.promx": "left alone",
	}
}

// told is a round as a line of text.
func told(r *Round) string {
	return strconv.FormatInt(r.Time.UnixMilli(), 10) + " " + r.Target.Labels.String() + " " + r.Target.Source + " " + string(r.State) + " " +
		strconv.Itoa(r.Len()) + " " + strconv.Itoa(len(r.Stale)) + " " + r.Reason
}

func replayed(t *testing.T, path string) []string {
	t.Helper()
	rec, err := OpenRecording(path)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	var got []string
	if err := rec.Replay(t.Context(), func(r *Round) error {
		got = append(got, told(r))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestRecordingLayouts(t *testing.T) {
	t.Parallel()
	a, b := `{instance="a", job="recording"} vllm `, `{instance="b", job="recording"} vllm `
	want := []string{
		"1000 " + a + "up 3 0 ",
		"1000 " + b + "up 3 0 ",
		"2000 " + a + "up 3 0 ",
		"2000 " + strings.Replace(b, "vllm", "litellm", 1) + "up 2 2 ",
		"3000 " + a + "timeout 1 2 recorded as failed (TimeoutError)",
		"4000 " + a + "unauthorised 1 0 the server wants a key (HTTP 401)",
		"5000 " + a + "down 1 0 recorded as failed",
		"6000 " + a + "not_metrics 1 0 a/6000.prom: the page is HTML, not metrics; check the port and metrics_path",
		"7000 " + a + "truncated 1 0 a/7000.prom.gz: the file ends early: record it again, or remove it",
		"8000 " + a + "truncated 1 0 a/8000.prom.gz: the file ends early: record it again, or remove it",
		"9000 " + a + "up 3 0 ",
	}
	for _, tt := range []struct{ name, path string }{
		{"directory", small().directory(t)},
		{"zstd", small().archive(t, ".tar.zst", "./")},
		{"gzip", small().archive(t, ".tar.gz", "")},
		{"below a folder", small().archive(t, ".tgz", "some/recording/")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(want, replayed(t, tt.path)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestRecordingTargetsFile(t *testing.T) {
	t.Parallel()
	l := layout{
		"a/1000.prom": smallPage(1), "b/1000.prom": smallPage(1),
		"targets.yml": "a: {job: vllm, instance: 'a:8000', source: vllm}\nc: {job: x}\n",
	}
	want := []string{
		`1000 {instance="a:8000", job="vllm"} vllm up 3 0 `,
		`1000 {instance="b", job="recording"} vllm up 3 0 `,
	}
	for _, path := range []string{l.directory(t), l.archive(t, ".tar.zst", "")} {
		if diff := cmp.Diff(want, replayed(t, path)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
}

func TestBadRecordings(t *testing.T) {
	t.Parallel()
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	with := func(targets string) string {
		return layout{"a/1.prom": "", "b/1.prom": "", "targets.yml": targets}.directory(t)
	}
	tests := []struct{ name, path, want string }{
		{"nothing there", "/nowhere/recording", "no such file"},
		{"nothing in it", t.TempDir(), "no pages: it needs one folder per target"},
		{"no archive", file("page.prom", smallPage(1)), "is neither a directory nor a .tar.zst or .tar.gz archive"},
		{"no zstd", file("x.tar.zst", "plain"), "the archive is broken"},
		{"no gzip", file("x.tar.gz", "plain text, not gzip"), "gzip: invalid header"},
		{"depths", layout{"a/1.prom": "x", "deep/b/1.prom": "x"}.archive(t, ".tar.gz", ""), "an archive holds one recording"},
		{"unknown key", with("a: {jop: x}"), "targets.yml: yaml: unmarshal errors:\n  line 1: field jop not found"},
		{"unknown source", with("a: {source: sglang}"), `targets.yml: a: source "sglang" is unknown: use vllm or litellm`},
		{"same target", with("a: {job: j, instance: i}\nb: {job: j, instance: i}"), `folders a and b have the same job "j" and instance "i"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rec, err := OpenRecording(tt.path)
			if err == nil || !strings.Contains(err.Error(), tt.want) || rec != nil {
				t.Errorf("got  %v\nwant …%s…", err, tt.want)
			}
		})
	}
}

func TestReplayEndsWithItsSink(t *testing.T) {
	t.Parallel()
	rec, err := OpenRecording(small().directory(t))
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	full := errors.New("disk full")
	n := 0
	if err := rec.Replay(t.Context(), func(*Round) error { n++; return full }); !errors.Is(err, full) || n != 1 {
		t.Errorf("ended with %v after %d rounds", err, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := rec.Replay(ctx, func(*Round) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	rec, err := OpenRecording(small().archive(t, ".tar.zst", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	var names []string
	for p := range rec.Pages() {
		names = append(names, p.Name())
		if p.Name() == "a/2000.prom.gz" {
			f, err := p.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(f)
			if err != nil || string(text) != smallPage(2) || f.Close() != nil {
				t.Errorf("page %q, %v", text, err)
			}
			break
		}
	}
	if want := []string{"a/1000.prom", "b/1000.prom", "a/2000.prom.gz"}; !slices.Equal(names, want) {
		t.Errorf("pages %v, want %v", names, want)
	}
}

// TestServedRecording scrapes a recording over HTTP, on a clock of its own.
func TestServedRecording(t *testing.T) {
	t.Parallel()
	rec, err := OpenRecording(small().archive(t, ".tar.zst", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	var now atomic.Int64
	server := httptest.NewServer(rec.Handler("a", func() time.Time { return time.UnixMilli(now.Load()) }))
	defer server.Close()
	r := newRig(t, server.URL, nil)
	for _, tt := range []struct {
		ms    int64
		state State
		want  float64 // running
	}{
		{999, StateDown, 0},
		{1000, StateUp, 1},
		{1999, StateUp, 1},
		{2500, StateUp, 2},
		{3000, StateDown, 0},
		{6000, StateNotMetrics, 0},
		{7000, StateDown, 0},
		{9000, StateUp, 3},
		{90_000, StateUp, 3},
	} {
		now.Store(tt.ms)
		round := r.last(t, time.UnixMilli(tt.ms))
		running := 0.0
		for _, s := range round.Samples {
			if round.State == StateUp && s.Series.Labels.Get(model.MetricNameLabel) == VLLMRunning {
				running = s.Value
			}
		}
		if round.State != tt.state || running != tt.want {
			t.Errorf("at %d ms: %s (%s), running %v; want %s, %v", tt.ms, round.State, round.Reason, running, tt.state, tt.want)
		}
	}
	missing := httptest.NewRecorder()
	rec.Handler("z", time.Now).ServeHTTP(missing, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if missing.Code != http.StatusNotFound {
		t.Errorf("an unknown folder answers %d", missing.Code)
	}
}

func BenchmarkReplay(b *testing.B) {
	rec := openReal(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := rec.Replay(b.Context(), func(*Round) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzArchive holds the reading of a recording to errors instead of panics.
func FuzzArchive(f *testing.F) {
	for _, l := range []layout{small(), {"a/1.prom": "x"}, {"targets.yml": "a: {job: x}", "a/1.down": "timeout: late"}} {
		f.Add(l.tarball())
	}
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		path := filepath.Join(t.TempDir(), "recording.tar.gz")
		if err := os.WriteFile(path, gzipped(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		rec, err := OpenRecording(path)
		if err != nil {
			return
		}
		defer rec.Close()
		n := 0
		if err := rec.Replay(t.Context(), func(*Round) error { n++; return nil }); err != nil || n != len(rec.entries) {
			t.Errorf("%d of %d rounds, %v", n, len(rec.entries), err)
		}
	})
}
