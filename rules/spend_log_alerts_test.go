package rules

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kvwatch/collector"
)

const turnBoundaryAlert = "TurnBoundaryCollapse"

// logRules are the settings with which a recording of half an hour is long
// enough for what rests on logs of calls: fifteen minutes of it hold too few turns.
func logRules() map[string]Override {
	d7 := Override{TimeScale: 0.01, Settings: map[string]any{"recovery_prompts": 32}}
	return map[string]Override{
		sessionAffinityLost: d7, promptPrefixChanged: d7,
		turnBoundaryAlert: {TimeScale: 0.01, Settings: map[string]any{"window": "400m"}},
	}
}

// TestRealSpendLogs gives the rules the rows that a real gateway wrote about
// real engines, beside their pages. Rows are told of over a minute after their
// calls, so that what collapsed late in one phase fires early in the next.
func TestRealSpendLogs(t *testing.T) {
	t.Parallel()
	file, err := collector.ReadSpendLogsFile(realRecording+"spendlogs.csv.zst", time.Time{}, callsAt.AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Rules: logRules(), Pools: []PoolConfig{{Name: "agent", ModelName: "tiny-chat", TurnGap: 4_000_000_000}}}
	all := transitionsWith(t, o, func(e *Engine, now time.Time) { e.ObserveCalls(file.Read("log", now)) })
	late := settled + 2*realTick + 10*time.Second // until a row is told of
	for _, want := range []struct {
		alert, phase string
		state        AlertState
		// after is at most so long after the phase began.
		after  time.Duration
		cause  string
		within string
	}{
		{sessionAffinityLost, "affinity_loss", StateFiring, 150 * time.Second, causeRouting, "reached another replica"},
		{sessionAffinityLost, "recover", StateResolved, 120 * time.Second, "", ""},
		{turnBoundaryAlert, "calm", StateFiring, late, causeResidency, "began a turn"},
		{turnBoundaryAlert, "kv_pressure", StateResolved, 150 * time.Second, "", ""},
		{promptPrefixChanged, "broken_prefix", StateFiring, 180 * time.Second, causeContent, "832 tokens that a session's first call finds"},
		{promptPrefixChanged, "recover2", StateResolved, 120 * time.Second, "", ""},
	} {
		tr, ok := find(all, want.alert, want.phase, want.state)
		switch {
		case !ok || tr.after > want.after:
			t.Errorf("%s in %s is %s after %s (%t), want within %s", want.alert, want.phase, want.state, tr.after, ok, want.after)
		case want.state == StateFiring && (tr.a.Evidence.Cause != want.cause || !strings.Contains(tr.a.Evidence.Seen, want.within)):
			t.Errorf("%s: cause %q, %s", want.alert, tr.a.Evidence.Cause, tr.a.Evidence.Seen)
		}
	}
	// The collapse of working_set is told in calm, since calls count a minute after
	// their end: those that it is told of had all ended before.
	phases := readLines[phase](t, "phases.jsonl")
	workingSet := slices.IndexFunc(phases, func(p phase) bool { return p.Phase == "working_set" })
	if tr, _ := find(all, turnBoundaryAlert, "calm", StateFiring); tr.a.FiredAt.Add(-settled).After(phases[workingSet+1].at()) {
		t.Errorf("%s is told at %s of calls that ended after working_set", turnBoundaryAlert, tr.a.FiredAt)
	}
	allowed := map[string]string{sessionAffinityLost: "affinity_loss", turnBoundaryAlert: "calm", promptPrefixChanged: "broken_prefix"}
	for _, tr := range all {
		if phase, ok := allowed[tr.alert]; ok && tr.state == StateFiring {
			if phase != tr.phase {
				t.Errorf("%s fires in %s: %s", tr.alert, tr.phase, tr.a.Annotations["description"])
			}
			checkLogEvidence(t, tr.a)
		}
	}
}

