package rules

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"kvwatch/collector"
)

// callsAt is when the made calls of these tests begin.
var callsAt = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// callFleet is an engine with one pool of one vLLM, and a log of calls.
type callFleet struct {
	t     *testing.T
	e     *Engine
	pages map[string]*page
}

func newCallFleet(t *testing.T, pools ...PoolConfig) *callFleet {
	t.Helper()
	e, err := New(Options{Pools: pools, ScrapeInterval: 15 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return &callFleet{t, e, map[string]*page{}}
}

// engine lets an engine's page be read once.
func (f *callFleet) engine(at time.Time, instance, model string) {
	f.engineOf(at, "vllm", instance, model)
}

func (f *callFleet) engineOf(at time.Time, job, instance, model string) {
	p := f.pages[instance]
	if p == nil {
		p = newPage(job, instance, model)
		p.set(1, collector.VLLMRunning)
		f.pages[instance] = p
	}
	r := p.round(at)
	f.e.Observe(&r)
}

// gateway lets a gateway's page be read, on which its answered requests stand by model.
func (f *callFleet) gateway(at time.Time, answered map[string]float64) {
	p := f.pages["gateway"]
	if p == nil {
		p = newGatewayPage("gateway:4000")
		f.pages["gateway"] = p
	}
	for model, n := range answered {
		p.set(n, collector.LiteLLMRequests, "requested_model", model, "model_id", "a", "status_code", "200")
		p.set(7000+at.Sub(callsAt).Seconds(), collector.LiteLLMRequests, "requested_model", model, "model_id", "a", "status_code", "500")
	}
	r := p.round(at)
	f.e.Observe(&r)
}

func (f *callFleet) log(at time.Time, calls ...collector.Call) {
	f.e.ObserveCalls(&collector.CallRound{Source: "log", Time: at, From: callsAt.Add(-2 * time.Hour), State: collector.StateUp, Calls: slices.Clone(calls)})
}

// eval evaluates and returns what is recorded of a series with the given value of its own label.
func (f *callFleet) eval(at time.Time) func(name, value string) Recorded {
	f.t.Helper()
	if err := f.e.Eval(f.t.Context(), at); err != nil {
		f.t.Fatal(err)
	}
	all := f.e.Recorded()
	return func(name, value string) Recorded {
		f.t.Helper()
		for _, r := range all {
			if r.Labels.Get("__name__") == name && (value == "" || r.Labels.Get("position") == value || r.Labels.Get("switch") == value) {
				return r
			}
		}
		f.t.Fatalf("%s %s is not recorded", name, value)
		return Recorded{}
	}
}

const (
	hitRatio     = "kvwatch_pool_session_hit_ratio"
	switchRatio  = "kvwatch_pool_session_switch_hit_ratio"
	coverageName = "kvwatch_pool_session_coverage_ratio"
)

// made is a call of session s that began at the given seconds.
func made(s uint64, start, seconds float64, prompt, cached int64) collector.Call {
	at := callsAt.Add(time.Duration(start * float64(time.Second)))
	end := at.Add(time.Duration(seconds * float64(time.Second)))
	return collector.Call{
		Session: s, Start: at, FirstToken: at.Add(end.Sub(at) / 2), End: end, Model: "hosted_vllm/m", ModelGroup: "agents", RequestedModel: "agents",
		Deployment: "a", Host: "a:8000", PromptTokens: prompt, OutputTokens: 11, CachedTokens: max(cached, 0), CachedKnown: cached >= 0,
	}
}

// conversation is n turns of k calls each, with the given cached shares (in
// percent) of the first call, those within a turn, and those that begin one.
func conversation(s uint64, start float64, turns, k int, first, within, boundary int64) []collector.Call {
	var calls []collector.Call
	for turn := range turns {
		for i := range k {
			cached := within
			switch {
			case turn == 0 && i == 0:
				cached = first
			case i == 0:
				cached = boundary
			}
			calls = append(calls, made(s, start, 1, 100, cached))
			start += 2
		}
		start += 60
	}
	return calls
}

func near(t *testing.T, r Recorded, want, tolerance float64) {
	t.Helper()
	if !r.Known || math.Abs(r.Value-want) > tolerance {
		t.Errorf("%s is %v (known %v, %s: %s), want %v", r.Labels, r.Value, r.Known, r.Quality, r.Reason, want)
	}
}

func TestPositionsPartitionTheCalls(t *testing.T) {
	t.Parallel()
	f := newCallFleet(t, PoolConfig{Name: "agents", GatewayModels: []string{"agents"}})
	f.engine(callsAt, "a:8000", "m")
	var calls []collector.Call
	for s := range uint64(6) {
		calls = append(calls, conversation(s+1, float64(s), 3, 4, 10, 90, 50)...)
	}
	end := callsAt.Add(6 * time.Minute)
	f.engine(end, "a:8000", "m")
	f.log(end, calls...)
	get := f.eval(end)
	near(t, get(hitRatio, positionFirstCall), 0.10, 1e-9)
	near(t, get(hitRatio, positionWithinTurn), 0.90, 1e-9)
	near(t, get(hitRatio, positionTurnBoundary), 0.50, 1e-9)
	near(t, get(coverageName, ""), 1, 0)
	p := f.e.sessions.pools["agents"]
	sum := 0
	for _, position := range []string{positionFirstCall, positionWithinTurn, positionTurnBoundary} {
		sum += int(p.position(&p.long, position).calls)
	}
	if sum != len(calls) || len(calls) != 72 {
		t.Errorf("the positions hold %d of %d calls", sum, len(calls))
	}
	if r := get(hitRatio, positionTurnBoundary); r.Quality != QualityOK || !strings.Contains(r.From, "12 calls") || !strings.Contains(r.From, "seen in the calls") {
		t.Errorf("quality %s, from %s", r.Quality, r.From)
	}
	gap := get("kvwatch_pool_turn_gap_seconds", "")
	if !gap.Known || gap.Summary.Count != 12 || math.Abs(gap.Summary.Quantiles[0].Value-61) > 1e-9 || math.Abs(gap.Summary.Sum-12*61) > 1e-9 {
		t.Errorf("turn gaps: %+v, %+v", gap, gap.Summary)
	}
	if task := get("kvwatch_pool_session_task_seconds", ""); task.Known || !strings.Contains(task.Reason, "fewer than 5 tasks") {
		t.Errorf("tasks that go on: %+v", task)
	}
	// Later the sessions are quiet, and their tasks over.
	later := end.Add(10 * time.Minute)
	f.engine(later, "a:8000", "m")
	f.log(later)
	get = f.eval(later)
	task, each := get("kvwatch_pool_session_task_seconds", ""), get("kvwatch_pool_session_calls", "")
	if want := 2*60.0 + 12*2 - 1; !task.Known || task.Summary.Count != 6 || task.Summary.Quantiles[1].Value != want {
		t.Errorf("tasks: %+v %+v, want %v s", task, task.Summary, want)
	}
	if !each.Known || each.Summary.Count != 6 || each.Summary.Sum != 72 || each.Summary.Quantiles[0].Value != 12 {
		t.Errorf("calls: %+v %+v", each, each.Summary)
	}
	report := f.e.Sessions()
	if len(report) != 1 || report[0].Calls != 72 || report[0].TokensPerSecond[0].Value != 20 || report[0].PromptTokens[0].Value != 100 {
		t.Errorf("report: %+v", report)
	}
}

func TestCallsThatSayNothingOfTheCache(t *testing.T) {
	t.Parallel()
	failed := func(c collector.Call) collector.Call {
		c.Failed, c.PromptTokens, c.OutputTokens, c.CachedKnown = true, 0, 0, false
		return c
	}
	answered := func(c collector.Call) collector.Call { c.Answered = true; return c }
	embedded := func(c collector.Call) collector.Call { c.OutputTokens = 0; return c }
	other := func(c collector.Call, host string) collector.Call { c.Host, c.Deployment = host, host; return c }
	as := func(c collector.Call, group string) collector.Call { c.ModelGroup = group; return c }
	for name, c := range map[string]struct {
		calls []collector.Call
		// the calls at each position, and those of a switch of model and replica
		first, within, boundary, model, replica uint32
	}{
		"a call and the next":        {[]collector.Call{made(1, 0, 1, 100, 0), made(1, 3, 1, 100, 50)}, 1, 1, 0, 0, 0},
		"a turn":                     {[]collector.Call{made(1, 0, 1, 100, 0), made(1, 40, 1, 100, 50)}, 1, 0, 1, 0, 0},
		"exactly the gap":            {[]collector.Call{made(1, 0, 1, 100, 0), made(1, 31, 1, 100, 50)}, 1, 1, 0, 0, 0},
		"just over it":               {[]collector.Call{made(1, 0, 1, 100, 0), made(1, 31.001, 1, 100, 50)}, 1, 0, 1, 0, 0},
		"two sessions":               {[]collector.Call{made(1, 0, 1, 100, 0), made(2, 3, 1, 100, 50)}, 2, 0, 0, 0, 0},
		"sub-agents overlap":         {[]collector.Call{made(1, 0, 60, 100, 0), made(1, 5, 10, 200, 50), made(1, 40, 10, 300, 50), made(1, 61, 1, 100, 0)}, 1, 3, 0, 0, 0},
		"one ends within another":    {[]collector.Call{made(1, 0, 100, 100, 0), made(1, 5, 1, 200, 0), made(1, 101, 1, 300, 0)}, 1, 2, 0, 0, 0},
		"a failed call goes on":      {[]collector.Call{made(1, 0, 1, 100, 0), failed(made(1, 40, 1, 0, -1)), made(1, 42, 1, 100, 0)}, 1, 1, 0, 0, 0},
		"a failed first call":        {[]collector.Call{failed(made(1, 0, 1, 0, -1)), made(1, 2, 1, 100, 0)}, 0, 1, 0, 0, 0},
		"a retry within its call":    {[]collector.Call{made(1, 0, 1, 100, 0), made(1, 40, 2, 100, 0), failed(made(1, 40.01, 0.1, 0, -1))}, 1, 0, 1, 0, 0},
		"three rows for one call":    {[]collector.Call{made(1, 0, 1, 100, 0), made(1, 0.002, 1, 100, 0), made(1, 0.004, 1.5, 100, 0)}, 1, 0, 0, 0, 0},
		"two calls at once":          {[]collector.Call{made(1, 0, 1, 100, 0), made(1, 0.002, 1, 120, 0)}, 1, 1, 0, 0, 0},
		"a response from the cache":  {[]collector.Call{made(1, 0, 1, 100, 0), answered(made(1, 3, 1, 100, 0)), made(1, 33, 1, 100, 0)}, 1, 1, 0, 0, 0},
		"an embedding":               {[]collector.Call{embedded(made(1, 0, 1, 100, -1)), made(1, 3, 1, 100, 0)}, 0, 1, 0, 0, 0},
		"another replica":            {[]collector.Call{made(1, 0, 1, 100, 0), other(made(1, 3, 1, 100, 0), "b:8000"), other(made(1, 6, 1, 100, 0), "b:8000")}, 1, 2, 0, 0, 1},
		"another model and back":     {[]collector.Call{made(1, 0, 1, 100, 0), as(made(1, 3, 1, 100, 0), "small"), made(1, 6, 1, 100, 0)}, 1, 1, 0, 1, 0},
		"out of order":               {[]collector.Call{made(1, 40, 1, 100, 0), made(1, 0, 1, 100, 0), made(1, 3, 1, 100, 0)}, 1, 1, 1, 0, 0},
		"no session":                 {[]collector.Call{made(0, 0, 1, 100, 0), made(0, 3, 1, 100, 0)}, 0, 0, 0, 0, 0},
		"a clock that goes back":     {[]collector.Call{made(1, 0, -1, 100, 0), made(1, 3, 1, 100, 0)}, 1, 1, 0, 0, 0},
		"a session from before":      {[]collector.Call{made(1, -7000, 1, 100, 0), made(1, -6990, 1, 100, 0)}, 0, 0, 0, 0, 0},
		"goes on after it was found": {[]collector.Call{made(1, -6700, 1, 100, 0), made(1, 0, 1, 100, 0)}, 0, 0, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCallFleet(t, PoolConfig{Name: "agents", ModelName: "m", GatewayModels: []string{"agents"}}, PoolConfig{Name: "other", ModelName: "n", GatewayModels: []string{"small"}})
			now := callsAt.Add(5 * time.Minute)
			f.log(now, c.calls...)
			f.eval(now)
			p := f.e.sessions.pools["agents"]
			got := [5]uint32{
				p.position(&p.long, positionFirstCall).calls, p.position(&p.long, positionWithinTurn).calls, p.position(&p.long, positionTurnBoundary).calls,
				p.long.switches[switchModel].calls, p.long.switches[switchReplica].calls,
			}
			if want := [5]uint32{c.first, c.within, c.boundary, c.model, c.replica}; got != want {
				t.Errorf("first, within, boundary, model, replica: %v, want %v", got, want)
			}
		})
	}
}

func TestSessionsAreUnknownWithTheReason(t *testing.T) {
	t.Parallel()
	now := callsAt.Add(20 * time.Minute)
	var single, unreported, half []collector.Call
	for i := range uint64(40) {
		single = append(single, made(i+1, float64(i)*10, 1, 100, 0))
		unreported = append(unreported, made(i%4+1, float64(i)*10, 1, 100, -1))
		half = append(half, made(i%4+1, 400+float64(i)*10, 1, 100, int64(i/4%2*101)-1))
	}
	for name, c := range map[string]struct {
		calls    []collector.Call
		state    collector.State
		at       time.Time // of the read; now where zero
		quality  Quality
		says     string
		coverage float64 // -1 is not known
	}{
		"a session for each call": {calls: single, quality: QualityAbsent, says: "40 of 40 sessions have a single call", coverage: 0},
		"nothing reported":        {calls: unreported, quality: QualityAbsent, says: "--enable-prompt-tokens-details", coverage: 0},
		"half of it reported":     {calls: half, quality: QualityPartial, says: "of the calls tell their cached tokens", coverage: 0.5},
		"few calls":               {calls: half[:8], quality: QualityAbsent, says: "fewer than 5 calls (call within a turn)", coverage: 0.5},
		"no calls":                {quality: QualityAbsent, says: reasonNoCall, coverage: -1},
		"not read for long":       {calls: half, at: now.Add(-16 * time.Minute), quality: QualityStale, says: "was not read for 16", coverage: -1},
		"never read":              {state: collector.StateUnauthorised, quality: QualityStale, says: "was not read yet: the password is wrong", coverage: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCallFleet(t, PoolConfig{Name: "agents", GatewayModels: []string{"agents"}, TurnGap: 120_000_000_000})
			f.engine(now, "a:8000", "m")
			at := now
			if !c.at.IsZero() {
				at = c.at
			}
			r := collector.CallRound{Source: "log", Time: at, From: callsAt.Add(-2 * time.Hour), State: collector.StateUp, Calls: c.calls}
			if c.state != "" {
				r.State, r.Reason = c.state, "the password is wrong"
			}
			f.e.ObserveCalls(&r)
			get := f.eval(now)
			got := get(hitRatio, positionWithinTurn)
			if got.Quality != c.quality || !strings.Contains(got.Reason, c.says) || got.Known != (c.quality == QualityPartial) {
				t.Errorf("quality %s, known %v: %s", got.Quality, got.Known, got.Reason)
			}
			coverage := get(coverageName, "")
			if coverage.Known != (c.coverage >= 0) || coverage.Known && math.Abs(coverage.Value-c.coverage) > 1e-9 {
				t.Errorf("coverage %v, known %v: %s", coverage.Value, coverage.Known, coverage.Reason)
			}
		})
	}
	t.Run("one of two logs", func(t *testing.T) {
		t.Parallel()
		f := newCallFleet(t, PoolConfig{Name: "agents", GatewayModels: []string{"agents"}, TurnGap: 120_000_000_000})
		f.engine(now, "a:8000", "m")
		f.e.ObserveCalls(&collector.CallRound{Source: "another", Time: now, State: collector.StateDown, Reason: "it refused the connection"})
		f.e.ObserveCalls(&collector.CallRound{Source: "log", Time: now, From: callsAt.Add(-2 * time.Hour), State: collector.StateUp, Calls: half})
		if got := f.eval(now)(hitRatio, positionWithinTurn); !got.Known {
			t.Errorf("the log of the pool is read, and it is %s: %s", got.Quality, got.Reason)
		}
	})
	t.Run("no log", func(t *testing.T) {
		t.Parallel()
		f := newCallFleet(t)
		f.engine(now, "a:8000", "m")
		if got := f.eval(now)(coverageName, ""); got.Known || got.Reason != reasonNoLog {
			t.Errorf("%+v", got)
		}
	})
}

