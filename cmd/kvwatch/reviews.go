package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"kvwatch/alerting"
	"kvwatch/dashboards/review"
	"kvwatch/dashboards/web"
	"kvwatch/rules"
	"kvwatch/rules/sizing"
)

const (
	// longestReview bounds the period of a scheduled review: a month.
	longestReview = 35 * 24 * time.Hour
	// reviewsKept is how many of a kind are kept, the newest.
	reviewsKept = 60
	// runsName is the file that says when each kind was made last.
	runsName = "runs.json"
	// reviewStamp is the time in a review's name.
	reviewStamp = "2006-01-02T150405Z"
)

// reviewer makes the scheduled reviews and digests: it keeps them in a folder and
// tells a receiver in a few lines.
type reviewer struct {
	dir         string
	externalURL string
	scan        rules.ScanFunc
	engine      *rules.Engine
	incidents   *incidentLog
	tell        func(receiver string, r alerting.Report) error
	log         *slog.Logger

	mu     sync.Mutex
	config *Config
	// runs are when each kind was made last, and by which time table.
	runs map[string]reviewRun
}

// reviewRun is when a kind was made.
type reviewRun struct {
	Cron string    `json:"cron"`
	At   time.Time `json:"at"`
}

// openReviewer makes the folder and reads when reviews were made last.
func openReviewer(r *reviewer) (*reviewer, error) {
	r.runs = map[string]reviewRun{}
	if err := os.MkdirAll(r.dir, 0o750); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(r.dir, runsName))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &r.runs)
	}
	if err != nil {
		r.log.Error("when reviews were made last cannot be read; the next ones go back by their schedule", "file", runsName, "err", err)
		r.runs = map[string]reviewRun{}
	}
	return r, nil
}

// reload takes plans, pools and schedules of a configuration.
func (r *reviewer) reload(c *Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.config = c
}

// last is when a kind was made last by this time table, zero where it was not.
func (r *reviewer) last(kind string, when *Cron) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.runs[kind]; when != nil && run.Cron == when.text {
		return run.At
	}
	return time.Time{}
}

// review is the job that `schedules.review` does, digest that of `schedules.digest`.
func (r *reviewer) review(ctx context.Context, now time.Time) error {
	return r.make(ctx, jobReview, now)
}

func (r *reviewer) digest(ctx context.Context, now time.Time) error {
	return r.make(ctx, jobDigest, now)
}

// make reviews the time since the last one, keeps it and tells of it.
func (r *reviewer) make(ctx context.Context, kind string, now time.Time) error {
	r.mu.Lock()
	c, run := r.config, r.runs[kind]
	r.mu.Unlock()
	schedule := c.Schedules.of(kind)
	if schedule == nil {
		return nil
	}
	begun := time.Now()
	made, err := r.over(ctx, c, period(schedule.Cron, run.At, now))
	if err != nil {
		return err
	}
	name := now.UTC().Format(reviewStamp) + "-" + kind
	if err := errors.Join(r.keep(name, made), r.prune(kind)); err != nil {
		return fmt.Errorf("keeping the %s: %w", kind, err)
	}
	report := alerting.Report{ID: kind + " " + now.UTC().Format(time.RFC3339), Kind: kind, Title: made.Title(), Lines: made.Summary, At: now}
	if kind == jobDigest {
		report.Title, report.Lines = made.DigestTitle(), made.Digest()
	}
	if r.externalURL != "" {
		report.Link = strings.TrimSuffix(r.externalURL, "/") + "/reviews/" + name + ".html"
	}
	r.log.Info("a review was made", "kind", kind, "name", name, "took", time.Since(begun).Round(time.Millisecond))
	return errors.Join(r.tell(schedule.Receiver, report), r.done(kind, reviewRun{schedule.Cron.text, now}))
}

// period is from the last run to now; of the first one, as long as the schedule
// has between two.
func period(when *Cron, last, now time.Time) timeRange {
	from := last
	if from.IsZero() || !from.Before(now) {
		next := when.Next(now)
		from = now.Add(-when.Next(next).Sub(next))
	}
	if oldest := now.Add(-longestReview); from.Before(oldest) {
		from = oldest
	}
	return timeRange{from, now}
}

