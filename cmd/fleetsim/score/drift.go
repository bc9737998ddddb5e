package score

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/cmd/fleetsim/scrape"
	"kvwatch/collector/history"
	"kvwatch/rules"
	"kvwatch/rules/sizing"
)

// DriftSeed is the first seed of the matrix of drifts: nothing may be tuned to it
// and those after it.
const DriftSeed = 1101

const (
	driftLength = 26 * time.Hour
	// driftLittle is too little history to judge anything by.
	driftLittle = 8 * time.Hour
	driftPool   = "vllm/qwen3-coder-30b"
)

// driftAssumptions are what plans get wrong, with their names in a table.
var driftAssumptions = []struct{ key, short string }{ //nolint:gochecknoglobals // a table
	{"workload.context_tokens_max", "context"},
	{"workload.prompt_tokens_p50", "prompt"},
	{"workload.hit_ratio", "hits"},
	{"workload.people", "people"},
	{"workload.output_tokens_p50", "output"},
	{"slo.tokens_per_s_per_user", "speed"},
}

// driftFactors are by how much they are wrong.
var driftFactors = []float64{1.0 / 3, 1.0 / 2, 1 / 1.5, 1.5, 2, 3} //nolint:gochecknoglobals // a table

// driftRow is one kind of plan, held against the histories of all seeds.
type driftRow struct {
	what string
	// want is the assumption that is wrong, "" where none may be named.
	want string
	// named counts by assumption; nothing counts histories of which none was named.
	named   map[string]int
	nothing int
}

// DriftMatrix is which assumption was told to have drifted, by which one was wrong.
type DriftMatrix struct {
	seeds []uint64
	rows  []*driftRow
	// wrong says of each verdict that was not right which and why.
	wrong []string
}

// Drift holds plans against histories whose truth is known, one a seed: those
// that fit, those with one assumption wrong, and those with too little history.
func Drift(ctx context.Context, seeds []uint64) (*DriftMatrix, error) {
	d := &DriftMatrix{seeds: seeds}
	for _, seed := range seeds {
		workload := driftWorkload(seed)
		known, err := driftHistory(ctx, fleet.Config{Seed: seed, Workload: workload})
		if err != nil {
			return nil, fmt.Errorf("seed %d: %w", seed, err)
		}
		d.hold(seed, known)
	}
	return d, nil
}

// driftWorkload is a team whose size and habits the seed decides.
func driftWorkload(seed uint64) fleet.Workload {
	random := rand.New(rand.NewPCG(seed, 0x64726966))
	around := func(median float64) fleet.Spread {
		return fleet.Spread{Median: median * (0.7 + 0.8*random.Float64()), Sigma: 0.6 + 0.4*random.Float64()}
	}
	return fleet.Workload{
		Sessions: 4 + random.IntN(6), OutputTokens: around(200), TurnSeconds: around(60), FirstTokens: around(6000), MaxContext: 100_000,
	}
}

// hold holds every kind of plan against one history.
func (d *DriftMatrix) hold(seed uint64, known *knownCalls) {
	seen := sizing.Evidence{From: known.now.Add(-7 * 24 * time.Hour), To: known.now, Slots: known.slots}
	next := 0
	row := func(what, want string, p *sizing.Plan, evidence sizing.Evidence) {
		if next == len(d.rows) {
			d.rows = append(d.rows, &driftRow{what: what, want: want, named: map[string]int{}})
		}
		d.rows[next].take(d, seed, sizing.Reevaluate(p, sizing.Config{}, evidence))
		next++
	}
	row("nothing", "", known.plan(), seen)
	for _, a := range driftAssumptions {
		for _, by := range driftFactors {
			p := known.plan()
			misjudge(p, a.key, by)
			row(fmt.Sprintf("%s, %.2f times", a.short, by), a.key, p, seen)
		}
	}
	few := seen
	few.Slots = known.slots[:int(driftLittle/sizing.SlotLength)]
	p := known.plan()
	for _, a := range driftAssumptions {
		misjudge(p, a.key, 3)
	}
	row(fmt.Sprintf("all, 3.00 times, %g hours of history", driftLittle.Hours()), "", p, few)
}

// take counts what one history came to.
func (r *driftRow) take(d *DriftMatrix, seed uint64, live *sizing.Live) {
	named, right := 0, r.want == ""
	for _, j := range live.Assumptions {
		if !slices.ContainsFunc(driftAssumptions, func(a struct{ key, short string }) bool { return a.key == j.Name }) {
			continue
		}
		switch {
		case j.Verdict == sizing.Drifted:
			r.named[j.Name]++
			named++
			if j.Name == r.want {
				right = true
				continue
			}
			d.wrong = append(d.wrong, fmt.Sprintf("seed %d, %s: %s is told to have drifted: %s", seed, r.what, j.Name, j.Why))
		case j.Name == r.want:
			d.wrong = append(d.wrong, fmt.Sprintf("seed %d, %s: %s: %s", seed, r.what, j.Verdict, j.Why))
		}
	}
	if named == 0 {
		r.nothing++
	}
	if !right && named > 0 {
		d.wrong = append(d.wrong, fmt.Sprintf("seed %d, %s: not named", seed, r.what))
	}
}

// right counts the histories of a row of which what is wrong was named, and
// nothing else.
func (d *DriftMatrix) right() (right, all int) {
	for _, r := range d.rows {
		all += len(d.seeds)
		others := 0
		for key, n := range r.named {
			if key != r.want {
				others += n
			}
		}
		hits := r.nothing
		if r.want != "" {
			hits = r.named[r.want]
		}
		right += max(hits-others, 0)
	}
	return right, all
}

