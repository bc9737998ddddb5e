package fleet

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	// cooldown is how long a deployment gets no calls after a failure.
	cooldown = 5 * time.Second
	// perCall and perPromptToken are what one call costs a worker before it is
	// passed on: authentication and hooks, and counting the prompt's tokens.
	perCall        = 4 * time.Millisecond
	perPromptToken = 300 * time.Nanosecond
	// perAnswer is what it costs after the last token.
	perAnswer = 2 * time.Millisecond
)

// gateway is one LiteLLM proxy: worker processes that each handle one thing at
// a time before a call is passed on, and nothing that limits them.
type gateway struct {
	fleet  *Fleet
	random *rand.Rand
	// busyUntil is when each worker's event loop is free again.
	busyUntil []time.Duration
	inFlight  int
	// life counts restarts: what began in an earlier life is lost.
	life    int
	down    bool
	metrics *gatewayMetrics
}

// start begins a process, with a fresh page.
func (g *gateway) start() {
	g.busyUntil = make([]time.Duration, g.fleet.config.GatewayWorkers)
	for i := range g.busyUntil {
		g.busyUntil[i] = g.fleet.now
	}
	g.inFlight = 0
	g.down = false
	g.life++
	g.metrics = newGatewayMetrics(g.fleet)
}

// stop kills the process; every call in it fails without being counted.
func (g *gateway) stop() {
	g.life++
	g.down = true
	g.inFlight = 0
}

// take accepts a client's call.
func (g *gateway) take(c *call) {
	if g.down {
		c.over = true
		c.session.failed()
		c.letGo()
		return
	}
	c.worker, c.life = g.random.IntN(len(g.busyUntil)), g.life
	g.inFlight++
	now := g.fleet.now
	begin := max(now, g.busyUntil[c.worker])
	service := perCall + time.Duration(c.promptTokens)*perPromptToken
	service += time.Duration(g.random.ExpFloat64() * float64(perCall) / 2)
	g.busyUntil[c.worker] = begin + service
	g.fleet.queue.at(begin+service, c, occasionPassed, c.stamp)
	g.fleet.queue.at(now+g.fleet.conditions.timeout, c, occasionTimedOut, c.stamp)
}

// alive says whether a call still has a client and a gateway, and tells the
// client if the gateway has gone.
func (g *gateway) alive(c *call) bool {
	if c.over {
		return false
	}
	if c.life != g.life {
		c.over = true
		c.session.failed()
		c.letGo()
		return false
	}
	return true
}

// pass hands a call to an engine.
func (g *gateway) pass(c *call) {
	if !g.alive(c) {
		return
	}
	c.passed = g.fleet.now
	g.try(c, c.session.avoid)
}

// try sends a call to an engine other than the one to avoid.
func (g *gateway) try(c *call, avoid int) {
	f := g.fleet
	c.sent = f.now
	c.engine = f.router.choose(c.session.id, avoid)
	e := f.engines[c.engine]
	if e.down {
		g.lost(c)
		return
	}
	s := c.session
	c.asked, c.held = true, true
	c.request = request{
		prompt: prompt{
			shared: prefixKey{shared: true, id: s.agentKey(), version: c.sharedVersion},
			own:    prefixKey{id: s.id, version: c.ownVersion},
			edits:  s.edits, sharedTokens: s.workload.SystemPrompts[s.agent], tokens: c.promptTokens,
		},
		outputTokens: c.outputTokens, maxTokens: 4096, call: c,
	}
	e.enqueue(&c.request)
}

// answer ends a call well.
func (g *gateway) answer(c *call) {
	if !g.alive(c) {
		return
	}
	c.over = true
	g.inFlight--
	g.fleet.calls++
	g.metrics.answered(c)
	c.record(false)
	c.session.answered(c)
	c.letGo()
}

// lost is told that an engine refused or dropped a call: the deployment cools
// down and the call is tried once more elsewhere.
func (g *gateway) lost(c *call) {
	if !g.alive(c) {
		return
	}
	g.metrics.attemptFailed(c)
	g.cool(c.engine)
	if !c.retried {
		c.retried = true
		g.try(c, c.engine)
		return
	}
	g.fail(c, "500", "Hosted_vllm.InternalServerError")
}

// cool takes a deployment out of the rotation for a while.
func (g *gateway) cool(engine int) {
	g.metrics.cooledDown(engine)
	if g.fleet.router.cooling[engine] {
		return
	}
	g.fleet.router.cooling[engine] = true
	g.fleet.queue.at(g.fleet.now+cooldown, g.fleet, occasionCooled, uint64(engine))
}

// timeOut gives a call up whose client has waited too long. In a retry storm
// the engine may not be told.
func (g *gateway) timeOut(c *call) {
	if !g.alive(c) {
		return
	}
	conditions := &g.fleet.conditions
	untold := conditions.duplicates > 0 && g.random.Float64() < conditions.duplicates
	if c.held && !untold {
		g.fleet.engines[c.engine].abort(&c.request)
	}
	if conditions.reroute {
		c.session.avoid = c.engine
	}
	g.fail(c, "408", "Hosted_vllm.Timeout")
}

// fail ends a call badly.
func (g *gateway) fail(c *call, status, class string) {
	c.over = true
	g.inFlight--
	g.fleet.failed++
	g.metrics.failed(c, status, class)
	c.record(true)
	c.session.failed()
	c.letGo()
}

// FillGatewayPage counts one good call of each of so many further people, so
// that the gateway's page becomes as large as that of a large organisation:
// about 43 kB a person. It is for benchmarks; nothing else sees those calls.
func (f *Fleet) FillGatewayPage(people int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range people {
		user := f.config.Users + i
		f.gateway.metrics.answered(&call{
			session: &session{fleet: f, id: math.MaxUint64, user: user}, engine: user % len(f.engines),
			promptTokens: 10_000, outputTokens: 100, streamed: true, request: request{cached: 9_000},
			began: f.now - 2*time.Second, passed: f.now - 2*time.Second, sent: f.now - 2*time.Second,
			firstToken: f.now - time.Second,
		})
	}
}
