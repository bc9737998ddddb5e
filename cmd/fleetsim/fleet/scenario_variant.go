package fleet

import "time"

// variantScenarios are other scenarios, of other versions of vLLM or looked at
// more seldom: what happens is the same.
func variantScenarios() []Scenario {
	quiet := func(name string) Scenario { return scenarioOf(quietScenarios(), name) }
	incident := func(name string) Scenario { return scenarioOf(incidentScenarios(), name) }
	near := quiet("healthy_week").as("near_knee", "a week near the load that the fleet can just do; the load follows the day", nearKnee)
	near.Profile = "B"
	ordinary := quiet("healthy_week").as("healthy_week_counters",
		"an ordinary week of an old vLLM, whose counters count who waits again and again, and which has no others", versionOf(CountersOnly))
	ordinary.Profile = "B"
	return []Scenario{
		quiet("healthy_week").scraped("healthy_week_by_minute"),
		scenarioOf(harmlessScenarios(), "restarts").scraped("restarts_by_minute"),
		incident("affinity_random").scraped("affinity_random_by_minute"),
		incident("affinity_quarter").scraped("affinity_quarter_by_minute"),
		ordinary,
		near,
		near.as("near_knee_counters", "the same with an old vLLM, whose counters count who waits again and again, and which has no others", versionOf(CountersOnly)),
		near.as("near_knee_sums", "the same with an old vLLM that has a histogram of computed tokens beside those counters", versionOf(CountersAndSums)),
		incident("affinity_random").as("affinity_random_counters", "session affinity is lost before an old vLLM that has such counters alone", versionOf(CountersOnly)),
		incident("affinity_random").as("affinity_random_sums", "session affinity is lost before an old vLLM that has the histogram too", versionOf(CountersAndSums)),
	}
}

func scenarioOf(all []Scenario, name string) Scenario {
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	panic("no scenario is called " + name)
}

// as makes a variant with other settings.
func (s Scenario) as(name, description string, settle func(*Config)) Scenario {
	before := s.settle
	s.VariantOf, s.Name, s.Description = s.Name, name, description
	s.settle = func(c *Config) {
		settle(c)
		if before != nil {
			before(c)
		}
	}
	return s
}

// scraped makes a variant that is looked at once a minute.
func (s Scenario) scraped(name string) Scenario {
	s = s.as(name, s.Description+"; its pages are read once a minute", func(*Config) {})
	s.ScrapeInterval = time.Minute
	return s
}

// nearKnee is a fleet that has no room left at the peak of the day.
func nearKnee(c *Config) {
	c.load(1.05)
	c.tide(Tides{Day: 0.4})
}

func versionOf(version string) func(*Config) {
	return func(c *Config) {
		if c.EngineVersion == "" {
			c.EngineVersion = version
		}
	}
}
