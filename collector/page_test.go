package collector

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// testPage is a page of testdata, unpacked.
func testPage(t testing.TB, name string) []byte {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(name, ".gz") {
		return file
	}
	zr, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// clock gives each page of a test its time, 15 seconds after the one before.
type clock struct{ now time.Time }

func (c *clock) next() time.Time {
	if c.now.IsZero() {
		c.now = time.Unix(1_800_000_000, 0)
	}
	c.now = c.now.Add(15 * time.Second)
	return c.now
}

// testReader reads pages in a test and gives the samples by their labels
// without job and instance.
type testReader struct {
	*pageReader
	clock clock
	info  pageInfo
	stale []string
}

func newTestReader(source string) *testReader {
	return &testReader{pageReader: newPageReader(testTarget(source), DefaultLimits())}
}

func (r *testReader) page(t testing.TB, page string) map[string]float64 {
	t.Helper()
	samples, stale, info, err := r.read(strings.NewReader(page), "", r.clock.next())
	if err != nil {
		t.Fatalf("the page was refused: %v", err)
	}
	r.info, r.stale = info, names(stale)
	return values(samples)
}

func values(samples []Sample) map[string]float64 {
	got := make(map[string]float64, len(samples))
	for _, s := range samples {
		got[short(s.Series)] = s.Value
	}
	return got
}

func names(series []*Series) []string {
	var got []string
	for _, s := range series {
		got = append(got, short(s))
	}
	slices.Sort(got)
	return got
}

// short writes a series as a page does, without job and instance.
func short(s *Series) string {
	lset := labels.NewBuilder(s.Labels).Del("job", "instance", labels.MetricName).Labels()
	name := s.Labels.Get(labels.MetricName)
	if lset.IsEmpty() {
		return name
	}
	return name + strings.ReplaceAll(lset.String(), ", ", ",")
}

// expect reads a page in the simplest way there is: all of it at once through
// Prometheus's parser, then each family of the source by its best name.
func expect(t *testing.T, src *source, page []byte, openMetrics bool) map[string]float64 {
	t.Helper()
	type exposed struct {
		lset  labels.Labels
		value float64
	}
	byName := map[string][]exposed{}
	parser := textparse.NewPromParser(page, nil, false)
	if openMetrics {
		parser = textparse.NewOpenMetricsParser(page, nil)
	}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, value := parser.Series()
		var lset labels.Labels
		parser.Labels(&lset)
		name := lset.Get(labels.MetricName)
		byName[name] = append(byName[name], exposed{lset, value})
	}
	want := map[string]float64{}
	for _, f := range append([]family{{name: ProcessStart, kind: peak}}, src.families...) {
		for _, suffix := range f.kind.suffixes() {
			i := slices.IndexFunc(exposedNames(&f), func(n string) bool { return len(byName[n+suffix]) > 0 })
			if i < 0 {
				continue
			}
			for _, e := range byName[exposedNames(&f)[i]+suffix] {
				kept := labels.NewBuilder(labels.EmptyLabels())
				kept.Set(labels.MetricName, f.name+suffix)
				keep := f.labels
				if f.name != ProcessStart {
					keep = append(slices.Clone(src.labels), f.labels...)
					for l, v := range src.defaults {
						kept.Set(l, v)
					}
				}
				if suffix == suffixBucket {
					keep = append(slices.Clone(keep), labels.BucketLabel)
				}
				for _, l := range keep {
					if v := e.lset.Get(l); v != "" && v != "None" {
						kept.Set(l, v)
					}
				}
				key := short(&Series{Labels: kept.Labels()})
				if old, ok := want[key]; ok && (f.kind == peak || f.kind == moved) {
					want[key] = math.Max(old, e.value)
				} else {
					want[key] += e.value
				}
			}
		}
	}
	return want
}

func TestReadRealPages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		page    string
		source  string
		samples int
		want    map[string]float64
	}{
		{page: "vllm-0.13.0.prom.gz", source: SourceVLLM},
		{page: "vllm-0.13.0-idle.prom.gz", source: SourceVLLM},
		{page: "vllm-0.24.0.prom.gz", source: SourceVLLM},
		{page: "vllm-0.24.0-idle.prom.gz", source: SourceVLLM},
		{page: "vllm-0.28-dp2.prom.gz", source: SourceVLLM},
		{page: "vllm-0.28-multiprocess.prom.gz", source: SourceVLLM},
		{page: "vllm-0.32.0.prom.gz", source: SourceVLLM},
		{page: "vllm-rust-frontend.prom", source: SourceVLLM},
		{page: "litellm-1.102.0.prom.gz", source: SourceLiteLLM},
		{page: "litellm-1.102.0-multiprocess.prom.gz", source: SourceLiteLLM},
		{page: "litellm-1.102.0-single.prom.gz", source: SourceLiteLLM},
		{page: "litellm-1.106.12.prom.gz", source: SourceLiteLLM},
	}
	for _, tt := range tests {
		t.Run(tt.page, func(t *testing.T) {
			t.Parallel()
			page := testPage(t, tt.page)
			openMetrics := tt.page == "vllm-rust-frontend.prom"
			r := newTestReader("") // recognised from the page
			for range 2 {          // once with new series, once with known ones
				got := r.page(t, string(page))
				want := expect(t, registered.named(tt.source), page, openMetrics)
				if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
					t.Errorf("samples (-want +got):\n%s", diff)
				}
				if r.info.Source != tt.source || r.info.BadLines > 0 || len(r.stale) > 0 || r.info.Bytes != int64(len(page)) {
					t.Errorf("info %+v, stale %v", r.info, r.stale)
				}
				t.Logf("%d samples %d wanted from %d names", len(got), r.info.Wanted, len(r.info.From))
			}
			for _, k := range slices.Sorted(maps.Keys(r.info.From)) {
				t.Log(k, r.info.From[k])
			}
		})
	}
}
