package score

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/cmd/fleetsim/scrape"
	"kvwatch/collector"
	"kvwatch/rules"
)

// played is what came of one run.
type played struct {
	run      Run
	scenario fleet.Scenario
	engines  int
	truth    fleet.History
	// fires are those of each detector, by its name, in order of time.
	fires map[string][]fire
	// readings are where detectors stood meanwhile.
	readings readings
}

// player runs the rules by the clock of a simulated fleet.
type player struct {
	start  time.Time
	engine *rules.Engine
	naive  *naive
	// byAlert are the names of detectors by those of their alerts.
	byAlert map[string]string
	fires   map[string][]fire
	// seen finds a fire by the alert's labels and when it fired.
	seen     map[string]int
	readings readings
}

// play runs one run through all detectors. It tells step how much simulated
// time has passed since it told it last.
func play(ctx context.Context, run Run, step func(time.Duration)) (*played, error) {
	f, err := fleet.New(fleet.Config{Scenario: run.Scenario, Profile: run.Profile, Seed: run.Seed})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", run, err)
	}
	interval := cmp.Or(f.Scenario().ScrapeInterval, scrape.Interval)
	p := &player{start: f.Config().Start, naive: newNaive(interval), byAlert: map[string]string{}, fires: map[string][]fire{}, seen: map[string]int{}}
	for _, d := range scored() {
		p.byAlert[d.Alert] = d.Name
	}
	if p.engine, err = rules.New(rules.Options{ScrapeInterval: interval, Dispatch: p.keep, AlertsOnly: true, Rules: p.others()}); err != nil {
		return nil, fmt.Errorf("%s: %w", run, err)
	}
	if err := p.play(ctx, f, interval, run.Length, step); err != nil {
		return nil, fmt.Errorf("%s: %w", run, err)
	}
	for name, rule := range p.naive.rules {
		p.fires[name] = rule.fires
	}
	config := f.Config()
	return &played{run: run, scenario: f.Scenario(), engines: config.Engines, truth: f.History(), fires: p.fires, readings: p.readings}, nil
}

// others turns off the alerts that are not scored: they cost time only.
func (p *player) others() map[string]rules.Override {
	all := map[string]rules.Override{}
	for _, a := range rules.Registered().Alerts {
		if p.byAlert[a.Name] == "" {
			all[a.Name] = rules.Override{Disabled: true}
		}
	}
	return all
}

// play scrapes and evaluates until the run is over.
func (p *player) play(ctx context.Context, f *fleet.Fleet, interval, length time.Duration, step func(time.Duration)) error {
	scraper := scrape.New(f, scrape.Options{Names: rules.Reads(), Interval: interval})
	observe := func(r *collector.Round) error {
		p.engine.Observe(r)
		p.naive.observe(r)
		return nil
	}
	for at := time.Duration(0); at <= length; at += interval {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := scraper.Scrape(at, observe); err != nil {
			return err
		}
		if err := p.engine.Eval(ctx, p.start.Add(at)); err != nil {
			return err
		}
		p.naive.judge(at)
		if at%readEvery == 0 {
			p.readings.read(at, p.engine.Detectors())
		}
		step(interval)
	}
	return nil
}

// keep takes what would have been sent.
func (p *player) keep(_ context.Context, _ time.Time, alerts []rules.Alert) {
	for _, a := range alerts {
		name := p.byAlert[a.Name]
		if name == "" {
			continue
		}
		key := a.Key() + a.FiredAt.String()
		i, known := p.seen[key]
		if !known {
			i = len(p.fires[name])
			p.seen[key] = i
			p.fires[name] = append(p.fires[name], fire{at: a.FiredAt.Sub(p.start), cause: a.Evidence.Cause})
		}
		if a.State == rules.StateResolved {
			p.fires[name][i].end = a.ResolvedAt.Sub(p.start)
		}
	}
}
