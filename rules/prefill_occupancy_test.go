package rules

import (
	"math"
	"testing"
	"time"

	"kvwatch/collector"
)

// prefilling is a fleet whose requests wait and are computed for a known time.
func prefilling(t *testing.T, engines int, queue, prefill float64) *plainFleet {
	t.Helper()
	f := newPlainFleet(t, engines, Options{})
	f.calls = 0
	f.set = func(_ int, p *page) { servePrefill(p, 3, queue, prefill) }
	return f
}

// servePrefill plays n requests that waited and were computed for so long.
func servePrefill(p *page, n, queue, prefill float64) {
	p.gauges(4, 0, 0.3)
	p.observe(collector.VLLMTTFT, timeBounds, queue+prefill, n)
	p.observe(collector.VLLMQueueTime, timeBounds, queue, n)
}

// pool is the window of the only pool, now.
func (f *fleet) pool() PoolWindow {
	for _, p := range f.engine.pools {
		return f.engine.instant(f.now).pool(p)
	}
	f.t.Fatal("there is no pool")
	return PoolWindow{}
}

// series is the only derived series of that name with those labels.
func (f *fleet) series(name string, labels ...string) Recorded {
	f.t.Helper()
	var found []Recorded
	for _, r := range f.engine.Recorded() {
		if r.Labels.Get("__name__") != name {
			continue
		}
		matches := true
		for i := 0; i+1 < len(labels); i += 2 {
			matches = matches && r.Labels.Get(labels[i]) == labels[i+1]
		}
		if matches {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		f.t.Fatalf("there are %d series %s %v", len(found), name, labels)
	}
	return found[0]
}

func TestPrefillOccupancy(t *testing.T) {
	t.Parallel()
	f := prefilling(t, 3, 2, 1.5)
	f.run(20 * time.Minute)
	want := 3 * 1.5 / step.Seconds()
	if p, told := f.pool().prefillShare(prefillWindow); told != 3 || math.Abs(p.ratio()-want) > 0.001 {
		t.Errorf("%.4f of %d engines, want %.4f of 3", p.ratio(), told, want)
	}
	if r := f.series("kvwatch_pool_prefill_occupancy_ratio"); !r.Known || r.Quality != QualityOK || math.Abs(r.Value-want) > 0.001 {
		t.Errorf("series %+v", r)
	}
	// Pages that stay away for 10 minutes, while all goes on as before, move nothing.
	for i, p := range f.pages {
		for range int(10 * time.Minute / step) {
			f.serve(p, 0)
			f.set(i, p)
		}
	}
	f.now = f.now.Add(10 * time.Minute)
	for range 60 {
		f.run(step)
		if p, told := f.pool().prefillShare(prefillWindow); told > 0 && math.Abs(p.ratio()-want) > 0.02*want {
			t.Fatalf("after an outage of 10 minutes it moves from %.4f to %.4f", want, p.ratio())
		}
	}
	if _, told := f.pool().prefillShare(prefillWindow); told != 3 {
		t.Errorf("15 minutes after the outage %d engines tell", told)
	}
}

func TestPrefillOccupancyUnknown(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(p *page){
		"no queue time": func(p *page) { p.observe(collector.VLLMTTFT, timeBounds, 1, 3) },
		"impossible": func(p *page) {
			servePrefill(p, 1, 0.1, 0.2)
			p.add(3e5, collector.VLLMTTFT+collector.SumSuffix)
		},
	} {
		f := newPlainFleet(t, 1, Options{})
		f.calls = 0
		f.set = func(_ int, p *page) { set(p) }
		f.run(15 * time.Minute)
		if r := f.series("kvwatch_pool_prefill_occupancy_ratio"); r.Known || r.Reason == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	f := prefilling(t, 1, 0, 1)
	f.run(2 * time.Minute)
	if r := f.series("kvwatch_pool_prefill_occupancy_ratio"); r.Known {
		t.Errorf("it is told after 2 minutes of 10: %+v", r)
	}
}
