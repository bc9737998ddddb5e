package history

import (
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// aloneRows is how many samples are decoded at once by who does not use the shelf.
const aloneRows = 32

// unixMilli is a time in milliseconds. The name keeps go vet from taking Seek for
// that of an io.Seeker.
type unixMilli = int64

// columnSeries is one classic series of a histogram.
type columnSeries struct {
	labels labels.Labels
	native *native
	column column
}

// Labels implements storage.Series.
func (s *columnSeries) Labels() labels.Labels { return s.labels }

// Iterator implements storage.Series.
func (s *columnSeries) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	if s.native.series == nil {
		return chunkenc.NewNopIterator()
	}
	c, ok := it.(*columnIterator)
	if !ok {
		c = &columnIterator{}
	}
	c.reset(s.native, s.column)
	return c
}

// columnIterator reads one column of a histogram. It reads what is on the shelf
// where that is there, and decodes the histogram by itself where it is not.
type columnIterator struct {
	native *native
	column column

	// shelved are the blocks that are read from the shelf, from next on; where it
	// is nil, the unfolder decodes into own.
	shelved          []*block
	next             int
	unfolder         unfolder
	own              block
	begun, exhausted bool

	// times and values are those of the present block, at is the place in them.
	times  []int64
	values []float64
	at     int
	// alive says that the last value before the present block was no stale marker.
	alive bool
}

func (c *columnIterator) reset(n *native, col column) {
	*c = columnIterator{native: n, column: col, at: -1, unfolder: c.unfolder, own: c.own}
}

// Next implements chunkenc.Iterator.
func (c *columnIterator) Next() chunkenc.ValueType {
	c.at++
	for c.at >= len(c.times) {
		if !c.load(c.nextBlock()) {
			return chunkenc.ValNone
		}
	}
	return chunkenc.ValFloat
}

// Seek implements chunkenc.Iterator. Blocks that end before t are passed over; what
// is decoded alone is decoded all the same: only so it is known what ended in between.
func (c *columnIterator) Seek(t unixMilli) chunkenc.ValueType {
	if c.at >= 0 && c.at < len(c.times) && c.times[c.at] >= t {
		return chunkenc.ValFloat
	}
	for len(c.times) == 0 || c.times[len(c.times)-1] < t {
		if !c.load(c.nextBlock()) {
			return chunkenc.ValNone
		}
	}
	rest := c.times[max(c.at, 0):]
	c.at = len(c.times) - len(rest) + sort.Search(len(rest), func(i int) bool { return rest[i] >= t })
	return chunkenc.ValFloat
}

// load takes a block. One without the column ends it, where it was alive.
func (c *columnIterator) load(b *block) bool {
	if n := len(c.times); n > 0 {
		c.alive = !value.IsStaleNaN(c.values[n-1])
	}
	c.times, c.values, c.at = nil, nil, 0
	if b == nil {
		c.exhausted = true
		return false
	}
	if values, ok := b.column(c.column); ok {
		c.times, c.values = b.times, values
	} else if c.alive {
		c.times, c.values = b.times[:1], []float64{staleMarker()}
	}
	return true
}

// begin finds out where the blocks come from.
func (c *columnIterator) begin() {
	if c.begun {
		return
	}
	c.begun = true
	if c.shelved = c.native.shelf.blocks(c.native); c.shelved == nil {
		c.unfolder.reset(c.native.series, c.column)
	}
}

// nextBlock returns the next block; nil at the end.
func (c *columnIterator) nextBlock() *block {
	c.begin()
	switch {
	case c.exhausted:
		return nil
	case c.shelved == nil:
		return c.decode()
	case c.next == len(c.shelved):
		return nil
	case c.next > 0 && !c.native.shelf.holds(c.native, c.shelved):
		// They were taken off the shelf: they are not to be kept by who reads them.
		times := c.shelved[c.next-1].times
		c.shelved = nil
		c.unfolder.reset(c.native.series, c.column)
		if !c.unfolder.seek(times[len(times)-1] + 1) {
			return nil
		}
		return c.decode()
	}
	c.next++
	return c.shelved[c.next-1]
}

func (c *columnIterator) decode() *block {
	if !c.unfolder.fill(&c.own, aloneRows) {
		return nil
	}
	return &c.own
}

// At implements chunkenc.Iterator.
func (c *columnIterator) At() (int64, float64) { return c.times[c.at], c.values[c.at] }

// AtT implements chunkenc.Iterator.
func (c *columnIterator) AtT() int64 { return c.times[c.at] }

// AtST implements chunkenc.Iterator: start times are not stored.
func (c *columnIterator) AtST() int64 { return 0 }

// AtHistogram implements chunkenc.Iterator; there are no histograms in a column.
func (c *columnIterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	panic("history: a histogram asked of a series of floats")
}

// AtFloatHistogram implements chunkenc.Iterator, as AtHistogram.
func (c *columnIterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	panic("history: a histogram asked of a series of floats")
}

// Err implements chunkenc.Iterator.
func (c *columnIterator) Err() error {
	if c.begun && c.shelved == nil {
		return c.unfolder.it.Err()
	}
	return nil
}
