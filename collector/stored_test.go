package collector

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

func storedTarget() Target {
	return Target{Labels: labels.FromStrings(model.JobLabel, "vllm", model.InstanceLabel, "a:8000")}
}

// stored makes a series of a line of a page, with labels that a server added.
func storedFrom(t *testing.T, line string) (StoredSample, bool) {
	t.Helper()
	end := strings.LastIndexByte(line, ' ')
	value, ok := parseValue([]byte(line[end+1:]))
	if !ok {
		t.Fatalf("no value in %s", line)
	}
	ls, _, err := decodeSeries([]byte(line+"\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	ls = labels.NewBuilder(ls).Set(model.JobLabel, "vllm").Set(model.InstanceLabel, "a:8000").Set("namespace", "models").Labels()
	s := NewStoredSeries(ls)
	return StoredSample{Series: s, Value: value}, s != nil
}

func roundText(r *Round) []string {
	all := []string{fmt.Sprintf("%s %s %t %d stale", r.State, r.Target.Source, r.Sampled, len(r.Stale))}
	for _, s := range samplesOf(r) {
		all = append(all, fmt.Sprintf("%s %g", s.Series.Labels, s.Value))
	}
	slices.Sort(all)
	return all
}

// TestStoredIsAsThePage holds stored series to what their page gives.
func TestStoredIsAsThePage(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"vllm-0.13.0.prom.gz", "vllm-0.32.0.prom.gz", "vllm-0.28-dp2.prom.gz", "litellm-1.102.0.prom.gz", "litellm-1.106.12.prom.gz"} {
		page := testPage(t, file)
		var samples []StoredSample
		for line := range strings.Lines(string(page)) {
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			if s, ok := storedFrom(t, line); ok && !math.IsNaN(s.Value) {
				samples = append(samples, s)
			}
		}
		at := time.UnixMilli(1_795_984_000_000)
		want, _ := NewSavedReader(storedTarget()).Page(bytes.NewReader(page), at)
		got := NewStored(storedTarget()).Page(samples, at)
		if diff := cmp.Diff(roundText(want), roundText(got)); diff != "" || got.Len() < 30 {
			t.Errorf("%s (-page +stored):\n%s", file, diff)
		}
	}
}

func TestStoredStates(t *testing.T) {
	t.Parallel()
	line, _ := storedFrom(t, `vllm:prompt_tokens_total{model_name="m"} 5`)
	s := NewStored(storedTarget())
	at := time.UnixMilli(1_795_984_000_000)
	next := func() time.Time { at = at.Add(15 * time.Second); return at }
	if r := s.Page([]StoredSample{line}, next()); r.State != StateUp || len(r.Samples) != 2 || r.Target.Source != SourceVLLM {
		t.Errorf("a page: %+v", r)
	}
	if r := s.Failed(next()); r.State != StateDown || len(r.Stale) != 1 || r.Reason == "" || r.Samples[0].Value != 0 {
		t.Errorf("a failed scrape: %+v", r)
	}
	if r := s.Page(nil, next()); r.State != StateNoMetrics {
		t.Errorf("a page without series: %+v", r)
	}
	if r := s.Twice(next()); r.State != StateNotMetrics || !strings.Contains(r.Reason, "several targets") {
		t.Errorf("two targets: %+v", r)
	}
	_ = s.Page([]StoredSample{line}, next())
	if r := s.Gone(next()); r.State != StateUnknown || len(r.Stale) != 2 || len(r.Samples) != 0 {
		t.Errorf("gone: %+v", r)
	}
}

func TestStoredNames(t *testing.T) {
	t.Parallel()
	all := StoredNames()
	for _, name := range []string{"vllm:prompt_tokens_total", "vllm:prompt_tokens", "vllm:time_to_first_token_seconds_bucket", "litellm_in_flight_requests"} {
		if !slices.Contains(all, name) {
			t.Errorf("%s is missing", name)
		}
	}
	for _, name := range all {
		if name == Up || name == ProcessStart || strings.HasSuffix(name, "_created") {
			t.Errorf("%s is no name of a source", name)
		}
	}
	if got := StoredNames(VLLMTTFT + "_sum"); !slices.Contains(got, "vllm:time_to_first_token_seconds_sum") || slices.Contains(got, "vllm:time_to_first_token_seconds_bucket") {
		t.Errorf("of one: %v", got)
	}
	if NewStoredSeries(labels.FromStrings(model.MetricNameLabel, "node_load1")) != nil {
		t.Error("a foreign series is read")
	}
}

func BenchmarkStoredPage(b *testing.B) {
	page := testPage(b, "vllm-0.32.0.prom.gz")
	round, _ := NewSavedReader(storedTarget()).Page(bytes.NewReader(page), time.UnixMilli(1_795_984_000_000))
	var samples []StoredSample
	for _, s := range samplesOf(round) {
		if series := NewStoredSeries(s.Series.Labels); series != nil {
			samples = append(samples, StoredSample{series, s.Value})
		}
	}
	s, at := NewStored(storedTarget()), round.Time
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(15 * time.Second)
		s.Page(samples, at)
	}
	b.ReportMetric(float64(len(samples)), "samples")
}
