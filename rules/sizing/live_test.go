package sizing

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// monday is when the synthetic weeks begin.
var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// tokens are vLLM's bounds.
var tokens = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, math.Inf(1)}

// seconds are bounds of latencies.
var seconds = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, math.Inf(1)}

// histogramOf counts values.
func histogramOf(bounds []float64, values ...float64) Histogram {
	h := Histogram{Bounds: bounds, Counts: make([]float64, len(bounds))}
	for _, v := range values {
		i, _ := slices.BinarySearch(bounds, v)
		h.Counts[i]++
		h.Sum += v
		h.Count++
	}
	return h
}

// TestQuantileByTheSum: a quantile uses the sum, so that wide buckets mislead less.
func TestQuantileByTheSum(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name          string
		median, sigma float64
		q, off        float64
	}{
		{"a narrow load near the bottom of its bucket", 58_000, 0.03, 0.5, 0.15},
		{"one near the top", 92_000, 0.03, 0.5, 0.15},
		{"prompts of agents", 30_000, 0.7, 0.5, 0.15},
		{"their P95", 30_000, 0.7, 0.95, 0.2},
		{"outputs", 200, 0.8, 0.5, 0.1},
		{"outputs, P95", 200, 0.8, 0.95, 0.15},
	} {
		var values []float64
		for range 20_000 {
			values = append(values, min(c.median*math.Exp(c.sigma*random.NormFloat64()), 190_000))
		}
		h := histogramOf(tokens, values...)
		slices.Sort(values)
		want := values[int(c.q*float64(len(values)))]
		got, ok := h.Quantile(c.q)
		if !ok || math.Abs(got/want-1) > c.off {
			t.Errorf("%s: %.0f, really %.0f", c.name, got, want)
		}
	}
	if _, ok := (Histogram{}).Quantile(0.5); ok {
		t.Error("an empty histogram has a median")
	}
	if _, ok := histogramOf(tokens, 300_000, 300_000).Quantile(0.5); ok {
		t.Error("a median above the last finite bound is told")
	}
	if met := histogramOf(seconds, 0.02, 0.03, 0.2, 20).Within(0.1); met != 2 {
		t.Errorf("%v of 4 values are within 0.1 s, want 2", met)
	}
}

// FuzzQuantile holds quantiles to their bucket and to their order.
func FuzzQuantile(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, 100.0, 0.5)
	f.Add(0.0, 0.0, 9.0, 1e9, 0.99)
	f.Fuzz(func(t *testing.T, a, b, c, sum, q float64) {
		h := Histogram{Bounds: []float64{10, 20, 50, math.Inf(1)}, Counts: []float64{a, b, c, 0}, Sum: sum}
		for _, v := range []float64{a, b, c, sum} {
			if !(v >= 0) || v > 1e12 {
				return
			}
		}
		if !(q > 0 && q < 1) || !(a+b+c > 0) {
			return
		}
		v, ok := h.Quantile(q)
		if !ok || !(v >= 0 && v <= 50) {
			t.Fatalf("%v of %+v is %v", q, h, v)
		}
		if w, ok := h.Quantile(q / 2); !ok || w > v+1e-9 {
			t.Fatalf("%v of %+v is %v, %v is %v", q/2, h, w, q, v)
		}
	})
}

// week makes slots of so many hours with requests by the hour of the day; the rest
// is by call.
func week(hours int, perSlot func(hour int) float64) []Slot {
	var slots []Slot
	for i := range hours * 12 {
		start := monday.Add(time.Duration(i) * SlotLength)
		n := perSlot(start.Hour())
		running := n * 8 / 300 // a call takes 8 s
		s := Slot{
			Start: start, Engines: 2, EngineSeconds: 600, BusySeconds: min(600, 300*running), RunningSeconds: n * 8, Requests: n,
			Prompted: n * 30_000, Missed: n * 3000, Output: n * 400, PrefillSeconds: n * 0.3, WaitSeconds: n * 0.1, Waited: n,
			Running: &running,
		}
		capacity := 2_000_000.0
		s.Capacity = &capacity
		for _, h := range []struct {
			to     *Histogram
			bounds []float64
			value  float64
		}{{&s.PromptTokens, tokens, 30_000}, {&s.OutputTokens, tokens, 400}, {&s.TTFT, seconds, 0.4}, {&s.ITL, seconds, 0.018}, {&s.TPOT, seconds, 0.02}} {
			*h.to = histogramOf(h.bounds, h.value)
			for j := range h.to.Counts {
				h.to.Counts[j] *= n
			}
			h.to.Sum, h.to.Count = h.value*n, n
		}
		slots = append(slots, s)
	}
	return slots
}

