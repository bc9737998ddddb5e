package main

import (
	"os"
	"runtime/debug"
)

// gcPercent is how much the heap may grow between two collections, in percent
// of what is in use. Most of what kvwatch holds, the series of its targets,
// stays for as long as they do, and little is thrown away: at Go's default of
// 100 half of the memory would be empty. At 25, a thousand engines take 2 % more
// CPU time than at 50, and 60 MB less; at 15, 12 % more again for little.
const gcPercent = 20

// tuneGC sets gcPercent, unless the environment says otherwise.
func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
