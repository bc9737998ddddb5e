package collector

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// recordedPages are the pages of a recording in the order of their time.
func recordedPages(t *testing.T, archive string) []string {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zr, err := zstd.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer zr.Close()
	pages := map[string]string{}
	for tr := tar.NewReader(zr); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(header.Name, ".prom") {
			continue
		}
		var page bytes.Buffer
		if _, err := page.ReadFrom(tr); err != nil {
			t.Fatal(err)
		}
		pages[header.Name] = page.String()
	}
	var names []string
	for name := range pages {
		names = append(names, name)
	}
	slices.Sort(names)
	var ordered []string
	for _, name := range names {
		ordered = append(ordered, pages[name])
	}
	return ordered
}

// Two real workers without a multiprocess directory, each with counters of its own.
func TestSampledTwoWorkers(t *testing.T) {
	t.Parallel()
	pages := recordedPages(t, "testdata/litellm-1.80.0-two-workers.tar.zst")
	if len(pages) != 24 {
		t.Fatalf("%d pages", len(pages))
	}
	for name, change := range map[string]func(string) string{
		"by the process' start": func(page string) string { return page },
		"by _created": func(page string) string {
			return strings.ReplaceAll(page, ProcessStart, "process_other")
		},
	} {
		r := newTestReader("")
		var since []int
		for i, page := range pages {
			r.page(t, change(page))
			if r.info.Sampled {
				since = append(since, i)
			}
		}
		if len(since) == 0 || since[0] > 4 || since[len(since)-1] != 23 || len(since) != 24-since[0] {
			t.Errorf("%s: sampled on pages %v", name, since)
		}
	}
}

func TestSampled(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		starts []float64
		want   []bool
	}{
		{"one process", []float64{5, 5, 5}, []bool{false, false, false}},
		{"restarts", []float64{5, 5, 7, 7, 9, 11}, []bool{false, false, false, false, false, false}},
		{"two workers", []float64{5, 7, 5, 5}, []bool{false, false, true, true}},
		{"three workers", []float64{5, 7, 6, 7, 8}, []bool{false, false, false, true, true}},
		{"the start is hidden in between", []float64{5, 0, 5, 5}, []bool{false, false, false, false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newTestReader(SourceLiteLLM)
			for i, start := range tt.starts {
				page := "litellm_in_flight_requests 1\n"
				if start > 0 {
					page += fmt.Sprintf("%s %v\n", ProcessStart, start)
				}
				r.page(t, page)
				if r.info.Sampled != tt.want[i] || r.info.ProcessStart != start {
					t.Errorf("page %d: %+v", i, r.info)
				}
			}
		})
	}
}

// Workers that took turns are forgotten once a single one answered for an hour.
func TestSampledSettles(t *testing.T) {
	t.Parallel()
	r := newTestReader(SourceLiteLLM)
	page := func(start int) bool {
		r.page(t, fmt.Sprintf("%s %d\nlitellm_in_flight_requests 1\n", ProcessStart, start))
		return r.info.Sampled
	}
	page(5)
	page(6)
	page(5)
	r.clock.now = r.clock.now.Add(50 * time.Minute)
	if !page(6) {
		t.Error("forgotten while they take turns")
	}
	r.clock.now = r.clock.now.Add(50 * time.Minute)
	if !page(6) {
		t.Error("forgotten within the hour")
	}
	r.clock.now = r.clock.now.Add(10 * time.Minute)
	if page(6) {
		t.Error("not forgotten after an hour")
	}
	if page(6) || page(8) || !page(6) {
		t.Error("not found again")
	}
}
