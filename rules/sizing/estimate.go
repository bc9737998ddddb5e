package sizing

import (
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	// leastBlocks is how many blocks of hours an estimate of a level needs, and
	// leastHours how many hours with requests: fewer say nothing of its noise.
	leastBlocks, leastHours = 6, 12
	// leastPeakHours is how many hours a peak needs: those of a day. leastRequests
	// is how many requests, by which its own noise is small.
	leastPeakHours, leastRequests = 24, 200
	// peakQuantile is the share of the hours whose peaks are at most as high.
	peakQuantile = 0.95
	// coveredHour is the share of an hour that pages must cover before it counts.
	coveredHour = 0.75
	// blockNoise widens the interval for hours that are alike because they follow
	// each other.
	blockNoise = 1.5
	// twoSigma is how far the interval goes: 95 of 100 lie in it.
	twoSigma = 2
)

// Estimate is a number that was measured, with the interval in which it lies by
// all that is known of its noise (95 %).
type Estimate struct {
	Value, Low, High float64
	// Samples is how many requests it rests on, Hours how many hours.
	Samples, Hours int
	// Problem says why there is none; "" where there is.
	Problem string
}

func (e Estimate) known() bool { return e.Problem == "" }

// cannot is an estimate that is not there.
func cannot(format string, args ...any) Estimate {
	return Estimate{Problem: fmt.Sprintf(format, args...)}
}

// times is the estimate in another unit.
func (e Estimate) times(by float64) Estimate {
	e.Value, e.Low, e.High = e.Value*by, e.Low*by, e.High*by
	return e
}

// inverse is one over it.
func (e Estimate) inverse() Estimate {
	e.Value, e.Low, e.High = 1/e.Value, 1/e.High, 1/e.Low
	return e
}

// evidence is the slots by hours.
type evidence struct {
	hours []hour
	// slots are those of hours that count.
	slots []Slot
}

// hour is the slots of one hour.
type hour struct {
	start time.Time
	slots []Slot
	Slot  // all of them together
}

// gather puts slots, which are in order of time, into hours, and leaves out
// hours that pages cover too little of.
func gather(slots []Slot) evidence {
	var e evidence
	for len(slots) > 0 {
		start := slots[0].Start.Truncate(time.Hour)
		n := 1
		for n < len(slots) && slots[n].Start.Truncate(time.Hour).Equal(start) {
			n++
		}
		if h := (hour{start: start, slots: slots[:n], Slot: merge(slots[:n])}); h.covered() {
			e.hours = append(e.hours, h)
			e.slots = append(e.slots, h.slots...)
		}
		slots = slots[n:]
	}
	return e
}

// covered says whether the hour counts: one engine at least was read for most of it.
func (h hour) covered() bool {
	seen := 0
	for _, s := range h.slots {
		if s.EngineSeconds >= coveredHour*SlotLength.Seconds() {
			seen++
		}
	}
	return float64(seen) >= coveredHour*float64(time.Hour/SlotLength)
}

// level estimates a number that holds at all hours, such as a median or a ratio:
// of all slots together, with the noise that blocks of consecutive hours show.
// weigh says how many observations a slot has for it; a block has at least so
// many, and is at least an hour.
func (e evidence) level(least float64, weigh func(Slot) float64, of func(Slot) (float64, bool)) Estimate {
	var values []float64
	var block, all []Slot
	weight, total := 0.0, 0.0
	hours := 0
	for _, h := range e.hours {
		w := weigh(h.Slot)
		if w <= 0 {
			continue // an hour without evidence is none of 0
		}
		hours++
		weight += w
		total += w
		block = append(block, h.Slot)
		if weight < least {
			continue
		}
		if v, ok := of(merge(block)); ok && v > 0 {
			values = append(values, math.Log(v))
		}
		all = append(all, block...)
		block, weight = nil, 0
	}
	all = append(all, block...)
	if hours < leastHours || len(values) < leastBlocks {
		return cannot("%.0f observations in %d hours make %d blocks of %.0f: %d blocks and %d hours are needed", total, hours, len(values), least, leastBlocks, leastHours)
	}
	v, ok := of(merge(all))
	if !ok || !(v > 0) {
		return cannot("it lies above what the server's histogram tells apart, or is 0")
	}
	spread := math.Exp(twoSigma * blockNoise * deviation(values) / math.Sqrt(float64(len(values))))
	return Estimate{Value: v, Low: v / spread, High: v * spread, Samples: int(total), Hours: hours}
}

