package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kvwatch/collector"
	"kvwatch/collector/history"
)

// appender is what history stores with.
type appender interface {
	Append(ctx context.Context, at time.Time, samples []collector.Sample, stale []*collector.Series) error
	AppendRound(ctx context.Context, r *collector.Round) error
}

// historyWriter appends to history and keeps count of what it does not take. A
// full disk is told once when it begins and once when it is over: not once for
// each target and round.
type historyWriter struct {
	to      appender
	log     *slog.Logger
	failing atomic.Bool

	failures prometheus.Counter
	skipped  prometheus.Counter
}

func newHistoryWriter(to appender, reg prometheus.Registerer, log *slog.Logger) *historyWriter {
	w := &historyWriter{
		to: to, log: log,
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kvwatch_history_append_failures_total", Help: "Rounds that history could not store; what they held is lost to it.",
		}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kvwatch_history_skipped_samples_total", Help: "Samples that history refused while it took the rest of their round (out of order, or twice at one time).",
		}),
	}
	reg.MustRegister(w.failures, w.skipped)
	return w
}

// append stores what was derived. What fails is counted and logged here, so that
// the only error left is that of a context that ended.
func (w *historyWriter) append(ctx context.Context, at time.Time, samples []collector.Sample, stale []*collector.Series) error {
	return w.count(ctx, w.to.Append(ctx, at, samples, stale))
}

// appendRound stores what was scraped.
func (w *historyWriter) appendRound(ctx context.Context, r *collector.Round) {
	_ = w.count(ctx, w.to.AppendRound(ctx, r)) // of a context that ended
}

func (w *historyWriter) count(ctx context.Context, err error) error {
	if skipped, ok := errors.AsType[*history.SkippedError](err); ok {
		w.skipped.Add(float64(skipped.Skipped))
		w.log.Debug("history skipped samples", "err", err)
		err = nil
	}
	switch {
	case err == nil:
		if w.failing.CompareAndSwap(true, false) {
			w.log.Info("history is written again")
		}
	case ctx.Err() == nil:
		w.failures.Inc()
		if w.failing.CompareAndSwap(false, true) {
			w.log.Error("history cannot be written: rules and alerts go on, what is scraped meanwhile is lost to it", "err", err)
		}
		return nil
	}
	return err
}
