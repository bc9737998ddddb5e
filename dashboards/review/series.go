package review

import (
	"time"

	"kvwatch/rules/sizing"
)

// maxPoints is how many points a chart has at most: of more, each stands for
// several slots, and is the mean of them.
const maxPoints = 288

// Series is one measure over the period.
type Series struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
	// Points are in order of time; where nothing is known there is none.
	Points []Point `json:"points"`
}

// Point is the mean from a time on.
type Point struct {
	At    time.Time `json:"at"`
	Value float64   `json:"value"`
}

// pointLength is the time that a point of a chart over so long stands for.
func pointLength(span time.Duration) time.Duration {
	return max((span+maxPoints*sizing.SlotLength-1)/(maxPoints*sizing.SlotLength), 1) * sizing.SlotLength
}

func newSeries(m measure, slots []sizing.Slot) Series {
	s := Series{Name: m.name, Unit: m.unit, Points: []Point{}}
	step := pointLength(slots[len(slots)-1].Start.Sub(slots[0].Start) + sizing.SlotLength)
	for len(slots) > 0 {
		begin := slots[0].Start
		sum, n := 0.0, 0.0
		for len(slots) > 0 && slots[0].Start.Before(begin.Add(step)) {
			if v, ok := m.of(slots[0]); ok {
				sum += v
				n++
			}
			slots = slots[1:]
		}
		if n > 0 {
			s.Points = append(s.Points, Point{At: begin.UTC(), Value: sum / n})
		}
	}
	return s
}
