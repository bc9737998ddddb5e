package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"kvwatch/rules/sizing"
	"kvwatch/rules/sizing/guidellm"
)

// kneeOptions are the command's flags.
type kneeOptions struct {
	reports   []string
	slo       []string
	use       string
	plan      string
	baseline  string
	threshold string
	demandTPS float64
	demandRPS float64
	price     float64
	currency  string
	replicas  float64
	server    string
	power     string
	output    string
	// progress is a terminal or nothing.
	progress io.Writer
}

// kneeCommand finds the knee of load tests.
func kneeCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("knee", "Finds the knee in reports of GuideLLM: the greatest load at which the SLO holds, its goodput, and what that means in replicas and money.")
	var o kneeOptions
	cmd.Arg("report", "Report of GuideLLM (benchmarks.json, of any version). Several are compared.").Required().StringsVar(&o.reports)
	cmd.Flag("slo", "What has to hold: ttft, itl, tpot or e2e with _p50, _p90, _p95 or _p99 and a time, as in ttft_p95=500ms; attainment=95% for the report's own objectives. Repeatable.").PlaceHolder("NAME=LIMIT").StringsVar(&o.slo)
	cmd.Flag("use", "SLO by use: chat (ttft_p99=500ms, itl_p95=50ms), copilot (ttft_p99=300ms), batch (none), agent (give the time of a step with --slo e2e_p95=). --slo adds to it.").EnumVar(&o.use, useNames()...)
	cmd.Flag("plan", "Sizing plan whose SLO has to hold, and whose demand and prices count.").StringVar(&o.plan)
	cmd.Flag("baseline", "Report, or a saved result of knee --output=json, that the others are held against: exit code 2 where the goodput or the load at the knee fell by more than --threshold.").StringVar(&o.baseline)
	cmd.Flag("threshold", "How much may be lost against the baseline.").Default("10%").StringVar(&o.threshold)
	cmd.Flag("demand.tokens", "Output tokens per second to be served at the peak.").PlaceHolder("TPS").Float64Var(&o.demandTPS)
	cmd.Flag("demand.requests", "Requests per second to be served at the peak.").PlaceHolder("RPS").Float64Var(&o.demandRPS)
	cmd.Flag("replica-price", "What an hour of one replica costs.").PlaceHolder("PRICE").Float64Var(&o.price)
	cmd.Flag("currency", "Currency of the price.").Default("EUR").StringVar(&o.currency)
	cmd.Flag("tested-replicas", "How many replicas the tested target had.").Default("1").Float64Var(&o.replicas)
	cmd.Flag("prometheus.url", "Server that scraped DCGM during the test: power over the same windows, and joules per token.").StringVar(&o.server)
	cmd.Flag("power.selector", `Which GPUs were tested, as in {Hostname="gpu-1"}. Default: all that the server knows.`).StringVar(&o.power)
	cmd.Flag("output", "Form of the result: text or json.").Default("text").EnumVar(&o.output, "text", "json")
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		o.progress = io.Discard
		if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			o.progress = os.Stderr
		}
		return o.run(ctx, stdout)
	}
}

func useNames() []string {
	var names []string
	for _, u := range sizing.Uses() {
		names = append(names, string(u))
	}
	return names
}

