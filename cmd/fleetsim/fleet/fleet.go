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
	"slices"
	"sync"
	"time"
)

// Why there is no page.
var (
	// ErrDown is returned for the page of a process that a scenario has taken down.
	ErrDown = errors.New("is down")
	// ErrAbsent is returned for the page of an engine that is built later:
	// nobody knows its address yet.
	ErrAbsent = errors.New("is not there yet")
	// ErrLost is returned for a page that a scenario loses on its way.
	ErrLost = errors.New("is lost on its way")
)

// Config says what to simulate. The zero value is the fleet of the demo. What
// is left out is taken from the scenario, then from the profile, then from the
// defaults below.
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
	// Profile is a name of Profiles: hardware and workload together. Empty is
	// the demo's, or that of the scenario.
	Profile string
	// WarmUp is simulated by New before time 0, so that sessions and caches are
	// in their steady state when the first page is read. Default 10 minutes, 3
	// hours where sessions come at a rate; a negative value starts cold.
	WarmUp time.Duration
	// Users is the number of people, each with a key of its own, that the
	// sessions belong to; default 8.
	Users int
	// Hardware describes one engine; a zero field takes the default's value.
	Hardware Hardware
	// Workload describes the sessions; a zero field takes the default's value.
	Workload Workload
	// Chat describes a second kind of sessions beside them; none when it has no
	// SessionsPerHour.
	Chat Workload
	// Load is a factor on the rates of sessions; default 1.
	Load float64
	// Tides make the load of both kinds follow the day and the week.
	Tides Tides
	// Standby is how many engines more a scenario may add.
	Standby int
	// EngineVersion is the engines' version of vLLM, as far as what they say of
	// cached tokens goes; default EngineVersion.
	EngineVersion string
	// Quiet leaves out all sessions: only requests from outside come.
	Quiet bool
	// Observe is told of each call at its end. It must not call the Fleet.
	Observe func(CallRecord)
}

