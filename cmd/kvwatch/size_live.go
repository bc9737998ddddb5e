package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"kvwatch/collector/history"
	"kvwatch/rules"
	"kvwatch/rules/sizing"
)

// reviewStored holds the plan against a storage folder, up to its last sample.
func (o sizeOptions) reviewStored(ctx context.Context, plan *planFile) (*sizing.Live, error) {
	var pools []rules.PoolConfig
	if o.config != "" {
		c, err := loadConfig(o.config)
		if err != nil {
			return nil, err
		}
		pools = c.Pools
	}
	store, err := history.Open(history.Options{Dir: o.storage, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	live, err := o.measure(ctx, plan, pools, store)
	return live, errors.Join(err, store.Close())
}

func (o sizeOptions) measure(ctx context.Context, plan *planFile, pools []rules.PoolConfig, store *history.Store) (*sizing.Live, error) {
	from, to, err := store.Span(ctx)
	if err != nil {
		return nil, err
	}
	if to.IsZero() {
		return nil, fmt.Errorf("--storage.path %s holds no series of vLLM or LiteLLM", o.storage)
	}
	to = to.Add(sizing.SlotLength) // the slot of the last sample is over
	window := min(time.Duration(o.window), to.Sub(from))
	m, err := rules.NewMeasurer(pools, window)
	if err != nil {
		return nil, err
	}
	if err := m.Read(ctx, to, store.Scan); err != nil {
		return nil, err
	}
	if there := m.Pools(); !slices.Contains(there, plan.Pool) {
		return nil, plan.locate(fmt.Errorf("pool: history has no pool %q: it has %s; give the pools with --config.file", plan.Pool, strings.Join(there, ", ")))
	}
	return plan.review(to, m, func(string) (*sizing.Growth, float64) { return nil, 0 }).Live, nil
}

// reviewedPlan is a plan as the daemon's API has it.
type reviewedPlan struct {
	sizing.Live
	Written string `json:"written"`
}

// reviewAsked asks a running daemon for its review of the plan.
func (o sizeOptions) reviewAsked(ctx context.Context, name string) (*reviewedPlan, error) {
	daemon := client{url: o.url}
	answer, err := daemon.ask(ctx, http.MethodGet, "/api/v1/kvwatch/plans", nil)
	if err != nil {
		return nil, err
	}
	var got struct {
		Data []*reviewedPlan `json:"data"`
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		return nil, fmt.Errorf("%s is no kvwatch: its answer is %w", o.url, err)
	}
	var names []string
	for _, p := range got.Data {
		if p.Plan == name {
			return p, nil
		}
		names = append(names, p.Plan)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has worked no plan out yet: name it in plans of its configuration, and wait for its schedule", o.url)
	}
	return nil, fmt.Errorf("%s has no plan %q: it has %s", o.url, name, strings.Join(names, ", "))
}

// runLive holds the plan against what was measured, and writes the result.
func (o sizeOptions) runLive(ctx context.Context, stdout io.Writer, plan *planFile, now time.Time) error {
	if o.url != "" {
		if len(o.set) > 0 || o.storage != "" {
			return errors.New("--url takes the daemon's own review: leave out --set and --storage.path")
		}
		p, err := o.reviewAsked(ctx, plan.Plan.Plan)
		if err != nil {
			return err
		}
		if o.writePlan {
			_, err = io.WriteString(stdout, p.Written)
			return err
		}
		return o.writeLive(stdout, &p.Live)
	}
	live, err := o.reviewStored(ctx, plan)
	if err != nil {
		return err
	}
	if o.writePlan {
		return writeYAML(stdout, live.Written(now))
	}
	return o.writeLive(stdout, live)
}

func (o sizeOptions) writeLive(stdout io.Writer, l *sizing.Live) error {
	if o.output == "text" {
		_, err := io.WriteString(stdout, liveText(l))
		return err
	}
	return encode(stdout, o.output, l)
}

// liveText is a review for people: what drifted first.
func liveText(l *sizing.Live) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Plan %s, pool %s, held against %s to %s (%d hours that pages cover)\n",
		l.Plan, l.Pool, l.From.UTC().Format(time.RFC3339), l.To.UTC().Format(time.RFC3339), l.Hours)
	table := heading(&b, "Assumptions")
	fmt.Fprintln(table, "  verdict\tassumption\tplanned\tmeasured\tof requests\twhy")
	for _, j := range l.Assumptions {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%d\t%s\n", j.Verdict, j.Name, figure(j.Planned), known(j.Live), j.Samples, j.Why)
	}
	_ = table.Flush()
	table = heading(&b, "What the load needs")
	fmt.Fprintln(table, "  resource\tas measured\tby the plan\tplanned")
	for _, resource := range sizing.Resources() {
		cell := func(of map[string]float64) string {
			if v, ok := of[resource]; ok {
				return figure(v)
			}
			return "unknown"
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", resource, cell(l.Required), cell(l.Before), cell(l.Planned))
	}
	_ = table.Flush()
	table = heading(&b, "Also measured")
	for _, s := range l.Seen {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", s.Name, figure(s.Value), s.Unit)
	}
	_ = table.Flush()
	fmt.Fprintf(&b, "\nPassive knee: %s", l.Knee.Text)
	if l.Knee.Confidence != "" {
		fmt.Fprintf(&b, " (confidence %s)", l.Knee.Confidence)
	}
	fmt.Fprintf(&b, ".\n%s\n", l.GrowthText)
	writeLiveCosts(&b, l)
	return b.String()
}

func writeLiveCosts(b *strings.Builder, l *sizing.Live) {
	c := l.Costs
	if c == nil {
		fmt.Fprintf(b, "Costs: %s.\n", l.CostsText)
		return
	}
	table := heading(b, "Cost of a million output tokens within the SLO, in "+c.Currency)
	for _, basis := range sizing.Bases() {
		if v, ok := c.PerMillion[basis]; ok {
			fmt.Fprintf(table, "  %s\t%s\n", basis, figure(v))
		}
	}
	fmt.Fprintf(table, "  planned\t%s\n  in the cloud\t%s\n", known(c.Planned), known(c.Cloud))
	_ = table.Flush()
	fmt.Fprintf(b, "  Engines ran no request %.0f %% of the time. %s\n", 100*c.IdleShare, c.Text)
}

// known is a figure that may not be there.
func known(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return figure(*v)
}
