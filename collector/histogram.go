package collector

// Histogram is one classic histogram as one page has it, whole: its buckets
// differ by nothing but their bound, so that what holds for all of them, labels
// above all, is held once.
type Histogram struct {
	// Series is the histogram's identity, as that of a Sample: its labels carry
	// the canonical name of the family, without a suffix, and no le.
	Series *Series
	// Bounds are the upper bounds of the buckets that the page has, rising, +Inf
	// the last where it has that. The slice is never changed once it was handed
	// out: while a page has the bounds of the one before, it is the same.
	Bounds []float64
	// Buckets are the cumulative counts, one for each bound.
	Buckets []float64
	// Sum and Count are those that the page states; NaN where it does not.
	Sum, Count float64
}
