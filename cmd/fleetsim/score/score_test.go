package score

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What comes out does not depend on how many runs are under way at once, and
// goes through JSON as it is.
func TestEqualSeedsGiveEqualScores(t *testing.T) {
	t.Parallel()
	var results []Result
	var simulated, done atomic.Int64
	for _, parallel := range []int{1, 3} {
		o := Options{
			Entries:  []Entry{{"low_traffic", "A", time.Hour}, {"affinity_low_traffic", "A", 30 * time.Minute}},
			Seeds:    Seeds(1, 2),
			Parallel: parallel,
			Progress: func(d time.Duration, n int) { simulated.Add(int64(d)); done.Add(int64(n)) },
		}
		r, err := Score(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	if diff := cmp.Diff(results[0], results[1]); diff != "" {
		t.Errorf("one run at once and three differ:\n%s", diff)
	}
	if done.Load() != 8 || time.Duration(simulated.Load()) < 6*time.Hour {
		t.Errorf("told of %d runs and %v", done.Load(), time.Duration(simulated.Load()))
	}
	var text bytes.Buffer
	if err := results[0].WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(text.Bytes(), &back); err != nil {
		t.Fatalf("%v in:\n%s", err, text.String())
	}
	if diff := cmp.Diff(results[0].Markdown(), back.Markdown()); diff != "" {
		t.Errorf("the tables of what was read back differ:\n%s", diff)
	}
}

// A score that was interrupted takes the runs that are kept as they are.
func TestRunsAreKept(t *testing.T) {
	t.Parallel()
	o := Options{
		Entries: []Entry{{"affinity_low_traffic", "A", 10 * time.Minute}}, Seeds: Seeds(1, 2), Parallel: 1,
		Keep: filepath.Join(t.TempDir(), "runs"),
	}
	want, err := Score(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(o.Keep, "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("kept %v, %v", files, err)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel() // nothing may be run any more
	got, err := Score(interrupted, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Markdown(), got.Markdown()); diff != "" {
		t.Errorf("what was kept differs:\n%s", diff)
	}
	if err := os.WriteFile(files[1], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Score(t.Context(), o); err == nil || !strings.Contains(err.Error(), files[1]+": unexpected end of JSON input (remove it") {
		t.Errorf("half of a file: %v", err)
	}
}

func TestScoreNamesTheRunThatFailed(t *testing.T) {
	t.Parallel()
	_, err := Score(t.Context(), Options{Entries: []Entry{{"flood", "A", time.Hour}}, Seeds: Seeds(7, 1), Parallel: 1})
	if err == nil || !strings.Contains(err.Error(), "flood/A/7: unknown scenario") {
		t.Errorf("error %v", err)
	}
}

// Long runs use every third seed.
func TestSeedsOfLongRuns(t *testing.T) {
	t.Parallel()
	var got []string
	for _, r := range runs([]Entry{{"short", "A", time.Hour}, {"long", "A", 7 * 24 * time.Hour}}, Seeds(101, 4)) {
		got = append(got, r.String())
	}
	want := []string{"short/A/101", "short/A/102", "short/A/103", "short/A/104", "long/A/101", "long/A/104"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		scenarios []string
		profile   string
		want      []string
	}{
		"one":                  {[]string{"flat"}, "", []string{"flat (A)"}},
		"with both profiles":   {[]string{"load_ramp"}, "", []string{"load_ramp (A)", "load_ramp (B)"}},
		"one profile of both":  {[]string{"load_ramp"}, "B", []string{"load_ramp (B)"}},
		"a profile it has not": {[]string{"flat"}, "C", []string{"flat (C)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries, err := Choose(Full(), test.scenarios, test.profile)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, entry{e.Scenario, e.Profile}.String())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if _, err := Choose(Full(), []string{"demo"}, ""); err == nil || !strings.Contains(err.Error(), `"demo" is not in the corpus`) {
		t.Errorf("the demo is taken: %v", err)
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sorted []float64
		q      float64
		want   float64
	}{
		{[]float64{3}, 0.5, 3},
		{[]float64{1, 3}, 0.5, 2},
		{[]float64{1, 2, 10}, 0.5, 2},
		{[]float64{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}, 0.9, 90},
		{[]float64{1, 2}, 1, 2},
	} {
		if got := quantile(test.sorted, test.q); got != test.want {
			t.Errorf("the %g quantile of %v is %g, want %g", test.q, test.sorted, got, test.want)
		}
	}
}
