package collector

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/alecthomas/units"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/dns"
	"github.com/prometheus/prometheus/discovery/file"
	httpsd "github.com/prometheus/prometheus/discovery/http"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
)

// GlobalConfig is the `global` block: what holds for every scrape job that
// does not say otherwise.
type GlobalConfig struct {
	// ScrapeInterval is the time from one scrape of a target to the next.
	ScrapeInterval model.Duration `yaml:"scrape_interval,omitempty"`
	// ScrapeTimeout is how long one scrape may take; at most ScrapeInterval.
	ScrapeTimeout model.Duration `yaml:"scrape_timeout,omitempty"`
	// EvaluationInterval is the time from one evaluation of the rules to the
	// next. It is shorter than ScrapeInterval, since targets are scraped at
	// moments of their own, and what one of them shows should not wait for the others.
	EvaluationInterval model.Duration `yaml:"evaluation_interval,omitempty"`
	// ExternalLabels are added to what leaves kvwatch (alerts, remote write),
	// never to what is stored.
	ExternalLabels labels.Labels `yaml:"external_labels,omitempty"`
}

// DefaultGlobalConfig returns the block that an empty file means.
func DefaultGlobalConfig() GlobalConfig {
	return GlobalConfig{
		ScrapeInterval: model.Duration(15 * time.Second),
		ScrapeTimeout:  model.Duration(10 * time.Second),

		EvaluationInterval: model.Duration(defaultEvaluationInterval),
	}
}

// defaultEvaluationInterval keeps an alert from waiting long for its evaluation.
const defaultEvaluationInterval = 5 * time.Second

// UnmarshalYAML decodes the block strictly and checks it.
func (g *GlobalConfig) UnmarshalYAML(unmarshal func(any) error) error {
	type plain GlobalConfig
	*g = DefaultGlobalConfig()
	g.ScrapeTimeout, g.EvaluationInterval = 0, 0
	at, err := decode(unmarshal, (*plain)(g), func() any { return new(plain) })
	if err != nil {
		return at.explain(err, "global")
	}
	if g.ScrapeTimeout == 0 {
		g.ScrapeTimeout = min(DefaultGlobalConfig().ScrapeTimeout, g.ScrapeInterval)
	}
	if g.EvaluationInterval == 0 {
		g.EvaluationInterval = min(DefaultGlobalConfig().EvaluationInterval, g.ScrapeInterval)
	}
	return at.list(g.problems(), "global")
}

// problems lists what is wrong with the block.
func (g *GlobalConfig) problems() []problem {
	var ps []problem
	if g.ScrapeInterval <= 0 {
		ps = append(ps, problem{"scrape_interval", "must be more than 0"})
	}
	if g.EvaluationInterval <= 0 {
		ps = append(ps, problem{"evaluation_interval", "must be more than 0"})
	}
	if g.ScrapeTimeout > g.ScrapeInterval {
		ps = append(ps, timeoutProblem(g.ScrapeTimeout, g.ScrapeInterval))
	}
	g.ExternalLabels.Range(func(l labels.Label) {
		if !model.LegacyValidation.IsValidLabelName(l.Name) {
			ps = append(ps, problem{"external_labels", fmt.Sprintf("%q is no valid label name: use letters, digits and _", l.Name)})
		}
	})
	return ps
}

func timeoutProblem(timeout, interval model.Duration) problem {
	return problem{"scrape_timeout", fmt.Sprintf("%s is longer than the scrape_interval of %s: lower it or raise the interval", timeout, interval)}
}

// ScrapeConfig is one entry of `scrape_configs`: Prometheus's block with a
// source and, for gateways, what their page does not expose.
type ScrapeConfig struct {
	// JobName is the value of the targets' job label; unique.
	JobName string `yaml:"job_name"`
	// Source is the name of a registered source, or empty: recognised from the page.
	Source string `yaml:"source,omitempty"`
	// ScrapeInterval and ScrapeTimeout are the global ones where 0.
	ScrapeInterval model.Duration `yaml:"scrape_interval,omitempty"`
	ScrapeTimeout  model.Duration `yaml:"scrape_timeout,omitempty"`
	// MetricsPath is that of the source where empty, else /metrics.
	MetricsPath string `yaml:"metrics_path,omitempty"`
	// Scheme is http or https.
	Scheme string     `yaml:"scheme,omitempty"`
	Params url.Values `yaml:"params,omitempty"`
	// BodySizeLimit bounds the decoded page in bytes; 0 is the default of DefaultLimits.
	BodySizeLimit units.Base2Bytes `yaml:"body_size_limit,omitempty"`
	// SampleLimit bounds the wanted series of a page; the label limits bound
	// each of them. 0 is the default of DefaultLimits.
	SampleLimit           int `yaml:"sample_limit,omitempty"`
	LabelLimit            int `yaml:"label_limit,omitempty"`
	LabelNameLengthLimit  int `yaml:"label_name_length_limit,omitempty"`
	LabelValueLengthLimit int `yaml:"label_value_length_limit,omitempty"`
	// Gateway holds what a LiteLLM page does not expose.
	Gateway GatewaySettings `yaml:"gateway,omitempty"`
	// Recordings are played where the source is SourceRecording.
	Recordings []RecordingConfig `yaml:"recordings,omitempty"`

	StaticConfigs []*targetgroup.Group `yaml:"static_configs,omitempty"`
	FileSDConfigs []*file.SDConfig     `yaml:"file_sd_configs,omitempty"`
	HTTPSDConfigs []*httpsd.SDConfig   `yaml:"http_sd_configs,omitempty"`
	DNSSDConfigs  []*dns.SDConfig      `yaml:"dns_sd_configs,omitempty"`
	// KubernetesSDConfigs are refused by a build without the tag kubernetes.
	KubernetesSDConfigs KubernetesSDConfigs `yaml:"kubernetes_sd_configs,omitempty"`
	RelabelConfigs      []*relabel.Config   `yaml:"relabel_configs,omitempty"`

	// HTTPClientConfig holds credentials, TLS and proxy.
	HTTPClientConfig config.HTTPClientConfig `yaml:",inline"`

	// line is where the entry begins in its file; 0 where it was made in code.
	line int
}