// checkLogEvidence holds an alert from logs to what each must tell, and to what
// none may.
func checkLogEvidence(t *testing.T, a Alert) {
	t.Helper()
	e := a.Evidence
	for what, text := range map[string]string{
		"seen": e.Seen, "against": e.Against, "cause": e.Cause, "cause text": e.CauseText, "cost": e.Cost, "next": e.Next, "confidence": e.Confidence,
		"summary": a.Annotations["summary"],
	} {
		if text == "" {
			t.Errorf("%s tells no %s", a.Name, what)
		}
	}
	if !regexp.MustCompile(`\d+ calls|\d+ of \d+ calls`).MatchString(e.Seen) || !strings.Contains(e.Against, "Usual are ") || len(e.Numbers) < 6 {
		t.Errorf("%s lacks numbers: %s %s", a.Name, e.Seen, e.Against)
	}
	if id := regexp.MustCompile(`\bs-[0-9a-f]{6}|chatcmpl|user`).FindString(a.Annotations["summary"] + a.Annotations["description"]); id != "" {
		t.Errorf("%s names %s", a.Name, id)
	}
}

// talk is one session of a talkFleet.
type talk struct {
	id     uint64
	next   time.Time
	calls  int
	said   int64
	served string
}

// talkFleet is a fleet whose gateway logs sessions: eight at a time, each with
// turns of five calls, whose prompts grow from 12 000 tokens.
type talkFleet struct {
	*fleet
	talks []*talk
	begun uint64
	// rows are all that the log holds.
	rows []collector.Call
	// route says which replica serves a call; nil keeps a session where it was.
	route func(s *talk) string
	// found is what a call finds in the cache of what it could.
	found func(s *talk, could int64) int64
	// single makes each session end after its first call, as where the gateway
	// invents a session for each call.
	single bool
}

const (
	talkShared = 5000
	talkOutput = 200
	talkTurn   = 5
	talkCalls  = 60
)

func newTalkFleet(t *testing.T, o Options) *talkFleet {
	t.Helper()
	f := &talkFleet{fleet: newFleet(t, 2, o)}
	for i := range 8 {
		f.talks = append(f.talks, f.begin(f.now.Add(time.Duration(i)*5*time.Second)))
		f.talks[i].calls = i * 7 % talkCalls
	}
	return f
}

// fastLogs makes D7 twenty times as fast: an hour of its baseline is 3 minutes;
// and what turns usually find is that of 2.4 hours, in windows of 15 minutes.
func fastLogs() Options {
	d7 := Override{TimeScale: 0.05, Settings: map[string]any{"recovery_prompts": 16}}
	turns := Override{TimeScale: 0.1, Settings: map[string]any{"window": "150m"}}
	return Options{Rules: map[string]Override{sessionAffinityLost: d7, promptPrefixChanged: d7, turnBoundaryAlert: turns}}
}

func (f *talkFleet) begin(at time.Time) *talk {
	f.begun++
	return &talk{id: f.begun, next: at, served: []string{"a", "b"}[f.begun%2]}
}

// talk lets so much time pass in which sessions go on.
func (f *talkFleet) talk(d time.Duration) {
	f.t.Helper()
	for end := f.now.Add(d); f.now.Before(end); {
		f.run(step)
		var calls []collector.Call
		for i := range f.talks {
			for !f.talks[i].next.Add(2 * time.Second).After(f.now) {
				calls = append(calls, f.call(f.talks[i]))
				if f.talks[i].calls >= talkCalls || f.single {
					f.talks[i] = f.begin(f.talks[i].next)
				}
			}
		}
		f.rows = append(f.rows, calls...)
		f.read(calls)
	}
}

func (f *talkFleet) read(calls []collector.Call) {
	f.engine.ObserveCalls(&collector.CallRound{Source: "log", Time: f.now, From: testStart.Add(-time.Hour), State: collector.StateUp, Calls: calls})
}

func (f *talkFleet) call(s *talk) collector.Call {
	served := s.served
	if f.route != nil {
		served = f.route(s)
	}
	prompt, could := max(s.said+500, 12_000), s.said
	if s.said == 0 || served != s.served {
		could = talkShared
	}
	if f.found != nil {
		could = f.found(s, could)
	}
	c := collector.Call{
		Session: s.id, Start: s.next, FirstToken: s.next.Add(time.Second), End: s.next.Add(2 * time.Second), Model: "hosted_vllm/m", ModelGroup: "agents",
		Deployment: served, PromptTokens: prompt, OutputTokens: talkOutput, CachedTokens: max(could, 0), CachedKnown: could >= 0,
	}
	s.served, s.said = served, prompt+talkOutput
	pause := 10 * time.Second
	if s.calls++; s.calls%talkTurn == 0 {
		pause = time.Minute
	}
	s.next = c.End.Add(pause)
	return c
}

