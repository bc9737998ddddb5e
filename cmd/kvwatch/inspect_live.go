package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/targetgroup"

	"kvwatch/collector"
	"kvwatch/rules"
)

const (
	// inspectInterval is the time between two scrapes of a live server.
	inspectInterval = time.Second
	// inspectShare keeps scrapes from taking more than a quarter of a server's
	// time, which a gateway's page takes from its requests.
	inspectShare = 4
	// inspectTimeout bounds one scrape, inspectGrace what goes on after --for.
	inspectTimeout = 10 * time.Second
	inspectGrace   = 1500 * time.Millisecond
	// deadTries is after how many failures in a row, and none before that was
	// read, a server counts as dead.
	deadTries = 3
	// inspectAgent is how servers see the command.
	inspectAgent = "kvwatch-inspect"
)

// inspectClock is the time that live watching goes by.
type inspectClock struct {
	now func() time.Time
	// wait returns when d has passed, or ctx is done.
	wait func(ctx context.Context, d time.Duration)
}

func wallClock() inspectClock {
	return inspectClock{now: time.Now, wait: func(ctx context.Context, d time.Duration) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}}
}

// livePage is where a live server has its metrics.
type livePage struct {
	scheme, host, path string
	params             url.Values
	// keyFile is the file with the key, where the server asked for one;
	// httpFile holds the client's other settings.
	keyFile, httpFile string
	// user says that the URL held a user.
	user bool
	// server says that it is a Prometheus-compatible server, and path where its
	// API begins.
	server bool
}

// live is a server to watch.
type live struct {
	options inspectOptions
	address *url.URL // without user info
	user    *url.Userinfo
	clock   inspectClock
	// at is the moment to look at, of a server that holds the past.
	at time.Time
}

// live reads a URL, or host:port.
func (o inspectOptions) live(in string, at time.Time) (live, error) {
	if !strings.Contains(in, "://") {
		in = "http://" + in
	}
	u, err := url.Parse(in)
	if err != nil { // its text may hold credentials
		return live{}, errors.New("an input is no URL: write http://host:port/metrics")
	}
	l := live{options: o, user: u.User, address: u, clock: wallClock(), at: at}
	u.User, u.Fragment = nil, ""
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return l, inputError{l.input(), fmt.Errorf("the scheme %q is unknown: use http or https", u.Scheme)}
	case u.Host == "":
		return l, inputError{l.input(), errors.New("the URL has no host: write http://host:port/metrics")}
	}
	return l, nil
}

func (l live) input() string {
	return (&url.URL{Scheme: l.address.Scheme, Host: l.address.Host, Path: l.address.Path}).String()
}