// office is a day with its work between 8 and 18 o'clock.
func office(hour int) float64 {
	if hour >= 8 && hour < 18 {
		return 60
	}
	return 0
}

// officePlan fits week(168, office).
func officePlan() *Plan {
	p := &Plan{Plan: "agents", Pool: "agents", Date: "2026-01-01", Owner: "platform"}
	p.SLO = SLO{TTFTP95Ms: new(500.0), ITLP95Ms: new(50.0), WaitMeanMs: new(300.0)}
	p.Workload.Load = Load{
		People: new(20.0), CallsPerSession: new(36.0), SessionS: new(3600.0),
		PromptTokensP50: new(30_000.0), OutputTokensP50: new(400.0), HitRatio: new(0.9), DutyCycle: new(0.08),
	}
	p.Engine = Engine{Concurrency: new(1.0)}
	p.Hardware = Hardware{GPUsPerNode: new(4.0), Replicas: new(2.0), GPUs: new(2.0)}
	p.Cost = Cost{Currency: "EUR", NodeCapex: new(160_000.0), Years: new(4.0), NodeOpexPerYear: new(40_000.0), Utilisation: new(0.63), CloudPricePerGPUHour: new(3.63)}
	return p
}

func reviewed(t *testing.T, p *Plan, slots []Slot) *Live {
	t.Helper()
	return Reevaluate(p, Config{}, Evidence{From: monday, To: monday.Add(7 * 24 * time.Hour), Slots: slots})
}

func find(t *testing.T, l *Live, name string) Judged {
	t.Helper()
	for _, j := range l.Assumptions {
		if j.Name == name {
			return j
		}
	}
	t.Fatalf("%s is not judged: %+v", name, l.Assumptions)
	return Judged{}
}

func TestReevaluate(t *testing.T) {
	t.Parallel()
	l := reviewed(t, officePlan(), week(168, office))
	for name, want := range map[string]string{
		"workload.people": Holds, "workload.hit_ratio": Holds, "workload.output_tokens_p50": Holds, "workload.prompt_tokens_p50": Holds, "workload.duty_cycle": Holds,
		"slo.ttft_p95_ms": Holds, "slo.wait_mean_ms": Holds,
		"workload.session_s": CannotTell, "workload.calls_per_session": CannotTell, "engine.concurrency": CannotTell,
	} {
		if j := find(t, l, name); j.Verdict != want || j.Why == "" {
			t.Errorf("%s: %s (%s), want %s", name, j.Verdict, j.Why, want)
		}
	}
	if l.Hours != 168 || len(l.Drift) != 0 {
		t.Errorf("%d hours, drift %v", l.Hours, l.Drift)
	}

	// Half of the people: twice as many work as planned, which changes what is needed.
	p := officePlan()
	p.Workload.People = new(10.0)
	l = reviewed(t, p, week(168, office))
	j := find(t, l, "workload.people")
	if j.Verdict != Drifted || l.Assumptions[0].Name != j.Name || math.Abs(*j.Ratio-2) > 0.01 || j.Samples != 7*10*12*60 {
		t.Errorf("people: %+v", j)
	}
	replicas := Change{Resource: ResourceReplicas, From: 1, To: 2}
	if !slices.Contains(j.Changes, replicas) || !slices.Contains(l.Drift, replicas) || l.Required[ResourceReplicas] != 2 {
		t.Errorf("people change %v, all %v, required %v", j.Changes, l.Drift, l.Required)
	}
	written := l.Written(time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC))
	if written.Date != "2026-03-09" || math.Abs(*written.Workload.People-20) > 0.1 || *written.SLO.TTFTP95Ms != 500 || *p.Workload.People != 10 || p.Date != "2026-01-01" {
		t.Errorf("written: %s, %v people, SLO %v; the plan itself has %v", written.Date, *written.Workload.People, *written.SLO.TTFTP95Ms, *p.Workload.People)
	}
}

