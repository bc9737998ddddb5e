package collector

import (
	"bytes"
	"errors"
	"io"
	"runtime"
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

// TestTargetsShareLists: targets whose pages have the same names and bounds hold
// them once.
func TestTargetsShareLists(t *testing.T) {
	t.Parallel()
	page := testPage(t, "vllm-0.32.0.prom.gz")
	desk := newDesk()
	var both [2]*rounds
	for i := range both {
		both[i] = newRounds(*testTarget(SourceVLLM), DefaultLimits())
		both[i].reader.sit(desk)
	}
	var told [2][]Histogram
	for i, r := range both {
		round, _ := r.page(bytes.NewReader(page), "", time.Unix(1_800_000_000, 0), nil)
		told[i] = append(told[i], round.Histograms...)
	}
	if len(told[0]) == 0 || len(told[0]) != len(told[1]) {
		t.Fatalf("%d and %d histograms", len(told[0]), len(told[1]))
	}
	for i, h := range told[0] {
		if len(h.Bounds) == 0 || &h.Bounds[0] != &told[1][i].Bounds[0] {
			t.Errorf("%s: the bounds are held twice", h.Series.Labels)
		}
	}
	first, second := both[0].reader, both[1].reader
	if &first.names[0] != &second.names[0] || &first.remembered.order[0] != &second.remembered.order[0] {
		t.Error("the names are held twice")
	}
}

// failingReader is a connection that breaks.
type failingReader struct{}

// Read implements io.Reader.
func (failingReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// BenchmarkKept reads pages of many targets as a Collector does, and tells what
// is kept of a target between its pages.
func BenchmarkKept(b *testing.B) {
	page := testPage(b, "vllm-0.32.0.prom.gz")
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // the second frees what a pool holds
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const targets = 200
	before, at := heap(), time.Unix(1_800_000_000, 0)
	var all [targets]*rounds
	for b.Loop() {
		desks := &sync.Pool{}
		for i := range all {
			all[i] = newRounds(*testTarget(SourceVLLM), DefaultLimits())
			all[i].desks = desks
			for n := range 2 * indexPages {
				all[i].page(bytes.NewReader(page), "", at.Add(time.Duration(n)*time.Second), nil)
				all[i].done()
			}
		}
	}
	b.ReportMetric(float64(heap()-before)/targets, "B/target")
	runtime.KeepAlive(all)
}

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
