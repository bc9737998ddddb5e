package rules

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

const (
	// seatTau is the time constant with which the usual size of a call is forgotten.
	seatTau = 4*time.Hour + 12*time.Minute
	// guessedOutput is the mean output in tokens until seatOutputs requests were seen.
	guessedOutput = 500
	seatOutputs   = 50
)

// seatSize is what a usual call of a pool needs in the KV cache: the median of
// the prompts and the mean output, in tokens, both forgetting with seatTau.
type seatSize struct {
	seatState
	seen map[*unit]*seatSeen
}

// seatState is the part of it that survives a restart.
type seatState struct {
	// Calls counts decayed calls by the upper bound of their bucket.
	Calls map[string]float64 `json:"calls"`
	// Generated and Finished are decayed sums; Outputs counts all finished requests.
	Generated float64 `json:"generated"`
	Finished  float64 `json:"finished"`
	Outputs   float64 `json:"outputs"`
	At        int64   `json:"at"`

	bounds []float64
	counts []float64
}

// seatSeen is what was already counted of one engine.
type seatSeen struct {
	prompts             newPrompts
	generated, finished float64
	begun               bool
}

// tick takes what the engines' pages brought.
func (s *seatSize) tick(w PoolWindow) {
	if s.seen == nil {
		s.seen = map[*unit]*seatSeen{}
	}
	if s.At > 0 && w.ms > s.At {
		f := math.Exp(-float64(w.ms-s.At) / float64(seatTau.Milliseconds()))
		for i := range s.counts {
			s.counts[i] *= f
		}
		s.Generated *= f
		s.Finished *= f
	}
	s.At = w.ms
	for _, u := range w.pool.changed {
		s.take(u)
	}
}

// leave forgets an engine that left the pool.
func (s *seatSize) leave(u *unit) { delete(s.seen, u) }

func (s *seatSize) take(u *unit) {
	seen, ok := s.seen[u]
	if !ok {
		seen = &seatSeen{}
		s.seen[u] = seen
	}
	seen.prompts.take(u.hists[histPrompt], func(calls, low, high float64) {
		if low > 0 {
			s.add(0, low) // where the calls of this bucket begin
		}
		s.add(calls, high)
	})
	generated, finished := u.totals[totalGenerated].sum, u.totals[totalFinished].sum
	if seen.begun {
		s.Generated += max(generated-seen.generated, 0)
		s.Finished += max(finished-seen.finished, 0)
		s.Outputs += max(finished-seen.finished, 0)
	}
	seen.generated, seen.finished, seen.begun = generated, finished, true
}

func (s *seatState) add(calls, bound float64) {
	i, found := slices.BinarySearch(s.bounds, bound)
	if !found {
		s.bounds = slices.Insert(s.bounds, i, bound)
		s.counts = slices.Insert(s.counts, i, 0)
	}
	s.counts[i] += calls
}

// prompt is a quantile of the prompts in tokens.
func (s *seatState) prompt(q float64) (float64, bool) {
	b := bucketCounts{bounds: s.bounds}
	all := 0.0
	for _, c := range s.counts {
		all += c
		b.counts = append(b.counts, all)
	}
	if all < minRequests {
		return 0, false
	}
	return b.quantile(q)
}

// usualOutput is the mean output in tokens.
func (s *seatState) usualOutput() float64 {
	if s.Outputs < seatOutputs || s.Finished <= 0 {
		return guessedOutput
	}
	return s.Generated / s.Finished
}

// tokens is what a usual call needs.
func (s *seatState) tokens() (float64, bool) { return s.need(0.5) }

// need is what a call needs whose prompt is at that quantile.
func (s *seatState) need(q float64) (float64, bool) {
	p, ok := s.prompt(q)
	return p + s.usualOutput(), ok
}

// save and load move the buckets to and from the form of the state file: a
// bound may be infinite, which JSON has no number for.
func (s *seatState) save() seatState {
	out := *s
	out.Calls = make(map[string]float64, len(s.bounds))
	for i, b := range s.bounds {
		out.Calls[strconv.FormatFloat(b, 'g', -1, 64)] = s.counts[i]
	}
	return out
}

func (s *seatState) load(from seatState) {
	*s = from
	s.bounds, s.counts = nil, nil
	for _, key := range slices.Sorted(maps.Keys(from.Calls)) {
		if b, err := strconv.ParseFloat(key, 64); err == nil {
			s.add(from.Calls[key], b)
		}
	}
	s.Calls = nil
}
