package rules

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kvwatch/collector"
)

// latencyBounds are LiteLLM's, with their hole between 0.1 and 0.5 s.
var latencyBounds = []float64{.005, .00625, .0125, .025, .05, .1, .5, 1, 1.5, 2, 5, 10, 30, 60, 120, 180, 240, 300}

// answer counts n answers of a gateway, of which measured had their overhead measured.
func (p *page) answer(n, measured, overhead float64) {
	p.add(n, collector.LiteLLMRequests, "status_code", "200")
	p.add(n, collector.LiteLLMDeploySuccess, "model_id", "d1")
	p.observe(collector.LiteLLMTotalLatency, latencyBounds, 2.2, n)
	p.observe(collector.LiteLLMAPILatency, latencyBounds, 2, n)
	p.observe(collector.LiteLLMOverhead, latencyBounds, overhead, measured)
}

const (
	gatewayInFlight = "kvwatch_gateway_in_flight_requests"
	gatewayOver     = "kvwatch_gateway_overhead_seconds"
	gatewayCoverage = "kvwatch_gateway_overhead_coverage_ratio"
	gatewayProxyOut = "kvwatch_gateway_proxy_seconds"
	gatewayRejected = "kvwatch_gateway_rejected_requests_total"
	gatewayCooled   = "kvwatch_gateway_cooldowns_total"
	gatewayFullness = "kvwatch_gateway_saturation_ratio"
)

