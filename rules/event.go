package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The kinds of an event.
const (
	EventDeploy      = "deploy"
	EventMaintenance = "maintenance"
	EventNote        = "note"
	// EventAccept is written by Accept alone.
	EventAccept = "accept"
	// EventRecommendation is what kvwatch advises about a sizing plan, EventOutcome
	// what became of it; it writes both itself.
	EventRecommendation = "recommendation"
	EventOutcome        = "outcome"
)

const (
	// eventText is how many characters a text may have: it is quoted in messages.
	eventText = 300
	// eventLength is the longest time that an event may last.
	eventLength = 30 * 24 * time.Hour
	// quoteWithin is how long before an alert's onset an event is quoted in it.
	quoteWithin = 30 * time.Minute
	// quoteMost is how many events an alert quotes, the newest.
	quoteMost = 3
)

// Event is what an operator told of, or did to, a pool, or what kvwatch advised:
// it is kept in the journal and drawn; those of operators are quoted in alerts. It
// never silences.
type Event struct {
	At time.Time `json:"at"`
	// Pool is the pool's name; "" is all of them.
	Pool string `json:"pool,omitempty"`
	// Plan is the sizing plan that a recommendation or its outcome is about.
	Plan string `json:"plan,omitempty"`
	// Planned is what that plan had when something was recommended, by resource.
	Planned map[string]float64 `json:"planned,omitempty"`
	// Kind is deploy, maintenance, note, accept, recommendation or outcome.
	Kind string `json:"kind"`
	// Text is one line in the operator's words.
	Text string `json:"text,omitempty"`
	// Until is when it ends; zero is at once.
	Until time.Time `json:"until,omitzero"`
}

// Check says what is wrong with an event that somebody sent.
func (e Event) Check() error {
	switch e.Kind {
	case EventDeploy, EventMaintenance, EventNote:
	default:
		return fmt.Errorf("kind is %q: it is %s, %s or %s", e.Kind, EventDeploy, EventMaintenance, EventNote)
	}
	switch {
	case e.Kind == EventNote && e.Text == "":
		return fmt.Errorf("text is empty: a %s says something", EventNote)
	case !utf8.ValidString(e.Text) || strings.ContainsFunc(e.Text, unicode.IsControl):
		return fmt.Errorf("text must be one line of plain text")
	case utf8.RuneCountInString(e.Text) > eventText:
		return fmt.Errorf("text has %d characters: at most %d, it is quoted in messages", utf8.RuneCountInString(e.Text), eventText)
	case !e.Until.IsZero() && !e.Until.After(e.At):
		return fmt.Errorf("until is %s: it must be after now", e.Until.Format(time.RFC3339))
	case !e.Until.IsZero() && e.Until.Sub(e.At) > eventLength:
		return fmt.Errorf("until is %s: at most 30 days ahead", e.Until.Format(time.RFC3339))
	}
	return nil
}

// about says whether the event speaks of the pool.
func (e Event) about(pool string) bool { return e.Pool == "" || e.Pool == pool }

// end is when it is over.
func (e Event) end() time.Time {
	if e.Until.After(e.At) {
		return e.Until
	}
	return e.At
}

// quote is the event as an alert quotes it.
func (e Event) quote() string {
	text := fmt.Sprintf("%s %s", clock(e.At), e.Kind)
	if !e.Until.IsZero() {
		text += " until " + clock(e.Until)
	}
	if e.Kind == EventAccept {
		return text + " of the cache's behaviour as normal"
	}
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// quotes are the events that an alert of the pool quotes: those from half an
// hour before its onset on, and those that last into it. Oldest first.
func quotes(events []Event, pool string, onset, now time.Time) []string {
	var quoted []string
	oldest := onset.Add(-quoteWithin)
	for _, e := range slices.Backward(events) {
		if len(quoted) == quoteMost || e.At.Before(oldest.Add(-eventLength)) { // what is older is over
			break
		}
		if e.Plan == "" && e.about(pool) && !e.At.After(now) && !e.end().Before(oldest) {
			quoted = append(quoted, e.quote())
		}
	}
	slices.Reverse(quoted)
	return quoted
}
