package collector

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"
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
	got, info, err := r.read(strings.NewReader(page), "", r.clock.next())
	if err != nil {
		t.Fatalf("the page was refused: %v", err)
	}
	r.info, r.stale = info, names(got.stale)
	return values(got.classic())
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
	lset := labels.NewBuilder(s.Labels).Del("job", "instance", model.MetricNameLabel).Labels()
	name := s.Labels.Get(model.MetricNameLabel)
	if lset.IsEmpty() {
		return name
	}
	return name + strings.ReplaceAll(lset.String(), ", ", ",")
}

// pageSample is one sample of a page as another parser reads it.
type pageSample struct {
	name  string // with its suffix
	lset  map[string]string
	value float64
}

// parsed reads a page by Prometheus's parser, all of it at once.
func parsed(page []byte, openMetrics bool) ([]pageSample, error) {
	if bytes.IndexByte(page, 0) >= 0 {
		return nil, errors.New("it ends without a word at the first zero byte")
	}
	parser := textparse.NewPromParser(page, nil, false)
	if openMetrics {
		parser = textparse.NewOpenMetricsParser(page, nil)
	}
	var all []pageSample
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, value := parser.Series()
		var lset labels.Labels
		parser.Labels(&lset)
		// It takes a tab before a name for a part of it.
		all = append(all, pageSample{strings.TrimLeft(lset.Get(model.MetricNameLabel), "\t"), lset.Map(), value})
	}
}

// expected is what has to come of the samples of a page, in the simplest way
// there is: each family of the source by its best name. scale is the sum of
// what each value was summed of, without signs: it bounds what rounding does.
func expected(src *source, page []pageSample) (want, scale map[string]float64) {
	byName := map[string][]pageSample{}
	for _, e := range page {
		foreign := src.foreign != "" && e.lset[src.foreign] != "" && e.name != ProcessStart
		if !foreign && !isNotNumber(e.value) {
			byName[e.name] = append(byName[e.name], e)
		}
	}
	want, scale = map[string]float64{}, map[string]float64{}
	for _, f := range append([]family{{name: ProcessStart, kind: peak}}, src.families...) {
		names := exposedNames(&f)
		best := slices.IndexFunc(names, func(n string) bool {
			return slices.ContainsFunc(f.kind.suffixes(), func(suffix string) bool { return len(byName[n+suffix]) > 0 })
		})
		if best < 0 {
			continue
		}
		for _, suffix := range f.kind.suffixes() {
			for _, e := range byName[names[best]+suffix] {
				key := expectedSeries(src, &f, suffix, e.lset)
				if old, ok := want[key]; ok && (f.kind == peak || f.kind == moved) {
					want[key] = math.Max(old, e.value)
				} else {
					want[key] += e.value
				}
				scale[key] += math.Abs(e.value)
			}
		}
	}
	return want, scale
}

// expectedSeries is the series that a sample goes into.
func expectedSeries(src *source, f *family, suffix string, lset map[string]string) string {
	kept := labels.NewBuilder(labels.FromStrings(model.MetricNameLabel, f.name+suffix))
	keep := slices.Clone(f.labels)
	if f.name != ProcessStart {
		keep = append(keep, src.labels...)
	}
	for _, l := range keep {
		v := lset[l]
		if v == "" {
			v = lset[src.renames[l]]
		}
		if v == "" || v == "None" {
			v = src.defaults[l]
		}
		kept.Set(l, v)
	}
	if suffix == BucketSuffix {
		bound, _ := strconv.ParseFloat(lset[labels.BucketLabel], 64)
		kept.Set(labels.BucketLabel, labels.FormatOpenMetricsFloat(bound))
	}
	return short(&Series{Labels: kept.Labels()})
}

