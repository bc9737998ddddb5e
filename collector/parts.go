package collector

import (
	"cmp"
	"math"
	"slices"
)

// A part says what of a histogram a series is.
type part uint8

const (
	partNone part = iota // it is a whole series
	partBucket
	partSum
	partCount
)

// partOf is the part that a suffix stands for.
func partOf(suffix string) part {
	switch suffix {
	case BucketSuffix:
		return partBucket
	case SumSuffix:
		return partSum
	case CountSuffix:
		return partCount
	default:
		return partNone
	}
}

// passedOn is the name under which the series is passed on: its own, or that of
// the histogram that it is a part of.
func (n *sampleName) passedOn() string {
	if n.family.kind == histogram {
		return n.family.name
	}
	return n.name
}

// parts are the cells of one histogram.
type parts struct {
	// sum and count are nil until the page had them.
	sum, count *cell
	// buckets are in the order of their bounds.
	buckets []*cell
	// bounds are those that were handed out last; see Histogram.Bounds.
	bounds []float64
}

// cell finds the place of a part, or has it made.
func (p *parts) cell(which part, bound float64, made func() *cell) *cell {
	switch which {
	case partSum:
		if p.sum == nil {
			p.sum = made()
		}
		return p.sum
	case partCount:
		if p.count == nil {
			p.count = made()
		}
		return p.count
	case partBucket, partNone:
	}
	at, found := slices.BinarySearchFunc(p.buckets, bound, func(c *cell, bound float64) int { return cmp.Compare(c.bound, bound) })
	if !found {
		p.buckets = slices.Insert(p.buckets, at, made())
	}
	return p.buckets[at]
}

// each calls yield for every part that there is, until it returns false.
func (p *parts) each(yield func(*cell) bool) {
	for _, c := range [...]*cell{p.sum, p.count} {
		if c != nil && !yield(c) {
			return
		}
	}
	for _, c := range p.buckets {
		if !yield(c) {
			return
		}
	}
}

// settle ends the page for all parts; false where none of them is a number.
func (p *parts) settle(page uint32) bool {
	some := false
	for c := range p.each {
		if c.settle(page) {
			some = true
		}
	}
	return some
}

// held drops the buckets that no input feeds, and says whether one feeds any part.
func (p *parts) held(by map[*cell]bool) bool {
	p.buckets = slices.DeleteFunc(p.buckets, func(c *cell) bool { return !by[c] })
	return len(p.buckets) > 0 || p.sum != nil && by[p.sum] || p.count != nil && by[p.count]
}

// histogram is what the present page has of the output; its counts are appended
// to room.
func (out *output) histogram(page uint32, room []float64) (Histogram, []float64) {
	p, begin, same := out.parts, len(room), true
	for _, c := range p.buckets {
		if c.page != page {
			continue
		}
		i := len(room) - begin
		same = same && i < len(p.bounds) && p.bounds[i] == c.bound
		room = append(room, c.value)
	}
	counts := room[begin:len(room):len(room)]
	if !same || len(counts) != len(p.bounds) {
		p.bounds = make([]float64, 0, len(counts)) // the old ones were handed out
		for _, c := range p.buckets {
			if c.page == page {
				p.bounds = append(p.bounds, c.bound)
			}
		}
	}
	return Histogram{Series: &out.series, Bounds: p.bounds, Buckets: counts, Sum: p.sum.on(page), Count: p.count.on(page)}, room
}

// on is the cell's value on the page, NaN where it has none.
func (c *cell) on(page uint32) float64 {
	if c == nil || c.page != page {
		return math.NaN()
	}
	return c.value
}
