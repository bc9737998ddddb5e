package fleet

import "time"

const (
	// learning is how long all is well before an incident, at least.
	learning = 26 * time.Hour
	// aftermath is how long a run goes on after the onset.
	aftermath = 8 * time.Hour
)

// incidentScenarios have one incident each, after a day in which a detector
// can learn what is usual. When exactly it begins depends on the seed.
func incidentScenarios() []Scenario {
	routing, content := Incident{Cause: CauseRouting}, Incident{Cause: CauseContent}
	return []Scenario{
		strikes("affinity_random", "session affinity is lost: every call goes anywhere", routing, nil, affinity(0)),
		strikes("affinity_quarter", "a quarter of the calls go anywhere", routing, nil, affinity(0.75)),
		strikes("affinity_tenth", "a tenth of the calls go anywhere", routing, nil, affinity(0.9)),
		strikes("affinity_forgotten_once", "the gateway forgets once where its sessions are",
			Incident{Cause: CauseRouting, Mild: true}, nil, func(f *Fleet) { f.router.forget() }),
		strikes("affinity_low_traffic", "session affinity is lost while there are one to three sessions",
			Incident{Cause: CauseRouting, Mild: true}, lowTraffic, affinity(0)).lasting(24 * time.Hour),
		strikes("affinity_with_gaps", "session affinity is lost while pages are lost on their way", routing, nil, affinity(0)).also(loseScrapes),
		strikes("affinity_with_chat", "session affinity is lost beside a changing number of chats", routing, withChat, affinity(0)).also(swingChats),
		strikes("gateway_restarts", "the gateway is down for 30 s and has forgotten its sessions",
			Incident{Cause: CauseRouting, Mild: true}, nil, func(f *Fleet) {
				f.gateway.stop()
				f.queue.once(f.now+30*time.Second, func() {
					f.router.forget()
					f.gateway.start()
				})
			}),
		replicaLosesCache("replica_cacheless", "one replica finds nothing in its prefix cache any more, and goes on", nil),
		replicaBackCacheless(),
		strikes("model_switch_wave", "for an hour, 60 % of the turns find another model's cache", Incident{Cause: CauseContent, Mild: true}, nil,
			func(f *Fleet) {
				f.conditions.switching = 0.6
				f.queue.once(f.now+time.Hour, func() { f.conditions.switching = 0 })
			}).until(time.Hour),
		strikes("rag_onset", "half of the new sessions have retrieved text in front", content, nil,
			func(f *Fleet) { f.conditions.retrieval = 0.5 }),
		strikes("working_set_growth", "within six hours sessions come 2.6 times as often and pause four times as long between turns",
			Incident{Cause: CauseResidency}, func(c *Config) { c.load(0.5) }, func(f *Fleet) {
				f.conditions.load = course{1, 2.6, f.now, f.now + 6*time.Hour}
				f.conditions.gaps = course{1, 4, f.now, f.now + 6*time.Hour}
			}).lasting(16 * time.Hour),
		strikes("load_ramp", "the load grows to 2.4 times as much within six hours, past what the fleet can do",
			Incident{Cause: CauseResidency}, nil, func(f *Fleet) {
				f.conditions.load = course{1, 2.4, f.now, f.now + 6*time.Hour}
			}),
		strikes("prompt_growth", "within 36 hours prompts grow to 2.2 times their size",
			Incident{Cause: CauseResidency, Mild: true}, func(c *Config) { c.load(0.5) }, func(f *Fleet) {
				f.conditions.prompts = course{1, 2.2, f.now, f.now + 36*time.Hour}
			}).lasting(40 * time.Hour),
		strikes("retry_storm", "for 40 minutes clients give up after 8 s and try elsewhere; a third of what they gave up goes on",
			routing, nil, func(f *Fleet) {
				f.conditions.timeout, f.conditions.duplicates, f.conditions.reroute = 8*time.Second, 0.35, true
				f.queue.once(f.now+40*time.Minute, func() {
					f.conditions.timeout, f.conditions.duplicates, f.conditions.reroute = clientTimeout, 0, false
				})
			}).until(40 * time.Minute),
		doubleCrash(),
		replicaLosesCache("pair_replica_cacheless", "of two replicas one finds nothing in its prefix cache any more", groupOf(2)),
		strikes("pair_affinity_quarter", "before two replicas a quarter of the calls go anywhere", routing, groupOf(2), affinity(0.75)),
		replicaLosesCache("eight_replica_cacheless", "of eight replicas one finds nothing in its prefix cache any more", groupOf(8)),
		strikes("eight_affinity_quarter", "before eight replicas a quarter of the calls go anywhere", routing, groupOf(8), affinity(0.75)),
		strikes("big_cache_affinity_random", "with 8M KV tokens session affinity is lost", routing, bigCache, affinity(0)),
		strikes("rag_heavy_affinity_quarter", "where a quarter of the sessions always have retrieved text, a quarter of the calls go anywhere",
			routing, ragHeavy, affinity(0.75)),
		strikes("light_load_affinity_tenth", "at a third of the usual load a tenth of the calls go anywhere", routing,
			func(c *Config) { c.load(0.35) }, affinity(0.9)).lasting(16 * time.Hour),
	}
}

