package main

import (
	"context"
	"os"
	"runtime/debug"
	"time"
)

const (
	// gcPercent is how much the heap may grow between two collections, in percent
	// of what is in use. Most of what kvwatch holds, the series of its targets,
	// stays for as long as they do, and little is thrown away: at Go's default of
	// 100 half of the memory would be empty. At 10, a thousand engines take 20 %
	// more CPU time than at 20, and 20 MB less.
	gcPercent = 10
	// tidyEvery is how often memory that is free is given back to the system. The
	// runtime keeps a tenth of the heap for what comes, and longer still what a
	// query, a start or a block of history needed once.
	tidyEvery = time.Minute
)

// tuneGC sets gcPercent, unless the environment says otherwise.
func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// tidy gives free memory back until ctx is done.
func tidy(ctx context.Context) error {
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			debug.FreeOSMemory()
		}
	}
}
