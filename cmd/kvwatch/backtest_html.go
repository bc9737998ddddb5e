package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"kvwatch/rules"
)

//go:embed backtest.html
var backtestPage string

const (
	// The timeline is drawn in these units; the page scales it.
	timelineWidth = 1000
	timelineLabel = 300
	timelineRow   = 22
	timelineTicks = 6
	// leastBar keeps a short alert visible.
	leastBar = 3
)

// timeline is a backtest as a picture: one line for each alert and subject.
type timeline struct {
	Width, Height, Label int
	Rows                 []timelineLine
	Ticks                []timelineTick
}

// timelineLine is one line of the picture. Y is its top.
type timelineLine struct {
	Name, About string
	Y           int
	Bars        []timelineBar
}

// timelineBar is one alert: a thin line from the onset, a bar from when it fired.
// Class says what it is, and how it is drawn.
type timelineBar struct {
	Onset, X, Width float64
	Class, Title    string
}

type timelineTick struct {
	X    float64
	Text string
}

// writeBacktestHTML writes a page that needs nothing beside itself.
func writeBacktestHTML(w io.Writer, out backtestOutput, notes []string) error {
	page, err := template.New("backtest").Parse(backtestPage)
	if err != nil {
		return err
	}
	type row struct {
		Cells    []string
		Severity string
		Evidence rules.Evidence
		Summary  string
	}
	data := struct {
		From, To, Length, Samples string
		Timeline                  timeline
		Rows                      []row
		Set                       string
		Compared                  [][]string
		Notes                     []string
	}{From: utc(out.From), To: utc(out.To), Length: age(out.To.Sub(out.From)), Samples: count(int(out.Samples), "sample"), Timeline: newTimeline(out), Notes: notes}
	for _, a := range out.Alerts {
		data.Rows = append(data.Rows, row{a.cells(), a.Severity, a.Evidence, cmp.Or(a.summary, a.Evidence.Seen)})
	}
	if out.WithoutSet != nil {
		data.Set = strings.Join(out.WithoutSet.Set, ", ")
		for _, c := range compare(out.WithoutSet.Alerts, out.Alerts) {
			data.Compared = append(data.Compared, []string{c.name, c.about, fmt.Sprint(c.without), fmt.Sprint(c.with), c.shift()})
		}
	}
	return page.Execute(w, data)
}

func newTimeline(out backtestOutput) timeline {
	t := timeline{Width: timelineWidth, Label: timelineLabel}
	length := max(out.To.Sub(out.From), time.Second)
	place := func(at time.Time) float64 {
		share := at.Sub(out.From).Seconds() / length.Seconds()
		return timelineLabel + min(max(share, 0), 1)*(timelineWidth-timelineLabel)
	}
	bar := func(onset, from, to time.Time, class, title string) timelineBar {
		if to.IsZero() {
			to = out.To
		}
		x := min(place(from), timelineWidth-leastBar)
		return timelineBar{Onset: min(place(onset), x), X: x, Width: max(place(to)-x, leastBar), Class: class, Title: title}
	}
	lines := map[string]*timelineLine{}
	line := func(name, about string) *timelineLine {
		key := name + "\xff" + about
		if lines[key] == nil {
			lines[key] = &timelineLine{Name: name, About: about}
		}
		return lines[key]
	}
	for pool, spans := range out.queues {
		for _, s := range spans {
			l := line("sustained queue", pool)
			l.Bars = append(l.Bars, bar(s.from, s.from, s.to, "queue", "sustained queue from "+utc(s.from)))
		}
	}
	for _, a := range out.Alerts {
		end := time.Time{}
		if a.ResolvedAt != nil {
			end = *a.ResolvedAt
		}
		l := line(a.Name, a.about())
		l.Bars = append(l.Bars, bar(a.ActiveAt, a.FiredAt, end, a.Severity,
			fmt.Sprintf("%s (%s), fired %s, lasted %s", a.Name, a.Severity, utc(a.FiredAt), a.lasted())))
	}
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		l := lines[key]
		l.Y = len(t.Rows) * timelineRow
		t.Rows = append(t.Rows, *l)
	}
	t.Height = (len(t.Rows) + 1) * timelineRow
	layout := "15:04:05"
	if length > 24*time.Hour {
		layout = "01-02 15:04"
	}
	for i := range timelineTicks {
		at := out.From.Add(length * time.Duration(i) / timelineTicks)
		t.Ticks = append(t.Ticks, timelineTick{place(at), at.UTC().Format(layout)})
	}
	return t
}
