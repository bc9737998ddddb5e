package history

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

// residentKB is how much is in memory of the mapped files in a folder.
func residentKB(t *testing.T, dir string) int {
	t.Helper()
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	total, of := 0, false
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var kB int
		switch n, _ := fmt.Sscanf(lines.Text(), "Rss: %d kB", &kB); {
		case n == 1 && of:
			total += kB
		case strings.Contains(lines.Text(), "/"):
			of = strings.Contains(lines.Text(), dir+"/")
		case strings.HasPrefix(lines.Text(), "VmFlags"):
			of = false
		}
	}
	return total
}

// What a block was made from does not stay in memory, and can be read still.
func TestNothingStaysInMemoryOfBlocks(t *testing.T) {
	t.Parallel()
	const most = 140 // one hour for a block, one in the same file that is needed still
	s := open(t, Options{Dir: t.TempDir()})
	s.db.DisableCompactions() // but for the one below
	var samples []collector.Sample
	for i := range 100 {
		samples = append(samples, sample(series("up", fmt.Sprint(i)), 0))
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	put := func(minute int) {
		for i := range samples {
			samples[i].Value = rnd.Float64()
		}
		appendRound(t, s, start.Add(time.Duration(minute)*time.Minute), samples)
	}
	for m := range most {
		put(m)
	}
	s.db.ForceHeadMMap()
	chunks := filepath.Join(s.opts.Dir, headChunks)
	if err := s.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	made := residentKB(t, chunks)
	if len(s.db.Blocks()) != 1 || made == 0 {
		t.Fatalf("%d blocks, %d kB in memory: the test needs one, and some", len(s.db.Blocks()), made)
	}
	put(most)
	if after := residentKB(t, chunks); after != 0 {
		t.Errorf("%d of %d kB stay in memory", after, made)
	}
	n := 0
	for _, points := range scanAll(t, s.Scan, start, start.Add(24*time.Hour), matcher(t, "__name__", "up")) {
		n += len(strings.Fields(points))
	}
	if want := len(samples) * (most + 1); n != want {
		t.Errorf("%d points, want %d", n, want)
	}
}
