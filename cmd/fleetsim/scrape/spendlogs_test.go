package scrape

import (
	"bytes"
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/collector"
)

// loggedFleet runs a fleet, and gives both logs of its calls and of one that failed.
func loggedFleet(t *testing.T, path string) (file *SpendLogs, calls *Calls, truth []fleet.CallRecord) {
	t.Helper()
	config := fleet.Config{Engines: 2, Seed: 5, Scenario: "restart", Workload: fleet.Workload{Sessions: 8}, Start: time.Date(2026, 2, 1, 5, 58, 0, 0, time.UTC)}
	config.Observe = func(c fleet.CallRecord) {
		if calls != nil {
			file.Take(c)
			calls.Take(c)
			truth = append(truth, c)
		}
	}
	f := newFleet(t, config)
	file, err := CreateSpendLogs(path, f.Config())
	if err != nil {
		t.Fatal(err)
	}
	calls = NewCalls(f.Config())
	f.Step(6 * time.Minute)
	f.Config().Observe(fleet.CallRecord{Session: 1, Began: 5 * time.Minute, Ended: 7 * time.Minute, PromptTokens: 900, Failed: true})
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return file, calls, truth
}

// What is written is what the collector reads back, and both ways give the same calls.
func TestSpendLogsAreReadBack(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"calls.csv", "calls.csv.zst"} {
		path := filepath.Join(t.TempDir(), name)
		file, calls, truth := loggedFleet(t, path)
		end := time.Hour
		back, err := collector.ReadSpendLogsFile(path, time.Time{}, calls.config.Start.Add(end))
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Clone(back.Read("spend_logs", calls.config.Start.Add(end)).Calls)
		want := slices.Clone(calls.Read(end).Calls)
		if len(want) < 50 || len(want) != len(truth) || file.Calls() != len(truth) || back.Skipped > 0 {
			t.Fatalf("%d calls, %d rows, %d read, %d skipped: %s", len(truth), file.Calls(), len(want), back.Skipped, back.FirstSkipped)
		}
		byTime := func(a, b collector.Call) int {
			return strings.Compare(a.Start.String()+a.Deployment+a.End.String(), b.Start.String()+b.Deployment+b.End.String())
		}
		slices.SortStableFunc(got, byTime)
		slices.SortStableFunc(want, byTime)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(collector.Call{}, "Session")); diff != "" {
			t.Errorf("%s: -simulated +read\n%s", name, diff)
		}
		// Sessions are hashed anew, and stay apart.
		same := map[uint64]uint64{}
		for i := range got {
			if known, ok := same[want[i].Session]; ok && known != got[i].Session {
				t.Errorf("session %d is %d and %d", want[i].Session, known, got[i].Session)
			}
			same[want[i].Session] = got[i].Session
		}
		failed := slices.ContainsFunc(want, func(c collector.Call) bool { return c.Failed })
		if !failed || len(same) < 8 {
			t.Errorf("%d sessions, any failed call: %t", len(same), failed)
		}
	}
}

// The columns are those of a real table, in their order, and none is empty that is not there.
func TestSpendLogsHaveTheRealShape(t *testing.T) {
	t.Parallel()
	read := func(path string) (header, first []string) {
		packed, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		z, err := zstd.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		r := csv.NewReader(io.Reader(z))
		for _, row := range []*[]string{&header, &first} {
			if *row, err = r.Read(); err != nil {
				t.Fatal(err)
			}
		}
		return header, first
	}
	path := filepath.Join(t.TempDir(), "calls.csv.zst")
	loggedFleet(t, path)
	header, row := read(path)
	realHeader, realRow := read("../../../collector/testdata/spendlogs.csv.zst")
	if diff := cmp.Diff(realHeader, header); diff != "" {
		t.Fatalf("-real +simulated\n%s", diff)
	}
	for i, name := range header {
		if name != "requester_ip_address" && (row[i] == "") != (realRow[i] == "") {
			t.Errorf("%s is %q, of a real row %q", name, row[i], realRow[i])
		}
	}
}

func TestSpendLogsRefuseAPath(t *testing.T) {
	t.Parallel()
	there := filepath.Join(t.TempDir(), "there.csv")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"calls.parquet": "must end in .csv or .csv.zst",
		there:           "file exists",
	} {
		if _, err := CreateSpendLogs(path, fleet.Config{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A row is there when the gateway has written it, and each is read once.
func TestCallsAreReadOnce(t *testing.T) {
	t.Parallel()
	l := NewCalls(fleet.Config{Start: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)})
	l.Take(fleet.CallRecord{Session: 1, Ended: 5 * time.Second})
	l.Take(fleet.CallRecord{Session: 2, Ended: 25 * time.Second})
	for _, want := range []struct {
		at       time.Duration
		sessions []uint64
	}{{10 * time.Second, nil}, {30 * time.Second, []uint64{1}}, {35 * time.Second, []uint64{2}}, {time.Minute, nil}} {
		var got []uint64
		for _, c := range l.Read(want.at).Calls {
			got = append(got, c.Session)
		}
		if !slices.Equal(got, want.sessions) {
			t.Errorf("at %s sessions %v, want %v", want.at, got, want.sessions)
		}
	}
}
