package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
	"kvwatch/collector/history"
)

// The fleet of the benchmark: engines with the series of a real vLLM page,
// scraped as Prometheus does by default.
const (
	benchEngines = 10
	benchStep    = 15 * time.Second
)

var benchStart = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// writeBenchHistory fills a storage with a steady fleet and returns its folder.
func writeBenchHistory(tb testing.TB, length time.Duration) (dir string, samples int) {
	tb.Helper()
	dir = tb.TempDir()
	store, err := history.Open(history.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	page := gunzip(tb, testdata+"vllm-0.32.0.prom.gz")
	var engines [][]collector.Sample
	for i := range benchEngines {
		reader := collector.NewSavedReader(collector.Target{Labels: labels.FromStrings(model.JobLabel, "vllm", model.InstanceLabel, "vllm-"+strconv.Itoa(i)+":8000")})
		round, _ := reader.Page(bytes.NewReader(page), benchStart)
		engines = append(engines, append([]collector.Sample(nil), round.Samples...))
	}
	for at := benchStart; at.Before(benchStart.Add(length)); at = at.Add(benchStep) {
		for i, all := range engines {
			growPage(all)
			if err := store.Append(tb.Context(), at.Add(time.Duration(i)*time.Second), all, nil); err != nil {
				tb.Fatal(err)
			}
			samples += len(all)
		}
	}
	if err := store.Close(); err != nil {
		tb.Fatal(err)
	}
	return dir, samples
}

// growPage adds to what only grows, as a busy engine does.
func growPage(all []collector.Sample) {
	for j := range all {
		switch all[j].Series.Labels.Get(model.MetricNameLabel) {
		case collector.Up, collector.ProcessStart, collector.VLLMKVUsage, collector.VLLMRunning, collector.VLLMWaiting,
			collector.VLLMWaitingByReason, collector.VLLMCacheConfig, collector.VLLMSleepState:
		case collector.VLLMPromptTokens, collector.VLLMCacheQueries:
			all[j].Value += 100_000
		case collector.VLLMPromptCached, collector.VLLMCacheHits:
			all[j].Value += 90_000
		default:
			all[j].Value += float64(j % 7)
		}
	}
}

func gunzip(tb testing.TB, file string) []byte {
	tb.Helper()
	f, err := os.Open(file)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// BenchmarkBacktest runs all rules over half a day of ten engines. A week per
// minute is the least that is promised.
func BenchmarkBacktest(b *testing.B) {
	const length = 12 * time.Hour
	dir, samples := writeBenchHistory(b, length)
	b.ReportAllocs()
	begin := cpuTime(b)
	for b.Loop() {
		o := backtestOptions{storage: dir, output: "json", interval: benchStep, now: time.Now(), progress: io.Discard, notes: io.Discard}
		if err := o.run(b.Context(), io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	perMinute := func(took time.Duration) float64 {
		return length.Hours() / 24 * float64(time.Minute) * float64(b.N) / float64(took)
	}
	b.ReportMetric(perMinute(b.Elapsed()), "days/minute")
	b.ReportMetric(perMinute(cpuTime(b)-begin), "days/cpu-minute")
	b.ReportMetric(float64(samples), "samples")
}

// cpuTime is what the process used: the machine may be busy with other work,
// which the time by the clock shows too.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