// onlyFired fails where another alert from logs than these fired.
func (f *talkFleet) onlyFired(names ...string) {
	f.t.Helper()
	for _, a := range f.fired {
		for _, name := range []string{sessionAffinityLost, promptPrefixChanged, turnBoundaryAlert} {
			if a.Name == name && !strings.Contains(strings.Join(names, " "), name) {
				f.t.Errorf("%s fires: %s", a.Name, a.Annotations["description"])
			}
		}
	}
	f.fired = nil
}

func TestSessionsLoseTheirReplica(t *testing.T) {
	t.Parallel()
	f := newTalkFleet(t, fastLogs())
	f.talk(time.Hour)
	f.onlyFired()
	f.route = func(s *talk) string { return []string{"a", "b"}[s.calls%2] }
	onset := f.now
	f.talk(3 * time.Minute)
	a := f.lastFired(sessionAffinityLost)
	if took := a.FiredAt.Sub(onset); took > 2*time.Minute || a.Severity != SeverityWarning || a.Evidence.Cause != causeRouting {
		t.Errorf("after %s, %s: %+v", took, a.Severity, a.Evidence)
	}
	if early := a.ActiveAt.Sub(onset); early < 0 || early > 30*time.Second {
		t.Errorf("the onset is told as %s after it", early)
	}
	checkLogEvidence(t, a)
	f.onlyFired(sessionAffinityLost)
	f.route = nil
	f.talk(10 * time.Minute)
	if s := f.resolved(sessionAffinityLost); len(s) != 1 || f.firing(sessionAffinityLost) {
		t.Errorf("resolved as %q", s)
	}
	f.onlyFired()
}

// TestMovesAfterAKnownChange are information, unless they go on.
func TestMovesAfterAKnownChange(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f *talkFleet){
		"an engine began again": func(f *talkFleet) { f.pages[0].restart() },
		"a deploy": func(f *talkFleet) {
			if err := f.engine.Mark(Event{Kind: EventDeploy, Text: "v2"}, f.now); err != nil {
				t.Error(err)
			}
		},
		"an engine is away": func(f *talkFleet) {
			for range 8 {
				f.now = f.now.Add(step)
				for i, p := range f.pages {
					r := p.round(f.now)
					if i == 0 {
						r = p.down(f.now)
					}
					f.engine.Observe(&r)
				}
				f.eval()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := fastLogs()
			d7 := o.Rules[sessionAffinityLost]
			d7.TimeScale = 0.1 // half an hour is 3 minutes
			o.Rules[sessionAffinityLost] = d7
			f := newTalkFleet(t, o)
			f.talk(90 * time.Minute)
			change(f)
			f.route = func(s *talk) string { return []string{"a", "b"}[s.calls%2] }
			f.talk(150 * time.Second)
			if a := f.lastFired(sessionAffinityLost); a.Severity != SeverityInfo || !strings.Contains(a.Evidence.CauseText, "It becomes a warning") {
				t.Errorf("soon after it: %s, %s", a.Severity, a.Evidence.CauseText)
			}
			f.talk(5 * time.Minute)
			if a := f.lastFired(sessionAffinityLost); a.Severity != SeverityWarning {
				t.Errorf("%s later: %s", f.now.Sub(a.ActiveAt), a.Severity)
			}
		})
	}
}

// TestOneLostPageIsNoKnownChange: pages get lost, sessions do not move for it.
func TestOneLostPageIsNoKnownChange(t *testing.T) {
	t.Parallel()
	f := newTalkFleet(t, fastLogs())
	f.talk(time.Hour)
	r := f.pages[0].down(f.now.Add(time.Second))
	f.engine.Observe(&r)
	f.route = func(s *talk) string { return []string{"a", "b"}[s.calls%2] }
	f.talk(3 * time.Minute)
	if a := f.lastFired(sessionAffinityLost); a.Severity != SeverityWarning {
		t.Errorf("%s: %s", a.Severity, a.Evidence.CauseText)
	}
}

func TestPromptPrefixChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		found func(s *talk, could int64) int64
		cause string
	}{
		"every prompt begins with a new date": {func(*talk, int64) int64 { return 0 }, causeContent},
		"one replica's cache is off": {func(s *talk, could int64) int64 {
			if s.served == "a" {
				return 0
			}
			return could
		}, causeReplica},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTalkFleet(t, fastLogs())
			f.talk(time.Hour)
			f.onlyFired()
			f.found = c.found
			f.talk(10 * time.Minute)
			a := f.lastFired(promptPrefixChanged)
			if a.Evidence.Cause != c.cause || !strings.Contains(a.Evidence.Seen, "the 5k tokens that a session's first call finds") {
				t.Errorf("cause %q: %s", a.Evidence.Cause, a.Evidence.Seen)
			}
			checkLogEvidence(t, a)
			f.onlyFired(promptPrefixChanged)
			// What first calls find now must not become what they usually find.
			f.talk(30 * time.Minute)
			if !f.firing(promptPrefixChanged) {
				t.Error("it is over while it goes on")
			}
			f.found = nil
			f.talk(10 * time.Minute)
			if f.firing(promptPrefixChanged) || f.firing(sessionAffinityLost) {
				t.Error("it is not over")
			}
		})
	}
}

// TestPromptsThatNeverBeganAlike have no shared beginning to lose.
func TestPromptsThatNeverBeganAlike(t *testing.T) {
	t.Parallel()
	for reason, found := range map[string]func(s *talk, could int64) int64{
		"there is no shared beginning to lose": func(s *talk, could int64) int64 {
			if s.said == 0 {
				return 0
			}
			return could
		},
		"the prompts never begin alike": func(s *talk, could int64) int64 {
			if s.said > 0 && s.calls%2 == 0 {
				return 0
			}
			return could
		},
	} {
		f := newTalkFleet(t, fastLogs())
		f.found = found
		f.talk(time.Hour)
		if d := f.detector(promptPrefixChanged); d.Phase != PhaseUnknown || !strings.Contains(d.Text, reason) {
			t.Errorf("%s: %s", d.Phase, d.Text)
		}
		f.onlyFired()
	}
}

func TestTurnBoundaryCollapseIsMeasured(t *testing.T) {
	t.Parallel()
	half := func(s *talk, could int64) int64 {
		if s.calls > 0 && s.calls%talkTurn == 0 {
			return could / 2
		}
		return could
	}
	for name, c := range map[string]struct {
		usual, found func(s *talk, could int64) int64
		route        func(s *talk) string
		cause        string
	}{
		"turns that find half begin elsewhere, too": {usual: half, found: half, route: func(s *talk) string {
			if s.calls > 0 && s.calls%(3*talkTurn) == 0 {
				return map[string]string{"a": "b", "b": "a"}[s.served]
			}
			return s.served
		}, cause: causeRouting},
		"the cache forgets pauses": {found: func(s *talk, could int64) int64 {
			if s.calls > 0 && s.calls%talkTurn == 0 {
				return max(talkShared, could/3)
			}
			return could
		}, cause: causeResidency},
		"turns begin elsewhere": {route: func(s *talk) string {
			if s.calls > 0 && s.calls%talkTurn == 0 {
				return map[string]string{"a": "b", "b": "a"}[s.served]
			}
			return s.served
		}, cause: causeRouting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTalkFleet(t, fastLogs())
			f.found = c.usual
			f.talk(100 * time.Minute)
			f.onlyFired()
			f.found, f.route = c.found, c.route
			f.talk(20 * time.Minute)
			a := f.lastFired(turnBoundaryAlert)
			if a.Severity != SeverityWarning || a.Evidence.Cause != c.cause || !strings.Contains(a.Evidence.Seen, "began a turn (after a pause of over ") {
				t.Errorf("%s, %q: %s", a.Severity, a.Evidence.Cause, a.Annotations["description"])
			}
			checkLogEvidence(t, a)
			// What turns find now must not become the usual.
			if f.talk(40 * time.Minute); !f.firing(turnBoundaryAlert) {
				t.Errorf("it is over while it goes on: %s", f.detector(turnBoundaryAlert).Text)
			}
			f.found, f.route = c.usual, nil
			for range 20 {
				if f.firing(turnBoundaryAlert) {
					f.talk(time.Minute)
				}
			}
			if s := f.resolved(turnBoundaryAlert); len(s) == 0 || f.firing(turnBoundaryAlert) || !strings.HasPrefix(s[0], "Pool vllm/m: calls that begin a turn find ") {
				t.Errorf("resolved as %q", s)
			}
		})
	}
}

