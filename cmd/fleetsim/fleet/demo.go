package fleet

import "time"

// DemoConfig is the fleet of the demo: the default one with more room in its
// caches, so that a freed block outlives the pause between two turns. What its
// incident then loses is lost by routing alone, and that is what a detector
// should name.
func DemoConfig(seed uint64, start time.Time) Config {
	return Config{
		Scenario: "demo", Seed: seed, Start: start,
		Hardware: Hardware{KVBlocks: 46_000, PrefillPerSecond: 30_000},
	}
}
