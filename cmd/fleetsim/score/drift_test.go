package score

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/cmd/fleetsim/scrape"
	"kvwatch/collector/history"
	"kvwatch/rules"
	"kvwatch/rules/sizing"
)

const (
	// driftPeople keep a session each under way, all the time.
	driftPeople = 6
	driftHours  = 26
	driftPool   = "vllm/qwen3-coder-30b"
)

// knownCalls is what the simulator itself knows of a run.
type knownCalls struct {
	calls  []fleet.CallRecord
	length time.Duration
}

// driftHistory simulates people whose work is known, and measures it from the
// database that was written.
func driftHistory(t *testing.T) (*knownCalls, []sizing.Slot, time.Time) {
	t.Helper()
	known := &knownCalls{length: driftHours * time.Hour}
	f, err := fleet.New(fleet.Config{
		Engines: 1, Seed: 4711, Start: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), WarmUp: time.Hour,
		Workload: fleet.Workload{
			Sessions: driftPeople, OutputTokens: fleet.Spread{Median: 200, Sigma: 0.8}, TurnSeconds: fleet.Spread{Median: 60, Sigma: 0.8},
			FirstTokens: fleet.Spread{Median: 6000, Sigma: 0.8}, MaxContext: 100_000,
		},
		Observe: func(c fleet.CallRecord) {
			if !c.Failed {
				known.calls = append(known.calls, c)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	known.calls = nil // those of the warm-up
	dir := t.TempDir()
	if _, err := scrape.WriteBlocks(t.Context(), f, dir, scrape.Past{Length: known.length, Interval: time.Minute}); err != nil {
		t.Fatal(err)
	}
	store, err := history.Open(history.Options{Dir: dir, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	m, err := rules.NewMeasurer(nil, 7*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	now := f.Config().Start.Add(known.length)
	if err := m.Read(t.Context(), now, store.Scan); err != nil {
		t.Fatal(err)
	}
	return known, m.Slots(driftPool), now
}

// median and its like are of a number of the calls.
func (k *knownCalls) quantile(q float64, of func(fleet.CallRecord) float64) float64 {
	values := make([]float64, 0, len(k.calls))
	for _, c := range k.calls {
		values = append(values, of(c))
	}
	slices.Sort(values)
	return values[int(q*float64(len(values)-1))]
}

func (k *knownCalls) sum(of func(fleet.CallRecord) float64) float64 {
	sum := 0.0
	for _, c := range k.calls {
		sum += of(c)
	}
	return sum
}

func prompt(c fleet.CallRecord) float64 { return float64(c.PromptTokens) }
func output(c fleet.CallRecord) float64 { return float64(c.Output) }

// plan is one that fits what the simulator knows.
func (k *knownCalls) plan() *sizing.Plan {
	sessions := map[uint64]bool{}
	for _, c := range k.calls {
		sessions[c.Session] = true
	}
	ended := float64(len(sessions) - driftPeople/2) // half of those under way at either end
	perToken, several := 0.0, 0.0
	for _, c := range k.calls {
		if c.Output > 1 {
			perToken += (c.Ended - c.FirstToken).Seconds() / float64(c.Output-1)
			several++
		}
	}
	p := &sizing.Plan{Plan: "agents", Pool: driftPool}
	p.SLO = sizing.SLO{TokensPerSPerUser: new(several / perToken), TTFTP95Ms: new(10_000.0), ITLP95Ms: new(1000.0)}
	p.Workload.Load = sizing.Load{
		People: new(float64(driftPeople)), CallsPerSession: new(float64(len(k.calls)) / ended), SessionS: new(driftPeople * k.length.Seconds() / ended),
		PromptTokensP50: new(k.quantile(0.5, prompt)), PromptTokensP95: new(k.quantile(0.95, prompt)),
		OutputTokensP50:  new(k.quantile(0.5, output)),
		ContextTokensMax: new(k.quantile(0.99, prompt) + k.quantile(0.5, output)),
		HitRatio:         new(k.sum(func(c fleet.CallRecord) float64 { return float64(c.CachedTokens) }) / k.sum(prompt)),
	}
	p.Model = sizing.Model{WeightDType: "bf16", KVDType: "fp8", Parameters: new(30.5e9), ActiveParameters: new(3.3e9)}
	p.Engine = sizing.Engine{Concurrency: new(3.0)}
	p.Hardware = sizing.Hardware{VRAMGB: new(80.0), FLOPS: new(989e12), HBMGBPerS: new(3350.0), Replicas: new(2.0), GPUs: new(2.0)}
	return p
}

// TestDriftOfKnownHistories holds plans against a history whose truth is known:
// one that fits, those with one assumption wrong by 1.5 to 3 times either way,
// and one with too little history. The right assumption is named, and no other.
func TestDriftOfKnownHistories(t *testing.T) {
	t.Parallel()
	known, slots, now := driftHistory(t)
	seen := sizing.Evidence{From: now.Add(-7 * 24 * time.Hour), To: now, Slots: slots}
	wrong := []struct{ name, short string }{
		{"workload.context_tokens_max", "context"},
		{"workload.prompt_tokens_p50", "prompt"},
		{"workload.hit_ratio", "hits"},
		{"workload.people", "people"},
		{"workload.output_tokens_p50", "output"},
		{"slo.tokens_per_s_per_user", "speed"},
	}
	var matrix strings.Builder
	fmt.Fprintf(&matrix, "%-28s", "wrong \\ named")
	for _, w := range wrong {
		fmt.Fprintf(&matrix, "%9s", w.short)
	}
	fmt.Fprintf(&matrix, "%9s\n", "nothing")

	row := func(what string, p *sizing.Plan, evidence sizing.Evidence, want ...string) {
		t.Helper()
		named := drifted(sizing.Reevaluate(p, sizing.Config{}, evidence))
		fmt.Fprintf(&matrix, "%-28s", what)
		for _, w := range wrong {
			fmt.Fprintf(&matrix, "%9d", count(named, w.name))
		}
		nothing := 0
		if len(named) == 0 {
			nothing = 1
		}
		fmt.Fprintf(&matrix, "%9d\n", nothing)
		if !slices.Equal(named, want) {
			t.Errorf("%s: %v are told to have drifted, want %v", what, named, want)
		}
	}
	row("nothing", known.plan(), seen)
	for _, w := range wrong {
		for _, by := range []float64{1.0 / 3, 1.0 / 2, 1 / 1.5, 1.5, 2, 3} {
			p := known.plan()
			change(p, w.name, by)
			row(fmt.Sprintf("%s, %.2f times", w.short, by), p, seen, w.name)
		}
	}

	few := seen
	few.Slots = slots[:8*12]
	p := known.plan()
	for _, w := range wrong {
		change(p, w.name, 3)
	}
	row("all, 8 hours of history", p, few)
	for _, j := range sizing.Reevaluate(p, sizing.Config{}, few).Assumptions {
		if j.Verdict != sizing.CannotTell || j.Why == "" {
			t.Errorf("%s of 8 hours: %s, %q", j.Name, j.Verdict, j.Why)
		}
	}
	t.Log("drift, by what is wrong in the plan and what is named:\n" + matrix.String())

	for _, j := range sizing.Reevaluate(known.plan(), sizing.Config{}, seen).Assumptions {
		for _, w := range wrong {
			if j.Name == w.name && j.Verdict != sizing.Holds {
				t.Errorf("%s fits, but: %s, %s", j.Name, j.Verdict, j.Why)
			}
		}
	}
}

func count(names []string, name string) int {
	n := 0
	for _, v := range names {
		if v == name {
			n++
		}
	}
	return n
}

// change makes one assumption wrong. Of the hit ratio, it is the misses.
func change(p *sizing.Plan, name string, by float64) {
	load := &p.Workload.Load
	v := map[string]**float64{
		"workload.context_tokens_max": &load.ContextTokensMax, "workload.prompt_tokens_p50": &load.PromptTokensP50, "workload.hit_ratio": &load.HitRatio,
		"workload.people": &load.People, "workload.output_tokens_p50": &load.OutputTokensP50, "slo.tokens_per_s_per_user": &p.SLO.TokensPerSPerUser,
	}[name]
	wrong := **v * by
	if name == "workload.hit_ratio" {
		wrong = 1 - (1-**v)*by
	}
	*v = &wrong
}

func drifted(live *sizing.Live) []string {
	var names []string
	for _, j := range live.Assumptions {
		if j.Verdict == sizing.Drifted {
			names = append(names, j.Name)
		}
	}
	return names
}
