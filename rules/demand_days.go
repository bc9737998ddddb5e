package rules

import (
	"math"
	"slices"
	"time"
)

const (
	// demandSlot is the time of which one occupancy and one residency is told,
	// daySlots how many make a day.
	demandSlot = 30 * time.Minute
	daySlots   = 48
	// wholeDay is how many of them must have been read before a day counts, and
	// slotCovered the part of one that pages must cover.
	wholeDay    = 44
	slotCovered = 0.75
	// demandPeak is the quantile of a day that stands for its peak.
	demandPeak = 0.9
	// demandKept is how many whole days are kept: a growth is one of four weeks.
	demandKept = 28
)

// demandDays keeps what a pool was asked for, by local day.
type demandDays struct {
	demandState
	scale float64
}

// demandState is the part of it that survives a restart.
type demandState struct {
	// Slot is the number of the half hour that is running, and At when the one
	// before it was read, in Unix milliseconds.
	Slot int64 `json:"slot"`
	At   int64 `json:"at"`
	// Today is the day that is being filled, Days are the whole ones before it,
	// oldest first.
	Today demandDay   `json:"today"`
	Days  []demandDay `json:"days,omitempty"`
}

// demandDay is one day of a pool.
type demandDay struct {
	// Number counts days; those of one weekday differ by multiples of 7.
	Number int `json:"number"`
	// Read is how many half hours were read.
	Read int `json:"read"`
	// Tokens is what was prompted and generated, of a whole day as of all of it.
	Tokens float64 `json:"tokens"`
	// Occupancies, Pressures (one over the residency in seconds) and Headrooms
	// are of the half hours of a day that is being filled.
	Occupancies []float64 `json:"occupancies,omitempty"`
	Pressures   []float64 `json:"pressures,omitempty"`
	Headrooms   []float64 `json:"headrooms,omitempty"`
	// Occupancy and Pressure are the peaks of a whole day, Headroom is what was
	// left at its peak; 0 is unknown.
	Occupancy float64 `json:"occupancy,omitempty"`
	Pressure  float64 `json:"pressure,omitempty"`
	Headroom  float64 `json:"headroom,omitempty"`
}

// dayOf is the number of the local day in which t lies. A scaled day has no midnight
// and is counted from 1970 on.
func (d *demandDays) dayOf(t time.Time) int {
	if d.scale != 1 {
		return int(math.Floor(float64(t.UnixMilli()) / (float64((24 * time.Hour).Milliseconds()) * d.scale)))
	}
	year, month, day := t.Date()
	return int(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / int64((24 * time.Hour).Seconds()))
}

// week is that of a day; it begins on Monday (day 0 was a Thursday).
func week(day int) int { return (day + 3) / 7 }

// tick reads a half hour that has ended, and says whether a week has.
func (d *demandDays) tick(w PoolWindow) (weekEnded bool) {
	length := scaled(demandSlot, d.scale)
	slot := w.ms / max(length.Milliseconds(), 1)
	if slot == d.Slot {
		return false
	}
	begun := d.Slot > 0
	from := max(d.At, w.ms-length.Milliseconds())
	d.Slot, d.At = slot, w.ms
	if !begun {
		d.Today.Number = d.dayOf(w.now)
		return false
	}
	weekEnded = d.turn(d.dayOf(w.now.Add(-length))) // the half hour belongs to the day in which it began
	d.read(w, from, length)
	return d.turn(d.dayOf(w.now)) || weekEnded
}

