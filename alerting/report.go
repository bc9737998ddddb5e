package alerting

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// reportsName is the file of the reports that wait.
	reportsName = "reports.json"
	// reportLife is how long a report is worth telling: the next one is due by then.
	reportLife = 24 * time.Hour
	// mostReports bounds how many wait; the oldest go first.
	mostReports = 100
)

// Report is a message that is no alert, such as a review or a daily digest. It
// goes by no route, nothing mutes it, and it never ends.
type Report struct {
	// ID names it for ever.
	ID string `json:"id"`
	// Kind says what it is, in one word.
	Kind string `json:"kind"`
	// Title is its first line.
	Title string `json:"title"`
	// Lines are its text, a statement each, without any markup.
	Lines []string `json:"lines"`
	// Link is where all of it is; empty when that is not known.
	Link string `json:"link,omitempty"`
	// At is the time that it was made.
	At time.Time `json:"at"`
	// Receiver is who is told.
	Receiver string `json:"receiver"`
}

// reporter is a receiver that takes messages that are no alerts.
type reporter interface {
	// Report sends one; what it returns is as Notify's. It may be called while
	// Notify is.
	Report(ctx context.Context, r Report, now time.Time) (retry bool, err error)
}

// waitingReport is one for one integration of a receiver.
type waitingReport struct {
	Report

	Integration string `json:"integration"`

	failures  int
	notBefore time.Time
}

// reports are those that wait to be told. They have a queue of their own, so that
// no alert waits for one.
type reports struct {
	dir    string
	logger *slog.Logger
	wake   chan struct{}

	mu      sync.Mutex
	waiting []*waitingReport
}

// openReports reads those that waited when the daemon ended. Where they cannot
// be read they are not told, and alerts go on.
func openReports(dir string, logger *slog.Logger) *reports {
	q := &reports{dir: dir, logger: logger, wake: make(chan struct{}, 1)}
	if dir == "" {
		return q
	}
	raw, err := os.ReadFile(filepath.Join(dir, reportsName))
	if errors.Is(err, fs.ErrNotExist) {
		return q
	}
	if err == nil {
		err = json.Unmarshal(raw, &q.waiting)
	}
	if err != nil {
		logger.Error("The reports that waited cannot be read and are not told", "file", reportsName, "err", err)
		q.waiting = nil
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(w *waitingReport) bool { return w == nil })
	return q
}

// add puts reports at the end of the queue.
func (q *reports) add(list []*waitingReport) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, list...)
	q.waiting = q.waiting[max(len(q.waiting)-mostReports, 0):]
	err := q.save()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return err
}

// save writes the queue. The caller holds mu.
func (q *reports) save() error {
	if q.dir == "" {
		return nil
	}
	raw, err := json.MarshalIndent(q.waiting, "", " ")
	if err != nil {
		return err
	}
	return replaceFile(q.dir, reportsName, append(raw, '\n'))
}

// next is the first report that may be tried at now, and else how long until one may.
func (q *reports) next(now time.Time) (*waitingReport, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	pause := longestPause
	for _, w := range q.waiting {
		wait := w.notBefore.Sub(now)
		if wait <= 0 || wait > longestRetryAfter { // longer than any: the clock was set back
			return w, 0
		}
		pause = min(pause, wait)
	}
	return nil, pause
}

// drop takes one out of the queue.
func (q *reports) drop(w *waitingReport) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(o *waitingReport) bool { return o == w })
	if err := q.save(); err != nil {
		q.logger.Error("The queue of reports cannot be written; after a restart some may be sent twice", "err", err)
	}
}

// later puts one off.
func (q *reports) later(w *waitingReport, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.failures++
	w.notBefore = until
}

