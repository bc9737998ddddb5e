package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kvwatch/collector"
)

// partFleet is four pools of two engines, and a gateway that counts 503s of
// each. A page of m3 has an engine of m4 too.
func partFleet() (pages []*page) {
	for i := range 8 {
		p := newPage("vllm", fmt.Sprintf("e%d:8000", i), fmt.Sprintf("m%d", i/2+1))
		p.fill()
		pages = append(pages, p)
	}
	shared := pages[5]
	own := shared.base
	shared.base = newPage("vllm", "e5:8000", "m4").base
	shared.set(1, collector.VLLMRunning, "engine", "1")
	shared.base = own
	g := newGatewayPage("g:4000")
	for m := range 4 {
		g.set(0, collector.LiteLLMDeployFailure, "model_id", fmt.Sprint(m), "requested_model", fmt.Sprintf("m%d", m+1), "exception_status", "503")
	}
	return append(pages, g)
}

// watchParts runs the pages that are wanted and tells the series of a pool.
func watchParts(t *testing.T, pool string, wanted func(*page) bool) (series map[string]string, e *Engine) {
	t.Helper()
	e, err := New(Options{ScrapeInterval: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	pages := partFleet()
	for i := range 90 {
		now := testStart.Add(time.Duration(i) * 5 * time.Second)
		for j, p := range pages {
			if !wanted(p) {
				continue
			}
			if p.target.Source == collector.SourceVLLM {
				p.serve(float64(j+1), 20_000, 4_000, 100)
			} else {
				p.add(1, collector.LiteLLMDeployFailure, "model_id", "1", "requested_model", "m2", "exception_status", "503")
			}
			r := p.round(now)
			e.Observe(&r)
		}
		if err := e.Eval(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	series = map[string]string{}
	for _, r := range e.Recorded() {
		if r.Labels.Get("pool") == pool {
			series[r.Labels.String()] = fmt.Sprint(r.Value, r.Known, r.Quality, r.Summary)
		}
	}
	return series, e
}

// TestPartsSideBySide has several pools worked out at once that ask one gateway;
// the race detector watches. A pool must come out as it does alone.
func TestPartsSideBySide(t *testing.T) {
	t.Parallel()
	for i, model := range []string{"m1", "m2"} {
		pool := "vllm/" + model
		all, e := watchParts(t, pool, func(*page) bool { return true })
		alone, _ := watchParts(t, pool, func(p *page) bool {
			return p.target.Source != collector.SourceVLLM || strings.HasSuffix(p.base.Get("model_name"), model)
		})
		if diff := cmp.Diff(alone, all); diff != "" || len(all) < 20 {
			t.Errorf("pool %s of %d series differs from what it is alone:\n%s", pool, len(all), diff)
		}
		for name, p := range e.pools {
			if shares := name == "vllm/m3" || name == "vllm/m4"; p.sharesPage != shares {
				t.Errorf("pool %s shares a page: %t, want %t", name, p.sharesPage, shares)
			}
		}
		w := e.instant(e.now).pool(e.pools[pool])
		if n := w.refusedIn(e.now.Add(-time.Minute), e.now); n != float64(12*i) {
			t.Errorf("pool %s was refused %g calls in a minute, want %d", pool, n, 12*i)
		}
	}
}
