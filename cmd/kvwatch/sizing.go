package main

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"kvwatch/rules"
	"kvwatch/rules/sizing"
)

// planReviewer works the configured plans out again from history.
type planReviewer struct {
	scan   rules.ScanFunc
	engine *rules.Engine
	log    *slog.Logger

	mu    sync.Mutex
	plans []*planFile
	pools []rules.PoolConfig
	// measurer keeps what was read; nil until the first review, and again when
	// pools or the window became others.
	measurer *rules.Measurer
	window   time.Duration
}

// reload takes the plans, pools and window of a configuration.
func (r *planReviewer) reload(c *Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plans = c.plans
	if !reflect.DeepEqual(r.pools, c.Pools) || r.window != time.Duration(c.PlanWindow) {
		r.pools, r.window, r.measurer = c.Pools, time.Duration(c.PlanWindow), nil
	}
}

// review is the job that `schedules.sizing` does.
func (r *planReviewer) review(ctx context.Context, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.plans) == 0 {
		r.engine.SetPlans(nil)
		return nil
	}
	if r.measurer == nil {
		m, err := rules.NewMeasurer(r.pools, r.window)
		if err != nil {
			return err
		}
		r.measurer = m
	}
	begun := time.Now()
	if err := r.measurer.Read(ctx, now, r.scan); err != nil {
		return fmt.Errorf("reading what plans are held against: %w", err)
	}
	reviews := make([]rules.PlanReview, 0, len(r.plans))
	for _, p := range r.plans {
		reviews = append(reviews, p.review(now, r.measurer, r.engine.Growth))
	}
	r.engine.SetPlans(reviews)
	r.log.Debug("plans were held against history", "plans", len(reviews), "took", time.Since(begun))
	return nil
}

// review works one plan out again. growth says how a pool's demand grows.
func (p *planFile) review(now time.Time, m *rules.Measurer, growth func(pool string) (*sizing.Growth, float64)) rules.PlanReview {
	seen := sizing.Evidence{From: now.Add(-m.Window()), To: now, Slots: m.Slots(p.Pool)}
	seen.Growth, seen.Headroom = growth(p.Pool)
	return rules.PlanReview{At: now, Live: sizing.Reevaluate(p.Plan, p.config(), seen), Price: p.price()}
}

// price is what an engine costs; nil without prices.
func (p *planFile) price() *rules.EnginePrice {
	perGPU, _, err := p.PricePerGPUHour()
	if err != nil {
		return nil
	}
	gpus := 1.0
	if tp := p.Engine.TensorParallel; tp != nil {
		gpus = *tp
	}
	currency := p.Cost.Currency
	if currency == "" {
		currency = "in the plan's currency"
	}
	return &rules.EnginePrice{Plan: p.Plan.Plan, Currency: currency, PerHour: perGPU * gpus, GPUs: gpus}
}
