package fleet

import (
	"math"
	"time"
)

// clientTimeout is when a client gives a call up.
const clientTimeout = 120 * time.Second

// course is a quantity that goes from one value to another between two times.
type course struct {
	from, to   float64
	begin, end time.Duration
}

func steady(value float64) course { return course{from: value, to: value} }

// at is its value at a time.
func (c course) at(now time.Duration) float64 {
	switch {
	case now >= c.end:
		return c.to
	case now <= c.begin:
		return c.from
	}
	return c.from + (c.to-c.from)*float64(now-c.begin)/float64(c.end-c.begin)
}

// conditions are what scenarios change about the world around the engines.
type conditions struct {
	// load, chats, prompts and gaps are factors: on the sessions begun in an
	// hour, on the chats, on the tokens that a call adds, on the pause between
	// two turns.
	load, chats, prompts, gaps course
	// brokenPrefix makes every call begin with other words.
	brokenPrefix bool
	// retrieval is the share of new sessions with retrieved text in front.
	retrieval float64
	// switching is the share of turns that find another model's cache.
	switching float64
	// timeout is when a client gives a call up; duplicates is the share of such
	// calls that the engine goes on with, and reroute sends the next try
	// elsewhere.
	timeout    time.Duration
	duplicates float64
	reroute    bool
}

func usualConditions() conditions {
	return conditions{
		load: steady(1), chats: steady(1), prompts: steady(1), gaps: steady(1),
		timeout: clientTimeout,
	}
}

// Tides are how the load follows the day and the week.
type Tides struct {
	// Day is by how much of itself the load rises in the afternoon and falls at
	// night, 0 to 1.
	Day float64
	// Weekend is the share of the load that is left on Saturdays and Sundays; 0
	// stands for 1.
	Weekend float64
}

// peakHour is the hour of the day, in UTC, with the highest load.
const peakHour = 15

// at is the factor on the load at a time of the wall clock.
func (t Tides) at(clock time.Time) float64 {
	clock = clock.UTC()
	hour := float64(clock.Hour()) + float64(clock.Minute())/60
	factor := 1 + t.Day*math.Cos(2*math.Pi*(hour-peakHour)/24)
	if day := clock.Weekday(); t.Weekend > 0 && (day == time.Saturday || day == time.Sunday) {
		factor *= t.Weekend
	}
	return factor
}
