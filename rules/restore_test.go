package rules

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"kvwatch/collector/history"
)

// TestRestore fills a real history, starts anew from it and expects the very
// same windows and the same derived series.
func TestRestore(t *testing.T) {
	t.Parallel()
	store, err := history.Open(history.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	state := filepath.Join(t.TempDir(), "rules.json")
	f := newFleet(t, 2, Options{StateFile: state, Append: store.Append, Rules: map[string]Override{"TargetDown": {Disabled: true}}})
	f.store, f.lost = store, 0.05
	f.run(150 * time.Minute)
	f.pages[1].restart()
	f.run(5 * time.Minute)
	before := f.engine
	if err := before.Save(); err != nil {
		t.Fatal(err)
	}

	f.start()
	if err := f.engine.Restore(t.Context(), f.now, store.Scan); err != nil {
		t.Fatal(err)
	}
	f.eval()
	compareWindows(t, before, f.engine, f.now)
	compareRecorded(t, before, f.engine)

	// Pages go on as if nothing had happened: nothing is added twice or lost, and
	// whole histograms are those that history had in parts.
	sums, histograms := poolPrompted(f.engine, f.now), map[targetKey]int{}
	for key, r := range f.engine.targets {
		histograms[key] = len(r.children)
		if len(r.children) == 0 || len(r.byLabels) > 3*len(r.children) {
			t.Errorf("%v has %d histograms and %d places", key, len(r.children), len(r.byLabels))
		}
	}
	f.run(step)
	for key, r := range f.engine.targets {
		if len(r.children) != histograms[key] {
			t.Errorf("%v has %d histograms, and had %d", key, len(r.children), histograms[key])
		}
	}
	if more := poolPrompted(f.engine, f.now) - sums; more < 0 || more > 40*f.prompt {
		t.Errorf("the first page after the restart added %g tokens", more)
	}
}

func poolPrompted(e *Engine, now time.Time) float64 {
	sum := 0.0
	for _, u := range e.pools["vllm/m"].members {
		sum += u.increase(totalPrompt, now.Add(-time.Hour).UnixMilli(), now.UnixMilli())
	}
	return sum
}

func compareWindows(t *testing.T, a, b *Engine, now time.Time) {
	t.Helper()
	for key, ta := range a.targets {
		tb := b.targets[key]
		if tb == nil || len(tb.units) != len(ta.units) {
			t.Fatalf("%v did not come back", key)
		}
		for i, ua := range ta.units {
			wa := unitWindow{now: now, ms: now.UnixMilli(), fresh: time.Minute, unit: ua}
			wb := wa
			wb.unit = tb.units[i]
			for _, d := range []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 119 * time.Minute} {
				for g := range totals {
					if g.reach() != reachLong && d > shortWindow {
						continue
					}
					if x, y := wa.Increase(g, d), wb.Increase(g, d); math.Abs(x-y) > 1e-6 {
						t.Errorf("%v total %d over %s: %g, restored %g", key, g, d, x, y)
					}
				}
				for h := range hists {
					if h.countReach() == reachShort && d > shortWindow || h.countReach() == reachMiddle && d > residencyWindow {
						continue
					}
					if x, y := wa.HistCount(h, d), wb.HistCount(h, d); x != y {
						t.Errorf("%v histogram %d over %s: %g, restored %g", key, h, d, x, y)
					}
				}
			}
		}
	}
}

// compareRecorded expects the same values, but for what is cumulative since the
// engine first saw it.
func compareRecorded(t *testing.T, a, b *Engine) {
	t.Helper()
	restored := map[string]Recorded{}
	for _, r := range b.Recorded() {
		restored[r.Labels.String()] = r
	}
	compared := 0
	for _, x := range a.Recorded() {
		name := x.Labels.Get(model.MetricNameLabel)
		y, ok := restored[x.Labels.String()]
		if !ok {
			t.Errorf("%s did not come back", x.Labels)
			continue
		}
		if !x.Known || len(name) > 6 && name[len(name)-6:] == "_total" {
			continue
		}
		compared++
		if !y.Known {
			t.Errorf("%s is unknown after the restart: %s", x.Labels, y.Reason)
			continue
		}
		if x.Summary != nil {
			for i, q := range x.Summary.Quantiles {
				if math.Abs(q.Value-y.Summary.Quantiles[i].Value) > 1e-9 {
					t.Errorf("%s %g: %g, restored %g", x.Labels, q.Q, q.Value, y.Summary.Quantiles[i].Value)
				}
			}
		} else if math.Abs(x.Value-y.Value) > 1e-6*math.Abs(x.Value) {
			t.Errorf("%s: %g, restored %g", x.Labels, x.Value, y.Value)
		}
	}
	if compared < 40 {
		t.Errorf("only %d series were compared", compared)
	}
}
