package fleet

import (
	"fmt"
	"strings"
	"time"
)

// Scenario is something that happens to a fleet, with the labels that a
// detector's findings are held against.
type Scenario struct {
	Name, Description string
	// Onset is when it begins; End is when its cause ends, 0 for never. A
	// scenario without an incident has neither.
	Onset, End time.Duration
	// Cause is one of those of a backtest (restart, residency, replica,
	// routing, content), empty for none.
	Cause string
	// Affected are the engines that it begins at; empty means all.
	Affected []int

	steps []scenarioStep
}

// scenarioStep is one thing that happens in a scenario.
type scenarioStep struct {
	at time.Duration
	do func(f *Fleet)
}

// onset is when the incidents of the scenarios begin: late enough for a
// detector to have learned, with the demo's time scale, what is usual.
const onset = 150 * time.Second

// Scenarios lists all scenarios in the order in which they are documented.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "healthy", Description: "nothing happens"},
		temporary(Scenario{
			Name:        "demo",
			Description: "session affinity is lost for 75 s: prefix hits collapse, queues grow, then all is well again",
			Cause:       "routing",
		}, 75*time.Second, affinity(0), affinity(1)),
		lasting(Scenario{
			Name: "affinity_lost", Description: "session affinity is lost for good", Cause: "routing",
		}, affinity(0)),
		lasting(Scenario{
			Name: "affinity_partial", Description: "a quarter of the calls go anywhere", Cause: "routing",
		}, affinity(0.75)),
		lasting(Scenario{
			Name: "affinity_forgotten", Description: "the gateway forgets once where its sessions are", Cause: "routing",
		}, func(f *Fleet) { f.router.forget() }),
		temporary(Scenario{
			Name: "restart", Description: "engine 1 is down for 45 s and comes back with an empty cache", Cause: "restart",
			Affected: []int{1},
		}, 45*time.Second, stopEngine(1), startEngine(1, true)),
		temporary(Scenario{
			Name: "gateway_restart", Description: "the gateway is down for 10 s and has forgotten its sessions", Cause: "routing",
		}, 10*time.Second, func(f *Fleet) { f.gateway.stop() }, func(f *Fleet) {
			f.router.forget()
			f.gateway.start()
		}),
		temporary(Scenario{
			Name: "prefix_changed", Description: "for 75 s every call begins with other words", Cause: "content",
		}, 75*time.Second, func(f *Fleet) { f.brokenPrefix = true }, func(f *Fleet) { f.brokenPrefix = false }),
		{
			Name: "replica_without_cache", Description: "engine 0 comes back from a restart without prefix caching",
			Onset: onset, Cause: "replica", Affected: []int{0},
			steps: []scenarioStep{{onset, stopEngine(0)}, {onset + 10*time.Second, startEngine(0, false)}},
		},
	}
}

// scenarioNamed finds a scenario.
func scenarioNamed(name string) (Scenario, error) {
	var names []string
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scenario{}, fmt.Errorf("unknown scenario %q: there are %s", name, strings.Join(names, ", "))
}

// lasting makes something happen at the onset.
func lasting(s Scenario, begin func(*Fleet)) Scenario {
	s.Onset = onset
	s.steps = []scenarioStep{{onset, begin}}
	return s
}

// temporary makes something happen at the onset and end after a while.
func temporary(s Scenario, length time.Duration, begin, end func(*Fleet)) Scenario {
	s = lasting(s, begin)
	s.End = onset + length
	s.steps = append(s.steps, scenarioStep{s.End, end})
	return s
}

func affinity(share float64) func(*Fleet) { return func(f *Fleet) { f.router.affinity = share } }

// stopEngine and startEngine do nothing in a fleet that has no such engine.
func stopEngine(i int) func(*Fleet) {
	return func(f *Fleet) {
		if i < len(f.engines) {
			f.engines[i].stop()
		}
	}
}

func startEngine(i int, cacheEnabled bool) func(*Fleet) {
	return func(f *Fleet) {
		if i < len(f.engines) {
			f.engines[i].start(cacheEnabled)
		}
	}
}
