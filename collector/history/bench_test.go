package history

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
)

const samplesPerPage = 150

// pages makes the samples of a fleet: for each target those of one scrape.
func pages(targets int) [][]collector.Sample {
	all := make([][]collector.Sample, targets)
	for t := range all {
		for i := range samplesPerPage {
			all[t] = append(all[t], collector.Sample{Series: &collector.Series{Labels: labels.FromStrings(
				"__name__", fmt.Sprintf("vllm:metric_%d_total", i), "engine", "0", "instance", fmt.Sprintf("vllm-%d:8000", t),
				"job", "vllm", "model_name", "qwen3-coder-30b")}})
		}
	}
	return all
}

// step moves the samples on as counters and gauges move: a third stands still.
func step(rnd *rand.Rand, samples []collector.Sample) {
	for i := range samples {
		if i%3 != 0 {
			samples[i].Value += float64(rnd.IntN(1000))
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	const targets = 100
	s := open(b, Options{Dir: b.TempDir()})
	all, rnd, at := pages(targets), rand.New(rand.NewPCG(1, 2)), start
	fleet := func() {
		for _, samples := range all {
			step(rnd, samples)
			if err := s.Append(b.Context(), at, samples, nil); err != nil {
				b.Fatal(err)
			}
		}
		at = at.Add(15 * time.Second)
	}
	for range 10 {
		fleet()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ReportAllocs()
	for b.Loop() {
		fleet()
	}
	runtime.ReadMemStats(&after)
	n := float64(b.N) * targets * samplesPerPage
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/sample")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/sample")
}

// BenchmarkMemory tells what a series costs after two hours at 15 s.
func BenchmarkMemory(b *testing.B) {
	const targets, rounds = 100, 480
	for b.Loop() {
		s := open(b, Options{Dir: b.TempDir()})
		all, rnd := pages(targets), rand.New(rand.NewPCG(1, 2))
		before := heapInUse()
		for r := range rounds {
			for _, samples := range all {
				step(rnd, samples)
				if err := s.Append(b.Context(), start.Add(time.Duration(r)*15*time.Second), samples, nil); err != nil {
					b.Fatal(err)
				}
			}
			if r%120 == 0 {
				s.db.ForceHeadMMap() // the database does it once a minute by itself
			}
		}
		b.ReportMetric(float64(heapInUse()-before)/(targets*samplesPerPage), "B/series")
		runtime.KeepAlive(all)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkScan(b *testing.B) {
	s := open(b, Options{Dir: b.TempDir()})
	all, rnd := pages(10), rand.New(rand.NewPCG(1, 2))
	for r := range 480 {
		for _, samples := range all {
			step(rnd, samples)
			if err := s.Append(b.Context(), start.Add(time.Duration(r)*15*time.Second), samples, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	m := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "job", "vllm")}
	points := 0
	b.ReportAllocs()
	for b.Loop() {
		err := s.Scan(b.Context(), start, start.Add(2*time.Hour), m, func(_ labels.Labels, p []Point) error {
			points += len(p)
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(points), "ns/point")
}
