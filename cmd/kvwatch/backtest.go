package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"

	"kvwatch/collector"
	"kvwatch/rules"
)

const (
	// leadIn is for how long rules learn before --from, where history goes so far back.
	leadIn = 24 * time.Hour
	// longRange is a range from which rules are evaluated once per scrape only.
	longRange = 48 * time.Hour
	// callsInterval is how often a log of calls is read, as the daemon does.
	callsInterval = 30 * time.Second
	// callsName is the name of the log in what the rules tell.
	callsName = "spend_logs"
)

// backtestOutput is the JSON form of `kvwatch backtest`; backtest.schema.json is
// generated from it.
type backtestOutput struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Samples is how many samples the rules were given.
	Samples int64 `json:"samples"`
	// Alerts are those of the rules with what --set changed.
	Alerts []backtestAlert `json:"alerts"`
	// WithoutSet is what the configured rules alone would have told; only with --set.
	WithoutSet *backtestComparison `json:"without_set,omitempty"`

	// queues are the sustained queues by pool.
	queues map[string][]timeRange
}

// backtestComparison is what a change is held against.
type backtestComparison struct {
	// Set is what was changed, as it was given.
	Set    []string        `json:"set"`
	Alerts []backtestAlert `json:"alerts"`
}

// backtestAlert is one alert that would have been told.
type backtestAlert struct {
	Name     string            `json:"alertname"`
	Severity string            `json:"severity"`
	Labels   map[string]string `json:"labels"`
	// ActiveAt is when the condition began to hold, FiredAt when the alert was
	// told first, ResolvedAt when it was over; null where it was not at the end.
	ActiveAt   time.Time  `json:"active_at"`
	FiredAt    time.Time  `json:"fired_at"`
	ResolvedAt *time.Time `json:"resolved_at" jsonschema:"oneof_type=string;null"`
	// Cause is null where the alert tells none.
	Cause *string `json:"cause" jsonschema:"oneof_type=string;null"`
	// LeadSeconds is the time from FiredAt to the next sustained queue in the
	// same pool; 0 where it was there already, null where none came.
	LeadSeconds *float64 `json:"lead_seconds" jsonschema:"oneof_type=number;null"`
	// Evidence is what the alert said when it fired.
	Evidence rules.Evidence `json:"evidence"`

	summary string
}

// backtestOptions are the command's flags.
type backtestOptions struct {
	storage, recording, server string
	configFile                 string
	sets                       []string
	from, to                   string
	spendLogs                  string
	interval                   time.Duration
	output                     string
	// now is the clock's time, progress a terminal or nothing, and notes is
	// where a person is told what stands in no JSON.
	now             time.Time
	progress, notes io.Writer
}

// backtestCommand runs the rules over recorded history.
func backtestCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("backtest", "Runs the configured rules over recorded history: every alert that would have fired, when, why, and how long before the queue.")
	var o backtestOptions
	o.addPeriodFlags(cmd)
	cmd.Flag("config.file", "Configuration file, of which global, pools, rules and prometheus_sources count. Default: none, all rules as they are.").StringVar(&o.configFile)
	cmd.Flag("set", "Change of one setting, as in PrefixCacheCollapse.resolve_prompts=64; the rules run without it too, and both are compared. Repeatable.").StringsVar(&o.sets)
	cmd.Flag("evaluation-interval", "Time between two evaluations. Default: the configuration's, and for more than two days at least the scrape interval.").DurationVar(&o.interval)
	cmd.Flag("output", "Form of the result: text, json or html.").Default("text").EnumVar(&o.output, "text", "json", "html")
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		o.begin()
		return o.run(ctx, stdout)
	}
}

// addPeriodFlags adds the flags that say which recorded period is read.
func (o *backtestOptions) addPeriodFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("storage.path", "Folder of a time series database, kvwatch's own or that of a Prometheus which scraped the engines; it is only read.").StringVar(&o.storage)
	cmd.Flag("recording", "Directory or archive of a recording.").StringVar(&o.recording)
	cmd.Flag("prometheus.url", "Address of a Prometheus-compatible server. Where the configuration has it in prometheus_sources, with that entry's credentials and settings.").StringVar(&o.server)
	cmd.Flag("from", "Where to begin: RFC 3339, Unix time, or how long ago (30d). Default: all there is; of a server one day.").StringVar(&o.from)
	cmd.Flag("to", "Where to end, in the same forms.").StringVar(&o.to)
	cmd.Flag("spend-logs", "LiteLLM's table of calls of the same time, exported as CSV with its header (.csv, .csv.zst, .csv.gz), for what rests on sessions.").StringVar(&o.spendLogs)
}

// begin sets the time, and where progress and notes go.
func (o *backtestOptions) begin() {
	o.now, o.progress, o.notes = time.Now(), io.Discard, os.Stderr
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		o.progress = os.Stderr
	}
}

func (o backtestOptions) run(ctx context.Context, stdout io.Writer) (err error) {
	if o.interval < 0 || o.interval > 0 && o.interval < 100*time.Millisecond {
		return fmt.Errorf("--evaluation-interval is %s: give at least 100ms", o.interval)
	}
	config, err := backtestConfig(o.configFile)
	if err != nil {
		return err
	}
	changed, err := applySets(config.Rules, o.sets)
	if err != nil {
		return err
	}
	if err := rules.Validate(config.Pools, changed); err != nil {
		return fmt.Errorf("--set: %w", err)
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
	test, err := o.newBacktest(config, changed, span)
	if err != nil {
		return err
	}
	if err := test.run(ctx, past); err != nil {
		return err
	}
	return o.write(stdout, test.report(), test.notes())
}

// backtestConfig reads what counts of a configuration: receivers and targets
// may be missing from it.
func backtestConfig(file string) (*Config, error) {
	c := &Config{Global: collector.DefaultGlobalConfig()}
	if file == "" {
		return c, nil
	}
	src, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such file; leave --config.file out for the rules as they are", file)
	}
	if err != nil {
		return nil, err
	}
	doc, err := decodeYAML(file, src, c)
	if err != nil {
		return nil, err
	}
	c.setDirectory(file)
	return c, locate(file, doc, errors.Join(rules.Validate(c.Pools, c.Rules), collector.CheckPrometheusConfig(c.PrometheusSources)))
}