func (o kneeOptions) run(ctx context.Context, stdout io.Writer) error {
	k, err := o.knees()
	if err != nil {
		return err
	}
	var failed []error
	if o.baseline != "" {
		if k.base, err = k.readBaseline(ctx, o.baseline); err != nil {
			return fmt.Errorf("--baseline: %w", err)
		}
	}
	results := []*kneeReport{}
	for _, file := range o.reports {
		result, err := k.report(ctx, file)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		results = append(results, result)
	}
	if len(results) == 0 {
		return errors.Join(failed...)
	}
	if err := o.write(stdout, newKneeComparison(results, failed)); err != nil {
		return err
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	return regressions(results)
}

// knees is what every report is held against.
type knees struct {
	kneeOptions

	objectives sizing.Objectives
	demand     kneeDemand
	mayLose    float64
	base       *kneeReport
	power      *powerSource
}

// knees reads the flags and the plan.
func (o kneeOptions) knees() (*knees, error) {
	k := &knees{kneeOptions: o}
	var err error
	if k.mayLose, err = sizing.ParseShare(o.threshold); err != nil {
		return nil, fmt.Errorf("--threshold: %w", err)
	}
	for flag, v := range map[string]float64{"--demand.tokens": o.demandTPS, "--demand.requests": o.demandRPS, "--replica-price": o.price} {
		if v < 0 {
			return nil, fmt.Errorf("%s is %g: give more than 0", flag, v)
		}
	}
	if !(o.replicas >= 1) {
		return nil, fmt.Errorf("--tested-replicas is %g: give at least 1", o.replicas)
	}
	var plan *planFile
	if o.plan != "" {
		if plan, err = loadPlan(o.plan); err != nil {
			return nil, err
		}
	}
	if k.objectives, err = o.objectivesOf(plan); err != nil {
		return nil, err
	}
	k.demand = o.demandOf(plan)
	if o.server != "" {
		if k.power, err = newPowerSource(o.server, o.power); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// objectivesOf are those of the use, the plan and --slo, the later over the earlier.
func (o kneeOptions) objectivesOf(plan *planFile) (sizing.Objectives, error) {
	all := sizing.Use(o.use).Objectives()
	if plan != nil {
		all = all.With(plan.SLO.Objectives()...)
	}
	for _, text := range o.slo {
		one, err := sizing.ParseObjective(text)
		if err != nil {
			return nil, fmt.Errorf("--slo %s: %w", text, err)
		}
		all = all.With(one)
	}
	switch {
	case len(all) > 0 || o.use == string(sizing.Batch):
		return all, nil
	case o.use == string(sizing.Agent):
		return nil, errors.New("--use=agent: say how long a step may take, as in --slo e2e_p95=8s")
	case plan != nil:
		return nil, fmt.Errorf("%s: slo has neither ttft_p95_ms nor itl_p95_ms, which a load test is held to; add --slo or --use", plan.file)
	default:
		return nil, errors.New("a knee is that of an SLO: give --slo ttft_p95=500ms, --use=chat, or --plan")
	}
}

// report reads one report and finds its knee.
func (k *knees) report(ctx context.Context, file string) (*kneeReport, error) {
	read, err := k.read(ctx, file)
	if err != nil {
		return nil, err
	}
	judged, found := sizing.FindKnee(read.Levels, k.objectives)
	result := newKneeReport(file, read, k.objectives, judged, found)
	if k.power != nil {
		result.addPower(ctx, k.power)
	}
	result.size(k.demand, k.replicas)
	result.warnOfKnee(read, k.demand)
	if k.base != nil {
		result.compare(k.base, k.mayLose)
	}
	return result, nil
}

// read reads a report as a stream, with progress on a terminal.
func (k *knees) read(ctx context.Context, file string) (*guidellm.Report, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such file", file)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder: name the benchmarks.json in it", file)
	}
	counted := &countedReader{ctx: ctx, from: f, size: info.Size(), to: k.progress, name: file}
	defer counted.end()
	report, err := guidellm.Read(counted)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return report, nil
}

func (o kneeOptions) write(stdout io.Writer, c *kneeComparison) error {
	if o.output != "json" {
		_, err := io.WriteString(stdout, kneeText(c))
		return err
	}
	encoder := json.NewEncoder(stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if len(o.reports) == 1 {
		return encoder.Encode(c.Reports[0])
	}
	return encoder.Encode(c)
}

// countedReader shows how far a file was read, and stops when it is told to.
type countedReader struct {
	ctx        context.Context
	from       io.Reader
	size, read int64
	to         io.Writer
	name       string
	shown      time.Time
}

// Read implements io.Reader.
func (c *countedReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.from.Read(p)
	c.read += int64(n)
	if now := time.Now(); c.to != io.Discard && c.size > 0 && now.Sub(c.shown) >= barEvery {
		if c.shown = now; c.read < c.size {
			full := int(barWidth * c.read / c.size)
			fmt.Fprintf(c.to, "\r\033[Kreading [%s%s] %3d%% %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*c.read/c.size, c.name)
		}
	}
	return n, err
}

func (c *countedReader) end() {
	if !c.shown.IsZero() {
		fmt.Fprint(c.to, "\r\033[K")
	}
}

// regressionError marks a knee that is worse than its baseline: exit code 2.
type regressionError struct{ error }

func (e regressionError) Unwrap() error { return e.error }

// regressions is an error where a report is worse than the baseline.
func regressions(results []*kneeReport) error {
	var worse []string
	for _, r := range results {
		if r.Baseline != nil && r.Baseline.Regression {
			worse = append(worse, r.File+": "+strings.Join(r.Baseline.Why, ", "))
		}
	}
	if len(worse) == 0 {
		return nil
	}
	slices.Sort(worse)
	return regressionError{errors.New("regression: " + strings.Join(worse, "; "))}
}
