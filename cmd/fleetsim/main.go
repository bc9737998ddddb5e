// Command fleetsim serves metrics pages to try kvwatch on: those of a simulated
// fleet of vLLM engines behind a LiteLLM gateway, or those of a recording, in
// its own time order. Its engines answer chat completions as well, so that a
// real gateway or load generator can be pointed at them.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kingpin/v2"

	"kvwatch/cmd/fleetsim/fleet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleetsim:", err)
		os.Exit(1)
	}
}

// action is what a command does.
type action func(ctx context.Context, stdout io.Writer) error

// run does what the arguments ask for; without a command that is serving.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	app := kingpin.New("fleetsim", "Serves the metrics pages of a simulated LLM fleet, or of a recording; writes its past; scores detectors on it.")
	actions := map[string]action{}
	for _, command := range []func(*kingpin.Application) (string, action){serveCommand, scoreCommand, driftCommand, historyCommand, recordCommand} {
		name, do := command(app)
		actions[name] = do
	}
	name, err := app.Parse(args)
	if err != nil {
		return err
	}
	return actions[name](ctx, stdout)
}

// serveCommand serves until it is told to end or the recording is over.
func serveCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("serve", "Serves metrics pages. The default.").Default()
	listen := cmd.Flag("listen", "Address of the first engine; the others and the gateway take the ports after it. Port 0 takes free ones.").
		Default("127.0.0.1:9100").TCP()
	speed := cmd.Flag("speed", "Simulated, or recorded, seconds a second.").Default("1").Float64()

	var config fleet.Config
	cmd.Flag("engines", "Number of engines; 4, or that of the scenario, when left out.").IntVar(&config.Engines)
	cmd.Flag("profile", "Hardware and workload as measured: "+strings.Join(profileNames(), ", ")+"; the demo's, or that of the scenario, when left out.").
		EnumVar(&config.Profile, profileNames()...)
	cmd.Flag("load", "Factor on the usual rate of sessions of a profile; that of the scenario when left out.").Float64Var(&config.Load)
	cmd.Flag("gateway-workers", "Number of the gateway's worker processes.").Default("2").IntVar(&config.GatewayWorkers)
	cmd.Flag("sessions", "Sessions under way at once, over all engines; a large fleet wants a few for each. 90, or the rate of the profile, when left out.").
		IntVar(&config.Workload.Sessions)
	cmd.Flag("users", "Number of people, each with a key of its own.").Default("8").IntVar(&config.Users)
	cmd.Flag("quiet", "Without sessions of its own: the engines wait for requests from outside, at /v1/chat/completions.").BoolVar(&config.Quiet)
	cmd.Flag("seed", "Equal seeds give equal runs.").Default("1").Uint64Var(&config.Seed)
	cmd.Flag("scenario", "What happens: "+strings.Join(scenarioNames(), ", ")+".").
		Default("demo").EnumVar(&config.Scenario, scenarioNames()...)

	var replay replayOptions
	cmd.Flag("recording", "Serve this recording (a directory, .tar.zst or .tar.gz) instead of a simulation.").StringVar(&replay.path)
	cmd.Flag("from", "Where to begin in the recording: RFC 3339 or Unix seconds; its beginning when left out.").StringVar(&replay.from)
	cmd.Flag("to", "Where to end in the recording; its end when left out.").StringVar(&replay.to)
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		if *speed <= 0 {
			return fmt.Errorf("--speed=%g: must be positive", *speed)
		}
		if replay.path != "" {
			return serveRecording(ctx, stdout, *listen, *speed, replay)
		}
		return serveFleet(ctx, stdout, *listen, *speed, config)
	}
}

func profileNames() []string {
	var names []string
	for _, p := range fleet.Profiles() {
		names = append(names, p.Name)
	}
	return names
}

func scenarioNames() []string {
	var names []string
	for _, s := range fleet.Scenarios() {
		names = append(names, s.Name)
	}
	return names
}
