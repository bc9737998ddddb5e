package rules

import (
	"fmt"
	"slices"
	"time"
)

const (
	kvSeatShortage = "KVSeatShortage"

	// noFitWindow is the span over which scrapes are counted, in noFitCells parts.
	noFitWindow = 30 * time.Minute
	noFitCells  = 30
)

// The prompts that are tried: the median, and one that only one of twenty is longer than.
const (
	promptP50 = "p50"
	promptP95 = "p95"
)

// noFit counts at how many scrapes of the pool's engines a call of the usual
// size, and a large one, did not fit into what was free of the KV cache. Arrivals
// see an engine as scrapes do, so that the share is the probability that a call
// has to wait for room.
type noFit struct {
	window time.Duration
	// cells are parts of the window, oldest first.
	cells []noFitCell
	// seen is the last page of each engine that was counted.
	seen map[*unit]int32
}

// noFitCell counts the scrapes of a part of the window.
type noFitCell struct {
	// At is when it began, in Unix milliseconds.
	At int64 `json:"at"`
	// P50 and P95 are by the prompt that was tried.
	P50 fitCount `json:"p50"`
	P95 fitCount `json:"p95"`
}

// fitCount is a number of scrapes, and of those without room.
type fitCount struct {
	Scrapes int `json:"scrapes"`
	NoFit   int `json:"no_fit"`
}

func (c *fitCount) add(o fitCount) {
	c.Scrapes += o.Scrapes
	c.NoFit += o.NoFit
}

// share is the part of the scrapes without room.
func (c fitCount) share() float64 { return float64(c.NoFit) / float64(c.Scrapes) }

func newNoFit(rules map[string]*settings) noFit {
	return noFit{window: rules[kvSeatShortage].duration("window"), seen: map[*unit]int32{}}
}

// span is the window, but long enough to hold some scrapes.
func (n *noFit) span(w PoolWindow) time.Duration { return max(n.window, leastScrapes*w.interval) }

// leave forgets an engine that left the pool.
func (n *noFit) leave(u *unit) { delete(n.seen, u) }

// tick counts the pages that came since the tick before.
func (n *noFit) tick(w PoolWindow) {
	span := n.span(w).Milliseconds()
	n.cells = slices.DeleteFunc(n.cells, func(c noFitCell) bool { return c.At <= w.ms-span || c.At > w.ms })
	usual, okUsual := w.pool.seats.need(0.5)
	large, okLarge := w.pool.seats.need(0.95)
	if !okUsual {
		return
	}
	var now noFitCell
	for _, u := range w.pool.members {
		if u.target.page == n.seen[u] {
			continue
		}
		n.seen[u] = u.target.page
		free, ok := w.engine(u).freeTokens()
		if !ok {
			continue
		}
		now.P50.try(free < usual)
		if okLarge {
			now.P95.try(free < large)
		}
	}
	if now.P50.Scrapes == 0 {
		return
	}
	if last := len(n.cells) - 1; last < 0 || w.ms-n.cells[last].At >= span/noFitCells {
		n.cells = append(n.cells, noFitCell{At: w.ms})
	}
	cell := &n.cells[len(n.cells)-1]
	cell.P50.add(now.P50)
	cell.P95.add(now.P95)
}

// try counts one scrape.
func (c *fitCount) try(noFit bool) {
	c.Scrapes++
	if noFit {
		c.NoFit++
	}
}

// over sums up the window for one of the prompts.
func (n *noFit) over(prompt string) fitCount {
	var all fitCount
	for _, c := range n.cells {
		if prompt == promptP95 {
			all.add(c.P95)
		} else {
			all.add(c.P50)
		}
	}
	return all
}

// unknown says why the pool has no such share; "" where it has.
func (n *noFit) unknown(w PoolWindow, c fitCount, least int) string {
	_, told := w.sum(EngineWindow.freeTokens)
	_, sized := w.pool.seats.tokens()
	switch {
	case told == 0:
		return "no engine of the pool tells its KV capacity and KV usage"
	case !sized:
		return "the usual size of a call is not known yet"
	case c.Scrapes < least:
		return fmt.Sprintf("insufficient evidence: %d of %d scrapes in %s", c.Scrapes, least, spell(n.span(w)))
	default:
		return ""
	}
}
