package rules

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvwatch/collector"
)

// gatewayFleet is one gateway that a test writes the page of.
type gatewayFleet struct {
	*fleet
	page *page
	set  func(p *page)
}

func newGatewayFleet(t *testing.T, o Options) *gatewayFleet {
	t.Helper()
	f := &gatewayFleet{fleet: newFleet(t, 0, o), page: newGatewayPage("g:4000")}
	f.page.target.Gateway = collector.GatewaySettings{Workers: 2, MaxInFlightPerWorker: 10}
	f.set = func(*page) {}
	return f
}

// calls adds n answered requests with so many prompt tokens each.
func (f *gatewayFleet) answer(n, prompt float64) {
	f.page.add(n, collector.LiteLLMRequests, "requested_model", "coder", "status_code", "200")
	f.page.add(n*prompt, collector.LiteLLMInputTokens, "requested_model", "coder")
}

func (f *gatewayFleet) run(d time.Duration) {
	f.t.Helper()
	for end := f.now.Add(d); f.now.Before(end); {
		f.now = f.now.Add(step)
		f.set(f.page)
		r := f.page.round(f.now)
		f.engine.Observe(&r)
		f.eval()
	}
}

func (f *gatewayFleet) expect(name, severity string, texts ...string) Alert {
	f.t.Helper()
	a := f.lastFired(name)
	if !f.firing(name) || a.Severity != severity {
		f.t.Fatalf("%s: firing %v as %q, want %s: %+v", name, f.firing(name), a.Severity, severity, f.detector(name))
	}
	all := a.Annotations["summary"] + " " + a.Evidence.Seen + " " + a.Evidence.CauseText
	for _, text := range texts {
		if !strings.Contains(all, text) {
			f.t.Errorf("%s does not say %q: %s", name, text, all)
		}
	}
	return a
}

func (f *gatewayFleet) quiet(name string) {
	f.t.Helper()
	if f.firing(name) {
		f.t.Errorf("%s fires: %s", name, f.lastFired(name).Evidence.Seen)
	}
}

func TestGatewaySaturated(t *testing.T) {
	t.Parallel()
	f := newGatewayFleet(t, Options{})
	hold := func(n float64) { f.set = func(p *page) { p.set(n+1, collector.LiteLLMInFlight) } } // the scrape is one of them
	hold(16)
	f.run(10 * time.Minute)
	f.quiet("GatewaySaturated") // 0.8 is not over 0.8
	hold(17)
	f.run(time.Minute)
	f.quiet("GatewaySaturated")
	f.run(2 * time.Minute)
	f.expect("GatewaySaturated", SeverityWarning, "85% full", "17 requests are in flight, of 2 workers × 10")
	hold(20)
	f.run(time.Minute)
	f.expect("GatewaySaturated", SeverityCritical, "100% full")
	hold(3)
	f.run(step)
	f.quiet("GatewaySaturated")
	f.page.target.Gateway = collector.GatewaySettings{}
	f.run(step)
	if d := f.detector("GatewaySaturated"); d.Phase != PhaseUnknown || !strings.Contains(d.Text, "set gateway.workers") {
		t.Errorf("without a cap it says %s: %s", d.Phase, d.Text)
	}
}

func TestGatewayRejecting(t *testing.T) {
	t.Parallel()
	f := newGatewayFleet(t, Options{})
	rejected := 0.0
	f.set = func(p *page) {
		p.set(15, collector.LiteLLMInFlight)
		p.add(rejected, collector.LiteLLMRejected, "reason", "queue_full")
		f.answer(100, 1000)
	}
	f.run(20 * time.Minute)
	f.quiet("GatewayRejecting")
	rejected = 1 // 1 of 101 is under 1%
	f.run(20 * time.Minute)
	f.quiet("GatewayRejecting")
	rejected = 3
	f.run(8 * time.Minute)
	f.expect("GatewayRejecting", SeverityCritical, "turns requests away: 1.9%", "14 in flight now", "Admission control")
	rejected = 0
	f.run(10 * time.Minute)
	f.quiet("GatewayRejecting")
}

