package rules

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
	"kvwatch/collector/history"
	"kvwatch/rules/sizing"
)

// planStart is when the plans of these tests were reviewed first.
var planStart = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// review is a plan of which people are so many times as planned, with what that
// takes and has.
func review(at time.Time, times float64, before, needs, has float64) PlanReview {
	live := sizing.Reevaluate(&sizing.Plan{Plan: "agents-30b", Pool: "agents"}, sizing.Config{}, sizing.Evidence{From: at.Add(-7 * 24 * time.Hour), To: at})
	live.Hours = 160
	verdict, changes := sizing.Holds, []sizing.Change(nil)
	if times > 1.25 || times < 0.8 {
		verdict = sizing.Drifted
	}
	if needs != before {
		changes = []sizing.Change{{Resource: sizing.ResourceReplicas, From: before, To: needs}, {Resource: sizing.ResourceKVGB, From: 100, To: 200}}
	}
	people := 20 * times
	live.Assumptions = []sizing.Judged{
		{Name: "workload.people", Planned: 20, Live: &people, Ratio: &times, Samples: 9000, Hours: 160, Verdict: verdict, Why: "measured", Changes: changes},
		{Name: "workload.session_s", Planned: 3600, Verdict: sizing.CannotTell, Why: "in no log"},
	}
	live.Before = map[string]float64{sizing.ResourceReplicas: before}
	live.Required = map[string]float64{sizing.ResourceReplicas: needs}
	live.Planned = map[string]float64{sizing.ResourceReplicas: has}
	live.Drift = changes
	live.Costs = &sizing.Costs{Currency: "EUR", PerMillion: map[string]float64{sizing.BasisTotal: 0.9}, IdleShare: 0.25}
	return PlanReview{At: at, Live: live, Price: &EnginePrice{Plan: "agents-30b", Currency: "EUR", PerHour: 4.5, GPUs: 2}}
}

// firingPlans are the alerts of plans that fire, by name.
func firingPlans(e *Engine) map[string]Alert {
	found := map[string]Alert{}
	for _, a := range e.Alerts() {
		if a.State == StateFiring && a.Labels["plan"] != "" {
			found[a.Name] = a
		}
	}
	return found
}

func planEngine(t *testing.T, dir string) *Engine {
	t.Helper()
	e, err := New(Options{Journal: filepath.Join(dir, "journal.jsonl"), StateFile: filepath.Join(dir, "rules.json")})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func evalPlans(t *testing.T, e *Engine, at time.Time) {
	t.Helper()
	if err := e.Eval(t.Context(), at); err != nil {
		t.Fatal(err)
	}
}

// TestPlanAlerts: a drift that changes nothing that is bought is silent; one that
// does names its assumption after an hour; one that takes more than the plan has is
// a shortfall; the journal keeps what was advised and what became of it.
func TestPlanAlerts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                     string
		times, before, need, has float64
		want                     []string
	}{
		{"nothing drifts", 1.1, 2, 2, 2, nil},
		{"a drift that changes nothing", 1.5, 2, 2, 2, nil},
		{"more is needed than the plan has", 2, 2, 4, 2, []string{"CapacityShortfall", "PlanDrift"}},
		{"more is needed, and there", 2, 2, 4, 5, []string{"PlanDrift"}},
		{"less is needed", 0.5, 2, 1, 2, []string{"PlanDrift"}},
		{"another number without a drift", 1.2, 2, 3, 2, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := planEngine(t, t.TempDir())
			e.SetPlans([]PlanReview{review(planStart, c.times, c.before, c.need, c.has)})
			evalPlans(t, e, planStart)
			if fired := firingPlans(e); len(fired) > 0 {
				t.Errorf("fired at once: %v", fired)
			}
			evalPlans(t, e, planStart.Add(61*time.Minute))
			fired := firingPlans(e)
			if got := slices.Sorted(maps.Keys(fired)); !slices.Equal(got, c.want) {
				t.Fatalf("%v fire, want %v", got, c.want)
			}
			for _, a := range fired {
				if text := a.Annotations["summary"] + a.Annotations["description"]; !strings.Contains(text, "workload.people") || !strings.Contains(text, "replicas instead of") || strings.Contains(text, "session_s is") {
					t.Errorf("%s does not name what drifted and what it takes: %s", a.Name, text)
				}
				checkEvidence(t, a)
				if a.Labels["pool"] != "agents" || !strings.Contains(a.Evidence.Cost, "0.9 EUR") {
					t.Errorf("%s: %+v", a.Name, a)
				}
			}
		})
	}
}

func TestPlanJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := planEngine(t, dir)
	e.SetPlans([]PlanReview{review(planStart, 2, 2, 4, 2)})
	evalPlans(t, e, planStart)
	evalPlans(t, e, planStart.Add(61*time.Minute))
	evalPlans(t, e, planStart.Add(62*time.Minute))
	if err := e.Save(); err != nil {
		t.Fatal(err)
	}

	// After a restart the recommendation is still open; then the plan is changed.
	e = planEngine(t, dir)
	e.SetPlans([]PlanReview{review(planStart.Add(2*time.Hour), 2, 2, 4, 2)})
	evalPlans(t, e, planStart.Add(2*time.Hour))
	e.SetPlans([]PlanReview{review(planStart.Add(3*time.Hour), 1, 4, 4, 4)})
	evalPlans(t, e, planStart.Add(3*time.Hour))
	evalPlans(t, e, planStart.Add(3*time.Hour+time.Minute))

	events := e.Events(planStart, planStart.Add(4*time.Hour))
	want := []Event{
		{
			At: planStart.Add(61 * time.Minute), Pool: "agents", Plan: "agents-30b", Kind: EventRecommendation, Planned: map[string]float64{"replicas": 2},
			Text: "plan agents-30b: review it: 4 replicas instead of 2 by workload.people",
		},
		{
			At: planStart.Add(3 * time.Hour), Pool: "agents", Plan: "agents-30b", Kind: EventOutcome,
			Text: "plan agents-30b: the plan was changed: replicas 2 to 4",
		},
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("the journal (-want +got):\n%s", diff)
	}
	if q := quotes(events, "agents", planStart.Add(70*time.Minute), planStart.Add(70*time.Minute)); len(q) > 0 {
		t.Errorf("alerts quote what kvwatch advised itself: %v", q)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
	if err != nil || strings.Count(string(raw), "\n") != 2 {
		t.Errorf("the file holds %q, %v", raw, err)
	}
	if err := (Event{Kind: EventRecommendation, Text: "x"}).Check(); err == nil {
		t.Error("anybody may send a recommendation")
	}
}

