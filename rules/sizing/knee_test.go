package sizing

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// rateLevel is a level of an open loop in which everything was answered.
func rateLevel(rate, ttftP99 float64) Level {
	return Level{
		Strategy: "constant", Loop: OpenLoop, Rate: &rate, AchievedRate: &rate, OutputTPS: new(200 * rate),
		Requests: Requests{Successful: 1000}, Latency: map[Metric]Distribution{TTFT: {Count: 1000, Quantiles: map[string]float64{P99: ttftP99}}},
	}
}

// sweepOfG is G's table of ten rounds: rate, TTFT P99, throughput, goodput. The
// rounds that it does not print are left out.
func sweepOfG() []Level {
	var levels []Level
	for _, row := range [][4]float64{
		{2, 0.095, 480, 480},
		{8, 0.140, 1900, 1900},
		{14, 0.240, 3100, 3060},
		{17, 0.460, 3400, 3330},
		{20, 0.760, 3700, 2520},
		{26, 1.500, 3950, 900},
		{30, 2.400, 4000, 380},
	} {
		l := rateLevel(row[0], row[1])
		l.OutputTPS, l.Attained, l.AttainedTPS = new(row[2]), new(row[3]/row[2]), new(row[3])
		l.Own = map[Metric]float64{TTFT: 0.5}
		levels = append(levels, l)
	}
	return levels
}

// TestKneeOfG is the source's worked example: the knee, the replicas and the cost.
// G says 6 replicas; 20 000 / 3 330 is 6.006, and a replica is whole.
func TestKneeOfG(t *testing.T) {
	t.Parallel()
	slo := Objectives{{TTFT, P99, 0.5}}
	judged, knee := FindKnee(sweepOfG(), slo)
	if knee.Level == nil || *knee.Level != 3 || *judged[3].Rate != 17 {
		t.Fatalf("knee %+v", knee)
	}
	if !strings.Contains(knee.Reason, "level 4 does not hold: ttft_p99 760ms is over 500ms") {
		t.Errorf("reason %q", knee.Reason)
	}
	at := judged[3]
	if *at.Goodput != 3330 || at.GoodputFrom != FromReport {
		t.Errorf("goodput %v from %s", *at.Goodput, at.GoodputFrom)
	}
	if replicas := Ceil(20000 / *at.Goodput); replicas != 7 {
		t.Errorf("%v replicas", replicas)
	}
	if cost := CostPerMillionTokens(11, *at.Goodput); cost < 0.9175 || cost > 0.9185 {
		t.Errorf("%v per million", cost)
	}
	for limit, want := range map[float64]int{0.2: 1, 1: 4, 3: 6} { // a stricter SLO moves the knee down, a loose one up
		_, moved := FindKnee(sweepOfG(), Objectives{{TTFT, P99, limit}})
		if *moved.Level != want {
			t.Errorf("limit %v: level %d, want %d", limit, *moved.Level, want)
		}
	}
}

// TestKneeOrder: whatever order levels come in, they are judged by the load that
// they offered, throughput last.
func TestKneeOrder(t *testing.T) {
	t.Parallel()
	one, closed := 1.0, func(streams float64) Level {
		l := rateLevel(streams, 0.1)
		l.Strategy, l.Loop, l.Rate, l.Streams = "concurrent", ClosedLoop, nil, &streams
		return l
	}
	through := rateLevel(50, 0.1)
	through.Strategy, through.Loop, through.Rate = "throughput", NoLoop, nil
	sync := rateLevel(0.5, 0.1)
	sync.Strategy, sync.Loop, sync.Rate, sync.Streams = "synchronous", ClosedLoop, nil, &one
	for name, c := range map[string]struct {
		levels []Level
		want   string
	}{
		"open":   {[]Level{through, rateLevel(4, 1), rateLevel(1, 1), rateLevel(2, 1)}, "1 2 4 throughput"},
		"closed": {[]Level{closed(8), through, closed(2), sync}, "synchronous 2 8 throughput"},
		"sweep":  {[]Level{sync, through, rateLevel(0.75, 1), rateLevel(3, 1)}, "synchronous 0.75 3 throughput"},
	} {
		SortLevels(c.levels)
		var got []string
		for _, l := range c.levels {
			switch {
			case l.Rate != nil:
				got = append(got, strconv.FormatFloat(*l.Rate, 'g', -1, 64))
			case l.Strategy == "concurrent":
				got = append(got, strconv.FormatFloat(*l.Streams, 'g', -1, 64))
			default:
				got = append(got, l.Strategy)
			}
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s: %s, want %s", name, g, c.want)
		}
	}
}

