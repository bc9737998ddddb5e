package rules

import (
	"slices"
	"time"
)

// burn counts what met an objective and what missed it, over windows of hours.
// It keeps the sums at some instants, densely for the newest and sparsely for
// the rest, about a hundred for all, and not the pages.
type burn struct {
	// All and Missed are the sums since the first page.
	All    float64 `json:"all"`
	Missed float64 `json:"missed"`
	// Marks are the sums at earlier instants, oldest first.
	Marks []burnMark `json:"marks,omitempty"`
}

// burnMark is the sums at one instant, in Unix milliseconds.
type burnMark struct {
	At     int64   `json:"at"`
	All    float64 `json:"all"`
	Missed float64 `json:"missed"`
}

// burnSpans says which marks are kept: one in each dense within the newest
// near, one in each sparse within far.
type burnSpans struct{ dense, near, sparse, far time.Duration }

// add counts what came and keeps the sums.
func (b *burn) add(now int64, all, missed float64, s burnSpans) {
	b.All += all
	b.Missed += missed
	if n := len(b.Marks); n == 0 || now-b.Marks[n-1].At >= s.dense.Milliseconds() {
		b.Marks = append(b.Marks, burnMark{At: now, All: b.All, Missed: b.Missed})
		b.thin(now, s)
	}
}

// thin drops the marks that are not needed any more. One mark before the
// longest window is kept, for it to begin at.
func (b *burn) thin(now int64, s burnSpans) {
	near, far := now-s.near.Milliseconds(), now-s.far.Milliseconds()
	kept := b.Marks[:0]
	for i, m := range b.Marks {
		switch {
		case i+1 < len(b.Marks) && b.Marks[i+1].At <= far:
		case i+1 < len(b.Marks) && b.Marks[i+1].At <= near && len(kept) > 0 && m.At-kept[len(kept)-1].At < s.sparse.Milliseconds():
		default:
			kept = append(kept, m)
		}
	}
	b.Marks = kept
}

// burnWindow is what one window holds.
type burnWindow struct {
	all, missed float64
	// span is how far back it reaches: less than was asked for when nothing
	// older is known.
	span time.Duration
}

// window sums up the last d. It begins at the newest mark that is as old.
func (b *burn) window(now int64, d time.Duration) burnWindow {
	if len(b.Marks) == 0 {
		return burnWindow{}
	}
	i, found := slices.BinarySearchFunc(b.Marks, now-d.Milliseconds(), func(m burnMark, t int64) int { return int(m.At - t) })
	if !found && i > 0 {
		i--
	}
	m := b.Marks[i]
	return burnWindow{all: b.All - m.All, missed: b.Missed - m.Missed, span: min(time.Duration(now-m.At)*time.Millisecond, d)}
}

// share is the part that missed the objective.
func (w burnWindow) share() float64 {
	if w.all <= 0 {
		return 0
	}
	return min(w.missed/w.all, 1)
}

// rate is how many times as fast as allowed the error budget is used.
func (w burnWindow) rate() float64 { return w.share() / errorBudget }
