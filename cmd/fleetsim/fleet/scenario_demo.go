package fleet

import "time"

// onset is when the incidents of the demo's scenarios begin: late enough for a
// detector to have learned, with the demo's time scale, what is usual.
const onset = 150 * time.Second

// demoScenarios happen to the demo's fleet, within minutes.
func demoScenarios() []Scenario {
	return []Scenario{
		{Name: "healthy", Description: "nothing happens", Length: 2 * onset},
		temporary(Scenario{
			Name:        "demo",
			Description: "session affinity is lost for 75 s: prefix hits collapse, queues grow, then all is well again",
			Incident:    Incident{Cause: CauseRouting},
		}, 75*time.Second, affinity(0), affinity(1)),
		lasting(Scenario{
			Name: "affinity_lost", Description: "session affinity is lost for good", Incident: Incident{Cause: CauseRouting},
		}, affinity(0)),
		lasting(Scenario{
			Name: "affinity_partial", Description: "a quarter of the calls go anywhere", Incident: Incident{Cause: CauseRouting},
		}, affinity(0.75)),
		lasting(Scenario{
			Name: "affinity_forgotten", Description: "the gateway forgets once where its sessions are",
			Incident: Incident{Cause: CauseRouting, Mild: true},
		}, func(f *Fleet) { f.router.forget() }),
		temporary(Scenario{
			Name: "restart", Description: "engine 1 is down for 45 s and comes back with an empty cache",
			Incident: Incident{Cause: CauseRestart, Affected: []int{1}},
		}, 45*time.Second, stopEngine(1), startEngine(1, true)),
		temporary(Scenario{
			Name: "gateway_restart", Description: "the gateway is down for 10 s and has forgotten its sessions",
			Incident: Incident{Cause: CauseRouting},
		}, 10*time.Second, func(f *Fleet) { f.gateway.stop() }, func(f *Fleet) {
			f.router.forget()
			f.gateway.start()
		}),
		temporary(Scenario{
			Name: "prefix_changed", Description: "for 75 s every call begins with other words",
			Incident: Incident{Cause: CauseContent},
		}, 75*time.Second, func(f *Fleet) { f.conditions.brokenPrefix = true }, func(f *Fleet) { f.conditions.brokenPrefix = false }),
		replicaWithoutCache(),
	}
}

// replicaWithoutCache is a restart that goes wrong.
func replicaWithoutCache() Scenario {
	s := lasting(Scenario{
		Name: "replica_without_cache", Description: "engine 0 comes back from a restart without prefix caching",
		Incident: Incident{Cause: CauseReplica, Affected: []int{0}},
	}, stopEngine(0))
	begin := s.plan
	s.plan = func(p *planner) {
		begin(p)
		p.at(onset+10*time.Second, startEngine(0, false))
	}
	return s
}

// lasting makes something happen at the onset.
func lasting(s Scenario, begin func(*Fleet)) Scenario {
	s.Length = 2 * onset
	s.Onset = onset
	s.plan = func(p *planner) { p.at(onset, begin) }
	return s
}

// temporary makes something happen at the onset and end after a while.
func temporary(s Scenario, length time.Duration, begin, end func(*Fleet)) Scenario {
	s = lasting(s, begin)
	s.End = onset + length
	s.plan = func(p *planner) {
		p.at(onset, begin)
		p.at(onset+length, end)
	}
	return s
}
