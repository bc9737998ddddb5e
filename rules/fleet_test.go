package rules

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
	"kvwatch/collector/history"
)

// fleet is a pool of engines on a virtual clock. Traffic is what the tests set:
// calls per engine and tick, and the share of a prompt that is computed.
type fleet struct {
	t       testing.TB
	engine  *Engine
	options Options
	pages   []*page
	now     time.Time
	rnd     *rand.Rand
	// calls is the mean number of calls of one engine per tick; prompt their size.
	calls, prompt float64
	// miss is the miss ratio, by engine.
	miss []float64
	// lost is the share of scrapes that fail.
	lost float64
	// source drops series from the pages that have not got them.
	without []string

	// store takes the pages, nil where the test needs no history.
	store *history.Store

	last  []Alert
	fired []Alert
	seen  map[string]bool
}

func newFleet(t testing.TB, engines int, o Options) *fleet {
	t.Helper()
	f := &fleet{t: t, options: o, now: testStart, rnd: rand.New(rand.NewPCG(7, 7)), calls: 3, prompt: 60000, seen: map[string]bool{}}
	for i := range engines {
		f.pages = append(f.pages, newPage("vllm", fmt.Sprintf("e%d:8000", i), "m"))
		f.miss = append(f.miss, 0.1)
	}
	f.start()
	return f
}

