package scrape

import (
	"bytes"
	"context"
	"errors"
	"time"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/collector"
)

// Record gives the pages of the fleet, as their servers write them, to a
// recorder, in simulated time.
func Record(ctx context.Context, f *fleet.Fleet, to *collector.Recorder, past Past) error {
	all := pages(f, past.Interval)
	start := f.Config().Start
	var text bytes.Buffer
	return past.each(ctx, func(at time.Duration) error {
		f.Step(at)
		for i := range all {
			p := &all[i]
			text.Reset()
			round := collector.Round{Target: &p.Target, Time: start.Add(at), State: collector.StateUp}
			switch err := p.write(&text); {
			case errors.Is(err, fleet.ErrAbsent):
				continue
			case failed(err):
				round.State, round.Reason = collector.StateDown, err.Error()
			case err != nil:
				return err
			}
			if err := to.Take(&round, text.Bytes()); err != nil {
				return err
			}
		}
		return nil
	})
}
