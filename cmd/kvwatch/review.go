package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kingpin/v2"

	"kvwatch/collector"
	"kvwatch/dashboards/review"
	"kvwatch/rules"
	"kvwatch/rules/sizing"
)

// reviewOptions are the command's flags: those of a backtest, and the plans.
type reviewOptions struct {
	backtestOptions

	plans []string
}

// reviewCommand writes the capacity review of a recorded period.
func reviewCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("review", "Writes the capacity review of a recorded period: demand and its peaks, the cache and each incident with what it cost, memory and queues, plans against what was measured, and how far the record can be trusted.")
	var o reviewOptions
	o.addPeriodFlags(cmd)
	cmd.Flag("config.file", "Configuration file, of which global, pools, rules, plans and prometheus_sources count. Default: none, all rules as they are.").StringVar(&o.configFile)
	cmd.Flag("plan", "Sizing plan to hold against the period, beside those of the configuration. Repeatable.").StringsVar(&o.plans)
	cmd.Flag("output", "Form of the result: md, html (a page that needs nothing beside itself) or json.").Default("md").EnumVar(&o.output, "md", "html", "json")
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		o.begin()
		return o.run(ctx, stdout)
	}
}

func (o reviewOptions) run(ctx context.Context, stdout io.Writer) (err error) {
	config, err := backtestConfig(o.configFile)
	if err != nil {
		return err
	}
	plans, err := o.loadPlans(config)
	if err != nil {
		return err
	}
	past, err := o.open(config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, past.Close()) }()
	span, err := o.span(ctx, past)
	if err != nil {
		return err
	}
	test, err := o.newBacktest(config, config.Rules, span)
	if err != nil {
		return err
	}
	if test.measurer, err = rules.NewMeasurer(config.Pools, span.to.Sub(span.from)); err != nil {
		return err
	}
	prices := map[string]*rules.EnginePrice{}
	for _, p := range slices.Backward(plans) { // of two plans of a pool, the first prices it
		if price := p.price(); price != nil {
			prices[p.Pool] = price
		}
	}
	test.variants[0].engine.SetPrices(prices)
	if err := test.run(ctx, past); err != nil {
		return err
	}
	return o.write(stdout, o.review(test, plans, past))
}

// loadPlans are those of the configuration and of --plan.
func (o reviewOptions) loadPlans(c *Config) ([]*planFile, error) {
	files, err := findPlans(filepath.Dir(o.configFile), c.Plans)
	if err != nil {
		return nil, err
	}
	return loadPlans(append(files, o.plans...))
}

// review is what the run comes to.
func (o reviewOptions) review(test *backtest, plans []*planFile, past pastSource) *review.Review {
	report := test.report()
	test.measurer.Finish()
	in := review.Input{From: report.From, To: report.To, Source: past.name(), Slots: map[string][]sizing.Slot{}}
	for _, pool := range test.measurer.Pools() {
		in.Slots[pool] = test.measurer.Slots(pool)
	}
	for i := range report.Alerts {
		in.Incidents = append(in.Incidents, newIncident(&report.Alerts[i]))
	}
	in.Notes, in.Learning = test.faults(), learning(test.variants[0].engine)
	if o.storage != "" { // kvwatch's own has a journal
		if events, err := rules.ReadEvents(filepath.Join(o.storage, journalFile), report.From, report.To); err == nil {
			in.Journal = journalOf(events)
		} else {
			in.Notes = append(in.Notes, err.Error())
		}
	}
	for _, p := range plans {
		slots := in.Slots[p.Pool]
		if p.Pool == "" && len(in.Slots) == 1 {
			for _, only := range in.Slots {
				slots = only
			}
		}
		seen := sizing.Evidence{From: report.From, To: report.To, Slots: slots}
		seen.Growth, seen.Headroom = test.variants[0].engine.Growth(p.Pool)
		in.Plans = append(in.Plans, sizing.Reevaluate(p.Plan, p.config(), seen))
	}
	return review.New(in)
}

func newIncident(a *backtestAlert) review.Incident {
	i := review.Incident{
		Alert: a.Name, Severity: a.Severity, Pool: a.Labels["pool"], About: a.about(), ActiveAt: a.ActiveAt, FiredAt: a.FiredAt,
		ResolvedAt: a.ResolvedAt, Cause: a.Evidence.Cause, LeadSeconds: a.LeadSeconds, Summary: a.summary, Cost: a.Evidence.Cost,
	}
	if i.Summary == "" {
		i.Summary = a.Evidence.Seen
	}
	i.Cause = strings.ReplaceAll(i.Cause, "_", " ")
	return i
}

func (o reviewOptions) write(stdout io.Writer, r *review.Review) error {
	switch o.output {
	case "json":
		return r.WriteJSON(stdout)
	case "html":
		return r.WriteHTML(stdout)
	default:
		return r.WriteMarkdown(stdout)
	}
}

// measure gives a page to what measures the period, where something does.
func (t *backtest) measure(r *collector.Round) {
	if t.measurer == nil || r.Time.Before(t.span.from.Add(-sizing.SlotLength)) {
		return
	}
	t.measurer.Observe(r)
}
