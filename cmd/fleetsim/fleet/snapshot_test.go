package fleet

import (
	"errors"
	"math"
	"testing"
	"time"
)

// A snapshot holds the samples of the text page: the same series with the same
// values, without those of _created families.
func TestSnapshotsEqualPages(t *testing.T) {
	t.Parallel()
	f := mustNew(t, smallConfig())
	var snapshots [3]Snapshot
	for _, now := range []time.Duration{0, time.Minute, 2 * time.Minute} {
		f.Step(now)
		for i := range snapshots {
			var page readPage
			var err error
			if i < 2 {
				page, err = enginePage(t, f, i), f.EngineSnapshot(i, &snapshots[i])
			} else {
				page, err = gatewayPage(t, f), f.GatewaySnapshot(&snapshots[i])
			}
			if err != nil {
				t.Fatal(err)
			}
			checkSnapshot(t, page, snapshots[i])
		}
	}
}

func checkSnapshot(t *testing.T, page readPage, s Snapshot) {
	t.Helper()
	if len(s.Labels) != len(s.Values) {
		t.Fatalf("%d labels of %d values", len(s.Labels), len(s.Values))
	}
	for i, lset := range s.Labels {
		want, ok := page.values[lset.String()]
		if !ok {
			t.Errorf("the page has no %s", lset)
		} else if got := s.Values[i]; math.Abs(got-want) > 1e-12*math.Abs(want) {
			t.Errorf("%s is %v, on the page %v", lset, got, want)
		}
	}
	created := 0
	for _, lset := range page.series {
		if name := lset.Get("__name__"); len(name) > 8 && name[len(name)-8:] == "_created" {
			created++
		}
	}
	if len(s.Labels)+created != len(page.series) {
		t.Errorf("%d samples and %d of _created, the page has %d", len(s.Labels), created, len(page.series))
	}
}

// An index stands for one series while a process lives, and its restart shows.
func TestSnapshotLives(t *testing.T) {
	t.Parallel()
	f := mustNew(t, smallConfig())
	var gateway, engine Snapshot
	if err := errors.Join(f.GatewaySnapshot(&gateway), f.EngineSnapshot(0, &engine)); err != nil {
		t.Fatal(err)
	}
	before, life := gateway.Labels, engine.Life
	f.Step(5 * time.Minute)
	stopEngine(0)(f)
	if err := f.EngineSnapshot(0, &engine); !errors.Is(err, ErrDown) {
		t.Errorf("an engine that is down: %v", err)
	}
	startEngine(0, true)(f)
	if err := errors.Join(f.GatewaySnapshot(&gateway), f.EngineSnapshot(0, &engine)); err != nil {
		t.Fatal(err)
	}
	if engine.Life == life {
		t.Error("a restart does not show")
	}
	for i, lset := range before {
		if gateway.Labels[i].Hash() != lset.Hash() {
			t.Fatalf("sample %d was %s and is %s", i, lset, gateway.Labels[i])
		}
	}
}
