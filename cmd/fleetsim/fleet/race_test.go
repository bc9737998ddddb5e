//go:build race && !slow

package fleet

// demoSeeds is how many runs of the demo are watched. The race detector makes
// them ten times slower and has little to find in them: a run is one goroutine.
const demoSeeds = 2

// watched is what is run of a table of runs that take simulated hours.
func watched[T any](all []T) []T { return all[:1] }