// withDefaults fills what was left out and refuses what makes no sense.
func (c Config) withDefaults() (Config, error) {
	c.Scenario = cmp.Or(c.Scenario, "healthy")
	scenario, err := scenarioNamed(c.Scenario)
	if err != nil {
		return c, err
	}
	hardware, workload := defaultHardware(), defaultWorkload()
	if c.Profile = cmp.Or(c.Profile, scenario.Profile); c.Profile != "" {
		profile, err := profileNamed(c.Profile)
		if err != nil {
			return c, err
		}
		hardware, workload = profile.Hardware, profile.Workload
	}
	if scenario.settle != nil {
		scenario.settle(&c)
	}
	c.Engines = cmp.Or(c.Engines, 4)
	c.GatewayWorkers = cmp.Or(c.GatewayWorkers, 2)
	c.Model = cmp.Or(c.Model, "qwen3-coder-30b")
	c.GatewayModel = cmp.Or(c.GatewayModel, "agents")
	c.Users = cmp.Or(c.Users, 8)
	c.Load = cmp.Or(c.Load, 1)
	if c.Start.IsZero() {
		c.Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if c.Engines < 0 || c.GatewayWorkers < 0 || c.Users < 0 || c.Standby < 0 || c.Load < 0 || c.Workload.Sessions < 0 {
		return c, errors.New("engines, gateway workers, users, load and sessions must be positive")
	}
	release, err := releaseOf(c.EngineVersion)
	if err != nil {
		return c, err
	}
	c.EngineVersion = release.version
	c.Hardware = c.Hardware.withDefaults(hardware)
	c.Workload = c.Workload.withDefaults(workload)
	if c.Chat.SessionsPerHour > 0 {
		c.Chat = c.Chat.withDefaults(chatWorkload())
	}
	if c.Quiet {
		c.Workload.Sessions, c.Workload.SessionsPerHour, c.Chat.SessionsPerHour = 0, 0, 0
	}
	if c.WarmUp == 0 {
		c.WarmUp = 10 * time.Minute
		if c.Workload.SessionsPerHour > 0 {
			c.WarmUp = 3 * time.Hour
		}
	}
	return c, c.check()
}

// check refuses a workload that the hardware cannot run at all.
func (c Config) check() error {
	hw, w := c.Hardware, c.Workload
	for _, tokens := range slices.Concat(w.SystemPrompts, c.Chat.SystemPrompts) {
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
	// arrivals are the random numbers of when sessions begin.
	arrivals   *rand.Rand
	conditions conditions
	release    release
	loss       *loss
	history    history

	lastSession, lastVersion uint64
	calls, failed            uint64
	// longest is how many tokens a call may come to.
	longest       int
	spareCalls    []*call
	spareSessions []*session
	// guests are the requests from outside that wait for their answers; those
	// that come meanwhile are taken from arriving by Run.
	guests   []*guest
	arriving chan *guest
	// singleSteps simulates every step of the engines on its own; tests hold
	// leaps against it.
	singleSteps bool

	// buffers keeps the bytes of pages that were written.
	buffers sync.Pool
}

// New builds the fleet and simulates its warm-up.
func New(config Config) (*Fleet, error) {
	f, err := newFleet(config)
	if err != nil {
		return nil, err
	}
	f.Step(0)
	return f, nil
}

// newFleet builds the fleet as it is before its warm-up.
func newFleet(config Config) (*Fleet, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Fleet{config: config, now: min(0, -config.WarmUp), conditions: usualConditions(), arriving: make(chan *guest)}
	f.longest = min(config.Hardware.MaxModelLen, (config.Hardware.KVBlocks-1)*config.Hardware.BlockSize)
	if f.release, err = releaseOf(config.EngineVersion); err != nil {
		return nil, err
	}
	if f.vllm, err = readShape(vllmShape); err != nil {
		return nil, err
	}
	if f.litellm, err = readShape(litellmShape); err != nil {
		return nil, err
	}
	return f, f.build()
}

// build makes the parts and asks for the first events.
func (f *Fleet) build() error {
	f.arrivals = rand.New(rand.NewPCG(f.config.Seed, arrivalStream))
	f.router = newRouter(rand.New(rand.NewPCG(f.config.Seed, routerStream)), f.config.Engines+f.config.Standby)
	if f.config.Workload.SessionsPerHour > 0 {
		f.router.inFlight = func(i int) int { return len(f.engines[i].running) + len(f.engines[i].waiting) }
	}
	f.gateway = &gateway{fleet: f, random: rand.New(rand.NewPCG(f.config.Seed, gatewayStream))}
	f.gateway.start()
	if err := f.gateway.metrics.check(); err != nil {
		return err
	}
	for i := range f.config.Engines + f.config.Standby {
		e := &engine{fleet: f, index: i}
		e.start(true)
		if err := e.metrics.page.err; err != nil {
			return err
		}
		f.engines = append(f.engines, e)
		if i >= f.config.Engines {
			e.down, e.absent = true, true
			f.router.cooling[i] = true
		}
	}
	for i := range f.config.Workload.Sessions {
		f.queue.at(f.now+time.Duration(i)*100*time.Millisecond, f, occasionBegin, 0)
	}
	f.expect(occasionSessionDue)
	f.expect(occasionChatDue)
	f.queue.at((f.now/sampleEvery)*sampleEvery, f, occasionSample, 0)
	return f.plan()
}

// The streams of random numbers beside those of the sessions, which are
// numbered from 1.
const (
	routerStream   = 1 << 62
	gatewayStream  = 1<<62 + 1
	arrivalStream  = 1<<62 + 2
	scenarioStream = 1<<62 + 3
	lossStream     = 1<<62 + 4
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
		next.who.happen(next.what, next.stamp)
	}
	f.now = max(f.now, until)
	f.watch()
}

// happen is what events do to the fleet as a whole.
func (f *Fleet) happen(what occasion, stamp uint64) {
	switch what {
	case occasionBegin:
		f.begin(&f.config.Workload, false)
	case occasionSessionDue:
		f.begin(&f.config.Workload, false)
		f.expect(what)
	case occasionChatDue:
		f.begin(&f.config.Chat, true)
		f.expect(what)
	case occasionCooled:
		f.router.cooling[stamp] = f.engines[stamp].absent
	case occasionSample:
		f.sample()
		f.queue.at(f.now+sampleEvery, f, occasionSample, 0)
	default:
	}
}

// expect asks for the next session of a kind that comes at a rate.
func (f *Fleet) expect(what occasion) {
	perHour := f.config.Workload.SessionsPerHour * f.conditions.load.at(f.now)
	if what == occasionChatDue {
		perHour = f.config.Chat.SessionsPerHour * f.conditions.chats.at(f.now)
	}
	perHour *= float64(f.config.Engines) * f.config.Load * f.config.Tides.at(f.wallClock())
	if perHour > 0 {
		hours := f.arrivals.ExpFloat64() / perHour
		f.queue.at(f.now+time.Duration(hours*float64(time.Hour)), f, what, 0)
	}
}

// EnginePage writes the metrics page of engine i in text format 0.0.4. The
// error is ErrDown when a scenario has taken the engine down, ErrAbsent when it
// is added later, ErrLost when the scenario loses the page on its way.
func (f *Fleet) EnginePage(i int, w io.Writer) error {
	f.mu.Lock()
	p, err := f.enginePage(i)
	if err != nil {
		f.mu.Unlock()
		return err
	}
	return f.unlockAndWrite(w, p)
}

// enginePage is the page of engine i as it is now.
func (f *Fleet) enginePage(i int) (*page, error) {
	if i < 0 || i >= len(f.engines) {
		return nil, fmt.Errorf("engine %d: there are %d engines", i, len(f.engines))
	}
	e := f.engines[i]
	switch {
	case e.absent:
		return nil, fmt.Errorf("engine %d: %w", i, ErrAbsent)
	case e.down:
		return nil, fmt.Errorf("engine %d: %w", i, ErrDown)
	case f.loss.takes(i, f.now):
		return nil, fmt.Errorf("engine %d: its page %w", i, ErrLost)
	}
	e.metrics.refresh(e)
	return e.metrics.page, nil
}

// GatewayPage writes the gateway's metrics page in text format 0.0.4. The
// error is ErrDown while it restarts, ErrLost when the scenario loses the page
// on its way.
func (f *Fleet) GatewayPage(w io.Writer) error {
	f.mu.Lock()
	p, err := f.gatewayPage()
	if err != nil {
		f.mu.Unlock()
		return err
	}
	return f.unlockAndWrite(w, p)
}

// gatewayPage is the gateway's page as it is now.
func (f *Fleet) gatewayPage() (*page, error) {
	if f.gateway.down {
		return nil, fmt.Errorf("gateway: %w", ErrDown)
	}
	if f.loss.takes(len(f.engines), f.now) {
		return nil, fmt.Errorf("gateway: its page %w", ErrLost)
	}
	f.gateway.metrics.refresh(f.gateway)
	return f.gateway.metrics.page, nil
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
	// LookedUpTokens and MissedTokens are counted when a call is first
	// scheduled: the prompt, and the part of it that has to be computed.
	// MissedTokens have those that are computed again after a preemption too.
	LookedUpTokens, MissedTokens uint64
	GeneratedTokens              uint64
	// Admitted are the calls scheduled, Delayed those that waited for over a
	// second before.
	Admitted, Delayed uint64
	Running, Waiting  int
	// KVUsage is the referenced share of the blocks, 0 to 1.
	KVUsage     float64
	Preemptions uint64
	Restarts    int
	// Down says that there is no engine now; Absent that there was none yet.
	Down, Absent bool
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
		e.book(f.now)
		t := e.truth
		t.Running, t.Waiting, t.KVUsage = len(e.running), len(e.waiting), e.usage(f.now)
		t.Down, t.Absent = e.down, e.absent
		truth.Engines = append(truth.Engines, t)
	}
	return truth
}

// Config returns the settings with their defaults filled in.
func (f *Fleet) Config() Config { return f.config }

// Scenario returns the scenario that runs, with its labels.
func (f *Fleet) Scenario() Scenario { return f.scenario }
