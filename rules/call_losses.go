package rules

import (
	"encoding/json"
	"fmt"
	"time"
)

const (
	// lossKappa is the multiple of the usual loss that is tolerated, and
	// lossFloor the least that is usual, as a share of the prompted tokens.
	lossKappa = 1.5
	lossFloor = 0.01
	// lossCap bounds the sum, as a multiple of what fires, so that an incident of
	// hours ends as soon as one of minutes.
	lossCap = 2
	// callsIdle is how long no call may end until nothing can be told.
	callsIdle = time.Hour
	// mostReplicas bounds how many replicas are told apart.
	mostReplicas = 64
)

// callLosses is D7 of one cause and one pool: a CUSUM of the tokens that calls
// lost for that cause beyond the usual, in heavy prompts (DETECTORS section 7).
type callLosses struct {
	// fire and resolve are sums in heavy prompts, recovery is the prompted tokens
	// that a recovery is judged on, in heavy prompts too.
	fire, resolve, recovery float64
	scale                   float64
	// resumed is the cursor as it was loaded: what ended before it was counted
	// before the restart, and is read again.
	resumed int64
	lossState
}

// lossState is the part of it that survives a restart. Times are Unix milliseconds.
type lossState struct {
	// S is the sum in heavy prompts: S + (lost - 1.5 max(0.01, usual) prompt) / P
	// after each call, never below 0.
	S        float64  `json:"s"`
	Baseline baseline `json:"baseline"`
	// Cursor is when the newest call ended that was counted.
	Cursor int64 `json:"cursor"`
	// LastLoss is when a call last lost anything.
	LastLoss int64 `json:"last_loss,omitempty"`
	// Recovery are the newest stretches of calls: an incident is over when they
	// lose no more than usual, however large S became.
	Recovery recovery `json:"recovery"`
	lossOnset
	// Accepted is when an operator last took what there is for normal.
	Accepted int64 `json:"accepted,omitempty"`
}

// lossOnset is what happened since S left 0: when that was, tokens, calls, those
// of them that lost something, and the lost tokens of each replica.
type lossOnset struct {
	Onset    int64              `json:"onset,omitempty"`
	Lost     float64            `json:"lost,omitempty"`
	Prompted float64            `json:"prompted,omitempty"`
	Calls    int                `json:"calls,omitempty"`
	Losing   int                `json:"losing,omitempty"`
	Replicas map[string]float64 `json:"replicas,omitempty"`
}

// newCallLosses takes the settings that the causes have in common.
func newCallLosses(s *settings) callLosses {
	return callLosses{fire: s.number("threshold_prompts"), resolve: s.number("resolve_prompts"), recovery: s.number("recovery_prompts"), scale: s.timeScale}
}

// lossSettings are the settings of one cause.
func lossSettings(fire, resolve float64) []Setting {
	return []Setting{
		{Name: "threshold_prompts", Default: fire, Positive: true, Help: "tokens lost beyond the usual that fire, in heavy prompts"},
		{Name: "resolve_prompts", Default: resolve, Positive: true, Help: "the same below which it ends"},
		{Name: "recovery_prompts", Default: 96.0, Positive: true, Help: "prompted tokens, in heavy prompts, over which (and over 15 minutes) calls must lose no more than usual: it ends then too"},
	}
}

// usual is the usual loss as a share of the prompted tokens.
func (l *callLosses) usual() float64 { return max(lossFloor, l.Baseline.median()) }

// frozen says that what is going on must not become the usual.
func (l *callLosses) frozen(firing bool) bool { return firing || l.S > l.fire/2 }

// take counts a call that lost so many tokens for the cause; heavy is P, 0
// while it is not known.
func (l *callLosses) take(c *placedCall, lost, heavy float64, firing bool) {
	covered := 0.0
	if l.Cursor > 0 {
		covered = float64(min(max(c.end-l.Cursor, 0), gapMax)) / 1000
	}
	l.Cursor = max(l.Cursor, c.end)
	l.Recovery.add(c.end, lost, c.prompt, covered, l.recovery*heavy, l.scale)
	if l.frozen(firing) {
		l.Baseline.discard()
	} else {
		l.Baseline.add(lost, c.prompt, covered, baselineTokens*heavy, l.scale)
	}
	if heavy == 0 || !l.Baseline.valid() {
		return
	}
	s := min(max(0, l.S+(lost-lossKappa*l.usual()*c.prompt)/heavy), lossCap*l.fire)
	if s == 0 {
		l.S, l.lossOnset = 0, lossOnset{}
		return
	}
	if l.S == 0 {
		l.lossOnset = lossOnset{Onset: c.end, Replicas: map[string]float64{}}
	}
	l.S = s
	l.since(c, lost)
}

