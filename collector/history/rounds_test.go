package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"kvwatch/collector"
)

// foreignSeries is a series with the labels that a Prometheus adds.
func foreignSeries(name, instance string, more ...string) *collector.Series {
	return &collector.Series{Labels: labels.FromStrings(append([]string{model.MetricNameLabel, name, "job", "vllm", "instance", instance}, more...)...)}
}

// roundsOf reads a whole storage as text: one line per round.
func roundsOf(t *testing.T, s *Store, o RoundsOptions) []string {
	t.Helper()
	var all []string
	err := s.Rounds(t.Context(), o, func(r *collector.Round) error {
		line := fmt.Sprintf("%s %s %s", r.Time.Sub(start), r.Target.Labels.Get("instance"), r.State)
		var values []string
		for _, one := range r.Samples {
			if name := one.Series.Labels.Get(model.MetricNameLabel); name != collector.Up {
				values = append(values, fmt.Sprintf(" %s=%g", strings.TrimPrefix(name, "vllm:"), one.Value))
			}
		}
		slices.Sort(values)
		all = append(all, line+strings.Join(values, ""))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var whole = RoundsOptions{From: start, To: start.Add(time.Hour)}

// mixed is a storage with all that Rounds must tell apart.
func mixed(t *testing.T) *Store {
	t.Helper()
	s := open(t, Options{Dir: t.TempDir()})
	stale := math.Float64frombits(value.StaleNaN)
	up := func(instance string) *collector.Series {
		return foreignSeries(collector.Up, instance, "namespace", "x")
	}
	aUp, bUp, otherUp := up("a"), up("b"), &collector.Series{Labels: labels.FromStrings(model.MetricNameLabel, collector.Up, "job", "node", "instance", "n")}
	// One family under an older name, another in two parts that are summed.
	tokens := foreignSeries("vllm:prompt_tokens", "a", "model_name", "m", "pod", "p")
	stop, length := foreignSeries(collector.VLLMRunning, "a", "model_name", "m", "shard", "1"), foreignSeries(collector.VLLMRunning, "a", "model_name", "m", "shard", "2")
	b := foreignSeries(collector.VLLMPromptTokens, "b", "model_name", "m")
	node := foreignSeries("node_load1", "a")
	at := func(d time.Duration, samples ...collector.Sample) { appendRound(t, s, start.Add(d), samples) }
	at(0, sample(aUp, 1), sample(tokens, 10), sample(stop, 1), sample(length, 2), sample(node, 9), sample(otherUp, 1))
	at(time.Second, sample(bUp, 1), sample(b, 5))
	at(15*time.Second, sample(aUp, 0), sample(tokens, stale))
	at(16*time.Second, sample(bUp, 1), sample(b, 6))
	at(30*time.Second, sample(aUp, 1), sample(tokens, 12))
	at(31*time.Second, sample(bUp, stale), sample(b, stale))
	at(45*time.Second, sample(aUp, 1), sample(tokens, 13), sample(foreignSeries(collector.Up, "a", "namespace", "y"), 1))
	at(60*time.Second, sample(tokens, 14)) // nobody stored its up
	return s
}

func TestRoundsOfAnyHistory(t *testing.T) {
	t.Parallel()
	s := mixed(t)
	want := []string{
		"0s a up num_requests_running=3 prompt_tokens_total=10",
		"1s b up prompt_tokens_total=5",
		"15s a down",
		"16s b up prompt_tokens_total=6",
		"30s a up prompt_tokens_total=12",
		"31s b unknown",
		"45s a not_metrics",
		"1m0s a up prompt_tokens_total=14",
	}
	if diff := cmp.Diff(want, roundsOf(t, s, whole)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	part := whole
	part.From, part.To = start.Add(15*time.Second), start.Add(31*time.Second)
	if diff := cmp.Diff(want[2:5], roundsOf(t, s, part)); diff != "" {
		t.Errorf("a part: -want +got\n%s", diff)
	}
	one := whole
	one.Names = []string{collector.VLLMRunning}
	if diff := cmp.Diff([]string{"0s a up num_requests_running=3", "15s a down", "30s a no_metrics", "45s a not_metrics"}, roundsOf(t, s, one)); diff != "" {
		t.Errorf("one name: -want +got\n%s", diff)
	}
}

func TestRoundsComplete(t *testing.T) {
	t.Parallel()
	o := whole
	o.Complete = func(c *collector.Target) { c.Gateway.Workers = 3 }
	seen := map[string]time.Duration{}
	err := mixed(t).Rounds(t.Context(), o, func(r *collector.Round) error {
		seen[r.Target.Labels.Get("instance")] = r.Target.Interval
		if r.Target.Gateway.Workers != 3 {
			t.Error("the target is not complete")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantDiff(t, "intervals", map[string]time.Duration{"a": 15 * time.Second, "b": 15 * time.Second}, seen)
}

// fleetOf writes some hours of several targets, with a hole, into a folder.
func fleetOf(t *testing.T, targets int, length time.Duration) string {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	all := make([][]collector.Sample, targets)
	for i := range all {
		instance := fmt.Sprintf("t%d", i)
		all[i] = []collector.Sample{
			sample(foreignSeries(collector.Up, instance), 1), sample(foreignSeries(collector.VLLMPromptTokens, instance, "model_name", "m", "engine", "0"), 0),
			sample(foreignSeries(collector.ProcessStart, instance), 5),
		}
	}
	for at := time.Duration(0); at < length; at += 30 * time.Second {
		if at > length/3 && at < length/2 {
			continue
		}
		for i := range all {
			all[i][1].Value++
			appendRound(t, s, start.Add(at), all[i])
		}
	}
	if err := s.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRoundsInStretches reads the same by small pieces as by large ones, from
// blocks and the log, and keeps to what may be held.
func TestRoundsInStretches(t *testing.T) {
	t.Parallel()
	const length = 9 * time.Hour
	s := open(t, Options{Dir: fleetOf(t, 3, length), ReadOnly: true})
	o := RoundsOptions{From: start, To: start.Add(length)}
	want := roundsOf(t, s, o)
	if len(want) < 2500 || !strings.Contains(want[len(want)-1], "t2 up") {
		t.Fatalf("%d rounds, the last %s", len(want), want[len(want)-1])
	}
	for _, held := range []int{50, 1000} {
		o.HeldSamples = held
		if diff := cmp.Diff(want, roundsOf(t, s, o)); diff != "" {
			t.Errorf("with %d samples held: -want +got\n%s", held, diff)
		}
	}
	o.HeldSamples = 10
	err := s.Rounds(t.Context(), o, func(*collector.Round) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "there are too many series") {
		t.Errorf("with room for 10 samples: %v", err)
	}
	from, to, err := s.Span(t.Context())
	if err != nil || !from.Equal(start) || to.Before(start.Add(length-time.Minute)) || to.After(start.Add(length)) {
		t.Errorf("from %s to %s (%v)", from, to, err)
	}
}

func TestRoundsEndWithTheirSink(t *testing.T) {
	t.Parallel()
	s := mixed(t)
	stop := errors.New("enough")
	n := 0
	if err := s.Rounds(t.Context(), whole, func(*collector.Round) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
		t.Errorf("%v after %d rounds", err, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.Rounds(ctx, whole, func(*collector.Round) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestRoundsOfBlocksAlone reads a copy that has no write-ahead log, as promtool
// makes it, and leaves nothing behind.
func TestRoundsOfBlocksAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(t.TempDir(), "text")
	body := fmt.Sprintf("vllm:prompt_tokens_total{job=\"vllm\",instance=\"a\",model_name=\"m\"} 7 %d\nup{job=\"vllm\",instance=\"a\"} 1 %d\n# EOF\n", start.Unix(), start.Unix())
	if err := os.WriteFile(text, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", "tsdb", "create-blocks-from", "openmetrics", text, dir).CombinedOutput(); err != nil {
		t.Fatalf("promtool (deploy/ci/setup installs it): %v\n%s", err, out)
	}
	s := open(t, Options{Dir: dir, ReadOnly: true})
	if from, to, err := s.Span(t.Context()); err != nil || !from.Equal(start) || !to.After(start) {
		t.Errorf("from %s to %s (%v)", from, to, err)
	}
	if diff := cmp.Diff([]string{"0s a up prompt_tokens_total=7"}, roundsOf(t, s, RoundsOptions{From: start.Add(-time.Hour), To: start.Add(48 * time.Hour)})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "[twc]*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func BenchmarkRounds(b *testing.B) {
	s := open(b, Options{Dir: b.TempDir()})
	const n = 100
	samples := []collector.Sample{sample(foreignSeries(collector.Up, "a"), 1)}
	for i := range n {
		samples = append(samples, sample(foreignSeries(collector.VLLMTTFT+"_bucket", "a", "model_name", "m", "le", fmt.Sprint(i)), 0))
	}
	const scrapes = 240
	for i := range scrapes {
		for j := range samples[1:] {
			samples[j+1].Value += float64(j)
		}
		appendRound(b, s, start.Add(time.Duration(i)*15*time.Second), samples)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Rounds(b.Context(), whole, func(*collector.Round) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/scrapes/n, "ns/sample")
}