// TestTurnGapIsFoundFromTheHumps makes pauses of two humps, or of one.
func TestTurnGapIsFoundFromTheHumps(t *testing.T) {
	t.Parallel()
	// pauses gives n pauses around a middle, spread evenly in the logarithm.
	pauses := func(n int, middle, factor float64) []float64 {
		var out []float64
		for i := range n {
			out = append(out, middle*math.Pow(factor, 2*float64(i)/float64(n-1)-1))
		}
		return out
	}
	for name, c := range map[string]struct {
		pauses   []float64
		found    bool
		from, to float64
	}{
		"two humps":         {slices.Concat(pauses(200, 1, 3), pauses(60, 60, 3)), true, 5, 15},
		"near each other":   {slices.Concat(pauses(200, 1, 2.5), pauses(60, 12, 2)), true, 2.5, 6},
		"far apart":         {slices.Concat(pauses(500, 0.05, 3), pauses(100, 600, 3)), true, 2, 15},
		"one hump":          {pauses(300, 5, 10), false, 30, 30},
		"no pauses":         {nil, false, 30, 30},
		"few pauses":        {slices.Concat(pauses(30, 1, 3), pauses(15, 60, 3)), false, 30, 30},
		"a handful of long": {slices.Concat(pauses(300, 1, 3), pauses(8, 60, 3)), false, 30, 30},
	} {
		p := newPoolCalls("p", defaultTurnGap)
		for _, s := range c.pauses {
			p.long.bins[p.bin(place{gap: time.Duration(s * float64(time.Second))})].calls++
		}
		got := findBoundary(&p.long, p.turnGap)
		if got.found != c.found || got.gap.Seconds() < c.from-1e-9 || got.gap.Seconds() > c.to+1e-9 {
			t.Errorf("%s: %+v, want between %v and %v s", name, got, c.from, c.to)
		}
	}
}