// since adds a call to what happened since the onset.
func (l *callLosses) since(c *placedCall, lost float64) {
	l.Calls++
	l.Prompted += c.prompt
	l.Lost += lost
	if lost > 0 {
		l.Losing++
		l.LastLoss = max(l.LastLoss, c.end)
	}
	if _, known := l.Replicas[c.replica]; known || len(l.Replicas) < mostReplicas {
		l.Replicas[c.replica] += lost
	}
}

// forget begins to count anew.
func (l *callLosses) forget() { l.S, l.lossOnset, l.Recovery = 0, lossOnset{}, recovery{} }

// refresh takes up what an operator accepted, and ends what fires for so long
// that it is the normal; it says whether all is learned anew.
func (l *callLosses) refresh(w PoolWindow, firing time.Time) bool {
	accepted := w.pool.excess.acceptedAt
	if accepted <= l.Accepted && (firing.IsZero() || w.now.Sub(firing) < scaled(newNormal, l.scale)) {
		return false
	}
	l.Accepted = max(l.Accepted, accepted)
	l.forget()
	l.Baseline = baseline{}
	return true
}

// holds says whether the alert's condition holds; heavy is P.
func (l *callLosses) holds(firing time.Time, heavy float64) bool {
	switch {
	case firing.IsZero():
		return l.S >= l.fire
	case l.Recovery.recovered(firing.UnixMilli(), l.usual(), l.recovery*heavy, l.scale):
		l.forget()
		return false
	default:
		return l.S >= l.resolve
	}
}

// unready says why nothing can be told, "" where it can.
func (l *callLosses) unready(w PoolWindow, p *poolCalls) (phase, text string) {
	idle := scaled(callsIdle, l.scale)
	switch calls, _ := p.long.total(); {
	case p.gated():
		return PhaseUnknown, p.reasonGated()
	case calls.calls > 0 && calls.reported == 0:
		return PhaseUnknown, reasonUnreported
	case l.Cursor == 0 || w.ms-l.Cursor > (idle+settled).Milliseconds():
		return PhaseUnknown, "no call of a session ended within " + spell(idle)
	case w.callPrompt(p) == 0:
		return PhaseLearning, fmt.Sprintf("learning, %g of %d calls", p.heavy.Calls, heavyCalls)
	case !l.Baseline.valid():
		return PhaseLearning, fmt.Sprintf("learning, %d of %d hours", len(l.Baseline.Entries), baselineValid)
	default:
		return "", ""
	}
}

// figures are the numbers of a verdict.
func (l *callLosses) figures() []Number {
	return []Number{
		{Name: "lost_prompts", Value: l.S, Unit: "prompts"},
		{Name: "threshold_prompts", Value: l.fire, Unit: "prompts"},
		{Name: "usual_loss", Value: l.usual(), Unit: "ratio"},
		{Name: "lost", Value: l.Lost, Unit: "tokens"},
		{Name: "prompted", Value: l.Prompted, Unit: "tokens"},
		{Name: "losing_calls", Value: float64(l.Losing), Unit: "calls"},
		{Name: "calls", Value: float64(l.Calls), Unit: "calls"},
	}
}

// against says what is held against what.
func (l *callLosses) against(heavy float64) string {
	return fmt.Sprintf("Usual are %s of the prompted tokens, the median of %s of calls (at least %s); fires at %g full prompts of %s tokens beyond %g times that, ends below %g.",
		percent(l.usual()), plural(len(l.Baseline.Entries), "hour"), percent(lossFloor), l.fire, amount(heavy), lossKappa, l.resolve)
}

// cost says what the losses cost.
func (l *callLosses) cost(heavy float64) string {
	return fmt.Sprintf("%s prompt tokens were computed again, %.1f full prompts.", amount(l.Lost), l.Lost/heavy)
}

// mostly names the replica that lost over replicaShare of the tokens, where
// others served calls too; "" where none did.
func (l *callLosses) mostly() string {
	for name, lost := range l.Replicas {
		if len(l.Replicas) > 1 && lost > replicaShare*l.Lost {
			return shortID(name)
		}
	}
	return ""
}

func (l *callLosses) save() (json.RawMessage, error) {
	if l.Cursor == 0 {
		return nil, nil
	}
	return json.Marshal(l.lossState)
}

func (l *callLosses) load(raw json.RawMessage) error {
	var s lossState
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	l.resume(s)
	return nil
}

// resume goes on from what was saved.
func (l *callLosses) resume(s lossState) {
	if s.Replicas == nil {
		s.Replicas = map[string]float64{}
	}
	l.lossState, l.resumed = s, s.Cursor
}
