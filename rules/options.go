package rules

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
	"kvwatch/collector/history"
)

// Options are what an Engine needs. The zero value works: default pools, no
// overrides, nothing stored and nobody told.
type Options struct {
	// Pools are the configured pools. An engine that none of them claims falls
	// into the default pool "<job>/<model_name>".
	Pools []PoolConfig
	// Rules holds the overrides by alert name.
	Rules map[string]Override
	// ScrapeInterval sizes the windows kept in memory and says when a target is
	// stale; 0 is 15 s.
	ScrapeInterval time.Duration
	// Append stores derived series; stale lists those that had a value at the
	// Eval before and have none now. Both slices are valid until it returns.
	// nil stores nothing.
	Append func(ctx context.Context, at time.Time, samples []collector.Sample, stale []*collector.Series) error
	// Dispatch is given, at every Eval, all alerts that fire and those that
	// resolved within the last 15 minutes, as Prometheus sends them again and
	// again; pending ones are left out. The slice belongs to the receiver.
	// nil tells nobody.
	Dispatch func(ctx context.Context, now time.Time, alerts []Alert)
	// AlertsOnly leaves the derived series out: rules are judged by the windows
	// alone, so that a history is run through in less than half of the time.
	AlertsOnly bool
	// StateFile persists what detectors learned and which alerts are open; ""
	// keeps it in memory only.
	StateFile string
	// Journal is the file that keeps the events; "" keeps them in memory only.
	Journal string
	// ExternalURL is where people reach kvwatch; it begins runbook_url and
	// dashboard_url, without a slash at its end.
	ExternalURL string
	// Logger is told what an operator should know; nil is silent.
	Logger *slog.Logger
}

// ScanFunc reads stored series between two times (both inclusive), as
// history.Store.Scan does. It calls fn once or several times per series, in
// order of time.
type ScanFunc func(ctx context.Context, from, to time.Time, matchers []*labels.Matcher, fn func(ls labels.Labels, points []history.Point) error) error
