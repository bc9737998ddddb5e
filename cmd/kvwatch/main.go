// Command kvwatch watches LLM-serving fleets (vLLM replicas behind LiteLLM) for
// capacity: it scrapes them, derives the series that show a prefix-cache
// collapse before the queue does, judges them, and tells people.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kvwatch:", err)
	}
	os.Exit(exitCode(err))
}

// command is one subcommand: it declares its flags on app and returns what to do.
type command func(app *kingpin.Application) (name string, do action)

// action carries a command out; stdout is for its result, logs go to standard error.
type action func(ctx context.Context, stdout io.Writer) error

// run parses args and carries the command out.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	app := kingpin.New("kvwatch", "Watches vLLM replicas and their LiteLLM gateway for capacity, and sees the prefix cache collapse first.")
	app.HelpFlag.Short('h')
	app.UsageWriter(stdout)
	app.Version(version.Print("kvwatch"))
	app.VersionFlag.Short('v')
	ended := false
	app.Terminate(func(int) { ended = true })

	actions := map[string]action{}
	for _, c := range []command{runCommand, demoCommand, recordCommand, checkConfigCommand, checkPlanCommand, checkReceiverCommand, acceptCommand, alertsCommand, silenceAddCommand, silenceListCommand, silenceExpireCommand, inspectCommand, backtestCommand, sizeCommand, kneeCommand, reviewCommand, listCommand} {
		name, do := c(app)
		actions[name] = do
	}
	name, err := app.Parse(args)
	if ended {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w; see kvwatch --help", err)
	}
	return actions[name](ctx, stdout)
}

// invalidError marks what `check` found invalid: exit code 2, not 1.
type invalidError struct{ error }

func (e invalidError) Unwrap() error { return e.error }

// exitCode is 0 when done, 2 when a check found something invalid or a knee a
// regression, else 1.
func exitCode(err error) int {
	var invalid invalidError
	var worse regressionError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &invalid), errors.As(err, &worse):
		return 2
	default:
		return 1
	}
}
