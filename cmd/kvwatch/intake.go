package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"kvwatch/collector"
	"kvwatch/collector/history"
)

// firstRounds is how long the logs of calls wait for the first round of scrapes.
const firstRounds = time.Minute

// lookBack is as far as a start looks for what history holds already: a day is
// longer than any window of the rules.
const lookBack = 24 * time.Hour

// intake is every way in: pages that are scraped, pages that were recorded,
// servers that have scraped them already, and calls that a gateway logged.
type intake struct {
	collector  *collector.Collector
	replay     *collector.Replay
	prometheus *collector.Prometheus
	spendLogs  *collector.SpendLogs
	log        *slog.Logger
}

// newIntake makes the ways in that the configuration names; each hands its
// rounds to sink, and calls to calls.
func newIntake(c *Config, sink func(context.Context, *collector.Round), calls func(*collector.CallRound), log *slog.Logger) (*intake, error) {
	in := intake{log: log}
	var err error
	if in.collector, err = collector.New(collector.Options{Global: c.Global, Scrapes: c.ScrapeConfigs, Sink: sink, Logger: log}); err != nil {
		return nil, err
	}
	if in.replay, err = collector.NewReplay(collector.ReplayOptions{
		Scrapes: c.ScrapeConfigs, Sink: sink, Taken: in.collector.Scrapes, Logger: log,
	}); err != nil {
		return nil, err
	}
	if in.spendLogs, err = collector.NewSpendLogs(collector.SpendLogsOptions{
		Configs: c.SpendLogs, Sink: func(_ context.Context, r *collector.CallRound) { calls(r) }, Logger: log,
	}); err != nil {
		return nil, err
	}
	if in.prometheus, err = collector.NewPrometheus(collector.PrometheusOptions{
		Global: c.Global, Sources: c.PrometheusSources, Sink: sink, Taken: in.collector.Scrapes, Logger: log,
	}); err != nil {
		return nil, err
	}
	return &in, nil
}

// fill brings history up to now from the servers that have one. What cannot be
// had is told and left out: the rules then learn from now on.
func (in *intake) fill(ctx context.Context, now time.Time, store *history.Store) error {
	since, err := newest(ctx, now, store)
	if err != nil {
		return err
	}
	refused := 0
	err = in.prometheus.Backfill(ctx, now, since, func(ctx context.Context, r *collector.Round) {
		if err := store.AppendRound(ctx, r); err != nil {
			refused++
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil || refused > 0 {
		in.log.Warn("history was not filled back whole; the rules learn from what there is", "rounds_refused", refused, "err", err)
	}
	return nil
}

// newest is just after the last sample that history holds of any target, as
// far as the rules look back; zero when it holds none. The servers themselves do
// not count: they are targets also while nothing is known of those behind them.
func newest(ctx context.Context, now time.Time, store *history.Store) (time.Time, error) {
	var last int64
	up := []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, collector.Up),
		labels.MustNewMatcher(labels.MatchNotEqual, model.JobLabel, collector.PrometheusJob),
	}
	err := store.Scan(ctx, now.Add(-lookBack), now, up, func(_ labels.Labels, points []history.Point) error {
		last = max(last, points[len(points)-1].T)
		return nil
	})
	if last == 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(last + 1), err
}

// catchUp plays what is to be played as fast as it goes. tick is called at every
// step of its own time. It comes before run: history takes no samples that are
// older than the newest.
func (in *intake) catchUp(ctx context.Context, step time.Duration, tick func(context.Context, time.Time)) error {
	return named("recordings", in.replay.CatchUp(ctx, time.Now(), step, func(now time.Time) error {
		tick(ctx, now)
		return ctx.Err() // nothing may have been recorded for weeks
	}))
}

// run reads until ctx ends or one of the ways fails.
func (in *intake) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return named("collector", in.collector.Run(ctx)) })
	group.Go(func() error { return named("recordings", in.replay.Run(ctx)) })
	group.Go(func() error {
		in.awaitPools(ctx)
		return named("spend_logs", in.spendLogs.Run(ctx))
	})
	group.Go(func() error { return named("prometheus_sources", in.prometheus.Run(ctx)) })
	return group.Wait()
}

// awaitPools waits until each target was tried, so that pools are known when
// calls come; not for ever, because they may also be known by their names.
func (in *intake) awaitPools(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstRounds)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for !in.ready() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// reload takes a new configuration; where a part of it is wrong that part does
// not change.
func (in *intake) reload(c *Config) error {
	if err := in.replay.Reload(c.ScrapeConfigs); err != nil {
		return fmt.Errorf("recordings: %w", err)
	}
	if err := in.collector.Reload(c.Global, c.ScrapeConfigs); err != nil {
		return fmt.Errorf("scrape_configs: %w", err)
	}
	if err := in.spendLogs.Reload(c.SpendLogs); err != nil {
		return fmt.Errorf("spend_logs: %w", err)
	}
	if err := in.prometheus.Reload(c.Global, c.PrometheusSources); err != nil {
		return fmt.Errorf("prometheus_sources: %w", err)
	}
	return nil
}

// targets lists the targets of all ways in order of job and instance.
func (in *intake) targets() []collector.TargetStatus {
	all := slices.Concat(in.collector.Targets(), in.replay.Targets(), in.prometheus.Targets(), in.spendLogs.Targets())
	slices.SortStableFunc(all, func(a, b collector.TargetStatus) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Instance, b.Instance))
	})
	return all
}

// ready says whether every known target was tried once.
func (in *intake) ready() bool { return in.collector.Ready() && in.prometheus.Ready() }

// close gives back what the ways hold.
func (in *intake) close() error { return in.replay.Close() }