// DefaultScrapeConfig returns an entry with the defaults of its HTTP client;
// whoever makes entries in code starts from it.
func DefaultScrapeConfig() ScrapeConfig {
	return ScrapeConfig{Scheme: "http", HTTPClientConfig: config.DefaultHTTPClientConfig}
}

// UnmarshalYAML decodes an entry strictly and checks what can be checked
// without the rest of the file; CheckConfig does the rest.
func (c *ScrapeConfig) UnmarshalYAML(unmarshal func(any) error) error {
	type plain ScrapeConfig
	*c = DefaultScrapeConfig()
	at, err := decode(unmarshal, (*plain)(c), func() any {
		fresh := plain(DefaultScrapeConfig())
		return &fresh
	})
	c.line = at.line()
	if err != nil {
		return at.explain(err, c.where())
	}
	return at.list(c.problems(), c.where())
}

// SetDirectory joins the relative file names of the entry with dir.
func (c *ScrapeConfig) SetDirectory(dir string) {
	c.HTTPClientConfig.SetDirectory(dir)
	for _, sd := range c.FileSDConfigs {
		sd.SetDirectory(dir)
	}
	for _, sd := range c.HTTPSDConfigs {
		sd.HTTPClientConfig.SetDirectory(dir)
	}
	c.KubernetesSDConfigs.setDirectory(dir)
	for i := range c.Recordings {
		c.Recordings[i].Path = config.JoinDir(dir, c.Recordings[i].Path)
	}
}

// where names the entry in errors.
func (c *ScrapeConfig) where() string {
	if c.JobName == "" {
		return "scrape_configs"
	}
	return fmt.Sprintf("scrape_configs job %q", c.JobName)
}

// problems lists what is wrong with the entry by itself.
func (c *ScrapeConfig) problems() []problem {
	var ps []problem
	add := func(key, format string, args ...any) { ps = append(ps, problem{key, fmt.Sprintf(format, args...)}) }
	if c.JobName == "" {
		add("job_name", "is missing: give every entry a name, it becomes the job label")
	}
	if c.Source != "" && c.Source != SourceRecording && registered.named(c.Source) == nil {
		add("source", "%q is unknown: use %s, or leave it out to recognise it from the page", c.Source, registered.names(" or "))
	}
	switch c.Scheme {
	case "", "http", "https":
	default:
		add("scheme", "%q is unknown: use http or https", c.Scheme)
	}
	if c.MetricsPath != "" && !strings.HasPrefix(c.MetricsPath, "/") {
		add("metrics_path", "%q does not begin with /", c.MetricsPath)
	}
	if c.ScrapeInterval > 0 && c.ScrapeTimeout > c.ScrapeInterval {
		ps = append(ps, timeoutProblem(c.ScrapeTimeout, c.ScrapeInterval))
	}
	for _, l := range []struct {
		key   string
		value int64
	}{
		{"body_size_limit", int64(c.BodySizeLimit)},
		{"sample_limit", int64(c.SampleLimit)},
		{"label_limit", int64(c.LabelLimit)},
		{"label_name_length_limit", int64(c.LabelNameLengthLimit)},
		{"label_value_length_limit", int64(c.LabelValueLengthLimit)},
	} {
		if l.value < 0 {
			add(l.key, "is negative: leave it out for the default")
		}
	}
	ps = append(ps, c.gatewayProblems()...)
	ps = append(ps, c.recordingProblems()...)
	for _, r := range c.RelabelConfigs {
		if r == nil {
			add("relabel_configs", "has an empty entry")
		} else if err := r.Validate(model.UTF8Validation); err != nil {
			add("relabel_configs", "%v", err)
		}
	}
	if err := c.HTTPClientConfig.Validate(); err != nil {
		ps = append(ps, problem{"", err.Error()})
	}
	return append(ps, c.discoveryProblems()...)
}

