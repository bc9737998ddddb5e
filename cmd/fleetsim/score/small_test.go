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
	text, err := exec.CommandContext(t.Context(), binary, "score", "--set=small", "--seeds=1", "--output=json").Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
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