func TestReadRealPages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		page     string
		source   string
		samples  int // after summing
		families int
	}{
		{"vllm-0.13.0.prom.gz", SourceVLLM, 185, 24},
		{"vllm-0.13.0-idle.prom.gz", SourceVLLM, 185, 24},
		{"vllm-0.24.0.prom.gz", SourceVLLM, 192, 27},
		{"vllm-0.24.0-idle.prom.gz", SourceVLLM, 192, 27},
		{"vllm-0.28-dp2.prom.gz", SourceVLLM, 411, 28},
		{"vllm-0.28-dp2-later.prom.gz", SourceVLLM, 411, 28},
		{"vllm-0.28-multiprocess.prom.gz", SourceVLLM, 406, 26},
		{"vllm-0.32.0.prom.gz", SourceVLLM, 199, 29},
		{"vllm-rust-frontend.prom", SourceVLLM, 18, 8},
		{"litellm-1.102.0.prom.gz", SourceLiteLLM, 183, 15},
		{"litellm-1.102.0-multiprocess.prom.gz", SourceLiteLLM, 446, 24},
		{"litellm-1.102.0-single.prom.gz", SourceLiteLLM, 42, 5},
		{"litellm-1.106.12.prom.gz", SourceLiteLLM, 222, 16},
	}
	for _, tt := range tests {
		t.Run(tt.page, func(t *testing.T) {
			t.Parallel()
			page := testPage(t, tt.page)
			exposed, err := parsed(page, tt.page == "vllm-rust-frontend.prom")
			if err != nil {
				t.Fatal(err)
			}
			want, _ := expected(registered.named(tt.source), exposed)
			r := newTestReader("") // recognised from the page
			for range 2 {          // once with new series, once with known ones
				got := r.page(t, string(page))
				if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
					t.Errorf("samples (-want +got):\n%s", diff)
				}
				if len(got) != tt.samples || len(r.info.names) != tt.families {
					t.Errorf("%d samples of %d families, want %d of %d", len(got), len(r.info.names), tt.samples, tt.families)
				}
				if r.info.Source != tt.source || r.info.BadLines > 0 || len(r.stale) > 0 || r.info.Bytes != int64(len(page)) {
					t.Errorf("info %+v, stale %v", r.info, r.stale)
				}
			}
		})
	}
}