// Markdown is the matrix, and what was not right.
func (d *DriftMatrix) Markdown() string {
	var b strings.Builder
	right, all := d.right()
	fmt.Fprintf(&b, "# Drift of plans, by what is wrong in them\n\nMade by `make drift`, which runs `fleetsim drift --seeds %d --first-seed %d`; do not edit.\n\n", len(d.seeds), d.seeds[0])
	fmt.Fprintf(&b, "Each seed is %g hours of a simulated team of its own size and habits, measured from the pages of its engine as a live plan is. Plans are written from what the simulator knows, then one assumption is made wrong by a factor (of the hit ratio, its misses). A cell is the number of histories, of %d, in which `kvwatch` said that the assumption had drifted; of those, the one that is wrong should be named, and no other. %d of %d are right.\n\n", driftLength.Hours(), len(d.seeds), right, all)
	b.WriteString("| wrong in the plan |")
	for _, a := range driftAssumptions {
		fmt.Fprintf(&b, " %s |", a.short)
	}
	b.WriteString(" nothing |\n|---|")
	b.WriteString(strings.Repeat("---|", len(driftAssumptions)+1) + "\n")
	for _, r := range d.rows {
		fmt.Fprintf(&b, "| %s |", r.what)
		for _, a := range driftAssumptions {
			b.WriteString(cellOf(r.named[a.key], a.key == r.want))
		}
		b.WriteString(cellOf(r.nothing, r.want == "") + "\n")
	}
	b.WriteString("\n## What was not right\n\n")
	if len(d.wrong) == 0 {
		b.WriteString("Nothing.\n")
	}
	for _, text := range d.wrong {
		b.WriteString("- " + text + "\n")
	}
	return b.String()
}

func cellOf(n int, wanted bool) string {
	switch {
	case wanted:
		return fmt.Sprintf(" **%d** |", n)
	case n == 0:
		return " |"
	default:
		return fmt.Sprintf(" %d |", n)
	}
}

// knownCalls is what the simulator itself knows of a run, and what was measured of it.
type knownCalls struct {
	calls  []fleet.CallRecord
	people int
	slots  []sizing.Slot
	now    time.Time
}

// driftHistory simulates people whose work is known, and measures it from the
// database that was written. Each keeps a session under way, all the time.
func driftHistory(ctx context.Context, c fleet.Config) (known *knownCalls, err error) {
	known = &knownCalls{people: c.Workload.Sessions}
	c.Engines, c.Start, c.WarmUp = 1, time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), time.Hour
	c.Observe = func(call fleet.CallRecord) {
		if !call.Failed {
			known.calls = append(known.calls, call)
		}
	}
	f, err := fleet.New(c)
	if err != nil {
		return nil, err
	}
	known.calls = nil // those of the warm-up
	dir, err := os.MkdirTemp("", "fleetsim-drift")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := scrape.WriteBlocks(ctx, f, dir, scrape.Past{Length: driftLength, Interval: time.Minute}); err != nil {
		return nil, err
	}
	store, err := history.Open(history.Options{Dir: dir, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	m, err := rules.NewMeasurer(nil, 7*24*time.Hour)
	if err != nil {
		return nil, err
	}
	known.now = f.Config().Start.Add(driftLength)
	if err := m.Read(ctx, known.now, store.Scan); err != nil {
		return nil, err
	}
	known.slots = m.Slots(driftPool)
	return known, nil
}

// quantile is that of a number of the calls.
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
func cached(c fleet.CallRecord) float64 { return float64(c.CachedTokens) }

// plan is one that fits what the simulator knows.
func (k *knownCalls) plan() *sizing.Plan {
	sessions := map[uint64]bool{}
	for _, c := range k.calls {
		sessions[c.Session] = true
	}
	people := float64(k.people)
	ended := float64(len(sessions)) - people/2 // half of those under way at either end
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
		People: &people, CallsPerSession: new(float64(len(k.calls)) / ended), SessionS: new(people * driftLength.Seconds() / ended),
		PromptTokensP50: new(k.quantile(0.5, prompt)), PromptTokensP95: new(k.quantile(0.95, prompt)),
		OutputTokensP50:  new(k.quantile(0.5, output)),
		ContextTokensMax: new(k.quantile(0.99, prompt) + k.quantile(0.5, output)),
		HitRatio:         new(k.sum(cached) / k.sum(prompt)),
	}
	p.Model = sizing.Model{WeightDType: "bf16", KVDType: "fp8", Parameters: new(30.5e9), ActiveParameters: new(3.3e9)}
	p.Engine = sizing.Engine{Concurrency: new(3.0)}
	p.Hardware = sizing.Hardware{VRAMGB: new(80.0), FLOPS: new(989e12), HBMGBPerS: new(3350.0), Replicas: new(2.0), GPUs: new(2.0)}
	return p
}

// misjudge makes one assumption wrong. Of the hit ratio, it is the misses.
func misjudge(p *sizing.Plan, key string, by float64) {
	load := &p.Workload.Load
	v := map[string]**float64{
		"workload.context_tokens_max": &load.ContextTokensMax, "workload.prompt_tokens_p50": &load.PromptTokensP50, "workload.hit_ratio": &load.HitRatio,
		"workload.people": &load.People, "workload.output_tokens_p50": &load.OutputTokensP50, "slo.tokens_per_s_per_user": &p.SLO.TokensPerSPerUser,
	}[key]
	wrong := **v * by
	if key == "workload.hit_ratio" {
		wrong = 1 - (1-**v)*by
	}
	*v = &wrong
}
