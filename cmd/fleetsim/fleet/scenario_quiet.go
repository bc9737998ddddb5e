package fleet

import (
	"cmp"
	"math"
	"time"
)

const day = 24 * time.Hour

// weekends is the share of the load that is left at weekends: as much as makes
// a line through two weeks without growth fall by 10 % a week, as in the study.
const weekends = 0.7

// quietScenarios have no incident: whatever a detector finds in them is a
// false alarm, or one of the short collapses that the fleet has by itself.
func quietScenarios() []Scenario {
	return []Scenario{
		{
			Name: "healthy_week", Profile: "A", Length: 7 * day,
			Description: "a week in which nothing happens; the load follows the day a little",
			settle:      usualDays,
		},
		{
			Name: "diurnal", Profile: "A", Length: 14 * day,
			Description: "two weeks with strong days (60 % more and less) and quiet weekends",
			settle: func(c *Config) {
				c.load(0.68)
				c.tide(Tides{Day: 0.6, Weekend: weekends})
			},
		},
		{
			Name: "flat", Profile: "A", Length: 28 * day, Description: "four weeks at 75 % of the usual load, day and night",
			settle: func(c *Config) { c.load(0.75) },
		},
		{
			Name: "low_traffic", Profile: "A", Length: 7 * day, Description: "one to three sessions at a time",
			settle: lowTraffic,
		},
		{
			Name: "scrape_gaps", Profile: "A", Length: 7 * day,
			Description: "8 % of all pages are lost, and each target's for 3 to 20 minutes in a row once in half a day",
			settle:      usualDays,
			plan:        loseScrapes,
		},
		{
			Name: "chat_mix", Profile: "A", Length: 7 * day,
			Description: "agents and chats side by side; the chats' number changes twelvefold within hours",
			settle:      withChat, plan: swingChats,
		},
		{
			Name: "light_load", Profile: "A", Length: 7 * day, Description: "a week at a third of the usual load",
			settle: func(c *Config) { c.load(0.35) },
		},
		{
			Name: "rag_heavy", Profile: "A", Length: 7 * day, Description: "a quarter of all sessions have retrieved text in front, always",
			settle: ragHeavy,
		},
		{
			Name: "eight_replicas", Profile: "A", Length: 7 * day, Description: "a week of eight replicas in which nothing happens",
			settle: func(c *Config) {
				groupOf(8)(c)
				usualDays(c)
			},
		},
		{
			Name: "big_cache", Profile: "A", Length: 7 * day, Description: "a week with 8M KV tokens",
			settle: bigCache,
		},
		{
			Name: "demand_growth", Profile: "A", Length: 35 * day,
			Description: "five weeks in which the load grows by 2 % a day and prompts by 0.7 %, with weekends",
			settle: func(c *Config) {
				c.load(0.4)
				c.tide(Tides{Day: 0.4, Weekend: weekends})
			},
			plan: func(p *planner) {
				days := p.length.Hours() / 24
				p.fleet.conditions.load = course{from: 1, to: 1 + 0.02*days, end: p.length}
				p.fleet.conditions.prompts = course{from: 1, to: 1 + 0.007*days, end: p.length}
			},
		},
		{
			Name: "demand_flat", Profile: "A", Length: 35 * day, Description: "five weeks with weekends in which nothing grows",
			settle: func(c *Config) {
				c.load(0.5)
				c.tide(Tides{Day: 0.4, Weekend: weekends})
			},
		},
	}
}