// paths are where the page may be: as given, then at the usual places.
func (l live) paths() []string {
	given := l.address.Path
	var all []string
	add := func(path string) {
		if !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	base := strings.TrimSuffix(given, "/")
	if base != "" {
		add(given)
	}
	if base != "" && !strings.HasSuffix(base, "/metrics") {
		add(base + "/metrics")
	}
	add("/metrics")
	add("/metrics/")
	if base == "" {
		add("/")
	}
	return all
}

// scrapeConfig is the configuration of the page at path; keyed sends the key.
func (l live) scrapeConfig(path string, keyed bool) (collector.ScrapeConfig, error) {
	c := collector.DefaultScrapeConfig()
	c.JobName, c.Scheme, c.MetricsPath, c.Params = "inspect", l.address.Scheme, path, l.address.Query()
	timeout := model.Duration(min(inspectTimeout, l.options.watch+inspectGrace))
	c.ScrapeInterval, c.ScrapeTimeout = timeout, timeout
	c.StaticConfigs = []*targetgroup.Group{{Targets: []model.LabelSet{{model.AddressLabel: model.LabelValue(l.address.Host)}}}}
	var err error
	c.HTTPClientConfig, err = l.httpConfig(keyed)
	return c, err
}

// httpConfig is the HTTP client's configuration; keyed sends the key.
func (l live) httpConfig(keyed bool) (config.HTTPClientConfig, error) {
	c, err := l.options.http.client(keyed)
	if err != nil || keyed || l.user == nil {
		return c, err
	}
	if hasCredentials(c) {
		return c, fmt.Errorf("the URL and %s both hold credentials: give one", l.options.http.configFile)
	}
	password, _ := l.user.Password()
	c.BasicAuth = &config.BasicAuth{Username: l.user.Username(), Password: config.Secret(password)}
	return c, nil
}

// page is where the metrics, or the API, were found.
func (l live) page(path string, keyed bool) livePage {
	p := livePage{scheme: l.address.Scheme, host: l.address.Host, path: path, httpFile: l.options.http.configFile, user: l.user != nil}
	if keyed {
		p.keyFile = l.options.http.tokenFile
	}
	return p
}

// attempt is one page that was tried.
type attempt struct {
	prober *collector.Prober
	path   string
	keyed  bool
	round  *collector.Round
	info   collector.PageInfo
}

// try scrapes the page at path once, with the key where the server asks for it.
func (l live) try(ctx context.Context, path string) (attempt, error) {
	a := attempt{path: path}
	for {
		c, err := l.scrapeConfig(path, a.keyed)
		if err != nil {
			return a, err
		}
		if a.prober, err = collector.NewProber(c, inspectAgent); err != nil {
			return a, err
		}
		a.round, a.info = a.prober.Scrape(ctx, l.clock.now())
		if a.round.State != collector.StateUnauthorised || a.keyed || l.options.http.tokenFile == "" {
			return a, nil
		}
		a.prober.Close()
		a.keyed = true
	}
}

// find tries the paths until a page is read. Where none is, it returns the
// attempt that says most.
func (l live) find(ctx context.Context) (attempt, error) {
	var best attempt
	for _, path := range l.paths() {
		a, err := l.try(ctx, path)
		if err != nil {
			return a, err
		}
		// An error of a path says nothing of a server that answers at another.
		astray := a.round.State == collector.StateDown && best.prober != nil && tells(best.round.State) > 0
		if best.prober == nil || tells(a.round.State) > tells(best.round.State) && !astray {
			if best.prober != nil {
				best.prober.Close()
			}
			best = a
		} else {
			a.prober.Close()
		}
		if tells(best.round.State) >= tells(collector.StateDown) {
			break
		}
	}
	return best, nil
}

// tells orders states by what they say of where the page is: a server that has
// no page here may have it elsewhere, one that is dead has it nowhere.
func tells(s collector.State) int {
	switch s {
	case collector.StateUp:
		return 4
	case collector.StateDown, collector.StateTimeout, collector.StateUnauthorised, collector.StateOverloaded,
		collector.StateTooLarge, collector.StateTruncated, collector.StateMetricsDisabled:
		return 3
	case collector.StateNoMetrics, collector.StateRedirect:
		return 2
	case collector.StateNotMetrics:
		return 1
	default:
		return 0
	}
}

// mayBePromServer says that there may be a server that has no page which is
// known: some answer any path that they do not know with an error of their own.
func mayBePromServer(s collector.State) bool {
	switch s {
	case collector.StateNoMetrics, collector.StateNotMetrics, collector.StateNotFound, collector.StateUnauthorised, collector.StateRedirect, collector.StateDown:
		return true
	default:
		return false
	}
}

// hopeless says that a state stays until somebody does something.
func hopeless(s collector.State) bool {
	switch s {
	case collector.StateUnauthorised, collector.StateNotFound, collector.StateNoMetrics, collector.StateNotMetrics,
		collector.StateRedirect, collector.StateTooLarge, collector.StateMetricsDisabled:
		return true
	default:
		return false
	}
}

// inspect finds the server's page and watches it.
func (l live) inspect(ctx context.Context) ([]inspected, error) {
	limited, cancel := context.WithTimeout(ctx, l.options.watch+inspectGrace)
	defer cancel()
	began := l.clock.now()
	a, err := l.find(limited)
	if err != nil {
		return nil, err
	}
	if mayBePromServer(a.round.State) {
		if server, ok := l.promServer(limited, a.keyed); ok {
			a.prober.Close()
			return server.inspect(ctx)
		}
	}
	if silent, ok := l.silent(limited, a); ok {
		a.prober.Close()
		a = silent
	}
	inspection, err := rules.NewInspection(l.input(), l.options.rules(inspectInterval))
	if err != nil {
		return nil, err
	}
	inspection.Observe(a.round, a.info)
	l.watch(limited, a, inspection, began.Add(l.options.watch))
	cancel()
	a.prober.Close()
	inspection.SetVersion(a.prober.Version())
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	report := inspection.Report()
	if report.State == collector.StateUnauthorised {
		report.Advise(l.keyAdvice(a))
	}
	page := l.page(a.path, a.keyed)
	page.params = l.address.Query()
	return []inspected{{report, &page}}, nil
}

// silent sees whether a page that holds nothing known is that of a vLLM server
// whose metrics are switched off: such a server tells its version all the same.
func (l live) silent(ctx context.Context, a attempt) (attempt, bool) {
	if a.round.State != collector.StateNoMetrics {
		return a, false
	}
	c, err := l.scrapeConfig(a.path, a.keyed)
	if err != nil {
		return a, false
	}
	c.Source = collector.SourceVLLM
	silent := attempt{path: a.path, keyed: a.keyed}
	if silent.prober, err = collector.NewProber(c, inspectAgent); err != nil {
		return a, false
	}
	silent.round, silent.info = silent.prober.Scrape(ctx, l.clock.now())
	silent.prober.Close() // after which the version is there
	return silent, silent.round.State == collector.StateMetricsDisabled && silent.prober.Version() != ""
}

func (l live) keyAdvice(a attempt) string {
	switch o := l.options.http; {
	case a.keyed:
		return "the server refuses the key in " + o.tokenFile + ": use one that may read the metrics"
	case o.configFile != "":
		return "the server refuses what " + o.configFile + " authorises with: use credentials that may read the metrics"
	default:
		return "the server wants a key: give the file that holds it with --bearer-token-file (LiteLLM's /metrics needs one by default), or other credentials with --http.config.file"
	}
}

// pauseBefore is how long to wait for the next scrape where the last one took so
// long and so much is left of the watch: the last scrape ends in time, so that a
// slow server is read twice as well.
func pauseBefore(took, left time.Duration) time.Duration {
	pause := min(max(inspectInterval, inspectShare*took), left)
	return max(min(pause, left+inspectGrace-took*5/4), 0)
}

// watch scrapes until the watch is over, or nothing is to be expected.
func (l live) watch(ctx context.Context, a attempt, to *rules.Inspection, until time.Time) {
	round, failures, read := a.round, 0, false
	for {
		if round.State == collector.StateUp {
			read, failures = true, 0
		} else {
			failures++
		}
		if hopeless(round.State) || !read && failures >= deadTries {
			return
		}
		left := until.Sub(l.clock.now())
		if left <= 0 {
			return
		}
		l.clock.wait(ctx, pauseBefore(round.Duration, left))
		if ctx.Err() != nil {
			return
		}
		next, info := a.prober.Scrape(ctx, l.clock.now())
		if ctx.Err() != nil && next.State != collector.StateUp {
			return // cut off by the end of the watch, not by the server
		}
		round = next
		to.Observe(round, info)
	}
}
