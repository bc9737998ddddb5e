package fleet

import "time"

// Scenario is something that happens to a fleet, with the labels that a
// detector's findings are held against.
type Scenario struct {
	Name, Description string
	// Onset is when it begins; End is when its cause ends, 0 for never. A
	// scenario without an incident has neither.
	Onset, End time.Duration
	// Cause is one of those of a backtest: restart, residency, replica, routing, content; empty for none.
	Cause string
	// Affected are the engines that it begins at; empty means all.
	Affected []int
}

// Scenarios lists all scenarios in the order in which they are documented.
func Scenarios() []Scenario { return nil }
