package rules

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

// demand is a pool of one engine over weeks, scraped every five minutes.
type demand struct {
	*fleet
	page *page
	zone *time.Location
	// calls is what is asked for in five minutes of the given day.
	calls func(day int) float64
	// daily are the tokens of each whole day.
	daily []float64
}

const slow = 5 * time.Minute

func newDemand(t *testing.T, o Options, calls func(day int) float64) *demand {
	t.Helper()
	zone := time.FixedZone("east", 5*3600+1800)
	f := &fleet{t: t, options: o, now: time.Date(2026, 3, 2, 0, 0, 0, 0, zone), seen: map[string]bool{}} // a Monday
	d := &demand{fleet: f, page: newPage("vllm", "a:8000", "m"), zone: zone, calls: calls}
	d.page.target.Interval = slow
	f.start()
	return d
}

// day plays one local day.
func (d *demand) day(n int) {
	d.t.Helper()
	tokens := 0.0
	for range int(24 * time.Hour / slow) {
		d.now = d.now.Add(slow)
		calls := math.Round(d.calls(n))
		d.page.gauges(4, 0, 0.3)
		d.page.serve(calls, 60000, 6000, 400)
		d.page.observe(collector.VLLMQueueTime, timeBounds, 0, calls)
		tokens += calls * 60400
		r := d.page.round(d.now)
		d.engine.Observe(&r)
		d.eval()
	}
	d.daily = append(d.daily, tokens)
}

// handGrowth is the median of all ln(later/earlier) per week over days of one weekday.
func handGrowth(daily []float64) float64 {
	var slopes []float64
	for i := range daily {
		for j := i + 7; j < len(daily); j += 7 {
			slopes = append(slopes, math.Log(daily[j]/daily[i])/(float64(j-i)/7))
		}
	}
	slices.Sort(slopes)
	m := len(slopes) / 2
	if len(slopes)%2 == 1 {
		return slopes[m]
	}
	return (slopes[m-1] + slopes[m]) / 2
}

// weekend is a third of the work days.
func weekend(day int) float64 {
	if day%7 >= 5 {
		return 0.33
	}
	return 1
}

func TestDemandGrowth(t *testing.T) {
	t.Parallel()
	const alert = "DemandGrowth"
	d := newDemand(t, Options{}, func(day int) float64 {
		return 100 * weekend(day) * math.Exp(0.12*float64(day)/7)
	})
	for n := range 20 {
		d.day(n)
		if s := d.detector(alert); s.Phase == PhaseUnknown || d.alerts(alert) > 0 {
			t.Fatalf("after %d days: %s: %s", n+1, s.Phase, s.Text)
		}
		if n == 10 || n == 17 {
			d.restart()
		}
	}
	d.day(20) // Sunday
	if !d.firing(alert) {
		t.Fatalf("after 3 weeks: %+v", d.detector(alert))
	}
	a := d.lastFired(alert)
	fired := a.FiredAt
	if at := fired.In(d.zone); at.Weekday() != time.Monday || at.Hour() != 0 || at.Minute() != 0 || a.Severity != SeverityInfo {
		t.Errorf("it fired on %s with severity %s", at, a.Severity)
	}
	text := a.Annotations["description"]
	for _, part := range []string{"Tokens per day: +12.", "100% of 21 pairs", "over 21 whole days", "Peak prefill occupancy", "Peak cache turnover"} {
		if !strings.Contains(text, part) {
			t.Errorf("the description has no %q: %s", part, text)
		}
	}
	// The days in the state are those that were played, and the growth is that of them.
	k := d.demandDetector()
	for i, day := range k.Days {
		if want := d.daily[len(d.daily)-len(k.Days)+i]; math.Abs(day.Tokens-want) > 0.005*want {
			t.Errorf("day %d: %g tokens, played were %g", i, day.Tokens, want)
		}
	}
	if got, want := k.finding.Series[0].Slope, handGrowth(d.daily); math.Abs(got-want) > 0.001 {
		t.Errorf("growth %g per week, by hand %g", got, want)
	}
	// What is left is that of the last week's days, and the weeks follow from it.
	var left []float64
	for _, day := range k.Days[14:] {
		left = append(left, day.Headroom)
	}
	slices.Sort(left)
	steepest := slices.MaxFunc(k.finding.Series, func(a, b demandGrowth) int { return cmp.Compare(a.Slope, b.Slope) })
	if want := fmt.Sprintf("%.2f, falls to 1.2 in %.1f weeks", left[3], math.Log(left[3]/1.2)/steepest.Slope); left[0] <= 1.2 || !strings.Contains(text, want) {
		t.Errorf("the description has no %q: %s", want, text)
	}
	d.restart()
	d.day(21)
	if !d.firing(alert) || d.alerts(alert) != 1 || !d.lastFired(alert).FiredAt.Equal(fired) {
		t.Errorf("after a restart it fired %d times", d.alerts(alert))
	}
	// Nobody is read for a while: it ends, and is not told again that week.
	for range 8 {
		d.now = d.now.Add(slow)
		r := d.page.down(d.now)
		d.engine.Observe(&r)
		d.eval()
	}
	if d.firing(alert) {
		t.Error("it fires on without data")
	}
	d.day(22)
	if d.firing(alert) || d.alerts(alert) != 1 {
		t.Errorf("the finding of one week is told %d times", d.alerts(alert))
	}
}

