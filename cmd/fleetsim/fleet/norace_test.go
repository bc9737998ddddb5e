//go:build !race

package fleet

// demoSeeds is how many runs of the demo are watched.
const demoSeeds = 10
