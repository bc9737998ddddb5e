package history

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
)

// The crash tests start this test binary again as the process that dies.
const (
	childEnv      = "HISTORY_TEST_CHILD"
	childDirEnv   = "HISTORY_TEST_DIR"
	childFirstEnv = "HISTORY_TEST_FIRST"
)

func TestMain(m *testing.M) {
	children := map[string]func(dir string) error{"append": appendUntilKilled, "full": appendUntilFull}
	child, ok := children[os.Getenv(childEnv)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := child(os.Getenv(childDirEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	writers         = 4  // that append at the same time
	seriesPerWriter = 25 // of each
	crashStep       = time.Minute
)

func writerSeries(writer int) []*collector.Series {
	all := make([]*collector.Series, seriesPerWriter)
	for i := range all {
		all[i] = &collector.Series{Labels: labels.FromStrings("__name__", "crash", "writer", strconv.Itoa(writer), "series", strconv.Itoa(i))}
	}
	return all
}

// appendUntilKilled appends round after round and tells each writer's round on
// stdout as soon as it is committed. A round is a minute of history, and blocks
// are written meanwhile.
func appendUntilKilled(dir string) error {
	first, err := strconv.Atoi(os.Getenv(childFirstEnv))
	if err != nil {
		return err
	}
	s, err := Open(Options{Dir: dir})
	if err != nil {
		return err
	}
	all := make([][]collector.Sample, writers)
	for w := range all {
		for _, series := range writerSeries(w) {
			all[w] = append(all[w], collector.Sample{Series: series})
		}
	}
	for round := first; ; round++ {
		var wg sync.WaitGroup
		for w, samples := range all {
			wg.Go(func() {
				for i := range samples {
					samples[i].Value = float64(round)
				}
				if err := s.Append(context.Background(), start.Add(time.Duration(round)*crashStep), samples, nil); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				fmt.Printf("%d %d\n", w, round) // one write, no buffer
			})
		}
		if round%150 == 0 {
			wg.Go(func() { _ = s.db.Compact(context.Background()) })
		}
		wg.Wait()
	}
}

func startChild(t *testing.T, kind, dir string, first int) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+kind, childDirEnv+"="+dir, childFirstEnv+"="+strconv.Itoa(first))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

func TestKilledWhileAppending(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var committed [writers]map[int]bool
	for w := range committed {
		committed[w] = map[int]bool{}
	}
	next := 0
	for _, lines := range []int{1, 50, 333, 1000, 2500} {
		cmd, out := startChild(t, "append", dir, next)
		for n := 0; out.Scan(); n++ {
			if n == lines {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			var w, round int
			if _, err := fmt.Sscanf(out.Text(), "%d %d", &w, &round); err != nil {
				t.Fatalf("%q: %v", out.Text(), err)
			}
			committed[w][round] = true
			next = max(next, round+1)
		}
		err := cmd.Wait()
		if cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the child was not killed: %v", err)
		}
		next++ // the round under way may have been stored without having been told
		checkCommitted(t, dir, committed)
	}
	if blocks, err := filepath.Glob(filepath.Join(dir, "*", "meta.json")); err != nil || len(blocks) == 0 {
		t.Errorf("%d blocks were written meanwhile, %v: the test means to kill during that, too", len(blocks), err)
	}
}

func checkCommitted(t *testing.T, dir string, committed [writers]map[int]bool) {
	t.Helper()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{} // points that were committed, by series
	err = s.Scan(t.Context(), start, start.Add(1<<20*crashStep), matcher(t, "__name__", "crash"), func(ls labels.Labels, points []Point) error {
		w, err := strconv.Atoi(ls.Get("writer"))
		if err != nil {
			return err
		}
		for _, p := range points {
			round := int(time.UnixMilli(p.T).Sub(start) / crashStep)
			if int(p.V) != round {
				t.Errorf("%s holds %v in round %d", ls, p.V, round)
			}
			if committed[w][round] {
				seen[ls.Get("writer")+"/"+ls.Get("series")]++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for w, rounds := range committed {
		for i := range seriesPerWriter {
			if got := seen[fmt.Sprintf("%d/%d", w, i)]; got != len(rounds) {
				t.Errorf("writer %d, series %d: %d of %d committed samples are there", w, i, got, len(rounds))
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// appendUntilFull appends until no file may grow any more, tells the error, and
// goes on once there is room again. The limit of the file size stands in for a
// disk that fills up.
func appendUntilFull(dir string) error {
	s, err := Open(Options{Dir: dir})
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	full := limit
	full.Cur = 100_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		return err
	}
	var samples []collector.Sample
	for _, series := range writerSeries(0) {
		samples = append(samples, collector.Sample{Series: series})
	}
	told := false
	for round := range 3000 {
		for i := range samples {
			samples[i].Value = float64(round)
		}
		err := s.Append(context.Background(), start.Add(time.Duration(round)*time.Second), samples, nil)
		switch {
		case err == nil:
			fmt.Printf("0 %d\n", round)
		case !told:
			told = true
			fmt.Println("error", err)
			if s.db != nil {
				s.db.ForceHeadMMap() // as the database does every minute: where it cannot, it ends the process
			}
		case round == 2000:
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
				return err
			}
		}
	}
	return nil // and no Close: the process just ends
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, out := startChild(t, "full", dir, 0)
	committed := map[int]bool{}
	var message string
	after := 0
	for out.Scan() {
		if text, ok := strings.CutPrefix(out.Text(), "error "); ok {
			message = text
			continue
		}
		var w, round int
		if _, err := fmt.Sscanf(out.Text(), "%d %d", &w, &round); err != nil {
			t.Fatalf("%q: %v", out.Text(), err)
		}
		committed[round] = true
		if message != "" {
			after++
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(message, "is full") || !strings.Contains(message, dir) {
		t.Errorf("the error was %q", message)
	}
	if after == 0 {
		t.Error("nothing was stored any more after there was room again")
	}

	s := open(t, Options{Dir: dir})
	err := s.Scan(t.Context(), start, start.Add(time.Hour), matcher(t, "series", "7"), func(ls labels.Labels, points []Point) error {
		for _, p := range points {
			delete(committed, int(p.V))
		}
		return nil
	})
	if err != nil || len(committed) > 0 {
		t.Errorf("%d committed rounds are gone, %v", len(committed), err)
	}
}
