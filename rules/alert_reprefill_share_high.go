package rules

import (
	"fmt"
	"strings"
	"time"
)

const reprefillShareHigh = "ReprefillShareHigh"

func init() {
	alert(Alerting{
		Name:     reprefillShareHigh,
		Help:     "Of a pool's calls with a long prompt more than usual compute it again, by 45 calls beyond 1.5 times their usual share.",
		Severity: SeverityWarning,
		Settings: []Setting{
			{Name: "kappa", Default: 1.5, Positive: true, Help: "multiple of the usual share that is tolerated"},
			{Name: "threshold_calls", Default: 45.0, Positive: true, Help: "excess that fires, in calls"},
			{Name: "resolve_calls", Default: 22.0, Positive: true, Help: "excess below which it ends, after 5 minutes, in calls"},
		},
		Pool: func(*settings) detector[PoolWindow] { return shareDetector{} },
	})
}

// shareDetector is D1r; the pool's reprefillShare does the work.
type shareDetector struct{}

// Judge implements detector.
func (d shareDetector) Judge(w PoolWindow, firing time.Time) Verdict {
	s := w.pool.share
	if w.Fresh() == 0 {
		return unknown(reasonNobodyRead)
	}
	if offered(w, sourceHistograms) == 0 {
		return unknown(reasonNoShare)
	}
	v := Verdict{Active: s.judge(w.now, firing), Value: s.Level.S, Numbers: s.numbers(w)}
	v.Phase, v.Text = s.standing(w)
	if !v.Active {
		v.Over = fmt.Sprintf("Pool %s no longer computes more long prompts again than usual: %s", w.pool.name, s.recentText(w))
		return v
	}
	v.Since = time.UnixMilli(s.Level.Onset).UTC()
	d.tell(w, &v)
	return v
}

const reasonNoShare = "no engine has both histograms, of prompt tokens and of computed ones (vLLM 0.13 and later)"

// standing says in plain words where the detector stands.
func (s *reprefillShare) standing(w PoolWindow) (phase, text string) {
	switch {
	case s.PromptBound == 0:
		return PhaseLearning, w.pool.excess.learningPrompts()
	case !s.Baseline.valid():
		return PhaseLearning, fmt.Sprintf("learning, %d of %d hours", len(s.Baseline.Entries), baselineValid)
	default:
		return PhaseWatching, fmt.Sprintf("excess %.1f of %g calls; usual share %.2f", s.Level.S, s.conf.threshold, s.Baseline.usual())
	}
}

// told is the share of the shortest window that holds enough calls.
func (s *reprefillShare) told(w PoolWindow) (ratio, calls float64, d time.Duration, ok bool) {
	if ratio, calls, ok = s.share(w.ms, shareWindow); ok {
		return ratio, calls, shareWindow, true
	}
	ratio, calls, ok = s.share(w.ms, shareLong)
	return ratio, calls, shareLong, ok
}

// recentText says the share of now against the usual one.
func (s *reprefillShare) recentText(w PoolWindow) string {
	ratio, _, d, ok := s.told(w)
	text := fmt.Sprintf("fewer than %d calls with a long prompt within %s", shareEvidence, spell(shareLong))
	if ok {
		text = fmt.Sprintf("re-prefill share %.2f over %s", ratio, spell(d))
	}
	if s.Baseline.valid() {
		text += fmt.Sprintf(", usual %.2f", s.Baseline.usual())
	}
	return text
}

func (s *reprefillShare) numbers(w PoolWindow) []Number {
	ns := []Number{{Name: "baseline_entries", Value: float64(len(s.Baseline.Entries)), Unit: "hours"}}
	if s.PromptBound > 0 {
		ns = append(ns, Number{Name: "long_prompt", Value: s.PromptBound, Unit: "tokens"}, Number{Name: "computed_again", Value: s.ComputedBound, Unit: "tokens"})
	}
	if ratio, calls, _, ok := s.told(w); ok {
		ns = append(ns, Number{Name: "reprefill_share", Value: ratio, Unit: "ratio"}, Number{Name: "long_calls", Value: calls, Unit: "requests"})
	}
	if s.Baseline.valid() {
		ns = append(ns, Number{Name: "usual_share", Value: s.Baseline.usual(), Unit: "ratio"},
			Number{Name: "excess", Value: s.Level.S, Unit: "calls"}, Number{Name: "threshold", Value: s.conf.threshold, Unit: "calls"})
	}
	return ns
}

func (d shareDetector) tell(w PoolWindow, v *Verdict) {
	s, c := w.pool.share, w.pool.excess
	l, usual := &s.Level, s.Baseline.usual()
	if l.Cause == nil {
		cause := c.cause(w, levelWarn, l.Onset)
		l.Cause = &cause
	}
	v.Summary = fmt.Sprintf("Pool %s computes more of its long prompts again than usual: %s", w.pool.name, s.recentText(w))
	since := w.now.Sub(v.Since)
	seen := []string{fmt.Sprintf("Since %s (%s) %s of %s with a prompt over %s tokens computed over %s of them again; %g times the usual would be %s.",
		clock(v.Since), spell(since), amount(s.Again), plural(int(s.Long), "call"), amount(s.PromptBound), amount(s.ComputedBound),
		s.conf.kappa, amount(s.conf.kappa*usual*s.Long))}
	if ratio, calls, span, ok := s.told(w); ok {
		seen = append(seen, fmt.Sprintf("Re-prefill share over %s: %.2f of %s, usual %.2f.", spell(span), ratio, plural(int(calls), "call"), usual))
	}
	v.Evidence = Evidence{
		Seen: strings.Join(seen, " "),
		Against: fmt.Sprintf("Usual share %.2f, the median of %s of traffic with at least %d such calls each; fires at %g calls in excess of %g times that.",
			usual, plural(len(s.Baseline.Entries), "hour"), shareCalls, s.conf.threshold, s.conf.kappa),
		Cause: l.Cause.Name, CauseText: l.Cause.Text, RunnersUp: l.Cause.RunnersUp,
		Cost: c.cost(w, c.beyondUsual(w, min(since, longWindow))), Next: nextSteps(l.Cause.Name),
		Confidence: confidence(s.Long), Numbers: v.Numbers,
	}
}
