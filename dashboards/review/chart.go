package review

import (
	"fmt"
	"math"
	"strings"
	"time"
)

const (
	// A chart is drawn in these units; the page scales it.
	chartWidth  = 560
	chartHeight = 120
	chartLeft   = 44
	chartBottom = 18
	chartTop    = 8
	chartTicks  = 4
)

// chart is one measure over the period, with the pool's episodes behind it.
type chart struct {
	Title, About  string
	Width, Height int
	// Lines are the pieces between gaps, as points of SVG.
	Lines []string
	Bands []band
	Ticks []tick
	// Top and Base are what the vertical ends stand for, with their places.
	Top, Base   string
	TopY, BaseY float64
	Left, Right int
}

// band is an episode.
type band struct {
	X, Width float64
	Class    string
	Title    string
}

type tick struct {
	X    float64
	Text string
}

func (r *Review) charts(p *Pool) []chart {
	var all []chart
	for _, s := range p.Series {
		all = append(all, r.chart(p, s))
	}
	return all
}

func (r *Review) chart(p *Pool, s Series) chart {
	span := max(r.To.Sub(r.From), time.Minute)
	x := func(t time.Time) float64 {
		at := min(max(t.Sub(r.From).Seconds()/span.Seconds(), 0), 1)
		return chartLeft + at*(chartWidth-chartLeft)
	}
	top := 0.0
	for _, point := range s.Points {
		top = max(top, point.Value)
	}
	if s.Unit == "ratio" {
		top = 1
	}
	if top == 0 {
		top = 1
	}
	base := float64(chartHeight - chartBottom)
	y := func(v float64) float64 { return base - (base-chartTop)*v/top }
	c := chart{
		Title: s.Name, Width: chartWidth, Height: chartHeight, Left: chartLeft, Right: chartWidth,
		Top: number(top), Base: "0", TopY: chartTop, BaseY: base,
	}
	switch s.Unit {
	case "ratio":
		c.Top, c.Base = "100 %", "0 %"
	case "per second":
		c.Title += " per second"
	}
	c.About = fmt.Sprintf("%s of pool %s from %s to %s", c.Title, p.Pool, moment(r.From), moment(r.To))
	c.Lines = lines(s.Points, x, y)
	for i := range r.Episodes {
		e := &r.Episodes[i]
		if e.Pool != p.Pool {
			continue
		}
		end := r.To
		if e.To != nil {
			end = *e.To
		}
		from := x(e.From)
		c.Bands = append(c.Bands, band{X: from, Width: max(x(end)-from, 2), Class: e.Severity, Title: moment(e.From) + ", " + e.lasted() + ": " + e.names()})
	}
	layout := "15:04"
	switch {
	case span > 7*24*time.Hour:
		layout = "2 Jan"
	case span > 24*time.Hour:
		layout = "2 Jan 15:04"
	}
	for i := range chartTicks {
		at := r.From.Add(span * time.Duration(i) / chartTicks)
		c.Ticks = append(c.Ticks, tick{x(at), at.UTC().Format(layout)})
	}
	return c
}

// lines are the points in pieces: a gap of over two and a half of the usual
// distance is not drawn over.
func lines(points []Point, x func(time.Time) float64, y func(float64) float64) []string {
	step := time.Duration(math.MaxInt64)
	for i := 1; i < len(points); i++ {
		step = min(step, points[i].At.Sub(points[i-1].At))
	}
	var all []string
	var b strings.Builder
	for i, p := range points {
		if i > 0 && p.At.Sub(points[i-1].At) > step*5/2 {
			all = append(all, b.String())
			b.Reset()
		}
		fmt.Fprintf(&b, "%.1f,%.1f ", x(p.At), y(p.Value))
	}
	if b.Len() > 0 {
		all = append(all, b.String())
	}
	return all
}
