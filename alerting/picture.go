package alerting

import (
	"context"
	"fmt"
	"time"

	"kvwatch/alerting/chart"
	"kvwatch/rules"
)

const (
	// mostPictures is how many pictures of one integration may wait. In a storm
	// nobody looks at more, and they must not pile up in memory.
	mostPictures = 16
	// pictureTimeout bounds the drawing and adding of one.
	pictureTimeout = 30 * time.Second
	// pictureSpan is how much of the past a picture shows at least, pictureLead
	// how much of it before the incident, and pictureMost how much at most.
	pictureSpan = 3 * time.Hour
	pictureLead = time.Hour
	pictureMost = 24 * time.Hour
)

// Past reads recorded series from from (inclusive) to to (exclusive), in the
// order of time.
type Past func(ctx context.Context, q rules.Query, from, to time.Time) ([]chart.Point, error)

// picture draws a chart and adds it to a message that arrived. drawn is false
// where there is nothing to draw.
type picture func(ctx context.Context) (drawn bool, err error)

// illustrator is a receiver that adds pictures to what it told.
//
// A message never waits for its picture and never fails with it. Pictures wait
// in memory only: one may be lost when the daemon is killed, or when too many
// wait. That one was asked for is noted in the notification log, so that none
// comes twice.
type illustrator interface {
	// picture returns what is to be added to a message that arrived, nil for
	// nothing. It is called once for each.
	picture(n Notification) picture
}

// addPicture asks for the picture of a message that arrived.
func (s *sender) addPicture(r Receiver, n Notification) {
	with, ok := r.(illustrator)
	if !ok {
		return
	}
	p := with.picture(n)
	if p == nil {
		return
	}
	select {
	case s.pictures <- p:
	default:
		s.d.metrics.charts.WithLabelValues(s.name, outcomeDropped).Inc()
	}
}

// illustrate draws what is asked for, beside the messages, until ctx ends or the
// sender is stopped.
func (s *sender) illustrate(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.gone:
			return
		case p := <-s.pictures:
			s.draw(ctx, p)
		}
	}
}

// drawAll draws what waits.
func (s *sender) drawAll(ctx context.Context) {
	for len(s.pictures) > 0 {
		s.draw(ctx, <-s.pictures)
	}
}

// draw draws one picture. What goes wrong with it is said in the log, and
// nowhere else.
func (s *sender) draw(ctx context.Context, p picture) {
	bounded, cancel := context.WithTimeout(ctx, pictureTimeout)
	defer cancel()
	drawn, err := func() (drawn bool, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("drawing panicked: %v", p)
			}
		}()
		return p(bounded)
	}()
	switch {
	case err != nil:
		s.d.metrics.charts.WithLabelValues(s.name, outcomeFailed).Inc()
		s.logger.Warn("A chart could not be added to a message, which itself arrived", "err", err)
	case drawn:
		s.d.metrics.charts.WithLabelValues(s.name, outcomeSuccess).Inc()
	}
}

// chartOf reads what the chart of an alert shows. ok is false for an alert that
// has none.
func chartOf(ctx context.Context, past Past, a rules.Alert, now time.Time) (c chart.Chart, ok bool, err error) {
	what, ok := rules.ChartOf(a)
	if !ok {
		return chart.Chart{}, false, nil
	}
	from := now.Add(-pictureSpan)
	if lead := began(a).Add(-pictureLead); lead.Before(from) {
		from = lead
	}
	if least := now.Add(-pictureMost); from.Before(least) {
		from = least
	}
	c = chart.Chart{
		Title: what.Title, Where: place(a.Labels), Limit: what.Limit, HasLimit: what.HasLimit,
		Began: began(a), Ended: a.ResolvedAt, Now: now, Format: scaleOf(what.Unit),
	}
	if what.Unit == "ratio" {
		c.Top = 1
	}
	if c.Line, err = past(ctx, what.Line, from, now); err != nil || what.Usual.Name == "" {
		return c, true, err
	}
	c.Usual, err = past(ctx, what.Usual, from, now)
	return c, true, err
}

// scaleOf writes the values at an axis: the title says units that are long.
func scaleOf(unit string) func(float64) string {
	return func(v float64) string {
		switch {
		case unit == "ratio", unit == "seconds":
			return quantity(v, unit)
		case v >= 1e6:
			return significant(v/1e6) + " M"
		case v >= 1e4:
			return significant(v/1e3) + " k"
		default:
			return significant(v)
		}
	}
}
