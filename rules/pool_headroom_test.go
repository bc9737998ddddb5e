package rules

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

// loaded is a fleet whose prefill is busy for a share of the time, at a rate of
// calls per engine and scrape.
func loaded(t *testing.T, engines int, calls, occupancy float64, o Options) *plainFleet {
	t.Helper()
	f := newPlainFleet(t, engines, o)
	f.calls = calls
	f.busy(occupancy)
	return f
}

// busy sets the share of the time that prefill is busy.
func (f *plainFleet) busy(occupancy float64) {
	f.set = func(_ int, p *page) {
		p.observe(collector.VLLMQueueTime, timeBounds, 0, 1)
		// What serve observes is not the whole of it.
		p.values[p.of(collector.VLLMTTFT+collector.SumSuffix)] = p.values[p.of("busy")] + occupancy*step.Seconds()
		p.set(p.values[p.of(collector.VLLMTTFT+collector.SumSuffix)], "busy")
	}
}

func TestLoadHeadroomLow(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "rules.json")
	f := loaded(t, 2, 3, 0.2, Options{StateFile: state})
	f.run(time.Hour)
	if d := f.detector(loadHeadroomLow); d.Phase != PhaseWatching || !strings.HasPrefix(d.Text, "headroom ") {
		t.Fatalf("detector %+v", d)
	}
	if r := f.series("kvwatch_pool_load_headroom_ratio"); !r.Known || r.Quality != QualityOK || r.Value < 1.5 || r.Value > 3 {
		t.Errorf("series %+v", r)
	}
	// T0 is what the residency series tells, and the boundary follows from it.
	w := f.pool()
	h := &w.pool.headroom
	series := instant{now: time.UnixMilli(h.at), ms: h.at, fresh: time.Minute, interval: step}.pool(w.pool)
	if r := poolResidency(series, ""); h.residency != r.Value || h.at <= w.ms-headroomEvery.Milliseconds() {
		t.Errorf("T0 is %g s, the series tells %g s", h.residency, r.Value)
	}
	want := 0.5 + 0.5*math.Erf(math.Log(h.residency/250)/1.5/math.Sqrt2)
	if r := f.series("kvwatch_pool_predicted_boundary_hit_ratio"); math.Abs(r.Value-want) > 1e-9 {
		t.Errorf("predicted boundary hit ratio %+v, want %.4f", r, want)
	}
	f.busy(0.55)
	f.run(45 * time.Minute)
	if !f.firing(loadHeadroomLow) {
		t.Fatalf("it does not fire: %+v", f.detector(loadHeadroomLow))
	}
	a := f.lastFired(loadHeadroomLow)
	for _, part := range []string{"predicted to saturate", "idle gaps: 4 min median, assumed", "Binding: prefill", "Fires at 1.2 times", "% of the prompt tokens are missed", "medium: a model"} {
		if text := a.Annotations["description"] + a.Evidence.Confidence; !strings.Contains(text, part) {
			t.Errorf("the text has no %q: %s", part, text)
		}
	}
	f.busy(0.2)
	f.run(50 * time.Minute)
	if !f.firing(loadHeadroomLow) {
		t.Error("it ends before there was headroom for half an hour")
	}
	f.start() // a restart, in the middle of the rest, without history
	f.run(30 * time.Minute)
	if f.firing(loadHeadroomLow) || f.alerts(loadHeadroomLow) != 1 {
		t.Errorf("fires %t, fired %d times: %+v", f.firing(loadHeadroomLow), f.alerts(loadHeadroomLow), f.detector(loadHeadroomLow))
	}
}

// TestHeadroomLooksBackTheSame has a reload long after the load was looked at: it
// is looked at anew as of then, and what it was half an hour before is still held.
func TestHeadroomLooksBackTheSame(t *testing.T) {
	t.Parallel()
	f := loaded(t, 2, 3, 0.5, Options{})
	f.run(time.Hour)
	f.busy(0.1) // so that each minute that is missing is seen
	f.run(25 * time.Minute)
	headroom := func() *poolHeadroom { return &f.pool().pool.headroom }
	for f.now.UnixMilli()-headroom().at < (headroomEvery - step).Milliseconds() {
		f.run(step)
	}
	before := *headroom()
	if err := f.engine.Reload(nil, withoutWatchdog(nil), step); err != nil {
		t.Fatal(err)
	}
	f.eval()
	if after := headroom(); after.at != before.at || before.load.occupancy == 0 || math.Abs(after.load.occupancy-before.load.occupancy) > 1e-9 {
		t.Errorf("as of %d an occupancy of %g, and after a reload as of %d one of %g", before.at, before.load.occupancy, after.at, after.load.occupancy)
	}
}

