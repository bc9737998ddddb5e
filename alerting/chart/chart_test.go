package chart

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var preview = flag.String("preview", "", "folder into which the pictures are written, to look at them")

var t0 = time.Date(2026, 3, 2, 14, 0, 0, 0, time.UTC)

func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }

// collapse is a hit rate that falls while it is watched.
func collapse() Chart {
	c := Chart{
		Title: "Prefix cache hit rate", Where: "pool agents, qwen3-coder-30b", Top: 1,
		Began: t0.Add(-25 * time.Minute), Now: t0, Format: percent,
	}
	for at := t0.Add(-3 * time.Hour); at.Before(t0); at = at.Add(15 * time.Second) {
		if at.After(t0.Add(-110*time.Minute)) && at.Before(t0.Add(-95*time.Minute)) {
			continue // kvwatch was away
		}
		age := t0.Sub(at).Minutes()
		v := 0.93 + 0.02*math.Sin(age/7)
		if age < 25 {
			v = 0.41 + 0.52*math.Exp(-(25-age)/4)
		}
		c.Line = append(c.Line, Point{at, v})
		c.Usual = append(c.Usual, Point{at, 0.94})
	}
	return c
}

func queue() Chart {
	c := Chart{
		Title: "Requests that wait", Where: "pool agents", HasLimit: true, Limit: 30,
		Began: t0.Add(-100 * time.Minute), Ended: t0.Add(-20 * time.Minute), Now: t0,
		Format: func(v float64) string { return fmt.Sprintf("%.0f", v) },
	}
	for at := t0.Add(-3 * time.Hour); !at.After(t0); at = at.Add(time.Minute) {
		age := t0.Sub(at).Minutes()
		c.Line = append(c.Line, Point{at, math.Max(0, 87-math.Abs(age-60)*2)})
	}
	return c
}

func TestPNG(t *testing.T) {
	t.Parallel()
	seconds := collapse()
	seconds.Line = seconds.Line[len(seconds.Line)-8:]
	long := queue()
	long.Title, long.Where = "A title that is far too long for the width of a phone and must be made smaller", ""
	long.Began, long.Ended = t0.Add(-30*time.Hour), t0.Add(-20*time.Hour)
	for name, c := range map[string]Chart{"collapse": collapse(), "queue": queue(), "seconds": seconds, "long": long} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := c.PNG()
			if err != nil {
				t.Fatal(err)
			}
			if *preview != "" {
				if err := os.WriteFile(filepath.Join(*preview, "chart_"+name+".png"), raw, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			img, err := png.Decode(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			if b := img.Bounds(); b.Dx() != width || b.Dy() != height {
				t.Errorf("the picture is %v", b)
			}
			dark := 0
			for x := range width {
				r, g, b, _ := img.At(x, 5).RGBA()
				if r != 0xffff || g != 0xffff || b != 0xffff {
					t.Fatal("the background is not white")
				}
				if r, _, _, _ := img.At(x, 50).RGBA(); r < 0x4000 {
					dark++
				}
			}
			if dark == 0 {
				t.Error("there is no title")
			}
			if len(raw) > 150_000 {
				t.Errorf("%d bytes are many for a phone", len(raw))
			}
		})
	}
}

func TestTooFew(t *testing.T) {
	t.Parallel()
	for name, line := range map[string][]Point{"none": nil, "one": {{t0, 1}}, "all of them now": {{t0, 1}, {t0, 2}}} {
		if _, err := (Chart{Line: line, Now: t0, Format: percent}).PNG(); !errors.Is(err, ErrTooFew) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAlt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		chart Chart
		want  string
	}{
		{collapse(), "Prefix cache hit rate, pool agents, qwen3-coder-30b from 11:00 to 14:00 UTC: first 94 %, last 41 %, between 41 % and 95 %; usual 94 %; the incident began at 13:35."},
		{queue(), "Requests that wait, pool agents from 11:00 to 14:00 UTC: first 0, last 0, between 0 and 87; limit 30; the incident began at 12:20 and ended at 13:40."},
		{Chart{Title: "Requests that wait"}, "Requests that wait"},
	} {
		if got := tt.chart.Alt(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestScales(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		low, high float64
		want      []float64
	}{
		{0, 1, []float64{0, 0.25, 0.5, 0.75, 1}},
		{0, 87, []float64{0, 25, 50, 75, 100}},
		{0, 0, []float64{0, 0.25, 0.5, 0.75, 1}},
		{0.4, 1.3, []float64{0, 0.5, 1, 1.5}},
		{-3, 4, []float64{-4, -2, 0, 2, 4}},
		{0, 12345, []float64{0, 5000, 10000, 15000}},
	} {
		if diff := cmp.Diff(tt.want, valueTicks(tt.low, tt.high)); diff != "" {
			t.Errorf("from %g to %g (-want +got):\n%s", tt.low, tt.high, diff)
		}
	}
	for _, tt := range []struct {
		span time.Duration
		want []string
	}{
		{40 * time.Second, []string{"13:59:30", "13:59:45", "14:00:00"}},
		{3 * time.Hour, []string{"11:00", "12:00", "13:00", "14:00"}},
		{24 * time.Hour, []string{"18:00", "00:00", "06:00", "12:00"}},
		{90 * time.Hour, []string{"27 Feb", "28 Feb", "1 Mar", "2 Mar"}},
	} {
		var got []string
		ticks, step := timeTicks(t0.Add(-tt.span), t0)
		for _, at := range ticks {
			got = append(got, clock(at, step))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.span, diff)
		}
	}
}

func TestStretches(t *testing.T) {
	t.Parallel()
	var lengths []int
	for _, s := range stretches(collapse().Line) {
		lengths = append(lengths, len(s))
	}
	if diff := cmp.Diff([]int{281, 380}, lengths); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := stretches(nil); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestLabelsDoNotCoverEachOther(t *testing.T) {
	t.Parallel()
	var got []int
	for _, l := range apart([]label{{y: 630}, {y: 640}, {y: 300}, {y: 310}}) {
		got = append(got, l.y)
	}
	if diff := cmp.Diff([]int{300, 344, 596, 640}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func BenchmarkPNG(b *testing.B) {
	b.ReportAllocs()
	c := collapse()
	for b.Loop() {
		if _, err := c.PNG(); err != nil {
			b.Fatal(err)
		}
	}
}
