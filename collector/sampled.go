package collector

import (
	"slices"
	"time"
)

const (
	// maxStarts is how many start times of one thing are remembered.
	maxStarts = 16
	// maxBirths is how many _created samples are watched where the process'
	// start time is not exposed.
	maxBirths = 8
	// settleAfter is how long one start time must stay until workers that
	// took turns are forgotten.
	settleAfter = time.Hour
)

// workers finds out whether several processes answer behind one address, each
// with counters of its own: then a start time comes back that was already
// followed by another one. After a restart it never does.
type workers struct {
	start  starts
	births map[uint64]*starts
	// sampled is when a start time last came back; zero when none did.
	sampled time.Time
}

// process notes the process' start time, in Unix seconds.
func (w *workers) process(value float64, at time.Time) {
	w.note(&w.start, value, at)
}

// born notes the value of a _created sample, found by the hash of its series.
func (w *workers) born(series uint64, value float64, at time.Time) {
	s, ok := w.births[series]
	if !ok {
		if len(w.births) == maxBirths {
			return
		}
		if w.births == nil {
			w.births = map[uint64]*starts{}
		}
		s = &starts{}
		w.births[series] = s
	}
	w.note(s, value, at)
}

func (w *workers) note(s *starts, value float64, at time.Time) {
	if s.changed(value) {
		if s.seen(value) {
			w.sampled = at
		}
		s.keep(value)
		if !w.sampled.IsZero() {
			w.sampled = at // any change counts against settling
		}
	}
	if !w.sampled.IsZero() && at.Sub(w.sampled) >= settleAfter {
		*w = workers{}
	}
}

// takeTurns says whether several workers answer.
func (w *workers) takeTurns() bool { return !w.sampled.IsZero() }

// starts holds the distinct start times that were seen, the present one last.
type starts struct{ values []float64 }

func (s *starts) changed(value float64) bool {
	return len(s.values) == 0 || s.values[len(s.values)-1] != value
}

func (s *starts) seen(value float64) bool { return slices.Contains(s.values, value) }

// keep makes value the present one, and forgets the oldest when there are too many.
func (s *starts) keep(value float64) {
	kept := s.values[:0]
	for _, v := range s.values {
		if v != value {
			kept = append(kept, v)
		}
	}
	if len(kept) == maxStarts {
		kept = append(kept[:0], kept[1:]...)
	}
	s.values = append(kept, value)
}
