package collector

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"time"
)

// sharedRounds makes the rounds of two targets that read at the same desks.
func sharedRounds() [2]*rounds {
	desks := &sync.Pool{}
	var both [2]*rounds
	for i := range both {
		both[i] = newRounds(*testTarget(SourceVLLM), DefaultLimits())
		both[i].desks = desks
	}
	return both
}

// TestTargetsShareDesks reads pages of two targets in turn, one of them broken
// off: a target keeps no desk between its pages, and nothing of one page gets
// into another one.
func TestTargetsShareDesks(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	pages := [2][]byte{testPage(t, "vllm-0.28-dp2.prom.gz"), testPage(t, "vllm-0.32.0.prom.gz")}
	broken := func(error) failure { return failure{StateDown, "broken off"} }
	both := sharedRounds()
	var first [2]int
	for turn := range 4 {
		for i, r := range both {
			at = at.Add(time.Second)
			if turn == 2 {
				half := io.MultiReader(bytes.NewReader(pages[i][:len(pages[i])/2]), failingReader{})
				if round, _ := r.page(half, "", at, broken); round.State != StateDown {
					t.Fatalf("target %d, half a page: state %q, want %q", i, round.State, StateDown)
				}
			} else {
				round, info := r.page(bytes.NewReader(pages[i]), "", at, broken)
				if turn == 0 {
					first[i] = round.Len()
				}
				if round.State != StateUp || round.Len() != first[i] || info.BadLines != 0 || info.Bytes != int64(len(pages[i])) {
					t.Errorf("target %d, turn %d: state %q (%s), %d samples, %d bad lines, %d bytes; want %d samples of %d bytes",
						i, turn, round.State, round.Reason, round.Len(), info.BadLines, info.Bytes, first[i], len(pages[i]))
				}
			}
			if r.done(); r.reader.desk != nil || r.reader.sums.desk != nil {
				t.Errorf("target %d, turn %d: it keeps the desk between two pages", i, turn)
			}
		}
	}
	if first[0] == 0 || first[0] == first[1] {
		t.Errorf("the pages have %v samples, which tells them not apart", first)
	}
}

// failingReader is a connection that breaks.
type failingReader struct{}

// Read implements io.Reader.
func (failingReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// BenchmarkRound is a whole round of a known page, without HTTP.
func BenchmarkRound(b *testing.B) {
	page := testPage(b, "vllm-0.32.0.prom.gz")
	r := sharedRounds()[0]
	body := bytes.NewReader(page)
	at := time.Unix(1_800_000_000, 0)
	r.page(body, "", at, nil) // from here on all series are known
	r.done()
	b.ReportAllocs()
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		body.Reset(page)
		at = at.Add(time.Second)
		if round, _ := r.page(body, "", at, nil); round.State != StateUp {
			b.Fatal(round.State)
		}
		r.done()
	}
}
