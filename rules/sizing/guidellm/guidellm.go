// Package guidellm reads reports of GuideLLM, of every layout from 0.1 on, as
// levels of a load test.
//
// A report may be gigabytes long, for it can hold every prompt and answer: it is
// read as a stream, and of what is not needed nothing is kept. Texts of prompts
// and answers, keys and headers are never kept at all.
package guidellm

import (
	"errors"
	"fmt"
	"io"
	"net/url"

	"kvwatch/rules/sizing"
)

// Layouts of reports, by what they look like: the version alone does not say.
const (
	// Layout01 has raw results under benchmarks[].benchmarks[] (0.1).
	Layout01 = "0.1"
	// Layout02 has benchmarks[].args.strategy and request_totals beside metrics (0.2, 0.3).
	Layout02 = "0.2-0.3"
	// Layout04 has benchmarks[].config.strategy, args at the top and no metadata (0.4).
	Layout04 = "0.4"
	// Layout05 has metadata besides (0.5, 0.6).
	Layout05 = "0.5-0.6"
	// Layout07 has config instead of args at the top (0.7).
	Layout07 = "0.7"
	// Layout08 has what became of objectives, or conclusions (0.8 and later).
	Layout08 = "0.8+"
)

// Report is what a report says of the load test.
type Report struct {
	// Layout is one of the constants, Version GuideLLM's own where it is written.
	Layout, Version string
	// Target and Model are what was tested, "" where it is not written.
	Target, Model string
	// Levels in the order in which they were run.
	Levels []sizing.Level
	// Warnings are what a reader should know before believing it.
	Warnings []string
	// CachedShare is the share of prompt tokens that came from the prefix cache, of
	// the requests that tell it; nil where none does.
	CachedShare *float64
}

// errNoReport is what another JSON file is.
var errNoReport = errors.New("this is no GuideLLM report: it has no benchmarks; kvwatch reads its benchmarks.json")

// Read reads a report. One that ends in the middle, or is broken from somewhere
// on, gives the levels before with a warning; an error says that there are none.
func Read(r io.Reader) (*Report, error) {
	reader := &reader{walker: newWalker(r), report: &Report{}}
	err := reader.top()
	if err == nil {
		err = reader.trailing()
	}
	report := reader.finish()
	switch {
	case err != nil && len(report.Levels) == 0:
		return nil, reader.explain(err)
	case err != nil:
		report.Warnings = append(report.Warnings, fmt.Sprintf("the report is broken after %d levels, what follows is left out: %v", len(report.Levels), reader.explain(err)))
	case !reader.benchmarks:
		return nil, errNoReport
	case len(report.Levels) == 0:
		return nil, errors.New("the report has no level that could be read")
	}
	return report, nil
}

// reader walks one report.
type reader struct {
	*walker

	report *Report
	// What was seen, to tell the layout by.
	benchmarks, metadata, args, config, conclusions, raw, perBenchmarkConfig, attainment bool
	// cached and prompted count tokens of requests that tell how many were cached.
	cached, prompted float64
	// skipped counts entries of benchmarks that are no benchmarks.
	skipped int
}

// top reads the report's outermost object.
func (r *reader) top() error {
	return r.object(func(key string) error {
		switch key {
		case "metadata":
			r.metadata = true
			return r.object(func(key string) error {
				if key == "guidellm_version" {
					return r.textTo(&r.report.Version)
				}
				return r.skip()
			})
		case "args":
			r.args = true
			return r.about()
		case "config":
			r.config = true
			return r.topConfig()
		case "conclusions":
			r.conclusions = true
			return r.skip()
		case "benchmarks":
			r.benchmarks = true
			return r.array(r.benchmark)
		default:
			return r.skip()
		}
	})
}

// topConfig reads config of 0.7 and later.
func (r *reader) topConfig() error {
	return r.object(func(key string) error {
		if key != "spec" {
			return r.skip()
		}
		return r.object(func(key string) error {
			if key == "backend" {
				return r.about()
			}
			return r.skip()
		})
	})
}

// about reads what was tested, under the names of any layout.
func (r *reader) about() error {
	return r.object(func(key string) error {
		switch key {
		case "target", "backend_target":
			return r.textTo(&r.report.Target)
		case "model", "backend_model":
			return r.textTo(&r.report.Model)
		default:
			return r.skip()
		}
	})
}

// textTo keeps the first text that is not empty.
func (r *reader) textTo(to *string) error {
	text, err := r.text()
	if *to == "" {
		*to = text
	}
	return err
}

// finish names the layout and looks for traps.
func (r *reader) finish() *Report {
	report := r.report
	report.Layout = r.layout()
	report.Target = withoutSecrets(report.Target)
	if r.prompted > 0 {
		share := r.cached / r.prompted
		report.CachedShare = &share
	}
	if r.skipped > 0 {
		report.Warnings = append(report.Warnings, fmt.Sprintf("%d entries of benchmarks are no benchmarks and are left out", r.skipped))
	}
	report.lookForTraps()
	return report
}

func (r *reader) layout() string {
	switch {
	case r.raw:
		return Layout01
	case !r.perBenchmarkConfig:
		return Layout02
	case r.conclusions || r.attainment:
		return Layout08
	case r.config:
		return Layout07
	case r.metadata:
		return Layout05
	default:
		return Layout04
	}
}

// withoutSecrets drops what may stand in an address beside the server.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
