package fleet

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"
)

// The demo lives from one thing: a collapse detector that sees these pages has
// learned what is usual by 120 s, says nothing before the onset, fires soon
// after it and resolves soon after its end. The detector here is written from
// its published definition, for this test only.
func TestDemoShowsACollapse(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= demoSeeds; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			fleet := mustNew(t, DemoConfig(seed, time.Time{}))
			begin, end := fleet.Scenario().Onset, fleet.Scenario().End
			d := newCollapseDetector()
			for now := time.Duration(0); now <= end+2*time.Minute; now += time.Second {
				fleet.Step(now)
				d.tick(readPool(t, fleet), time.Second, now)
			}
			t.Logf("learned %v, usual miss %.3f, heavy prompt %.0f, %v", d.learned, d.usual(), d.heavyPrompt(), d.levels)
			if d.learned == 0 || d.learned > 120*time.Second {
				t.Errorf("learned at %v, want by 120s", d.learned)
			}
			for _, level := range d.levels {
				if len(level.fired) != 1 {
					t.Fatalf("%s fired at %v, want once", level.name, level.fired)
				}
				if level.fired[0] < begin || level.fired[0] > begin+30*time.Second {
					t.Errorf("%s fired at %v, want within 30s of %v", level.name, level.fired[0], begin)
				}
				if len(level.resolved) != 1 || level.resolved[0] < end || level.resolved[0] > end+90*time.Second {
					t.Errorf("%s resolved at %v, want once within 90s of %v", level.name, level.resolved, end)
				}
			}
		})
	}
}

// The healthy fleet never looks like a collapse.
func TestHealthyShowsNone(t *testing.T) {
	t.Parallel()
	fleet := mustNew(t, Config{Seed: 21})
	d := newCollapseDetector()
	for now := time.Duration(0); now <= 5*time.Minute; now += time.Second {
		fleet.Step(now)
		d.tick(readPool(t, fleet), time.Second, now)
	}
	for _, level := range d.levels {
		if len(level.fired) > 0 {
			t.Errorf("%s fired at %v", level.name, level.fired)
		}
	}
}

const (
	demoTimeScale = 0.005
	demoHour      = 18 * time.Second
	hourPrompts   = 32.0
	firePrompts   = 40.0
	// resolvePrompts is how many heavy prompts must have gone well.
	resolvePrompts = 384.0
)

// poolCounters are the sums over all engines of what the detector reads.
type poolCounters struct {
	prompt, cached float64
	bounds         []float64
	buckets        []float64 // cumulative
}

// readPool takes the counters from the pages of all engines.
func readPool(t *testing.T, f *Fleet) poolCounters {
	t.Helper()
	var sum poolCounters
	var page bytes.Buffer
	for i := range f.engines {
		page.Reset()
		if err := f.EnginePage(i, &page); err != nil {
			continue
		}
		for line := range familyLines(page.Bytes(), "vllm:prompt_tokens_total{") {
			sum.prompt += lineValue(t, line)
		}
		for line := range familyLines(page.Bytes(), "vllm:prompt_tokens_cached_total{") {
			sum.cached += lineValue(t, line)
		}
		bucket := 0
		for line := range familyLines(page.Bytes(), "vllm:request_prompt_tokens_bucket{") {
			if bucket == len(sum.bounds) {
				sum.bounds, sum.buckets = append(sum.bounds, bucketBound(t, line)), append(sum.buckets, 0)
			}
			sum.buckets[bucket] += lineValue(t, line)
			bucket++
		}
	}
	return sum
}

// familyLines are the lines of a page that begin with start; they follow each other.
func familyLines(page []byte, start string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		at := bytes.Index(page, []byte("\n"+start))
		for at >= 0 && bytes.HasPrefix(page[at+1:], []byte(start)) {
			page = page[at+1:]
			at = bytes.IndexByte(page, '\n')
			if !yield(page[:at]) {
				return
			}
		}
	}
}

func bucketBound(t *testing.T, line []byte) float64 {
	t.Helper()
	_, rest, _ := bytes.Cut(line, []byte(`le="`))
	le, _, _ := bytes.Cut(rest, []byte(`"`))
	bound, err := strconv.ParseFloat(string(le), 64)
	if err != nil {
		t.Fatal(err)
	}
	return bound
}

