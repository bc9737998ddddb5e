package rules

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"kvwatch/collector"
)

var testStart = time.UnixMilli(1_800_000_000_000)

const step = 15 * time.Second

// follow feeds rounds of one page to a target of its own.
type follow struct {
	*target
	now time.Time
}

func newFollow() *follow {
	return &follow{target: newTarget("vllm", "a:8000", step, residencyWindow), now: testStart}
}

func (f *follow) scrape(p *page, after time.Duration) {
	f.now = f.now.Add(after)
	r := p.round(f.now)
	f.observe(&r)
}

func (f *follow) fail(p *page, after time.Duration) {
	f.now = f.now.Add(after)
	r := p.down(f.now)
	f.observe(&r)
}

func (f *follow) increase(t total, d time.Duration) float64 {
	w := unitWindow{now: f.now, ms: f.now.UnixMilli(), fresh: time.Minute, unit: f.units[0]}
	return w.Increase(t, d)
}

// TestCounterNeverInventsOrLoses plays random lives of a counter: growth,
// restarts, lost scrapes. What windows tell must be what was really counted
// between the first and the last page, but for what a restart hides.
func TestCounterNeverInventsOrLoses(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		f, p := newFollow(), newPage("vllm", "a:8000", "m")
		p.set(math.Floor(rnd.Float64()*1e6), collector.VLLMPromptTokens)
		f.scrape(p, step)
		truth := 0.0
		for range 200 {
			before := p.values[p.of(collector.VLLMPromptTokens)]
			switch n := rnd.IntN(20); {
			// A restart between two pages: what is counted since is seen. A
			// counter that is back above its old value cannot be told from
			// growth without a process start, so it stays below.
			case n == 0 && before > 100:
				p.restart()
				d := math.Floor(rnd.Float64() * 100)
				p.add(d, collector.VLLMPromptTokens)
				truth += d
				f.scrape(p, step)
			case n < 4:
				f.fail(p, step)
			default:
				d := 200 + math.Floor(rnd.Float64()*1000)
				p.add(d, collector.VLLMPromptTokens)
				truth += d
				f.scrape(p, step)
			}
		}
		f.scrape(p, step)
		if got := f.increase(totalPrompt, longWindow); got != truth {
			t.Fatalf("seed %d: windows tell %g, counted were %g", seed, got, truth)
		}
	}
}

func TestFrontEnd(t *testing.T) {
	t.Parallel()
	prompt := collector.VLLMPromptTokens
	for name, c := range map[string]struct {
		play func(f *follow, p *page)
		want float64
	}{
		"the first page is a baseline": {func(f *follow, p *page) {
			p.set(5000, prompt)
			f.scrape(p, step)
		}, 0},
		"growth": {func(f *follow, p *page) {
			p.set(5000, prompt)
			f.scrape(p, step)
			p.set(5700, prompt)
			f.scrape(p, step)
		}, 700},
		"a series that turns up on a healthy target began at 0": {func(f *follow, p *page) {
			p.set(1, collector.VLLMRunning)
			f.scrape(p, step)
			p.set(300, prompt)
			f.scrape(p, step)
		}, 300},
		"a series that turns up after a long gap is a baseline": {func(f *follow, p *page) {
			p.set(1, collector.VLLMRunning)
			f.scrape(p, step)
			p.set(300, prompt)
			f.scrape(p, 11*time.Minute)
		}, 0},
		"a restart adds what was counted since": {func(f *follow, p *page) {
			p.set(5000, prompt)
			f.scrape(p, step)
			f.fail(p, step)
			p.set(40, prompt)
			f.scrape(p, step)
		}, 40},
		"a gap of 5 minutes loses nothing": {func(f *follow, p *page) {
			p.set(5000, prompt)
			f.scrape(p, step)
			p.set(9000, prompt)
			f.scrape(p, 5*time.Minute)
		}, 4000},
		"a gap of over 10 minutes is not believed": {func(f *follow, p *page) {
			p.set(5000, prompt)
			f.scrape(p, step)
			p.set(9000, prompt)
			f.scrape(p, 601*time.Second)
		}, 0},
		"a new process with a higher counter began at 0": {func(f *follow, p *page) {
			p.set(float64(testStart.Add(-time.Hour).Unix()), collector.ProcessStart)
			p.set(100, prompt)
			f.scrape(p, step)
			p.set(float64(testStart.Add(20*time.Second).Unix()), collector.ProcessStart)
			p.set(150, prompt)
			f.scrape(p, step)
		}, 150},
		"the same process with a higher counter": {func(f *follow, p *page) {
			p.set(float64(testStart.Add(-time.Hour).Unix()), collector.ProcessStart)
			p.set(100, prompt)
			f.scrape(p, step)
			p.set(150, prompt)
			f.scrape(p, step)
		}, 50},
		"NaN and Inf are no values": {func(f *follow, p *page) {
			p.set(100, prompt)
			f.scrape(p, step)
			p.set(math.NaN(), prompt)
			f.scrape(p, step)
			p.set(math.Inf(1), prompt)
			f.scrape(p, step)
			p.set(180, prompt)
			f.scrape(p, step)
		}, 80},
		"a round out of order is left out": {func(f *follow, p *page) {
			p.set(100, prompt)
			f.scrape(p, step)
			p.set(180, prompt)
			f.scrape(p, step)
			p.set(100, prompt)
			f.scrape(p, -step)
			f.now = f.now.Add(2 * step)
		}, 80},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollow()
			p := newPage("vllm", "a:8000", "m")
			p.set(0, collector.VLLMWaiting)
			c.play(f, p)
			if got := f.increase(totalPrompt, longWindow); got != c.want {
				t.Errorf("windows tell %g, want %g", got, c.want)
			}
		})
	}
}