// strikes is a scenario of which one thing begins at a time that the seed
// decides.
func strikes(name, description string, label Incident, settle func(*Config), begin func(*Fleet)) Scenario {
	return Scenario{
		Name: name, Description: description, Profile: "A", Length: learning + 4*time.Hour + aftermath,
		Incident: label, settle: settle,
		plan: func(p *planner) {
			label.Onset = p.between(learning, learning+4*time.Hour)
			p.incident(label)
			p.at(label.Onset, begin)
		},
	}
}

// lasting makes a run go on for so long after the onset.
func (s Scenario) lasting(long time.Duration) Scenario {
	s.Length = learning + 4*time.Hour + long
	return s
}

// until labels the incidents of a run with an end.
func (s Scenario) until(long time.Duration) Scenario {
	plan := s.plan
	s.plan = func(p *planner) {
		plan(p)
		for i := range p.incidents {
			p.incidents[i].End = p.incidents[i].Onset + long
		}
	}
	return s
}

// also makes other things happen from the beginning on.
func (s Scenario) also(other func(*planner)) Scenario {
	plan := s.plan
	s.plan = func(p *planner) {
		plan(p)
		other(p)
	}
	return s
}

func groupOf(engines int) func(*Config) {
	return func(c *Config) {
		if c.Engines == 0 {
			c.Engines = engines
		}
	}
}

// replicaLosesCache lets one engine find nothing in its cache from then on. It
// stays up, so that the sessions which it has stay with it.
func replicaLosesCache(name, description string, settle func(*Config)) Scenario {
	return replicaGoesCacheless(name, description, Incident{Cause: CauseReplica}, settle, func(p *planner, at time.Duration, engine int) {
		p.at(at, loseCache(engine))
	})
}

// replicaBackCacheless restarts one engine, which caches nothing from then on.
// Its sessions went elsewhere meanwhile, and few new ones come to an engine that
// is always busy: the pool hardly notices.
func replicaBackCacheless() Scenario {
	return replicaGoesCacheless("replica_back_cacheless", "one replica comes back from a restart without prefix caching",
		Incident{Cause: CauseReplica, Mild: true}, nil, func(p *planner, at time.Duration, engine int) {
			p.at(at, stopEngine(engine))
			p.at(at+90*time.Second, startEngine(engine, false))
		})
}

// replicaGoesCacheless chooses the engine and the time.
func replicaGoesCacheless(name, description string, label Incident, settle func(*Config), begin func(p *planner, at time.Duration, engine int)) Scenario {
	s := strikes(name, description, label, settle, nil)
	s.plan = func(p *planner) {
		label.Onset = p.between(learning, learning+4*time.Hour)
		engine := p.engine()
		label.Affected = []int{engine}
		p.incident(label)
		begin(p, label.Onset, engine)
	}
	return s
}

// doubleCrash takes half of the engines down at the peak of the day, near the
// load that the fleet can just do. What is lost does not come back when the
// engines do.
func doubleCrash() Scenario {
	s := strikes("double_crash", "near the knee, at the peak of the day, two replicas crash at once and are back after ten minutes",
		Incident{Cause: CauseRestart}, func(c *Config) {
			c.load(1.05)
			c.tide(Tides{Day: 0.4})
		}, nil)
	s.Profile, s.Length = "B", 2*day-4*time.Hour
	s.plan = func(p *planner) {
		at := day + p.between(14*time.Hour, 15*time.Hour)
		first := p.engine()
		second := (first + 1) % p.fleet.config.Engines
		p.incident(Incident{Onset: at, End: at + 10*time.Minute, Cause: CauseRestart, Affected: []int{first, second}})
		p.at(at, both(stopEngine(first), stopEngine(second)))
		p.at(at+10*time.Minute, both(startEngine(first, true), startEngine(second, true)))
	}
	return s
}