func lineValue(t *testing.T, line []byte) float64 {
	t.Helper()
	value, err := strconv.ParseFloat(string(line[bytes.LastIndexByte(line, ' ')+1:]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// collapseDetector is one pool's state: what is usual, and the excess of
// misses at each level.
type collapseDetector struct {
	last    *poolCounters
	levels  []*collapseLevel
	learned time.Duration

	calls, heavyUp, heavyDown float64 // decayed: calls, sum n mid², sum n mid

	hours  []float64
	hour   evidence
	closed []evidence
	open   evidence
}

// evidence adds up misses, queried tokens and covered time.
type evidence struct {
	misses, queried float64
	covered         time.Duration
	began           time.Duration
}

type collapseLevel struct {
	name            string
	kappa           float64
	excess          float64
	firing          bool
	drained         time.Duration
	fired, resolved []time.Duration
	recovered       int
}

func (l *collapseLevel) String() string {
	return fmt.Sprintf("%s fired %v resolved %v", l.name, l.fired, l.resolved)
}

func newCollapseDetector() *collapseDetector {
	return &collapseDetector{levels: []*collapseLevel{{name: "warn", kappa: 1.5}, {name: "page", kappa: 2}}}
}

func (d *collapseDetector) usual() float64 {
	sorted := slices.Sorted(slices.Values(d.hours))
	if len(sorted) == 0 {
		return math.NaN()
	}
	return max(0.02, (sorted[(len(sorted)-1)/2]+sorted[len(sorted)/2])/2)
}

func (d *collapseDetector) heavyPrompt() float64 { return d.heavyUp / d.heavyDown }

func (d *collapseDetector) tick(c poolCounters, dt, now time.Duration) {
	last := d.last
	d.last = &c
	if last == nil {
		return
	}
	queried := c.prompt - last.prompt
	misses := queried - (c.cached - last.cached)
	d.weigh(c, *last, dt)
	if d.calls < 50 {
		return
	}
	p := d.heavyPrompt()
	d.learn(misses, queried, p, dt, now)
	if len(d.hours) < 6 {
		return
	}
	b := d.usual()
	for _, l := range d.levels {
		l.excess = max(0, min(l.excess+misses-l.kappa*b*queried, 2*firePrompts*p))
		if !l.firing && l.excess >= firePrompts*p {
			l.firing, l.drained, l.recovered = true, 0, 0
			l.fired = append(l.fired, now)
		}
	}
	d.resolve(evidence{misses: misses, queried: queried, covered: dt}, b, p, now)
}

// weigh keeps the size of a heavy prompt.
func (d *collapseDetector) weigh(c, last poolCounters, dt time.Duration) {
	decay := math.Exp(-dt.Seconds() / (8.3 * 3600 * demoTimeScale))
	d.calls, d.heavyUp, d.heavyDown = d.calls*decay, d.heavyUp*decay, d.heavyDown*decay
	below, belowLast, lower := 0.0, 0.0, 0.0
	for i, bound := range c.bounds {
		n := (c.buckets[i] - below) - (last.buckets[i] - belowLast)
		below, belowLast = c.buckets[i], last.buckets[i]
		mid := (lower + bound) / 2
		if math.IsInf(bound, 1) {
			mid = 1.2 * lower
		}
		lower = bound
		d.calls += n
		d.heavyUp += n * mid * mid
		d.heavyDown += n * mid
	}
}

// learn closes hours of what is usual, unless something is unusual now.
func (d *collapseDetector) learn(misses, queried, p float64, dt, now time.Duration) {
	for _, l := range d.levels {
		if l.firing || l.excess > firePrompts*p/2 {
			d.hour = evidence{}
			return
		}
	}
	d.hour.misses += misses
	d.hour.queried += queried
	d.hour.covered += dt
	if d.hour.covered < demoHour || d.hour.queried < hourPrompts*p {
		return
	}
	d.hours = append(d.hours, d.hour.misses/d.hour.queried)
	d.hours = d.hours[max(0, len(d.hours)-72):]
	d.hour = evidence{}
	if len(d.hours) == 6 && d.learned == 0 {
		d.learned = now
	}
}

// resolve ends what is over: drained, or recovered.
func (d *collapseDetector) resolve(tick evidence, b, p float64, now time.Duration) {
	if d.open.covered == 0 {
		d.open.began = now - tick.covered
	}
	d.open.misses += tick.misses
	d.open.queried += tick.queried
	d.open.covered += tick.covered
	closes := d.open.covered.Seconds() >= 60*demoTimeScale && d.open.queried >= resolvePrompts*p/15
	if closes {
		d.closed = append(d.closed, d.open)
		d.closed = d.closed[max(0, len(d.closed)-31):]
		d.open = evidence{}
	}
	for _, l := range d.levels {
		if !l.firing {
			continue
		}
		l.drained += tick.covered
		if l.excess >= firePrompts*p/2 {
			l.drained = 0
		}
		again := len(l.resolved) > 0 && now-l.resolved[len(l.resolved)-1] < demoHour
		drainedFor, times := 300*demoTimeScale, 1
		if again {
			drainedFor, times = 1200*demoTimeScale, 16
		}
		if closes {
			l.recovered++
			if !d.recovered(l.fired[len(l.fired)-1], b, p) {
				l.recovered = 0
			}
		}
		if l.drained.Seconds() >= drainedFor || l.recovered >= times {
			l.firing, l.excess = false, 0
			l.resolved = append(l.resolved, now)
		}
	}
}

// recovered looks back over enough closed blocks that began after the fire.
func (d *collapseDetector) recovered(fired time.Duration, b, p float64) bool {
	var sum evidence
	for _, back := range slices.Backward(d.closed) {
		if back.began < fired {
			return false
		}
		sum.misses += back.misses
		sum.queried += back.queried
		sum.covered += back.covered
		if sum.covered.Seconds() >= 900*demoTimeScale && sum.queried >= resolvePrompts*p {
			return sum.misses <= 1.2*b*sum.queried
		}
	}
	return false
}

func mustNew(t testing.TB, config Config) *Fleet {
	t.Helper()
	f, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