// TestPlanSeries: the gauges are there while the plan is, with what is not known absent.
func TestPlanSeries(t *testing.T) {
	t.Parallel()
	type stored struct{ samples, stale []string }
	var last stored
	e, err := New(Options{Append: func(_ context.Context, _ time.Time, samples []collector.Sample, stale []*collector.Series) error {
		last = stored{}
		for _, s := range samples {
			if name := s.Series.Labels.Get(model.MetricNameLabel); strings.HasPrefix(name, "kvwatch_plan") || strings.HasPrefix(name, "kvwatch_cost") {
				last.samples = append(last.samples, s.Series.Labels.String())
			}
		}
		for _, s := range stale {
			last.stale = append(last.stale, s.Labels.String())
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	e.SetPlans([]PlanReview{review(planStart, 2, 2, 4, 2)})
	evalPlans(t, e, planStart)
	want := []string{
		`{__name__="kvwatch_cost_per_million_tokens", basis="total", currency="EUR", plan="agents-30b"}`,
		`{__name__="kvwatch_plan_assumption_ratio", assumption="workload.people", plan="agents-30b"}`,
		`{__name__="kvwatch_plan_idle_ratio", plan="agents-30b"}`,
		`{__name__="kvwatch_plan_planned", plan="agents-30b", resource="replicas"}`,
		`{__name__="kvwatch_plan_required", plan="agents-30b", resource="replicas"}`,
	}
	slices.Sort(last.samples)
	if diff := cmp.Diff(want, last.samples); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	told := false
	for _, r := range e.Recorded() {
		if r.Labels.Get(model.MetricNameLabel) == planRatio && r.Labels.Get("assumption") == "workload.session_s" {
			told = !r.Known && r.Reason == "in no log"
		}
	}
	if !told {
		t.Error("what cannot be told has no reason")
	}
	if all := e.Plans(); len(all) != 1 || all[0].Plan != "agents-30b" {
		t.Errorf("plans: %+v", all)
	}
	e.SetPlans(nil)
	evalPlans(t, e, planStart.Add(5*time.Second))
	if len(last.samples) != 0 || len(e.Plans()) != 0 || !slices.Contains(last.stale, want[4]) {
		t.Errorf("after the plan went: %v stored, stale %v", last.samples, last.stale)
	}
}

// TestPriceInEvidence: a plan prices what is computed again.
func TestPriceInEvidence(t *testing.T) {
	t.Parallel()
	price := &EnginePrice{Plan: "agents-30b", Currency: "EUR", PerHour: 4.5, GPUs: 2}
	if got := prefilledAgain(7_200_000, 100, 1_000_000, price); !strings.HasSuffix(got, "1.4k GPU seconds, about 0.90 EUR at the price of plan agents-30b.") {
		t.Errorf("priced: %s", got)
	}
	if got := prefilledAgain(7_200_000, 100, 1_000_000, nil); strings.Contains(got, "GPU") || !strings.HasSuffix(got, "sees.") {
		t.Errorf("without a price: %s", got)
	}
}

// measuredScan is a history of one engine: at each second of minutes, a page whose
// counters grow by the minute.
func measuredScan(t *testing.T, from time.Time, minutes int, resetAt int) ScanFunc {
	t.Helper()
	store, err := history.Open(history.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	series := map[string]*collector.Series{}
	of := func(name string, pairs ...string) *collector.Series {
		key := name + strings.Join(pairs, "")
		if series[key] == nil {
			series[key] = &collector.Series{Labels: labels.FromStrings(append([]string{model.MetricNameLabel, name, "job", "vllm", "instance", "a:8000"}, pairs...)...)}
		}
		return series[key]
	}
	for i := range minutes {
		n := float64(i)
		if i >= resetAt {
			n = float64(i - resetAt)
		}
		samples := []collector.Sample{{Series: of(collector.Up), Value: 1}}
		add := func(name string, v float64, pairs ...string) {
			samples = append(samples, collector.Sample{Series: of(name, append([]string{"engine", "0", "model_name", "m"}, pairs...)...), Value: v})
		}
		add(collector.VLLMPromptTokens, 60_000*n)
		add(collector.VLLMPromptCached, 54_000*n)
		add(collector.VLLMGenerationTokens, 1200*n)
		add(collector.VLLMRunning, float64(i%2)*3)
		add(collector.VLLMTTFT+"_sum", 2*n)
		add(collector.VLLMTTFT+"_count", 6*n)
		add(collector.VLLMQueueTime+"_sum", n)
		add(collector.VLLMQueueTime+"_count", 6*n)
		for _, le := range []string{"100", "500", "+Inf"} {
			v := 6 * n
			if le == "100" {
				v = 2 * n
			}
			add(collector.VLLMGenerationHist+"_bucket", v, "le", le)
		}
		add(collector.VLLMGenerationHist+"_sum", 1200*n)
		add(collector.VLLMGenerationHist+"_count", 6*n)
		if err := store.Append(t.Context(), from.Add(time.Duration(i)*time.Minute), samples, nil); err != nil {
			t.Fatal(err)
		}
	}
	return store.Scan
}

// TestMeasurer: slots hold what pages gained, across a restart of the engine and
// across two reads; a time without pages has no slot.
func TestMeasurer(t *testing.T) {
	t.Parallel()
	from := planStart.Add(-6 * time.Hour)
	scan := measuredScan(t, from, 180, 90)
	m, err := NewMeasurer(nil, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, now := range []time.Time{from.Add(time.Hour + 7*time.Minute), from.Add(5 * time.Hour)} {
		if err := m.Read(t.Context(), now, scan); err != nil {
			t.Fatal(err)
		}
	}
	slots := m.Slots("vllm/m")
	if got := m.Pools(); !slices.Equal(got, []string{"vllm/m"}) {
		t.Errorf("pools: %v", got)
	}
	if len(slots) != 36 || !slots[0].Start.Equal(from) || !slots[35].Start.Equal(from.Add(175*time.Minute)) {
		t.Fatalf("%d slots from %s to %s", len(slots), slots[0].Start, slots[len(slots)-1].Start)
	}
	for i, s := range slots[1:35] {
		minutes := 5.0
		if i+1 == 17 { // the page at minute 90 began again at 0
			minutes = 4
		}
		got := []float64{s.Requests, s.Prompted, s.Missed, s.Output, s.EngineSeconds, s.PrefillSeconds, s.WaitSeconds, s.OutputTokens.Count, s.OutputTokens.Counts[0], s.OutputTokens.Counts[1], float64(s.Engines)}
		want := []float64{6 * minutes, 60_000 * minutes, 6000 * minutes, 1200 * minutes, 300, minutes, minutes, 6 * minutes, 2 * minutes, 4 * minutes, 1}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("slot %d at %s (-want +got):\n%s", i+1, s.Start.Format(time.TimeOnly), diff)
		}
		if s.Running == nil || *s.Running < 1 || *s.Running > 2 || s.BusySeconds < 100 || s.BusySeconds > 200 || s.Capacity != nil {
			t.Errorf("slot %d: %v run, busy %v s, capacity %v", i+1, s.Running, s.BusySeconds, s.Capacity)
		}
	}
}

// TestSetPrices: pools are priced whether they are there already or come later.
func TestSetPrices(t *testing.T) {
	t.Parallel()
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	price := &EnginePrice{Plan: "agents-30b", Currency: "EUR", PerHour: 4.5, GPUs: 2}
	before := e.pool("before", nil, "m")
	e.SetPrices(map[string]*EnginePrice{"before": price, "after": price})
	if after := e.pool("after", nil, "m"); before.price != price || after.price != price {
		t.Errorf("prices are %v and %v", before.price, after.price)
	}
	if e.SetPrices(nil); before.price != nil {
		t.Error("the price stays")
	}
}