// demandDetector is the detector of the only pool.
func (d *demand) demandDetector() *demandDetector {
	for _, w := range d.engine.pools["vllm/m"].watches {
		if k, ok := w.keeper.(*demandDetector); ok {
			return k
		}
	}
	d.t.Fatal("nobody watches the demand")
	return nil
}

func TestSteadyDemandIsQuiet(t *testing.T) {
	t.Parallel()
	d := newDemand(t, Options{}, func(day int) float64 {
		return 100 * weekend(day) * (1 + 0.04*math.Sin(float64(7*day)))
	})
	for n := range 29 {
		d.day(n)
	}
	s := d.detector("DemandGrowth")
	if d.alerts("DemandGrowth") > 0 || s.Phase != PhaseWatching || !strings.HasPrefix(s.Text, "growth per week: tokens per day ") {
		t.Errorf("fired %d times; %s: %s", d.alerts("DemandGrowth"), s.Phase, s.Text)
	}
}

func TestGrowthOfDays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		value  func(day int) float64
		days   int
		slope  float64
		rising float64
		ok     bool
	}{
		{"too few", func(int) float64 { return 1 }, 20, 0, 0, false},
		{"flat", func(day int) float64 { return 100 * weekend(day) }, 21, 0, 0, true},
		{"growth under weekends", func(day int) float64 { return weekend(day) * math.Exp(0.1*float64(day)/7) }, 28, 0.1, 1, true},
		{"decline", func(day int) float64 { return math.Exp(-0.2 * float64(day) / 7) }, 21, -0.2, 0, true},
		{"unknown days", func(day int) float64 { return float64(day%2) * 5 }, 28, 0, 0, false},
	} {
		var d demandDays
		for n := range c.days {
			d.keep(demandDay{Number: 20000 + n, Read: daySlots, Tokens: c.value(n)})
		}
		g, ok := d.growth(demandTokens, 21, func(day demandDay) float64 { return day.Tokens })
		if ok != c.ok || ok && (math.Abs(g.Slope-c.slope) > 1e-9 || g.Rising != c.rising) {
			t.Errorf("%s: %+v, %t", c.name, g, ok)
		}
	}
	var d demandDays
	for n := range 60 {
		d.keep(demandDay{Number: n, Read: daySlots, Tokens: 1})
	}
	if len(d.Days) != demandKept || d.Days[0].Number != 32 {
		t.Errorf("%d days are kept, from %d on", len(d.Days), d.Days[0].Number)
	}
}

func TestDayIsLocal(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	d := demandDays{scale: 1}
	sunday := time.Date(2026, 3, 29, 0, 0, 0, 0, berlin) // 23 hours long
	for _, c := range []struct {
		at   time.Time
		day  int
		next bool
	}{
		{sunday.Add(-time.Second), -1, false},
		{sunday, 0, false},
		{sunday.Add(23*time.Hour - time.Second), 0, false},
		{sunday.Add(23 * time.Hour), 1, true},
	} {
		if got := d.dayOf(c.at) - d.dayOf(sunday); got != c.day {
			t.Errorf("%s is day %d, want %d", c.at, got, c.day)
		}
		if got := week(d.dayOf(c.at)) > week(d.dayOf(sunday)); got != c.next {
			t.Errorf("%s is in the next week: %t, want %t", c.at, got, c.next)
		}
	}
	d.scale = 0.01 // a day of 14 minutes and 24 seconds
	if n := d.dayOf(sunday.Add(145*time.Minute)) - d.dayOf(sunday); n != 10 {
		t.Errorf("%d scaled days in 145 minutes", n)
	}
}

// TestDemandOfAPartIsNoDay loses the scrapes of a third of each day.
func TestDemandOfAPartIsNoDay(t *testing.T) {
	t.Parallel()
	d := newDemand(t, Options{Dispatch: func(context.Context, time.Time, []Alert) {}}, func(int) float64 { return 100 })
	d.day(0)
	d.day(1)
	d.now = d.now.Add(8 * time.Hour)
	d.day(2)
	d.day(3)
	for _, day := range d.demandDetector().Days {
		if day.Read < wholeDay {
			t.Errorf("a day with %d half hours counts", day.Read)
		}
	}
	if n := len(d.demandDetector().Days); n != 3 { // all but the one of which 8 hours are missing
		t.Errorf("%d whole days, want 3", n)
	}
}
