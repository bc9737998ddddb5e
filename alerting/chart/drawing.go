package chart

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/go-analyze/charts"
)

// The picture's measures in pixels; it is three times as wide as a phone shows it.
const (
	width, height = 1080, 720
	left, right   = 160, 190 // of the field to the edges
	top, bottom   = 200, 80

	lineWidth, markWidth = 7, 5
	hatchDistance        = 26
	labelDistance        = 44 // between two labels at the right
	sampleLength         = 70 // of a stroke in the legend
	letterDrop           = 12 // from the middle of a letter to its base line
)

// Sizes of letters in points.
const (
	titleSize = 36
	textSize  = 25
	valueSize = 27
	leastSize = 18
)

// The colours are dark on light. None of them says what its stroke and its name
// do not say as well.
const (
	paper = "#ffffff"
	ink   = "#1c2028"
	soft  = "#5a626e"
	faint = "#dde1e7"
	blue  = "#1052ba"
	brown = "#8f4700"
	red   = "#b01030"
	shade = "#fbe9e6"
)

// drawing is a chart on its way to a picture.
type drawing struct {
	Chart
	p      *charts.Painter
	from   time.Time
	values []float64 // ticks, the lowest first
}

func newDrawing(c Chart) *drawing {
	d := &drawing{Chart: c, p: charts.NewPainter(charts.PainterOptions{Width: width, Height: height}), from: c.Line[0].At}
	low, high := 0.0, c.Top
	for _, p := range append(slices.Clone(c.Line), c.Usual...) {
		low, high = math.Min(low, p.Value), math.Max(high, p.Value)
	}
	if c.HasLimit {
		high = math.Max(high, c.Limit)
	}
	d.values = valueTicks(low, high)
	return d
}

// x is where a time is, within the field.
func (d *drawing) x(t time.Time) int {
	share := t.Sub(d.from).Seconds() / d.Now.Sub(d.from).Seconds()
	return left + int(math.Round(math.Max(0, math.Min(1, share))*(width-left-right)))
}

// y is where a value is.
func (d *drawing) y(v float64) int {
	low, high := d.values[0], d.values[len(d.values)-1]
	return height - bottom - int(math.Round((v-low)/(high-low)*(height-top-bottom)))
}

// text writes from x on, around the height y.
func (d *drawing) text(s string, x, y int, size float64, colour string) {
	d.p.Text(s, x, y+letterDrop, 0, font(size, colour))
}

func (d *drawing) wide(s string, size float64) int {
	return d.p.MeasureText(s, 0, font(size, ink)).Width()
}

func font(size float64, colour string) charts.FontStyle {
	return charts.FontStyle{FontSize: size, FontColor: charts.ColorFromHex(colour)}
}

// fitted writes over the whole width, in smaller letters where it is long.
func (d *drawing) fitted(s string, y int, size float64, colour string) {
	const margin = 40
	for size > leastSize && d.wide(s, size) > width-2*margin {
		size--
	}
	d.text(s, margin, y, size, colour)
}

// stroke is how a line is drawn: whole, in dashes or in dots.
type stroke struct {
	colour string
	width  float64
	dashes []float64
}

func valueStroke() stroke { return stroke{blue, lineWidth, nil} }
func usualStroke() stroke { return stroke{brown, markWidth, []float64{24, 14}} }
func limitStroke() stroke { return stroke{red, markWidth, []float64{5, 11}} }

func (d *drawing) line(s stroke, points ...charts.Point) {
	if s.dashes == nil {
		d.p.LineStroke(points, charts.ColorFromHex(s.colour), s.width)
		return
	}
	d.p.DashedLineStroke(points, charts.ColorFromHex(s.colour), s.width, s.dashes)
}

// head writes what it is and what each stroke means.
func (d *drawing) head() {
	white := charts.ColorFromHex(paper)
	d.p.FilledRect(0, 0, width, height, white, white, 0)
	d.fitted(d.Title, 50, titleSize, ink)
	d.fitted(d.Where, 104, textSize, soft)
	x := 40
	add := func(name string, sample func(x, y int)) {
		const y = 156
		sample(x, y)
		d.text(name, x+sampleLength+14, y, textSize, ink)
		x += sampleLength + 14 + d.wide(name, textSize) + 40
	}
	sample := func(s stroke) func(x, y int) {
		return func(x, y int) { d.line(s, charts.Point{X: x, Y: y}, charts.Point{X: x + sampleLength, Y: y}) }
	}
	add("measured", sample(valueStroke()))
	if len(d.Usual) > 0 {
		add("usual", sample(usualStroke()))
	}
	if d.HasLimit {
		add("limit", sample(limitStroke()))
	}
	add("incident", func(x, y int) { d.hatch(x, y-18, x+sampleLength, y+18) })
}

