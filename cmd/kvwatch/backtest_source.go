package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	commoncfg "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"kvwatch/collector"
	"kvwatch/collector/history"
	"kvwatch/rules"
)

// serverRange is how far back a server is asked where no beginning is given.
const serverRange = 24 * time.Hour

// pastSource is one history that a backtest reads.
type pastSource interface {
	// span is what there is.
	span(ctx context.Context) (timeRange, error)
	// rounds hands on what lies in the range, in the order of time; an error of
	// sink ends it.
	rounds(ctx context.Context, in timeRange, sink func(*collector.Round) error) error
	// name is how the user named it.
	name() string
	Close() error
}

// gateways returns what the configuration knows of gateways beside their pages,
// by job.
func gateways(c *Config) func(*collector.Target) {
	byJob := map[string]collector.GatewaySettings{}
	for _, s := range c.ScrapeConfigs {
		byJob[s.JobName] = s.Gateway
	}
	return func(t *collector.Target) {
		if known, ok := byJob[t.Labels.Get(model.JobLabel)]; ok {
			t.Gateway = known
		} else if len(c.PrometheusSources) == 1 {
			t.Gateway = c.PrometheusSources[0].Gateway
		}
	}
}

// pastStorage is a time series database on disk.
type pastStorage struct {
	store    *history.Store
	path     string
	complete func(*collector.Target)
}

func openPastStorage(path string, c *Config) (pastSource, error) {
	store, err := history.Open(history.Options{Dir: path, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	return pastStorage{store, path, gateways(c)}, nil
}

func (p pastStorage) span(ctx context.Context) (timeRange, error) {
	from, to, err := p.store.Span(ctx)
	if err == nil && to.IsZero() {
		err = fmt.Errorf("storage path %s holds no series of vLLM or LiteLLM", p.path)
	}
	return timeRange{from, to}, err
}

func (p pastStorage) rounds(ctx context.Context, in timeRange, sink func(*collector.Round) error) error {
	return p.store.Rounds(ctx, history.RoundsOptions{From: in.from, To: in.to, Names: rules.Reads(), Complete: p.complete}, sink)
}

func (p pastStorage) name() string { return "storage path " + p.path }

func (p pastStorage) Close() error { return p.store.Close() }

// pastRecording is a recording.
type pastRecording struct {
	*collector.Recording

	path     string
	complete func(*collector.Target)
}

func openPastRecording(path string, c *Config) (pastSource, error) {
	r, err := collector.OpenRecording(path)
	if err != nil {
		return nil, err
	}
	return pastRecording{r, path, gateways(c)}, nil
}

func (p pastRecording) span(context.Context) (timeRange, error) {
	first, last := p.Span()
	return timeRange{first, last.Add(time.Millisecond)}, nil
}

func (p pastRecording) rounds(ctx context.Context, in timeRange, sink func(*collector.Round) error) error {
	intervals := map[string]time.Duration{}
	for i, t := range p.Targets() {
		intervals[t.URL] = p.Interval(p.Folders()[i])
	}
	return p.ReplayRange(ctx, collector.RecordingRange{From: in.from, To: in.to, Complete: func(t *collector.Target) {
		t.Interval = intervals[t.URL]
		p.complete(t)
	}}, sink)
}

func (p pastRecording) name() string { return "recording " + p.path }

// pastServer is a server with Prometheus's query API.
type pastServer struct {
	address string
	global  collector.GlobalConfig
	source  collector.PrometheusConfig
	now     time.Time
}

func openPastServer(address string, c *Config, now time.Time) (pastSource, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("--prometheus.url is no http:// or https:// address: write http://prometheus:9090")
	}
	p := pastServer{address: u.Redacted(), global: c.Global, source: collector.DefaultPrometheusConfig(), now: now}
	p.source.URL = &commoncfg.URL{URL: u}
	for _, known := range c.PrometheusSources {
		if known.URL.String() == u.String() {
			p.source = known
		}
	}
	if err := collector.CheckPrometheusConfig([]collector.PrometheusConfig{p.source}); err != nil {
		return nil, fmt.Errorf("--prometheus.url: %w", err)
	}
	return p, nil
}

func (p pastServer) span(context.Context) (timeRange, error) {
	return timeRange{p.now.Add(-serverRange), p.now}, nil
}

// rounds reads the server's past as the daemon does when it fills history back.
func (p pastServer) rounds(ctx context.Context, in timeRange, sink func(*collector.Round) error) error {
	source := p.source
	source.Backfill = model.Duration(in.to.Sub(in.from))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	hand := func(_ context.Context, r *collector.Round) {
		if ctx.Err() != nil || !r.Time.Before(in.to) || r.Time.Before(in.from) {
			return
		}
		if err := sink(r); err != nil {
			stop(err)
		}
	}
	server, err := collector.NewPrometheus(collector.PrometheusOptions{Global: p.global, Sources: []collector.PrometheusConfig{source}, Sink: hand})
	if err != nil {
		return err
	}
	err = server.Backfill(ctx, in.to, in.from, hand)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (p pastServer) name() string { return p.address }

func (p pastServer) Close() error { return nil }
