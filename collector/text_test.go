package collector

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

func FuzzParseValue(f *testing.F) {
	for _, seed := range []string{"0", "0.0", "4809.0", "4.809295e+06", "0.20400500625782228", "1.7959836241820674e+09", "1.2e+010", "9.223372036854776e+18", "NaN", "+Inf", "-0.5", "1_0", "0x1p-2", "1.", ".5", "00012.50", "999999999999999", "1000000000000000.5", "1e999", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parseValue([]byte(s))
		want, err := strconv.ParseFloat(s, 64)
		if err != nil || strings.ContainsAny(s, "pP_") || strings.HasSuffix(s, ".") || len(s) > maxNumber {
			if ok {
				t.Fatalf("%q was taken for %v", s, got)
			}
			return
		}
		if !ok || math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%q is %v (%v), want %v", s, got, ok, want)
		}
	})
}

func TestSeriesEnd(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line            string
		text, exemplars int
	}{
		{`a 1`, 1, 1},
		{`a{} 1`, 3, 3},
		{`a{x="}"} 1`, 8, 8},
		{`a {x="\"}"} 1`, 11, 11},
		{`a{x="\\"} 1`, 9, 9},
		{`a{x="1"} 1 # {y="2"} 3`, 20, 8},
		{`a{x="1`, 0, -1},
		{`a`, -1, -1},
	}
	for _, tt := range tests {
		if got := seriesEnd([]byte(tt.line), 1, false); got != tt.text {
			t.Errorf("%s ends at %d, want %d", tt.line, got, tt.text)
		}
		if got := seriesEnd([]byte(tt.line), 1, true); got != tt.exemplars {
			t.Errorf("%s with exemplars ends at %d, want %d", tt.line, got, tt.exemplars)
		}
	}
}
