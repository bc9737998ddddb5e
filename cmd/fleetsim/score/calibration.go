package score

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// calibrated is the time after a reading in which D5's share must come true,
	// and between two readings that are taken.
	calibrated = 30 * time.Minute
	// calibrationError is by what factor it may be off.
	calibrationError = 1.6
	// leastCalls is how many calls a bin needs to be told.
	leastCalls = 1000
)

// calibrationBins begin at these shares; below the first nothing is predicted.
var calibrationBins = []float64{0.05, 0.15, 0.3} //nolint:gochecknoglobals // a table

// seats are the profiles with few, some and many heavy seats.
var seats = []string{"quantS", "C", "quantL"} //nolint:gochecknoglobals // a table

// CalibrationScore is how far D5's share of scrapes without room was the share of
// the calls that waited in the half hour after it, by how large it was.
type CalibrationScore struct {
	Subject

	Bins []CalibrationBin `json:"bins"`
}

// CalibrationBin are the half hours for which a share of one size was told.
type CalibrationBin struct {
	// Calls are those scheduled, Queued those of them that waited for over a second.
	Calls  uint64 `json:"calls"`
	Queued uint64 `json:"queued"`
	// Told is how many should have waited.
	Told float64 `json:"told"`
}

func (s *CalibrationScore) add(more CalibrationScore) {
	for i := range s.Bins {
		s.Bins[i].Calls += more.Bins[i].Calls
		s.Bins[i].Queued += more.Bins[i].Queued
		s.Bins[i].Told += more.Bins[i].Told
	}
}

// calibration scores D5's share on a run with few seats; false on another.
func (p *played) calibration() (CalibrationScore, bool) {
	if !slices.Contains(seats, p.run.Profile) {
		return CalibrationScore{}, false
	}
	score := CalibrationScore{p.subject("D5"), make([]CalibrationBin, len(calibrationBins))}
	next := 0
	for _, r := range p.readings {
		if r.at%calibrated != 0 || !r.noFitKnown || r.noFit < calibrationBins[0] || r.at+calibrated > p.run.Length {
			continue
		}
		bin := &score.Bins[0]
		for i, from := range calibrationBins {
			if r.noFit >= from {
				bin = &score.Bins[i]
			}
		}
		for next < len(p.truth.Minutes) && p.truth.Minutes[next].End <= r.at {
			next++
		}
		calls := uint64(0)
		for _, m := range p.truth.Minutes[next:] {
			if m.End > r.at+calibrated {
				break
			}
			for _, e := range m.Engines {
				calls += e.Admitted
				bin.Queued += e.Delayed
			}
		}
		bin.Calls += calls
		bin.Told += r.noFit * float64(calls)
	}
	return score, true
}

// ratio is the share that waited over the one that was told.
func (b CalibrationBin) ratio() float64 { return float64(b.Queued) / b.Told }

// calibratedWithin is the target of all profiles with seats.
func calibratedWithin() target {
	return target{
		"D5: share of calls that wait over the share told", fmt.Sprintf("%.2f to %.1f", 1/calibrationError, calibrationError),
		func(r Result) (string, bool) {
			var ratios []float64
			for _, s := range r.Calibration {
				for _, b := range s.Bins {
					if b.Calls >= leastCalls {
						ratios = append(ratios, b.ratio())
					}
				}
			}
			if len(ratios) == 0 {
				return "", false
			}
			low, high := slices.Min(ratios), slices.Max(ratios)
			return fmt.Sprintf("%.2f to %.2f", low, high), low >= 1/calibrationError && high <= calibrationError
		},
	}
}

// writeCalibration writes how true D5's share came.
func (r Result) writeCalibration(b *strings.Builder) {
	if len(r.Calibration) == 0 {
		return
	}
	b.WriteString("## D5: told, and waited in the half hour after it\n\nThe share of scrapes at which a usual call had no room, and the share of the calls of the next half hour that waited for over a second; by how large the first was.\n\n")
	cells := []string{"scenario"}
	for i, from := range calibrationBins {
		to := 1.0
		if i+1 < len(calibrationBins) {
			to = calibrationBins[i+1]
		}
		cells = append(cells, fmt.Sprintf("told %.0f to %.0f %%", 100*from, 100*to))
	}
	head(b, cells...)
	for _, s := range r.Calibration {
		cells := []string{s.entry().String()}
		for _, bin := range s.Bins {
			if bin.Calls < leastCalls {
				cells = append(cells, "-")
				continue
			}
			cells = append(cells, fmt.Sprintf("%.0f %% told, %.0f %% waited of %d", 100*bin.Told/float64(bin.Calls), 100*float64(bin.Queued)/float64(bin.Calls), bin.Calls))
		}
		row(b, cells...)
	}
	b.WriteString("\n")
}
