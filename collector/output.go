package collector

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"
)

// A slot is the place of a number among those of its output.
type slot uint32

// An output is one series that is passed on: one number, or those of a histogram.
type output struct {
	series Series
	family *family
	// page is the number of the page that fed it last, and begin where its numbers
	// are among those of that page.
	page, begin uint32
	// parts are the numbers of a histogram, nil for all else, which has one.
	parts *parts
	// moves is what a moved series follows, nil for all else.
	moves *moves
	// carried are kept of numbers that must outlive their inputs, by slot; of
	// slots beyond their end none was needed yet.
	carried []carry
}

// A carry is what is remembered of a number whose inputs may come and go.
type carry struct {
	// offset is what is missing from the inputs' sum because some vanished or fell.
	offset float64
	// before is the number on the page before.
	before float64
	// shared says that more than one input fed it at once.
	shared bool
}

func newOutput(lset labels.Labels, f *family) *output {
	out := &output{series: Series{Labels: lset}, family: f}
	switch f.kind {
	case histogram:
		out.parts, out.series.Whole = &parts{}, true
	case moved:
		out.moves = &moves{}
	case counter, sumAndCount, gauge, peak:
	}
	return out
}

// slots is how many numbers the output has.
func (out *output) slots() int {
	if out.parts == nil {
		return 1
	}
	return int(firstBucket) + len(out.parts.bounds)
}

// among gives the output's own of all numbers of the page.
func (out *output) among(numbers []float64) []float64 {
	end := int(out.begin) + out.slots()
	return numbers[out.begin:end:end]
}

// accumulates says whether all of the output's numbers must outlive their inputs.
func (out *output) accumulates() bool {
	f := out.family
	return f.kind.counts() && f.source != nil && f.source.accumulates
}

// outlives says whether the number must outlive its inputs.
func (out *output) outlives(at slot) bool {
	return out.accumulates() || int(at) < len(out.carried) && out.carried[at].shared
}

// carry gives that of a number, and makes it where there is none yet.
func (out *output) carry(at slot) *carry {
	if n := out.slots(); len(out.carried) < n {
		out.carried = append(make([]carry, 0, n), out.carried...)[:n]
	}
	return &out.carried[at]
}

// offset is what is missing from the sum of a number's inputs.
func (out *output) offset(at slot) float64 {
	if int(at) < len(out.carried) {
		return out.carried[at].offset
	}
	return 0
}

// settle ends the page for the output's numbers; false where there is none.
func (out *output) settle(numbers []float64) bool {
	some := false
	for i, value := range numbers {
		switch {
		case math.IsNaN(value):
			continue
		case math.IsInf(value, 0): // finite inputs can still add up to more than there is
			numbers[i] = math.NaN()
			continue
		}
		some = true
		if at := slot(i); out.outlives(at) {
			numbers[i] = out.carry(at).settle(value)
		}
	}
	return some
}

// settle ends the page for a number: a sum of floats may slip when its inputs
// change their order.
func (c *carry) settle(value float64) float64 {
	if slip := c.before - value; slip > 0 && slip < rounding*c.before {
		value = c.before
	}
	c.before = value
	return value
}