func TestPauseBins(t *testing.T) {
	t.Parallel()
	p := newPoolCalls("p", 4*time.Second)
	for _, c := range []struct {
		gap  time.Duration
		want int
	}{
		{4 * time.Second, binZero - 1},
		{4001 * time.Millisecond, binZero},
		{3999 * time.Millisecond, binZero - 1},
		{time.Nanosecond, binLowest},
		{1000 * time.Hour, bins - 1},
		{40 * time.Second, binZero + binsPerDecade - 1},
	} {
		if got := p.bin(place{gap: c.gap}); got != c.want {
			t.Errorf("%s: bin %d, want %d", c.gap, got, c.want)
		}
	}
}

func TestPoolsClaimTheirCalls(t *testing.T) {
	t.Parallel()
	named := PoolConfig{Name: "named", ModelName: "m", GatewayModels: []string{"agents", "both"}}
	second := PoolConfig{Name: "second", ModelName: "n", GatewayModels: []string{"both"}}
	f := newCallFleet(t, named, second)
	for instance, model := range map[string]string{"a:8000": "m", "b:8000": "n", "c:8000": "org/model", "d:8000": "twice"} {
		f.engine(callsAt, instance, model)
	}
	f.engineOf(callsAt, "other", "e:8000", "twice")
	f.eval(callsAt)
	for _, c := range []struct {
		model, group, host string
		want               string
	}{
		{"hosted_vllm/m", "agents", "", "named"},
		{"hosted_vllm/m", "agents", "somewhere:1", "named"},
		{"hosted_vllm/m", "both", "b:8000", "second"},
		{"hosted_vllm/m", "both", "", "named"}, // the model's name decides
		{"hosted_vllm/x", "both", "", ""},
		{"hosted_vllm/org/model", "chat", "", "vllm/org/model"},
		{"org/model", "chat", "", "vllm/org/model"},
		{"hosted_vllm/x", "org/model", "", "vllm/org/model"},
		{"hosted_vllm/x", "chat", "c:8000", "vllm/org/model"},
		{"hosted_vllm/twice", "chat", "", ""},
		{"hosted_vllm/twice", "chat", "e:8000", "other/twice"},
		{"hosted_vllm/m", "chat", "", ""}, // the pool says its names, and this is none
		{"", "", "", ""},
	} {
		if got := f.e.claimCall(servedModel{c.model, c.group, c.host}); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	f.log(callsAt.Add(time.Minute), collector.Call{Start: callsAt, End: callsAt, ModelGroup: "nobody"})
	f.eval(callsAt.Add(2 * time.Minute))
	if got := f.eval(callsAt.Add(2*time.Minute+time.Second))(coverageName, ""); !strings.Contains(got.Reason, "1 calls were for models that no pool serves") {
		t.Errorf("%s", got.Reason)
	}
}

// TestRowsThatNeverArrived are missed by the gateway's own counter: LiteLLM
// logs no stream that its client left (BerriAI/litellm#35958), in older releases
// no call that timed out at the engine (#15531), and drops the oldest rows of a
// queue that is too long (#21514).
func TestRowsThatNeverArrived(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		counted  int // per minute, where 10 rows come
		coverage float64
		quality  Quality
		share    bool
	}{
		"all came":            {10, 1, QualityOK, true},
		"a third was dropped": {15, 10. / 15, QualityPartial, true},
		"others are served":   {5, 1, QualityOK, true},
		"nothing counted":     {0, 1, QualityOK, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCallFleet(t, PoolConfig{Name: "agents", GatewayModels: []string{"agents"}, TurnGap: 120_000_000_000})
			now := callsAt
			for minute := range 75 {
				var calls []collector.Call
				for i := range 10 {
					calls = append(calls, made(uint64(i+1), float64(minute*60+i*5), 1, 100, 50))
				}
				now = callsAt.Add(time.Duration(minute+1) * time.Minute)
				for i := range 4 {
					at := now.Add(time.Duration(i-4) * 15 * time.Second)
					f.gateway(at, map[string]float64{"agents": float64(1000 + minute*c.counted), "others": float64(9000 + 50*minute)})
				}
				f.engine(now, "a:8000", "m")
				f.log(now, calls...)
			}
			get := f.eval(now)
			near(t, get(coverageName, ""), c.coverage, 0.02)
			r := get(hitRatio, positionWithinTurn)
			near(t, r, 0.5, 1e-9)
			if r.Quality != c.quality || c.quality == QualityPartial && (math.Abs(r.Coverage-c.coverage) > 0.02 || !strings.Contains(r.Reason, "came to its log")) {
				t.Errorf("quality %s, coverage %v: %s", r.Quality, r.Coverage, r.Reason)
			}
			if got := f.e.Sessions()[0].ArrivedShare; (got != nil) != c.share {
				t.Errorf("arrived share %v", got)
			}
		})
	}
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	f := newCallFleet(t, PoolConfig{Name: "agents", GatewayModels: []string{"agents"}})
	for i := range 300 {
		calls := make([]collector.Call, 1000)
		for j := range calls {
			calls[j] = made(uint64(i*1000+j+1), float64(i), 1, 100, 50)
		}
		f.log(callsAt.Add(time.Duration(i)*time.Second+2*time.Minute), calls...)
	}
	if n := len(f.e.sessions.young) + len(f.e.sessions.old); n > mostSessions {
		t.Errorf("%d sessions are remembered", n)
	}
	p := f.e.sessions.pools["agents"]
	if len(p.prompts.values) != mostRecent || len(f.e.sessions.waiting) != 0 {
		t.Errorf("%d prompts, %d calls wait", len(p.prompts.values), len(f.e.sessions.waiting))
	}
	// What was just read waits until late rows had their time.
	f.log(callsAt.Add(time.Hour), made(1, 3599, 0.5, 100, 50))
	if len(f.e.sessions.waiting) != 1 {
		t.Error("a call that ended a second ago was placed")
	}
}

