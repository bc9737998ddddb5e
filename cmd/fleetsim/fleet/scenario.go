package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// The causes of incidents: those that a detector may name.
const (
	CauseRestart   = "restart"
	CauseResidency = "residency"
	CauseReplica   = "replica"
	CauseRouting   = "routing"
	CauseContent   = "content"
)

// Incident is something that happens to a fleet, with the labels that a
// detector's findings are held against.
type Incident struct {
	// Onset is when it begins; End is when its cause ends, 0 for never.
	Onset, End time.Duration
	// Cause is one of the causes above, empty for what is no incident but may
	// look like one (a burst, a deploy that goes well, more engines).
	Cause string
	// Affected are the engines that it begins at; empty means all.
	Affected []int
	// Mild is one that the miss ratio of the whole pool does not show, or hardly.
	Mild bool
}

// Scenario is what a fleet goes through in a run.
type Scenario struct {
	Name, Description string
	// Profile is that of the scenario; empty is the demo's fleet, whose hours are minutes.
	Profile string
	// Length is how long a run of it should be.
	Length time.Duration
	// Incident is the first one; a scenario without any has a zero Onset. Times
	// that depend on the seed are known to Fleet.Scenario only, and are zero in Scenarios.
	Incident
	// VariantOf is the scenario in which the same happens, to an older version or
	// looked at more seldom; empty for what is no variant.
	VariantOf string
	// ScrapeInterval is how often its pages are to be read, where not as usual.
	ScrapeInterval time.Duration
	// Later are the incidents after the first one.
	Later []Incident

	// settle fills settings that the scenario is about, where they were left out.
	settle func(c *Config)
	// plan says what happens when.
	plan func(p *planner)
}

// Scenarios lists all scenarios in the order in which they are documented.
func Scenarios() []Scenario {
	return slices.Concat(demoScenarios(), quietScenarios(), harmlessScenarios(), incidentScenarios(), monthScenarios(), variantScenarios())
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

// planner asks for what happens in a run and writes its labels down.
type planner struct {
	fleet     *Fleet
	random    *rand.Rand
	length    time.Duration
	incidents []Incident
}

// plan lets the scenario ask for its events.
func (f *Fleet) plan() error {
	s, err := scenarioNamed(f.config.Scenario)
	if err != nil {
		return err
	}
	if s.plan != nil {
		p := &planner{fleet: f, random: rand.New(rand.NewPCG(f.config.Seed, scenarioStream)), length: s.Length}
		s.plan(p)
		if len(p.incidents) > 0 {
			s.Incident, s.Later = p.incidents[0], p.incidents[1:]
		}
	}
	f.scenario = s
	return nil
}

// at asks for something to happen at a time.
func (p *planner) at(t time.Duration, do func(f *Fleet)) {
	p.fleet.queue.once(t, func() { do(p.fleet) })
}

// incident labels one.
func (p *planner) incident(i Incident) { p.incidents = append(p.incidents, i) }

// between is a time between two, evenly.
func (p *planner) between(low, high time.Duration) time.Duration {
	return low + time.Duration(p.random.Int64N(int64(high-low)))
}

// engine is any of those that the fleet starts with.
func (p *planner) engine() int { return p.random.IntN(p.fleet.config.Engines) }

// both does several things at once.
func both(all ...func(*Fleet)) func(*Fleet) {
	return func(f *Fleet) {
		for _, do := range all {
			do(f)
		}
	}
}

func affinity(share float64) func(*Fleet) { return func(f *Fleet) { f.router.affinity = share } }

// loseCache, stopEngine and startEngine do nothing in a fleet that has no such engine.
func loseCache(i int) func(*Fleet) {
	return func(f *Fleet) {
		if i < len(f.engines) {
			f.engines[i].cache.enabled = false
		}
	}
}

func stopEngine(i int) func(*Fleet) {
	return func(f *Fleet) {
		if i < len(f.engines) && !f.engines[i].down {
			f.engines[i].stop()
		}
	}
}

func startEngine(i int, cacheEnabled bool) func(*Fleet) {
	return func(f *Fleet) {
		if i < len(f.engines) && f.engines[i].down {
			if f.engines[i].absent {
				f.router.cooling[i] = false
			}
			f.engines[i].start(cacheEnabled)
		}
	}
}