// start makes the engine, also after a crash.
func (f *fleet) start() {
	f.t.Helper()
	o := f.options
	o.Rules = withoutWatchdog(o.Rules)
	o.ScrapeInterval = step
	o.Dispatch = func(_ context.Context, _ time.Time, alerts []Alert) {
		f.last = alerts
		for _, a := range alerts {
			key := a.Key() + a.FiredAt.UTC().String()
			if a.State == StateFiring && !f.seen[key] {
				f.seen[key] = true
				f.fired = append(f.fired, a)
				checkEvidence(f.t, a)
			}
		}
	}
	e, err := New(o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.engine = e
}

// withoutWatchdog switches off the alert that always fires.
func withoutWatchdog(rules map[string]Override) map[string]Override {
	quiet := map[string]Override{Watchdog: {Disabled: true}}
	maps.Copy(quiet, rules)
	return quiet
}

// run lets so much time pass.
func (f *fleet) run(d time.Duration) {
	f.t.Helper()
	for end := f.now.Add(d); f.now.Before(end); {
		f.now = f.now.Add(step)
		for i, p := range f.pages {
			f.serve(p, f.miss[i])
			r := p.round(f.now)
			if f.rnd.Float64() < f.lost {
				r = p.down(f.now)
			}
			if f.store != nil {
				if err := f.store.AppendRound(f.t.Context(), &r); err != nil {
					f.t.Fatal(err)
				}
			}
			f.engine.Observe(&r)
		}
		f.eval()
	}
}

func (f *fleet) eval() {
	f.t.Helper()
	if err := f.engine.Eval(f.t.Context(), f.now); err != nil {
		f.t.Fatal(err)
	}
}

// restart kills the daemon and starts it anew. It writes the state once, and
// not at every 30 seconds of a long play.
func (f *fleet) restart() {
	f.t.Helper()
	f.options.StateFile = filepath.Join(f.t.TempDir(), "rules.json")
	state, err := f.engine.state()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := writeState(f.options.StateFile, state); err != nil {
		f.t.Fatal(err)
	}
	f.start()
	f.engine.opts.StateFile = ""
}

// fast makes the detectors of the cache ten times as fast.
func fast() map[string]Override {
	rules := map[string]Override{}
	for _, name := range []string{missRising, cacheCollapse, reprefillShareHigh, prefixCacheDrift, replicaOutlierAlert} {
		rules[name] = Override{TimeScale: 0.1}
	}
	return rules
}

// learnedFast runs until the baselines of fast detectors are valid.
func (f *fleet) learnedFast() *fleet {
	f.t.Helper()
	f.run(50 * time.Minute)
	if p := f.engine.pools["vllm/m"]; !p.excess.track().Baseline.valid() || !p.share.Baseline.valid() {
		f.t.Fatal("nothing was learned in 50 minutes")
	}
	return f
}

// serve plays one tick of an engine: agents' calls of very different size, most
// of them continuing, some computed in whole, so that the mean is miss.
func (f *fleet) serve(p *page, miss float64) {
	n := int(f.calls)
	if f.rnd.Float64() < f.calls-float64(n) {
		n++
	}
	p.gauges(min(4, 4*float64(n)), 0, 0.3)
	for range n {
		prompt := math.Round(f.prompt * math.Exp(0.5*f.rnd.NormFloat64()))
		computed := math.Round(prompt * 0.02)
		if f.rnd.Float64() < (miss-0.02)/0.98 {
			computed = prompt
		}
		p.serve(1, prompt, computed, 400)
	}
	for _, name := range f.without {
		for key, s := range p.series {
			if strings.HasPrefix(key, name) {
				delete(p.values, s)
			}
		}
	}
	if len(f.without) > 0 {
		p.drop()
	}
}

// all sets the miss ratio of every engine.
func (f *fleet) all(miss float64) {
	for i := range f.miss {
		f.miss[i] = miss
	}
}

// alerts counts what fired under the name.
func (f *fleet) alerts(name string) int {
	n := 0
	for _, a := range f.fired {
		if a.Name == name {
			n++
		}
	}
	return n
}

// lastFired is the last alert that fired under the name.
func (f *fleet) lastFired(name string) Alert {
	for _, a := range slices.Backward(f.fired) {
		if a.Name == name {
			return a
		}
	}
	return Alert{}
}

// firing says whether the alert fires now.
func (f *fleet) firing(name string) bool {
	for _, a := range f.last {
		if a.Name == name && a.State == StateFiring {
			return true
		}
	}
	return false
}

// until runs until the alert fires (or no longer does), at most so long, and
// says how long it took.
func (f *fleet) until(name string, fires bool, limit time.Duration) time.Duration {
	f.t.Helper()
	begin := f.now
	for f.now.Sub(begin) < limit {
		f.run(step)
		if f.firing(name) == fires {
			return f.now.Sub(begin)
		}
	}
	f.t.Errorf("%s firing is still %t after %s", name, !fires, limit)
	return limit
}

// detector is what Detectors says of the alert of the only pool.
func (f *fleet) detector(name string) DetectorStatus {
	for _, d := range f.engine.Detectors() {
		if d.Alert == name {
			return d
		}
	}
	return DetectorStatus{}
}

// learned runs until the baseline is valid.
func (f *fleet) learned() *fleet {
	f.t.Helper()
	f.run(8 * time.Hour)
	if d := f.detector(cacheCollapse); d.Phase != PhaseWatching {
		f.t.Fatalf("after 8 hours the detector is %s: %s", d.Phase, d.Text)
	}
	return f
}

func TestLearningIsTold(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{})
	f.run(3*time.Hour + 10*time.Minute)
	if d := f.detector(missRising); d.Phase != PhaseLearning || d.Text != "learning, 3 of 6 hours" {
		t.Errorf("after 3 hours: %s: %q", d.Phase, d.Text)
	}
	for _, r := range f.engine.Recorded() {
		if r.Labels.Get("__name__") == "kvwatch_pool_prefix_cache_hit_ratio_baseline" && (r.Known || r.Reason != "learning, 3 of 6 hours") {
			t.Errorf("the baseline is told while it is learned: %+v", r)
		}
	}
}

func TestAffinityLost(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{}).learned()
	f.all(0.8)
	if d := f.until(cacheCollapse, true, 10*time.Minute); d > 6*time.Minute {
		t.Errorf("the page took %s", d)
	}
	if !f.firing(missRising) {
		t.Error("the page came before the warning")
	}
	a := f.lastFired(cacheCollapse)
	if a.Evidence.Cause != causeRoutingOrOthers || a.Severity != SeverityCritical || a.Labels["pool"] != "vllm/m" || a.Labels["model_name"] != "m" {
		t.Errorf("alert %+v", a)
	}
	for _, part := range []string{"recomputed", "full prompts", "usual"} {
		if !strings.Contains(a.Annotations["description"], part) {
			t.Errorf("the description has no %q: %s", part, a.Annotations["description"])
		}
	}
	f.run(20 * time.Minute)
	f.all(0.1)
	if d := f.until(cacheCollapse, false, time.Hour); d > 25*time.Minute {
		t.Errorf("it took %s to resolve", d)
	}
	if n := f.alerts(cacheCollapse); n != 1 {
		t.Errorf("one incident fired %d times", n)
	}
}