// The numbers are those of LiteLLM's issues. How the pages themselves are read
// is held in kvwatch/collector.
func TestLiteLLMFacts(t *testing.T) {
	t.Parallel()
	facts := []fact{
		{
			report: "#10595 (2.1)", is: "workers that answer in turn: nothing that counts is told, and in flight is one worker's and says so",
			show: func(s *shown) {
				p := s.gateway()
				p.target.Gateway = collector.GatewaySettings{Workers: 2, MaxInFlightPerWorker: 10}
				s.sampled = true
				counts := [2]float64{9000, 8700}
				s.scrape(21, func(i int) {
					counts[i%2] += 10
					p.set(counts[i%2], collector.LiteLLMRequests, "status_code", "200")
					p.set(counts[i%2], collector.LiteLLMRejected, "reason", "queue_full")
					p.set(counts[i%2], collector.LiteLLMCooledDown, "model_id", "d1")
					for _, h := range []string{collector.LiteLLMOverhead, collector.LiteLLMTotalLatency, collector.LiteLLMAPILatency} {
						p.set(counts[i%2], h+collector.BucketSuffix, "le", "0.5")
						p.set(counts[i%2], h+collector.BucketSuffix, "le", "+Inf")
						p.set(counts[i%2]/10, h+collector.SumSuffix)
						p.set(counts[i%2], h+collector.CountSuffix)
					}
					p.set(7, collector.LiteLLMInFlight)
				})
			},
			want: []derived{
				{name: gatewayOver, absent: true, quality: QualitySampled, reason: "several workers answer behind one address"},
				{name: gatewayCoverage, absent: true, quality: QualitySampled, reason: "several workers answer behind one address"},
				{name: gatewayProxyOut, absent: true, quality: QualitySampled, reason: "several workers answer behind one address"},
				{name: gatewayRejected, absent: true, quality: QualitySampled, reason: "several workers answer behind one address"},
				{name: gatewayCooled, absent: true, quality: QualitySampled, reason: "several workers answer behind one address"},
				{name: gatewayInFlight, value: 6, quality: QualitySampled, reason: "the value of one worker of several"},
				{name: gatewayFullness, value: 0.6, quality: QualitySampled, reason: "the value of one worker of several", from: "/ max_in_flight_per_worker"},
			},
		},
		{
			report: "#10595 (2.1)", is: "once a single one answers again, what was jumped between before is not in the windows",
			show: func(s *shown) {
				p := s.gateway()
				s.sampled = true
				counts := [2]float64{9000, 8700}
				s.scrape(20, func(i int) { p.set(counts[i%2], collector.LiteLLMRejected, "reason", "queue_full") })
				s.sampled = false
				s.scrape(5, func(int) { p.add(1, collector.LiteLLMRejected, "reason", "queue_full") })
			},
			// What stood there at first is not known to be one worker's.
			want: []derived{{name: gatewayRejected, value: 5, quality: QualityOK}},
		},
		{
			report: "#28713 (2.2)", is: "a part of a sum that goes with its worker is not added again",
			show: func(s *shown) {
				p := s.gateway()
				p.set(10_000, collector.LiteLLMRejected, "reason", "queue_full")
				s.scrape(2, nil)
				p.set(8700, collector.LiteLLMRejected, "reason", "queue_full")
				s.scrape(1, nil)
				p.add(5, collector.LiteLLMRejected, "reason", "queue_full")
				s.scrape(1, nil)
			},
			want: []derived{{name: gatewayRejected, value: 10_005, quality: QualityOK}},
		},
		{
			report: "#37958", is: "the time beside the engine's call is told as a version step while the version changed",
			show: func(s *shown) {
				p := s.gateway()
				s.version = "1.101.0"
				s.scrape(11, func(int) { p.answer(10, 10, 0.03) })
				p.restart()
				s.version = "1.102.0"
				s.scrape(10, func(int) { p.answer(10, 10, 0.03) })
			},
			want: []derived{
				{name: gatewayProxyOut, quality: QualityVersionStep, reason: "the gateway became 1.102.0 at"},
				{name: gatewayOver, quality: QualityVersionStep, reason: "the server became 1.102.0 at"},
			},
		},
		{
			report: "#37958", is: "and not any more once the change lies before the window",
			show: func(s *shown) {
				p := s.gateway()
				s.version = "1.101.0"
				s.scrape(5, func(int) { p.answer(10, 10, 0.03) })
				s.version = "1.102.0"
				s.scrape(22, func(int) { p.answer(10, 10, 0.03) })
			},
			want: []derived{
				{name: gatewayProxyOut, quality: QualityOK, reason: "quantiles of a difference"},
				{name: gatewayOver, quality: QualityOK},
			},
		},
		{
			report: "#38840", is: "overhead of less than half of the requests is a sample only",
			show: func(s *shown) {
				p := s.gateway()
				s.scrape(21, func(int) { p.answer(50, 1, 0.03) })
			},
			want: []derived{
				{name: gatewayOver, quality: QualityPartial, reason: "sample only: measured on 20 of 1k requests"},
				{name: gatewayCoverage, value: 0.02, quality: QualityOK},
			},
		},
		{
			report: "#38840", is: "overhead of most requests is told plainly",
			show: func(s *shown) {
				p := s.gateway()
				s.scrape(21, func(int) { p.answer(50, 40, 0.03) })
			},
			want: []derived{{name: gatewayOver, quality: QualityOK}, {name: gatewayCoverage, value: 0.8, quality: QualityOK}},
		},
		{
			report: "seen 5", is: "overhead without samples: streamed only, never 0",
			show: func(s *shown) {
				p := s.gateway()
				s.scrape(21, func(int) { p.answer(50, 0, 0) })
			},
			want: []derived{
				{name: gatewayOver, absent: true, quality: QualityAbsent, reason: "streamed only"},
				{name: gatewayCoverage, absent: true, quality: QualityAbsent, reason: "streamed only"},
			},
		},
		{
			report: "seen 10", is: "12 plain calls among 562: a mean of 45 ms over 2 % of the calls",
			show: func(s *shown) {
				p := s.gateway()
				p.answer(0, 0, 0)
				s.scrape(2, nil)
				p.add(562, collector.LiteLLMRequests, "status_code", "200")
				p.observe(collector.LiteLLMOverhead, latencyBounds, 0.3001182/8, 8)
				p.observe(collector.LiteLLMOverhead, latencyBounds, 0.2411013/4, 4)
				s.scrape(19, nil)
			},
			want: []derived{
				{name: gatewayOver, quality: QualityPartial, reason: "measured on 12 of 562 requests"},
				{name: gatewayCoverage, value: 12. / 562, quality: QualityOK},
			},
		},
		{
			report: "#19929", is: "requests that count twice for the deployments' answers are flagged",
			show: func(s *shown) {
				p := s.gateway()
				s.scrape(21, func(int) {
					p.answer(10, 10, 0.03)
					p.add(10, collector.LiteLLMRequests, "status_code", "200")
				})
			},
			want: []derived{{name: gatewayCoverage, value: 0.5, quality: QualityPartial, reason: "it counts each twice (BerriAI/litellm#19929)"}},
		},
		{
			report: "#7611", is: "a family that is not there is no proof that nothing happened",
			show: func(s *shown) {
				p := s.gateway()
				s.scrape(5, func(int) { p.answer(10, 10, 0.03) })
			},
			want: []derived{
				{name: gatewayCooled, absent: true, quality: QualityAbsent, reason: "or LiteLLM lost the family"},
				{name: gatewayRejected, absent: true, quality: QualityAbsent, reason: "or admission control is off"},
			},
		},
		{
			report: "1.1", is: "the scrape itself is among the requests in flight",
			show: func(s *shown) {
				s.gateway().set(1, collector.LiteLLMInFlight)
				s.scrape(2, nil)
			},
			want: []derived{{name: gatewayInFlight, value: 0, quality: QualityOK, from: "- 1 (the scrape itself)"}},
		},
		{
			report: "1.1", is: "but not where a process of its own serves the page",
			show: func(s *shown) {
				p := s.gateway()
				p.target.Gateway.DedicatedPort = true
				p.set(1, collector.LiteLLMInFlight)
				s.scrape(2, nil)
			},
			want: []derived{{name: gatewayInFlight, value: 1, quality: QualityOK}},
		},
		{
			report: "#22319", is: "a release without in_flight has none: unknown, not 0",
			show: func(s *shown) {
				p := s.gateway()
				s.scrape(2, func(int) { p.answer(10, 10, 0.03) })
			},
			want: []derived{{name: gatewayInFlight, absent: true, quality: QualityAbsent, reason: "since 1.81.16"}},
		},
		{
			report: "#16011", is: "without the cap of its workers a gateway has no saturation",
			show: func(s *shown) {
				s.gateway().set(9, collector.LiteLLMInFlight)
				s.scrape(2, nil)
			},
			want: []derived{{name: gatewayFullness, absent: true, quality: QualityAbsent, reason: "set gateway.workers"}},
		},
		{
			report: "#10595", is: "several vLLM behind one address are no engine: nothing that counts is told",
			show: func(s *shown) {
				p := s.vllm()
				s.sampled = true
				counts := [2]float64{90_000, 40_000}
				s.scrape(21, func(i int) {
					counts[i%2] += 1000
					p.gauges(4, 1, 0.5)
					p.set(counts[i%2], collector.VLLMPromptTokens)
					p.set(counts[i%2]/2, collector.VLLMPromptCached)
					p.set(counts[i%2], collector.VLLMPreemptions)
				})
			},
			want: []derived{
				{name: factHits, label: "5m", absent: true, quality: QualitySampled, reason: "several workers"},
				{name: factPoolHits, label: "5m", absent: true, quality: QualitySampled, reason: "several workers"},
				{name: "kvwatch_preemptions_total", absent: true, quality: QualitySampled, reason: "several workers"},
				{name: "kvwatch_reprefilled_tokens_total", absent: true, quality: QualitySampled, reason: "several workers"},
				{name: "kvwatch_kv_usage_ratio", value: 0.5, quality: QualitySampled, reason: "one worker of several"},
			},
		},
	}
	for _, f := range facts {
		t.Run("report "+f.report+": "+f.is, f.test)
	}
}

