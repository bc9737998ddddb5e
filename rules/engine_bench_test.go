package rules

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"kvwatch/collector"
)

// benchFleet makes n engines of a hundred pools with pages as large as a real one's.
type benchFleet struct {
	engine *Engine
	rounds []collector.Round
	gains  gains
	now    time.Time
}

// gains is what each value of a page has more than on the page before.
type gains struct {
	samples    []float64
	histograms []collector.Histogram
}

func newBenchFleet(tb testing.TB, n int) *benchFleet {
	tb.Helper()
	e, err := New(Options{})
	if err != nil {
		tb.Fatal(err)
	}
	f := &benchFleet{engine: e, now: time.UnixMilli(1_800_000_000_000)}
	for i := range n {
		p := newPage("vllm", fmt.Sprintf("engine-%d:8000", i), fmt.Sprintf("model-%d", i%100))
		p.fill()
		if i%100 >= 10 { // a tenth of the pools has a queue
			p.gauges(8, 0, 0.4)
		}
		f.rounds = append(f.rounds, p.round(f.now))
		if i == 0 {
			f.gains = gainsOf(p)
		}
	}
	return f
}

// gainsOf is what three calls on a warm cache add to a page.
func gainsOf(p *page) gains {
	before := clonePage(p.round(time.Time{}))
	p.serve(3, 30_000, 3_000, 100)
	p.observe(collector.VLLMTPOT, timeBounds, 0.03, 3)
	p.observe(collector.VLLMQueueTime, timeBounds, 0.01, 3)
	p.observe(collector.VLLME2E, timeBounds, 4, 3)
	after := clonePage(p.round(time.Time{}))
	g := gains{histograms: after.Histograms}
	for i, s := range after.Samples {
		g.samples = append(g.samples, s.Value-before.Samples[i].Value)
	}
	for i, h := range before.Histograms {
		more := &g.histograms[i]
		for j, v := range h.Buckets {
			more.Buckets[j] -= v
		}
		more.Sum -= h.Sum
		more.Count -= h.Count
	}
	return g
}

// clonePage keeps a round, of which the slices are used again.
func clonePage(r collector.Round) collector.Round {
	r.Samples, r.Histograms = slices.Clone(r.Samples), slices.Clone(r.Histograms)
	for i := range r.Histograms {
		r.Histograms[i].Buckets = slices.Clone(r.Histograms[i].Buckets)
	}
	return r
}

// scrape gives every engine one more page, on which every counter grew.
func (f *benchFleet) scrape() {
	f.now = f.now.Add(15 * time.Second)
	for i := range f.rounds {
		f.grow(&f.rounds[i])
	}
}

// grow makes the round the next page of its engine.
func (f *benchFleet) grow(r *collector.Round) {
	r.Time = f.now
	for j := range r.Samples {
		r.Samples[j].Value += f.gains.samples[j]
	}
	for j := range r.Histograms {
		h, more := &r.Histograms[j], &f.gains.histograms[j]
		for k := range h.Buckets {
			h.Buckets[k] += more.Buckets[k]
		}
		h.Sum += more.Sum
		h.Count += more.Count
	}
}

// scrapePart gives every part-th engine one more page.
func (f *benchFleet) scrapePart(first, part int) {
	f.now = f.now.Add(15 * time.Second / time.Duration(part))
	for i := first; i < len(f.rounds); i += part {
		f.grow(&f.rounds[i])
		f.engine.Observe(&f.rounds[i])
	}
}

func (f *benchFleet) observe() {
	for i := range f.rounds {
		f.engine.Observe(&f.rounds[i])
	}
}

// BenchmarkObserve takes one page of 40 samples and 9 histograms of 23 buckets,
// whole and in parts.
func BenchmarkObserve(b *testing.B) {
	for name, round := range map[string]func(*page, time.Time) collector.Round{"whole": (*page).round, "parts": (*page).parts} {
		b.Run(name, func(b *testing.B) {
			e, err := New(Options{})
			if err != nil {
				b.Fatal(err)
			}
			r := round(newBenchPage(), testStart)
			observe := func() {
				r.Time = r.Time.Add(step)
				e.Observe(&r)
			}
			for range 600 { // until the rings have their size
				observe()
			}
			b.ReportAllocs()
			for b.Loop() {
				observe()
			}
		})
	}
}

// newBenchPage is a page with what is wanted of a real one.
func newBenchPage() *page {
	p := newPage("vllm", "e:8000", "m")
	p.fill()
	for _, name := range []string{collector.VLLMGenerationHist, collector.VLLMIdleBeforeEvict} {
		p.observe(name, timeBounds, 1, 10)
	}
	for i := 0; len(p.round(testStart).Samples) < 40; i++ {
		p.set(1, collector.VLLMRequestSuccess, "finished_reason", fmt.Sprint(i))
	}
	return p
}

// BenchmarkEval1000Engines is a tick of a fleet that is scraped every 15 s and
// evaluated every 5 s: a third of the engines have a new page. In "all" every
// engine has one, as where both intervals are the same.
func BenchmarkEval1000Engines(b *testing.B) {
	for _, bench := range []struct {
		name   string
		scrape int // one in so many engines has a new page
	}{{"third", 3}, {"all", 1}} {
		b.Run(bench.name, func(b *testing.B) { benchmarkEval(b, bench.scrape) })
	}
}

func benchmarkEval(b *testing.B, part int) {
	f := newBenchFleet(b, 1000)
	for range 40 {
		f.scrape()
		f.observe()
	}
	if err := f.engine.Eval(b.Context(), f.now); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var used time.Duration
	ticks := 0
	for b.Loop() {
		b.StopTimer()
		f.scrapePart(ticks%part, part)
		ticks++
		begin := cpuTime(b)
		b.StartTimer()
		if err := f.engine.Eval(b.Context(), f.now); err != nil {
			b.Fatal(err)
		}
		used += cpuTime(b) - begin
	}
	b.ReportMetric(float64(used.Microseconds())/float64(b.N)/1000, "cpu-ms/op")
}

// cpuTime is what the process used: the machine of the tests may be busy with
// other work, which the time by the clock shows too.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