func TestQuarterMisrouted(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{}).learned()
	f.all(0.28)
	if d := f.until(missRising, true, 30*time.Minute); d > 12*time.Minute {
		t.Errorf("the warning took %s", d)
	}
}

func TestOneReplicaWithoutCache(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{}).learned()
	f.miss[2] = 0.95
	f.until(missRising, true, 20*time.Minute)
	a := f.lastFired(missRising)
	if a.Evidence.Cause != causeReplica || !strings.Contains(a.Evidence.CauseText, "e2:8000") {
		t.Errorf("cause %q: %s", a.Evidence.Cause, a.Evidence.CauseText)
	}
}

func TestRestartAloneIsQuiet(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{}).learned()
	// One engine of four comes back empty: each of its live sessions is read
	// once, then all is as before.
	f.pages[1].restart()
	f.miss[1] = 0.9
	f.run(90 * time.Second)
	f.miss[1] = 0.1
	f.run(2 * time.Hour)
	if len(f.fired) > 0 {
		t.Errorf("a restart fired %s: %s", f.fired[0].Name, f.fired[0].Evidence.Seen)
	}
}

func TestCollapseAfterRestartNamesIt(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{}).learned()
	f.pages[1].restart()
	f.all(0.8)
	f.until(cacheCollapse, true, 10*time.Minute)
	if a := f.lastFired(cacheCollapse); a.Evidence.Cause != causeRestart || len(a.Evidence.RunnersUp) == 0 {
		t.Errorf("cause %q, runners-up %v", a.Evidence.Cause, a.Evidence.RunnersUp)
	}
}

func TestChatSwingIsQuiet(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{}).learned()
	for range 6 {
		// Twelve times as many calls, of chat: small prompts, hardly cached.
		for range 120 {
			f.now = f.now.Add(step)
			for _, p := range f.pages {
				f.serve(p, 0.1)
				p.serve(12*f.calls, 900, 500, 300)
				r := p.round(f.now)
				f.engine.Observe(&r)
			}
			f.eval()
		}
		f.run(30 * time.Minute)
	}
	// Over 2 hours a mix that was never seen before is a drift, and blocks are
	// predicted to go before the next turn; no more than that.
	if len(f.fired) > f.alerts(prefixCacheDrift)+f.alerts("TurnBoundaryCollapse") {
		t.Errorf("chat fired %s: %s", f.fired[0].Name, f.fired[0].Evidence.Seen)
	}
}

func TestScrapeGapsAreQuiet(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{Rules: map[string]Override{"TargetDown": {Disabled: true}}}).learned()
	f.lost = 0.08
	f.run(3 * time.Hour)
	for _, p := range f.pages { // nobody is read for 10 minutes
		p.serve(3*40, f.prompt, f.prompt*0.1, 400)
	}
	f.now = f.now.Add(10 * time.Minute)
	f.run(2 * time.Hour)
	if len(f.fired) > 0 {
		t.Errorf("gaps fired %s: %s", f.fired[0].Name, f.fired[0].Evidence.Seen)
	}
	f.all(0.8)
	if d := f.until(cacheCollapse, true, 10*time.Minute); d > 6*time.Minute {
		t.Errorf("with gaps the page took %s", d)
	}
}

func TestLowTrafficIsSilent(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{}).learned()
	f.calls = 0.02
	f.run(2 * time.Hour)
	f.all(0.5)
	f.run(2 * time.Hour)
	if len(f.fired) > 0 {
		t.Errorf("low traffic fired %s: %s", f.fired[0].Name, f.fired[0].Evidence.Seen)
	}
	if d := f.detector(cacheCollapse); !strings.Contains(d.Text, "insufficient evidence") {
		t.Errorf("it does not say that it cannot tell: %q", d.Text)
	}
}

func TestPageBeforeThereIsABaseline(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{})
	f.all(0.8)
	f.run(30 * time.Minute)
	if !f.firing(cacheCollapse) || f.firing(missRising) {
		t.Fatalf("fired %v", f.last)
	}
	if err := f.engine.Accept("vllm/m", f.now); err != nil {
		t.Fatal(err)
	}
	f.run(7 * time.Hour)
	if f.firing(cacheCollapse) || f.alerts(cacheCollapse) != 1 {
		t.Errorf("after it was accepted it fires on: %d times", f.alerts(cacheCollapse))
	}
	if d := f.detector(cacheCollapse); d.Phase != PhaseWatching {
		t.Errorf("after it was accepted it does not learn: %s: %s", d.Phase, d.Text)
	}
}