// deviation is a standard deviation that a few wild values do not move: 1.4826
// times the median distance from the median.
func deviation(values []float64) float64 {
	middle := median(values)
	distances := make([]float64, len(values))
	for i, v := range values {
		distances[i] = math.Abs(v - middle)
	}
	return 1.4826 * median(distances)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// peak estimates the P95 of the hourly peaks of a number. An hour's peak is the
// highest of its quarters, each the mean of three slots: the highest of single
// slots is mostly chance where calls are few.
func (e evidence) peak(of func(Slot) (float64, bool)) Estimate { return e.busiest(3, of) }

// busy estimates the P95 over hours of a number's mean over the hour.
func (e evidence) busy(of func(Slot) (float64, bool)) Estimate {
	return e.busiest(int(time.Hour/SlotLength), of)
}

// busiest is the P95 over hours of the highest mean of so many slots in a row.
// The interval is that of the ranks, which needs no law for the hours.
func (e evidence) busiest(length int, of func(Slot) (float64, bool)) Estimate {
	var peaks []float64
	requests := 0.0
	for _, h := range e.hours {
		highest, told := 0.0, false
		for part := range slices.Chunk(h.slots, length) {
			sum, n := 0.0, 0
			for _, s := range part {
				if v, ok := of(s); ok {
					sum += v
					n++
				}
			}
			if float64(n) >= coveredHour*float64(length) {
				highest, told = max(highest, sum/float64(n)), true
			}
		}
		if told {
			peaks = append(peaks, highest)
			requests += h.Requests
		}
	}
	switch {
	case len(peaks) < leastPeakHours:
		return cannot("it is known of %d hours: the peak of a day needs %d", len(peaks), leastPeakHours)
	case requests < leastRequests:
		return cannot("%.0f requests in %d hours: a peak needs %d", requests, len(peaks), leastRequests)
	}
	slices.Sort(peaks)
	n := float64(len(peaks))
	reach := twoSigma * math.Sqrt(n*peakQuantile*(1-peakQuantile))
	at := func(rank float64) float64 { return peaks[int(min(max(math.Ceil(rank), 1), n))-1] }
	v := at(n * peakQuantile)
	if v <= 0 {
		return cannot("it was 0 in %d hours", len(peaks))
	}
	return Estimate{Value: v, Low: at(n*peakQuantile - reach), High: at(n*peakQuantile + reach), Samples: int(requests), Hours: len(peaks)}
}

// quantile estimates one of a distribution.
func (e evidence) quantile(q float64, of func(Slot) Histogram) Estimate {
	// So many that some ten lie beyond it.
	least := 10 / min(q, 1-q)
	return e.level(least, func(s Slot) float64 { return of(s).Count }, func(s Slot) (float64, bool) { return of(s).Quantile(q) })
}

// mean estimates that of a distribution.
func (e evidence) mean(of func(Slot) Histogram) Estimate {
	return e.level(50, func(s Slot) float64 { return of(s).Count }, func(s Slot) (float64, bool) { return of(s).Mean() })
}

// of divides one number of a slot by another, where the second is what it rests on.
func (e evidence) of(least float64, part, whole func(Slot) float64) Estimate {
	return e.level(least, whole, func(s Slot) (float64, bool) { return part(s) / whole(s), whole(s) > 0 })
}
