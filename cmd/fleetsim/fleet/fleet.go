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
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// ErrDown is returned for the page of an engine that a scenario has taken down.
var ErrDown = errors.New("engine is down")

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
	// in their steady state when the first page is read. Default 20 minutes; a
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
	return c, nil
}

// Hardware describes one engine.
type Hardware struct{}

// Workload describes the sessions.
type Workload struct{}

// Fleet is a running simulation. Its methods may be called from several
// goroutines; Step decides how far simulated time goes.
type Fleet struct {
	mu     sync.Mutex
	config Config
	now    time.Duration
}

// New builds the fleet and simulates its warm-up.
func New(config Config) (*Fleet, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Fleet{config: config}, nil
}

// Step advances simulated time to until, counted from time 0. It does nothing
// when that lies in the past.
func (f *Fleet) Step(until time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = max(f.now, until)
}

// EnginePage writes the metrics page of engine i in text format 0.0.4. The
// error is ErrDown when a scenario has taken the engine down.
func (f *Fleet) EnginePage(i int, _ io.Writer) error {
	return fmt.Errorf("engine %d: %w", i, ErrDown)
}

// GatewayPage writes the gateway's metrics page in text format 0.0.4.
func (f *Fleet) GatewayPage(_ io.Writer) error { return nil }

// EngineTruth is what really happened in one engine since it was first
// started; it knows no restarts.
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
	Now      time.Duration
	Engines  []EngineTruth
	InFlight int
	// Calls are those that ended well, Failed those that did not.
	Calls, Failed uint64
}

// Truth returns what tests hold the pages against.
func (f *Fleet) Truth() Truth {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Truth{Now: f.now, Engines: make([]EngineTruth, f.config.Engines)}
}