func TestAccept(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{}).learned()
	f.all(0.4)
	f.until(cacheCollapse, true, 30*time.Minute)
	if err := f.engine.Accept("nobody", f.now); err == nil || !strings.Contains(err.Error(), "vllm/m") {
		t.Errorf("an unknown pool gives %v", err)
	}
	if err := f.engine.Accept("vllm/m", f.now); err != nil {
		t.Fatal(err)
	}
	f.run(step)
	if f.firing(cacheCollapse) || f.firing(missRising) {
		t.Error("alerts of what was accepted fire on")
	}
	f.run(8 * time.Hour)
	if f.alerts(cacheCollapse) != 1 {
		t.Errorf("it fired %d times", f.alerts(cacheCollapse))
	}
	if usual := f.engine.pools["vllm/m"].excess.track().Baseline.usual(); math.Abs(usual-0.4) > 0.05 {
		t.Errorf("the new normal is %.3f, want about 0.4", usual)
	}
	if told := f.engine.Events(testStart, f.now); len(told) != 1 || told[0].Kind != EventAccept || told[0].Pool != "vllm/m" {
		t.Errorf("the journal holds %+v, want the accept", told)
	}
}

// A deploy shortly before the onset is quoted in the alert, also after a
// restart; one of another day is not.
func TestAlertQuotesEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newFleet(t, 4, Options{StateFile: filepath.Join(dir, "rules.json"), Journal: filepath.Join(dir, "journal.jsonl")}).learned()
	mark := func(text string) {
		if err := f.engine.Mark(Event{Pool: "vllm/m", Kind: EventDeploy, Text: text}, f.now); err != nil {
			t.Fatal(err)
		}
	}
	mark("yesterday's")
	f.run(2 * time.Hour)
	mark("router 2.4")
	f.run(10 * time.Minute)
	f.all(0.6)
	f.until(cacheCollapse, true, 30*time.Minute)
	check := func(when string) {
		t.Helper()
		a := f.lastFired(cacheCollapse)
		if len(a.Evidence.Events) != 1 || !strings.HasSuffix(a.Evidence.Events[0], "deploy: router 2.4") {
			t.Errorf("%s it quotes %q", when, a.Evidence.Events)
		}
	}
	check("at first")
	if err := f.engine.Save(); err != nil {
		t.Fatal(err)
	}
	f.start()
	f.run(time.Minute)
	check("after a restart")
}

// What a detector was in the last hours is kept by stretches of five minutes.
func TestDetectorTellsItsPast(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{}).learned()
	f.all(0.4)
	f.until(cacheCollapse, true, 30*time.Minute)
	d := f.detector(cacheCollapse)
	if len(d.Past) == 0 || len(d.Past) > pastBins || d.Fires == "" {
		t.Fatalf("%d stretches, fires when %q", len(d.Past), d.Fires)
	}
	for i, p := range d.Past[1:] {
		if step := p.At.Sub(d.Past[i].At); step != pastBin {
			t.Errorf("a step of %s", step)
		}
	}
	if last := d.Past[len(d.Past)-1]; last.Share < 1 {
		t.Errorf("it fires at %.2f of its threshold", last.Share)
	} else if d.Share == nil || *d.Share < 1 || *d.Share > last.Share || d.Severity != SeverityCritical {
		t.Errorf("now it is said to stand at %v, severity %s", d.Share, d.Severity)
	}
}

func TestOldIncidentBecomesTheNormal(t *testing.T) {
	t.Parallel()
	d1 := Override{TimeScale: 0.1, Settings: map[string]any{"resolve_prompts": 64}}
	f := newFleet(t, 4, Options{Rules: map[string]Override{missRising: d1, cacheCollapse: d1}})
	f.calls = 20
	f.run(time.Hour)
	f.all(0.5)
	f.until(cacheCollapse, true, 20*time.Minute)
	f.until(cacheCollapse, false, 7*time.Hour+13*time.Minute) // 72 h, scaled
	f.run(3 * time.Hour)
	if f.firing(cacheCollapse) || f.alerts(cacheCollapse) != 1 {
		t.Errorf("fired %d times", f.alerts(cacheCollapse))
	}
}