// harmlessScenarios have events that look like incidents and are none, at least
// where there is room: a detector may speak of them, but must not page.
func harmlessScenarios() []Scenario {
	return []Scenario{
		{
			Name: "restarts", Profile: "A", Length: 7 * day, Description: "at 75 % of the usual load one replica restarts every six hours",
			settle: func(c *Config) { c.load(0.75) },
			plan: func(p *planner) {
				p.every(6*time.Hour, func(at time.Duration) {
					p.restart(p.engine(), at, p.between(90*time.Second, 4*time.Minute))
				})
			},
		},
		{
			Name: "rolling_deploys", Profile: "A", Length: 7 * day,
			Description: "at 75 % of the usual load all replicas restart one after the other, twice a day",
			settle:      func(c *Config) { c.load(0.75) },
			plan: func(p *planner) {
				p.every(12*time.Hour, func(at time.Duration) {
					for i := range p.fleet.config.Engines {
						at = p.restart(i, at, 3*time.Minute) + 6*time.Minute
					}
				})
			},
		},
		{
			Name: "scale_up", Profile: "A", Length: 4 * day, Description: "two more replicas join, a day apart",
			settle: func(c *Config) { c.Standby = 2 },
			plan: func(p *planner) {
				for i := range 2 {
					at := time.Duration(i+1)*day + p.between(8*time.Hour, 16*time.Hour)
					joins := p.fleet.config.Engines + i
					p.at(at, startEngine(joins, true))
					p.incident(Incident{Onset: at, End: at, Affected: []int{joins}, Mild: true})
				}
			},
		},
		{
			Name: "bursts", Profile: "A", Length: 7 * day,
			Description: "at 75 % of the usual load, four times as many new sessions for five minutes, every six hours",
			settle:      func(c *Config) { c.load(0.75) },
			plan: func(p *planner) {
				p.every(6*time.Hour, func(at time.Duration) {
					end := at + 5*time.Minute
					p.at(at, loadOf(steady(4)))
					p.at(end, loadOf(steady(1)))
					p.incident(Incident{Onset: at, End: end, Mild: true})
				})
			},
		},
	}
}

// load and tide fill what the user has left out.
func (c *Config) load(factor float64) {
	if c.Load == 0 {
		c.Load = factor
	}
}

func (c *Config) tide(t Tides) {
	if (c.Tides == Tides{}) {
		c.Tides = t
	}
}

// usualDays are those of a fleet that has some room at its peak.
func usualDays(c *Config) {
	c.load(0.85)
	c.tide(Tides{Day: 0.25})
}

// lowTraffic is so few sessions that one to three are under way at once.
func lowTraffic(c *Config) {
	c.load(0.012)
	c.Users = min(3, max(c.Users, 3))
}

// ragHeavy is a fleet that finds some 70 % of its tokens on a good day, with as
// much room as the others have: more of it is computed, so that it has fewer
// sessions.
func ragHeavy(c *Config) {
	c.load(0.35)
	c.Workload.Retrieval = cmp.Or(c.Workload.Retrieval, 0.27)
}

func bigCache(c *Config) { c.Hardware.KVBlocks = cmp.Or(c.Hardware.KVBlocks, 8_000_000/16) }

func withChat(c *Config) {
	c.load(0.9)
	if c.Chat.SessionsPerHour == 0 {
		c.Chat.SessionsPerHour = 40
	}
}

// swingChats moves the number of chats up and down between 1 and 12 times.
func swingChats(p *planner) {
	for at, factor := time.Duration(0), 1.0; at < p.length; {
		next := math.Exp(p.random.Float64() * math.Log(12))
		end := at + p.between(time.Hour, 4*time.Hour)
		move := course{from: factor, to: next, begin: at, end: end}
		p.at(at, func(f *Fleet) { f.conditions.chats = move })
		at, factor = end, next
	}
}

// loseScrapes loses single pages and has outages of targets.
func loseScrapes(p *planner) {
	p.fleet.loss = newLoss(p.fleet.config.Seed, len(p.fleet.engines)+1, 0.08, p.length)
}

func loadOf(c course) func(*Fleet) { return func(f *Fleet) { f.conditions.load = c } }

// every does something about once in a while, from one day on.
func (p *planner) every(while time.Duration, do func(at time.Duration)) {
	for at := day; at+while <= p.length; at += while {
		do(at + p.between(0, while/3))
	}
}

// restart takes an engine down for a while, and returns when it is back.
func (p *planner) restart(engine int, at, length time.Duration) time.Duration {
	p.at(at, stopEngine(engine))
	p.at(at+length, startEngine(engine, true))
	p.incident(Incident{Onset: at, End: at + length, Affected: []int{engine}, Mild: true})
	return at + length
}
