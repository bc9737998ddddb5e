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

// The slots of a histogram's numbers. Buckets follow, in the order of their bounds.
const (
	sumSlot slot = iota
	countSlot
	firstBucket
)

// parts are what of its numbers a histogram has.
type parts struct {
	// bounds are those of its buckets. They are rising, but for those that the
	// present page brought: mixed says that these are not in order, or not new.
	bounds []float64
	mixed  bool
	// told are those that were handed out last; see Histogram.Bounds.
	told []float64
}

// slot finds the place of a part, or makes it.
func (p *parts) slot(which part, bound float64) slot {
	switch which {
	case partSum:
		return sumSlot
	case partCount:
		return countSlot
	case partBucket, partNone:
	}
	n := len(p.bounds)
	if n > 0 && bound <= p.bounds[n-1] && !p.mixed {
		if at, found := slices.BinarySearch(p.bounds, bound); found {
			return firstBucket + slot(at)
		}
		p.mixed = true
	}
	p.bounds = append(p.bounds, bound)
	return firstBucket + slot(n)
}

// fed marks a slot that some input feeds.
const fed slot = 1

// arrange drops the buckets that nothing feeds and puts the others in the order
// of their bounds, those of one bound together. places marks the slots that are
// fed, and is given for each the new one.
func (out *output) arrange(places []slot) {
	if out.parts == nil {
		places[0] = 0
		return
	}
	places[sumSlot], places[countSlot] = sumSlot, countSlot
	p, old, carried := out.parts, out.parts.bounds, out.carried
	buckets := make([]slot, 0, len(old))
	for at := firstBucket; int(at) < len(places); at++ {
		if places[at] == fed {
			buckets = append(buckets, at)
		}
	}
	boundOf := func(at slot) float64 { return old[at-firstBucket] }
	slices.SortStableFunc(buckets, func(a, b slot) int { return cmp.Compare(boundOf(a), boundOf(b)) })
	p.bounds, p.mixed, out.carried = make([]float64, 0, len(buckets)), false, nil
	for _, at := range buckets {
		if n := len(p.bounds); n == 0 || p.bounds[n-1] != boundOf(at) {
			p.bounds = append(p.bounds, boundOf(at))
		}
		places[at] = slot(out.slots() - 1)
	}
	for i, t := range carried {
		if at := slot(i); t != (carry{}) && (at < firstBucket || places[at] != 0) {
			*out.carry(places[at]) = t
		}
	}
}

// histogram is what the page has of the output, whose numbers are given.
func (out *output) histogram(numbers []float64, d *desk) Histogram {
	p := out.parts
	bounds, buckets := p.bounds, numbers[firstBucket:]
	if whole := !slices.ContainsFunc(buckets, math.IsNaN); whole {
		p.tell(bounds, d)
		p.bounds = p.told
	} else {
		n := 0
		d.bounds = d.bounds[:0]
		for i, value := range buckets {
			if !math.IsNaN(value) {
				d.bounds = append(d.bounds, bounds[i])
				buckets[n] = value
				n++
			}
		}
		buckets = buckets[:n:n]
		p.tell(d.bounds, d)
	}
	return Histogram{Series: &out.series, Bounds: p.told, Buckets: buckets, Sum: numbers[sumSlot], Count: numbers[countSlot]}
}

// tell hands bounds out, the same slice while they are the same.
func (p *parts) tell(bounds []float64, d *desk) {
	if !slices.Equal(bounds, p.told) {
		p.told = d.sets.same(bounds) // the old ones were handed out
	}
}