// CheckReport says why a receiver cannot be told of reports; "" is the root
// route's, and may be none.
func (c Config) CheckReport(receiver string) error {
	if receiver = cmp.Or(receiver, c.firstReceiver()); receiver == "" {
		return nil
	}
	rc, err := c.receiver(receiver)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(rc.integrations, func(ic integrationConfig) bool { return ic.settings.traits().reports }) {
		return fmt.Errorf("receiver %q takes alerts alone: name one that tells people by a message", receiver)
	}
	return nil
}

// firstReceiver is that of the root route, "" where there is nobody to tell.
func (c Config) firstReceiver() string {
	switch {
	case c.Route != nil:
		return c.Route.Receiver
	case len(c.Receivers) > 0:
		return c.Receivers[0].Name
	default:
		return ""
	}
}

// Report tells a receiver of something that is no alert; "" is the root route's.
// It is kept until it was told, for a day at most, and tried again as alerts are.
// What may point at a person is taken out of it.
func (d *Dispatcher) Report(receiver string, r Report) error {
	r.Title = redact(r.Title)
	r.Lines = slices.Clone(r.Lines)
	for i := range r.Lines {
		r.Lines[i] = redact(r.Lines[i])
	}
	d.mu.Lock()
	r.Receiver = cmp.Or(receiver, d.reportsTo)
	var list []*waitingReport
	for _, id := range d.receivers[r.Receiver] {
		if d.senders[id].traitsNow().reports {
			list = append(list, &waitingReport{Report: r, Integration: id})
		}
	}
	d.mu.Unlock()
	if len(list) == 0 {
		return nil // CheckReport said so already, or there is nobody
	}
	return d.reports.add(list)
}

// tellReports sends what waits until ctx ends.
func (d *Dispatcher) tellReports(ctx context.Context) {
	for ctx.Err() == nil {
		timer := time.NewTimer(d.stepReports(ctx, time.Now()))
		select {
		case <-ctx.Done():
		case <-d.reports.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// stepReports sends what may be sent at now, and says when to look again.
func (d *Dispatcher) stepReports(ctx context.Context, now time.Time) time.Duration {
	for ctx.Err() == nil {
		w, pause := d.reports.next(now)
		if w == nil {
			return pause
		}
		d.report(ctx, w, now)
	}
	return 0
}

// report tries one.
func (d *Dispatcher) report(ctx context.Context, w *waitingReport, now time.Time) {
	logger := d.logger.With("integration", w.Integration, "report", w.ID)
	d.mu.Lock()
	s := d.senders[w.Integration]
	d.mu.Unlock()
	var to reporter
	if s != nil {
		to, _ = s.receiverNow().(reporter)
	}
	if to == nil {
		logger.Warn("A report is not sent: the configuration has its receiver no more")
		d.reports.drop(w)
		return
	}
	retry, err := attempt(ctx, d.timeout, func(bounded context.Context) (bool, error) { return to.Report(bounded, w.Report, now) })
	if err == nil {
		s.health.arrived(w.ID)
	} else {
		s.health.failed(w.ID, now, retry, err)
	}
	switch {
	case err == nil:
		d.metrics.count(w.Receiver, outcomeSuccess)
		d.reports.drop(w)
	case retry && now.Sub(w.At) < reportLife:
		pause := retryPause(w.failures+1, d.jitter(), err)
		d.reports.later(w, now.Add(pause))
		d.metrics.count(w.Receiver, outcomeRetried)
		logger.Warn("A report failed and will be tried again", "failures", w.failures, "pause", pause, "err", err)
	default:
		d.metrics.count(w.Receiver, outcomeFailed)
		s.health.drop(w.ID)
		d.reports.drop(w)
		logger.Error("A report was not told and is given up; it stays on the page", "err", err)
	}
}

// reportText is a report in lines, as terminal and mail have it.
func reportText(r Report) string {
	var b strings.Builder
	for _, l := range r.Lines {
		b.WriteString(l + "\n")
	}
	if r.Link != "" {
		b.WriteString("\n" + r.Link + "\n")
	}
	return b.String()
}
