package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/collector"
)

func newFleet(t *testing.T, config fleet.Config) *fleet.Fleet {
	t.Helper()
	f, err := fleet.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// values are the samples of a round by their labels.
func values(r *collector.Round) map[string]float64 {
	all := map[string]float64{}
	for _, s := range r.Samples {
		all[s.Series.Labels.String()] = s.Value
	}
	return all
}

// A round is what the collector reads of the text page.
func TestRoundsEqualPages(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleet.Config{Engines: 2, Seed: 3, Workload: fleet.Workload{Sessions: 8}})
	s := New(f, Options{Gateway: true})
	readers := map[string]*collector.SavedReader{}
	for _, at := range []time.Duration{0, Interval, time.Minute} {
		read := 0
		err := s.Scrape(at, func(r *collector.Round) error {
			instance := r.Target.Labels.Get(model.InstanceLabel)
			if readers[instance] == nil {
				readers[instance] = collector.NewSavedReader(collector.Target{Labels: labels.FromStrings(
					model.JobLabel, r.Target.Labels.Get(model.JobLabel), model.InstanceLabel, instance)})
			}
			var page bytes.Buffer
			write := func(w *bytes.Buffer) error { return f.GatewayPage(w) }
			if read < 2 {
				write = func(w *bytes.Buffer) error { return f.EnginePage(read, w) }
			}
			if err := write(&page); err != nil {
				return err
			}
			want, _ := readers[instance].Page(&page, r.Time)
			if diff := cmp.Diff(values(want), values(r), cmpopts.EquateApprox(1e-12, 0)); diff != "" {
				t.Errorf("%s at %v (-page +round):\n%s", instance, at, diff)
			}
			if r.State != collector.StateUp || r.Target.Source != want.Target.Source || !r.Time.Equal(f.Config().Start.Add(at)) {
				t.Errorf("%s at %v is %s, %s, of %v", instance, at, r.State, r.Target.Source, r.Time)
			}
			read++
			return nil
		})
		if err != nil || read != 3 {
			t.Fatalf("read %d pages: %v", read, err)
		}
	}
}

// A target that is down is told as such, one that is not there yet not at all,
// and the series of one that came back are the same ones.
func TestTargetsThatComeAndGo(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleet.Config{Engines: 2, Standby: 1, Scenario: "restart", Workload: fleet.Workload{Sessions: 8}})
	s := New(f, Options{Names: []string{collector.VLLMPromptTokens}})
	var states []string
	var series []*collector.Series
	for at := time.Duration(0); at <= 4*time.Minute; at += Interval {
		err := s.Scrape(at, func(r *collector.Round) error {
			if r.Target.Labels.Get(model.InstanceLabel) != "engine-1:8000" {
				if r.State != collector.StateUp || r.Target.Labels.Get(model.InstanceLabel) == "engine-2:8000" {
					t.Errorf("%v is %s at %v", r.Target.Labels, r.State, at)
				}
				return nil
			}
			for _, sample := range r.Samples {
				if sample.Series.Labels.Get(model.MetricNameLabel) == collector.VLLMPromptTokens && !slices.Contains(series, sample.Series) {
					series = append(series, sample.Series)
				}
			}
			if state := fmt.Sprint(r.State); len(states) == 0 || states[len(states)-1] != state {
				states = append(states, state)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"up", "down", "up"}; !slices.Equal(states, want) {
		t.Errorf("the engine that restarts was %v, want %v", states, want)
	}
	if len(series) != 1 {
		t.Errorf("its counter was %d series", len(series))
	}
}

func TestSinkEndsAScrape(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	s := New(newFleet(t, fleet.Config{Engines: 2, Workload: fleet.Workload{Sessions: 2}}), Options{})
	rounds := 0
	err := s.Scrape(0, func(*collector.Round) error { rounds++; return enough })
	if !errors.Is(err, enough) || rounds != 1 {
		t.Errorf("%d rounds, error %v", rounds, err)
	}
}
