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
	// gains is what each sample of a page has more than on the page before.
	gains []float64
	now   time.Time
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
		if f.gains == nil {
			f.gains = gains(p)
		}
	}
	return f
}

// gains is what three calls on a warm cache add to the samples of a page.
func gains(p *page) []float64 {
	before := slices.Clone(p.round(time.Time{}).Samples)
	p.serve(3, 30_000, 3_000, 100)
	p.observe(collector.VLLMTPOT, timeBounds, 0.03, 3)
	p.observe(collector.VLLMQueueTime, timeBounds, 0.01, 3)
	p.observe(collector.VLLME2E, timeBounds, 4, 3)
	var more []float64
	for i, s := range p.round(time.Time{}).Samples {
		more = append(more, s.Value-before[i].Value)
	}
	return more
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
		r.Samples[j].Value += f.gains[j]
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

func BenchmarkObserve(b *testing.B) {
	f := newBenchFleet(b, 1)
	for range 600 { // until the rings have their size
		f.scrape()
		f.observe()
	}
	b.ReportAllocs()
	for b.Loop() {
		f.rounds[0].Time = f.rounds[0].Time.Add(15 * time.Second)
		f.engine.Observe(&f.rounds[0])
	}
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
