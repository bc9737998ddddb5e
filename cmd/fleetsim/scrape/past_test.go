package scrape

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/collector"
	"kvwatch/collector/history"
)

// pastConfig is a fleet of which one engine restarts after two and a half
// minutes, half a minute into the second block, and another is not there yet.
func pastConfig() fleet.Config {
	return fleet.Config{
		Engines: 2, Standby: 1, Seed: 5, Scenario: "restart", Workload: fleet.Workload{Sessions: 8},
		Start: time.Date(2026, 2, 1, 5, 58, 0, 0, time.UTC),
	}
}

var testPast = Past{Length: 4 * time.Minute, Interval: Interval}

// seen are the values of all rounds, by target and time.
type seen map[string]map[string]float64

func (s seen) take(r *collector.Round) error {
	if r.State != collector.StateUp && r.State != collector.StateDown {
		return fmt.Errorf("%v is %s: %s", r.Target.Labels, r.State, r.Reason)
	}
	s[fmt.Sprintf("%s at %s is %s", r.Target.Labels.Get(model.InstanceLabel), r.Time.UTC().Format(time.TimeOnly), r.State)] = values(r)
	return nil
}

// scrapedLive is what a collector sees of the fleet.
func scrapedLive(t *testing.T) seen {
	t.Helper()
	all := seen{}
	s := New(newFleet(t, pastConfig()), Options{Gateway: true})
	for at := time.Duration(0); at < testPast.Length; at += Interval {
		if err := s.Scrape(at, all.take); err != nil {
			t.Fatal(err)
		}
	}
	if len(all) != 3*16 {
		t.Fatalf("%d rounds", len(all))
	}
	return all
}

// A database that was written holds what a collector would have seen.
func TestBlocksHoldWhatIsScraped(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "history")
	samples, err := WriteBlocks(t.Context(), newFleet(t, pastConfig()), dir, testPast)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := filepath.Glob(filepath.Join(dir, "*", "meta.json"))
	if err != nil || len(blocks) != 2 || samples < 10_000 {
		t.Errorf("%d samples in %d blocks, %v", samples, len(blocks), err)
	}
	store, err := history.Open(history.Options{Dir: dir, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	start := pastConfig().Start
	got := seen{}
	if err := store.Rounds(t.Context(), history.RoundsOptions{From: start, To: start.Add(testPast.Length)}, got.take); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(scrapedLive(t), got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("scraped (-) and stored (+):\n%s", diff)
	}
}

// A recording that was written holds what a collector would have seen.
func TestRecordingHoldsWhatIsScraped(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "recording.tar.zst")
	recorder, err := collector.NewRecorder(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Record(t.Context(), newFleet(t, pastConfig()), recorder, testPast), recorder.Close()); err != nil {
		t.Fatal(err)
	}
	recording, err := collector.OpenRecording(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := recording.Close(); err != nil {
			t.Error(err)
		}
	}()
	got := seen{}
	if err := recording.Replay(t.Context(), got.take); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(scrapedLive(t), got, cmpopts.EquateApprox(1e-9, 0), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("scraped (-) and recorded (+):\n%.3000s", diff)
	}
}

func TestPastEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := WriteBlocks(ctx, newFleet(t, pastConfig()), t.TempDir(), testPast); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// One simulated hour of four engines and their gateway as blocks.
func BenchmarkWriteBlocksHour(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		f, err := fleet.New(fleet.Config{Scenario: "healthy_week", Seed: 1})
		if err != nil {
			b.Fatal(err)
		}
		samples, err := WriteBlocks(b.Context(), f, b.TempDir(), Past{Length: time.Hour, Interval: Interval})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(samples), "samples/op")
	}
}