// TestCannotTell: too little, or nothing, is no verdict.
func TestCannotTell(t *testing.T) {
	t.Parallel()
	gaps := slices.DeleteFunc(week(168, office), func(s Slot) bool { return s.Start.Minute() >= 30 }) // half of each hour
	seldom := week(168, func(hour int) float64 {
		if hour == 12 {
			return 1
		}
		return 0
	})
	for name, slots := range map[string][]Slot{"nothing": nil, "six hours": week(6, func(int) float64 { return 60 }), "half of each hour": gaps, "a call now and then": seldom} {
		p := officePlan()
		p.Workload.People, p.Workload.OutputTokensP50, p.Workload.HitRatio = new(60.0), new(1200.0), new(0.5)
		p.Cost.Utilisation = nil // how long engines run requests is known without many of them
		for _, j := range reviewed(t, p, slots).Assumptions {
			if j.Verdict != CannotTell && j.Name != "max_live_tokens" {
				t.Errorf("%s: %s is judged: %s, %s", name, j.Name, j.Verdict, j.Why)
			}
		}
	}
	p := officePlan()
	p.Workload.Profiles = []Profile{{Name: "a", Load: Load{People: new(3.0)}}, {Name: "b", Load: Load{People: new(4.0)}}}
	p.Workload.People = nil
	if j := find(t, reviewed(t, p, week(168, office)), "workload.profiles.a.people"); j.Verdict != CannotTell || !strings.Contains(j.Why, "2 profiles share") {
		t.Errorf("of two profiles: %s, %s", j.Verdict, j.Why)
	}
}

// TestCapacityWithWindows: a model with windows is held against what vLLM would
// say of the plan, and not at all where the plan does not tell its batches.
func TestCapacityWithWindows(t *testing.T) {
	t.Parallel()
	p := officePlan()
	p.Model, p.Engine = Model{Parameters: new(27e9)}, Engine{Concurrency: new(1.0), OverheadGB: new(2.0)}
	p.Hardware.VRAMGB, p.Workload.ContextTokensMax = new(80.0), new(32_768.0)
	gemma := config(t, "gemma-3-27b")
	saying := func(capacity float64) *Live {
		slots := week(168, office)
		for i := range slots {
			slots[i].Engines, slots[i].Capacity = 1, &capacity
		}
		return Reevaluate(p, gemma, Evidence{From: monday, To: monday.Add(7 * 24 * time.Hour), Slots: slots})
	}
	for _, j := range saying(100_000).Assumptions {
		if j.Name == "max_live_tokens" || j.Name == "kv_cache_size_tokens" {
			t.Errorf("judged without batches: %+v", j)
		}
	}
	p.Engine.MaxNumBatchedTokens = new(8192.0)
	planned, _ := Size(p, gemma).Step("kv_cache_size_tokens")
	if j := find(t, saying(*planned.Value), "kv_cache_size_tokens"); j.Verdict != Holds {
		t.Errorf("%s, %s", j.Verdict, j.Why)
	}
	half := saying(*planned.Value / 2)
	if j := find(t, half, "kv_cache_size_tokens"); j.Verdict != Drifted {
		t.Errorf("half of it: %s, %s", j.Verdict, j.Why)
	}
	// Half of the 24 GB are lost, beside the 2 that the plan has as overhead.
	if got := *half.Written(monday).Engine.OverheadGB; math.Abs(got-14) > 0.01 {
		t.Errorf("written as an overhead of %v GB", got)
	}
}

