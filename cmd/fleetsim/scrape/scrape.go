// Package scrape reads the pages of a simulated fleet in simulated time, as a
// collector reads those of a real one: as rounds, without text and sockets.
package scrape

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/collector"
)

// Interval is the time between two scrapes of a target: that of the simulator's
// own looks at itself, and the usual one.
const Interval = 15 * time.Second

// Jobs of the targets.
const (
	EngineJob  = "vllm"
	GatewayJob = "litellm"
)

// page is one page of the fleet and what a collector knows of it.
type page struct {
	collector.Target

	version string
	read    func(*fleet.Snapshot) error
	write   func(io.Writer) error
}

// pages are those of all engines, those that are built later too, and then that
// of the gateway, read at an interval.
func pages(f *fleet.Fleet, interval time.Duration) []page {
	config := f.Config()
	var all []page
	for i := range config.Engines + config.Standby {
		all = append(all, page{
			Target: target(collector.SourceVLLM, EngineJob, fmt.Sprintf("engine-%d:8000", i), interval), version: config.EngineVersion,
			read:  func(into *fleet.Snapshot) error { return f.EngineSnapshot(i, into) },
			write: func(w io.Writer) error { return f.EnginePage(i, w) },
		})
	}
	return append(all, page{
		Target: target(collector.SourceLiteLLM, GatewayJob, "gateway:4000", interval), read: f.GatewaySnapshot, write: f.GatewayPage,
	})
}

func target(source, job, instance string, interval time.Duration) collector.Target {
	return collector.Target{
		Labels: labels.FromStrings(model.JobLabel, job, model.InstanceLabel, instance), Source: source, Interval: interval,
	}
}

// failed says whether the error of a page is that of a scrape which failed, and
// not one of the simulator.
func failed(err error) bool { return errors.Is(err, fleet.ErrDown) || errors.Is(err, fleet.ErrLost) }

// Options say what is read.
type Options struct {
	// Names are the canonical names of the series that are kept, with their
	// suffixes; empty keeps all that the collector knows.
	Names []string
	// Interval is the time between two scrapes of a target; default Interval.
	Interval time.Duration
	// Gateway says whether the gateway's page is read beside the engines'.
	Gateway bool
}

// Scraper reads a fleet. It is not safe for concurrent use.
type Scraper struct {
	fleet   *fleet.Fleet
	start   time.Time
	names   map[string]bool
	targets []*scraped
}

// scraped is one page that is read again and again.
type scraped struct {
	page

	rounds   *collector.Stored
	snapshot fleet.Snapshot
	// series are those of the snapshot's labels, nil what is not kept.
	series  []*collector.StoredSeries
	life    uint64
	samples []collector.StoredSample
}

// New makes the scraper of a fleet.
func New(f *fleet.Fleet, o Options) *Scraper {
	s := &Scraper{fleet: f, start: f.Config().Start, names: map[string]bool{}}
	for _, name := range append(collector.StoredNames(o.Names...), collector.StoredTargetNames()...) {
		s.names[name] = true
	}
	for _, p := range pages(f, cmp.Or(o.Interval, Interval)) {
		if p.Source == collector.SourceVLLM || o.Gateway {
			s.targets = append(s.targets, &scraped{page: p, rounds: collector.NewStored(p.Target)})
		}
	}
	return s
}

// Scrape advances the fleet to a simulated time, reads all pages and gives them
// to sink, one after the other. A round is valid until sink returns; an error of
// sink ends the scrape.
func (s *Scraper) Scrape(at time.Duration, sink func(*collector.Round) error) error {
	s.fleet.Step(at)
	now := s.start.Add(at)
	for _, t := range s.targets {
		round, err := s.round(t, now)
		if err != nil {
			return err
		}
		if round == nil {
			continue
		}
		if err := sink(round); err != nil {
			return err
		}
	}
	return nil
}

// round reads one page; nil where nobody knows its address yet.
func (s *Scraper) round(t *scraped, now time.Time) (*collector.Round, error) {
	err := t.read(&t.snapshot)
	switch {
	case errors.Is(err, fleet.ErrAbsent):
		return nil, nil
	case failed(err):
		return t.rounds.Failed(now), nil
	case err != nil:
		return nil, err
	}
	s.know(t)
	t.samples = t.samples[:0]
	for i, series := range t.series {
		if series != nil {
			t.samples = append(t.samples, collector.StoredSample{Series: series, Value: t.snapshot.Values[i]})
		}
	}
	round := t.rounds.Page(t.samples, now)
	round.Version = t.version
	return round, nil
}

// know looks up the series that are new on a page.
func (s *Scraper) know(t *scraped) {
	if t.life != t.snapshot.Life {
		t.series, t.life = t.series[:0], t.snapshot.Life
	}
	builder := labels.NewBuilder(labels.EmptyLabels())
	for _, exposed := range t.snapshot.Labels[len(t.series):] {
		if !s.names[exposed.Get(model.MetricNameLabel)] {
			t.series = append(t.series, nil)
			continue
		}
		builder.Reset(exposed)
		t.Labels.Range(func(l labels.Label) { builder.Set(l.Name, l.Value) })
		t.series = append(t.series, collector.NewStoredSeries(builder.Labels()))
	}
}
