package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"kvwatch/collector"
	"kvwatch/rules"
)

const (
	// leastHole is the time without any scrape that is told as a hole.
	leastHole = 10 * time.Minute
	// shownNotes bounds what is told of one kind.
	shownNotes = 5
)

// backtest runs rules by the clock of a history: what is scraped is observed,
// and between two scrapes the rules are evaluated as often as live.
type backtest struct {
	span timeRange
	// asked says which bounds of span the user gave.
	asked struct{ from, to bool }
	step  time.Duration
	sets  []string
	// variants are the rules with what --set changed, then those without.
	variants []*variant
	calls    *collector.SpendLogsFile
	queues   *queueWatch
	bar      *bar
	// measurer measures the period besides, for a review; nil measures nothing.
	measurer *rules.Measurer

	// next is when rules are evaluated next, read when the log of calls is read.
	next, read  time.Time
	first, last time.Time
	samples     int64
	holes       []timeRange
	unread      map[string]unread
}

// unread counts scrapes of a target that nothing could be read of.
type unread struct {
	scrapes int
	reason  string
}

// variant is one set of rules and what it told.
type variant struct {
	engine *rules.Engine
	alerts []backtestAlert
	// seen finds an alert by its labels and when it fired.
	seen map[string]int
}

// keep takes what would have been sent. Each incident is kept as it was told
// first; when it was over is added.
func (v *variant) keep(_ context.Context, _ time.Time, alerts []rules.Alert) {
	for _, a := range alerts {
		if a.Name == rules.Watchdog {
			continue
		}
		key := a.Key() + a.FiredAt.String()
		i, known := v.seen[key]
		if !known {
			i = len(v.alerts)
			v.seen[key] = i
			v.alerts = append(v.alerts, newBacktestAlert(a))
		}
		if a.State == rules.StateResolved {
			v.alerts[i].ResolvedAt = new(a.ResolvedAt)
		}
	}
}

func newBacktestAlert(a rules.Alert) backtestAlert {
	b := backtestAlert{
		Name: a.Name, Severity: a.Severity, Labels: a.Labels, ActiveAt: a.ActiveAt.UTC(), FiredAt: a.FiredAt.UTC(),
		Evidence: a.Evidence, summary: a.Annotations["summary"],
	}
	if a.Evidence.Cause != "" {
		b.Cause = new(a.Evidence.Cause)
	}
	return b
}

// run reads the range, and what lies before it for the rules to learn from.
func (t *backtest) run(ctx context.Context, past pastSource) error {
	in := timeRange{t.span.from.Add(-leadIn), t.span.to}
	err := readAhead(ctx, past, in, func(r *collector.Round) error { return t.observe(ctx, r) })
	t.bar.end()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted at %s", utc(t.last))
	case err != nil:
		return err
	case t.last.IsZero() || t.last.Before(t.span.from):
		return fmt.Errorf("%s holds no series of vLLM or LiteLLM between %s and %s", past.name(), utc(t.span.from), utc(t.span.to))
	}
	return t.tick(ctx) // what was scraped last is judged too
}

// observe takes one round.
func (t *backtest) observe(ctx context.Context, r *collector.Round) error {
	if t.first.IsZero() {
		t.first = r.Time
		t.next = r.Time.Truncate(t.step).Add(t.step)
	}
	for r.Time.After(t.next) {
		if err := t.tick(ctx); err != nil {
			return err
		}
	}
	if gap := r.Time.Sub(t.last); !t.last.IsZero() && gap >= leastHole {
		t.holes = append(t.holes, timeRange{t.last, r.Time})
	}
	t.last = r.Time
	t.samples += int64(r.Len())
	t.note(r)
	t.queues.observe(r)
	t.measure(r)
	for _, v := range t.variants {
		v.engine.Observe(r)
	}
	return nil
}

// note counts what cannot be read, other than targets that were down.
func (t *backtest) note(r *collector.Round) {
	if slices.Contains([]collector.State{collector.StateUp, collector.StateDown, collector.StateTimeout, collector.StateUnknown}, r.State) {
		return
	}
	if t.unread == nil {
		t.unread = map[string]unread{}
	}
	name := r.Target.Labels.Get(model.JobLabel) + "/" + r.Target.Labels.Get(model.InstanceLabel)
	t.unread[name] = unread{t.unread[name].scrapes + 1, fmt.Sprintf("%s: %s", r.State, r.Reason)}
}