// TestReloadKeepsSessions also when a pool's turn gap changes.
func TestReloadKeepsSessions(t *testing.T) {
	t.Parallel()
	conf := PoolConfig{Name: "agents", GatewayModels: []string{"agents"}}
	f := newCallFleet(t, conf)
	now := callsAt.Add(6 * time.Minute)
	f.engine(now, "a:8000", "m")
	var calls []collector.Call
	for s := range uint64(6) {
		calls = append(calls, conversation(s+1, float64(s), 3, 4, 10, 90, 50)...)
	}
	f.log(now, calls...)
	f.eval(now)
	if err := f.e.Reload([]PoolConfig{conf}, nil, step); err != nil {
		t.Fatal(err)
	}
	near(t, f.eval(now.Add(time.Minute))(hitRatio, positionWithinTurn), 0.9, 1e-9)
	conf.TurnGap = 4_000_000_000
	if err := f.e.Reload([]PoolConfig{conf}, nil, step); err != nil {
		t.Fatal(err)
	}
	if got := f.eval(now.Add(3*time.Minute))(hitRatio, positionWithinTurn); got.Known {
		t.Errorf("calls counted in steps of the old gap: %+v", got)
	}
	if err := f.e.Reload(nil, nil, step); err != nil {
		t.Fatal(err)
	}
	f.eval(now.Add(5 * time.Minute))
	if len(f.e.sessions.pools) != 0 {
		t.Errorf("pools that are gone: %v", f.e.sessions.pools)
	}
}

