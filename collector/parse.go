package collector

import (
	"io"
	"time"
)

// pageReader reads the pages of one target, one after another, and remembers
// the series it has seen. It is not safe for concurrent use.
type pageReader struct {
	target *Target
	limits Limits
}

// pageInfo is what a page tells beside its samples.
type pageInfo struct {
	// Source is the kind that the page was recognised as.
	Source string
	// From gives for each canonical family the exposed name that was read.
	From map[string]string
	// ProcessStart is process_start_time_seconds; 0 where it is not exposed.
	ProcessStart float64
	// Sampled says that several workers answer behind the address.
	Sampled bool
	// Bytes is the size of the body.
	Bytes int64
	// Wanted is the number of wanted lines on the page.
	Wanted int
	// BadLines is the number of wanted lines that could not be read, and of
	// values that are no numbers (NaN, Inf).
	BadLines int
}

// PageError is a body that cannot be taken.
type PageError struct {
	// State is one of StateNoMetrics, StateNotMetrics, StateTruncated,
	// StateTooLarge and StateMetricsDisabled.
	State State
	// Reason says in plain words what is wrong and what to do.
	Reason string
}

// Error implements error.
func (e *PageError) Error() string { return e.Reason }

func newPageReader(t *Target, limits Limits) *pageReader {
	return &pageReader{target: t, limits: limits}
}

// read streams one body. Samples and stale are valid until the next call.
// contentType is the response's header; "" is text 0.0.4.
func (p *pageReader) read(body io.Reader, contentType string, at time.Time) (samples []Sample, stale []*Series, info pageInfo, err error) {
	_, _, _ = body, contentType, at
	return nil, nil, pageInfo{}, &PageError{State: StateNoMetrics, Reason: "not yet read"}
}

// lose marks all series stale after a failed scrape and returns them, each
// once. When the target recovers the same *Series come back.
func (p *pageReader) lose() []*Series { return nil }
