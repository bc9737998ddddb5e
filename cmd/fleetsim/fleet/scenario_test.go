package fleet

import (
	"slices"
	"testing"
	"time"
)

// Every scenario has a name of its own and labels that can be judged by: in
// time order, within the run, with a day before the first, and with a known cause.
func TestScenarioLabels(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	causes := []string{"", CauseRestart, CauseResidency, CauseReplica, CauseRouting, CauseContent}
	for _, s := range Scenarios() {
		if seen[s.Name] || s.Description == "" || s.Length <= 0 {
			t.Errorf("scenario %q: seen before %v, description %q, length %v", s.Name, seen[s.Name], s.Description, s.Length)
		}
		seen[s.Name] = true
		f, err := newFleet(Config{Scenario: s.Name, Seed: 1})
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		planned := f.Scenario()
		if planned.Onset == 0 {
			if planned.Cause != "" || len(planned.Later) > 0 {
				t.Errorf("%s has labels and no onset", s.Name)
			}
			continue
		}
		before := time.Duration(0)
		if s.Profile != "" {
			before = day
		}
		for _, i := range slices.Concat([]Incident{planned.Incident}, planned.Later) {
			if i.Onset < before || i.Onset >= s.Length || i.End > s.Length || (i.End > 0 && i.End < i.Onset) {
				t.Errorf("%s of %v: an incident from %v to %v, after one at %v", s.Name, s.Length, i.Onset, i.End, before)
			}
			before = i.Onset
			if !slices.Contains(causes, i.Cause) {
				t.Errorf("%s: cause %q", s.Name, i.Cause)
			}
			for _, engine := range i.Affected {
				if engine < 0 || engine >= len(f.engines) {
					t.Errorf("%s affects engine %d of %d", s.Name, engine, len(f.engines))
				}
			}
		}
	}
}

// What the user asks for wins over the scenario, and the scenario over the profile.
func TestScenarioSettles(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		config  Config
		engines int
		load    float64
		blocks  int
	}{
		"profile of the scenario": {Config{Scenario: "affinity_random"}, 4, 1, 100_000},
		"another profile":         {Config{Scenario: "affinity_random", Profile: "B"}, 4, 1, 75_000},
		"engines of the scenario": {Config{Scenario: "pair_affinity_quarter"}, 2, 1, 100_000},
		"engines asked for":       {Config{Scenario: "pair_affinity_quarter", Engines: 3}, 3, 1, 100_000},
		"load of the scenario":    {Config{Scenario: "flat"}, 4, 0.75, 100_000},
		"load asked for":          {Config{Scenario: "flat", Load: 0.5}, 4, 0.5, 100_000},
		"memory of the scenario":  {Config{Scenario: "big_cache"}, 4, 1, 500_000},
		"memory asked for":        {Config{Profile: "C", Hardware: Hardware{KVBlocks: 40_000}}, 4, 1, 40_000},
		"the demo's":              {Config{Scenario: "demo"}, 4, 1, 30_000},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := newFleet(test.config)
			if err != nil {
				t.Fatal(err)
			}
			c := f.Config()
			if c.Engines != test.engines || c.Load != test.load || c.Hardware.KVBlocks != test.blocks {
				t.Errorf("%d engines, load %v, %d blocks; want %d, %v, %d",
					c.Engines, c.Load, c.Hardware.KVBlocks, test.engines, test.load, test.blocks)
			}
		})
	}
}
