package score_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"kvwatch/cmd/fleetsim/score"
)

var update = flag.Bool("update", false, "write testdata/small.json anew, better or worse")

const smallFile = "testdata/small.json"

// The detectors must not get worse on the small set: what it scored is
// committed. It runs in a process of its own, which the race detector does not
// make ten times slower: a run is one goroutine.
func TestSmallSetDoesNotGetWorse(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "fleetsim")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-race=false", "-o", binary, "kvwatch/cmd/fleetsim").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("logs", func(t *testing.T) {
		logsSeeWhatPagesDoNot(t, scoredBy(t, binary, "--set=logs", "--scenario=affinity_low_traffic"))
	})
	text := scoredBy(t, binary, "--set=small")
	if *update {
		if err := os.WriteFile(smallFile, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(smallFile)
	if err != nil {
		t.Fatal(err)
	}
	var was, is score.Result
	if err := errors.Join(json.Unmarshal(committed, &was), json.Unmarshal(text, &is)); err != nil {
		t.Fatal(err)
	}
	if len(was.Incidents) == 0 || len(was.Quiet) == 0 {
		t.Fatalf("%s holds no scores", smallFile)
	}
	for _, worse := range score.Compare(was, is) {
		t.Error(worse)
	}
	if t.Failed() {
		t.Log("if that is meant, write it down: go test ./cmd/fleetsim/score -run SmallSet -update")
	}
}

// scoredBy is what the command scored of the first seed.
func scoredBy(t *testing.T, binary string, args ...string) []byte {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), binary, append([]string{"score", "--seeds=1", "--output=json"}, args...)...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%v\n%s", err, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// logsSeeWhatPagesDoNot holds the detectors with logs of calls to what is lost
// between a handful of sessions.
func logsSeeWhatPagesDoNot(t *testing.T, text []byte) {
	t.Helper()
	var r score.Result
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, s := range r.Incidents {
		if routing := s.Detector == "D7 routing"; routing && s.Found == 1 && s.CausesRight == 1 || s.Detector == "D7 content" && s.Fires == 0 {
			told++
		}
	}
	for _, s := range r.Quiet {
		if s.Detector != "turn boundary" && s.False+s.True > 0 {
			t.Errorf("before it: %+v", s)
		}
	}
	if told != 2 {
		t.Errorf("of one affinity loss: %+v", r.Incidents)
	}
}
