package rules

import (
	"kvwatch/collector"
	"kvwatch/rules/sizing"
)

// Observe takes one page instead of reading it from history: what replays a
// history anyway measures it on the way. Pages come in the order of time, and a
// Measurer is fed either so or by Read. A slot is measured once a page comes that
// was scraped after its end; Finish measures the last. Sessions are not on pages:
// ObserveSessions has them.
func (m *Measurer) Observe(r *collector.Round) {
	if m.upTo.IsZero() {
		m.upTo = r.Time.Truncate(sizing.SlotLength)
	}
	for end := m.upTo.Add(sizing.SlotLength); r.Time.After(end); end = m.upTo.Add(sizing.SlotLength) {
		m.measure(end, m.quiet)
		clear(m.quiet)
		m.upTo = end
	}
	t := m.engine.addTarget(r.Target)
	if at, seen := m.observed[t]; seen && r.Time.Sub(at) < measurePage-measurePage/8 {
		return
	}
	m.observed[t] = r.Time
	m.take(measuredRound{target: t, round: r})
}

// ObserveSessions takes from the engine that is given the same pages, and the log
// of calls, which sessions went quiet since it was asked last.
func (m *Measurer) ObserveSessions(e *Engine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.sessions.pools {
		now, before := quiet{float64(p.sessions), float64(p.sessionCalls)}, m.quietBefore[p.name]
		m.quietBefore[p.name] = now
		at := slotOf{p.name, m.upTo.Unix()}
		q := m.quiet[at]
		q.sessions += now.sessions - before.sessions
		q.calls += now.calls - before.calls
		m.quiet[at] = q
	}
}

// Finish measures the slot under way, of which only a part may have been seen.
func (m *Measurer) Finish() {
	if !m.upTo.IsZero() {
		m.measure(m.upTo.Add(sizing.SlotLength), m.quiet)
		clear(m.quiet)
		m.upTo = m.upTo.Add(sizing.SlotLength)
	}
}
