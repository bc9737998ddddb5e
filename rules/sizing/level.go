package sizing

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Loop is how a level of a load test offers its load.
type Loop int

const (
	// OpenLoop sends at a rate, whatever comes back.
	OpenLoop Loop = iota
	// ClosedLoop keeps a number of requests under way: what it offers is what it gets.
	ClosedLoop
	// NoLoop sends all that it has at once: no load is offered that could be held.
	NoLoop
)

// Distribution is what was measured of one metric, in seconds.
type Distribution struct {
	// Count of values; with none of them nothing was measured, whatever is printed.
	Count int64
	// Mean, nil where the report has none.
	Mean *float64
	// Quantiles by name; one that the report lacks is absent.
	Quantiles map[string]float64
}

// Requests counts requests by how they ended.
type Requests struct {
	Successful, Errored int64
	// Incomplete were cut off by the end of the level, and are no failures.
	Incomplete int64
}

// Total is all of them.
func (r Requests) Total() int64 { return r.Successful + r.Errored + r.Incomplete }

// Request is one request of a level; a time that is unknown is NaN.
type Request struct {
	TTFT, ITL, TPOT, E2E float64
	OutputTokens         float64
}

// Level is one round of a load test.
type Level struct {
	// Strategy is what the tool calls it: constant, poisson, concurrent, synchronous, throughput.
	Strategy string
	Loop     Loop
	// Rate offered in requests per second; nil where none is.
	Rate *float64
	// Streams kept under way by a closed loop.
	Streams *float64
	// MaxConcurrency caps an open loop; nil is no cap.
	MaxConcurrency *float64
	// AchievedRate is requests per second that were answered.
	AchievedRate *float64
	// MeanConcurrency is how many were under way on average.
	MeanConcurrency *float64
	// OutputTPS is output tokens per second, of answered requests.
	OutputTPS *float64
	Latency   map[Metric]Distribution
	// Late is by how many seconds requests of an open loop went out after their
	// time; without a count where the report does not say. Times count from when
	// a request went out.
	Late     Distribution
	Requests Requests
	// Start and End bound what was measured; zero is unknown.
	Start, End time.Time
	// WarmUp left out before it, in seconds or requests; nil where the report does not say.
	WarmUp *float64
	// Attained is the share of requests within the report's own objectives, and
	// AttainedTPS their output tokens per second; nil where it had none.
	Attained, AttainedTPS *float64
	// Own are the limits of those objectives, in seconds.
	Own map[Metric]float64
	// OverSaturated is what the tool itself found.
	OverSaturated bool
	// Sample are answered requests, perhaps not all.
	Sample []Request
	// Warnings are the tool's own.
	Warnings []string
}

// Concurrency is that of a closed loop, else what was seen.
func (l *Level) Concurrency() *float64 {
	if l.Loop == ClosedLoop {
		return l.Streams
	}
	return l.MeanConcurrency
}

// ErrorsRatio is the share of requests that failed; nil without any.
func (l *Level) ErrorsRatio() *float64 {
	if l.Requests.Total() == 0 {
		return nil
	}
	ratio := float64(l.Requests.Errored) / float64(l.Requests.Total())
	return &ratio
}

// Quantile is one of a metric in seconds; false where nothing was measured or
// the report lacks it.
func (l *Level) Quantile(m Metric, quantile string) (float64, bool) {
	d := l.Latency[m]
	v, ok := d.Quantiles[quantile]
	return v, ok && d.Count > 0
}

// SortLevels puts levels in the order of the load that they offered: open loops
// by rate, closed ones by concurrency, throughput last. A closed loop among open
// ones stands where the rate that it got puts it, for it offers no more.
func SortLevels(levels []Level) {
	mixed := slices.ContainsFunc(levels, func(l Level) bool { return l.Loop == OpenLoop })
	slices.SortStableFunc(levels, func(a, b Level) int {
		return cmp.Or(
			cmp.Compare(boolInt(a.Loop == NoLoop), boolInt(b.Loop == NoLoop)),
			cmp.Compare(offered(&a, mixed), offered(&b, mixed)),
			cmp.Compare(orZero(a.Streams), orZero(b.Streams)),
		)
	})
}

// offered is the load of a level as a key to sort by.
func offered(l *Level, mixed bool) float64 {
	switch {
	case l.Loop == NoLoop:
		return math.Inf(1)
	case l.Loop == ClosedLoop && !mixed:
		return orZero(l.Streams)
	case l.Rate != nil:
		return *l.Rate
	default:
		return orZero(l.AchievedRate)
	}
}

func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