// over reviews a period from the daemon's own history and from what it told.
func (r *reviewer) over(ctx context.Context, c *Config, span timeRange) (*review.Review, error) {
	m, err := rules.NewMeasurer(c.Pools, span.to.Sub(span.from))
	if err != nil {
		return nil, err
	}
	if err := m.Read(ctx, span.to, r.scan); err != nil {
		return nil, fmt.Errorf("reading what is reviewed: %w", err)
	}
	in := review.Input{
		From: span.from, To: span.to, Source: "kvwatch's own history and the alerts that it told", Slots: map[string][]sizing.Slot{},
		Incidents: r.incidents.between(span.from, span.to), MeasureLead: true,
		Learning: learning(r.engine), Journal: journalOf(r.engine.Events(span.from, span.to)),
	}
	for _, pool := range m.Pools() {
		in.Slots[pool] = m.Slots(pool)
	}
	in.Notes = holes(in.Slots, span)
	for _, p := range c.plans {
		in.Plans = append(in.Plans, p.review(span.to, m, r.engine.Growth).Live)
	}
	return review.New(in), nil
}

// journalOf is the journal as reviews have it.
func journalOf(events []rules.Event) []review.Event {
	var all []review.Event
	for _, e := range events {
		all = append(all, review.Event{At: e.At.UTC(), Kind: e.Kind, Pool: e.Pool, Text: e.Text})
	}
	return all
}

// learning says which detectors could not judge yet.
func learning(e *rules.Engine) []string {
	var all []string
	for _, d := range e.Detectors() {
		if d.Phase == rules.PhaseLearning {
			all = append(all, fmt.Sprintf("%s of pool %s: %s", d.Alert, d.Labels["pool"], d.Text))
		}
	}
	return all
}

// holes are times in which nothing was read of any pool.
func holes(slots map[string][]sizing.Slot, span timeRange) []string {
	var starts []time.Time
	for _, of := range slots {
		for _, s := range of {
			starts = append(starts, s.Start)
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	var all []string
	last := span.from
	for _, at := range append(starts, span.to) {
		if at.Sub(last) >= leastHole {
			all = append(all, fmt.Sprintf("nothing was read from %s to %s (%s)", utc(last), utc(at), age(at.Sub(last))))
		}
		last = at.Add(sizing.SlotLength)
	}
	if more := len(all) - shownNotes; more > 0 {
		all = append(all[:shownNotes], fmt.Sprintf("and %s more in which nothing was read", count(more, "time")))
	}
	return all
}

// keep writes a review in its three forms.
func (r *reviewer) keep(name string, made *review.Review) error {
	for ending, write := range map[string]func(io.Writer) error{"json": made.WriteJSON, "md": made.WriteMarkdown, "html": made.WriteHTML} {
		var b strings.Builder
		if err := write(&b); err != nil {
			return err
		}
		if err := replaceFile(filepath.Join(r.dir, name+"."+ending), []byte(b.String())); err != nil {
			return err
		}
	}
	return nil
}

// prune removes the oldest of a kind.
func (r *reviewer) prune(kind string) error {
	var errs []error
	for i, kept := range slices.DeleteFunc(r.list(), func(k web.KeptReview) bool { return k.Kind != kind }) {
		if i < reviewsKept {
			continue
		}
		for _, ending := range []string{"json", "md", "html"} {
			if err := os.Remove(filepath.Join(r.dir, kept.Name+"."+ending)); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// done notes that a kind was made.
func (r *reviewer) done(kind string, run reviewRun) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[kind] = run
	raw, err := json.MarshalIndent(r.runs, "", " ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(r.dir, runsName), append(raw, '\n'))
}

// list is what is kept, the newest first.
func (r *reviewer) list() []web.KeptReview {
	files, err := filepath.Glob(filepath.Join(r.dir, "*.json"))
	if err != nil {
		return nil // the pattern is ours
	}
	all := []web.KeptReview{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		stamp, kind, _ := strings.Cut(strings.Replace(name, "Z-", "Z\xff", 1), "\xff")
		if at, err := time.Parse(reviewStamp, stamp); err == nil && kind != "" {
			all = append(all, web.KeptReview{Name: name, Kind: kind, At: at})
		}
	}
	slices.SortFunc(all, func(a, b web.KeptReview) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Name, b.Name)) })
	return all
}

// read returns one form of a kept review.
func (r *reviewer) read(name, ending string) ([]byte, error) {
	if !slices.ContainsFunc(r.list(), func(k web.KeptReview) bool { return k.Name == name }) {
		return nil, fs.ErrNotExist
	}
	return os.ReadFile(filepath.Join(r.dir, name+"."+ending))
}

// replaceFile writes a file as a whole: a crash leaves the old one or the new one.
func replaceFile(path string, raw []byte) error {
	if err := os.WriteFile(path+".part", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}
