package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
	"kvwatch/rules"
)

const (
	// serverSeries are what is asked of a Prometheus-compatible server: raw
	// series of vLLM and LiteLLM under all their names. Those of a target that
	// is down are stale and not among them.
	serverSeries = `{__name__=~"process_start_time_seconds|vllm:.+|ray_vllm.+|litellm_.+"}`
	// serverMembers names whoever had such series within hours: one that is down
	// has none now.
	serverMembers = `group by (job, instance) (last_over_time({__name__=~"vllm:prompt_tokens_total|ray_vllm.prompt_tokens_total|litellm_in_flight_requests|litellm_proxy_total_requests_metric_total"}[6h]))`
	// serverSpan is the least time to look back on: a server that scrapes once a
	// minute has to have two values in it. serverStep lies between two moments.
	serverSpan = 2 * time.Minute
	serverStep = 15 * time.Second
	// serverPatience bounds all queries together.
	serverPatience = time.Minute
	// lastLine ends a page that is made of series, so that no histogram does.
	lastLine = "kvwatch_end 1\n"
)

// promServer is a Prometheus-compatible server: Prometheus, Thanos, Mimir,
// VictoriaMetrics, or kvwatch itself.
type promServer struct {
	live

	api  promv1.API
	page livePage
	// about is what it says of itself.
	about string
}

// promServer finds the API of a Prometheus-compatible server at the address;
// false where there is none.
func (l live) promServer(ctx context.Context, keyed bool) (promServer, bool) {
	given := strings.TrimSuffix(l.address.Path, "/")
	bases := []string{given, strings.TrimSuffix(given, "/metrics"), ""}
	for _, base := range slices.Compact(bases) {
		client, err := l.promClient(base, keyed)
		if err != nil {
			continue
		}
		s := promServer{live: l, api: promv1.NewAPI(client), page: livePage{scheme: l.address.Scheme, host: l.address.Host, path: base, server: true}}
		if keyed {
			s.page.keyFile = l.options.tokenFile
		}
		if info, err := s.api.Buildinfo(ctx); err == nil {
			s.about = strings.TrimSpace("a Prometheus-compatible server " + info.Version)
			return s, true
		}
		if _, _, _, err := s.api.Query(ctx, "vector(1)", time.Time{}); err == nil {
			s.about = "a Prometheus-compatible server"
			return s, true
		}
	}
	return promServer{}, false
}

func (l live) promClient(base string, keyed bool) (api.Client, error) {
	c, err := l.scrapeConfig("/metrics", keyed)
	if err != nil {
		return nil, err
	}
	client, err := config.NewClientFromConfig(c.HTTPClientConfig, "inspect")
	if err != nil {
		return nil, err
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	address := url.URL{Scheme: l.address.Scheme, Host: l.address.Host, Path: base}
	return api.NewClient(api.Config{Address: address.String(), Client: client})
}

// inspect reads what the server holds of the last minutes: there is nothing to
// wait for.
func (s promServer) inspect(ctx context.Context) ([]inspected, error) {
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	to := s.clock.now()
	span := max(s.options.watch, serverSpan)
	if !s.at.IsZero() {
		to = s.at.Add(s.options.watch)
	}
	members, err := s.query(ctx, serverMembers, to)
	if err != nil {
		return nil, err
	}
	targets := map[string]*promTarget{}
	for _, m := range members {
		if targets[promID(m.Metric)], err = s.target(m.Metric); err != nil {
			return nil, err
		}
	}
	for t := to.Add(-span); len(targets) > 0 && !t.After(to); t = t.Add(serverStep) {
		vector, err := s.query(ctx, serverSeries, t)
		if err != nil {
			return nil, err
		}
		read(targets, vector, t)
	}
	var all []inspected
	for _, id := range slices.Sorted(maps.Keys(targets)) {
		r := targets[id].inspection.Report()
		r.Quirks = append(r.Quirks, "it is read from "+s.about+", so that its values are as old as that server's last scrape")
		all = append(all, inspected{r, &s.page})
	}
	if len(all) == 0 {
		return nil, errors.New("it is " + s.about + " that holds no series of vLLM or LiteLLM: does it scrape them?")
	}
	return all, nil
}

// query asks for the values at a moment.
func (s promServer) query(ctx context.Context, text string, at time.Time) (model.Vector, error) {
	result, _, _, err := s.api.Query(ctx, text, at)
	if err != nil { // its text may hold the address with what is in it
		return nil, errors.New("it answers as " + s.about + ", and refuses to be asked for series: is the key right, or are there too many?")
	}
	vector, ok := result.(model.Vector)
	if !ok {
		return nil, errors.New("it answers as " + s.about + ", but not with a vector")
	}
	return vector, nil
}

// promTarget is one target of the server.
type promTarget struct {
	reader     *collector.SavedReader
	inspection *rules.Inspection
}

// promID names a target among those of the server.
func promID(m model.Metric) string {
	return string(m[model.JobLabel]) + "/" + string(m[model.InstanceLabel])
}

func (s promServer) target(m model.Metric) (*promTarget, error) {
	address := s.input() + "#" + promID(m)
	inspection, err := rules.NewInspection(address, s.options.rules(serverStep))
	if err != nil {
		return nil, err
	}
	return &promTarget{inspection: inspection, reader: collector.NewSavedReader(collector.Target{
		Labels: labels.FromStrings(model.JobLabel, cmp.Or(string(m[model.JobLabel]), "prometheus"), model.InstanceLabel, string(m[model.InstanceLabel])),
		URL:    address,
	})}, nil
}

// read sorts one answer by target and has each part read as a page.
func read(targets map[string]*promTarget, vector model.Vector, at time.Time) {
	pages := map[string]*strings.Builder{}
	for _, sample := range vector {
		id := promID(sample.Metric)
		if targets[id] == nil {
			continue
		}
		if pages[id] == nil {
			pages[id] = &strings.Builder{}
		}
		writeSample(pages[id], sample)
	}
	for id, t := range targets {
		page := pages[id]
		if page == nil {
			t.inspection.Observe(t.reader.Failed("down: the server that scrapes it has no values of it: it is down, or no longer scraped", at))
			continue
		}
		page.WriteString(lastLine)
		t.inspection.Observe(t.reader.Page(strings.NewReader(page.String()), at))
	}
}

// writeSample writes a line of the text format.
func writeSample(b *strings.Builder, s *model.Sample) {
	b.WriteString(string(s.Metric[model.MetricNameLabel]))
	separator := byte('{')
	for _, name := range slices.Sorted(maps.Keys(s.Metric)) {
		if name != model.MetricNameLabel {
			b.WriteByte(separator)
			fmt.Fprintf(b, `%s="%s"`, name, escapeLabel(string(s.Metric[name])))
			separator = ','
		}
	}
	if separator == '{' {
		b.WriteByte(separator)
	}
	fmt.Fprintf(b, "} %s\n", strconv.FormatFloat(float64(s.Value), 'g', -1, 64))
}

// escapeLabel escapes as the text format does.
func escapeLabel(value string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(value)
}
