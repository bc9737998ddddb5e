package history

import (
	"container/list"
	"math"
	"slices"
	"sort"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"kvwatch/collector"
)

const (
	// shelfRoom is how many decoded values a querier keeps, and loneRoom how many
	// of one histogram where it is the only one: 16 and 64 MB, which is 14 and 56
	// days of a usual histogram at 15 s.
	shelfRoom = 2 << 20
	loneRoom  = 8 << 20
	// blockRows is how many samples are decoded at once.
	blockRows = 512
	// sharers is from how many columns on it pays to decode all of them.
	sharers = 3
)

// native is one histogram that is stored whole, as one query reads it.
type native struct {
	labels labels.Labels
	series storage.Series // nil where nobody reads samples
	shelf  *shelf
	// bounds are all finite bounds that it has in the range, rising.
	bounds []float64
	// wanted is how many of its columns are read.
	wanted int
	// blocks are its decoded values while they are on the shelf, size how many.
	blocks []*block
	size   int
	place  *list.Element
	// large says that it has too many values for the shelf.
	large bool
}

// shelf keeps what was decoded of histograms: the engine reads all series of a
// histogram one after the other, and decoding one costs as much as all. As a
// querier it is used by one goroutine.
type shelf struct {
	natives list.List // the last that was used is the first
	size    int
	// room is how many values it has room for, lone for how many of a histogram
	// that is the only one.
	room, lone int
	// full says that there was no room for a histogram.
	full bool
	// These are used again.
	unfolder unfolder
	scratch  block
}

// holds says that these blocks of the histogram are on the shelf still.
func (s *shelf) holds(n *native, blocks []*block) bool {
	return len(n.blocks) > 0 && len(blocks) > 0 && n.blocks[0] == blocks[0]
}

// blocks returns the decoded histogram; nil where it is better decoded in part.
func (s *shelf) blocks(n *native) []*block {
	switch {
	case n.blocks != nil:
		s.natives.MoveToFront(n.place)
	case n.large || n.wanted < sharers:
		return nil
	default:
		n.large = !s.take(n, s.lone)
		for s.size > s.room && s.natives.Len() > 1 {
			s.drop(s.natives.Back().Value.(*native))
		}
	}
	return n.blocks
}

// take decodes a histogram and keeps it; false where it has more values than that,
// and where it cannot be read, as who decodes it alone will meet again.
func (s *shelf) take(n *native, most int) bool {
	s.unfolder.reset(n.series, column{})
	blocks, size := []*block{}, 0
	for s.unfolder.fill(&s.scratch, blockRows) {
		if size += s.scratch.used(); size > most {
			return false
		}
		blocks = append(blocks, s.scratch.copied())
	}
	if s.unfolder.it.Err() != nil {
		return false
	}
	n.blocks, n.size, n.place = blocks, size, s.natives.PushFront(n)
	s.size += size
	return true
}

func (s *shelf) drop(n *native) {
	s.natives.Remove(n.place)
	s.size -= n.size
	n.blocks, n.size, n.place = nil, 0, nil
}

// classic says that a series is one of histograms that have classic series.
func (s *shelf) classic(series storage.Series) (bool, error) {
	s.unfolder.reset(series, column{suffix: collector.CountSuffix})
	for s.unfolder.next() {
		if s.unfolder.shape.kind == custom {
			return true, nil
		}
	}
	return false, s.unfolder.it.Err()
}

// learn finds out what bounds the histogram has; false where it has no classic
// series. While there is room, what is decoded for it is kept.
func (s *shelf) learn(n *native) (found bool, err error) {
	if n.wanted >= sharers && !s.full {
		s.full = !s.take(n, s.room-s.size)
	}
	if n.blocks != nil {
		for _, b := range n.blocks {
			n.bounds = union(n.bounds, b.bounds)
			found = found || b.kind == custom
		}
		return found, nil
	}
	s.unfolder.reset(n.series, column{suffix: collector.CountSuffix})
	for s.unfolder.fill(&s.scratch, blockRows) {
		n.bounds = union(n.bounds, s.scratch.bounds)
		found = found || s.scratch.kind == custom
	}
	return found, s.unfolder.it.Err()
}

// union adds bounds to rising ones.
func union(all, bounds []float64) []float64 {
	if len(bounds) == 0 || sameBounds(all, bounds) {
		return all
	}
	if len(all) == 0 {
		return bounds
	}
	merged := slices.Concat(all, bounds)
	sort.Float64s(merged)
	return slices.Compact(merged)
}

// columns are the classic series that it has.
func (n *native) columns() []column {
	all := make([]column, 0, len(n.bounds)+3)
	for _, bound := range n.bounds {
		all = append(all, column{collector.BucketSuffix, bound})
	}
	return append(all, column{collector.BucketSuffix, math.Inf(1)}, column{suffix: collector.SumSuffix}, column{suffix: collector.CountSuffix})
}
