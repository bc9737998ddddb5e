package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"kvwatch/rules"
)

// How far back plans are held against history: a week, so that each day of it
// counts once, and at least a day.
const (
	defaultPlanWindow = model.Duration(7 * 24 * time.Hour)
	leastPlanWindow   = model.Duration(24 * time.Hour)
)

func checkPlanWindow(d model.Duration) error {
	if d < leastPlanWindow {
		return fmt.Errorf("plan_window: %q is too short: at least %s", d, leastPlanWindow)
	}
	return nil
}

// findPlans lists the files that the patterns find, sorted; patterns are
// relative to dir.
func findPlans(dir string, patterns []string) ([]string, error) {
	var files []string
	var errs []error
	for i, pattern := range patterns {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(dir, pattern)
		}
		found, err := filepath.Glob(pattern)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("plans: %d: %s is no pattern: %w", i, patterns[i], err))
		case len(found) == 0 && !strings.ContainsAny(pattern, `*?[`):
			errs = append(errs, fmt.Errorf("plans: %d: %s: no such file", i, patterns[i]))
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	return slices.Compact(files), errors.Join(errs...)
}

// loadPlans reads them. One that is wrong fails all, as Prometheus does with its
// rule files: a plan that is silently left out would look kept.
func loadPlans(files []string) ([]*planFile, error) {
	var plans []*planFile
	var errs []error
	for _, file := range files {
		p, err := loadPlan(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		plans = append(plans, p)
	}
	return plans, errors.Join(errs...)
}

// checkPlans finds what one plan cannot see: names given twice, and pools that
// there cannot be.
func checkPlans(plans []*planFile, pools []rules.PoolConfig) error {
	var errs []error
	for i, p := range plans {
		if problem := p.config().Problem; problem != "" {
			errs = append(errs, p.locate(fmt.Errorf("model: config_json: %s", problem)))
		}
		for _, other := range plans[:i] {
			if other.Plan.Plan == p.Plan.Plan {
				errs = append(errs, p.locate(fmt.Errorf("plan: the name %s is that of %s too: give each plan a name of its own", p.Plan.Plan, other.file)))
			}
		}
		known := slices.ContainsFunc(pools, func(c rules.PoolConfig) bool { return c.Name == p.Pool })
		switch {
		case p.Pool == "":
			errs = append(errs, p.locate(errors.New("pool is missing: name the pool of the configuration that the plan is about")))
		case !known && !strings.Contains(p.Pool, "/"):
			errs = append(errs, p.locate(fmt.Errorf("pool: there is no pool %q in the configuration: name one of pools, or a default pool, which is called <job>/<model_name>", p.Pool)))
		}
	}
	return errors.Join(errs...)
}