// TestNoise: where hours differ widely, a difference is not called a drift.
func TestNoise(t *testing.T) {
	t.Parallel()
	slots := week(48, func(int) float64 { return 60 })
	for i := range slots { // hits of 98 % in one hour, of 60 % in the next
		slots[i].Missed = slots[i].Prompted * []float64{0.02, 0.4}[slots[i].Start.Hour()%2]
	}
	p := officePlan()
	p.Workload.HitRatio = new(0.86)
	if j := find(t, reviewed(t, p, slots), "workload.hit_ratio"); j.Verdict != CannotTell {
		t.Errorf("hits that swing between 60 and 98 %%: %s, %s", j.Verdict, j.Why)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	e := func(v, low, high float64) Estimate {
		return Estimate{Value: v, Low: low, High: high, Samples: 1000, Hours: 100}
	}
	for _, c := range []struct {
		name string
		m    measure
		want string
	}{
		{"as planned", measure{planned: 100, live: e(104, 98, 110)}, Holds},
		{"within the factor", measure{planned: 100, live: e(124, 120, 130)}, Holds},
		{"beyond it", measure{planned: 100, live: e(140, 130, 150)}, Drifted},
		{"below it", measure{planned: 100, live: e(60, 55, 65)}, Drifted},
		{"perhaps by chance", measure{planned: 100, live: e(140, 120, 160)}, CannotTell},
		{"too vague", measure{planned: 100, live: e(100, 50, 200)}, CannotTell},
		{"misses doubled", measure{planned: 0.9, live: e(0.8, 0.79, 0.81), misses: true}, Drifted},
		{"misses by a hair", measure{planned: 0.995, live: e(0.992, 0.991, 0.993), misses: true}, Holds},
		{"nothing planned as missed", measure{planned: 1, live: e(0.9, 0.89, 0.91), misses: true}, CannotTell},
		{"a latency far below its bound", measure{planned: 500, live: e(50, 40, 60), promise: 1}, Holds},
		{"above it", measure{planned: 500, live: e(600, 520, 700), promise: 1}, Drifted},
		{"above it, by chance perhaps", measure{planned: 500, live: e(520, 480, 560), promise: 1}, CannotTell},
		{"a speed above its bound", measure{planned: 20, live: e(90, 80, 100), promise: -1}, Holds},
		{"below it", measure{planned: 20, live: e(10, 9, 11), promise: -1}, Drifted},
		{"below it, and a lower bound", measure{planned: 20, live: e(10, 9, 11), promise: -1, least: true}, CannotTell},
		{"not measured", measure{planned: 20, live: cannot("no log")}, CannotTell},
	} {
		if j := c.m.judge(); j.Verdict != c.want || j.Why == "" {
			t.Errorf("%s: %s (%s), want %s", c.name, j.Verdict, j.Why, c.want)
		}
	}
}

// TestPassiveKnee: the recorded load says where the SLO ends, or that it was not
// reached.
func TestPassiveKnee(t *testing.T) {
	t.Parallel()
	rising := func(hour int) float64 { return 30 + 10*float64(hour) }
	slots := week(168, rising)
	p := officePlan()
	if k := reviewed(t, p, slots).Knee; k.Reached || !strings.HasPrefix(k.Text, "not reached") || math.Abs(k.Rate-(30+10*22)/600.0) > 0.02 {
		t.Errorf("the SLO held always: %+v", k)
	}
	for i := range slots { // from 200 calls in 5 minutes on, first tokens take 4 s
		if n := slots[i].Requests; n > 200 {
			h := histogramOf(seconds, 4)
			slots[i].TTFT = Histogram{Bounds: h.Bounds, Counts: append([]float64(nil), h.Counts...), Sum: 4 * n, Count: n}
			for j := range slots[i].TTFT.Counts {
				slots[i].TTFT.Counts[j] *= n
			}
		}
	}
	k := reviewed(t, p, slots).Knee
	if !k.Reached || k.Confidence != "high" || k.Rate > 200/600.0 || k.Rate < 160/600.0 || math.Abs(k.Goodput/(k.Rate*400)-1) > 0.01 {
		t.Errorf("the SLO ends at 0.33 requests/s per replica: %+v", k)
	}
	if k := reviewed(t, p, slots[:60]).Knee; k.Reached || !strings.Contains(k.Text, "too little") {
		t.Errorf("of five hours: %+v", k)
	}
	p.SLO = SLO{}
	if k := reviewed(t, p, slots).Knee; k.Reached || !strings.Contains(k.Text, "promises neither") {
		t.Errorf("without an SLO: %+v", k)
	}
}

func TestCosts(t *testing.T) {
	t.Parallel()
	c := reviewed(t, officePlan(), week(168, office)).Costs
	if c == nil {
		t.Fatal("there are no costs")
	}
	// 80 000 EUR a year, 4 GPUs a node: 2.283 an hour. 2 GPUs for 168 h gave 7 x 10 x 12 x 60 x 400 tokens.
	perMillion := 2 * 168 * 80_000.0 / 4 / 8760 / (7 * 10 * 12 * 60 * 400) * 1e6
	sum := 0.0
	for _, basis := range Bases()[1:] {
		sum += c.PerMillion[basis]
	}
	if math.Abs(c.PerMillion[BasisTotal]-perMillion) > 1e-9 || math.Abs(sum-perMillion) > 1e-9 || !c.Owned || c.Currency != "EUR" {
		t.Errorf("a million costs %v, its parts %v, want %v: %+v", c.PerMillion[BasisTotal], sum, perMillion, c.PerMillion)
	}
	if math.Abs(*c.Cloud-perMillion*3.63/c.PerGPUHour) > 1e-9 || math.Abs(*c.BreakEven-80_000/(4*8760*3.63)) > 1e-9 || !strings.Contains(c.Text, "owning pays from 63 % on") {
		t.Errorf("against the cloud: %v, %v, %s", *c.Cloud, *c.BreakEven, c.Text)
	}
	if c.IdleShare < 0.6 || c.IdleShare > 0.8 { // 10 of 24 hours, 480 s of 600 in those
		t.Errorf("idle %v", c.IdleShare)
	}
	p := officePlan()
	p.Cost = Cost{CloudPricePerGPUHour: new(3.0)}
	if c := reviewed(t, p, week(168, office)).Costs; c == nil || c.Owned || c.PerGPUHour != 3 || c.BreakEven != nil {
		t.Errorf("rented: %+v", c)
	}
	p.Cost = Cost{}
	if l := reviewed(t, p, week(168, office)); l.Costs != nil || !strings.Contains(l.CostsText, "cost.node_capex") {
		t.Errorf("without prices: %+v, %s", l.Costs, l.CostsText)
	}
}

func TestWeeksLeft(t *testing.T) {
	t.Parallel()
	e := Evidence{Growth: &Growth{PerWeek: 0.1, Days: 28}, Headroom: 2.4}
	l := Reevaluate(officePlan(), Config{}, e)
	if l.WeeksLeft == nil || math.Abs(*l.WeeksLeft-math.Log(2)/math.Log(1.1)) > 1e-9 {
		t.Errorf("2.4 falls to 1.2 in %v weeks", l.WeeksLeft)
	}
	for _, c := range []struct {
		e    Evidence
		want string
	}{
		{Evidence{}, "judged once a week"},
		{Evidence{Growth: &Growth{PerWeek: -0.02, Days: 28}}, "does not grow"},
		{Evidence{Growth: &Growth{PerWeek: 0.02, Days: 28}}, "is not known"},
	} {
		if l := Reevaluate(officePlan(), Config{}, c.e); l.WeeksLeft != nil || !strings.Contains(l.GrowthText, c.want) {
			t.Errorf("%v weeks, %q, want %q", l.WeeksLeft, l.GrowthText, c.want)
		}
	}
}
