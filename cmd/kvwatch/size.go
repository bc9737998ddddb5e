package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"kvwatch/rules/sizing"
)

// sizeOptions are the command's flags.
type sizeOptions struct {
	file      string
	set       []string
	output    string
	writePlan bool
	// storage, or url, is where what was measured is read from; both empty works the
	// plan out as it is. config names the pools, window is how far back it goes.
	storage, url, config string
	window               model.Duration
}

// sizeCommand works a sizing plan out, step by step.
func sizeCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("size", "Works a sizing plan out step by step: what the load needs, what an assumption that is wrong does, what saves most, what it costs, and what to write into vLLM and LiteLLM.")
	var o sizeOptions
	cmd.Arg("plan", "Plan.").Required().StringVar(&o.file)
	cmd.Flag("set", "What if: a key of the plan and its value, such as model.kv_dtype=fp8 or workload.profiles.developers.people=40. Repeatable.").PlaceHolder("KEY=VALUE").StringsVar(&o.set)
	cmd.Flag("output", "Form of the result: text, json or yaml.").Default("text").EnumVar(&o.output, "text", "json", "yaml")
	cmd.Flag("write-plan", "Print the plan with what --set changes, or with what was measured, and today's date instead of the result.").BoolVar(&o.writePlan)
	cmd.Flag("storage.path", "Hold the plan against this folder of a daemon or a Prometheus, opened read-only.").StringVar(&o.storage)
	cmd.Flag("url", "Hold it against what this running daemon has measured, in its own review of the plan of that name: http://localhost:14600.").StringVar(&o.url)
	cmd.Flag("config.file", "With --storage.path: the configuration that names the pools. Left out, a pool is <job>/<model_name>.").StringVar(&o.config)
	o.window = defaultPlanWindow
	cmd.Flag("window", "With --storage.path: how far back from its last sample.").Default(o.window.String()).SetValue(&o.window)
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		return o.run(ctx, stdout, time.Now())
	}
}

func (o sizeOptions) run(ctx context.Context, stdout io.Writer, now time.Time) error {
	plan, err := loadPlan(o.file)
	if err != nil {
		return err
	}
	for _, change := range o.set {
		key, value, ok := strings.Cut(change, "=")
		if !ok {
			return fmt.Errorf("--set %s: write KEY=VALUE", change)
		}
		if plan.Plan, err = plan.Set(key, value); err != nil {
			return fmt.Errorf("--set %s: %w", change, inWords(err))
		}
	}
	if o.storage != "" || o.url != "" {
		return o.runLive(ctx, stdout, plan, now)
	}
	if o.writePlan {
		plan.Date = now.Format(time.DateOnly)
		return writeYAML(stdout, plan.Plan)
	}
	return o.write(stdout, plan, sizing.Size(plan.Plan, plan.config()))
}

func (o sizeOptions) write(stdout io.Writer, plan *planFile, w *sizing.Worksheet) error {
	if o.output == "text" {
		_, err := io.WriteString(stdout, sizeText(plan.Plan, w))
		return err
	}
	return encode(stdout, o.output, w)
}

// encode writes v as json or yaml.
func encode(stdout io.Writer, as string, v any) error {
	if as == "yaml" {
		return writeYAML(stdout, v)
	}
	enc := json.NewEncoder(stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func writeYAML(w io.Writer, v any) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	return errors.Join(enc.Encode(v), enc.Close())
}

// inWords is an error of the YAML library without the lines of a document that
// nobody has seen, and without Go types.
func inWords(err error) error {
	texts := []string{err.Error()}
	if te, ok := errors.AsType[*yaml.TypeError](err); ok {
		texts = te.Errors
	}
	for i, text := range texts {
		_, texts[i], _ = reword(strings.TrimPrefix(text, "yaml: "))
	}
	return errors.New(strings.Join(texts, "; "))
}
