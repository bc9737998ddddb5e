package history

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"kvwatch/collector"
)

// column names one of the classic series of a histogram.
type column struct {
	suffix string
	bound  float64 // of a bucket
}

// block is a stretch of one histogram's samples that have the same buckets: a
// column of values for each of its classic series.
type block struct {
	shape
	times []int64
	// values are the columns, each of stride values of which as many are set as
	// there are times: the buckets, the sum, the count.
	values []float64
	stride int
	// only is the one column that was asked for; its suffix is "" for all.
	only column
}

// shape says which columns a sample has.
type shape struct {
	kind   int
	bounds []float64 // those that are finite
}

const (
	// unknown is a stale marker before which nothing was read: it ends whatever
	// there was.
	unknown = iota
	// custom is a histogram that has classic series.
	custom
	// foreign is one with exponential buckets, which has none.
	foreign
)

func (s shape) equal(o shape) bool {
	return s.kind == o.kind && sameBounds(s.bounds, o.bounds)
}

// sameBounds looks at the bounds only where they are not one slice: those of one
// chunk are.
func sameBounds(a, b []float64) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// index is the place of a column, -1 where the shape has none.
func (s shape) index(c column) int {
	switch {
	case s.kind != custom:
		return -1
	case c.suffix == collector.SumSuffix:
		return len(s.bounds) + 1
	case c.suffix == collector.CountSuffix:
		return len(s.bounds) + 2
	case math.IsInf(c.bound, 1):
		return len(s.bounds)
	default:
		return slices.Index(s.bounds, c.bound)
	}
}

// column returns the values of a column; false where the block has none.
func (b *block) column(c column) ([]float64, bool) {
	i := 0
	if b.kind != unknown {
		if i = b.index(c); i < 0 {
			return nil, false
		}
		if b.only.suffix != "" {
			i = 0
		}
	}
	return b.values[i*b.stride:][:len(b.times)], true
}

// used is how many values are set.
func (b *block) used() int {
	if b.stride == 0 {
		return len(b.times)
	}
	return (1 + len(b.values)/b.stride) * len(b.times)
}

// copied is the block in no more memory than it needs.
func (b *block) copied() *block {
	n := len(b.times)
	c := &block{shape: b.shape, times: slices.Clone(b.times), stride: n, only: b.only}
	if b.stride > 0 {
		c.values = make([]float64, 0, len(b.values)/b.stride*n)
		for i := 0; i < len(b.values); i += b.stride {
			c.values = append(c.values, b.values[i:i+n]...)
		}
	}
	return c
}

// begin empties the block, for up to rows samples of a shape.
func (b *block) begin(s shape, only column, rows int) {
	b.shape, b.only, b.stride, b.times = s, only, rows, b.times[:0]
	columns := 1
	switch {
	case s.kind == foreign, s.kind == custom && only.suffix != "" && s.index(only) < 0:
		columns = 0
	case s.kind == custom && only.suffix == "":
		columns = len(s.bounds) + 3
	}
	b.values = slices.Grow(b.values[:0], columns*rows)[:columns*rows]
}

// unfolder turns the samples of a native series into blocks.
type unfolder struct {
	it chunkenc.Iterator
	// only is the one column that is wanted; its suffix is "" for all.
	only column

	// shape is that of the last sample; of one that is stale that of the one before.
	shape shape
	// read says that the last sample was read, and waits for a block.
	read bool
	// floating says that the series is one of floats.
	floating bool

	t     int64
	stale bool
	h     *histogram.Histogram
	fh    *histogram.FloatHistogram
	// These are used again for each sample.
	ints   histogram.Histogram
	floats histogram.FloatHistogram
	row    []float64
}

// seek begins with the first sample that is not before t; false where there is none.
func (u *unfolder) seek(t int64) bool {
	for vt := u.it.Seek(t); vt != chunkenc.ValNone; vt = u.it.Next() {
		if u.take(vt) {
			u.read = true
			return true
		}
	}
	return false
}

// reset begins with a series, and keeps the memory.
func (u *unfolder) reset(s storage.Series, only column) {
	u.it, u.only, u.shape, u.read = s.Iterator(u.it), only, shape{}, false
	u.floating = false
}

