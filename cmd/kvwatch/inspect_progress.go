package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress tells a person at a terminal how long the watch still takes.
type progress struct {
	to   io.Writer // nil where nobody looks
	done chan struct{}
	all  sync.WaitGroup
}

// newProgress writes to f where it is a terminal.
func newProgress(f *os.File) *progress {
	p := &progress{done: make(chan struct{})}
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		p.to = f
	}
	return p
}

func (p *progress) start(d time.Duration) {
	if p.to == nil {
		return
	}
	began := time.Now()
	p.all.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			fmt.Fprintf(p.to, "\rwatching: %.0f of %.0f s ", min(time.Since(began), d).Seconds(), d.Seconds())
			select {
			case <-p.done:
				fmt.Fprint(p.to, "\r                              \r")
				return
			case <-ticker.C:
			}
		}
	})
}

func (p *progress) stop() {
	close(p.done)
	p.all.Wait()
}
