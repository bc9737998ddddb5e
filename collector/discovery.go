package collector

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/scrape"
)

// found is a target as discovery and relabelling give it, with what scraping
// it needs.
type found struct {
	target   Target
	config   *ScrapeConfig
	address  string // the page's address with all its parameters; not for display
	interval time.Duration
	timeout  time.Duration
}

// id identifies a target for as long as it is discovered.
func (f *found) id() string {
	return targetID(f.target.Labels.Get(model.JobLabel), f.target.Labels.Get(model.InstanceLabel))
}

// targetID identifies a target by what its series carry.
func targetID(job, instance string) string { return job + "\xff" + instance }

// targetsOf turns target groups into targets with Prometheus's own labelling
// and relabelling. What cannot be a target is returned as errors.
func targetsOf(c *ScrapeConfig, groups []*targetgroup.Group) ([]found, []error) {
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b *targetgroup.Group) int { return strings.Compare(a.Source, b.Source) })
	prom := &promconfig.ScrapeConfig{
		JobName: c.JobName, ScrapeInterval: c.ScrapeInterval, ScrapeTimeout: c.ScrapeTimeout,
		MetricsPath: c.MetricsPath, Scheme: c.Scheme, Params: c.Params, RelabelConfigs: c.RelabelConfigs,
	}
	var (
		targets []found
		errs    []error
		lb      = labels.NewBuilder(labels.EmptyLabels())
	)
	for _, g := range groups {
		for _, own := range g.Targets {
			f, err := targetOf(c, prom, lb, own, g.Labels)
			if err != nil {
				errs = append(errs, err)
			} else if f != nil {
				targets = append(targets, *f)
			}
		}
	}
	return targets, errs
}

// targetOf makes one target; nil without an error means dropped by relabelling.
func targetOf(c *ScrapeConfig, prom *promconfig.ScrapeConfig, lb *labels.Builder, own, group model.LabelSet) (*found, error) {
	if err := checkAddress(string(own[model.AddressLabel])); err != nil {
		return nil, err
	}
	all, err := scrape.PopulateLabels(lb, prom, own, group)
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", own[model.AddressLabel], err)
	}
	if all.IsEmpty() {
		return nil, nil
	}
	if err := checkAddress(all.Get(model.AddressLabel)); err != nil {
		return nil, err
	}
	prometheus := scrape.NewTarget(all, prom, own, group)
	address := prometheus.URL()
	f := &found{
		config:  c,
		address: address.String(),
		target: Target{
			Labels: prometheus.Labels(lb),
			URL:    publicURL(address),
			Source: c.Source, Gateway: c.Gateway,
		},
	}
	// PopulateLabels has checked both.
	interval, _ := model.ParseDuration(all.Get(model.ScrapeIntervalLabel))
	timeout, _ := model.ParseDuration(all.Get(model.ScrapeTimeoutLabel))
	f.interval, f.timeout = time.Duration(interval), time.Duration(timeout)
	f.target.Interval = f.interval
	return f, nil
}

// checkAddress refuses what people write in place of host:port. An address
// becomes the instance label, so it must not hold credentials.
func checkAddress(address string) error {
	if _, host, ok := strings.Cut(address, "@"); ok {
		return fmt.Errorf("target …@%s holds user info: write host:port and put the credentials into basic_auth or authorization", host)
	}
	if strings.Contains(address, "://") {
		return fmt.Errorf("target %q is a URL: write host:port, and use scheme and metrics_path for the rest", address)
	}
	if address == "" {
		return errors.New("a target has no address: write host:port")
	}
	return nil
}

// publicURL is an address that may be shown: parameters that look like
// credentials lose their values.
func publicURL(u *url.URL) string {
	public := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	params := u.Query()
	for name := range params {
		if soundsSecret(name) {
			params[name] = []string{"redacted"}
		}
	}
	public.RawQuery = params.Encode()
	return public.String()
}

func soundsSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"key", "token", "secret", "pass", "auth", "cred", "sig"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// twin is a target that was found twice.
type twin struct{ first, second found }

// text says which target is meant and what to do.
func (d twin) text() string {
	a, b := d.first.config.JobName, d.second.config.JobName
	name := d.second.target.URL
	if d.first.address != d.second.address {
		name = fmt.Sprintf("instance %q (%s and %s)", d.second.target.Labels.Get(model.InstanceLabel), d.first.target.URL, d.second.target.URL)
	}
	if a == b {
		return fmt.Sprintf("duplicate target %s twice in job %q: remove one, it would be counted twice", name, a)
	}
	return fmt.Sprintf("duplicate target %s in job %q and %q: remove one, it would be counted twice", name, a, b)
}

// distinct keeps the first of targets that are the same page or would have the
// same job and instance, and returns the others beside.
func distinct(targets []found) (kept []found, twice []twin) {
	byID, byAddress := map[string]int{}, map[string]int{}
	for _, f := range targets {
		i, ok := byID[f.id()]
		if !ok {
			i, ok = byAddress[f.address]
		}
		if ok {
			twice = append(twice, twin{first: kept[i], second: f})
			continue
		}
		byID[f.id()], byAddress[f.address] = len(kept), len(kept)
		kept = append(kept, f)
	}
	return kept, twice
}
