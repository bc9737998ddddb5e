// Package chart draws a number over time as a picture for a message: light
// background, large letters and few of them, so that it is read on a phone.
// What is line, what is usual, what is limit and what is the incident is told by
// the kind of stroke and by words, never by colour alone.
package chart

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Chart is what a picture shows.
type Chart struct {
	// Title says what is drawn, Where of which part of the fleet.
	Title, Where string
	// Line is the number over time, in the order of time. It has two points or more.
	Line []Point
	// Usual is what is usual of it; it may be empty.
	Usual []Point
	// Limit is the threshold, where HasLimit.
	Limit    float64
	HasLimit bool
	// Top is the least height of the scale, as 1 for a ratio; 0 fits it to the values.
	Top float64
	// Began and Ended are the incident's; Ended is zero while it goes on.
	Began, Ended time.Time
	// Now is the right end of the picture.
	Now time.Time
	// Format writes a value with its unit.
	Format func(float64) string
}

// Point is a value at a time.
type Point struct {
	At    time.Time
	Value float64
}

// ErrTooFew is returned where there is nothing to draw yet.
var ErrTooFew = errors.New("too few values for a chart")

// PNG draws the chart.
func (c Chart) PNG() ([]byte, error) {
	if len(c.Line) < 2 || !c.Line[0].At.Before(c.Now) {
		return nil, ErrTooFew
	}
	d := newDrawing(c)
	d.head()
	d.incident()
	d.axes()
	d.lines()
	raw, err := d.p.Bytes()
	if err != nil {
		return nil, fmt.Errorf("drawing a chart: %w", err)
	}
	return raw, nil
}

// Alt says the picture in words, for those who do not see it.
func (c Chart) Alt() string {
	if len(c.Line) == 0 {
		return c.heading()
	}
	first, last := c.Line[0], c.Line[len(c.Line)-1]
	low, high := c.Line[0].Value, c.Line[0].Value
	for _, p := range c.Line {
		low, high = math.Min(low, p.Value), math.Max(high, p.Value)
	}
	text := fmt.Sprintf("%s from %s to %s UTC: first %s, last %s, between %s and %s",
		c.heading(), clock(first.At, time.Minute), clock(c.Now, time.Minute), c.Format(first.Value), c.Format(last.Value), c.Format(low), c.Format(high))
	if n := len(c.Usual); n > 0 {
		text += "; usual " + c.Format(c.Usual[n-1].Value)
	}
	if c.HasLimit {
		text += "; limit " + c.Format(c.Limit)
	}
	text += "; the incident began at " + clock(c.Began, time.Minute)
	if !c.Ended.IsZero() {
		text += " and ended at " + clock(c.Ended, time.Minute)
	}
	return text + "."
}

func (c Chart) heading() string {
	if c.Where == "" {
		return c.Title
	}
	return c.Title + ", " + c.Where
}
