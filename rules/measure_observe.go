package rules

import (
	"time"

	"kvwatch/collector"
	"kvwatch/rules/sizing"
)

// Observe takes one page instead of reading it from history: what replays a
// history anyway measures it on the way. Pages come in the order of time, and a
// Measurer is fed either so or by Read. A slot is measured once a page comes that
// was scraped after its end; Finish measures the last. Sessions are not among it.
func (m *Measurer) Observe(r *collector.Round) {
	if m.upTo.IsZero() {
		m.upTo = r.Time.Truncate(sizing.SlotLength)
	}
	for end := m.upTo.Add(sizing.SlotLength); r.Time.After(end); end = m.upTo.Add(sizing.SlotLength) {
		m.measure(end, nil)
		m.upTo = end
	}
	t := m.engine.addTarget(r.Target)
	if at, seen := m.observed[t]; seen && r.Time.Sub(at) < measurePage-measurePage/8 {
		return
	}
	if m.observed == nil {
		m.observed = map[*target]time.Time{}
	}
	m.observed[t] = r.Time
	m.take(measuredRound{target: t, round: r})
}

// Finish measures the slot under way, of which only a part may have been seen.
func (m *Measurer) Finish() {
	if !m.upTo.IsZero() {
		m.measure(m.upTo.Add(sizing.SlotLength), nil)
		m.upTo = m.upTo.Add(sizing.SlotLength)
	}
}