func TestGatewaySumThatLosesAPart(t *testing.T) {
	t.Parallel()
	f, p := newFollow(), newGatewayPage("g:4000")
	for _, v := range []float64{10000, 10100, 8700, 8800, 500} {
		p.set(v, collector.LiteLLMRequests, "status_code", "200")
		f.scrape(p, step)
	}
	// 100, then a worker's part went, then 100, then a true reset.
	if got := f.increase(totalRequests, longWindow); got != 700 {
		t.Errorf("windows tell %g requests, want 700", got)
	}
}

func TestSeveralWorkersAreNoRestart(t *testing.T) {
	t.Parallel()
	f, p := newFollow(), newGatewayPage("g:4000")
	started := float64(testStart.Add(-time.Hour).Unix())
	for i, v := range []float64{9000, 8700, 9010, 8710} {
		p.set(started+float64(i%2)*7, collector.ProcessStart)
		p.set(v, collector.LiteLLMRequests, "status_code", "200")
		f.now = f.now.Add(step)
		r := p.round(f.now)
		r.Sampled = i > 1 // a start that came back
		f.observe(&r)
	}
	if got := f.increase(totalRequests, longWindow); got != 0 {
		t.Errorf("%g requests were counted from the difference between two workers", got)
	}
	w := GatewayWindow{unitWindow{now: f.now, ms: f.now.UnixMilli(), fresh: time.Minute, unit: f.units[0]}}
	if r := w.total(totalRequests, "", ""); r.Known || r.Quality != QualitySampled {
		t.Errorf("a sampled counter is told: %+v", r)
	}
}

// TestRollingReplacementIsNotSeveralWorkers brings another process up before
// the old one is gone, once.
func TestRollingReplacementIsNotSeveralWorkers(t *testing.T) {
	t.Parallel()
	f, p := newFollow(), newPage("vllm", "a:8000", "m")
	started := float64(testStart.Add(-24 * time.Hour).Unix())
	for i := range 20 {
		if i == 10 { // it had served for ten minutes before it got the address
			started = float64(f.now.Add(-10 * time.Minute).Unix())
			p.set(700, collector.VLLMPromptTokens)
		}
		p.set(started, collector.ProcessStart)
		p.add(100, collector.VLLMPromptTokens)
		f.scrape(p, step)
	}
	w := unitWindow{now: f.now, ms: f.now.UnixMilli(), fresh: time.Minute, unit: f.units[0]}
	if w.sampled() {
		t.Error("a replacement counts as several workers")
	}
	if got := f.increase(totalPrompt, longWindow); got != 1800 {
		t.Errorf("windows tell %g tokens, want those of 18 pairs of pages", got)
	}
}

func TestWindowBelongsToTheLaterPage(t *testing.T) {
	t.Parallel()
	f, p := newFollow(), newPage("vllm", "a:8000", "m")
	for i := range 5 {
		p.set(float64(i*i), collector.VLLMPromptTokens) // 0 1 4 9 16
		f.scrape(p, step)
	}
	// (t-30s, t] holds the last two pages, 5 and 7; (t-31s, t] three.
	for d, want := range map[time.Duration]float64{30 * time.Second: 12, 29 * time.Second: 12, 31 * time.Second: 15, 45 * time.Second: 15, 46 * time.Second: 16} {
		if got := f.increase(totalPrompt, d); got != want {
			t.Errorf("the window of %s tells %g, want %g", d, got, want)
		}
	}
}

func TestImpossibleSumsAreRejected(t *testing.T) {
	t.Parallel()
	f, p := newFollow(), newPage("vllm", "a:8000", "m")
	p.observe(collector.VLLMTTFT, timeBounds, 0.3, 10)
	f.scrape(p, step)
	p.observe(collector.VLLMTTFT, timeBounds, 0.3, 10)
	p.add(-1e6, collector.VLLMTTFT+collector.SumSuffix) // host uptime, the wrong way round
	f.scrape(p, step)
	w := unitWindow{now: f.now, ms: f.now.UnixMilli(), fresh: time.Minute, unit: f.units[0]}
	if r := w.summary(histTTFT, "ttft"); r.Known || r.Reason != reasonImpossible {
		t.Errorf("an impossible window is told: %+v", r)
	}
	if got := w.HistCount(histTTFT, longWindow); got != 10 {
		t.Errorf("a falling sum counts as a restart: %g observations", got)
	}
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		engines []string
		labels  []string
		want    float64
	}{
		"tokens as told":                     {[]string{"0"}, []string{"kv_cache_size_tokens", "25600", "num_gpu_blocks", "800", "block_size", "16"}, 25600},
		"blocks":                             {[]string{"0"}, []string{"num_gpu_blocks", "800", "block_size", "32"}, 25600},
		"blocks are summed over the engines": {[]string{"0", "1"}, []string{"num_gpu_blocks", "800", "block_size", "32"}, 12800},
		"None is unknown":                    {[]string{"0"}, []string{"num_gpu_blocks", "None", "block_size", "32"}, 0},
		"a sliding window":                   {[]string{"0"}, []string{"num_gpu_blocks", "800", "block_size", "32", "sliding_window", "4096"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, p := newFollow(), newPage("vllm", "a:8000", "m")
			for _, e := range c.engines {
				p.set(1, collector.VLLMCacheConfig, append([]string{"engine", e}, c.labels...)...)
			}
			f.scrape(p, step)
			got, ok := unitWindow{unit: f.units[0]}.capacity()
			if got != c.want || ok != (c.want > 0) {
				t.Errorf("capacity %g (%t), want %g", got, ok, c.want)
			}
		})
	}
}
