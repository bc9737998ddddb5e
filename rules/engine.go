package rules

import (
	"context"
	"time"

	"kvwatch/collector"
)

// Engine keeps the windows, derives the series and judges them. All methods
// are safe for concurrent use.
type Engine struct {
	opts Options
}

// New makes an Engine and loads its state file. It fails when pools or
// overrides are wrong.
func New(o Options) (*Engine, error) {
	if err := Validate(o.Pools, o.Rules); err != nil {
		return nil, err
	}
	return &Engine{opts: o}, nil
}

// Observe takes what one scrape yielded into the windows. It keeps no slice of r.
func (e *Engine) Observe(r *collector.Round) {}

// Restore refills the windows from history, up to now. Call it once, before
// the first Observe.
func (e *Engine) Restore(ctx context.Context, now time.Time, scan ScanFunc) error { return nil }

// Eval runs one tick at now: records, then detectors, then alert states, then
// Append, persisting and Dispatch.
func (e *Engine) Eval(ctx context.Context, now time.Time) error { return nil }

// Recorded returns all derived series as of the last Eval, those without a
// value too.
func (e *Engine) Recorded() []Recorded { return nil }

// Alerts returns the alerts that are pending, firing or resolved not long ago.
func (e *Engine) Alerts() []Alert { return nil }

// Detectors says where each detector stands.
func (e *Engine) Detectors() []DetectorStatus { return nil }

// Pools returns the pools and the engines in them.
func (e *Engine) Pools() []PoolStatus { return nil }

// Reload swaps pools and overrides; windows, what was learned and open alerts
// stay. A failed reload changes nothing.
func (e *Engine) Reload(pools []PoolConfig, overrides map[string]Override) error {
	return Validate(pools, overrides)
}

// Accept takes the pool's present cache behaviour as the new normal.
func (e *Engine) Accept(pool string, now time.Time) error { return nil }
