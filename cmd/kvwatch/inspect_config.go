package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/prometheus/common/config"
	"go.yaml.in/yaml/v3"

	"kvwatch/collector"
)

// inspectConfig is a kvwatch.yml for the live targets among those found.
func inspectConfig(found []inspected) (string, error) {
	var jobs, servers []configJob
	for _, f := range found {
		if f.page == nil {
			continue
		}
		job, ok, err := jobOf(f)
		if err != nil {
			return "", err
		}
		if !ok {
			continue
		}
		if f.page.server {
			servers = addJob(servers, job)
		} else {
			jobs = addJob(jobs, job)
		}
	}
	if len(jobs)+len(servers) == 0 {
		return "", errors.New("--write-config: none of the inputs is a live vLLM or LiteLLM server, so that there is nothing to write")
	}
	var b strings.Builder
	b.WriteString("# Written by kvwatch inspect. Check it with: kvwatch check config FILE\n")
	for _, f := range found {
		fmt.Fprintf(&b, "# %s: %s\n", plain(f.report.URL), plain(whatItIs(f.report)+", "+string(f.report.State)))
	}
	if len(jobs) > 0 {
		b.WriteString("scrape_configs:\n")
	}
	for i := range jobs {
		jobs[i].write(&b, i, jobs)
	}
	if len(servers) > 0 {
		b.WriteString("prometheus_sources:\n")
	}
	for _, j := range servers {
		j.writeServer(&b)
	}
	b.WriteString("# Tell somebody: see receivers and route in deploy/kvwatch.yml.\n")
	return b.String(), nil
}

// configJob is one entry of scrape_configs.
type configJob struct {
	source, scheme, path, keyFile, params string
	// http are the lines of the HTTP client's settings.
	http    []string
	targets []string
}

// jobOf is the job that a target would be in; false for one of which too
// little is known.
func jobOf(f inspected) (configJob, bool, error) {
	j := configJob{source: f.report.Source, scheme: f.page.scheme, path: f.page.path, targets: []string{f.page.host}}
	if f.page.server {
		j.source = "" // one server holds series of both
	} else if j.source != collector.SourceVLLM && j.source != collector.SourceLiteLLM {
		return j, false, nil
	}
	// A gateway redirects from here to there, which costs a round trip each time.
	if j.source == collector.SourceLiteLLM && strings.HasSuffix(j.path, "/metrics") {
		j.path += "/"
	}
	if f.page.keyFile != "" {
		file, err := filepath.Abs(f.page.keyFile)
		if err != nil {
			return j, false, err
		}
		j.keyFile = file
	}
	if f.page.httpFile != "" {
		var err error
		if j.http, err = httpSettings(f.page.httpFile); err != nil {
			return j, false, err
		}
	}
	if f.page.user {
		j.http = append(j.http, "# the user and the password of the URL are left out here: write basic_auth, with a password_file")
	}
	if len(f.page.params) > 0 {
		j.params = "the parameters of the URL are left out here, as they may be secret: write them into params"
	}
	return j, true, nil
}

// httpSettings are the lines of a file's settings in an entry of a
// configuration; secrets are not among them.
func httpSettings(file string) ([]string, error) {
	c := config.DefaultHTTPClientConfig
	if err := readHTTPConfig(file, &c); err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if hidden := bytes.Contains(text, []byte("<secret>")) || bytes.Contains(text, []byte(":xxxxx@")); hidden {
		return []string{"# the settings of the HTTP client are left out here, as they hold secrets: write those of " + plain(file) + " here"}, nil
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n"), nil
}

// addJob puts the target into a job like its own, or begins one.
func addJob(jobs []configJob, job configJob) []configJob {
	for i := range jobs {
		j := &jobs[i]
		if j.source == job.source && j.scheme == job.scheme && j.path == job.path && j.keyFile == job.keyFile && j.params == job.params && slices.Equal(j.http, job.http) {
			j.targets = append(j.targets, job.targets...)
			return jobs
		}
	}
	return append(jobs, job)
}

// name is vllm or gateway, with a number where there are several.
func (j configJob) name(i int, jobs []configJob) string {
	name, before := j.source, 0
	if j.source == collector.SourceLiteLLM {
		name = "gateway"
	}
	for _, other := range jobs[:i] {
		if other.source == j.source {
			before++
		}
	}
	if before > 0 {
		return fmt.Sprintf("%s-%d", name, before+1)
	}
	return name
}

func (j configJob) write(b *strings.Builder, i int, jobs []configJob) {
	fmt.Fprintf(b, "  - job_name: %s\n    source: %s\n", j.name(i, jobs), j.source)
	if j.scheme != "http" {
		fmt.Fprintf(b, "    scheme: %s\n", j.scheme)
	}
	fmt.Fprintf(b, "    metrics_path: %q\n", j.path)
	if j.params != "" {
		fmt.Fprintf(b, "    # %s\n", j.params)
	}
	j.writeHTTP(b)
	seen := map[string]bool{}
	var targets []string
	for _, t := range j.targets {
		if !seen[t] {
			seen[t] = true
			targets = append(targets, t)
		}
	}
	fmt.Fprintf(b, "    static_configs: [{targets: [%s]}]\n", quoted(targets))
	if j.source == collector.SourceLiteLLM {
		b.WriteString("    # What the page does not tell; saturation needs it:\n    # gateway: {workers: 4, max_in_flight_per_worker: 24}\n")
	}
}

// writeServer writes an entry of prometheus_sources.
func (j configJob) writeServer(b *strings.Builder) {
	fmt.Fprintf(b, "  - url: %q\n", j.scheme+"://"+j.targets[0]+j.path)
	j.writeHTTP(b)
}

// writeHTTP writes how the servers are reached.
func (j configJob) writeHTTP(b *strings.Builder) {
	if j.keyFile != "" {
		fmt.Fprintf(b, "    authorization: {credentials_file: %q}\n", j.keyFile)
	}
	for _, line := range j.http {
		fmt.Fprintf(b, "    %s\n", line)
	}
}

// plain keeps a text on its line, and from commanding a terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