// TestLevelHolds: what forbids a level beside the SLO, and what was not measured.
func TestLevelHolds(t *testing.T) {
	t.Parallel()
	slo := Objectives{{TTFT, P99, 0.5}}
	for name, c := range map[string]struct {
		change          func(*Level)
		measured, meets bool
		holds           bool
		why             string
		goodput         bool
	}{
		"as it is":         {change: func(*Level) {}, measured: true, meets: true, holds: true, goodput: true},
		"at the limit":     {change: func(l *Level) { l.Latency[TTFT].Quantiles[P99] = 0.5 }, measured: true, meets: true, holds: true, goodput: true},
		"over the limit":   {change: func(l *Level) { l.Latency[TTFT].Quantiles[P99] = 0.501 }, measured: true, why: "ttft_p99 501ms is over 500ms"},
		"1 % failed":       {change: func(l *Level) { l.Requests = Requests{Successful: 990, Errored: 10} }, measured: true, meets: true, holds: true, goodput: true},
		"more failed":      {change: func(l *Level) { l.Requests = Requests{Successful: 980, Errored: 20} }, measured: true, meets: true, why: "2 % of requests failed", goodput: true},
		"cut off":          {change: func(l *Level) { l.Requests.Incomplete = 500 }, measured: true, meets: true, holds: true, goodput: true},
		"95 % answered":    {change: func(l *Level) { l.AchievedRate = new(9.5) }, measured: true, meets: true, holds: true, goodput: true},
		"less answered":    {change: func(l *Level) { l.AchievedRate = new(9.4) }, measured: true, meets: true, why: "9.4 of 10 requests per second were answered", goodput: true},
		"rate unknown":     {change: func(l *Level) { l.AchievedRate = nil }, measured: true, meets: true, why: "was not measured", goodput: true},
		"over-saturated":   {change: func(l *Level) { l.OverSaturated = true }, measured: true, meets: true, why: "over-saturated", goodput: true},
		"nothing answered": {change: func(l *Level) { l.Requests = Requests{Incomplete: 512} }, why: "no request was answered"},
		"empty zeros":      {change: func(l *Level) { l.Latency[TTFT] = Distribution{Quantiles: map[string]float64{P99: 0}} }, why: "ttft_p99 was not measured"},
		"no percentile":    {change: func(l *Level) { delete(l.Latency[TTFT].Quantiles, P99) }, why: "ttft_p99 was not measured"},
	} {
		l := rateLevel(10, 0.4)
		c.change(&l)
		j := judge(l, slo)
		if j.Measured != c.measured || j.MeetsSLO != c.meets || j.Holds != c.holds || (j.Goodput != nil) != c.goodput {
			t.Errorf("%s: %+v", name, j)
		}
		if got := strings.Join(j.Why, ", "); !strings.Contains(got, c.why) || (c.why == "") != (got == "") {
			t.Errorf("%s: why %q, want %q", name, got, c.why)
		}
	}
}

// TestKneeEnds: all hold, none holds, one in the middle fails.
func TestKneeEnds(t *testing.T) {
	t.Parallel()
	slo := Objectives{{TTFT, P99, 0.5}}
	for name, c := range map[string]struct {
		ttft   []float64
		level  int
		reason string
	}{
		"all":            {[]float64{0.1, 0.2, 0.3}, 2, ReasonAtLeast},
		"none":           {[]float64{0.6, 0.7}, -1, "no level holds"},
		"not the lowest": {[]float64{0.6, 0.4, 0.7}, -1, "level 0 does not hold"},
		"a dip":          {[]float64{0.1, 0.6, 0.3}, 0, "level 1 does not hold"},
		"nothing":        {nil, -1, "no level was measured"},
	} {
		var levels []Level
		for i, ttft := range c.ttft {
			levels = append(levels, rateLevel(float64(i+1), ttft))
		}
		_, knee := FindKnee(levels, slo)
		got := -1
		if knee.Level != nil {
			got = *knee.Level
		}
		if got != c.level || !strings.Contains(knee.Reason, c.reason) {
			t.Errorf("%s: level %d, %q", name, got, knee.Reason)
		}
	}
}