func TestGatewayLimiterLeaked(t *testing.T) {
	t.Parallel()
	f := newGatewayFleet(t, Options{})
	held := 5.0
	f.set = func(p *page) {
		p.set(held+1, collector.LiteLLMInFlight)
		p.add(20, collector.LiteLLMRequests, "requested_model", "coder", "status_code", "429")
		f.answer(1, 1000)
	}
	f.run(20 * time.Minute)
	f.quiet("GatewayRejecting") // limits of keys are meant to refuse
	held = 0
	f.run(5 * time.Minute)
	a := f.expect("GatewayRejecting", SeverityCritical, "answers 95% of its requests with 429 while it holds none", "leaked limiter, not saturation")
	if !strings.Contains(a.Evidence.Next, "restart the gateway") {
		t.Errorf("the next step is %q", a.Evidence.Next)
	}
}

func TestGatewayCountersSampled(t *testing.T) {
	t.Parallel()
	f := newGatewayFleet(t, Options{})
	start, other := float64(testStart.Unix()-3600), float64(testStart.Unix()-3590)
	f.set = func(p *page) {
		p.set(start, collector.ProcessStart)
		p.add(100, collector.LiteLLMRejected, "reason", "queue_full")
		f.answer(10, 1000)
	}
	f.run(5 * time.Minute)
	f.quiet("GatewayCountersSampled")
	// Nothing is rated of a page that the collector says is answered in turn.
	f.set = func(p *page) {
		start, other = other, start
		p.set(start, collector.ProcessStart)
		p.add(100, collector.LiteLLMRejected, "reason", "queue_full")
	}
	for range 40 {
		f.now = f.now.Add(step)
		f.set(f.page)
		r := f.page.round(f.now)
		r.Sampled = true
		f.engine.Observe(&r)
		f.eval()
	}
	f.expect("GatewayCountersSampled", SeverityInfo, "those of one worker at a time", "start times alternate")
	for _, name := range []string{"GatewayRejecting", "GatewayServiceSlow", "TokenCounterOverhead"} {
		if d := f.detector(name); d.Phase != PhaseUnknown || d.Text != sampledReason {
			t.Errorf("%s judges sampled counters: %s: %s", name, d.Phase, d.Text)
		}
	}
}

func TestGatewayServiceSlow(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		set    func(p *page)
		want   string // "" is quiet
		unsaid string
	}{
		{name: "both well", set: func(p *page) {
			p.observe(collector.LiteLLMRedisLatency, timeBounds, 0.002, 50)
			p.observe(collector.LiteLLMPostgresLatency, timeBounds, 0.015, 50)
		}},
		{name: "Redis slow", set: func(p *page) {
			p.observe(collector.LiteLLMRedisLatency, timeBounds, 0.2, 50)
			p.observe(collector.LiteLLMPostgresLatency, timeBounds, 0.015, 50)
		}, want: "Redis is slow or fails"},
		{name: "PostgreSQL fails", set: func(p *page) {
			p.observe(collector.LiteLLMPostgresLatency, timeBounds, 0.015, 50)
			p.add(50, collector.LiteLLMPostgresCalls)
			p.add(2, collector.LiteLLMPostgresFailed, "error_class", "Timeout")
		}, want: "PostgreSQL: 40 of 1k calls failed in 5 min", unsaid: "Redis"},
		{name: "every call fails and none is measured", set: func(p *page) {
			p.add(50, collector.LiteLLMRedisCalls)
			p.add(50, collector.LiteLLMRedisFailed)
		}, want: "Redis: 1k of 1k calls failed"},
		{name: "too few calls", set: func(p *page) { p.observe(collector.LiteLLMRedisLatency, timeBounds, 2, 0.5) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newGatewayFleet(t, Options{})
			f.set = func(p *page) { f.answer(10, 1000); tt.set(p) }
			f.run(15 * time.Minute)
			if tt.want == "" {
				f.quiet("GatewayServiceSlow")
				return
			}
			a := f.expect("GatewayServiceSlow", SeverityWarning, tt.want)
			if tt.unsaid != "" && strings.Contains(a.Evidence.Seen, tt.unsaid) {
				t.Errorf("it speaks of %s, of which nothing is known: %s", tt.unsaid, a.Evidence.Seen)
			}
		})
	}
}