// read adds what the pool was asked for since from, if pages cover enough of it.
func (d *demandDays) read(w PoolWindow, from int64, length time.Duration) {
	tokens, covered := 0.0, 0.0
	for _, u := range w.pool.members {
		e := w.engine(u)
		tokens += e.IncreaseIn(totalPrompt, from, w.ms) + e.IncreaseIn(totalGenerated, from, w.ms)
		covered = max(covered, e.IncreaseIn(totalCovered, from, w.ms))
	}
	if covered < slotCovered*length.Seconds() {
		return
	}
	d.Today.Read++
	d.Today.Tokens += tokens
	if p, told := w.prefillShare(length); told > 0 {
		d.Today.Occupancies = append(d.Today.Occupancies, p.ratio())
	}
	if seconds, told, ok := w.residency(from, w.ms); ok {
		d.Today.Pressures = append(d.Today.Pressures, 1/seconds)
	} else if told > 0 { // nothing was allocated: nothing is evicted
		d.Today.Pressures = append(d.Today.Pressures, 0)
	}
	if h := &w.pool.headroom; h.reason == "" && h.noRatio == "" {
		d.Today.Headrooms = append(d.Today.Headrooms, h.headroom.ratio)
	}
}

// turn ends the day when the next one has begun, and says whether that is of
// another week.
func (d *demandDays) turn(next int) (weekEnded bool) {
	day := d.Today
	if next <= day.Number {
		return false
	}
	d.Today = demandDay{Number: next}
	if day.Read >= wholeDay {
		d.keep(day)
	}
	return week(next) > week(day.Number)
}

// keep adds a whole day and forgets those that are too old.
func (d *demandDays) keep(day demandDay) {
	day.Tokens *= daySlots / float64(day.Read)
	day.Occupancy, day.Pressure = dayPeak(day.Occupancies), dayPeak(day.Pressures)
	if len(day.Headrooms) > 0 { // quiet half hours have none, and are not the peak
		day.Headroom = quantileOf(slices.Sorted(slices.Values(day.Headrooms)), 1-demandPeak)
	}
	day.Occupancies, day.Pressures, day.Headrooms = nil, nil, nil
	d.Days = append(d.Days, day)
	d.Days = slices.DeleteFunc(d.Days, func(old demandDay) bool { return old.Number <= day.Number-demandKept })
}

// dayPeak is the P90 of a day's half hours, 0 where too few are known.
func dayPeak(values []float64) float64 {
	if len(values) < wholeDay {
		return 0
	}
	return quantileOf(slices.Sorted(slices.Values(values)), demandPeak)
}

// headroom is what was left at the peak of the last week's days, the median of
// those of which it is known; 0 is unknown.
func (d *demandDays) headroom() float64 {
	var known []float64
	for _, day := range d.Days[max(len(d.Days)-7, 0):] {
		if day.Headroom > 0 {
			known = append(known, day.Headroom)
		}
	}
	return median(known)
}

// demandGrowth is how one series of days grows.
type demandGrowth struct {
	// Name says which: prompt and generated tokens, occupancy or pressure.
	Name string `json:"name"`
	// Slope is the median of ln(later/earlier) per week over pairs of days of
	// the same weekday, Rising the share of the pairs that rise.
	Slope  float64 `json:"slope"`
	Rising float64 `json:"rising"`
	// Days and Pairs are how many there were, First and Last the first value and the last.
	Days  int     `json:"days"`
	Pairs int     `json:"pairs"`
	First float64 `json:"first"`
	Last  float64 `json:"last"`
}

// growth judges the days on which of is known, false where they are fewer than least.
func (d *demandDays) growth(name string, least int, of func(demandDay) float64) (demandGrowth, bool) {
	var weeks, logs []float64
	var numbers []int
	g := demandGrowth{Name: name}
	for _, day := range d.Days {
		v := of(day)
		if v <= 0 {
			continue
		}
		if g.Days == 0 {
			g.First = v
		}
		g.Last = v
		g.Days++
		weeks, logs, numbers = append(weeks, float64(day.Number)/7), append(logs, math.Log(v)), append(numbers, day.Number)
	}
	slopes := pairSlopes(weeks, logs, func(i, j int) bool { return (numbers[i]-numbers[j])%7 == 0 })
	if g.Days < least || len(slopes) == 0 {
		return g, false
	}
	rising := 0
	for _, s := range slopes {
		if s > 0 {
			rising++
		}
	}
	g.Slope, g.Pairs, g.Rising = sortedMedian(slopes), len(slopes), float64(rising)/float64(len(slopes))
	return g, true
}
