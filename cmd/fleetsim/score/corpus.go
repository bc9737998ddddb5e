// Package score runs the detectors of package rules over labelled runs of the
// simulated fleet, and says how well they did: what they found and when, what
// they told that was not so, and how long before the queue; each beside the
// rules that people write today, on the same pages.
package score

import (
	"fmt"
	"slices"
	"time"

	"kvwatch/cmd/fleetsim/fleet"
)

// TableSeed is the first seed of the table: nothing may be tuned to it and those
// after it, nor may they be looked at before the table is made. Those before it
// are for tuning detectors and thresholds.
const TableSeed = 901

const (
	// A run of over longRun is scored with few seeds: what it tells of false
	// alarms grows with its length.
	longRun   = 3 * 24 * time.Hour
	longSeeds = 3 // of how many seeds one is used for a long run
	// mostDays bounds runs in which nothing happens.
	mostDays = 14 * 24 * time.Hour
)

// Entry is one scenario of a corpus.
type Entry struct {
	// Scenario and Profile are names of package fleet.
	Scenario, Profile string
	// Length is how long a run of it is.
	Length time.Duration
}

// Run is one run of an entry.
type Run struct {
	Entry

	Seed uint64
}

// String names the run for a person.
func (r Run) String() string { return fmt.Sprintf("%s/%s/%d", r.Scenario, r.Profile, r.Seed) }

// knees are the scenarios that are run with the fleet that is tight in KV too:
// those that say how early a queue is seen.
var knees = []string{ //nolint:gochecknoglobals // a table
	healthy, kneeRamp, "working_set_growth", "affinity_random", "affinity_quarter", "replica_cacheless", "rag_onset",
}

// demand are the scenarios that need weeks.
var demand = []string{growing, "demand_flat"} //nolint:gochecknoglobals // a table

// healthy is the scenario in which nothing happens at all.
const healthy = "healthy_week"

// month is the scenario for reviews: its incidents are those of others.
const month = "month"

// growing is the scenario of demand that grows.
const growing = "demand_growth"

// small are the scenarios of the small set.
var small = []string{ //nolint:gochecknoglobals // a table
	healthy, "affinity_random", "affinity_quarter", "replica_cacheless", "rag_onset", kneeRamp, "restarts",
}

// The lengths of the small set's runs: a day of health, a whole ramp, and
// otherwise so long that the latest onset (after 30 hours) has been seen.
const smallQuiet, smallIncident = 24 * time.Hour, 33 * time.Hour

// Full is the whole corpus: each scenario of a day or more with its own
// hardware, and some with the other.
func Full() []Entry {
	var all []Entry
	for _, s := range fleet.Scenarios() {
		if s.Profile == "" || s.Name == month {
			continue // the demo's, whose hours are minutes, and what is looked back on
		}
		if s.Onset == 0 && s.Length > mostDays && !slices.Contains(demand, s.Name) {
			s.Length = mostDays
		}
		all = append(all, Entry{s.Name, s.Profile, s.Length})
		if s.Name == healthy {
			for _, profile := range seats {
				all = append(all, Entry{s.Name, profile, s.Length})
			}
		}
		if slices.Contains(knees, s.Name) {
			all = append(all, Entry{s.Name, "B", s.Length})
		}
	}
	return all
}

// Small is what every change is held against.
func Small() []Entry {
	var all []Entry
	for _, e := range Full() {
		if e.Profile == "A" && slices.Contains(small, e.Scenario) {
			switch e.Scenario {
			case healthy:
				e.Length = smallQuiet
			case kneeRamp:
			default:
				e.Length = smallIncident
			}
			all = append(all, e)
		}
	}
	return all
}

// Choose is the part of a corpus with these scenarios and this profile; empty
// ones choose all. A scenario is taken with a profile that the corpus does not
// have it with, where both are named.
func Choose(from []Entry, scenarios []string, profile string) ([]Entry, error) {
	var chosen []Entry
	for _, e := range from {
		if (len(scenarios) == 0 || slices.Contains(scenarios, e.Scenario)) && (profile == "" || e.Profile == profile) {
			chosen = append(chosen, e)
		}
	}
	for _, name := range scenarios {
		if slices.ContainsFunc(chosen, func(e Entry) bool { return e.Scenario == name }) {
			continue
		}
		at := slices.IndexFunc(from, func(e Entry) bool { return e.Scenario == name })
		if at < 0 {
			return nil, fmt.Errorf("scenario %q is not in the corpus", name)
		}
		e := from[at]
		e.Profile = profile
		chosen = append(chosen, e)
	}
	return chosen, nil
}

// Seeds are n of them from the first on.
func Seeds(first uint64, n int) []uint64 {
	var seeds []uint64
	for i := range n {
		seeds = append(seeds, first+uint64(i))
	}
	return seeds
}

// runs are those of all entries with their seeds: all of them, or for long runs
// every third.
func runs(entries []Entry, seeds []uint64) []Run {
	var all []Run
	for _, e := range entries {
		for i, seed := range seeds {
			if e.Length <= longRun || i%longSeeds == 0 {
				all = append(all, Run{e, seed})
			}
		}
	}
	return all
}