func TestFireAgainNeedsMoreToEnd(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{}).learned()
	f.all(0.8)
	f.until(cacheCollapse, true, 10*time.Minute)
	f.run(20 * time.Minute)
	f.all(0.1)
	first := f.until(cacheCollapse, false, time.Hour)
	f.all(0.8)
	f.until(cacheCollapse, true, 10*time.Minute)
	f.run(20 * time.Minute)
	f.all(0.1)
	again := f.until(cacheCollapse, false, 2*time.Hour)
	if again < first+10*time.Minute {
		t.Errorf("the second time it resolved after %s, the first time after %s", again, first)
	}
}

func TestCountersAloneAreCappedAtWarning(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{})
	f.without = []string{collector.VLLMPromptCached, collector.VLLMComputedHist}
	f.run(8 * time.Hour)
	f.all(0.8)
	f.until(missRising, true, 10*time.Minute)
	f.run(30 * time.Minute)
	if f.alerts(cacheCollapse) > 0 {
		t.Error("counters alone page")
	}
	if a := f.fired[0]; !strings.Contains(a.Evidence.Seen, "prefix_cache_queries") {
		t.Errorf("the warning does not say why it is no more: %s", a.Evidence.Seen)
	}
	if d := f.detector(cacheCollapse); !strings.Contains(d.Text, "capped at warning") {
		t.Errorf("the page's detector says %q", d.Text)
	}
}

func TestContaminatedCountersAreNotBelieved(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, Options{})
	f.without = []string{collector.VLLMPromptCached, collector.VLLMComputedHist}
	f.run(8 * time.Hour)
	for range 80 {
		for _, p := range f.pages { // a waiting request is counted again and again
			p.add(400*f.prompt, collector.VLLMCacheQueries)
		}
		f.run(step)
	}
	if len(f.fired) != 1 || f.alerts("CacheCounterUntrusted") != 1 {
		t.Errorf("contaminated counters fire %d times", len(f.fired))
	}
	if d := f.detector(missRising); d.Phase != PhaseUnknown {
		t.Errorf("the detector says %s: %s", d.Phase, d.Text)
	}
}

// TestKilledAnywhere kills the daemon in the middle of an incident: the alert
// goes on as the same one, fired once, and what was learned is still there.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "rules.json")
	f := newFleet(t, 4, Options{StateFile: state}).learned()
	f.all(0.8)
	f.until(cacheCollapse, true, 10*time.Minute)
	before := f.last
	for range 5 {
		f.start() // nothing was said to the old one
		f.eval()
		if len(f.last) != len(before) {
			t.Fatalf("after the restart %d alerts are told, before %d", len(f.last), len(before))
		}
		f.run(3 * time.Minute)
	}
	for _, a := range f.last {
		for _, b := range before {
			if a.Key() == b.Key() && (!a.ActiveAt.Equal(b.ActiveAt) || !a.FiredAt.Equal(b.FiredAt)) {
				t.Errorf("%s was active since %s, now %s; fired at %s, now %s", a.Name, b.ActiveAt, a.ActiveAt, b.FiredAt, a.FiredAt)
			}
		}
	}
	if f.alerts(cacheCollapse) != 1 || f.alerts(missRising) != 1 {
		t.Errorf("fired %d and %d times", f.alerts(cacheCollapse), f.alerts(missRising))
	}
	f.all(0.1)
	f.until(cacheCollapse, false, 90*time.Minute)
	f.start()
	f.run(time.Minute)
	if f.firing(cacheCollapse) {
		t.Error("it fires again after a restart")
	}
	if d := f.detector(cacheCollapse); d.Phase != PhaseWatching {
		t.Errorf("what was learned is gone: %s: %s", d.Phase, d.Text)
	}
}

func TestRemovedSubjectResolvesAfterARestart(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "rules.json")
	f := newFleet(t, 4, Options{StateFile: state}).learned()
	f.all(0.8)
	f.until(cacheCollapse, true, 10*time.Minute)
	f.pages = nil
	f.start()
	f.run(20 * time.Minute)
	if f.firing(cacheCollapse) {
		t.Error("an alert of a pool that is gone fires on")
	}
}