func TestReadInSmallPieces(t *testing.T) {
	t.Parallel()
	page := testPage(t, "vllm-0.28-dp2.prom.gz")
	want := newTestReader(SourceVLLM).page(t, string(page))
	for name, body := range map[string]io.Reader{
		"half reads":    iotest.HalfReader(bytes.NewReader(page)),
		"single bytes":  iotest.OneByteReader(bytes.NewReader(page)),
		"end with data": iotest.DataErrReader(bytes.NewReader(page)),
	} {
		got, _, err := newPageReader(testTarget(""), DefaultLimits()).read(body, "", time.Unix(1, 0))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, values(got.classic())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

const smallVLLM = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 4809.0
`

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	small := DefaultLimits()
	small.BodyBytes, small.Series, small.LabelsPerSeries, small.LabelNameLength, small.LabelValueLength = 400, 2, 3, 12, 20
	histogram := `vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5"} 3` + "\n"
	tests := []struct {
		name, source, contentType, page string
		limits                          Limits
		body                            io.Reader
		want                            State
		reason                          string
	}{
		{name: "empty", page: "", want: StateNoMetrics, reason: "empty"},
		{name: "blank lines", page: "\n\n", want: StateNoMetrics, reason: "empty"},
		{name: "no known family", page: "# TYPE up gauge\nup 1\n", want: StateNoMetrics, reason: "no known metric family"},
		{name: "no known family, LiteLLM expected", source: SourceLiteLLM, page: "process_start_time_seconds 1\n", want: StateNoMetrics, reason: "callbacks"},
		{name: "another kind", source: SourceLiteLLM, page: smallVLLM, want: StateNoMetrics, reason: "vllm server but the target's source is litellm"},
		{name: "yet another kind", source: SourceVLLM, page: "python_info 1\nlitellm_in_flight_requests 1\n", want: StateNoMetrics, reason: "litellm server but the target's source is vllm"},
		{name: "log stats off", source: SourceVLLM, page: "python_info 1\nhttp_requests_total{handler=\"/v1\"} 4\n", want: StateMetricsDisabled, reason: "--disable-log-stats"},
		{
			name:   "production-stack's router",
			page:   `vllm:num_requests_running{server="http://a:8000"} 3` + "\n" + `vllm:gpu_prefix_cache_hits_total{server="http://a:8000"} 3` + "\n",
			want:   StateNoMetrics,
			reason: "scrape the engines",
		},
		{name: "HTML", page: "<!DOCTYPE html>\n<html>\n<body>Not here</body>\n</html>\n", want: StateNotMetrics, reason: "HTML"},
		{name: "HTML without an end of line", page: "<html><body>x</body></html>", want: StateNotMetrics, reason: "HTML"},
		{name: "JSON", page: `{"error": "no"}`, want: StateNotMetrics},
		{name: "JSON over lines", page: "{\n\"error\": \"no\"\n}\n", want: StateNotMetrics},
		{name: "prose", page: "I'm alive and well\nthank you\n", want: StateNotMetrics},
		{name: "binary", page: "\x1f\x8b\x08\x00\n\x00\xff\xfe\n\x00\x01\x02", want: StateNotMetrics},
		{name: "cut within a name", page: smallVLLM + "vllm:prompt_tok", want: StateTruncated},
		{name: "cut within labels", page: smallVLLM + `vllm:num_preemptions_total{engine="0",mod`, want: StateTruncated},
		{name: "cut before the value", page: smallVLLM + `vllm:num_preemptions_total{engine="0"} `, want: StateTruncated},
		{name: "cut behind the point", page: smallVLLM + `vllm:num_preemptions_total{engine="0"} 12.`, want: StateTruncated},
		{name: "cut within an exponent", page: smallVLLM + `vllm:num_preemptions_total{engine="0"} 1.2e+`, want: StateTruncated},
		{name: "cut within a line not wanted", page: smallVLLM + `http_requests_total{handler="/v1`, want: StateTruncated},
		{name: "cut within a comment", page: smallVLLM + `# HELP vllm:num_pree`, want: StateTruncated},
		{name: "cut between buckets", page: smallVLLM + histogram, want: StateTruncated},
		{name: "OpenMetrics without its end", contentType: "application/openmetrics-text; version=1.0.0", page: smallVLLM, want: StateTruncated, reason: "# EOF"},
		{name: "connection broke off", body: io.MultiReader(strings.NewReader(smallVLLM), iotest.ErrReader(io.ErrUnexpectedEOF)), want: StateTruncated},
		{name: "too many bytes", limits: small, page: smallVLLM + strings.Repeat("# filler\n", 100), want: StateTooLarge, reason: "body_size_limit"},
		{name: "too many samples", limits: small, page: `vllm:num_requests_running 1
vllm:num_requests_waiting 1
vllm:num_preemptions_total 1
`, want: StateTooLarge, reason: "sample_limit"},
		{name: "too many labels", limits: small, page: `vllm:num_requests_running{a="1",b="2",c="3",d="4"} 1` + "\n", want: StateTooLarge, reason: "label_limit"},
		{name: "label name too long", limits: small, page: `vllm:num_requests_running{abcdefghijklmnop="1"} 1` + "\n", want: StateTooLarge, reason: "label_name_length_limit"},
		{name: "label value too long", limits: small, page: `vllm:num_requests_running{a="123456789012345678901"} 1` + "\n", want: StateTooLarge, reason: "label_value_length_limit"},
		{name: "endless line", page: "a" + strings.Repeat("b", 2*maxLineBytes), want: StateTooLarge, reason: "line"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.limits == (Limits{}) {
				tt.limits = DefaultLimits()
			}
			if tt.body == nil {
				tt.body = strings.NewReader(tt.page)
			}
			got, _, err := newPageReader(testTarget(tt.source), tt.limits).read(tt.body, tt.contentType, time.Unix(1, 0))
			refused, ok := errors.AsType[*PageError](err)
			if !ok {
				t.Fatalf("error %v, samples %v", err, values(got.classic()))
			}
			if refused.State != tt.want || !strings.Contains(refused.Reason, tt.reason) {
				t.Errorf("refused as %s: %s", refused.State, refused.Reason)
			}
			if samples := got.classic(); len(samples)+len(got.stale) > 0 {
				t.Errorf("%d samples and %d stale series of a page that was refused", len(samples), len(got.stale))
			}
		})
	}
}