// incident marks its span behind the lines.
func (d *drawing) incident() {
	end := d.Ended
	if end.IsZero() {
		end = d.Now
	}
	if d.Began.IsZero() || end.Before(d.from) {
		return
	}
	x1, x2 := d.x(d.Began), d.x(end)
	d.hatch(x1, top, max(x2, x1+4), height-bottom)
}

// hatch fills a box with slanted lines.
func (d *drawing) hatch(x1, y1, x2, y2 int) {
	fill := charts.ColorFromHex(shade)
	d.p.FilledRect(x1, y1, x2, y2, fill, fill, 0)
	edge := charts.ColorFromHex("#e2b7b1")
	for c := x1 - (y2 - y1); c < x2; c += hatchDistance {
		// The line goes up from (c, y2) to (c+y2-y1, y1), and is cut at both sides.
		a, b := max(c, x1), min(c+y2-y1, x2)
		if a < b {
			d.p.LineStroke([]charts.Point{{X: a, Y: y2 - (a - c)}, {X: b, Y: y2 - (b - c)}}, edge, 2)
		}
	}
	for _, x := range []int{x1, x2} {
		d.p.LineStroke([]charts.Point{{X: x, Y: y1}, {X: x, Y: y2}}, charts.ColorFromHex(soft), 2)
	}
}

// axes draws few labels and a line for each value.
func (d *drawing) axes() {
	for _, v := range d.values {
		y := d.y(v)
		d.p.LineStroke([]charts.Point{{X: left, Y: y}, {X: width - right, Y: y}}, charts.ColorFromHex(faint), 2)
		label := d.Format(v)
		d.text(label, left-16-d.wide(label, textSize), y, textSize, soft)
	}
	ticks, step := timeTicks(d.from, d.Now)
	const y = height - bottom
	for _, t := range ticks {
		x := d.x(t)
		d.p.LineStroke([]charts.Point{{X: x, Y: y}, {X: x, Y: y + 10}}, charts.ColorFromHex(soft), 3)
		label := clock(t, step)
		d.text(label, x-d.wide(label, textSize)/2, y+40, textSize, soft)
	}
	d.text("UTC", width-30-d.wide("UTC", textSize), y+40, textSize, soft)
}

// label is a value at the right end of its line.
type label struct {
	text, colour string
	y            int
}

// lines draws the values and writes the last of each beside it.
func (d *drawing) lines() {
	var labels []label
	end := func(v float64, colour string) {
		labels = append(labels, label{d.Format(v), colour, d.y(v)})
	}
	if d.HasLimit {
		d.line(limitStroke(), charts.Point{X: left, Y: d.y(d.Limit)}, charts.Point{X: width - right, Y: d.y(d.Limit)})
		end(d.Limit, red)
	}
	if n := len(d.Usual); n > 0 {
		d.curve(usualStroke(), d.Usual)
		end(d.Usual[n-1].Value, brown)
	}
	d.curve(valueStroke(), d.Line)
	last := d.Line[len(d.Line)-1]
	d.p.Circle(10, d.x(last.At), d.y(last.Value), charts.ColorFromHex(blue), charts.ColorFromHex(blue), 1)
	end(last.Value, blue)
	for _, l := range apart(labels) {
		d.text(l.text, width-right+18, l.y, valueSize, l.colour)
	}
}

// curve draws points, with a gap where nothing was known.
func (d *drawing) curve(s stroke, points []Point) {
	for _, stretch := range stretches(points) {
		line := make([]charts.Point, 0, len(stretch))
		for _, p := range stretch {
			line = append(line, charts.Point{X: d.x(p.At), Y: d.y(p.Value)})
		}
		d.line(s, line...)
	}
}

// apart moves labels that would cover each other.
func apart(labels []label) []label {
	slices.SortFunc(labels, func(a, b label) int { return cmp.Compare(a.y, b.y) })
	for i := 1; i < len(labels); i++ {
		labels[i].y = max(labels[i].y, labels[i-1].y+labelDistance)
	}
	for i := len(labels) - 1; i >= 0; i-- {
		most := height - bottom
		if i+1 < len(labels) {
			most = labels[i+1].y - labelDistance
		}
		labels[i].y = min(labels[i].y, most)
	}
	return labels
}
