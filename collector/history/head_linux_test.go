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
	const most = 3 * 60
	s := open(t, Options{Dir: t.TempDir()})
	var samples []collector.Sample
	for i := range 100 {
		samples = append(samples, sample(series("up", fmt.Sprint(i)), 0))
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	store := func(minute int) {
		for i := range samples {
			samples[i].Value = rnd.Float64()
		}
		appendRound(t, s, start.Add(time.Duration(minute)*time.Minute), samples)
	}
	for m := range most {
		store(m)
	}
	s.db.ForceHeadMMap()
	count := func() int {
		n := 0
		for _, points := range scanAll(t, s.Scan, start, start.Add(24*time.Hour), matcher(t, "__name__", "up")) {
			n += len(strings.Fields(points))
		}
		return n
	}
	count()
	chunks := filepath.Join(s.opts.Dir, headChunks)
	before := residentKB(t, chunks)
	if err := s.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if made := residentKB(t, chunks); len(s.db.Blocks()) == 0 || before == 0 || made == 0 {
		t.Fatalf("%d blocks, %d kB in memory before and %d after: the test needs some", len(s.db.Blocks()), before, made)
	}
	store(most)
	if after := residentKB(t, chunks); after != 0 {
		t.Errorf("%d kB of the chunks stay in memory, %d before the block was made", after, before)
	}
	if n, want := count(), len(samples)*(most+1); n != want {
		t.Errorf("%d points, want %d", n, want)
	}
}