// The family's HELP says milliseconds, its values are seconds; a release that
// means its HELP would be a thousand times off.
func TestLiteLLMFactOverheadUnits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		overhead, median float64
		reason           string
	}{
		{"seconds", 0.075, 0.075, ""},
		{"milliseconds", 90, 0.090, "taken as milliseconds: a mean of 90 s is no overhead"},
		// Over the last bound no quantile is told.
		{"many milliseconds", 450, 0, "taken as milliseconds: a mean of 450 s"},
		{"slow, but possible", 45, 45, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, err := New(Options{ScrapeInterval: step})
			if err != nil {
				t.Fatal(err)
			}
			s := &shown{t: t, engine: e, now: testStart}
			p := s.gateway()
			s.scrape(21, func(int) { p.answer(10, 10, c.overhead) })
			if err := e.Eval(t.Context(), s.now); err != nil {
				t.Fatal(err)
			}
			derived{name: gatewayOver, quality: QualityOK, reason: c.reason}.check(t, e.Recorded())
			got := s.summary(gatewayOver)
			want := c.overhead * 210
			if c.reason != "" {
				want /= 1000
			}
			if diff := cmp.Diff(want, got.Sum, approx()); diff != "" || got.Count != 210 {
				t.Errorf("sum %s, count %d", diff, got.Count)
			}
			if c.median == 0 {
				if len(got.Quantiles) > 0 {
					t.Errorf("quantiles %v", got.Quantiles)
				}
				return
			}
			// The median lies in the middle of its bucket.
			if m := got.Quantiles[0].Value; m < c.median/2 || m > 2*c.median {
				t.Errorf("median %g, want about %g", m, c.median)
			}
		})
	}
}

