package review

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"kvwatch/rules/sizing"
)

// period is two days from midnight; slots of it miss a tenth of 1 000 prompt
// tokens, but for an hour in which they miss half.
func period() (from, bad time.Time, slots []sizing.Slot) {
	from = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	bad = from.Add(30 * time.Hour)
	for at := from; at.Before(from.Add(48 * time.Hour)); at = at.Add(sizing.SlotLength) {
		s := sizing.Slot{
			Start: at, Engines: 2, EngineSeconds: 600, BusySeconds: 300, Requests: 300, Prompted: 1000, Missed: 100, Output: 600,
			KVTokens: new(500.0), Capacity: new(1000.0), Waiting: new(0.0),
		}
		if !at.Before(bad) && at.Before(bad.Add(time.Hour)) {
			s.Missed, s.Requests, s.Waiting = 500, 600, new(7.0)
		}
		slots = append(slots, s)
	}
	return from, bad, slots
}

func TestReview(t *testing.T) {
	t.Parallel()
	from, bad, slots := period()
	end := bad.Add(time.Hour)
	r := New(Input{
		From: from, To: from.Add(48 * time.Hour), Source: "a test", Slots: map[string][]sizing.Slot{"lab": slots},
		Incidents: []Incident{
			{Alert: "PrefixCacheCollapse", Severity: "critical", Pool: "lab", About: "lab", ActiveAt: bad, FiredAt: bad.Add(3 * time.Minute), ResolvedAt: &end, Summary: "a|b <script>"},
			{Alert: "TargetDown", Severity: "warning", About: "x", ActiveAt: bad, FiredAt: bad},
		},
		Notes: []string{"a hole"},
	})
	p := r.Pools[0]
	if *p.UsualMiss != 0.1 || p.Excess != 12*400 || p.Requests != 564*300+12*600 || *p.IdleRatio != 0.5 || p.TTFTP95 != nil {
		t.Errorf("%+v", p)
	}
	if len(p.Regimes) != 3 || !p.Regimes[1].Worse || p.Regimes[1].HitRatio != 0.5 || !p.Regimes[1].From.Equal(bad) || !p.Regimes[1].To.Equal(end) {
		t.Errorf("%+v", p.Regimes)
	}
	if peak, ok := p.peak(peakRate); !ok || peak.Value != 2 || !peak.At.Equal(bad) {
		t.Errorf("%+v", peak)
	}
	if len(p.Days) != 2 || p.Days[0].Incidents != 0 || p.Days[1].Incidents != 1 || math.Abs(*p.Days[0].HitRatio-0.9) > 1e-12 || *p.Days[1].PeakWaiting != 7 {
		t.Errorf("%+v", p.Days)
	}
	if got := r.Incidents[0].ExcessTokens; got == nil || *got != 4800 {
		t.Errorf("excess %v", got)
	}
	if r.Incidents[1].ExcessTokens != nil || r.Data.Covered["lab"] != 1 {
		t.Errorf("%+v, %+v", r.Incidents[1], r.Data)
	}
	if n := len(p.Series[0].Points); n > maxPoints || n < maxPoints/2 {
		t.Errorf("%d points", n)
	}
	if all := strings.Join(r.Data.Unknown, "\n"); !strings.Contains(all, "TTFT P95 of lab: no histogram") || strings.Contains(all, "cache hits") {
		t.Errorf("%q", all)
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"md":   func(b *bytes.Buffer) error { return r.WriteMarkdown(b) },
		"html": func(b *bytes.Buffer) error { return r.WriteHTML(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		for _, want := range []string{"2026-11-01 00:00 to 2026-11-03 00:00 (2.0 days)", "2 alerts fired: 1 PrefixCacheCollapse, 1 TargetDown; 1 not over at the end.", "4800", "a hole", "up to 7 requests waited (2026-11-02 06:00)", "unknown"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
		for _, never := range []string{"NaN", "Inf", "%!", "<script>", "ZgotmplZ"} {
			if strings.Contains(text, never) {
				t.Errorf("%s has %q", name, never)
			}
		}
	}
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil || !json.Valid(b.Bytes()) {
		t.Error(err)
	}
}

// TestReviewOfLittle: a period of which nothing is known says so, and gaps are not
// drawn over.
func TestReviewOfLittle(t *testing.T) {
	t.Parallel()
	from, _, slots := period()
	r := New(Input{From: from, To: from.Add(time.Hour), Source: "a test", Slots: map[string][]sizing.Slot{"later": slots[100:]}})
	var b bytes.Buffer
	if err := r.WriteMarkdown(&b); err != nil || len(r.Pools) != 0 || !strings.Contains(b.String(), "No alert fired.") {
		t.Errorf("%v\n%s", err, b.String())
	}
	points := []Point{{At: from}, {At: from.Add(5 * time.Minute)}, {At: from.Add(time.Hour)}}
	if got := lines(points, func(time.Time) float64 { return 0 }, func(float64) float64 { return 0 }); len(got) != 2 {
		t.Errorf("%q", got)
	}
}
