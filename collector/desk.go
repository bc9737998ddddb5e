package collector

import (
	"math"
	"slices"
	"unique"

	"github.com/prometheus/prometheus/model/labels"
)

// A desk holds what is needed of a page only while it is read and its round is
// handed on. One target after another is lent it: of hundreds but a few read at
// once, and what each keeps between its pages is the series themselves.
type desk struct {
	lines lineReader
	page  page
	// kept makes the labels that a series is passed on with, scratch is the line
	// that tells them.
	kept    *labels.Builder
	scratch []byte

	// values are those of the page's inputs, NaN for one that the page lacks.
	values []float64
	// seen are the inputs of the page in their order.
	seen []inputID
	// following says of each input which place is next on the page before, 0 where
	// it was not there. It is filled where the order is lost.
	following []uint32
	// fed are the outputs of the page, numbers what is passed on of them; each
	// output knows where its own begin. NaN is none.
	fed     []*output
	numbers []float64
	// bounds are those of a histogram of which the page lacks some, readAs the
	// names under which families were read.
	bounds []float64
	readAs []*sampleName
	// sets, orders and reads are what targets of a fleet have in common.
	sets   shared[float64]                 // of bounds
	orders shared[unique.Handle[seenName]] // of the names on a page
	reads  shared[*sampleName]             // of the names under which families were read
	yield  yield
}

// yield is what a page gives. It is valid until the desk is used again.
type yield struct {
	samples    []Sample
	histograms []Histogram
	// stale were given of the page before, and are gone.
	stale []*Series
}

func newDesk() *desk {
	return &desk{page: newPage(), kept: labels.NewBuilder(labels.EmptyLabels())}
}

// clear makes room for the values of so many inputs.
func (d *desk) clear(inputs int) {
	d.values = appendNaN(d.values[:0], inputs)
	d.seen, d.following = d.seen[:0], d.following[:0]
}

// has says whether the page has the input.
func (d *desk) has(id inputID) bool { return !math.IsNaN(d.values[id]) }

// appendNaN appends n numbers that are none.
func appendNaN(to []float64, n int) []float64 {
	begin := len(to)
	to = slices.Grow(to, n)[:begin+n]
	for i := range to[begin:] {
		to[begin+i] = math.NaN()
	}
	return to
}
