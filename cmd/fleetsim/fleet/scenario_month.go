package fleet

import "time"

// monthScenarios is a month to be looked back on: strong days, quiet weekends
// and an incident of each kind, each with an end.
func monthScenarios() []Scenario {
	return []Scenario{{
		Name: "month", Profile: "A", Length: 30 * day,
		Description: "thirty days with strong days and quiet weekends, in which six things go wrong for some hours each: affinity lost, a crash, retrieved text, a replica without cache, more load than the fleet can do, a quarter misrouted",
		settle: func(c *Config) {
			c.load(0.75)
			c.tide(Tides{Day: 0.45, Weekend: weekends})
		},
		plan: planMonth,
	}}
}

// planMonth lets the incidents begin within an hour that the seed decides.
func planMonth(p *planner) {
	strike := func(onset, length time.Duration, cause string, begin, end func(*Fleet)) {
		onset += p.between(0, time.Hour)
		p.incident(Incident{Onset: onset, End: onset + length, Cause: cause})
		p.at(onset, begin)
		p.at(onset+length, end)
	}
	strike(4*day+9*time.Hour, 3*time.Hour+30*time.Minute, CauseRouting, affinity(0), affinity(1))
	p.restart(p.engine(), 9*day+14*time.Hour+p.between(0, time.Hour), 6*time.Minute)
	strike(13*day+10*time.Hour, 6*time.Hour, CauseContent,
		func(f *Fleet) { f.conditions.retrieval = 0.5 }, func(f *Fleet) { f.conditions.retrieval = 0 })
	p.cachelessFor(p.engine(), 18*day+9*time.Hour+p.between(0, time.Hour), 5*time.Hour)
	p.overload(23*day+11*time.Hour, 6*time.Hour)
	strike(27*day+8*time.Hour, 8*time.Hour, CauseRouting, affinity(0.75), affinity(1))
}

// cachelessFor lets an engine find nothing in its cache until a restart.
func (p *planner) cachelessFor(engine int, at, length time.Duration) {
	p.incident(Incident{Onset: at, End: at + length, Cause: CauseReplica, Affected: []int{engine}})
	p.at(at, loseCache(engine))
	p.at(at+length, stopEngine(engine))
	p.at(at+length+90*time.Second, startEngine(engine, true))
}

// overload lets the load grow to more than twice the day's within half of the
// length, and fall again.
func (p *planner) overload(at, length time.Duration) {
	p.incident(Incident{Onset: at, End: at + length, Cause: CauseResidency})
	p.at(at, loadOf(course{from: 1, to: 2.4, begin: at, end: at + length/2}))
	p.at(at+length/2, loadOf(course{from: 2.4, to: 1, begin: at + length/2, end: at + length}))
}