func TestReadTakes(t *testing.T) {
	t.Parallel()
	running := `vllm:num_requests_running{engine="0",model_name="m"}`
	tests := []struct {
		name, contentType, page string
		want                    map[string]float64
		bad, notNumbers         int
	}{
		{name: "no end of line", page: strings.TrimSuffix(smallVLLM, "\n"), want: map[string]float64{
			running: 3, `vllm:prompt_tokens_total{engine="0",model_name="m"}`: 4809,
		}},
		{name: "carriage returns", page: strings.ReplaceAll(smallVLLM, "\n", "\r\n"), want: map[string]float64{
			running: 3, `vllm:prompt_tokens_total{engine="0",model_name="m"}`: 4809,
		}},
		{name: "timestamps are ignored", page: running + " 3 1795985480002\n", want: map[string]float64{running: 3}},
		{name: "blanks", page: "  vllm:num_requests_running { engine = \"0\" , model_name = \"m\" }\t 3 \n", want: map[string]float64{running: 3}},
		{name: "bad lines", page: running + " 3\nvllm:num_requests_waiting{engine=} 3\nvllm:num_requests_waiting{engine=\"0\"} three\nup 1\n", want: map[string]float64{running: 3}, bad: 2},
		{name: "twice the same line", page: running + " 3\n" + running + " 4\n", want: map[string]float64{running: 3}, bad: 1},
		{
			name:       "no numbers",
			page:       running + " NaN\nvllm:num_requests_waiting +Inf\nvllm:num_preemptions_total -Inf\nvllm:prompt_tokens_total 1\n",
			want:       map[string]float64{`vllm:prompt_tokens_total{engine="0"}`: 1},
			notNumbers: 3,
		},
		{name: "large numbers", page: "vllm:prompt_tokens_total 1.2e+010\n", want: map[string]float64{`vllm:prompt_tokens_total{engine="0"}`: 1.2e10}},
		{name: "declared, without samples", page: "# HELP vllm:num_requests_running x\n# TYPE vllm:num_requests_running gauge\npython_info 1\n", want: map[string]float64{}},
		{name: "an end mark in the text format", page: smallVLLM + "# EOF", want: map[string]float64{
			running: 3, `vllm:prompt_tokens_total{engine="0",model_name="m"}`: 4809,
		}},
		{
			name:        "exemplars",
			contentType: "application/openmetrics-text; version=1.0.0",
			page:        `vllm:request_success_total{engine="0",finished_reason="a } b # {"} 3 # {trace_id="}"} 1 1795985480.002` + "\n# EOF\n",
			want:        map[string]float64{`vllm:request_success_total{engine="0",finished_reason="a } b # {"}`: 3},
		},
		{
			name: "exemplars in the text format",
			page: `vllm:prompt_tokens_total{engine="0"} 3 # {trace_id="x"} 1` + "\n",
			want: map[string]float64{`vllm:prompt_tokens_total{engine="0"}`: 3},
		},
		{
			name: "bounds as Prometheus writes them",
			page: `vllm:e2e_request_latency_seconds_bucket{le="1"} 1
vllm:e2e_request_latency_seconds_bucket{le="1000000.0"} 2
vllm:e2e_request_latency_seconds_bucket{le="+Inf"} 2
`,
			want: map[string]float64{
				`vllm:e2e_request_latency_seconds_bucket{engine="0",le="1.0"}`:   1,
				`vllm:e2e_request_latency_seconds_bucket{engine="0",le="1e+06"}`: 2,
				`vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf"}`:  2,
			},
		},
		{name: "bucket without bound", page: running + " 3\nvllm:e2e_request_latency_seconds_bucket 1\nup 1\n", want: map[string]float64{running: 3}, bad: 1},
		{name: "names in quotes", page: running + " 3\n{\"other.name\",a=\"b\"} 1\n", want: map[string]float64{running: 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPageReader(testTarget(""), DefaultLimits())
			for range 2 {
				got, info, err := p.read(strings.NewReader(tt.page), tt.contentType, time.Unix(1, 0))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, values(got.classic())); diff != "" {
					t.Errorf("samples (-want +got):\n%s", diff)
				}
				if info.BadLines != tt.bad || info.NotNumbers != tt.notNumbers {
					t.Errorf("%d bad lines and %d that are no numbers", info.BadLines, info.NotNumbers)
				}
			}
		})
	}
}