// TestGoodput: by which evidence, and what none allows.
func TestGoodput(t *testing.T) {
	t.Parallel()
	slo := Objectives{{TTFT, P99, 0.5}, {ITL, P95, 0.05}}
	sample := func(n, good int) []Request {
		all := make([]Request, n)
		for i := range all {
			all[i] = Request{TTFT: 0.4, ITL: 0.04, OutputTokens: 100}
			if i >= good {
				all[i].ITL = 0.06
			}
		}
		return all
	}
	for name, c := range map[string]struct {
		slo    Objectives
		change func(*Level)
		want   float64
		from   string
	}{
		"all requests":        {slo, func(l *Level) { l.Requests.Successful, l.Sample = 10, sample(10, 9) }, 1800, FromRequests},
		"a sample":            {slo, func(l *Level) { l.Sample = sample(20, 15) }, 1500, FromSample},
		"too small a sample":  {slo, func(l *Level) { l.Sample = sample(3, 1) }, 2000, FromThroughput},
		"the report's own":    {slo, func(l *Level) { l.AttainedTPS, l.Own = new(700.0), map[Metric]float64{TTFT: 0.5, ITL: 0.05} }, 700, FromReport},
		"of another SLO":      {slo, func(l *Level) { l.AttainedTPS, l.Own = new(700.0), map[Metric]float64{TTFT: 0.3} }, 2000, FromThroughput},
		"of an unstated SLO":  {slo, func(l *Level) { l.AttainedTPS = new(700.0) }, 700, FromReportUnknown},
		"a batch":             {nil, func(l *Level) { l.AttainedTPS = new(700.0) }, 2000, FromThroughput},
		"by attainment":       {Objectives{{Metric: Attainment, Limit: 0.9}}, func(l *Level) { l.Attained, l.AttainedTPS = new(0.95), new(1900.0) }, 1900, FromReport},
		"no such measurement": {Objectives{{Metric: Attainment, Limit: 0.9}}, func(*Level) {}, -1, ""},
	} {
		l := rateLevel(10, 0.4)
		l.Latency[ITL] = Distribution{Count: 1000, Quantiles: map[string]float64{P95: 0.05}}
		c.change(&l)
		j := judge(l, c.slo)
		got := -1.0
		if j.Goodput != nil {
			got = *j.Goodput
		}
		if got != c.want || j.GoodputFrom != c.from {
			t.Errorf("%s: %v from %q, want %v from %q", name, got, j.GoodputFrom, c.want, c.from)
		}
	}
}

// TestParseObjective: what is taken, spelt back, and what is refused with which words.
func TestParseObjective(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ttft_p95=500ms": "ttft_p95=500ms", "itl_p99=0.06s": "itl_p99=60ms", "e2e_p50=1m": "e2e_p50=60s", "tpot_p90=1500us": "tpot_p90=1.5ms",
		"attainment=95%": "attainment=95%", "attainment=0.99": "attainment=99%",
	} {
		o, err := ParseObjective(text)
		if err != nil || o.String() != want {
			t.Errorf("%s: %v, %v", text, o, err)
		}
	}
	for text, want := range map[string]string{
		"ttft_p95": "write NAME=LIMIT", "ttft_p95=500": "500 has no unit: write 500ms or 500s", "ttft=500ms": "is no objective", "ttft_p42=1s": "is no objective",
		"latency_p95=1s": "is no objective", "itl_p95=fast": "is no time", "itl_p95=-1s": "is no limit", "attainment=120%": "is no share", "attainment=NaN": "is no share", "": "write NAME=LIMIT",
	} {
		if _, err := ParseObjective(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, u := range Uses() {
		if none := len(u.Objectives()) == 0; none != (u == Batch || u == Agent) {
			t.Errorf("%s: %v", u, u.Objectives())
		}
	}
	all := Chat.Objectives().With(Objective{TTFT, P99, time.Second.Seconds()})
	if all.String() != "ttft_p99=1s, itl_p95=50ms" {
		t.Error(all)
	}
}
