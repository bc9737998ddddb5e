package rules

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

const realRecording = "../collector/testdata/"

// realTick is how often the recording is evaluated, as it was scraped.
const realTick = 5 * time.Second

// phase is one line of phases.jsonl.
type phase struct {
	T     float64 `json:"t"`
	Phase string  `json:"phase"`
}

func (p phase) at() time.Time { return time.UnixMilli(int64(p.T * 1000)) }

// readLines decodes a file of one JSON value per line.
func readLines[T any](t testing.TB, file string) []T {
	t.Helper()
	f, err := os.Open(realRecording + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []T
	s := bufio.NewScanner(f)
	for s.Scan() {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, v)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// replayReal feeds the real recording to an engine on a virtual clock and calls
// each after every Eval.
func replayReal(t testing.TB, o Options, each func(e *Engine, now time.Time)) *Engine {
	t.Helper()
	rec, err := collector.OpenRecording(realRecording + "recording.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	o.ScrapeInterval = realTick
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var next time.Time
	err = rec.Replay(t.Context(), func(r *collector.Round) error {
		if next.IsZero() {
			next = r.Time.Truncate(realTick).Add(realTick)
		}
		for ; next.Before(r.Time); next = next.Add(realTick) {
			if err := e.Eval(t.Context(), next); err != nil {
				return err
			}
			each(e, next)
		}
		e.Observe(r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// labRules are the settings that the recording is too short without.
func labRules() map[string]Override {
	d1 := Override{TimeScale: 0.01, Settings: map[string]any{"resolve_prompts": 64}}
	rules := map[string]Override{missRising: d1, cacheCollapse: d1}
	for _, name := range []string{reprefillShareHigh, prefixCacheDrift, replicaOutlierAlert, "DemandGrowth", "CacheCounterUntrusted", "MetricsStalled"} {
		rules[name] = Override{TimeScale: 0.01}
	}
	return rules
}

// transition is an alert that began or ended, in the phase it fell into.
type transition struct {
	alert, subject string
	phase          string
	state          AlertState
	after          time.Duration
	a              Alert
}

func transitions(t testing.TB, rules map[string]Override) []transition {
	t.Helper()
	return transitionsWith(t, Options{Rules: rules}, func(*Engine, time.Time) {})
}

// transitionsWith calls each after every Eval.
func transitionsWith(t testing.TB, o Options, each func(e *Engine, now time.Time)) []transition {
	t.Helper()
	phases := readLines[phase](t, "phases.jsonl")
	seen := map[string]AlertState{}
	var all []transition
	o.Dispatch = func(_ context.Context, now time.Time, alerts []Alert) {
		for _, a := range alerts {
			key := a.Key() + a.FiredAt.String()
			if seen[key] == a.State {
				continue
			}
			seen[key] = a.State
			if a.State == StateFiring {
				checkEvidence(t, a)
			}
			p := phases[0]
			for _, q := range phases {
				if !q.at().After(now) {
					p = q
				}
			}
			all = append(all, transition{
				alert: a.Name, subject: a.Labels["pool"] + a.Labels["instance"], phase: p.Phase,
				state: a.State, after: now.Sub(p.at()).Round(time.Second), a: a,
			})
		}
	}
	replayReal(t, o, each)
	return all
}

// find returns the first transition of the alert into the state, in the phase.
func find(all []transition, alert, phase string, state AlertState) (transition, bool) {
	for _, tr := range all {
		if tr.alert == alert && tr.phase == phase && tr.state == state {
			return tr, true
		}
	}
	return transition{}, false
}

func within(d, want, slack time.Duration) bool { return d >= want-slack && d <= want+slack }

// TestRealIncidents holds D1 and the plain alerts to the recording: DETECTORS
// section 10 has the times.
func TestRealIncidents(t *testing.T) {
	t.Parallel()
	rules := labRules()
	for _, name := range []string{"QueueGrowing", "KVSaturated"} {
		rules[name] = Override{TimeScale: 0.05}
	}
	all := transitions(t, rules)
	for _, want := range []struct {
		phase string
		state AlertState
		after map[string]time.Duration
	}{
		{"working_set", StateFiring, map[string]time.Duration{missRising: 282 * time.Second, cacheCollapse: 292 * time.Second}},
		{"calm", StateResolved, map[string]time.Duration{missRising: 86 * time.Second, cacheCollapse: 86 * time.Second}},
		{"broken_prefix", StateFiring, map[string]time.Duration{missRising: 133 * time.Second, cacheCollapse: 133 * time.Second}},
		{"recover2", StateResolved, map[string]time.Duration{missRising: 86 * time.Second, cacheCollapse: 86 * time.Second}},
	} {
		for name, after := range want.after {
			// One tick of delay, and one for where an hour of the baseline begins.
			if tr, ok := find(all, name, want.phase, want.state); !ok || !within(tr.after, after, 2*realTick+time.Second) {
				t.Errorf("%s in %s is %s after %s (%t), want about %s", name, want.phase, want.state, tr.after, ok, after)
			}
		}
	}
	for _, tr := range all {
		d1 := tr.alert == missRising || tr.alert == cacheCollapse
		if d1 && tr.state == StateFiring && tr.phase != "working_set" && tr.phase != "broken_prefix" {
			t.Errorf("%s fires in %s", tr.alert, tr.phase)
		}
		switch tr.alert {
		case reprefillShareHigh: // the clients lost hits in both, in kv_pressure too little for D1
			if tr.state == StateFiring && tr.phase != "kv_pressure" && tr.phase != "broken_prefix" {
				t.Errorf("%s fires in %s", tr.alert, tr.phase)
			}
		case prefixCacheDrift, replicaOutlierAlert, "DemandGrowth", "CacheCounterUntrusted", "MetricsStalled":
			t.Errorf("%s is %s in %s: %s", tr.alert, tr.state, tr.phase, tr.a.Evidence.Seen)
		}
		if tr.alert == "TargetDown" && tr.state == StateFiring && (tr.subject != "engine-b:8000" || tr.phase != "steady_restart") {
			t.Errorf("TargetDown fires for %s in %s", tr.subject, tr.phase)
		}
	}
	for name, phase := range map[string]string{"QueueGrowing": "kv_pressure", "KVSaturated": "kv_pressure", "TargetDown": "steady_restart"} {
		if _, ok := find(all, name, phase, StateFiring); !ok {
			t.Errorf("%s does not fire in %s", name, phase)
		}
	}
	if _, ok := find(all, "TargetDown", "broken_prefix", StateResolved); !ok {
		t.Error("TargetDown does not resolve when engine-b is back")
	}
	if tr, ok := find(all, reprefillShareHigh, "broken_prefix", StateFiring); !ok || tr.after >= 133*time.Second {
		t.Errorf("%s fires after %s in broken_prefix (%t), want before D1", reprefillShareHigh, tr.after, ok)
	}
	page, _ := find(all, cacheCollapse, "working_set", StateFiring)
	if page.a.Evidence.Cause != causeResidency {
		t.Errorf("the working set's cause is %q: %s", page.a.Evidence.Cause, page.a.Evidence.CauseText)
	}
	if page.a.ActiveAt.After(page.a.FiredAt) || page.a.Labels["pool"] != "vllm/tiny-chat" {
		t.Errorf("alert %+v", page.a)
	}
}

// TestRealBaseline reads what was learned in the phase named steady, and that
// learning is told.
func TestRealBaseline(t *testing.T) {
	t.Parallel()
	phases := readLines[phase](t, "phases.jsonl")
	end := phases[2].at().Add(-2 * realTick)
	learning, usual := 0, 0.0
	replayReal(t, Options{Rules: labRules()}, func(e *Engine, now time.Time) {
		if now.After(end) {
			return
		}
		for _, d := range e.Detectors() {
			if d.Alert != cacheCollapse {
				continue
			}
			if d.Phase == PhaseLearning {
				learning++
			}
			usual = 0
			for _, n := range d.Numbers {
				if n.Name == "usual_miss_ratio" {
					usual = n.Value
				}
			}
		}
	})
	if learning == 0 {
		t.Error("the detector never said that it learns")
	}
	if usual < 0.045 || usual > 0.07 {
		t.Errorf("usual miss ratio at the end of steady %.4f, want about 0.057", usual)
	}
}

// expected is a line of expected_phases.jsonl or expected_minutes.jsonl.
type expected struct {
	Target      string   `json:"target"`
	Phase       string   `json:"phase"`
	From        int64    `json:"from"`
	HitCached   *float64 `json:"hit_ratio_cached"`
	HitCounters *float64 `json:"hit_ratio_counters"`
	Prompt      float64  `json:"prompt_tokens"`
	Queried     float64  `json:"queried"`
	Generated   float64  `json:"generated"`
	Preemptions float64  `json:"preemptions"`
}

// check holds the windows of an engine against one line; the span is [from, to).
func (x expected) check(t *testing.T, u *unit, from, to int64) {
	t.Helper()
	name := fmt.Sprintf("%s %s %d", x.Target, x.Phase, x.From)
	w := unitWindow{ms: to - 1, unit: u}
	increase := func(g total) float64 { return w.IncreaseIn(g, from-1, to-1) }
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"prompt tokens", increase(totalPrompt), x.Prompt},
		{"queried", increase(totalQueries), x.Queried},
		{"generated", increase(totalGenerated), x.Generated},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s %g, want %g", name, c.what, c.got, c.want)
		}
	}
	for source, want := range map[cacheSource]*float64{sourceCached: x.HitCached, sourceCounters: x.HitCounters} {
		missed, prompted := u.missed(source, from-1, to-1)
		switch {
		case want == nil && prompted != 0:
			t.Errorf("%s: %s tells of %g tokens, want none", name, source.key(), prompted)
		case want != nil && math.Abs(1-missed/prompted-*want) > 0.00006:
			t.Errorf("%s: %s %.5f, want %.4f", name, source.key(), 1-missed/prompted, *want)
		}
	}
}

func TestRealHitRatios(t *testing.T) {
	t.Parallel()
	phases := readLines[phase](t, "phases.jsonl")
	e := replayReal(t, Options{}, func(*Engine, time.Time) {})
	units := map[string]*unit{}
	for key, tg := range e.targets {
		if len(tg.units) == 1 {
			units[strings.TrimSuffix(key.instance, ":8000")] = tg.units[0]
		}
	}
	lines := 0
	for _, x := range readLines[expected](t, "expected_minutes.jsonl") {
		x.check(t, units[x.Target], x.From*1000, (x.From+60)*1000)
		lines++
	}
	for _, x := range readLines[expected](t, "expected_phases.jsonl") {
		var n int
		if _, err := fmt.Sscanf(x.Phase, "%d", &n); err != nil {
			t.Fatal(err)
		}
		to := int64(math.MaxInt64)
		if n < len(phases) {
			to = phases[n].at().UnixMilli()
		}
		x.check(t, units[x.Target], phases[n-1].at().UnixMilli(), to)
		lines++
	}
	if lines < 80 {
		t.Errorf("only %d lines were checked", lines)
	}
}

// TestRealGauges holds the recorded minute gauge against the expected minutes
// at the full minutes of the clock.
func TestRealGauges(t *testing.T) {
	t.Parallel()
	want := map[string]expected{}
	for _, x := range readLines[expected](t, "expected_minutes.jsonl") {
		want[fmt.Sprint(x.Target, x.From+60)] = x
	}
	checked, overhead := 0, ""
	replayReal(t, Options{}, func(e *Engine, now time.Time) {
		for _, r := range e.Recorded() {
			switch r.Labels.Get("__name__") {
			case "kvwatch_gateway_overhead_seconds":
				overhead = r.Reason
			case "kvwatch_kv_capacity_tokens":
				if r.Known && r.Value != 25600 {
					t.Fatalf("%s at %s: %g", r.Labels, now, r.Value)
				}
			case "kvwatch_gateway_in_flight_requests":
				if r.Known && (r.Value < 0 || r.Value > 60) {
					t.Fatalf("%s at %s: %g", r.Labels, now, r.Value)
				}
			case "kvwatch_prefix_cache_hit_ratio":
				x, ok := want[fmt.Sprint(strings.TrimSuffix(r.Labels.Get("instance"), ":8000"), now.Unix())]
				if !ok || r.Labels.Get("window") != "1m" || !r.Known {
					continue
				}
				if x.HitCached == nil || math.Abs(r.Value-*x.HitCached) > 0.11 {
					t.Errorf("%s at %s: %.4f, want %v", r.Labels, now, r.Value, x.HitCached)
				}
				checked++
			}
		}
	})
	if checked < 30 {
		t.Errorf("only %d minutes were checked", checked)
	}
	if overhead != reasonStreamedOnly {
		t.Errorf("the overhead's reason is %q", overhead)
	}
}

// Seen on real engines: the tokens that the clients were told of as cached are
// those that the engines count as cached. A call that begins in one phase and
// gets its first token in the next makes the phases differ a little.
func TestRealClientsAndEnginesAgree(t *testing.T) {
	t.Parallel()
	e := replayReal(t, Options{}, func(*Engine, time.Time) {})
	truth, _ := realTruth(t)
	phases := readLines[phase](t, "phases.jsonl")
	var told, counted float64
	for i, p := range phases[:len(phases)-1] {
		from, to := p.at().UnixMilli(), phases[i+1].at().UnixMilli()
		var engines, clients float64
		for _, tg := range e.targets {
			for _, u := range tg.units {
				if u.engine != "" {
					engines += unitWindow{ms: to - 1, unit: u}.IncreaseIn(totalCached, from-1, to-1)
				}
			}
		}
		if of := truth[p.Phase]; of != nil {
			clients = of[0][0] + of[1][0] + of[2][0]
		}
		told, counted = told+clients, counted+engines
		if math.Abs(engines-clients) > 0.02*clients {
			t.Errorf("%s: the engines count %g cached tokens, the clients %g", p.Phase, engines, clients)
		}
	}
	if told < 4e6 || math.Abs(counted-told) > 0.003*told {
		t.Errorf("in all the engines count %g cached tokens, the clients %g", counted, told)
	}
}