// realCall is a call as the client saw it.
type realCall struct {
	Session, Phase string
	Turn, Call     int
	Status         int
	Prompt, Cached int64
}

// TestRealSessions holds the hit ratios by position to the clients' own record
// of a real vLLM and a real LiteLLM, phase by phase. The rows are those that the
// collector's test reads out of a real PostgreSQL.
func TestRealSessions(t *testing.T) {
	t.Parallel()
	truth, phaseOf := realTruth(t)
	byPhase := map[string][]collector.Call{}
	for session, calls := range realRows(t) {
		phase := phaseOf[session]
		byPhase[phase] = append(byPhase[phase], calls...)
	}
	for phase, tolerance := range map[string][3]float64{
		"steady": {}, "affinity_loss": {}, "recover": {}, "calm": {}, "steady_restart": {}, "recover2": {}, "broken_prefix": {},
		// The busy gateway begins calls up to 8 s late: some pauses look longer than they were.
		"working_set": {0, 0.005, 0.013},
		// Here up to 28 s, so that pauses within a turn and between turns overlap.
		"kv_pressure": {0, 0.01, 0.09},
	} {
		calls := byPhase[phase]
		if len(calls) == 0 {
			t.Errorf("%s: no calls", phase)
			continue
		}
		f := newCallFleet(t, PoolConfig{Name: "agent", GatewayModels: []string{"agent"}, TurnGap: 4_000_000_000})
		last := calls[0].End
		for _, c := range calls {
			if c.End.After(last) {
				last = c.End
			}
		}
		now := last.Add(settled + time.Second)
		f.engine(now, "a:8000", "m")
		f.e.ObserveCalls(&collector.CallRound{Source: "log", Time: now, From: now.Add(-2 * time.Hour), State: collector.StateUp, Calls: calls})
		get := f.eval(now)
		for i, position := range []string{positionFirstCall, positionWithinTurn, positionTurnBoundary} {
			want := truth[phase][i]
			got := get(hitRatio, position)
			if want[2] < minRequests {
				if got.Known {
					t.Errorf("%s, %s: %v of %v calls", phase, position, got.Value, want[2])
				}
				continue
			}
			ratio := want[0] / want[1]
			if !got.Known || math.Abs(got.Value-ratio) > tolerance[i]+5e-5 {
				t.Errorf("%s, %s: %.4f (%s %s), the clients saw %.4f in %.0f calls, from %s", phase, position, got.Value, got.Quality, got.Reason, ratio, want[2], got.From)
			}
		}
	}
}

