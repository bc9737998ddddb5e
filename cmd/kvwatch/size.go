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
	"go.yaml.in/yaml/v3"

	"kvwatch/rules/sizing"
)

// sizeOptions are the command's flags.
type sizeOptions struct {
	file      string
	set       []string
	output    string
	writePlan bool
}

// sizeCommand works a sizing plan out, step by step.
func sizeCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("size", "Works a sizing plan out step by step: what the load needs, what an assumption that is wrong does, what saves most, what it costs, and what to write into vLLM and LiteLLM.")
	var o sizeOptions
	cmd.Arg("plan", "Plan.").Required().StringVar(&o.file)
	cmd.Flag("set", "What if: a key of the plan and its value, such as model.kv_dtype=fp8 or workload.profiles.developers.people=40. Repeatable.").PlaceHolder("KEY=VALUE").StringsVar(&o.set)
	cmd.Flag("output", "Form of the result: text, json or yaml.").Default("text").EnumVar(&o.output, "text", "json", "yaml")
	cmd.Flag("write-plan", "Print the plan with what --set changes and today's date instead of the result.").BoolVar(&o.writePlan)
	return cmd.FullCommand(), func(_ context.Context, stdout io.Writer) error {
		return o.run(stdout, time.Now())
	}
}

func (o sizeOptions) run(stdout io.Writer, now time.Time) error {
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
	if o.writePlan {
		plan.Date = now.Format(time.DateOnly)
		return writeYAML(stdout, plan.Plan)
	}
	return o.write(stdout, plan, sizing.Size(plan.Plan, plan.config()))
}

func (o sizeOptions) write(stdout io.Writer, plan *planFile, w *sizing.Worksheet) error {
	switch o.output {
	case "json":
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(w)
	case "yaml":
		return writeYAML(stdout, w)
	default:
		_, err := io.WriteString(stdout, sizeText(plan.Plan, w))
		return err
	}
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