// What workers differ by is neither added nor told as a part of a total.
func TestLiteLLMFactSampledSums(t *testing.T) {
	t.Parallel()
	e, err := New(Options{ScrapeInterval: step})
	if err != nil {
		t.Fatal(err)
	}
	s := &shown{t: t, engine: e, now: testStart}
	p := s.gateway()
	s.sampled = true
	show := func(calls float64) {
		for _, le := range []string{"0.5", "+Inf"} {
			p.set(calls, collector.LiteLLMOverhead+collector.BucketSuffix, "le", le)
		}
		p.set(calls/10, collector.LiteLLMOverhead+collector.SumSuffix)
		p.set(calls, collector.LiteLLMOverhead+collector.CountSuffix)
	}
	counts := [2]float64{9000, 8700}
	s.scrape(10, func(i int) { show(counts[i%2]) })
	s.sampled = false
	s.scrape(21, func(int) {
		counts[1] += 10
		show(counts[1])
	})
	if err := e.Eval(t.Context(), s.now); err != nil {
		t.Fatal(err)
	}
	if got := s.summary(gatewayOver); got.Count != 210 || math.Abs(got.Sum-21) > 1e-6 {
		t.Errorf("sum %g and count %d of 210 calls of 0.1 s", got.Sum, got.Count)
	}
}

// The wanted series of a sampled gateway come back after it was given a
// directory, and not for a whole hour later.
func TestLiteLLMFactSampledEnds(t *testing.T) {
	t.Parallel()
	e, err := New(Options{ScrapeInterval: step})
	if err != nil {
		t.Fatal(err)
	}
	s := &shown{t: t, engine: e, now: testStart}
	p := s.gateway()
	started := float64(testStart.Add(-time.Hour).Unix())
	s.sampled = true
	s.scrape(10, func(i int) {
		p.set(started+float64(i%2)*7, collector.ProcessStart)
		p.answer(10, 10, 0.03)
	})
	s.sampled = false
	s.now = s.now.Add(time.Hour)
	s.scrape(21, func(int) { p.answer(10, 10, 0.03) })
	if err := e.Eval(t.Context(), s.now); err != nil {
		t.Fatal(err)
	}
	derived{name: gatewayOver, quality: QualityOK}.check(t, e.Recorded())
	derived{name: gatewayCoverage, value: 1, quality: QualityOK}.check(t, e.Recorded())
}

// What a gateway's alerts make of the reports: each is played for half an hour.
func TestLiteLLMFactAlerts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		report, is string
		show       func(p *page, i int)
		alert      string
		fires      bool
		says       string
	}{
		{
			report: "#17415", is: "requests in flight while nothing is counted: the counters stand still",
			show: func(p *page, i int) {
				if i == 0 {
					p.answer(100, 0, 0)
				}
				p.set(float64(2+i%5), collector.LiteLLMInFlight)
			},
			alert: "MetricsStalled", fires: true, says: "counts no more",
		},
		{
			report: "#17415", is: "the scrape alone in flight is a gateway with nothing to do",
			show: func(p *page, i int) {
				if i == 0 {
					p.answer(100, 0, 0)
				}
				p.set(1, collector.LiteLLMInFlight)
			},
			alert: "MetricsStalled",
		},
		{
			report: "#17415", is: "one request counted in ten minutes is enough",
			show: func(p *page, i int) {
				if i%30 == 0 {
					p.answer(1, 0, 0)
				}
				p.set(4, collector.LiteLLMInFlight)
			},
			alert: "MetricsStalled",
		},
		{
			report: "#20256", is: "429 with nothing running is a leaked limiter, not saturation",
			show: func(p *page, _ int) {
				p.add(10, collector.LiteLLMRequests, "status_code", "429")
				p.set(1, collector.LiteLLMInFlight)
			},
			alert: "GatewayRejecting", fires: true, says: "limiter",
		},
		{
			report: "#20256", is: "and is not called saturation",
			show: func(p *page, _ int) {
				p.add(10, collector.LiteLLMRequests, "status_code", "429")
				p.set(1, collector.LiteLLMInFlight)
			},
			alert: "GatewaySaturated",
		},
		{
			report: "#36174", is: "an overhead that grows with the prompts is the counting of tokens",
			show: func(p *page, i int) {
				prompt := 20_000.0
				if i%8 >= 4 { // a minute of long prompts in two
					prompt = 200_000
				}
				p.add(200*prompt, collector.LiteLLMInputTokens, "requested_model", "coder")
				p.answer(200, 200, 0.02+0.45e-6*prompt)
			},
			alert: "TokenCounterOverhead", fires: true, says: "token",
		},
	} {
		t.Run("report "+c.report+": "+c.is, func(t *testing.T) {
			t.Parallel()
			f := newGatewayFleet(t, Options{})
			i := 0
			f.set = func(p *page) { c.show(p, i); i++ }
			f.run(40 * time.Minute)
			if fired := f.alerts(c.alert) > 0; fired != c.fires {
				t.Fatalf("%s fires: %t; %+v", c.alert, fired, f.detector(c.alert))
			}
			if !c.fires {
				return
			}
			a := f.lastFired(c.alert)
			if text := a.Annotations["summary"] + a.Annotations["description"]; !strings.Contains(text, c.says) {
				t.Errorf("it does not say %q: %s", c.says, text)
			}
		})
	}
}

