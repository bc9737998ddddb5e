package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"golang.org/x/sync/errgroup"

	"kvwatch/collector"
	"kvwatch/rules"
)

// inspectOutput is the JSON form of `kvwatch inspect`; inspect.schema.json is
// generated from it.
type inspectOutput struct {
	Targets []rules.TargetReport `json:"targets"`
}

// inspectOptions are the command's flags.
type inspectOptions struct {
	inputs      []string
	watch       time.Duration
	at          string
	output      string
	writeConfig bool
	http        httpOptions
	maxNumSeqs  int
	maxInFlight int
}

// inspectCommand gives one verdict on what a URL or a file shows.
func inspectCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("inspect", "Says in under 10 s what a vLLM or LiteLLM server, a saved page or a recording is, what can be read of it, and what binds it.")
	var o inspectOptions
	cmd.Arg("input", "URL of a server or its metrics page; file of a saved page (two of one target, in order, are a watch); directory or archive of a recording.").Required().StringsVar(&o.inputs)
	cmd.Flag("for", "How long to watch; longer is surer.").Default("8s").DurationVar(&o.watch)
	cmd.Flag("at", "Moment at which the watch begins, in a recording or among saved pages: RFC 3339 or Unix time. Default: the watch ends with the last page.").StringVar(&o.at)
	cmd.Flag("output", "Form of the result: text or json.").Default("text").EnumVar(&o.output, "text", "json")
	cmd.Flag("write-config", "Print a configuration for what was found instead of the result.").BoolVar(&o.writeConfig)
	o.http.flags(cmd, "File with the key, which is sent to a server that asks for one (LiteLLM does).")
	cmd.Flag("max-num-seqs", "The engines' --max-num-seqs, which no page tells.").IntVar(&o.maxNumSeqs)
	cmd.Flag("max-in-flight", "Requests that the gateway may hold over all its workers, which no page tells.").IntVar(&o.maxInFlight)
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		return o.run(ctx, stdout, newProgress(os.Stderr))
	}
}

// inspected is what was found of one target. page is where a live one has its
// metrics; nil for a saved one.
type inspected struct {
	report rules.TargetReport
	page   *livePage
}

// rules are the options of an inspection.
func (o inspectOptions) rules(interval time.Duration) rules.InspectOptions {
	return rules.InspectOptions{Interval: interval, MaxNumSeqs: o.maxNumSeqs, MaxInFlight: o.maxInFlight}
}

// subject is what one or several inputs are; inspect gives its targets.
type subject interface {
	inspect(ctx context.Context) ([]inspected, error)
	// input is how the user named it, without credentials.
	input() string
}

func (o inspectOptions) run(ctx context.Context, stdout io.Writer, progress *progress) error {
	if o.watch <= 0 {
		return fmt.Errorf("--for is %s: give a time to watch, such as 8s", o.watch)
	}
	if _, err := o.http.client(true); err != nil {
		return err
	}
	subjects, errs := o.subjects()
	results := make([][]inspected, len(subjects))
	failures := make([]error, len(subjects))
	var group errgroup.Group
	if slices.ContainsFunc(subjects, func(s subject) bool { _, ok := s.(live); return ok }) {
		progress.start(o.watch)
	}
	for i, s := range subjects {
		group.Go(func() error {
			results[i], failures[i] = s.inspect(ctx)
			return nil
		})
	}
	_ = group.Wait()
	progress.stop()
	if err := ctx.Err(); err != nil {
		return errors.New("interrupted before there was a verdict")
	}
	var found []inspected
	for i, s := range subjects {
		found = append(found, results[i]...)
		if failures[i] != nil {
			errs = append(errs, inputError{s.input(), failures[i]})
		}
	}
	if len(found) == 0 {
		return errors.Join(errs...)
	}
	for _, err := range errs {
		found = append(found, inspected{report: unusable(err)})
	}
	return o.write(stdout, found)
}

// inputError is an input that could not be used.
type inputError struct {
	input string
	error
}

func (e inputError) Error() string { return e.input + ": " + e.error.Error() }

func (e inputError) Unwrap() error { return e.error }

// unusable reports an input that could not be used among others that could.
func unusable(err error) rules.TargetReport {
	input := ""
	if e, ok := errors.AsType[inputError](err); ok {
		input, err = e.input, e.error
	}
	return rules.TargetReport{
		URL: input, State: collector.StateUnknown, Reason: err.Error(),
		Engines: []rules.EngineReport{}, Cannot: []rules.Cannot{}, Quirks: []string{},
		Bottleneck: rules.Bottleneck{Name: rules.BottleneckUnknown, Confidence: "low", Summary: "it cannot be read: " + err.Error(), Evidence: []string{}},
	}
}

// subjects sorts the inputs; what cannot be used at all is an error each.
func (o inspectOptions) subjects() ([]subject, []error) {
	var (
		all   []subject
		pages []string
		errs  []error
	)
	at, err := parseMoment(o.at)
	if err != nil {
		return nil, []error{err}
	}
	for _, in := range o.inputs {
		if strings.Contains(in, "://") || looksLikeAddress(in) {
			live, err := o.live(in, at)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			all = append(all, live)
			continue
		}
		info, err := os.Stat(in)
		switch {
		case err != nil:
			errs = append(errs, inputError{in, errors.New("no such file; a URL begins with http://")})
		case info.IsDir() || isArchive(in):
			all = append(all, recorded{options: o, path: in, at: at})
		default:
			pages = append(pages, in)
		}
	}
	saved, bad := o.saved(pages, at)
	return append(all, saved...), append(errs, bad...)
}

// looksLikeAddress says whether a word without a scheme is host:port and no file.
func looksLikeAddress(in string) bool {
	host, rest, ok := strings.Cut(in, ":")
	if !ok || host == "" || strings.ContainsAny(host, `/\`) {
		return false
	}
	port, _, _ := strings.Cut(rest, "/")
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	_, err := os.Stat(in)
	return err != nil
}

// parseMoment reads RFC 3339 or Unix time, in seconds or milliseconds; zero is none.
func parseMoment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || v <= 0 || v > math.MaxInt64/1e6 {
		return time.Time{}, fmt.Errorf("--at %q is no time: write 2026-11-29T20:24:11Z, or Unix seconds or milliseconds", text)
	}
	if v < 1e11 { // seconds until the year 5138, milliseconds since 1973
		v *= 1000
	}
	return time.UnixMilli(int64(v)).UTC(), nil
}

// write prints the result in the form that was asked for.
func (o inspectOptions) write(stdout io.Writer, found []inspected) error {
	out := inspectOutput{Targets: []rules.TargetReport{}}
	for _, f := range found {
		out.Targets = append(out.Targets, f.report)
	}
	switch {
	case o.writeConfig:
		text, err := inspectConfig(found)
		if err != nil {
			return err
		}
		_, err = io.WriteString(stdout, text)
		return err
	case o.output == "json":
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(out)
	default:
		_, err := io.WriteString(stdout, inspectText(out))
		return err
	}
}
