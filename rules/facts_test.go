package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"

	"kvwatch/collector"
)

// A fact is one row of what is known to mislead monitors: what a server showed,
// and what is right to derive from it.
type fact struct {
	// report is its number or name; is says what is right.
	report, is string
	show       func(s *shown)
	want       []derived
}

// derived is one derived series as it must be.
type derived struct {
	name string
	// label is that of the series' own label, such as the window; "" is any.
	label string
	value float64
	// absent says that there must be no value.
	absent  bool
	quality Quality
	// reason is a part of why; "" is none at all.
	reason string
	// from is a part of what was read; "" is anything.
	from string
}

// shown is what servers showed: pages and the engine that they were fed to.
type shown struct {
	t       *testing.T
	engine  *Engine
	now     time.Time
	pages   []*page
	version string
	sampled bool
}

func (f fact) test(t *testing.T) {
	t.Parallel()
	e, err := New(Options{ScrapeInterval: step})
	if err != nil {
		t.Fatal(err)
	}
	s := &shown{t: t, engine: e, now: testStart}
	f.show(s)
	if err := e.Eval(t.Context(), s.now); err != nil {
		t.Fatal(err)
	}
	recorded := e.Recorded()
	for _, w := range f.want {
		w.check(t, recorded)
	}
}

// vllm begins a page of an engine, gateway one of a gateway.
func (s *shown) vllm() *page {
	return s.add(newPage("vllm", fmt.Sprintf("e%d:8000", len(s.pages)), "m"))
}

func (s *shown) gateway() *page { return s.add(newGatewayPage("g:4000")) }

func (s *shown) add(p *page) *page {
	s.pages = append(s.pages, p)
	return p
}

// scrape reads all pages n times, each time after change.
func (s *shown) scrape(n int, change func(i int)) {
	for i := range n {
		if change != nil {
			change(i)
		}
		s.now = s.now.Add(step)
		for _, p := range s.pages {
			r := p.round(s.now)
			r.Version, r.Sampled = s.version, s.sampled
			s.engine.Observe(&r)
		}
	}
}

func (w derived) check(t *testing.T, recorded []Recorded) {
	t.Helper()
	for _, r := range recorded {
		if r.Labels.Get(model.MetricNameLabel) != w.name || w.label != "" && r.Labels.Get("window") != w.label && r.Labels.Get("reason") != w.label {
			continue
		}
		if r.Known == w.absent || r.Quality != w.quality {
			t.Errorf("%s %s: known %t, quality %s (%s)", w.name, w.label, r.Known, r.Quality, r.Reason)
		}
		if !w.absent && r.Summary == nil && math.Abs(r.Value-w.value) > 1e-9*math.Abs(w.value) {
			t.Errorf("%s %s: %v, want %v", w.name, w.label, r.Value, w.value)
		}
		if !strings.Contains(r.Reason, w.reason) || w.reason == "" && r.Reason != "" {
			t.Errorf("%s %s: reason %q", w.name, w.label, r.Reason)
		}
		if !strings.Contains(r.From, w.from) {
			t.Errorf("%s %s: from %q", w.name, w.label, r.From)
		}
		return
	}
	t.Errorf("there is no %s %s", w.name, w.label)
}

func (s *shown) summary(name string) *Summary {
	s.t.Helper()
	for _, r := range s.engine.Recorded() {
		if r.Labels.Get(model.MetricNameLabel) == name && r.Summary != nil {
			return r.Summary
		}
	}
	s.t.Fatalf("there is no %s", name)
	return nil
}

func TestParseRelease(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]release{
		"0.27.0": {0, 27, true}, "v0.11.0": {0, 11, true}, "0.27.1rc2.dev5+gabc": {0, 27, true},
		"1.102.0-stable": {1, 102, true}, "0.9": {0, 9, true}, "0.10rc1": {0, 10, true},
		"0.1.dev1+g7cfb97e": {}, "0.0.0": {}, "": {}, "7": {}, "main": {}, "x.y.z": {},
	} {
		got := parseRelease(version)
		if !got.known {
			got = release{}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(release{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", version, diff)
		}
	}
	r := parseRelease("0.26.3")
	if !r.before(0, 27) || r.before(0, 26) || !r.since(0, 26) || r.since(1, 0) || !r.before(1, 0) {
		t.Error("0.26.3 is not between 0.26 and 0.27")
	}
	if unknown := parseRelease(""); unknown.before(9, 9) || unknown.since(0, 0) {
		t.Error("an unknown release is older or newer than another")
	}
}

// After a restart of kvwatch the windows are filled from history: all that
// rules read must be read back.
func TestRestoreReadsWhatRulesRead(t *testing.T) {
	t.Parallel()
	long, short := windowNames()
	for _, source := range collector.Sources() {
		for _, family := range source.Families {
			_, isGauge := gaugeOf(family, "awake")
			_, isTotal := totalOf(family)
			if (isGauge || isTotal) && !slices.Contains(long, family) && !slices.Contains(short, family) {
				t.Errorf("%s is not read back", family)
			}
			if _, _, ok := histOf(family + collector.SumSuffix); ok && !slices.Contains(long, family+collector.SumSuffix) && !slices.Contains(short, family+collector.SumSuffix) {
				t.Errorf("%s is not read back", family)
			}
		}
	}
}

// approx compares quantiles.
func approx() cmp.Option { return cmpopts.EquateApprox(1e-9, 0) }

const (
	factHits     = "kvwatch_prefix_cache_hit_ratio"
	factPoolHits = "kvwatch_pool_prefix_cache_hit_ratio"
)

// only takes the sources of the hit ratio off a page but those that are named.
func (p *page) only(names ...string) {
	for _, name := range []string{collector.VLLMPromptCached, collector.VLLMCacheQueries, collector.VLLMCacheHits, collector.VLLMPromptHist, collector.VLLMComputedHist} {
		keep := false
		for _, n := range names {
			keep = keep || n == name
		}
		for s := range p.values {
			if n := s.Labels.Get(model.MetricNameLabel); !keep && (n == name || strings.HasPrefix(n, name+"_")) {
				delete(p.values, s)
			}
		}
	}
	p.drop()
}
