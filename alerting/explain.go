package alerting

import (
	"fmt"
	"strings"
	"time"
)

// Way is how an alert with given labels reaches people.
type Way struct {
	// Receiver is who is told.
	Receiver string
	// Route holds the matchers from the root down, Group the labels by which it
	// is grouped with their values.
	Route, Group string
	// GroupWait, GroupInterval, RepeatInterval are those in effect.
	GroupWait, GroupInterval, RepeatInterval time.Duration
	// Instead says that it is taken only where those before it fail.
	Instead bool
	// Quiet and Active are the route's mute_time_intervals and active_time_intervals.
	Quiet, Active []string
}

// Ways returns the ways that an alert with these labels takes, by the routes
// alone: what fires or is silenced at the time is not known here.
func (c Config) Ways(lbls map[string]string) []Way {
	var out []Way
	for i, step := range c.ways().of(lbls) {
		for _, n := range step {
			out = append(out, Way{
				Receiver: n.receiver, Route: n.key, Group: n.groupKey(n.groupLabels(lbls))[len(n.key)+1:], Instead: i > 0,
				GroupWait: n.groupWait, GroupInterval: n.groupInterval, RepeatInterval: n.repeatInterval,
				Quiet: n.muteTimes, Active: n.activeTimes,
			})
		}
	}
	return out
}

// InhibitedWhile says in words which alerts keep one with these labels from
// being told, by the inhibit_rules alone.
func (c Config) InhibitedWhile(lbls map[string]string) []string {
	var out []string
	for _, r := range c.inhibitRules() {
		if !matchAll(r.TargetMatchers, lbls) {
			continue
		}
		var sources []string
		for _, m := range r.SourceMatchers {
			sources = append(sources, m.m.String())
		}
		texts := []string{strings.Join(sources, " and ")}
		for _, name := range r.Equal {
			texts = append(texts, fmt.Sprintf("%s=%q", name, lbls[name]))
		}
		out = append(out, strings.Join(texts, ", "))
	}
	return out
}
