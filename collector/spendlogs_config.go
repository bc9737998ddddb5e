package collector

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
)

// SpendLogsConfig is one entry of `spend_logs`: a LiteLLM database whose table
// of calls is read.
type SpendLogsConfig struct {
	// Name is what the log is called on the page and in the logs; unique. Where
	// it is left out, spend_logs and the number of the entry.
	Name string `yaml:"name,omitempty"`
	// DSN is the database as PostgreSQL's clients write it, an address or
	// keywords; DSNFile is a file that holds it, read at every connect.
	DSN     config.Secret `yaml:"dsn,omitempty"`
	DSNFile string        `yaml:"dsn_file,omitempty"`
	// Schema and Table name the table, or a view with columns of the same names.
	Schema string `yaml:"schema,omitempty"`
	Table  string `yaml:"table,omitempty"`
	// Interval is the time from one read to the next.
	Interval model.Duration `yaml:"interval,omitempty"`
	// Timeout is how long one query may take.
	Timeout model.Duration `yaml:"timeout,omitempty"`
	// Lookback is how far back the first read goes.
	Lookback model.Duration `yaml:"lookback,omitempty"`
	// Overlap is how far each read goes back before the newest call: the longest
	// call and a minute, because a row appears when its call ends.
	Overlap model.Duration `yaml:"overlap,omitempty"`
	// PageSize is how many rows one query returns at most.
	PageSize int `yaml:"page_size,omitempty"`

	// line is where the entry begins in its file; 0 where it was made in code.
	line int
}

// Bounds of what may be asked of somebody else's database.
const (
	leastSpendLogsInterval = 5 * time.Second
	mostSpendLogsPage      = 20_000
)

// DefaultSpendLogsConfig returns the entry that says nothing but where the database is.
func DefaultSpendLogsConfig() SpendLogsConfig {
	return SpendLogsConfig{
		Table:    "LiteLLM_SpendLogs",
		Interval: model.Duration(30 * time.Second),
		Timeout:  model.Duration(5 * time.Second),
		Lookback: model.Duration(2 * time.Hour),
		Overlap:  model.Duration(11 * time.Minute), // LiteLLM's own timeout of 10 minutes, and one
		PageSize: 5000,
	}
}

// UnmarshalYAML sets defaults, decodes strictly and checks the entry.
func (c *SpendLogsConfig) UnmarshalYAML(unmarshal func(any) error) error {
	type plain SpendLogsConfig
	*c = DefaultSpendLogsConfig()
	at, err := decode(unmarshal, (*plain)(c), func() any { return new(plain) })
	if err != nil {
		return at.explain(err, "spend_logs")
	}
	c.line = at.line()
	return at.list(c.problems(), "spend_logs")
}

// problems lists what is wrong with the entry.
func (c *SpendLogsConfig) problems() []problem {
	var ps []problem
	switch {
	case c.DSN == "" && c.DSNFile == "":
		ps = append(ps, problem{"", "dsn is missing: give dsn_file, a file with postgres://user:password@host:5432/database"})
	case c.DSN != "" && c.DSNFile != "":
		ps = append(ps, problem{"dsn_file", "is given beside dsn: leave one out"})
	}
	if c.Table == "" {
		ps = append(ps, problem{"table", "is empty: leave it out for LiteLLM_SpendLogs"})
	}
	if time.Duration(c.Interval) < leastSpendLogsInterval {
		ps = append(ps, problem{"interval", fmt.Sprintf("must be at least %s: the gateway itself writes every 10s", model.Duration(leastSpendLogsInterval))})
	}
	for _, d := range []struct {
		key   string
		value model.Duration
	}{{"timeout", c.Timeout}, {"lookback", c.Lookback}, {"overlap", c.Overlap}} {
		if d.value <= 0 {
			ps = append(ps, problem{d.key, "must be more than 0"})
		}
	}
	if c.PageSize < 1 || c.PageSize > mostSpendLogsPage {
		ps = append(ps, problem{"page_size", fmt.Sprintf("must be between 1 and %d", mostSpendLogsPage)})
	}
	return ps
}

// SetDirectory makes a relative dsn_file relative to dir.
func (c *SpendLogsConfig) SetDirectory(dir string) {
	c.DSNFile = config.JoinDir(dir, c.DSNFile)
}

// address reads the connection string. The error holds nothing of it.
func (c *SpendLogsConfig) address() (string, error) {
	if c.DSNFile == "" {
		return string(c.DSN), nil
	}
	text, err := os.ReadFile(filepath.Clean(c.DSNFile))
	if err != nil {
		return "", fmt.Errorf("dsn_file cannot be read: %w", err)
	}
	dsn := strings.TrimSpace(string(text))
	if dsn == "" {
		return "", fmt.Errorf("dsn_file %s is empty: it holds postgres://user:password@host:5432/database", c.DSNFile)
	}
	return dsn, nil
}

// CheckSpendLogs gives each entry its name and checks the entries as a whole.
func CheckSpendLogs(entries []SpendLogsConfig) error {
	var errs []error
	names := map[string]bool{}
	for i := range entries {
		c := &entries[i]
		if c.Name == "" {
			c.Name = fmt.Sprintf("spend_logs/%d", i)
		}
		for _, p := range c.problems() {
			errs = append(errs, p.err(c.line, "spend_logs"))
		}
		if names[c.Name] {
			errs = append(errs, problem{"name", fmt.Sprintf("%q is used twice: rename one", c.Name)}.err(c.line, "spend_logs"))
		}
		names[c.Name] = true
	}
	return errors.Join(errs...)
}