func TestDeploymentsCooledDown(t *testing.T) {
	t.Parallel()
	const id = "4bf8decd1e2000a9d0c745ccc0a8bf651b84a7f6381001c0f775253500791%03d"
	f := newGatewayFleet(t, Options{})
	states := []float64{0, 0, 0}
	f.set = func(p *page) {
		f.answer(10, 1000)
		for i, s := range states {
			p.set(s, collector.LiteLLMDeployState, labelModelID, fmt.Sprintf(id, i))
			p.add(3, collector.LiteLLMDeploySuccess, labelModelID, fmt.Sprintf(id, i), labelRequestedModel, "coder")
		}
	}
	f.run(5 * time.Minute)
	f.quiet("DeploymentsCooledDown")
	states[1] = 1 // fails at times
	f.run(5 * time.Minute)
	f.quiet("DeploymentsCooledDown")
	states[1] = 2
	f.run(2 * time.Minute)
	a := f.expect("DeploymentsCooledDown", SeverityWarning, "has put 1 of 3 deployments aside", "4bf8decd")
	if strings.Contains(a.Evidence.Seen, fmt.Sprintf(id, 1)) {
		t.Error("the whole hash is told")
	}
	states[2] = 2
	f.run(time.Minute)
	f.expect("DeploymentsCooledDown", SeverityCritical, "Too few are left of coder (1 of 3 left)")
	states[1], states[2] = 0, 0
	f.run(step)
	f.quiet("DeploymentsCooledDown")
}

func TestTokenCounterOverhead(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		overhead func(prompt float64) float64
		measured float64 // of 10 calls
		want     string  // "" is quiet
	}{
		{"rises with the prompts", func(p float64) float64 { return 0.1 + p*5e-6 }, 5, "measured on 50% of the requests"},
		{"slow, but not by length", func(float64) float64 { return 0.6 }, 5, ""},
		{"falls with the prompts", func(p float64) float64 { return 0.9 - p*5e-6 }, 5, ""},
		{"rises, but is small", func(p float64) float64 { return 0.01 + p*1e-7 }, 5, ""},
		{"measured on too few", func(p float64) float64 { return 0.1 + p*5e-6 }, 1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newGatewayFleet(t, Options{StateFile: filepath.Join(t.TempDir(), "rules.json")})
			minutes := 0.0
			f.set = func(p *page) {
				minutes += step.Minutes()
				prompt := 40_000 + 20_000*float64(int(minutes/10)%5)
				f.answer(10, prompt)
				p.observe(collector.LiteLLMOverhead, timeBounds, tt.overhead(prompt), tt.measured)
			}
			f.run(80 * time.Minute)
			if tt.want == "" {
				f.quiet("TokenCounterOverhead")
				return
			}
			f.expect("TokenCounterOverhead", SeverityWarning, tt.want, "for each 10k tokens of prompt", "counts the tokens")
			// What it saw of the hour survives a restart: the alert goes on, which
			// without a slope it could not.
			f.start()
			f.run(6 * time.Minute)
			if !f.firing("TokenCounterOverhead") || f.alerts("TokenCounterOverhead") != 1 {
				t.Errorf("after a restart: firing %v, told %d times", f.firing("TokenCounterOverhead"), f.alerts("TokenCounterOverhead"))
			}
		})
	}
}
