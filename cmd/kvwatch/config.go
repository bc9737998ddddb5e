package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"kvwatch/alerting"
	"kvwatch/collector"
	"kvwatch/collector/history"
	"kvwatch/rules"
)

// Config is the configuration file: one field for each part, which owns its own
// settings, defaults and checks.
type Config struct {
	Global        collector.GlobalConfig   `yaml:"global"`
	ScrapeConfigs []collector.ScrapeConfig `yaml:"scrape_configs"`
	// PrometheusSources are servers that have scraped already.
	PrometheusSources []collector.PrometheusConfig `yaml:"prometheus_sources"`
	// SpendLogs are the databases in which LiteLLM logs its calls.
	SpendLogs []collector.SpendLogsConfig `yaml:"spend_logs"`
	Pools     []rules.PoolConfig          `yaml:"pools"`
	Rules     map[string]rules.Override   `yaml:"rules"`
	// Plans are patterns of the files of sizing plans that are held against what is measured.
	Plans []string `yaml:"plans"`
	// PlanWindow is how far back they are held against it.
	PlanWindow model.Duration `yaml:"plan_window"`
	// Schedules say when what is done by the clock is done.
	Schedules Schedules `yaml:"schedules"`
	// RemoteWrite are servers to which the derived series are sent.
	RemoteWrite []*history.RemoteWriteConfig `yaml:"remote_write"`
	// Alerting holds route and receivers.
	Alerting alerting.Config `yaml:",inline"`

	// plans are the files that Plans finds.
	plans []*planFile
}

// loadConfig reads and checks the file. Errors name file, line and column.
func loadConfig(file string) (*Config, error) {
	src, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such file; give one with --config.file, or try `kvwatch demo`", file)
	}
	if err != nil {
		return nil, err
	}
	return parseConfig(file, src)
}

// parseConfig decodes and checks src; relative paths in it are relative to the file's folder.
func parseConfig(file string, src []byte) (*Config, error) {
	c := Config{Global: collector.DefaultGlobalConfig(), Schedules: defaultSchedules(), PlanWindow: defaultPlanWindow}
	doc, err := decodeYAML(file, src, &c)
	if err != nil {
		return nil, err
	}
	if len(c.ScrapeConfigs) == 0 && len(c.PrometheusSources) == 0 {
		return nil, fmt.Errorf("%s: scrape_configs is empty: name at least one vLLM or LiteLLM target, or a server that scrapes them in prometheus_sources", file)
	}
	c.setDirectory(file)
	if err := locate(file, doc, c.check()); err != nil {
		return nil, err
	}
	return &c, c.readPlans(file, doc)
}

// readPlans reads the plans. What is wrong with a pattern is located in the
// configuration, what is wrong with a plan in the plan's own file.
func (c *Config) readPlans(file string, doc *yaml.Node) (err error) {
	files, err := findPlans(filepath.Dir(file), c.Plans)
	if err != nil {
		return locate(file, doc, err)
	}
	if c.plans, err = loadPlans(files); err != nil {
		return err
	}
	return checkPlans(c.plans, c.Pools)
}

// setDirectory makes relative paths relative to the file's folder.
func (c *Config) setDirectory(file string) {
	dir := filepath.Dir(file)
	for i := range c.ScrapeConfigs {
		c.ScrapeConfigs[i].SetDirectory(dir)
	}
	for i := range c.SpendLogs {
		c.SpendLogs[i].SetDirectory(dir)
	}
	for i := range c.PrometheusSources {
		c.PrometheusSources[i].SetDirectory(dir)
	}
	for _, w := range c.RemoteWrite {
		if w != nil {
			w.SetDirectory(dir)
		}
	}
	c.Alerting.SetDirectory(dir)
}

// build makes everything that the configuration names, without contacting
// anything, and throws it away: certificates, keys and templates that cannot be
// read are found here.
func (c *Config) build() error {
	log := slog.New(slog.DiscardHandler)
	in, err := newIntake(c, func(context.Context, *collector.Round) {}, func(*collector.CallRound) {}, log)
	if err == nil {
		err = in.close()
	}
	dispatcher, alertingErr := alerting.New(alerting.Options{Config: c.Alerting, Stdout: io.Discard, Logger: log})
	if alertingErr == nil {
		alertingErr = dispatcher.Close()
	}
	return errors.Join(err, alertingErr)
}

// check finds what the parts cannot see while they are decoded.
func (c *Config) check() error {
	return errors.Join(
		collector.CheckConfig(c.Global, c.ScrapeConfigs),
		collector.CheckSpendLogs(c.SpendLogs),
		collector.CheckPrometheusConfig(c.PrometheusSources),
		history.CheckRemoteWrite(c.RemoteWrite),
		rules.Validate(c.Pools, c.Rules),
		c.Alerting.Check(),
		checkPlanWindow(c.PlanWindow),
		c.Schedules.check(c.Alerting),
	)
}
