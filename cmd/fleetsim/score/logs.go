package score

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/cmd/fleetsim/scrape"
	"kvwatch/collector"
	"kvwatch/rules"
)

const (
	// logsInterval is how often the gateway's table of calls is read, as by default.
	logsInterval = 30 * time.Second
	// logsWeek is how long quiet runs with logs are: what logs tell in quiet time
	// rests on far more calls than pages.
	logsWeek = 7 * 24 * time.Hour
)

// The names of the detectors that rest on logs of calls.
const (
	logsRouting  = "D7 routing"
	logsContent  = "D7 content"
	logsBoundary = "turn boundary"
)

// logDetectors are scored on runs of their own: with logs the others know more
// too, and would not be what they are without.
var logDetectors = []detector{ //nolint:gochecknoglobals // a table
	{Name: logsRouting, Alert: "SessionAffinityLost"},
	{Name: logsContent, Alert: "PromptPrefixChanged"},
	{Name: logsBoundary, Alert: "TurnBoundaryCollapse"},
}

// logScenarios are the scenarios with something to see in logs of calls, and
// those in which nothing may be seen.
var logScenarios = []string{ //nolint:gochecknoglobals // a table
	"healthy_week", "diurnal", "low_traffic", "chat_mix", "rag_heavy", "restarts", "rolling_deploys",
	"affinity_random", "affinity_quarter", "affinity_tenth", "affinity_forgotten_once", "affinity_low_traffic", "light_load_affinity_tenth",
	"gateway_restarts", "replica_cacheless", "model_switch_wave", "rag_onset", "working_set_growth", "load_ramp",
}

// Logs is the corpus of what rests on logs of calls.
func Logs() []Entry {
	var all []Entry
	for _, e := range Full() {
		if e.Profile == "A" && slices.Contains(logScenarios, e.Scenario) {
			e.Length = min(e.Length, logsWeek)
			all = append(all, e)
		}
	}
	return all
}

// playWithLogs runs one run through the detectors that rest on logs of calls. It
// tells step how much simulated time has passed since it told it last.
func playWithLogs(ctx context.Context, run Run, step func(time.Duration)) (*played, error) {
	var calls *scrape.Calls
	f, err := fleet.New(fleet.Config{Scenario: run.Scenario, Profile: run.Profile, Seed: run.Seed, Observe: func(c fleet.CallRecord) {
		if calls != nil { // not of the time before the beginning
			calls.Take(c)
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", run, err)
	}
	calls = scrape.NewCalls(f.Config())
	p := &player{start: f.Config().Start, byAlert: map[string]string{}, fires: map[string][]fire{}, seen: map[string]int{}}
	for _, d := range logDetectors {
		p.byAlert[d.Alert] = d.Name
	}
	if p.engine, err = rules.New(rules.Options{ScrapeInterval: scrape.Interval, Dispatch: p.keep, AlertsOnly: true, Rules: p.others()}); err != nil {
		return nil, fmt.Errorf("%s: %w", run, err)
	}
	scraper := scrape.New(f, scrape.Options{Names: rules.Reads()})
	observe := func(r *collector.Round) error {
		p.engine.Observe(r)
		return nil
	}
	for at := time.Duration(0); at <= run.Length; at += scrape.Interval {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := scraper.Scrape(at, observe); err != nil {
			return nil, fmt.Errorf("%s: %w", run, err)
		}
		if at%logsInterval == 0 {
			p.engine.ObserveCalls(calls.Read(at))
		}
		if err := p.engine.Eval(ctx, p.start.Add(at)); err != nil {
			return nil, fmt.Errorf("%s: %w", run, err)
		}
		step(scrape.Interval)
	}
	return &played{run: run, scenario: f.Scenario(), engines: f.Config().Engines, truth: f.History(), fires: p.fires}, nil
}

// judgeLogs scores one run with logs.
func judgeLogs(p *played) Result {
	var r Result
	stretches := p.stretches()
	for _, d := range logDetectors {
		if score, ok := p.incidents(d, stretches); ok {
			r.Incidents = append(r.Incidents, score)
		}
		r.Quiet = append(r.Quiet, p.quiet(d, stretches))
	}
	return r
}
