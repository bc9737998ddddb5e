package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"kvwatch/collector"
)

// manyRounds is a past that uses one round again and again, as sources do.
type manyRounds struct {
	pastSource

	n   int
	end error
}

func (p manyRounds) rounds(_ context.Context, in timeRange, sink func(*collector.Round) error) error {
	r := collector.Round{Samples: make([]collector.Sample, 3)}
	histograms := []collector.Histogram{{Buckets: make([]float64, 2)}, {Buckets: make([]float64, 3)}}
	for i := range p.n {
		r.Time = in.from.Add(time.Duration(i) * time.Second)
		r.Samples = r.Samples[:1+i%3]
		for j := range r.Samples {
			r.Samples[j].Value = float64(i)
		}
		r.Histograms = histograms[:i%3]
		for j := range r.Histograms {
			h := &r.Histograms[j]
			h.Buckets = h.Buckets[:1+i%2]
			for k := range h.Buckets {
				h.Buckets[k] = float64(i)
			}
		}
		r.Stale = make([]*collector.Series, i%2)
		if err := sink(&r); err != nil {
			return err
		}
	}
	return p.end
}

func TestReadAhead(t *testing.T) {
	t.Parallel()
	errSource, errSink := errors.New("the source broke"), errors.New("the sink broke")
	from := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		n, stop, want int
		end, err      error
	}{
		"nothing":             {},
		"less than a batch":   {n: 7, stop: -1, want: 7},
		"many batches":        {n: 11*aheadRounds + 1, stop: -1, want: 11*aheadRounds + 1},
		"whole batches":       {n: 2 * aheadRounds, stop: -1, want: 2 * aheadRounds},
		"the sink breaks":     {n: 20 * aheadRounds, stop: 3*aheadRounds + 5, want: 3*aheadRounds + 5, err: errSink},
		"the source breaks":   {n: aheadRounds, stop: -1, want: aheadRounds, end: errSource, err: errSource},
		"broken at its start": {stop: -1, end: errSource, err: errSource},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := 0
			err := readAhead(t.Context(), manyRounds{n: c.n, end: c.end}, timeRange{from: from}, func(r *collector.Round) error {
				if got == c.stop {
					return errSink
				}
				if want := from.Add(time.Duration(got) * time.Second); !r.Time.Equal(want) || len(r.Samples) != 1+got%3 || len(r.Stale) != got%2 || r.Samples[got%3].Value != float64(got) {
					return fmt.Errorf("round %d is %+v", got, r)
				}
				if len(r.Histograms) != got%3 {
					return fmt.Errorf("round %d has %d histograms", got, len(r.Histograms))
				}
				for _, h := range r.Histograms {
					if len(h.Buckets) != 1+got%2 || h.Buckets[got%2] != float64(got) {
						return fmt.Errorf("round %d has a histogram with %v", got, h.Buckets)
					}
				}
				got++
				return nil
			})
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("%d rounds and %v, want %d and %v", got, err, c.want, c.err)
			}
		})
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := readAhead(stopped, manyRounds{n: 20 * aheadRounds}, timeRange{from: from}, func(*collector.Round) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