// TestDailyPeaksAreUsual: what turns find follows the load.
func TestDailyPeaksAreUsual(t *testing.T) {
	t.Parallel()
	// A day is six hours, with a peak in each.
	f := newTalkFleet(t, Options{Rules: map[string]Override{turnBoundaryAlert: {TimeScale: 0.25, Settings: map[string]any{"window": "60m"}}}})
	peak := func(share int64) func(s *talk, could int64) int64 {
		return func(s *talk, could int64) int64 {
			if minute := int(f.now.Sub(testStart).Minutes()); minute >= 60 && minute%60 < 15 && s.calls > 0 && s.calls%talkTurn == 0 {
				return could * share / 100
			}
			return could
		}
	}
	f.found = peak(60)
	f.talk(4 * time.Hour)
	if d := f.detector(turnBoundaryAlert); d.Phase != PhaseWatching {
		t.Errorf("%s: %s", d.Phase, d.Text)
	}
	f.onlyFired()
	f.found = peak(30)
	f.talk(30 * time.Minute)
	f.lastFired(turnBoundaryAlert)
}

// TestLogAlertsAreUnknownWithTheReason where logs cannot tell.
func TestLogAlertsAreUnknownWithTheReason(t *testing.T) {
	t.Parallel()
	all := []string{sessionAffinityLost, promptPrefixChanged}
	for name, c := range map[string]struct {
		play   func(f *talkFleet)
		alerts []string
		phase  string
		reason string
	}{
		"no log": {func(f *talkFleet) { f.run(10 * time.Minute) }, all, PhaseUnknown, "spend_logs is not configured"},
		"sessions are invented": {func(f *talkFleet) {
			f.single = true
			f.talk(20 * time.Minute)
		}, all, PhaseUnknown, "clients should send x-litellm-session-id"},
		"cached tokens are not told": {func(f *talkFleet) {
			f.found = func(*talk, int64) int64 { return -1 }
			f.talk(20 * time.Minute)
		}, all, PhaseUnknown, "--enable-prompt-tokens-details"},
		"nobody calls any more": {func(f *talkFleet) {
			f.talk(time.Hour)
			for _, s := range f.talks {
				s.next = f.now.Add(24 * time.Hour)
			}
			f.talk(10 * time.Minute)
		}, all, PhaseUnknown, "no call of a session ended within 3 min"},
		"not long enough": {func(f *talkFleet) { f.talk(10 * time.Minute) }, all, PhaseLearning, "of 6 hours"},
		"few turns": {func(f *talkFleet) {
			f.talks = f.talks[:2]
			f.talk(time.Hour)
		}, []string{turnBoundaryAlert}, PhaseUnknown, "begin a turn within 15 min, 20 are needed"},
		"turns not long enough":         {func(f *talkFleet) { f.talk(30 * time.Minute) }, []string{turnBoundaryAlert}, PhaseLearning, "of 6 windows"},
		"half a day is not long enough": {func(f *talkFleet) { f.talk(70 * time.Minute) }, []string{turnBoundaryAlert}, PhaseLearning, " of 72 min"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTalkFleet(t, fastLogs())
			c.play(f)
			for _, alert := range c.alerts {
				if d := f.detector(alert); d.Phase != c.phase || !strings.Contains(d.Text, c.reason) {
					t.Errorf("%s is %s: %s", alert, d.Phase, d.Text)
				}
			}
			f.onlyFired()
		})
	}
}

