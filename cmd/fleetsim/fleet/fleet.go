// Package fleet simulates what kvwatch watches: vLLM engines behind a LiteLLM
// gateway, driven by agents that hold sessions of growing context. It is a
// discrete-event model in simulated time: no goroutine per request, no clock
// of its own, and the same result for the same seed. Engines and gateway
// expose the pages that vLLM 0.32 and LiteLLM 1.102 expose, so that whatever
// reads real pages reads these.
//
// The way of one call: session (session.go) → gateway (gateway.go) → router
// (router.go) → engine (engine.go) with its prefix cache (cache.go). What is
// counted on that way is kept as families of a page (page.go) whose names,
// labels and bounds come from a real page (shape/).
package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrDown is returned for the page of a process that a scenario has taken down.
var ErrDown = errors.New("is down")

// Config says what to simulate. The zero value is the fleet of the demo.
type Config struct {
	// Engines is the number of vLLM replicas behind the gateway; default 4.
	Engines int
	// GatewayWorkers is the number of worker processes of the gateway; default
	// 2. With one worker its page is that of a single process (with process_*,
	// python_* and _created), with more that of the multiprocess mode.
	GatewayWorkers int
	// Seed makes a run; equal seeds give equal runs.
	Seed uint64
	// Model is the name under which the engines serve; default "qwen3-coder-30b".
	Model string
	// GatewayModel is the name that clients ask the gateway for; default "agents".
	GatewayModel string
	// Scenario is a name of Scenarios; default "healthy".
	Scenario string
	// Start is the wall-clock time of simulated time 0: start times and
	// _created samples are written relative to it. Default 2026-01-01 UTC.
	Start time.Time
	// WarmUp is simulated by New before time 0, so that sessions and caches are
	// in their steady state when the first page is read. Default 10 minutes; a
	// negative value starts cold.
	WarmUp time.Duration
	// Users is the number of people, each with a key of its own, that the
	// sessions belong to; default 8.
	Users int
	// Hardware describes one engine; a zero field takes the default's value.
	Hardware Hardware
	// Workload describes the sessions; a zero field takes the default's value.
	Workload Workload
}

// withDefaults fills what was left out and refuses what makes no sense.
func (c Config) withDefaults() (Config, error) {
	c.Engines = cmp.Or(c.Engines, 4)
	c.GatewayWorkers = cmp.Or(c.GatewayWorkers, 2)
	c.Model = cmp.Or(c.Model, "qwen3-coder-30b")
	c.GatewayModel = cmp.Or(c.GatewayModel, "agents")
	c.Scenario = cmp.Or(c.Scenario, "healthy")
	c.WarmUp = cmp.Or(c.WarmUp, 10*time.Minute)
	c.Users = cmp.Or(c.Users, 8)
	if c.Start.IsZero() {
		c.Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if c.Engines < 0 || c.GatewayWorkers < 0 || c.Users < 0 || c.Workload.Sessions < 0 {
		return c, errors.New("engines, gateway workers, users and sessions must be positive")
	}
	c.Hardware = c.Hardware.withDefaults()
	c.Workload = c.Workload.withDefaults()
	return c, c.check()
}

// check refuses a workload that the hardware cannot run at all.
func (c Config) check() error {
	hw, w := c.Hardware, c.Workload
	for _, tokens := range w.SystemPrompts {
		if tokens%hw.BlockSize != 0 {
			return fmt.Errorf("system prompt of %d tokens: must be a multiple of the block size %d", tokens, hw.BlockSize)
		}
	}
	if longest := w.longest(); longest > min(hw.MaxModelLen, (hw.KVBlocks-1)*hw.BlockSize) {
		return fmt.Errorf("a call may come to %d tokens, which the engine does not take (max_model_len %d, %d KV blocks of %d)",
			longest, hw.MaxModelLen, hw.KVBlocks, hw.BlockSize)
	}
	return nil
}

// Fleet is a running simulation. Its methods may be called from several
// goroutines; Step decides how far simulated time goes.
type Fleet struct {
	mu       sync.Mutex
	config   Config
	scenario Scenario

	now     time.Duration
	queue   queue
	vllm    *shape
	litellm *shape

	engines []*engine
	gateway *gateway
	router  *router

	// brokenPrefix makes every call begin with other words.
	brokenPrefix             bool
	lastSession, lastVersion uint64
	calls, failed            uint64

	// buffers keeps the bytes of pages that were written.
	buffers sync.Pool
}

// New builds the fleet and simulates its warm-up.
func New(config Config) (*Fleet, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Fleet{config: config, now: min(0, -config.WarmUp)}
	if f.scenario, err = scenarioNamed(config.Scenario); err != nil {
		return nil, err
	}
	if f.vllm, err = readShape(vllmShape); err != nil {
		return nil, err
	}
	if f.litellm, err = readShape(litellmShape); err != nil {
		return nil, err
	}
	if err := f.build(); err != nil {
		return nil, err
	}
	f.Step(0)
	return f, nil
}

// build makes the parts and asks for the first events.
func (f *Fleet) build() error {
	f.router = newRouter(rand.New(rand.NewPCG(f.config.Seed, routerStream)), f.config.Engines)
	f.gateway = &gateway{fleet: f, random: rand.New(rand.NewPCG(f.config.Seed, gatewayStream))}
	f.gateway.start()
	if err := f.gateway.metrics.check(); err != nil {
		return err
	}
	for i := range f.config.Engines {
		e := &engine{fleet: f, index: i}
		e.start(true)
		if err := e.metrics.page.err; err != nil {
			return err
		}
		f.engines = append(f.engines, e)
	}
	for i := range f.config.Workload.Sessions {
		f.queue.at(f.now+time.Duration(i)*100*time.Millisecond, f.begin)
	}
	for _, step := range f.scenario.steps {
		f.queue.at(step.at, func() { step.do(f) })
	}
	return nil
}

// The streams of random numbers beside those of the sessions, which are
// numbered from 1.
const (
	routerStream  = 1 << 62
	gatewayStream = 1<<62 + 1
)

// wallClock is the wall-clock time of the present simulated time.
func (f *Fleet) wallClock() time.Time { return f.config.Start.Add(f.now) }

// Step advances simulated time to until, counted from time 0. It does nothing
// when that lies in the past.
func (f *Fleet) Step(until time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue.events) > 0 && f.queue.events[0].at <= until {
		next := f.queue.pop()
		f.now = max(f.now, next.at)
		next.do()
	}
	f.now = max(f.now, until)
}