// tick evaluates the rules once and sets the clock on.
func (t *backtest) tick(ctx context.Context) error {
	now := t.next
	t.next = now.Add(t.step)
	t.bar.show(now)
	t.readCalls(now)
	for _, v := range t.variants {
		if err := v.engine.Eval(ctx, now); err != nil {
			return fmt.Errorf("evaluating at %s: %w", utc(now), err)
		}
	}
	t.queues.place(t.variants[0].engine)
	if t.measurer != nil {
		t.measurer.ObserveSessions(t.variants[0].engine)
	}
	return nil
}

// readCalls gives the rules what a read of the log of calls would have found,
// when it is due.
func (t *backtest) readCalls(now time.Time) {
	if t.calls == nil || now.Before(t.read) {
		return
	}
	t.read = now.Add(callsInterval)
	round := t.calls.Read(callsName, now)
	for _, v := range t.variants {
		v.engine.ObserveCalls(round)
	}
}

// report is what came of it.
func (t *backtest) report() backtestOutput {
	out := backtestOutput{From: t.span.from.UTC(), To: t.span.to.UTC(), Samples: t.samples, Alerts: t.told(t.variants[0]), queues: t.queues.spans()}
	if !t.asked.from {
		out.From = t.first.UTC()
	}
	if !t.asked.to {
		out.To = t.last.UTC()
	}
	if len(t.variants) > 1 {
		out.WithoutSet = &backtestComparison{Set: t.sets, Alerts: t.told(t.variants[1])}
	}
	return out
}

// told lists the alerts that fired within the range, in the order in which they did.
func (t *backtest) told(v *variant) []backtestAlert {
	all := []backtestAlert{}
	for _, a := range v.alerts {
		if a.ResolvedAt != nil && a.ResolvedAt.Before(t.span.from) {
			continue
		}
		if lead, ok := t.queues.lead(a.Labels, a.FiredAt); ok {
			a.LeadSeconds = new(lead.Seconds())
		}
		all = append(all, a)
	}
	slices.SortStableFunc(all, func(a, b backtestAlert) int {
		return cmp.Or(a.FiredAt.Compare(b.FiredAt), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// notes are what a person should know beside the alerts.
func (t *backtest) notes() []string {
	all := t.faults()
	for _, d := range t.variants[0].engine.Detectors() {
		if d.Phase == rules.PhaseLearning {
			all = append(all, fmt.Sprintf("%s of pool %s was still learning at the end: %s", d.Alert, d.Labels["pool"], d.Text))
		}
	}
	return all
}

// faults are what is wrong with the record: holes, targets that could not be
// read, rows that could not.
func (t *backtest) faults() []string {
	var all []string
	for i, h := range t.holes {
		if i == shownNotes {
			all = append(all, fmt.Sprintf("and %s more without any scrape", count(len(t.holes)-i, "time")))
			break
		}
		all = append(all, fmt.Sprintf("nothing was scraped from %s to %s (%s)", utc(h.from), utc(h.to), age(h.to.Sub(h.from))))
	}
	for i, name := range slices.Sorted(maps.Keys(t.unread)) {
		if i == shownNotes {
			all = append(all, fmt.Sprintf("and %s more that could not be read", count(len(t.unread)-i, "target")))
			break
		}
		u := t.unread[name]
		all = append(all, fmt.Sprintf("%s: %s could not be read; the last: %s", name, count(u.scrapes, "scrape"), u.reason))
	}
	if t.calls != nil && t.calls.Skipped > 0 {
		all = append(all, fmt.Sprintf("%s of the spend logs could not be read; the first: %s", count(t.calls.Skipped, "row"), t.calls.FirstSkipped))
	}
	if t.calls != nil && t.calls.Len() == 0 {
		all = append(all, "no call of the spend logs ended in this time: are they of the same time as the history?")
	}
	return all
}
