package collector

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// PrometheusConfig is one entry of `prometheus_sources`: a server with
// Prometheus's query API (Prometheus, Thanos, Mimir, VictoriaMetrics) that is
// asked for the series in place of the targets themselves.
type PrometheusConfig struct {
	// URL is the server's address, to which /api/v1/query is added.
	URL *config.URL `yaml:"url"`
	// Match selects the series, one query for each; left out, all families
	// that the sources read.
	Match []string `yaml:"match,omitempty"`
	// Interval is the time between two rounds of queries, the global
	// scrape_interval where 0; Timeout is how long one query may take.
	Interval model.Duration `yaml:"interval,omitempty"`
	Timeout  model.Duration `yaml:"timeout,omitempty"`
	// Backfill is how far history is filled back at the start; 0 is not at all.
	Backfill model.Duration `yaml:"backfill"`
	// SampleLimit bounds the series of one answer; 0 is the default of DefaultLimits.
	SampleLimit int `yaml:"sample_limit,omitempty"`
	// Gateway holds what the pages of LiteLLM gateways do not expose.
	Gateway GatewaySettings `yaml:"gateway,omitempty"`

	// HTTPClientConfig holds credentials, TLS, proxy and headers.
	HTTPClientConfig config.HTTPClientConfig `yaml:",inline"`

	// line is where the entry begins in its file; 0 where it was made in code.
	line int
}

// defaultBackfill is as far as the rules look back.
const defaultBackfill = 2 * time.Hour

// DefaultPrometheusConfig returns an entry that lacks nothing but its URL.
func DefaultPrometheusConfig() PrometheusConfig {
	return PrometheusConfig{Backfill: model.Duration(defaultBackfill), HTTPClientConfig: config.DefaultHTTPClientConfig}
}

// UnmarshalYAML decodes an entry strictly and checks it.
func (c *PrometheusConfig) UnmarshalYAML(unmarshal func(any) error) error {
	type plain PrometheusConfig
	*c = DefaultPrometheusConfig()
	at, err := decode(unmarshal, (*plain)(c), func() any {
		fresh := plain(DefaultPrometheusConfig())
		return &fresh
	})
	c.line = at.line()
	if err != nil {
		return at.explain(err, "prometheus_sources")
	}
	return at.list(c.problems(), "prometheus_sources")
}

// SetDirectory joins the relative file names of the entry with dir.
func (c *PrometheusConfig) SetDirectory(dir string) { c.HTTPClientConfig.SetDirectory(dir) }

func (c *PrometheusConfig) problems() []problem {
	var ps []problem
	add := func(key, format string, args ...any) { ps = append(ps, problem{key, fmt.Sprintf(format, args...)}) }
	switch {
	case c.URL == nil || c.URL.URL == nil || c.URL.Host == "":
		add("url", "is missing: write the server's address, as in http://prometheus:9090")
	case c.URL.User != nil:
		add("url", "holds user info: put it into basic_auth or authorization")
	case c.URL.Scheme != "http" && c.URL.Scheme != "https":
		add("url", "begins with %q: use http or https", c.URL.Scheme)
	}
	for _, m := range c.Match {
		if _, err := parseSelector(m); err != nil {
			add("match", "%q is no selector (%v): write one as in {__name__=~\"vllm:.+\"}", m, err)
		}
	}
	if c.Interval > 0 && c.Timeout > c.Interval {
		add("timeout", "of %s is longer than the interval of %s", c.Timeout, c.Interval)
	}
	if c.SampleLimit < 0 {
		add("sample_limit", "is negative: leave it out for the default")
	}
	if c.Gateway.Workers < 0 || c.Gateway.MaxInFlightPerWorker < 0 || c.Gateway.ConcurrentTokenCounts < 0 {
		add("gateway", "has a negative number: leave out what is not known")
	}
	if err := c.HTTPClientConfig.Validate(); err != nil {
		add("", "%v", err)
	}
	return ps
}

// withDefaults fills in what the entry leaves to the global block.
func (c PrometheusConfig) withDefaults(g GlobalConfig) PrometheusConfig {
	if c.Interval == 0 {
		c.Interval = g.ScrapeInterval
	}
	if c.Timeout == 0 {
		c.Timeout = min(g.ScrapeTimeout, c.Interval)
	}
	if c.SampleLimit == 0 {
		c.SampleLimit = DefaultLimits().Series
	}
	return c
}

// CheckPrometheusConfig checks the entries as a whole. It returns all that is
// wrong, joined, each with its line.
func CheckPrometheusConfig(sources []PrometheusConfig) error {
	var errs []error
	seen := map[string]bool{}
	for i := range sources {
		c := &sources[i]
		for _, p := range c.problems() {
			errs = append(errs, p.err(c.line, "prometheus_sources"))
		}
		if c.URL == nil || c.URL.URL == nil {
			continue
		}
		if seen[c.URL.String()] {
			errs = append(errs, problem{"url", "is named twice: put the selectors of both under one match"}.err(c.line, "prometheus_sources"))
		}
		seen[c.URL.String()] = true
	}
	return errors.Join(errs...)
}

func parseSelector(text string) ([]*labels.Matcher, error) {
	return parser.NewParser(parser.Options{}).ParseMetricSelector(text)
}

// selectors are the entry's, or one for each source that there is.
func (c *PrometheusConfig) selectors() []string {
	if len(c.Match) > 0 {
		return c.Match
	}
	var all []string
	for _, s := range registered.sources {
		names := map[string]bool{}
		for i := range s.families {
			f := &s.families[i]
			for _, exposed := range exposedNames(f) {
				names[regexp.QuoteMeta(strings.TrimSuffix(exposed, suffixTotal))] = true
			}
		}
		suffixes := strings.Join([]string{suffixTotal, BucketSuffix, SumSuffix, CountSuffix}, "|")
		all = append(all, fmt.Sprintf(`{__name__=~"(?:%s)(?:%s)?"}`,
			strings.ReplaceAll(strings.Join(slices.Sorted(maps.Keys(names)), "|"), `\`, `\\`), suffixes))
	}
	return all
}

// targetSelectors select what every target has, for the given jobs: by the
// matchers of match, so far as they are not on labels of the pages themselves.
func (c *PrometheusConfig) targetSelectors(names []string, jobs []string) []string {
	quoted := make([]string, len(jobs))
	for i, j := range jobs {
		quoted[i] = regexp.QuoteMeta(j)
	}
	begin := []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(names, "|")),
		labels.MustNewMatcher(labels.MatchRegexp, model.JobLabel, strings.Join(quoted, "|")),
	}
	onPages := pageLabels()
	set := map[string]bool{}
	for _, text := range c.selectors() {
		matchers, err := parseSelector(text)
		if err != nil {
			continue // checked before
		}
		parts := []string{begin[0].String(), begin[1].String()}
		for _, m := range matchers {
			if m.Name != model.MetricNameLabel && !onPages[m.Name] {
				parts = append(parts, m.String())
			}
		}
		set["{"+strings.Join(parts, ",")+"}"] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// pageLabels are the labels that pages themselves carry.
func pageLabels() map[string]bool {
	all := map[string]bool{labels.BucketLabel: true}
	for _, s := range registered.sources {
		for _, l := range s.labels {
			all[l] = true
		}
	}
	for _, f := range registered.families {
		for _, l := range f.labels {
			all[l] = true
		}
	}
	return all
}