// realTruth sums up the clients' record by phase and position: cached tokens,
// prompt tokens and calls.
func realTruth(t *testing.T) (truth map[string]*[3][3]float64, phaseOf map[string]string) {
	t.Helper()
	truth, phaseOf = map[string]*[3][3]float64{}, map[string]string{}
	d := json.NewDecoder(bytes.NewReader(unzstd(t, "../collector/testdata/spendlogs-calls.jsonl.zst")))
	for {
		var c realCall
		if err := d.Decode(&c); err == io.EOF {
			return truth, phaseOf
		} else if err != nil {
			t.Fatal(err)
		}
		phaseOf[c.Session] = c.Phase
		if truth[c.Phase] == nil {
			truth[c.Phase] = &[3][3]float64{}
		}
		if c.Status != 200 {
			continue
		}
		i := 1
		switch {
		case c.Turn == 0 && c.Call == 0:
			i = 0
		case c.Call == 0:
			i = 2
		}
		sums := &truth[c.Phase][i]
		sums[0] += float64(c.Cached)
		sums[1] += float64(c.Prompt)
		sums[2]++
	}
}

// realRows are the rows of the table by session.
func realRows(t *testing.T) map[string][]collector.Call {
	t.Helper()
	all, err := csv.NewReader(bytes.NewReader(unzstd(t, "../collector/testdata/spendlogs.csv.zst"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range all[0] {
		column[name] = i
	}
	ids := map[string]uint64{}
	rows := map[string][]collector.Call{}
	for _, row := range all[1:] {
		field := func(name string) string { return row[column[name]] }
		at := func(name string) time.Time {
			v, err := time.Parse("2006-01-02 15:04:05.999", field(name))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		number := func(name string) int64 {
			v, err := strconv.ParseInt(field(name), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		var meta struct {
			Usage struct {
				Details struct {
					Cached *int64 `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			} `json:"usage_object"`
		}
		if err := json.Unmarshal([]byte(field("metadata")), &meta); err != nil {
			t.Fatal(err)
		}
		session := field("session_id")
		if ids[session] == 0 {
			ids[session] = uint64(len(ids) + 1)
		}
		c := collector.Call{
			Session: ids[session], Start: at("startTime"), FirstToken: at("completionStartTime"), End: at("endTime"),
			Model: field("model"), ModelGroup: field("model_group"), Deployment: field("model_id"), Failed: field("status") == "failure",
			PromptTokens: number("prompt_tokens"), OutputTokens: number("completion_tokens"),
		}
		if cached := meta.Usage.Details.Cached; cached != nil {
			c.CachedTokens, c.CachedKnown = *cached, true
		}
		rows[session] = append(rows[session], c)
	}
	return rows
}

func unzstd(t testing.TB, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	text, err := io.ReadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// BenchmarkPlaceCalls is what one page of rows costs.
func BenchmarkPlaceCalls(b *testing.B) {
	e, err := New(Options{Pools: []PoolConfig{{Name: "agents", GatewayModels: []string{"agents"}}}})
	if err != nil {
		b.Fatal(err)
	}
	calls := make([]collector.Call, 5000)
	start := 0.0
	b.ReportAllocs()
	for b.Loop() {
		for i := range calls {
			start += 0.01
			calls[i] = made(uint64(i%500+1), start, 1, 100, 50)
		}
		at := callsAt.Add(time.Duration(start*float64(time.Second)) + 2*settled)
		e.ObserveCalls(&collector.CallRound{Source: "log", Time: at, State: collector.StateUp, Calls: calls})
		if err := e.Eval(b.Context(), at); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(calls)), "ns/call")
}
