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

// What a page of the benchmarks holds: about what a vLLM engine exposes of what
// is wanted.
const (
	pageFloats     = 40
	pageHistograms = 9
	pageBuckets    = 23
)

// fleetPages are the rounds of a fleet, each with its series stored apart where
// they are not stored whole.
type fleetPages struct {
	rnd    *rand.Rand
	rounds []*collector.Round
}

func newFleetPages(targets int) *fleetPages {
	f := &fleetPages{rnd: rand.New(rand.NewPCG(1, 2))}
	bounds := make([]float64, pageBuckets)
	for i := range bounds {
		bounds[i] = float64(i+1) * 0.37
	}
	bounds[pageBuckets-1] = inf
	for t := range targets {
		named := func(name string) *collector.Series {
			return &collector.Series{Labels: labels.FromStrings("__name__", name, "engine", "0", "instance", fmt.Sprintf("vllm-%d:8000", t), "job", "vllm", "model_name", "qwen3-coder-30b")}
		}
		r := &collector.Round{Time: start}
		for i := range pageFloats {
			r.Samples = append(r.Samples, collector.Sample{Series: named(fmt.Sprintf("vllm:metric_%d_total", i))})
		}
		for i := range pageHistograms {
			r.Histograms = append(r.Histograms, collector.Histogram{Series: named(fmt.Sprintf("vllm:hist_%d_seconds", i)), Bounds: bounds, Buckets: make([]float64, pageBuckets)})
		}
		f.rounds = append(f.rounds, r)
	}
	return f
}

// step moves the fleet on by one scrape, six requests for each target.
func (f *fleetPages) step() {
	for _, r := range f.rounds {
		step(f.rnd, r.Samples[:pageFloats])
		for i := range r.Histograms {
			h := &r.Histograms[i]
			for range 6 {
				at := min(max(int(f.rnd.NormFloat64()*3+10), 0), pageBuckets-1)
				for b := at; b < pageBuckets; b++ {
					h.Buckets[b]++
				}
				h.Sum += float64(at) * 0.37
			}
			h.Count = h.Buckets[pageBuckets-1]
		}
		r.Time = r.Time.Add(15 * time.Second)
	}
}

// apart gives each histogram's series as samples, as rounds had them before
// they were stored whole.
func (f *fleetPages) apart() func(r *collector.Round) []collector.Sample {
	parts := map[*collector.Series][]*collector.Series{}
	return func(r *collector.Round) []collector.Sample {
		samples := r.Samples
		for i := range r.Histograms {
			h := &r.Histograms[i]
			if parts[h.Series] == nil {
				for _, bound := range h.Bounds {
					parts[h.Series] = append(parts[h.Series], newPart(h.Series, bucketSuffix, bound).series)
				}
				parts[h.Series] = append(parts[h.Series], newPart(h.Series, sumSuffix, 0).series, newPart(h.Series, countSuffix, 0).series)
			}
			of := parts[h.Series]
			for b, v := range h.Buckets {
				samples = append(samples, sample(of[b], v))
			}
			samples = append(samples, sample(of[len(of)-2], h.Sum), sample(of[len(of)-1], h.Count))
		}
		return samples
	}
}

// fleetStores are the two ways to store a fleet.
func fleetStores(f *fleetPages) map[string]func(b *testing.B, s *Store, r *collector.Round) {
	apart := f.apart()
	return map[string]func(b *testing.B, s *Store, r *collector.Round){
		"whole": func(b *testing.B, s *Store, r *collector.Round) { store(b, s, r) },
		"apart": func(b *testing.B, s *Store, r *collector.Round) { appendRound(b, s, r.Time, apart(r)) },
	}
}

// BenchmarkAppendRound tells what a page costs, and what it holds in memory
// after a quarter of an hour.
func BenchmarkAppendRound(b *testing.B) {
	const targets, warm = 100, 60
	for _, way := range []string{"whole", "apart"} {
		b.Run(way, func(b *testing.B) {
			f := newFleetPages(targets)
			before := heapInUse()
			s, put := open(b, Options{Dir: b.TempDir()}), fleetStores(f)[way]
			fleet := func() {
				f.step()
				for _, r := range f.rounds {
					put(b, s, r)
				}
			}
			for range warm {
				fleet()
			}
			held := float64(heapInUse()-before) / targets
			b.ReportAllocs()
			for b.Loop() {
				fleet()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/targets, "us/page")
			b.ReportMetric(held, "B/page")
			runtime.KeepAlive(f)
		})
	}
}
