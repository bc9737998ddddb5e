package collector

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const ttft = VLLMTTFT

// histogramLines writes a histogram's lines: pairs of a bound and a count.
func histogramLines(parts ...string) string {
	var b strings.Builder
	b.WriteString("vllm:num_requests_running 1\n")
	for i := 0; i < len(parts); i += 2 {
		switch parts[i] {
		case "sum", "count":
			b.WriteString(ttft + "_" + parts[i] + " " + parts[i+1] + "\n")
		default:
			b.WriteString(ttft + `_bucket{le="` + parts[i] + `"} ` + parts[i+1] + "\n")
		}
	}
	return b.String()
}

// TestHistogramWhole: what of a histogram a page has is what is passed on.
func TestHistogramWhole(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		name  string
		lines []string
		want  Histogram
	}{
		{"as it should be", []string{"0.5", "1", "2.0", "3", "+Inf", "4", "sum", "7.5", "count", "4"}, Histogram{Bounds: []float64{0.5, 2, inf}, Buckets: []float64{1, 3, 4}, Sum: 7.5, Count: 4}},
		{"in another order", []string{"count", "4", "+Inf", "4", "2.0", "3", "0.5", "1", "sum", "7.5"}, Histogram{Bounds: []float64{0.5, 2, inf}, Buckets: []float64{1, 3, 4}, Sum: 7.5, Count: 4}},
		{"one bound written in two ways", []string{"1", "2", "1.0", "3", "+Inf", "5"}, Histogram{Bounds: []float64{1, inf}, Buckets: []float64{5, 5}, Sum: nan, Count: nan}},
		{"buckets alone", []string{"1", "2", "+Inf", "5"}, Histogram{Bounds: []float64{1, inf}, Buckets: []float64{2, 5}, Sum: nan, Count: nan}},
		{"no buckets", []string{"sum", "7.5", "count", "4"}, Histogram{Sum: 7.5, Count: 4}},
		{"a sum that is no number", []string{"+Inf", "5", "sum", "NaN", "count", "5"}, Histogram{Bounds: []float64{inf}, Buckets: []float64{5}, Sum: nan, Count: 5}},
		{"a bucket that is no number", []string{"1", "+Inf", "2", "4", "+Inf", "5", "count", "5"}, Histogram{Bounds: []float64{2, inf}, Buckets: []float64{4, 5}, Sum: nan, Count: 5}},
		{"a bound that is no number", []string{"NaN", "1", "+Inf", "5", "count", "5"}, Histogram{Bounds: []float64{inf}, Buckets: []float64{5}, Sum: nan, Count: 5}},
		{"buckets that contradict each other", []string{"1", "9", "+Inf", "5", "count", "7"}, Histogram{Bounds: []float64{1, inf}, Buckets: []float64{9, 5}, Sum: nan, Count: 7}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, _, err := newPageReader(testTarget(SourceVLLM), DefaultLimits()).read(strings.NewReader(histogramLines(tt.lines...)), "", new(clock).next())
			if err != nil || len(got.histograms) != 1 || len(got.samples) != 1 {
				t.Fatalf("%d histograms, %d samples, error %v", len(got.histograms), len(got.samples), err)
			}
			h := got.histograms[0]
			if name := short(h.Series); name != ttft+`{engine="0"}` || !h.Series.Whole {
				t.Errorf("the series is %s", name)
			}
			h.Series = nil
			if !sameHistogram(h, tt.want) {
				t.Errorf("got %+v, want %+v", h, tt.want)
			}
		})
	}
}

func sameHistogram(a, b Histogram) bool {
	same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
	return slices.Equal(a.Bounds, b.Bounds) && slices.Equal(a.Buckets, b.Buckets) && same(a.Sum, b.Sum) && same(a.Count, b.Count)
}

// TestHistogramBounds: bounds are handed out again while they are the same, and
// what was handed out never changes.
func TestHistogramBounds(t *testing.T) {
	t.Parallel()
	p, now := newPageReader(testTarget(SourceVLLM), DefaultLimits()), new(clock)
	read := func(lines ...string) Histogram {
		t.Helper()
		got, _, err := p.read(strings.NewReader(histogramLines(lines...)), "", now.next())
		if err != nil || len(got.histograms) != 1 {
			t.Fatalf("%d histograms, error %v", len(got.histograms), err)
		}
		return got.histograms[0]
	}
	first := read("1", "2", "3", "4", "+Inf", "5", "count", "5")
	again := read("1", "3", "3", "5", "+Inf", "6", "count", "6")
	if &first.Bounds[0] != &again.Bounds[0] || first.Series != again.Series {
		t.Errorf("the same bounds are another slice, or the series is another one")
	}
	fewer := read("1", "4", "+Inf", "7", "count", "7")
	more := read("0.5", "1", "1", "5", "2", "6", "+Inf", "8", "count", "8")
	gone := read("count", "9")
	for _, tt := range []struct {
		got  Histogram
		want []float64
	}{
		{first, []float64{1, 3, math.Inf(1)}},
		{fewer, []float64{1, math.Inf(1)}},
		{more, []float64{0.5, 1, 2, math.Inf(1)}},
		{gone, nil},
	} {
		if !slices.Equal(tt.got.Bounds, tt.want) || tt.got.Series != first.Series {
			t.Errorf("bounds %v, want %v", tt.got.Bounds, tt.want)
		}
	}
	if got := slices.Clone(p.lose()); len(got) != 2 || !slices.Contains(got, first.Series) {
		t.Errorf("lost %v", names(got))
	}
}