// EnginePage writes the metrics page of engine i in text format 0.0.4. The
// error is ErrDown when a scenario has taken the engine down.
func (f *Fleet) EnginePage(i int, w io.Writer) error {
	f.mu.Lock()
	if i < 0 || i >= len(f.engines) {
		f.mu.Unlock()
		return fmt.Errorf("engine %d: there are %d engines", i, len(f.engines))
	}
	e := f.engines[i]
	if e.down {
		f.mu.Unlock()
		return fmt.Errorf("engine %d: %w", i, ErrDown)
	}
	e.metrics.refresh(e)
	return f.unlockAndWrite(w, e.metrics.page)
}

// GatewayPage writes the gateway's metrics page in text format 0.0.4. The
// error is ErrDown while it restarts.
func (f *Fleet) GatewayPage(w io.Writer) error {
	f.mu.Lock()
	if f.gateway.down {
		f.mu.Unlock()
		return fmt.Errorf("gateway: %w", ErrDown)
	}
	f.gateway.metrics.refresh(f.gateway)
	return f.unlockAndWrite(w, f.gateway.metrics.page)
}

// unlockAndWrite takes the page as it is, then lets the simulation go on
// before it writes: a slow reader must not hold it up.
func (f *Fleet) unlockAndWrite(w io.Writer, p *page) error {
	buffer, _ := f.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	*buffer = p.append((*buffer)[:0])
	f.mu.Unlock()
	defer f.buffers.Put(buffer)
	_, err := w.Write(*buffer)
	return err
}

// EngineTruth is what really happened in one engine since the simulation
// began, warm-up included; it knows no restarts.
type EngineTruth struct {
	// PromptTokens and CachedTokens are counted when a call's first token
	// leaves: the prompt, and the part of it that the cache held.
	PromptTokens, CachedTokens uint64
	Running, Waiting           int
	// KVUsage is the referenced share of the blocks, 0 to 1.
	KVUsage     float64
	Preemptions uint64
	Restarts    int
	Down        bool
}

// Truth is the ground truth at the simulated time Now.
type Truth struct {
	Now     time.Duration
	Engines []EngineTruth
	// InFlight are the calls in the gateway.
	InFlight int
	// Calls are those that ended well, Failed those that did not.
	Calls, Failed uint64
}

// Truth returns what tests hold the pages against.
func (f *Fleet) Truth() Truth {
	f.mu.Lock()
	defer f.mu.Unlock()
	truth := Truth{Now: f.now, InFlight: f.gateway.inFlight, Calls: f.calls, Failed: f.failed}
	for _, e := range f.engines {
		t := e.truth
		t.Running, t.Waiting, t.KVUsage, t.Down = len(e.running), len(e.waiting), e.cache.usage(), e.down
		truth.Engines = append(truth.Engines, t)
	}
	return truth
}

// Config returns the settings with their defaults filled in.
func (f *Fleet) Config() Config { return f.config }

// Scenario returns the scenario that runs, with its labels.
func (f *Fleet) Scenario() Scenario { return f.scenario }