func (c *ScrapeConfig) gatewayProblems() []problem {
	var ps []problem
	if c.Gateway != (GatewaySettings{}) && c.Source == SourceVLLM {
		ps = append(ps, problem{"gateway", "is only for source litellm: remove it or change the source"})
	}
	if c.Gateway.Workers < 0 || c.Gateway.MaxInFlightPerWorker < 0 || c.Gateway.ConcurrentTokenCounts < 0 {
		ps = append(ps, problem{"gateway", "has a negative number: leave out what is not known"})
	}
	return ps
}

// discoveryProblems refuses empty list entries, which would be nil pointers.
func (c *ScrapeConfig) discoveryProblems() []problem {
	var ps []problem
	empty := func(key string, yes bool) {
		if yes {
			ps = append(ps, emptyEntry(key))
		}
	}
	for _, g := range c.StaticConfigs {
		empty("static_configs", g == nil)
	}
	for _, sd := range c.FileSDConfigs {
		empty("file_sd_configs", sd == nil)
	}
	for _, sd := range c.HTTPSDConfigs {
		empty("http_sd_configs", sd == nil)
	}
	for _, sd := range c.DNSSDConfigs {
		empty("dns_sd_configs", sd == nil)
	}
	return append(ps, c.KubernetesSDConfigs.problems()...)
}

func emptyEntry(key string) problem {
	return problem{key, "has an empty entry: fill it in or remove it"}
}

// withDefaults fills in what the entry leaves to the global block and to its source.
func (c ScrapeConfig) withDefaults(g GlobalConfig) ScrapeConfig {
	if c.ScrapeInterval == 0 {
		c.ScrapeInterval = g.ScrapeInterval
	}
	if c.ScrapeTimeout == 0 {
		c.ScrapeTimeout = min(g.ScrapeTimeout, c.ScrapeInterval)
	}
	if c.Scheme == "" {
		c.Scheme = "http"
	}
	if c.MetricsPath == "" {
		c.MetricsPath = "/metrics"
		if s := registered.named(c.Source); s != nil && s.path != "" {
			c.MetricsPath = s.path
		}
	}
	return c
}

// limits are the entry's limits, with the defaults where it sets none.
func (c *ScrapeConfig) limits() Limits {
	l := DefaultLimits()
	if c.BodySizeLimit > 0 {
		l.BodyBytes = int64(c.BodySizeLimit)
	}
	set := func(to *int, value int) {
		if value > 0 {
			*to = value
		}
	}
	set(&l.Series, c.SampleLimit)
	set(&l.LabelsPerSeries, c.LabelLimit)
	set(&l.LabelNameLength, c.LabelNameLengthLimit)
	set(&l.LabelValueLength, c.LabelValueLengthLimit)
	return l
}

// discoverers are the parts of the entry that find targets while running.
func (c *ScrapeConfig) discoverers() discovery.Configs {
	var ds discovery.Configs
	for _, sd := range c.FileSDConfigs {
		ds = append(ds, sd)
	}
	for _, sd := range c.HTTPSDConfigs {
		ds = append(ds, sd)
	}
	for _, sd := range c.DNSSDConfigs {
		ds = append(ds, sd)
	}
	return append(ds, c.KubernetesSDConfigs.discoverers()...)
}

// CheckConfig checks the blocks as a whole: names, intervals and static
// targets. It returns all that is wrong, joined, each with its line.
func CheckConfig(g GlobalConfig, scrapes []ScrapeConfig) error {
	var errs []error
	for _, p := range g.problems() {
		errs = append(errs, p.err(0, "global"))
	}
	lines := map[string]int{}
	var static []found
	for i := range scrapes {
		c := scrapes[i].withDefaults(g)
		ps := c.problems()
		if c.ScrapeTimeout > c.ScrapeInterval && scrapes[i].ScrapeInterval == 0 {
			ps = append(ps, timeoutProblem(c.ScrapeTimeout, c.ScrapeInterval))
		}
		if first, ok := lines[c.JobName]; ok && c.JobName != "" {
			ps = append(ps, problem{"job_name", fmt.Sprintf("is used twice (first on line %d): rename one", first)})
		}
		lines[c.JobName] = c.line
		for _, p := range ps {
			errs = append(errs, p.err(c.line, c.where()))
		}
		if len(ps) > 0 {
			continue
		}
		targets, bad := targetsOf(&c, c.StaticConfigs)
		for _, err := range bad {
			errs = append(errs, problem{"static_configs", err.Error()}.err(c.line, c.where()))
		}
		static = append(static, targets...)
	}
	_, twice := distinct(static)
	for _, d := range twice {
		errs = append(errs, problem{"static_configs", d.text()}.err(d.second.config.line, d.second.config.where()))
	}
	return errors.Join(errs...)
}
