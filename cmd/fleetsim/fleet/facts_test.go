package fleet

import (
	"slices"
	"testing"
	"time"
)

// facts are what is measured of the calls of a run.
type facts struct {
	promptTokens, cachedTokens, output, tokensPerSecond []float64
	// hit ratios of the first, the second and the later calls of a turn, and of
	// all but the first.
	first, second, later, within []float64
	gapMinutes                   []float64
	calls, turns                 map[uint64]int
	ended                        map[uint64]time.Duration
}

func newFacts() *facts {
	return &facts{calls: map[uint64]int{}, turns: map[uint64]int{}, ended: map[uint64]time.Duration{}}
}

func (f *facts) observe(c CallRecord) {
	if c.Failed || c.Chat {
		return
	}
	if before, ok := f.ended[c.Session]; ok && c.Step == 0 {
		f.gapMinutes = append(f.gapMinutes, (c.Began - before).Minutes())
	}
	f.ended[c.Session] = c.Ended
	f.calls[c.Session]++
	f.turns[c.Session] = c.Turn + 1
	f.promptTokens = append(f.promptTokens, float64(c.PromptTokens))
	f.cachedTokens = append(f.cachedTokens, float64(c.CachedTokens))
	f.output = append(f.output, float64(c.Output))
	if c.Output > 1 {
		f.tokensPerSecond = append(f.tokensPerSecond, float64(c.Output-1)/(c.Ended-c.FirstToken).Seconds())
	}
	hit := float64(c.CachedTokens) / float64(c.PromptTokens)
	switch c.Step {
	case 0:
		f.first = append(f.first, hit)
	case 1:
		f.second = append(f.second, hit)
	default:
		f.later = append(f.later, hit)
	}
	if c.Step > 0 {
		f.within = append(f.within, hit)
	}
}

// perSession are the counts of the sessions that said nothing for long.
func (f *facts) perSession(counts map[uint64]int, now time.Duration) []float64 {
	var all []float64
	for session, n := range counts {
		if now-f.ended[session] > 3*time.Hour {
			all = append(all, float64(n))
		}
	}
	return all
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func mean(values []float64) float64 { return sum(values) / float64(len(values)) }

func sum(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total
}

// The profiles are like production: calls, sessions and caches as measured.
// The bands hold what was measured and what other seeds give.
func TestProfilesAreAsMeasured(t *testing.T) {
	t.Parallel()
	type band struct{ low, high float64 }
	profiles := []struct {
		name                                       string
		first, aggregate, tokensPerSecond, kvUsage band
	}{
		{"A", band{0.50, 0.62}, band{0.88, 0.92}, band{58, 80}, band{0.1, 0.35}},
		{"B", band{0.44, 0.55}, band{0.86, 0.91}, band{52, 68}, band{0.15, 0.45}},
		{"C", band{0.75, 0.85}, band{0.92, 0.96}, band{45, 75}, band{0.35, 0.75}},
	}
	for _, want := range watched(profiles) {
		t.Run(want.name, func(t *testing.T) {
			t.Parallel()
			seen := newFacts()
			f := mustNew(t, Config{Profile: want.name, Seed: 31, Observe: seen.observe})
			usage, looks := 0.0, 0.0
			for now := time.Duration(0); now <= 12*time.Hour; now += 5 * time.Minute {
				f.Step(now)
				for _, e := range f.Truth().Engines {
					usage += e.KVUsage
					looks++
				}
			}
			now := f.Truth().Now
			check := func(what string, got float64, b band) {
				t.Helper()
				if got < b.low || got > b.high {
					t.Errorf("%s is %.3f, want %.3f to %.3f", what, got, b.low, b.high)
				} else {
					t.Logf("%s is %.3f", what, got)
				}
			}
			check("median prompt", median(seen.promptTokens), band{63_000, 76_000})
			check("median of cached tokens", median(seen.cachedTokens), band{56_000, 70_000})
			check("mean output", mean(seen.output), band{420, 470})
			check("tokens per second and user", mean(seen.tokensPerSecond), want.tokensPerSecond)
			check("median calls of a session", median(seen.perSession(seen.calls, now)), band{12, 21})
			check("mean calls of a session", mean(seen.perSession(seen.calls, now)), band{24, 42})
			check("median turns of a session", median(seen.perSession(seen.turns, now)), band{3, 3})
			check("mean turns of a session", mean(seen.perSession(seen.turns, now)), band{3.8, 6.1})
			check("median minutes between turns", median(seen.gapMinutes), band{3.7, 4.6})
			check("hit ratio of first calls", mean(seen.first), want.first)
			check("hit ratio of second calls", mean(seen.second), band{0.86, 0.93})
			check("hit ratio of later calls", mean(seen.later), band{0.92, 0.97})
			check("median hit ratio within a turn", median(seen.within), band{0.97, 0.995})
			check("hit ratio of all tokens", sum(seen.cachedTokens)/sum(seen.promptTokens), want.aggregate)
			check("KV usage", usage/looks, want.kvUsage)
		})
	}
}
