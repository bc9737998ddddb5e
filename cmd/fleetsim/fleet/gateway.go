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

// attempt is one call on its way through the gateway.
type attempt struct {
	call   *call
	worker int
	// passed is when the worker passed the call on, sent when the latest try
	// began at an engine, firstToken when its first token came.
	passed, sent, firstToken time.Duration
	engine                   int
	request                  *request
	retried                  bool
	life                     int
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
		c.session.failed()
		return
	}
	a := &attempt{call: c, worker: g.random.IntN(len(g.busyUntil)), life: g.life}
	g.inFlight++
	begin := max(g.fleet.now, g.busyUntil[a.worker])
	service := perCall + time.Duration(c.promptTokens)*perPromptToken
	service += time.Duration(g.random.ExpFloat64() * float64(perCall) / 2)
	g.busyUntil[a.worker] = begin + service
	g.fleet.queue.at(begin+service, func() { g.pass(a) })
	g.fleet.queue.at(g.fleet.now+clientTimeout, func() { g.timeOut(a) })
}

// alive says whether an attempt still has a client and a gateway, and tells
// the client if the gateway has gone.
func (g *gateway) alive(a *attempt) bool {
	if a.call.over {
		return false
	}
	if a.life != g.life {
		a.call.over = true
		a.call.session.failed()
		return false
	}
	return true
}

// pass hands a call to an engine.
func (g *gateway) pass(a *attempt) {
	if !g.alive(a) {
		return
	}
	a.passed = g.fleet.now
	g.try(a, -1)
}

// try sends a call to an engine other than the one to avoid.
func (g *gateway) try(a *attempt, avoid int) {
	f := g.fleet
	a.sent = f.now
	a.engine = f.router.choose(a.call.session.id, avoid)
	e := f.engines[a.engine]
	if e.down {
		g.lost(a)
		return
	}
	w := f.config.Workload
	c := a.call
	agent := uint64(c.session.agent)
	a.request = &request{
		shared:       prefixKey{shared: true, id: agent, version: c.sharedVersion},
		own:          prefixKey{id: c.session.id, version: c.ownVersion},
		sharedTokens: w.SystemPrompts[agent], promptTokens: c.promptTokens,
		outputTokens: c.outputTokens, maxTokens: 4096,
		onFirstToken: func() { a.firstToken = f.now },
		done: func(ok bool) {
			if ok {
				f.queue.at(f.now+perAnswer, func() { g.answer(a) })
			} else {
				f.queue.at(f.now, func() { g.lost(a) })
			}
		},
	}
	e.enqueue(a.request)
}

// answer ends a call well.
func (g *gateway) answer(a *attempt) {
	if !g.alive(a) {
		return
	}
	a.call.over = true
	g.inFlight--
	g.fleet.calls++
	g.metrics.answered(a)
	a.call.session.answered(a.call)
}

// lost is told that an engine refused or dropped a call: the deployment cools
// down and the call is tried once more elsewhere.
func (g *gateway) lost(a *attempt) {
	if !g.alive(a) {
		return
	}
	g.metrics.attemptFailed(a)
	g.cool(a.engine)
	if !a.retried {
		a.retried = true
		g.try(a, a.engine)
		return
	}
	g.fail(a, "500", "Hosted_vllm.InternalServerError")
}

// cool takes a deployment out of the rotation for a while.
func (g *gateway) cool(engine int) {
	g.metrics.cooledDown(engine)
	if g.fleet.router.cooling[engine] {
		return
	}
	g.fleet.router.cooling[engine] = true
	g.fleet.queue.at(g.fleet.now+cooldown, func() { g.fleet.router.cooling[engine] = false })
}

// timeOut gives a call up whose client has waited too long.
func (g *gateway) timeOut(a *attempt) {
	if !g.alive(a) {
		return
	}
	if a.request != nil && !g.fleet.engines[a.engine].down {
		g.fleet.engines[a.engine].abort(a.request)
	}
	g.fail(a, "408", "Hosted_vllm.Timeout")
}

// fail ends a call badly.
func (g *gateway) fail(a *attempt, status, class string) {
	a.call.over = true
	g.inFlight--
	g.fleet.failed++
	g.metrics.failed(a, status, class)
	a.call.session.failed()
}

// FillGatewayPage counts one good call of each of so many further people, so
// that the gateway's page becomes as large as that of a large organisation:
// about 43 kB a person. It is for benchmarks; nothing else sees those calls.
func (f *Fleet) FillGatewayPage(people int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range people {
		user := f.config.Users + i
		c := &call{
			session:      &session{fleet: f, id: math.MaxUint64, user: user},
			promptTokens: 10_000, outputTokens: 100, streamed: true, began: f.now - 2*time.Second,
		}
		f.gateway.metrics.answered(&attempt{
			call: c, engine: user % len(f.engines), request: &request{cached: 9_000},
			passed: f.now - 2*time.Second, sent: f.now - 2*time.Second, firstToken: f.now - time.Second,
		})
	}
}
