package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/cmd/fleetsim/scrape"
	"kvwatch/collector"
)

// pastOptions are the flags of what is written in simulated time.
type pastOptions struct {
	config   fleet.Config
	days     float64
	interval time.Duration
	start    string
	path     string
	// spendLogs is where the gateway's table of calls is exported to, empty for
	// nowhere.
	spendLogs string
}

// flags are those that both commands have.
func (o *pastOptions) flags(cmd *kingpin.CmdClause) {
	cmd.Flag("scenario", "What happens: "+strings.Join(scenarioNames(), ", ")+".").Default("healthy_week").EnumVar(&o.config.Scenario, scenarioNames()...)
	cmd.Flag("profile", "Hardware and workload; that of the scenario when left out.").EnumVar(&o.config.Profile, profileNames()...)
	cmd.Flag("engines", "Number of engines; that of the scenario when left out.").IntVar(&o.config.Engines)
	cmd.Flag("seed", "Equal seeds give equal runs.").Default("1").Uint64Var(&o.config.Seed)
	cmd.Flag("days", "Length in days, as in 0.5; that of the scenario when left out.").Float64Var(&o.days)
	cmd.Flag("scrape-interval", "Time between two scrapes.").Default(scrape.Interval.String()).DurationVar(&o.interval)
	cmd.Flag("spend-logs", "Where the calls are written to as well, as an export of the gateway's table of calls: a new .csv or .csv.zst, as backtest --spend-logs reads it.").StringVar(&o.spendLogs)
	cmd.Flag("start", "Time at which it begins: RFC 3339 or Unix seconds.").Default("2026-01-01T00:00:00Z").StringVar(&o.start)
}

// historyCommand writes a time series database.
func historyCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("history", "Writes what a Prometheus would have stored of a simulated fleet, in simulated time.")
	var o pastOptions
	o.flags(cmd)
	cmd.Flag("storage.path", "Folder of the database; it must be empty or new.").Required().StringVar(&o.path)
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		if entries, err := os.ReadDir(o.path); err == nil && len(entries) > 0 {
			return fmt.Errorf("storage path %s is not empty: blocks of the same time would overlap", o.path)
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("storage path: %w", err)
		}
		f, past, err := o.open()
		if err != nil {
			return err
		}
		samples, err := scrape.WriteBlocks(ctx, f.Fleet, o.path, past)
		if err := errors.Join(err, f.close()); err != nil {
			return err
		}
		return o.tell(stdout, f, past, fmt.Sprintf("%d samples", samples))
	}
}

// recordCommand writes a recording.
func recordCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("record", "Writes a recording of a simulated fleet, in simulated time.")
	var o pastOptions
	o.flags(cmd)
	cmd.Arg("path", "Where to: a directory, or an archive that ends in .tar.zst. It must not exist.").Required().StringVar(&o.path)
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		f, past, err := o.open()
		if err != nil {
			return err
		}
		recorder, err := collector.NewRecorder(o.path)
		if err != nil {
			return errors.Join(err, f.close())
		}
		err = scrape.Record(ctx, f.Fleet, recorder, past)
		if err := errors.Join(err, recorder.Close(), f.close()); err != nil {
			return err
		}
		done := recorder.Progress()
		return o.tell(stdout, f, past, fmt.Sprintf("%d pages and %d failed scrapes", done.Pages, done.Failed))
	}
}

// pastFleet is a fleet and, where one was asked for, the log of its calls.
type pastFleet struct {
	*fleet.Fleet

	calls *scrape.SpendLogs
}

// close ends the log.
func (f *pastFleet) close() error {
	if f.calls == nil {
		return nil
	}
	return f.calls.Close()
}

// open makes the fleet, and says what of it is written.
func (o *pastOptions) open() (*pastFleet, scrape.Past, error) {
	past := scrape.Past{Interval: o.interval}
	if o.days < 0 || o.interval < time.Second {
		return nil, past, fmt.Errorf("--days=%g --scrape-interval=%s: give a positive number of days, and at least 1s", o.days, o.interval)
	}
	start, err := parseTime(o.start)
	if err != nil {
		return nil, past, fmt.Errorf("--start: %w", err)
	}
	o.config.Start = start
	f := &pastFleet{}
	if o.spendLogs != "" {
		o.config.Observe = func(c fleet.CallRecord) {
			if f.calls != nil { // not of the time before the beginning
				f.calls.Take(c)
			}
		}
	}
	if f.Fleet, err = fleet.New(o.config); err != nil {
		return nil, past, err
	}
	if o.spendLogs != "" {
		if f.calls, err = scrape.CreateSpendLogs(o.spendLogs, f.Config()); err != nil {
			return nil, past, err
		}
	}
	past.Length = time.Duration(o.days * 24 * float64(time.Hour))
	if past.Length == 0 {
		past.Length = f.Scenario().Length
	}
	return f, past, nil
}

// tell says what was written, and what happens in it.
func (o *pastOptions) tell(stdout io.Writer, f *pastFleet, past scrape.Past, what string) error {
	start, s := f.Config().Start, f.Scenario()
	_, err := fmt.Fprintf(stdout, "%s from %s to %s in %s\n", what, stamp(start), stamp(start.Add(past.Length)), o.path)
	if f.calls != nil {
		fmt.Fprintf(stdout, "%d calls in %s\n", f.calls.Calls(), o.spendLogs)
	}
	for _, i := range append([]fleet.Incident{s.Incident}, s.Later...) {
		if i.Onset == 0 || i.Onset > past.Length {
			continue
		}
		text := "an event that is no incident"
		if i.Cause != "" {
			text = "cause " + i.Cause
		}
		fmt.Fprintf(stdout, "incident at %s, %s", stamp(start.Add(i.Onset)), text)
		if i.End > 0 {
			fmt.Fprintf(stdout, ", until %s", stamp(start.Add(i.End)))
		}
		if len(i.Affected) > 0 {
			fmt.Fprintf(stdout, ", at engines %v", i.Affected)
		}
		fmt.Fprintln(stdout)
	}
	history := f.History()
	for _, q := range history.Queues {
		fmt.Fprintf(stdout, "sustained queue from %s", stamp(start.Add(q.Begin)))
		if q.End > 0 {
			fmt.Fprintf(stdout, " to %s", stamp(start.Add(q.End)))
		}
		fmt.Fprintln(stdout)
	}
	return err
}
