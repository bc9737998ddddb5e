package chart

import (
	"math"
	"slices"
	"time"
)

// mostTicks is how many labels an axis has at most; more cannot be read on a phone.
const mostTicks = 5

// valueTicks are round values from 0 (or below the lowest, if that is negative)
// to above the highest.
func valueTicks(low, high float64) []float64 {
	low = math.Min(low, 0)
	if high <= low {
		high = low + 1
	}
	step := roundStep((high - low) / (mostTicks - 1))
	var out []float64
	for i := math.Floor(low / step); ; i++ {
		out = append(out, i*step)
		if i*step >= high-step*1e-9 {
			return out
		}
	}
}

// roundStep is the next 1, 2, 2.5 or 5 times a power of ten.
func roundStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, f := range []float64{1, 2, 2.5, 5} {
		if f*power >= least*(1-1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// timeTicks are round times within the span, and the step between them.
func timeTicks(from, to time.Time) (ticks []time.Time, step time.Duration) {
	steps := []time.Duration{
		15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute,
		30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	}
	i := slices.IndexFunc(steps, func(s time.Duration) bool { return to.Sub(from) <= s*(mostTicks-1) })
	if i < 0 {
		i = len(steps) - 1
	}
	step = steps[i]
	for at := from.UTC().Truncate(step); !at.After(to); at = at.Add(step) {
		if !at.Before(from) {
			ticks = append(ticks, at)
		}
	}
	return ticks, step
}

// clock writes a time of day as exactly as the step between two labels asks for.
func clock(t time.Time, step time.Duration) string {
	switch {
	case step < time.Minute:
		return t.UTC().Format("15:04:05")
	case step >= 24*time.Hour:
		return t.UTC().Format("2 Jan")
	default:
		return t.UTC().Format("15:04")
	}
}

// leastGap is the shortest time without a value that shows as a gap.
const leastGap = 2 * time.Minute

// stretches parts the points where nothing was known for a while.
func stretches(points []Point) [][]Point {
	var distances []time.Duration
	for i := 1; i < len(points); i++ {
		distances = append(distances, points[i].At.Sub(points[i-1].At))
	}
	slices.Sort(distances)
	most := leastGap
	if len(distances) > 0 {
		most = max(most, 5*distances[len(distances)/2])
	}
	var out [][]Point
	from := 0
	for i := 1; i <= len(points); i++ {
		if i == len(points) || points[i].At.Sub(points[i-1].At) > most {
			out = append(out, points[from:i])
			from = i
		}
	}
	return out
}
