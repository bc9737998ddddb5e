package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"kvwatch/cmd/fleetsim/score"
)

// scoreOptions are the flags of `fleetsim score`.
type scoreOptions struct {
	set       string
	scenarios []string
	profile   string
	seeds     int
	firstSeed uint64
	parallel  int
	keep      string
	output    string
	// progress is a terminal, or nothing.
	progress io.Writer
}

// scoreCommand runs the detectors over the corpus.
func scoreCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("score", "Runs the detectors over labelled runs of the simulated fleet, beside the rules that people write today, and says how well they do.")
	var o scoreOptions
	cmd.Flag("set", "Which corpus: full, the small one that every change is held against, or that of what rests on logs of calls.").Default("full").EnumVar(&o.set, "full", "small", "logs")
	cmd.Flag("scenario", "Only this scenario of the corpus. Repeatable.").EnumsVar(&o.scenarios, scenarioNames()...)
	cmd.Flag("profile", "Only runs with this hardware.").EnumVar(&o.profile, profileNames()...)
	cmd.Flag("seeds", "Runs of each scenario.").Default("2").IntVar(&o.seeds)
	cmd.Flag("first-seed", fmt.Sprintf("The first seed. Those from 1 on are for tuning, those from %d on for the table.", score.TableSeed)).Default("1").Uint64Var(&o.firstSeed)
	cmd.Flag("parallel", "Runs under way at once. What comes out does not depend on it.").Default(fmt.Sprint(runtime.GOMAXPROCS(0))).IntVar(&o.parallel)
	cmd.Flag("keep", "Folder in which what each run came to is kept, and not run again: a score can be interrupted. Empty it after a change of the rules or the simulator.").StringVar(&o.keep)
	cmd.Flag("output", "Form of the result: markdown or json.").Default("markdown").EnumVar(&o.output, "markdown", "json")
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		o.progress = io.Discard
		if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			o.progress = os.Stderr
		}
		return o.run(ctx, stdout)
	}
}

func (o scoreOptions) run(ctx context.Context, stdout io.Writer) error {
	if o.seeds < 1 || o.parallel < 1 {
		return fmt.Errorf("--seeds=%d --parallel=%d: give at least 1 of each", o.seeds, o.parallel)
	}
	entries := map[string]func() []score.Entry{"full": score.Full, "small": score.Small, "logs": score.Logs}[o.set]()
	entries, err := score.Choose(entries, o.scenarios, o.profile)
	if err != nil {
		return err
	}
	options := score.Options{Entries: entries, Seeds: score.Seeds(o.firstSeed, o.seeds), Parallel: o.parallel, Keep: o.keep, Logs: o.set == "logs"}
	bar := &scoreBar{to: o.progress, began: time.Now()}
	bar.whole, bar.runs = options.Simulated()
	options.Progress = bar.add
	result, err := score.Score(ctx, options)
	bar.end()
	if err != nil {
		return err
	}
	if o.output == "json" {
		return result.WriteJSON(stdout)
	}
	markdown := result.Markdown
	if options.Logs {
		markdown = result.LogsMarkdown
	}
	_, err = io.WriteString(stdout, markdown())
	return err
}

// scoreBar shows on a terminal how far a score came.
type scoreBar struct {
	to    io.Writer
	began time.Time
	whole time.Duration
	runs  int

	mu        sync.Mutex
	simulated time.Duration
	done      int
	shown     time.Time
}

// barEvery is how often the bar is drawn.
const barEvery = 500 * time.Millisecond

// add takes simulated time and runs that are over.
func (b *scoreBar) add(simulated time.Duration, done int) {
	if b.to == io.Discard {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.simulated += simulated
	b.done += done
	now := time.Now()
	if now.Sub(b.shown) < barEvery {
		return
	}
	b.shown = now
	fmt.Fprintf(b.to, "\r\033[K%d of %d runs, %.1f of %.0f simulated days (%.0f %%), %s",
		b.done, b.runs, b.simulated.Hours()/24, b.whole.Hours()/24, 100*b.simulated.Seconds()/b.whole.Seconds(),
		now.Sub(b.began).Round(time.Second))
}

// end clears the line.
func (b *scoreBar) end() {
	if !b.shown.IsZero() {
		fmt.Fprint(b.to, "\r\033[K")
	}
}