// A page cut anywhere is refused, or what is taken of it is true. Only a number
// that is cut within its digits, in a series seen for the first time, cannot be
// told from a whole one.
func TestReadCutAnywhere(t *testing.T) {
	t.Parallel()
	page := testPage(t, "vllm-0.32.0.prom.gz")
	want := newTestReader("").page(t, string(page))
	known := newTestReader("")
	known.page(t, string(page))
	for cut := len(page) - 1; cut > 0; cut -= 61 {
		got, _, err := known.read(bytes.NewReader(page[:cut]), "", known.clock.next())
		if err != nil {
			if _, ok := errors.AsType[*PageError](err); !ok {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			continue
		}
		for _, s := range got.classic() {
			if key := short(s.Series); s.Value != want[key] && s.Series.Labels.Get(model.MetricNameLabel) != VLLMKVUsage {
				t.Errorf("cut at %d: %s is %v instead of %v", cut, key, s.Value, want[key])
			}
		}
	}
}

// Families may come, go and change places from page to page.
func TestReadOrderChanges(t *testing.T) {
	t.Parallel()
	lines := []string{
		"process_start_time_seconds 5", "python_info 1", "http_requests_total 3", "vllm:num_requests_running 1",
		"vllm:num_requests_waiting 2", "vllm:prompt_tokens_total 3", "vllm:unknown 4", "vllm:generation_tokens_total 5",
	}
	random := rand.New(rand.NewPCG(1, 2))
	r := newTestReader(SourceVLLM)
	for range 200 {
		random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		page := strings.Join(lines[random.IntN(2):], "\n") + "\n"
		exposed, err := parsed([]byte(page), false)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := expected(registered.named(SourceVLLM), exposed)
		if diff := cmp.Diff(want, r.page(t, page)); diff != "" {
			t.Fatalf("samples (-want +got):\n%s", diff)
		}
	}
}

// A page that is refused changes nothing: the next one goes on where the last
// one that was taken ended.
func TestReadRefusedChangesNothing(t *testing.T) {
	t.Parallel()
	r := newTestReader("")
	first := r.page(t, smallVLLM)
	if got, _, err := r.read(strings.NewReader(smallVLLM+"vllm:num_preemp"), "", r.clock.next()); err == nil || len(got.stale) > 0 {
		t.Fatalf("taken: %v, stale %v", err, names(got.stale))
	}
	if diff := cmp.Diff(first, r.page(t, smallVLLM)); diff != "" || len(r.stale) > 0 {
		t.Errorf("stale %v, samples (-want +got):\n%s", r.stale, diff)
	}
}

func TestReadGivesBackTheBodysError(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	_, _, err := newPageReader(testTarget(""), DefaultLimits()).read(iotest.ErrReader(broken), "", time.Unix(1, 0))
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestStaleSeries(t *testing.T) {
	t.Parallel()
	p := newPageReader(testTarget(SourceVLLM), DefaultLimits())
	read := func(page string) (samples []*Series, stale []*Series) {
		t.Helper()
		got, _, err := p.read(strings.NewReader(page), "", time.Unix(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range got.samples {
			samples = append(samples, s.Series)
		}
		return samples, slices.Clone(got.stale)
	}
	const running, waiting = "vllm:num_requests_running 1\n", "vllm:num_requests_waiting 1\n"
	both, _ := read(running + waiting)
	if _, stale := read(running); len(stale) != 1 || stale[0] != both[1] {
		t.Errorf("stale after one went: %v", names(stale))
	}
	if _, stale := read(running); len(stale) != 0 {
		t.Errorf("stale twice: %v", names(stale))
	}
	again, stale := read(running + waiting)
	if len(stale) != 0 || !slices.Equal(again, both) {
		t.Errorf("it came back as another series")
	}
	if lost := slices.Clone(p.lose()); !slices.Equal(lost, both) {
		t.Errorf("lost %v", names(lost))
	}
	if lost := p.lose(); len(lost) != 0 {
		t.Errorf("lost twice: %v", names(lost))
	}
	if again, stale := read(running + waiting); len(stale) != 0 || !slices.Equal(again, both) {
		t.Errorf("after a failed scrape it came back as another series")
	}
	if _, stale := read("vllm:num_requests_running NaN\n" + waiting); len(stale) != 1 || stale[0] != both[0] {
		t.Errorf("stale after a value that is no number: %v", names(stale))
	}
}

func TestTargetLabels(t *testing.T) {
	t.Parallel()
	target := testTarget(SourceVLLM)
	target.Labels = labels.FromStrings("__meta_x", "y", "job", "vllm", "instance", "a:8000", "rack", "r1", "model_name", "mine")
	got, _, err := newPageReader(target, DefaultLimits()).read(strings.NewReader("vllm:num_requests_running{model_name=\"m\",job=\"x\",instance=\"y\"} 1\nvllm:num_requests_waiting 1\n"), "", time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{__name__="vllm:num_requests_running", engine="0", instance="a:8000", job="vllm", model_name="m", rack="r1"}`,
		`{__name__="vllm:num_requests_waiting", engine="0", instance="a:8000", job="vllm", model_name="mine", rack="r1"}`,
	}
	for i, s := range got.samples {
		if ls := s.Series.Labels.String(); ls != want[i] {
			t.Errorf("labels %s, want %s", ls, want[i])
		}
	}
}

// Nothing is kept of a series that no page held for a long time.
func TestForget(t *testing.T) {
	t.Parallel()
	r := newTestReader(SourceVLLM)
	for i := range 3 * forgetPages {
		r.page(t, fmt.Sprintf("vllm:num_requests_running 1\nvllm:request_success_total{finished_reason=\"r%d\"} 1\n", i))
	}
	if in, out := r.sums.known(), len(r.sums.outputs); in > 2*forgetPages || out > 2*forgetPages {
		t.Errorf("%d inputs and %d outputs are kept", in, out)
	}
	limits := DefaultLimits()
	limits.Series = 10
	p := newPageReader(testTarget(SourceVLLM), limits)
	for i := range 100 {
		if _, _, err := p.read(strings.NewReader(fmt.Sprintf("vllm:request_success_total{finished_reason=\"r%d\"} 1\n", i)), "", time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if in := p.sums.known(); in > 2*limits.Series {
		t.Errorf("%d inputs are kept with a limit of %d", in, limits.Series)
	}
}

// Between two scrapes of the same series nothing is allocated.
func TestReadDoesNotAllocate(t *testing.T) {
	for _, name := range []string{"vllm-0.28-dp2.prom.gz", "vllm-0.32.0.prom.gz", "litellm-1.102.0.prom.gz", "litellm-1.106.12.prom.gz"} {
		body := bytes.NewReader(testPage(t, name))
		p := newPageReader(testTarget(""), DefaultLimits())
		read := func() {
			if _, err := body.Seek(0, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if _, _, err := p.read(body, "", time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}
		read()
		read()
		if n := testing.AllocsPerRun(20, read); n > 2 { // the pages themselves hold over 200 samples
			t.Errorf("%s: %v allocations a page", name, n)
		}
	}
}
