// Package scrape reads the pages of a simulated fleet in simulated time, as a
// collector reads those of a real one: as rounds, without text and sockets.
package scrape

import (
	"errors"
	"fmt"
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

// Options say what is read.
type Options struct {
	// Names are the canonical names of the series that are kept, with their
	// suffixes; empty keeps all that the collector knows.
	Names []string
	// Gateway says whether the gateway's page is read beside the engines'.
	Gateway bool
}

// Scraper reads a fleet. It is not safe for concurrent use.
type Scraper struct {
	fleet   *fleet.Fleet
	start   time.Time
	names   map[string]bool
	targets []*target
}

// target is one page of the fleet.
type target struct {
	labels   labels.Labels
	read     func(*fleet.Snapshot) error
	version  string
	rounds   *collector.Stored
	snapshot fleet.Snapshot
	// series are those of the snapshot's labels, nil what is not kept.
	series  []*collector.StoredSeries
	life    uint64
	samples []collector.StoredSample
}

// New makes the scraper of a fleet, engines first.
func New(f *fleet.Fleet, o Options) *Scraper {
	config := f.Config()
	s := &Scraper{fleet: f, start: config.Start, names: map[string]bool{}}
	for _, name := range append(collector.StoredNames(o.Names...), collector.StoredTargetNames()...) {
		s.names[name] = true
	}
	for i := range config.Engines + config.Standby {
		read := func(into *fleet.Snapshot) error { return f.EngineSnapshot(i, into) }
		s.add(collector.SourceVLLM, EngineJob, fmt.Sprintf("engine-%d:8000", i), fleet.EngineVersion, read)
	}
	if o.Gateway {
		s.add(collector.SourceLiteLLM, GatewayJob, "gateway:4000", "", f.GatewaySnapshot)
	}
	return s
}

func (s *Scraper) add(source, job, instance, version string, read func(*fleet.Snapshot) error) {
	t := collector.Target{
		Labels: labels.FromStrings(model.JobLabel, job, model.InstanceLabel, instance), Source: source, Interval: Interval,
	}
	s.targets = append(s.targets, &target{labels: t.Labels, read: read, version: version, rounds: collector.NewStored(t)})
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
func (s *Scraper) round(t *target, now time.Time) (*collector.Round, error) {
	err := t.read(&t.snapshot)
	switch {
	case errors.Is(err, fleet.ErrAbsent):
		return nil, nil
	case errors.Is(err, fleet.ErrDown), errors.Is(err, fleet.ErrLost):
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
func (s *Scraper) know(t *target) {
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
		t.labels.Range(func(l labels.Label) { builder.Set(l.Name, l.Value) })
		t.series = append(t.series, collector.NewStoredSeries(builder.Labels()))
	}
}