// open opens the one history that was named.
func (o backtestOptions) open(c *Config) (pastSource, error) {
	var named []string
	for flag, value := range map[string]string{"--storage.path": o.storage, "--recording": o.recording, "--prometheus.url": o.server} {
		if value != "" {
			named = append(named, flag)
		}
	}
	slices.Sort(named)
	switch {
	case len(named) == 0:
		return nil, errors.New("say what to read: --storage.path, --recording or --prometheus.url")
	case len(named) > 1:
		return nil, fmt.Errorf("%s are given: one history is read at a time", strings.Join(named, " and "))
	case o.storage != "":
		return openPastStorage(o.storage, c)
	case o.recording != "":
		return openPastRecording(o.recording, c)
	default:
		return openPastServer(o.server, c, o.now)
	}
}

// timeRange is from (inclusive) to to (exclusive).
type timeRange struct{ from, to time.Time }

// span is the range that is asked for, within what there is where a bound is
// left out.
func (o backtestOptions) span(ctx context.Context, past pastSource) (timeRange, error) {
	from, err := parsePast("--from", o.from, o.now)
	if err != nil {
		return timeRange{}, err
	}
	to, err := parsePast("--to", o.to, o.now)
	if err != nil {
		return timeRange{}, err
	}
	asked := timeRange{from, to}
	if from.IsZero() || to.IsZero() {
		there, err := past.span(ctx)
		if err != nil {
			return asked, err
		}
		if from.IsZero() {
			asked.from = there.from
		}
		if to.IsZero() {
			asked.to = there.to
		}
	}
	if !asked.from.Before(asked.to) {
		return asked, fmt.Errorf("--from %s is not before --to %s: nothing is between the two", utc(asked.from), utc(asked.to))
	}
	return asked, nil
}

// parsePast reads a moment, or how long ago it was; zero is none.
func parsePast(flag, text string, now time.Time) (time.Time, error) {
	if ago, err := model.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-time.Duration(ago)), nil
	}
	at, err := parseMoment(text)
	if err != nil {
		return at, fmt.Errorf("%s %q is no time: write 2026-11-29T20:24:11Z, Unix seconds or milliseconds, or how long ago, as in 30d", flag, text)
	}
	return at, nil
}

// newBacktest makes the virtual clock with the rules that run by it.
func (o backtestOptions) newBacktest(c *Config, changed map[string]rules.Override, span timeRange) (*backtest, error) {
	scrape := time.Duration(c.Global.ScrapeInterval)
	step := cmp.Or(o.interval, time.Duration(c.Global.EvaluationInterval))
	if o.interval == 0 && span.to.Sub(span.from) > longRange {
		step = max(step, scrape)
	}
	t := &backtest{span: span, step: step, sets: o.sets, bar: newBar(o.progress, span), queues: newQueueWatch()}
	t.asked.from, t.asked.to = o.from != "", o.to != ""
	variants := []map[string]rules.Override{changed}
	if len(o.sets) > 0 {
		variants = append(variants, c.Rules)
	}
	for _, overrides := range variants {
		v := &variant{seen: map[string]int{}}
		engine, err := rules.New(rules.Options{Pools: c.Pools, Rules: overrides, ScrapeInterval: scrape, Dispatch: v.keep, AlertsOnly: true})
		if err != nil {
			return nil, err
		}
		v.engine = engine
		t.variants = append(t.variants, v)
	}
	if o.spendLogs != "" {
		calls, err := collector.ReadSpendLogsFile(o.spendLogs, span.from.Add(-leadIn), span.to)
		if err != nil {
			return nil, err
		}
		t.calls = calls
	}
	return t, nil
}

// applySets gives the overrides with the changes in them; what was given stays
// as it is.
func applySets(given map[string]rules.Override, sets []string) (map[string]rules.Override, error) {
	all := maps.Clone(given)
	if all == nil {
		all = map[string]rules.Override{}
	}
	for _, set := range sets {
		target, value, ok := strings.Cut(set, "=")
		rule, key, dotted := strings.Cut(target, ".")
		if !ok || !dotted || rule == "" || key == "" {
			return nil, fmt.Errorf("--set %q: write Rule.key=value, as in PrefixCacheCollapse.resolve_prompts=64", set)
		}
		changed, err := all[rule].With(key, value)
		if err != nil {
			return nil, fmt.Errorf("--set %s: %w", set, err)
		}
		all[rule] = changed
	}
	return all, nil
}

// write prints the result in the form that was asked for. What a person should
// know beside it goes into the text, or where no machine reads it.
func (o backtestOptions) write(stdout io.Writer, out backtestOutput, notes []string) error {
	switch o.output {
	case "json":
		for _, n := range notes {
			fmt.Fprintln(o.notes, "kvwatch: note:", n)
		}
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(out)
	case "html":
		return writeBacktestHTML(stdout, out, notes)
	default:
		_, err := io.WriteString(stdout, backtestText(out, notes))
		return err
	}
}

// utc writes a time as results have it.
func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }
