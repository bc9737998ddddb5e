package rules

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"kvwatch/collector"
)

// prunedPages is how many pages of a series that is gone may be remembered.
const prunedPages = int((longWindow+pruneEvery)/step) + 1

// TestGoneSeriesAreForgotten lets clients ask for new models without end.
func TestGoneSeriesAreForgotten(t *testing.T) {
	t.Parallel()
	f, p := newFollow(), newGatewayPage("g:4000")
	most, counted := 0, 0.0
	for i := range 3000 {
		was := p.of(collector.LiteLLMRequests, "status_code", "200", "requested_model", fmt.Sprint("m", i-1))
		delete(p.values, was)
		p.drop()
		p.set(5, collector.LiteLLMRequests, "status_code", "200", "requested_model", fmt.Sprint("m", i))
		p.observe(collector.LiteLLMOverhead, timeBounds, 0.01, 1)
		f.now = f.now.Add(step)
		r := p.round(f.now)
		if i > 0 {
			counted += 5
		}
		r.Stale = []*collector.Series{was}
		f.observe(&r)
		most = max(most, len(f.byLabels))
	}
	if most > prunedPages+50 || len(f.served) > prunedPages || len(f.slots) > 50 || len(f.children) > 1 {
		t.Errorf("%d series, %d models, %d slots, %d children are kept", most, len(f.served), len(f.slots), len(f.children))
	}
	if w := f.units[0].totals[totalRequests]; w.sum != counted {
		t.Errorf("counted %g requests, want %g", w.sum, counted)
	}
}

// TestGoneHistogramsAreForgotten does the same for histograms, whole and in
// parts, on pages that nobody says are stale.
func TestGoneHistogramsAreForgotten(t *testing.T) {
	t.Parallel()
	for name, round := range map[string]func(*page, time.Time) collector.Round{"whole": (*page).round, "in parts": (*page).parts} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollow()
			for i := range 1500 {
				p := newGatewayPage("g:4000")
				for _, part := range []string{collector.BucketSuffix, collector.SumSuffix, collector.CountSuffix} {
					le := ""
					if part == collector.BucketSuffix {
						le = "+Inf"
					}
					p.set(float64(i), collector.LiteLLMOverhead+part, "requested_model", fmt.Sprint("m", i), "le", le)
				}
				f.now = f.now.Add(step)
				r := round(p, f.now)
				f.observe(&r)
			}
			if len(f.children) > prunedPages || len(f.byLabels) > 3*prunedPages || len(f.slots) > 4*prunedPages {
				t.Errorf("%d children, %d slots and %d series are kept", len(f.children), len(f.slots), len(f.byLabels))
			}
		})
	}
}

// TestAHistogramWithoutANumberYetIsOne: one that has shown none yet is no other
// when it does, however long it took.
func TestAHistogramWithoutANumberYetIsOne(t *testing.T) {
	t.Parallel()
	f, p := newFollow(), newGatewayPage("g:4000")
	bucket := func(le string) *collector.Series {
		return p.of(collector.LiteLLMOverhead+collector.BucketSuffix, "le", le)
	}
	for _, le := range []string{"1", "+Inf"} {
		p.values[bucket(le)] = math.NaN()
	}
	scrape := func() {
		f.now = f.now.Add(step)
		r := p.parts(f.now)
		f.observe(&r)
	}
	for range 3 * int(pruneEvery/step) {
		scrape()
	}
	p.values[bucket("1")], p.values[bucket("+Inf")], p.values[bucket("0.5")] = 3, 4, 2
	scrape()
	if h := f.units[0].hists[histOverhead]; len(f.children) != 1 || h.count != 4 || h.buckets[0] != 3 || h.buckets[2] != 2 {
		t.Errorf("%d histograms, %g counted, %v", len(f.children), h.count, h.buckets)
	}
}

// TestEmptyPoolsAreDropped takes a pool's engines away; what was learned comes
// back with them.
func TestEmptyPoolsAreDropped(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, Options{}).learned()
	learned := slices.Clone(f.engine.pools["vllm/m"].excess.track().Baseline.Entries)
	pages := f.pages
	f.pages = nil
	f.now = f.now.Add(3 * time.Hour)
	f.run(step)
	if n := len(f.engine.Pools()); n != 0 {
		t.Errorf("%d pools without an engine", n)
	}
	f.pages = pages
	f.run(2 * step)
	p := f.engine.pools["vllm/m"]
	if p == nil || p.excess.track() == nil || !slices.Equal(p.excess.track().Baseline.Entries[:len(learned)], learned) {
		t.Errorf("what was learned did not come back: %v", learned)
	}
	f.pages = nil
	f.now = f.now.Add(3 * time.Hour)
	f.run(step)
	if n := len(f.engine.remembered.Pools); n != 1 {
		t.Errorf("%d pools are remembered", n)
	}
	f.now = f.now.Add(learnedKept + time.Hour)
	f.run(step)
	if n := len(f.engine.remembered.Pools); n != 0 {
		t.Errorf("%d pools are remembered for ever", n)
	}
}