// next reads a sample that counts; false at the end. Series that begin with floats
// have but the name of a histogram: nothing in them counts.
func (u *unfolder) next() bool {
	if u.read {
		u.read = false
		return true
	}
	for !u.floating {
		if vt := u.it.Next(); vt == chunkenc.ValNone {
			return false
		} else if u.take(vt) {
			return true
		}
		u.floating = u.shape.kind == unknown
	}
	return false
}

// take takes the sample that the iterator is at; false where it is a float, and no
// stale marker.
func (u *unfolder) take(vt chunkenc.ValueType) bool {
	var sum float64
	var schema int32
	var bounds []float64
	u.h, u.fh = nil, nil
	switch vt {
	case chunkenc.ValHistogram:
		u.t, u.h = u.it.AtHistogram(&u.ints)
		sum, schema, bounds = u.h.Sum, u.h.Schema, u.h.CustomValues
	case chunkenc.ValFloatHistogram:
		u.t, u.fh = u.it.AtFloatHistogram(&u.floats)
		sum, schema, bounds = u.fh.Sum, u.fh.Schema, u.fh.CustomValues
	default:
		if u.t, sum = u.it.At(); !value.IsStaleNaN(sum) {
			return false
		}
	}
	switch u.stale = value.IsStaleNaN(sum); {
	case u.stale:
	case histogram.IsCustomBucketsSchema(schema):
		u.shape = shape{kind: custom, bounds: bounds}
	default:
		u.shape = shape{kind: foreign}
	}
	return true
}

// fill fills a block with the next samples, up to so many; false at the end.
func (u *unfolder) fill(b *block, rows int) bool {
	b.times = b.times[:0]
	for len(b.times) < rows && u.next() {
		if len(b.times) == 0 {
			b.begin(u.shape, u.only, rows)
		} else if !b.equal(u.shape) {
			u.read = true
			break
		}
		u.put(b, len(b.times))
		b.times = append(b.times, u.t)
	}
	return len(b.times) > 0
}

// put puts the sample into the columns of a row.
func (u *unfolder) put(b *block, row int) {
	switch {
	case u.stale:
		for at := row; at < len(b.values); at += b.stride {
			b.values[at] = staleMarker()
		}
	case len(b.values) == 0:
	case b.only.suffix == collector.SumSuffix:
		b.values[row] = u.sum()
	case b.only.suffix == collector.CountSuffix, b.only.suffix != "" && math.IsInf(b.only.bound, 1):
		b.values[row] = u.count()
	case b.only.suffix != "":
		n := len(b.bounds)
		u.row = slices.Grow(u.row[:0], n)[:n]
		u.buckets(u.row, n, 1)
		b.values[row] = u.row[b.index(b.only)]
	default:
		n := len(b.bounds)
		u.buckets(b.values[row:], n, b.stride)
		b.values[n*b.stride+row] = u.count() // what is NaN is in no bucket but counted
		b.values[(n+1)*b.stride+row] = u.sum()
		b.values[(n+2)*b.stride+row] = u.count()
	}
}

func (u *unfolder) sum() float64 {
	if u.h != nil {
		return u.h.Sum
	}
	return u.fh.Sum
}

func (u *unfolder) count() float64 {
	if u.h != nil {
		return float64(u.h.Count)
	}
	return u.fh.Count
}

func (u *unfolder) buckets(to []float64, n, stride int) {
	if u.h != nil {
		cumulate(to, n, stride, u.h.PositiveSpans, u.h.PositiveBuckets, true)
	} else {
		cumulate(to, n, stride, u.fh.PositiveSpans, u.fh.PositiveBuckets, false)
	}
}

// cumulate gives n buckets what was counted up to each, from the counts of their
// own; those are the difference to the bucket before where delta.
func cumulate[B int64 | float64](to []float64, n, stride int, spans []histogram.Span, buckets []B, delta bool) {
	var own B
	var upTo float64
	bucket, read := 0, 0
	for _, s := range spans {
		for end := min(bucket+int(s.Offset), n); bucket < end; bucket++ {
			to[bucket*stride] = upTo
		}
		for end := min(bucket+int(s.Length), n); bucket < end; bucket++ {
			if delta {
				own += buckets[read]
			} else {
				own = buckets[read]
			}
			read++
			upTo += float64(own)
			to[bucket*stride] = upTo
		}
	}
	for ; bucket < n; bucket++ {
		to[bucket*stride] = upTo
	}
}
