package alerting

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/alertmanager/timeinterval"
)

// TimeInterval is a set of times with a name, in Alertmanager's format: nights,
// weekends, holidays.
type TimeInterval struct {
	// Name is what routes refer to.
	Name string `yaml:"name"`
	// TimeIntervals are the times; any of them is enough.
	TimeIntervals []timeinterval.TimeInterval `yaml:"time_intervals"`
}

// UnmarshalYAML decodes and checks one entry of time_intervals.
func (t *TimeInterval) UnmarshalYAML(unmarshal func(any) error) error {
	type plain TimeInterval
	if err := unmarshal((*plain)(t)); err != nil {
		return plainError(err)
	}
	switch {
	case t.Name == "":
		return errors.New("time_intervals: an entry has no name: give it one, routes refer to it")
	case len(t.TimeIntervals) == 0:
		return fmt.Errorf("time_intervals: %q has no time_intervals: say at which times", t.Name)
	}
	return nil
}

// contains says whether t is one of the times.
func (t TimeInterval) contains(at time.Time) bool {
	return slices.ContainsFunc(t.TimeIntervals, func(i timeinterval.TimeInterval) bool { return i.ContainsTime(at.UTC()) })
}

// calendar holds the time intervals by name.
type calendar map[string]TimeInterval

func newCalendar(list []TimeInterval) calendar {
	out := calendar{}
	for _, t := range list {
		out[t.Name] = t
	}
	return out
}

// outside stands for the times in which a route with active_time_intervals is
// in none of them.
const outside = "outside of active_time_intervals"

// mutes returns the intervals that keep the route quiet, none when it is not.
func (c calendar) mutes(n *node, at time.Time) []string {
	var out []string
	for _, name := range n.muteTimes {
		if c[name].contains(at) {
			out = append(out, name)
		}
	}
	active := func(name string) bool { return c[name].contains(at) }
	if len(n.activeTimes) > 0 && !slices.ContainsFunc(n.activeTimes, active) {
		out = append(out, outside)
	}
	return out
}

// farthestEnd bounds how far ahead the end of a quiet time is looked for: over a
// week, so that the end of a long weekend is found.
const farthestEnd = 10 * 24 * time.Hour

// until returns when the route may speak again, zero when not within farthestEnd.
// Time intervals change at whole minutes only.
func (c calendar) until(n *node, from time.Time) time.Time {
	for at := from.Truncate(time.Minute).Add(time.Minute); at.Sub(from) < farthestEnd; at = at.Add(time.Minute) {
		if len(c.mutes(n, at)) == 0 {
			return at
		}
	}
	return time.Time{}
}
