package collector

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// memberSpan is how far back a target may have been known to count as one that
// is missed now.
const memberSpan = 6 * time.Hour

// PrometheusProber reads from one server with Prometheus's query API what it
// holds of a stretch of time, without a schedule. It is not safe for concurrent
// use.
type PrometheusProber struct {
	server *promServer
}

// NewPrometheusProber makes a prober of an entry of prometheus_sources. It fails
// where the entry is wrong or a file that it names cannot be read; nothing is
// contacted before it is asked.
func NewPrometheusProber(c PrometheusConfig, userAgent string) (*PrometheusProber, error) {
	p, err := NewPrometheus(PrometheusOptions{
		Global: DefaultGlobalConfig(), Sources: []PrometheusConfig{c}, UserAgent: userAgent,
		Sink: func(context.Context, *Round) {},
	})
	if err != nil {
		return nil, err
	}
	return &PrometheusProber{p.servers[0]}, nil
}

// Name says what the server calls itself. An error says that no query API
// answers at the address, or not to whoever asks; it holds no secret.
func (p *PrometheusProber) Name(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.server.config.Timeout))
	defer cancel()
	if _, err := p.server.client.instant(ctx, "vector(1)", func(*querySeries) error { return nil }); err != nil {
		return "", err
	}
	return p.server.client.name(ctx), nil
}

// Between hands the rounds of all targets from one time to another to each, in
// order of time for every target, with what is known beside a page. A target of
// which the server knew something within hours, and nothing in that time, has
// one round of StateUnknown. A round is valid until the next call.
func (p *PrometheusProber) Between(ctx context.Context, from, to time.Time, each func(*Round, PageInfo)) error {
	s := p.server
	if err := s.remember(ctx, to); err != nil {
		return err
	}
	seen := map[string]bool{}
	for past := s.backfill(from, to); !past.done(); {
		err := past.stretch(ctx, func(r *Round, info pageInfo) {
			seen[targetID(r.Target.Labels.Get(model.JobLabel), r.Target.Labels.Get(model.InstanceLabel))] = true
			each(r, info.public())
		})
		if err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.targets)) {
		if t := s.targets[id]; !seen[id] {
			each(t.rounds.failed(failure{StateUnknown, s.config.URL.Host + " knows nothing of it any more, neither its series nor its up: it is scraped no longer, or not by this server"}, to), PageInfo{})
		}
	}
	return nil
}

// Close gives back the prober's connections.
func (p *PrometheusProber) Close() { p.server.client.client.CloseIdleConnections() }

// remember makes targets of all that had the one series that each page has,
// within hours before a time: one that is down has no series any more, and its
// job may have none.
func (s *promServer) remember(ctx context.Context, at time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, backfillTimeout)
	defer cancel()
	var names []string
	for _, n := range []string{VLLMPromptTokens, LiteLLMInFlight, LiteLLMRequests} {
		names = append(names, exposedNames(registered.samples[n].family)...)
	}
	query := fmt.Sprintf(`group by (__name__, job, instance) (last_over_time({__name__=~"%s"}[%s]))`, strings.Join(names, "|"), model.Duration(memberSpan))
	ms := at.UnixMilli()
	_, err := s.client.between(ctx, query, ms, ms, time.Minute, func(q *querySeries) error {
		job, instance := q.Metric[model.JobLabel], q.Metric[model.InstanceLabel]
		if job == "" || instance == "" {
			return nil
		}
		one := &promSeen{job: job, instance: instance}
		if n := registered.samples[q.Metric[model.MetricNameLabel]]; n != nil {
			one.source = n.family.source.name
		}
		s.target(targetID(job, instance), one)
		return nil
	})
	return err
}

// name is what the server says of itself; some say nothing.
func (q *queryClient) name(ctx context.Context) string {
	const nameless = "a Prometheus-compatible server"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, q.base.JoinPath("/api/v1/status/buildinfo").String(), http.NoBody)
	if err != nil {
		return nameless
	}
	resp, err := q.client.Do(req)
	if err != nil {
		return nameless
	}
	defer resp.Body.Close()
	var told struct {
		Data struct {
			Application string `json:"application"`
			Version     string `json:"version"`
			GoVersion   string `json:"goVersion"`
		} `json:"data"`
	}
	if json.NewDecoder(io.LimitReader(resp.Body, drainBytes)).Decode(&told) != nil {
		return nameless
	}
	about := told.Data
	if about.Application == "" && about.GoVersion == "" {
		return nameless // VictoriaMetrics names a version of Prometheus that it stands for
	}
	name := nameless
	if about.Application != "" {
		name = clip(about.Application)
	}
	return strings.TrimSpace(name + " " + clip(about.Version))
}
