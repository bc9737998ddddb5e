package main

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"kvwatch/collector"
	"kvwatch/rules"
)

const (
	// serverSpan is the least time to look back on: a server that scrapes once a
	// minute has to have two values in it. serverStep lies between two moments.
	serverSpan = 2 * time.Minute
	serverStep = 5 * time.Second
	// serverPatience bounds all queries together.
	serverPatience = time.Minute
)

// promServer is a Prometheus-compatible server: Prometheus, Thanos, Mimir,
// VictoriaMetrics, or kvwatch itself.
type promServer struct {
	live

	prober *collector.PrometheusProber
	page   livePage
	// name is what it calls itself.
	name string
}

// promServer finds the API of a Prometheus-compatible server at the address;
// false where there is none.
func (l live) promServer(ctx context.Context, keyed bool) (promServer, bool) {
	given := strings.TrimSuffix(l.address.Path, "/")
	bases := []string{given, strings.TrimSuffix(given, "/metrics"), ""}
	for _, base := range slices.Compact(bases) {
		prober, err := l.promProber(base, keyed)
		if err != nil {
			continue
		}
		name, err := prober.Name(ctx)
		if err != nil {
			prober.Close()
			continue
		}
		page := l.page(base, keyed)
		page.server = true
		return promServer{live: l, prober: prober, name: name, page: page}, true
	}
	return promServer{}, false
}

func (l live) promProber(base string, keyed bool) (*collector.PrometheusProber, error) {
	c := collector.DefaultPrometheusConfig()
	c.URL = &config.URL{URL: &url.URL{Scheme: l.address.Scheme, Host: l.address.Host, Path: base}}
	c.Interval = model.Duration(serverStep)
	var err error
	if c.HTTPClientConfig, err = l.httpConfig(keyed); err != nil {
		return nil, err
	}
	return collector.NewPrometheusProber(c, inspectAgent)
}

// inspect reads what the server holds of the last minutes: there is nothing to
// wait for.
func (s promServer) inspect(ctx context.Context) ([]inspected, error) {
	defer s.prober.Close()
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	to := s.clock.now()
	if !s.at.IsZero() {
		to = s.at.Add(s.options.watch)
	}
	targets := map[string]*rules.Inspection{}
	var failed error
	err := s.prober.Between(ctx, to.Add(-max(s.options.watch, serverSpan)), to, func(r *collector.Round, info collector.PageInfo) {
		id := r.Target.Labels.Get(model.JobLabel) + "/" + r.Target.Labels.Get(model.InstanceLabel)
		if targets[id] == nil {
			i, err := rules.NewInspection(s.input()+"#"+id, s.options.rules(serverStep))
			if err != nil {
				failed = err
				return
			}
			targets[id] = i
		}
		targets[id].Observe(r, info)
	})
	if err = errors.Join(failed, err); err != nil {
		return nil, errors.New("it answers as " + s.name + ", and not for its series: " + err.Error())
	}
	var all []inspected
	for _, id := range slices.Sorted(maps.Keys(targets)) {
		r := targets[id].Report()
		r.Quirks = append(r.Quirks, "it is read from "+s.name+", so that its values are as old as that server's last scrape")
		all = append(all, inspected{r, &s.page})
	}
	if len(all) == 0 {
		return nil, errors.New("it is " + s.name + " that holds no series of vLLM or LiteLLM: does it scrape them?")
	}
	return all, nil
}
