package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"kvwatch/rules/sizing"
)

// journalPlans keeps what is recommended when PlanDrift fires, and what became of
// it when it fires no more. Nothing is acted on: people do, or do not.
func (e *Engine) journalPlans(now time.Time) {
	for _, p := range e.sortedPlans() {
		w := planDriftOf(p)
		if w == nil {
			continue
		}
		firing := !w.firing().IsZero()
		kind, text := EventOutcome, ""
		switch {
		case firing && !p.recommended:
			kind, text = EventRecommendation, "review it: "+changesText(bought(p.review.Drift))+" by "+assumptionNames(p.review.drifted())
		case !firing && w.Alert == nil && p.recommended && w.last.phase != PhaseUnknown:
			text = p.review.outcome(e.lastRecommendation(p.review.Plan))
		default:
			continue
		}
		event := Event{At: now, Pool: p.review.Pool, Plan: p.review.Plan, Kind: kind, Text: cut("plan " + p.review.Plan + ": " + text)}
		if kind == EventRecommendation {
			event.Planned = p.review.Planned
		}
		if err := e.journal.add(event); err != nil {
			e.logger.Error("a recommendation could not be kept", "plan", p.review.Plan, "err", err)
			continue
		}
		p.recommended = firing
	}
}

// planDriftOf finds the plan's watch over PlanDrift, nil where it is disabled.
func planDriftOf(p *plan) *watch {
	i := slices.IndexFunc(p.watches, func(w *watch) bool { return w.rule.Name == planDriftName })
	if i < 0 {
		return nil
	}
	return p.watches[i]
}

// outcome says what happened after a recommendation: whether the plan has other
// numbers now, or what was measured fits it again.
func (r PlanReview) outcome(before *Event) string {
	var parts []string
	for _, resource := range sizing.Resources() {
		has, planned := r.Planned[resource]
		if before == nil || !planned {
			continue
		}
		if had, ok := before.Planned[resource]; ok && had != has {
			parts = append(parts, fmt.Sprintf("%s %g to %g", strings.ReplaceAll(resource, "_", " "), had, has))
		}
	}
	if len(parts) > 0 {
		return "the plan was changed: " + strings.Join(parts, ", ")
	}
	return "its assumptions need no other numbers any more; the plan still has the resources that it had"
}

// lastRecommendation is the newest event of that kind about a plan, nil where
// there is none.
func (e *Engine) lastRecommendation(plan string) *Event {
	for i := len(e.journal.events) - 1; i >= 0; i-- {
		if event := &e.journal.events[i]; event.Plan == plan && event.Kind == EventRecommendation {
			return event
		}
	}
	return nil
}

// openRecommendation says whether the last word of the journal about a plan is a
// recommendation.
func (e *Engine) openRecommendation(plan string) bool {
	for _, event := range slices.Backward(e.journal.events) {
		if event.Plan == plan {
			return event.Kind == EventRecommendation
		}
	}
	return false
}

// cut shortens a text to what an event may hold.
func cut(text string) string {
	if utf8.RuneCountInString(text) <= eventText {
		return text
	}
	return string([]rune(text)[:eventText-1]) + "…"
}
