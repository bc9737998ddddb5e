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
	pageFloats  = 40
	pageBuckets = 23
)

var pageHistograms = []string{
	collector.VLLMPromptHist, collector.VLLMComputedHist, collector.VLLMGenerationHist, collector.VLLMTTFT, collector.VLLMITL,
	collector.VLLMTPOT, collector.VLLMQueueTime, collector.VLLMPrefillTime, collector.VLLME2E,
}

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
		for _, name := range pageHistograms {
			r.Histograms = append(r.Histograms, collector.Histogram{Series: named(name), Bounds: bounds, Buckets: make([]float64, pageBuckets)})
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
					parts[h.Series] = append(parts[h.Series], newPart(h.Series, collector.BucketSuffix, bound).series)
				}
				parts[h.Series] = append(parts[h.Series], newPart(h.Series, collector.SumSuffix, 0).series, newPart(h.Series, collector.CountSuffix, 0).series)
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

// benchFleet stores two hours of a fleet in one of the two ways.
func benchFleet(b *testing.B, way string, targets, rounds int) *Store {
	b.Helper()
	f := newFleetPages(targets)
	s, put := open(b, Options{Dir: b.TempDir()}), fleetStores(f)[way]
	for i := range rounds {
		f.step()
		for _, r := range f.rounds {
			put(b, s, r)
		}
		if i%120 == 0 {
			s.db.ForceHeadMMap()
		}
	}
	return s
}

// BenchmarkScanHistograms tells what the raw points of histograms cost, as a
// backtest reads them.
func BenchmarkScanHistograms(b *testing.B) {
	const targets, rounds = 10, 480
	m := []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "__name__", "vllm:.+_(bucket|sum|count)")}
	for _, way := range []string{"whole", "apart"} {
		b.Run(way, func(b *testing.B) {
			s := benchFleet(b, way, targets, rounds)
			points := 0
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Scan(b.Context(), start, start.Add(3*time.Hour), m, func(_ labels.Labels, p []Point) error {
					points += len(p)
					return nil
				}); err != nil {
					b.Fatal(err)
				}
			}
			if want := b.N * targets * rounds * len(pageHistograms) * (pageBuckets + 2); points != want {
				b.Fatalf("%d points, want %d", points, want)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(points), "ns/point")
		})
	}
}

// BenchmarkQueryHistograms tells what queries of histograms cost.
func BenchmarkQueryHistograms(b *testing.B) {
	const targets, rounds = 20, 480
	for _, way := range []string{"whole", "apart"} {
		s := benchFleet(b, way, targets, rounds)
		for _, tt := range []struct{ name, query string }{
			{"quantile", `histogram_quantile(0.9, sum by (le) (rate({__name__="` + collector.VLLMTTFT + `_bucket"}[5m])))`},
			{"mean", `sum(rate({__name__="` + collector.VLLMTTFT + `_sum"}[5m])) / sum(rate({__name__="` + collector.VLLMTTFT + `_count"}[5m]))`},
			{"counter", `sum(rate({__name__="vllm:metric_1_total"}[5m]))`},
			{"regexp", `count({__name__=~"vllm:metric_1.+"})`},
		} {
			for span, step := range map[time.Duration]time.Duration{0: 0, 2 * time.Hour: 30 * time.Second} {
				b.Run(fmt.Sprintf("%s/%s/%s", way, tt.name, span), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						to := start.Add(2 * time.Hour)
						if got := answer(b, s.Queryable(), tt.query, to.Add(-span), to, step); got == "" {
							b.Fatal("no answer")
						}
					}
				})
			}
		}
	}
}

// BenchmarkRoundsOfHistograms tells what a page costs that is read back as the
// round that it was.
func BenchmarkRoundsOfHistograms(b *testing.B) {
	const targets, rounds = 10, 480
	for _, way := range []string{"whole", "apart"} {
		b.Run(way, func(b *testing.B) {
			s := benchFleet(b, way, targets, rounds)
			pages := 0
			b.ReportAllocs()
			for b.Loop() {
				err := s.Rounds(b.Context(), RoundsOptions{From: start, To: start.Add(3 * time.Hour)}, func(*collector.Round) error {
					pages++
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			if pages != b.N*targets*rounds {
				b.Fatalf("%d rounds", pages)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(pages), "us/round")
		})
	}
}