func TestLoadHeadroomLowByResidency(t *testing.T) {
	t.Parallel()
	f := loaded(t, 2, 14, 0.3, Options{})
	f.run(time.Hour)
	if !f.firing(loadHeadroomLow) {
		t.Fatalf("it does not fire: %+v", f.detector(loadHeadroomLow))
	}
	if a := f.lastFired(loadHeadroomLow); !strings.Contains(a.Evidence.CauseText, "Binding: KV residency") || !strings.Contains(a.Annotations["summary"], "bound by KV residency") {
		t.Errorf("%s: %s", a.Annotations["summary"], a.Evidence.CauseText)
	}
	if a := f.lastFired("TurnBoundaryCollapse"); a.Severity != SeverityInfo || !strings.Contains(a.Evidence.Seen, "Predicted, not measured") || !strings.Contains(a.Annotations["summary"], "a prediction") {
		t.Errorf("alert %+v", a)
	}
}

// TestOutageMovesNoRate has nobody read for about 10 minutes, shorter and
// longer than the gap over which an increase is believed, while all goes on.
func TestOutageMovesNoRate(t *testing.T) {
	t.Parallel()
	for _, outage := range []time.Duration{9 * time.Minute, 10 * time.Minute, 12 * time.Minute} {
		f := loaded(t, 2, 3, 0.3, Options{})
		f.run(time.Hour)
		w := f.pool()
		residency, _, _ := w.residency(w.ms-residencyWindow.Milliseconds(), w.ms)
		for i, p := range f.pages {
			for range int(outage / step) {
				f.serve(p, f.miss[i])
				f.set(i, p)
			}
		}
		f.now = f.now.Add(outage)
		for range 160 {
			f.run(step)
			w := f.pool()
			if got, told, ok := w.residency(w.ms-residencyWindow.Milliseconds(), w.ms); !ok || told != 2 || math.Abs(got-residency) > 0.2*residency {
				t.Fatalf("outage of %s: the residency moves from %.0f s to %.0f s", outage, residency, got)
			}
			if p, told := w.prefillShare(residencyWindow); told > 0 && math.Abs(p.ratio()-0.3) > 0.01 {
				t.Fatalf("outage of %s: the occupancy moves from 0.3 to %.3f", outage, p.ratio())
			}
		}
		if f.alerts(loadHeadroomLow)+f.alerts("PrefillSaturated")+f.alerts(kvSeatShortage) > 0 {
			t.Errorf("an outage of %s fires %s", outage, f.fired[0].Name)
		}
	}
}

func TestHeadroomWithAnExternalTier(t *testing.T) {
	t.Parallel()
	f := loaded(t, 1, 14, 0.3, Options{})
	set := f.set
	f.set = func(i int, p *page) {
		set(i, p)
		p.add(0, collector.VLLMExternalHits)
		p.add(2000, collector.VLLMExternalHits)
	}
	f.run(time.Hour)
	if d := f.detector(loadHeadroomLow); d.Phase != PhaseUnknown || !strings.Contains(d.Text, "n/a: an external prefix tier served") || !strings.Contains(d.Text, kvSeatShortage) {
		t.Errorf("detector %+v", d)
	}
	for _, name := range []string{"kvwatch_pool_load_headroom_ratio", "kvwatch_pool_predicted_boundary_hit_ratio"} {
		if r := f.series(name); r.Known || !strings.HasPrefix(r.Reason, "n/a") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestHeadroomNeedsEvidence has pools of which too little is known.
func TestHeadroomNeedsEvidence(t *testing.T) {
	t.Parallel()
	little := loaded(t, 1, 0.05, 0.3, Options{})
	untimed := newPlainFleet(t, 1, Options{})
	untimed.set = func(int, *page) {}
	young := loaded(t, 1, 14, 0.3, Options{})
	for name, x := range map[string]struct {
		f    *plainFleet
		d    time.Duration
		want string
	}{
		"too little":     {little, 8 * time.Hour, "insufficient evidence"},
		"no queue time":  {untimed, time.Hour, "queue times"},
		"just installed": {young, 9 * time.Minute, "insufficient evidence"},
	} {
		x.f.run(x.d)
		d := x.f.detector(loadHeadroomLow)
		if r := x.f.series("kvwatch_pool_load_headroom_ratio"); d.Phase != PhaseUnknown || r.Known || !strings.Contains(d.Text, x.want) || !strings.Contains(r.Reason, x.want) {
			t.Errorf("%s: %+v; series %+v", name, d, r)
		}
		x.f.pages = nil
		x.f.run(5 * time.Minute)
		if d := x.f.detector(loadHeadroomLow); d.Phase != PhaseUnknown || !strings.Contains(d.Text, "read lately") {
			t.Errorf("%s, without pages: %+v", name, d)
		}
	}
}
