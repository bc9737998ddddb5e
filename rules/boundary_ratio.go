package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

const (
	// boundarySlots is how many slots of time the window is counted by.
	boundarySlots = 15
	// boundaryNotes is how many notes of the ratio the window has,
	// leastBoundaryNotes how many the usual ratio needs, and boundaryLearned how
	// long ago the oldest must be: the peaks of a day are among them then.
	boundaryNotes      = 3
	leastBoundaryNotes = 6
	boundaryLearned    = 12 * time.Hour
	// boundaryKept is the time of which the usual ratio is told, and
	// boundaryUsual the share of its windows that found less: what turns find
	// follows the load through the day, and against the median of a day every
	// peak is a collapse (2.4 a day in a healthy fleet, none against this).
	boundaryKept  = 24 * time.Hour
	boundaryUsual = 0.1
)

// boundaryRatio is the hit ratio of the calls that begin a turn, over a window,
// and what it usually is.
type boundaryRatio struct {
	window, kept time.Duration
	scale        float64
	// least is how many boundaries a window needs.
	least   float64
	resumed int64
	// usual is boundaryUsual of the notes, which means nothing while they are too few.
	usual float64
	boundaryState
}

// boundaryState is the part of it that survives a restart.
type boundaryState struct {
	Slots []boundarySlot `json:"slots,omitempty"`
	Notes []boundaryNote `json:"notes,omitempty"`
	// Cursor is when the newest call ended that was counted, in Unix milliseconds.
	Cursor int64 `json:"cursor"`
	// Accepted is when an operator last took what there is for normal.
	Accepted int64 `json:"accepted,omitempty"`
}

// boundarySlot sums up the boundaries of a fifteenth of the window: calls and
// tokens. Moved is the part of Lost of calls that reached another replica.
type boundarySlot struct {
	Number int64   `json:"number"`
	Calls  float64 `json:"calls"`
	Prompt float64 `json:"prompt"`
	Cached float64 `json:"cached"`
	Lost   float64 `json:"lost"`
	Moved  float64 `json:"moved"`
}

func (s boundarySlot) ratio() float64 { return s.Cached / s.Prompt }

// boundaryNote is the ratio of a window that ended at a time, in Unix milliseconds.
type boundaryNote struct {
	At    int64   `json:"at"`
	Ratio float64 `json:"ratio"`
}

// slot is the length of one, in milliseconds.
func (b *boundaryRatio) slot() int64 { return max((b.window / boundarySlots).Milliseconds(), 1) }

// take counts the calls that begin a turn.
func (b *boundaryRatio) take(p *poolCalls) {
	for c := range p.placedAfter(b.resumed) {
		b.Cursor = max(b.Cursor, c.end)
		if c.boundary {
			s := b.at(c.end / b.slot())
			s.Calls++
			s.Prompt += c.prompt
			s.Cached += c.cached
			s.Lost += c.lost
			if c.moved {
				s.Moved += c.lost
			}
		}
	}
}

func (b *boundaryRatio) at(number int64) *boundarySlot {
	i := slices.IndexFunc(b.Slots, func(s boundarySlot) bool { return s.Number == number })
	if i < 0 {
		i = len(b.Slots)
		b.Slots = append(b.Slots, boundarySlot{Number: number})
	}
	return &b.Slots[i]
}

// now sums up the window that ends now, as far as calls are settled, and
// forgets what is before it.
func (b *boundaryRatio) now(w PoolWindow) (sum boundarySlot) {
	last := (w.ms - settled.Milliseconds()) / b.slot()
	b.Slots = slices.DeleteFunc(b.Slots, func(s boundarySlot) bool { return s.Number <= last-boundarySlots })
	for _, s := range b.Slots {
		if s.Number > last {
			continue // not all of its calls came
		}
		sum.Calls += s.Calls
		sum.Prompt += s.Prompt
		sum.Cached += s.Cached
		sum.Lost += s.Lost
		sum.Moved += s.Moved
	}
	return sum
}

// refresh takes up what an operator accepted, and ends what fires for so long
// that it is the normal.
func (b *boundaryRatio) refresh(w PoolWindow, firing time.Time) {
	accepted := w.pool.excess.acceptedAt
	if accepted > b.Accepted || !firing.IsZero() && w.now.Sub(firing) >= scaled(newNormal, b.scale) {
		b.Notes, b.Accepted = nil, max(b.Accepted, accepted)
	}
}

// note keeps the ratio of the window when it is time to.
func (b *boundaryRatio) note(w PoolWindow, sum boundarySlot) {
	every := b.window.Milliseconds() / boundaryNotes
	if n := len(b.Notes); n > 0 && w.ms-b.Notes[n-1].At < every {
		return
	}
	oldest := w.ms - b.kept.Milliseconds()
	b.Notes = slices.DeleteFunc(b.Notes, func(n boundaryNote) bool { return n.At < oldest })
	b.Notes = append(b.Notes, boundaryNote{At: w.ms, Ratio: sum.ratio()})
	b.rank()
}

// rank finds out what is usual.
func (b *boundaryRatio) rank() {
	ratios := make([]float64, len(b.Notes))
	for i, n := range b.Notes {
		ratios[i] = n.Ratio
	}
	slices.Sort(ratios)
	if b.usual = 0; len(ratios) > 0 {
		b.usual = quantileOf(ratios, boundaryUsual)
	}
}

// unlearned says what is missing until it is known what is usual, "" for nothing.
func (b *boundaryRatio) unlearned(w PoolWindow) string {
	span, least := time.Duration(0), scaled(boundaryLearned, b.scale)
	if len(b.Notes) > 0 {
		span = time.Duration(w.ms-b.Notes[0].At) * time.Millisecond
	}
	switch {
	case len(b.Notes) < leastBoundaryNotes:
		return fmt.Sprintf("%d of %d windows", len(b.Notes), leastBoundaryNotes)
	case span < least:
		return fmt.Sprintf("%s of %s", spell(span), spell(least))
	case b.usual == 0:
		return "turns usually find nothing"
	default:
		return ""
	}
}

func (b *boundaryRatio) save() (json.RawMessage, error) {
	if b.Cursor == 0 {
		return nil, nil
	}
	return json.Marshal(b.boundaryState)
}

func (b *boundaryRatio) load(raw json.RawMessage) error {
	if err := json.Unmarshal(raw, &b.boundaryState); err != nil {
		return err
	}
	b.resumed = b.Cursor
	b.rank()
	return nil
}
