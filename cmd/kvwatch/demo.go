package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/promslog"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/rules"
)

const (
	// demoTimeScale makes the collapse detector learn in two minutes what takes
	// six hours live.
	demoTimeScale = 0.005
	// demoPlainScale is for the rules that learn nothing: they hold minutes, and
	// would flap if they held tenths of a second.
	demoPlainScale = 0.1
)

// demoCommand runs the daemon on a simulated fleet: nothing to set up, nothing kept.
func demoCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("demo", "Runs the daemon on a simulated fleet with an incident in the first minutes; nothing to set up, nothing is kept.")
	address := cmd.Flag("web.listen-address", "Address of the page.").Default("127.0.0.1:14600").String()
	seed := cmd.Flag("seed", "Seed of the simulated fleet; equal seeds give equal runs.").Default("1").Uint64()
	logConfig := &promslog.Config{Writer: os.Stderr}
	addLogFlags(cmd, logConfig)
	cmd.GetFlag("log.level").Default("warn")

	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) (err error) {
		storage, err := os.MkdirTemp("", "kvwatch-demo-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(storage)) }()
		listeners, err := listen(ctx, []string{*address})
		if err != nil {
			return fmt.Errorf("%w (another port: --web.listen-address=127.0.0.1:0)", err)
		}
		d := demo{seed: *seed, storage: storage, listeners: listeners, stdout: stdout, log: promslog.New(logConfig)}
		return d.run(ctx)
	}
}

// demo is one run of the demo.
type demo struct {
	seed      uint64
	storage   string
	listeners []net.Listener
	stdout    io.Writer
	log       *slog.Logger
}

func (d demo) run(ctx context.Context) error {
	// A terminal that is closed ends the demo as Ctrl-C does.
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer cancel()
	fmt.Fprintln(d.stdout, "kvwatch demo: warming up a simulated fleet (4 vLLM engines, one LiteLLM gateway with 2 workers) ...")
	sim, err := fleet.New(fleet.DemoConfig(d.seed, time.Now()))
	if err != nil {
		return err
	}
	engines, gateway, err := sim.Serve(ctx)
	if err != nil {
		return err
	}
	config, err := parseConfig("demo", demoConfig(engines, gateway))
	if err != nil {
		return err
	}
	url := "http://" + d.listeners[0].Addr().String()
	fmt.Fprintf(d.stdout, demoIntro, url, 1/demoTimeScale)

	simulation := make(chan error, 1)
	go func() { simulation <- sim.Run(ctx, 1) }()
	daemon := newDaemon(daemonOptions{
		Config: config, StoragePath: d.storage, RetentionTime: 24 * time.Hour, ExternalURL: url, Demo: true,
		TimeScaleNote: fmt.Sprintf("%.0f times faster", 1/demoTimeScale), Stdout: d.stdout, Logger: d.log,
	})
	err = daemon.run(ctx, d.listeners, webFlags(""))
	cancel()
	return errors.Join(err, named("simulated fleet", <-simulation))
}

// demoIntro says what is going to happen; nothing of it is an alert's text.
const demoIntro = `
  The page:   %s
  The rules run %.0f times faster than on a live fleet: what takes six hours to learn takes two minutes.

  0:00  the fleet is healthy; kvwatch learns what is usual
  2:30  the gateway loses session affinity: the prefix caches stop hitting
  3:45  it is repaired; alerts resolve within the next minutes

  Alerts are printed below. Ctrl-C ends the demo and removes what it wrote.

`

// demoConfig is the configuration that a user would write for this fleet, with
// all rules made faster.
func demoConfig(engines []string, gateway string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `
global: {scrape_interval: 1s, scrape_timeout: 900ms}
scrape_configs:
  - job_name: vllm
    source: vllm
    static_configs: [{targets: [%s]}]
  - job_name: gateway
    source: litellm
    static_configs: [{targets: [%q]}]
    gateway: {workers: 2, max_in_flight_per_worker: 100}
pools: [{name: agents, jobs: [vllm]}]
route:
  receiver: terminal
  group_by: [alertname, pool, job, instance]
  group_wait: 2s
  group_interval: 15s
  routes:
    - {matchers: ['alertname=~"PrefixCache.+"'], group_by: [pool]}
receivers: [{name: terminal, terminal_configs: [{}]}]
rules:
`, quoted(engines), gateway)
	for _, a := range rules.Registered().Alerts {
		if assumesPauses(a.Name) {
			fmt.Fprintf(&b, "  %s: {disabled: true}\n", a.Name)
			continue
		}
		scale := demoPlainScale
		if learns(a.Name) {
			scale = demoTimeScale
		}
		fmt.Fprintf(&b, "  %s: {time_scale: %g}\n", a.Name, scale)
	}
	return []byte(b.String())
}

// learns says whether an alert holds a pool against what D1 learned of its cache
// in hours: in the demo these are seconds.
func learns(alert string) bool {
	switch alert {
	case "PrefixCacheCollapse", "PrefixCacheMissRising", "PrefixCacheDrift":
		return true
	default:
		return false
	}
}

// assumesPauses says whether an alert predicts from how long people usually pause
// between turns, minutes: the demo's sessions pause for seconds, so that it
// would be wrong of them.
func assumesPauses(alert string) bool {
	return alert == "TurnBoundaryCollapse" || alert == "LoadHeadroomLow"
}

func quoted(all []string) string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(out, ", ")
}