// What the log of calls makes of the reports on its rows; rows that are not
// there at all (#35958, #15531, #21514) are TestRowsThatNeverArrived's.
func TestLiteLLMFactRows(t *testing.T) {
	t.Parallel()
	// Six sessions of three turns of four calls, all of them read.
	plain := func(change func(c collector.Call) []collector.Call) []collector.Call {
		var calls []collector.Call
		for s := range uint64(6) {
			for _, c := range conversation(s+1, float64(s), 3, 4, 10, 90, 50) {
				calls = append(calls, change(c)...)
			}
		}
		return calls
	}
	for _, c := range []struct {
		report, is string
		change     func(c collector.Call) []collector.Call
	}{
		{
			report: "#39455", is: "three rows of one call that was retried are one call",
			change: func(c collector.Call) []collector.Call {
				first, second := c, c
				first.Start, second.Start = c.Start.Add(-2*time.Millisecond), c.Start.Add(-time.Millisecond)
				return []collector.Call{first, second, c}
			},
		},
		{
			report: "#39455", is: "attempts that failed say nothing of the cache, and begin no turn",
			change: func(c collector.Call) []collector.Call {
				failed := c
				failed.Start, failed.Failed = c.Start.Add(-2*time.Millisecond), true
				failed.PromptTokens, failed.OutputTokens, failed.CachedKnown = 0, 0, false
				return []collector.Call{failed, c}
			},
		},
		{
			report: "#39589", is: "a stream that broke and is logged as a success tells of its prompt and of no answer that is whole",
			change: func(c collector.Call) []collector.Call {
				c.OutputTokens = 3
				return []collector.Call{c}
			},
		},
	} {
		t.Run("report "+c.report+": "+c.is, func(t *testing.T) {
			t.Parallel()
			f := newCallFleet(t, PoolConfig{Name: "agents", GatewayModels: []string{"agents"}})
			f.engine(callsAt, "a:8000", "m")
			end := callsAt.Add(6 * time.Minute)
			f.engine(end, "a:8000", "m")
			f.log(end, plain(c.change)...)
			get := f.eval(end)
			near(t, get(hitRatio, positionFirstCall), 0.10, 1e-9)
			near(t, get(hitRatio, positionWithinTurn), 0.90, 1e-9)
			near(t, get(hitRatio, positionTurnBoundary), 0.50, 1e-9)
			p, n := f.e.sessions.pools["agents"], 0
			for _, position := range []string{positionFirstCall, positionWithinTurn, positionTurnBoundary} {
				n += int(p.position(&p.long, position).calls)
			}
			if n != 72 {
				t.Errorf("%d calls, want 72", n)
			}
		})
	}
}

// LiteLLM's time to first token is the whole duration on one of its routes
// (BerriAI/litellm#25598): TTFT is the engines' only, whatever a gateway says.
func TestLiteLLMFactTTFTIsTheEngines(t *testing.T) {
	t.Parallel()
	e, err := New(Options{ScrapeInterval: step})
	if err != nil {
		t.Fatal(err)
	}
	s := &shown{t: t, engine: e, now: testStart}
	p := s.gateway()
	s.scrape(21, func(int) {
		p.answer(10, 10, 0.03)
		p.observe(collector.LiteLLMTTFT, latencyBounds, 2, 10)
	})
	if err := e.Eval(t.Context(), s.now); err != nil {
		t.Fatal(err)
	}
	for _, r := range e.Recorded() {
		if name := r.Labels.Get("__name__"); strings.Contains(name, "ttft") && r.Known {
			t.Errorf("%s is %v", r.Labels, r.Value)
		}
	}
}
