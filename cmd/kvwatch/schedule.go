package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"kvwatch/alerting"
)

// Schedules is `schedules`: when what is done by the clock is done.
type Schedules struct {
	// Sizing is when the plans are worked out again from what was measured.
	Sizing *Cron `yaml:"sizing,omitempty"`
	// Review is when the capacity review of the time since the last one is made.
	Review *ReviewSchedule `yaml:"review,omitempty"`
	// Digest is when the same time is told of in a few lines.
	Digest *ReviewSchedule `yaml:"digest,omitempty"`
}

// ReviewSchedule is when a review is made and who is told: a time table alone, or
// a mapping.
type ReviewSchedule struct {
	Cron *Cron `yaml:"cron"`
	// Receiver is told; left out, the root route's.
	Receiver string `yaml:"receiver,omitempty"`
}

// UnmarshalYAML takes both forms.
func (s *ReviewSchedule) UnmarshalYAML(unmarshal func(any) error) error {
	var text string
	if err := unmarshal(&text); err == nil {
		return unmarshal(&s.Cron)
	}
	type plain ReviewSchedule
	if err := unmarshal((*plain)(s)); err != nil {
		return err
	}
	if s.Cron == nil {
		return errors.New(`schedules: cron is missing: say when, as in cron: "0 8 * * MON"`)
	}
	return nil
}

// of is the schedule of a kind of review, nil where there is none.
func (s Schedules) of(kind string) *ReviewSchedule {
	if kind == jobDigest {
		return s.Digest
	}
	return s.Review
}

// check finds receivers that are not there.
func (s Schedules) check(c alerting.Config) error {
	var errs []error
	for _, kind := range []string{jobReview, jobDigest} {
		schedule := s.of(kind)
		if schedule == nil {
			continue
		}
		err := c.CheckReport(schedule.Receiver)
		switch {
		case err == nil:
		case schedule.Receiver == "":
			errs = append(errs, fmt.Errorf("schedules: %s: the root route's %w, as in %s: {cron: ..., receiver: ...}", kind, err, kind))
		default:
			errs = append(errs, fmt.Errorf("schedules: %s: receiver: %w", kind, err))
		}
	}
	return errors.Join(errs...)
}

// UnmarshalYAML decodes strictly; what is left out keeps its default.
func (s *Schedules) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Schedules
	*s = defaultSchedules()
	return unmarshal((*plain)(s))
}

// defaultSchedules are those of a configuration that says nothing.
func defaultSchedules() Schedules {
	quarter, err := parseCron("*/15 * * * *")
	if err != nil {
		panic(err) // the expression is ours
	}
	return Schedules{Sizing: quarter}
}

// Cron is a time table: five fields (minute, hour, day of the month, month, day
// of the week), or @hourly, @daily, @weekly, @every 1h. CRON_TZ=Europe/Madrid in
// front sets the time zone, else it is the daemon's.
type Cron struct {
	text  string
	times cron.Schedule
}

// String is the expression as it was written.
func (c *Cron) String() string { return c.text }

// Next is the first time after t, zero where there is none.
func (c *Cron) Next(t time.Time) time.Time { return c.times.Next(t) }

// UnmarshalYAML decodes and checks the expression.
func (c *Cron) UnmarshalYAML(unmarshal func(any) error) error {
	var text string
	if err := unmarshal(&text); err != nil {
		return err
	}
	parsed, err := parseCron(text)
	if err != nil {
		return fmt.Errorf("schedules: %q: %w", text, err)
	}
	*c = *parsed
	return nil
}

// MarshalYAML writes the expression as it was read.
func (c *Cron) MarshalYAML() (any, error) { return c.text, nil }

// parseCron reads an expression, and refuses one that no day fits.
func parseCron(text string) (*Cron, error) {
	zone, _, found := strings.Cut(text, " ")
	if strings.Contains(zone, "TZ=") && !found { // which the library does not survive
		return nil, errors.New("a time zone alone is no time table: write CRON_TZ=Europe/Madrid 0 8 * * MON")
	}
	times, err := cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("%w; write minute, hour, day of the month, month and day of the week, as in */15 * * * *", err)
	}
	c := &Cron{text: text, times: times}
	if c.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() { // a leap year begins: any date comes within five years
		return nil, errors.New("there is no such day")
	}
	return c, nil
}

// setSchedules gives every job of the daemon the schedule of the configuration.
func (d *daemon) setSchedules(s Schedules) {
	now := time.Now()
	d.scheduler.set(jobSizing, s.Sizing, now)
	for _, kind := range []string{jobReview, jobDigest} {
		var when *Cron
		if schedule := s.of(kind); schedule != nil {
			when = schedule.Cron
		}
		d.scheduler.set(kind, when, now)
		d.scheduler.catchUp(kind, d.reviews.last(kind, when), now)
	}
}

// The jobs that have a schedule.
const (
	jobSizing = "sizing"
	jobReview = "review"
	jobDigest = "digest"
)
