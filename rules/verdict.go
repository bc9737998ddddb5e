package rules

import (
	"encoding/json"
	"time"
)

// The phases of a detector.
const (
	PhaseLearning = "learning"
	PhaseWatching = "watching"
	PhasePending  = "pending"
	PhaseFiring   = "firing"
	PhaseUnknown  = "unknown"
)

// Verdict is what a detector says at one instant.
type Verdict struct {
	// Active says that the condition holds.
	Active bool
	// Since is when it began to hold; zero is now.
	Since time.Time
	// Phase is learning, watching or unknown, and Text says in plain words
	// where the detector stands, whether it is active or not.
	Phase, Text string
	// Value is the number that the condition judges.
	Value float64
	// Severity replaces the rule's, unless an override sets one; "" keeps it.
	Severity string
	// Over is one sentence that says how things are once the alert is over; ""
	// is made of Text. Only when not active, and asked for only where the alert
	// fired: detectors that are many make it only then.
	Over string
	// Summary is one sentence; Evidence says the rest. Both only when active.
	Summary  string
	Evidence Evidence
	Numbers  []Number
}

// detector judges one subject by its window, once per Eval. firing is when its
// alert fired, zero while it does not fire.
type detector[W any] interface {
	Judge(w W, firing time.Time) Verdict
}

// keeper is a detector that keeps something between two Evals; what save
// returns is given to load after a restart or a reload.
type keeper interface {
	save() (json.RawMessage, error)
	load(raw json.RawMessage) error
}

// unknown is a verdict for want of data.
func unknown(text string) Verdict { return Verdict{Phase: PhaseUnknown, Text: text} }