// A histogramPart is one line of a user's histogram: a bound, "sum" or "count",
// and its value.
type histogramPart struct {
	part  string
	value float64
}

// latencyPage is a gateway's page with one histogram for each of its users.
func latencyPage(users map[string][]histogramPart) string {
	var b strings.Builder
	b.WriteString(ProcessStart + " 5\nlitellm_in_flight_requests 1\n")
	for user, parts := range users {
		for _, p := range parts {
			switch p.part {
			case "sum", "count":
				fmt.Fprintf(&b, "%s_%s{end_user=%q} %v\n", LiteLLMTotalLatency, p.part, user, p.value)
			default:
				fmt.Fprintf(&b, "%s_bucket{end_user=%q,le=%q} %v\n", LiteLLMTotalLatency, user, p.part, p.value)
			}
		}
	}
	return b.String()
}

// TestHistogramOutlivesItsUsers: what users had counted who are gone stays with
// the bucket that it was counted in, whatever buckets come between, before and after.
func TestHistogramOutlivesItsUsers(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	p, now := newPageReader(testTarget(SourceLiteLLM), DefaultLimits()), new(clock)
	for i, step := range []struct {
		users           map[string][]histogramPart
		bounds, buckets []float64
		count           float64
	}{
		{
			map[string][]histogramPart{"a": {{"1", 10}, {"5", 20}, {"+Inf", 30}, {"count", 30}}, "b": {{"+Inf", 3}, {"5", 2}, {"1", 1}, {"count", 3}}},
			[]float64{1, 5, inf},
			[]float64{11, 22, 33},
			33,
		},
		{ // a goes, and two bounds come, one written twice
			map[string][]histogramPart{"b": {{"5", 2}, {"3", 2}, {"0.5", 1}, {"0.50", 1}, {"1", 1}, {"+Inf", 3}, {"count", 3}}},
			[]float64{0.5, 1, 3, 5, inf},
			[]float64{2, 11, 2, 22, 33},
			33,
		},
		{ // c comes with bounds of its own and without some that there were
			map[string][]histogramPart{"b": {{"1", 2}, {"5", 3}, {"+Inf", 4}, {"count", 4}}, "c": {{"4", 7}, {"2", 6}, {"+Inf", 8}, {"count", 8}}},
			[]float64{1, 2, 4, 5, inf},
			[]float64{12, 6, 7, 23, 42},
			42,
		},
		{ // all that was counted of what comes back is there again
			map[string][]histogramPart{"b": {{"0.5", 2}, {"1", 2}, {"3", 3}, {"5", 3}, {"+Inf", 4}, {"count", 4}}},
			[]float64{0.5, 1, 3, 5, inf},
			[]float64{3, 12, 3, 23, 42},
			42,
		},
	} {
		got, _, err := p.read(strings.NewReader(latencyPage(step.users)), "", now.next())
		if err != nil || len(got.histograms) != 1 {
			t.Fatalf("page %d: %d histograms, error %v", i, len(got.histograms), err)
		}
		h := got.histograms[0]
		h.Series = nil
		if want := (Histogram{Bounds: step.bounds, Buckets: step.buckets, Sum: math.NaN(), Count: step.count}); !sameHistogram(h, want) {
			t.Errorf("page %d: got %+v, want %+v", i, h, want)
		}
	}
}

// TestHistogramForgetsBuckets: a bucket that no page has any more is forgotten,
// and what the others count is not.
func TestHistogramForgetsBuckets(t *testing.T) {
	t.Parallel()
	p, now := newPageReader(testTarget(SourceLiteLLM), DefaultLimits()), new(clock)
	both := map[string][]histogramPart{"a": {{"1", 1}, {"5", 2}, {"+Inf", 3}}, "b": {{"2", 10}, {"5", 20}, {"+Inf", 30}}}
	one := map[string][]histogramPart{"a": both["a"]}
	var h Histogram
	for i := range 2*forgetPages + 1 {
		users := one
		if i == 0 {
			users = both
		}
		got, _, err := p.read(strings.NewReader(latencyPage(users)), "", now.next())
		if err != nil || len(got.histograms) != 1 {
			t.Fatalf("page %d: %d histograms, error %v", i, len(got.histograms), err)
		}
		h = got.histograms[0]
	}
	h.Series = nil
	if want := (Histogram{Bounds: []float64{1, 5, math.Inf(1)}, Buckets: []float64{1, 22, 33}, Sum: math.NaN(), Count: math.NaN()}); !sameHistogram(h, want) {
		t.Errorf("got %+v, want %+v", h, want)
	}
	for _, out := range p.sums.outputs {
		if out.parts != nil && !slices.Equal(out.parts.bounds, h.Bounds) {
			t.Errorf("bounds %v are kept", out.parts.bounds)
		}
	}
}

// TestHistogramKeepsNoBuckets: bounds that no page has any more are forgotten.
func TestHistogramKeepsNoBuckets(t *testing.T) {
	t.Parallel()
	p, now := newPageReader(testTarget(SourceVLLM), DefaultLimits()), new(clock)
	for i := range 3 * forgetPages {
		page := histogramLines(strconv.Itoa(i), "1", "+Inf", "1", "count", "1")
		if _, _, err := p.read(strings.NewReader(page), "", now.next()); err != nil {
			t.Fatal(err)
		}
	}
	for _, out := range p.sums.outputs {
		if out.parts != nil && len(out.parts.bounds) > 2*forgetPages {
			t.Errorf("%d buckets are kept", len(out.parts.bounds))
		}
	}
}
