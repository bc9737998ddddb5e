package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	barEvery = 200 * time.Millisecond
	barWidth = 30
)

// bar shows on a terminal how far a backtest came.
type bar struct {
	to    io.Writer
	span  timeRange
	began time.Time
	shown time.Time
	// calls counts between two looks at the clock.
	calls int
}

func newBar(to io.Writer, span timeRange) *bar {
	return &bar{to: to, span: span, began: time.Now()}
}

// show draws the bar for a moment of the history, a few times a second.
func (b *bar) show(at time.Time) {
	if b.calls++; b.to == io.Discard || b.calls%64 != 0 {
		return
	}
	now := time.Now()
	if now.Sub(b.shown) < barEvery {
		return
	}
	b.shown = now
	what := "learning"
	done := 0.0
	if at.After(b.span.from) {
		what, done = "testing", at.Sub(b.span.from).Seconds()/b.span.to.Sub(b.span.from).Seconds()
	}
	full := min(int(done*barWidth), barWidth)
	fmt.Fprintf(b.to, "\r\033[K%s [%s%s] %3.0f%% %s, %s", what, strings.Repeat("#", full), strings.Repeat(".", barWidth-full),
		100*done, at.UTC().Format(time.DateTime), now.Sub(b.began).Round(time.Second))
}

// end clears the line.
func (b *bar) end() {
	if !b.shown.IsZero() {
		fmt.Fprint(b.to, "\r\033[K")
	}
}