// TestLogAlertsSurviveARestart: the rows of the last hours are read again, and
// nothing is counted twice or forgotten.
func TestLogAlertsSurviveARestart(t *testing.T) {
	t.Parallel()
	f := newTalkFleet(t, fastLogs())
	f.talk(100 * time.Minute)
	// Half of the sessions move, the others begin with other words.
	f.route = func(s *talk) string {
		if s.id%2 == 0 {
			return s.served
		}
		return []string{"a", "b"}[s.calls%2]
	}
	f.found = func(s *talk, could int64) int64 {
		if s.id%2 == 0 {
			return 0
		}
		return could
	}
	f.talk(15 * time.Minute)
	before := map[string]DetectorStatus{}
	names := []string{sessionAffinityLost, promptPrefixChanged, turnBoundaryAlert}
	for _, name := range names {
		before[name] = f.detector(name)
	}
	fired := len(f.fired)
	f.restart()
	f.run(step)
	f.read(f.rows)
	f.run(step)
	for _, name := range names {
		was, is := before[name], f.detector(name)
		if was.Phase == PhaseFiring && is.Phase != PhaseFiring {
			t.Errorf("%s: %s before, %s after: %s", name, was.Phase, is.Phase, is.Text)
		}
		for i, n := range was.Numbers {
			if n.Name != "calls" && n.Name != "boundaries" {
				continue
			}
			if more := is.Numbers[i].Value - n.Value; is.Numbers[i].Name != n.Name || more < -5 || more > 25 || n.Value < 40 {
				t.Errorf("%s: %g %s before, %g after", name, n.Value, n.Name, is.Numbers[i].Value)
			}
		}
	}
	if n := len(f.fired); n != fired || fired == 0 {
		t.Errorf("%d alerts fired, %d after the restart", fired, n-fired)
	}
}

// TestAcceptedLossesAreTheUsual: an operator says that sessions move here.
func TestAcceptedLossesAreTheUsual(t *testing.T) {
	t.Parallel()
	f := newTalkFleet(t, fastLogs())
	f.talk(time.Hour)
	f.route = func(s *talk) string { return []string{"a", "b"}[s.calls%2] }
	f.talk(3 * time.Minute)
	if !f.firing(sessionAffinityLost) {
		t.Fatal("it does not fire")
	}
	if err := f.engine.Accept("vllm/m", f.now); err != nil {
		t.Fatal(err)
	}
	f.fired = nil
	f.talk(time.Hour)
	d := f.detector(sessionAffinityLost)
	if f.onlyFired(); d.Phase != PhaseWatching {
		t.Errorf("%s: %s", d.Phase, d.Text)
	}
}

func TestPlacedCalls(t *testing.T) {
	t.Parallel()
	f := newCallFleet(t, PoolConfig{Name: "agents", GatewayModels: []string{"agents", "chat"}})
	elsewhere, switched := made(1, 70, 5, 30_000, 0), made(1, 190, 5, 33_000, 0)
	elsewhere.Deployment = "b"
	switched.ModelGroup, switched.Deployment = "chat", "b"
	failed := made(1, 300, 5, 0, -1)
	failed.Failed = true
	now := callsAt.Add(10 * time.Minute)
	f.engine(now, "a:8000", "m")
	f.log(now, made(1, 0, 5, 20_000, 4_000), made(1, 20, 5, 21_000, 19_000), made(1, 40, 5, 29_000, 12_000), elsewhere,
		made(1, 71, 1, 40_000, 0), switched, made(1, 230, 5, 8_000, 6_900), made(1, 260, 5, 9_000, -1), failed)
	var got []placedCall
	for c := range f.e.sessions.pools["agents"].placedAfter(callsAt.Add(10 * time.Second).UnixMilli()) {
		got = append(got, *c)
	}
	at := func(seconds int) int64 { return callsAt.Add(time.Duration(seconds) * time.Second).UnixMilli() }
	want := []placedCall{
		{end: at(25), prompt: 21_000, cached: 19_000, replica: "a"}, // 1 011 tokens: the rest of a block
		{end: at(45), prompt: 29_000, cached: 12_000, lost: 9_011, replica: "a"},
		{end: at(75), prompt: 30_000, lost: 29_011, moved: true, replica: "b"},
		{end: at(72), prompt: 40_000, replica: "a"},                                // beside the one before
		{end: at(195), prompt: 33_000, lost: 33_000, boundary: true, replica: "b"}, // another model has other replicas
		{end: at(235), prompt: 8_000, cached: 6_900, lost: 1_100, boundary: true, replica: "a"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(placedCall{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	f.eval(now)
	for range f.e.sessions.pools["agents"].placedAfter(0) {
		t.Error("calls that were judged are kept")
		break
	}
}
