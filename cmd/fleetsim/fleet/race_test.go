//go:build race

package fleet

// demoSeeds is how many runs of the demo are watched. The race detector makes
// them ten times slower and has little to find in them: a run is one goroutine.
const demoSeeds = 2
