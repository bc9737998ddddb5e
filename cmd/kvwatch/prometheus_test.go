package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kvwatch/cmd/fleetsim/fleet"
)

// queryServers are the real servers that kvwatch is tested against.
var queryServers = []struct {
	name  string
	start func(t *testing.T, config, history string) *realServer
}{
	{"Prometheus", startPrometheus},
	{"VictoriaMetrics", startVictoriaMetrics},
}

// behindPrometheus is kvwatch's configuration for what a server has scraped.
func behindPrometheus(t *testing.T, server *realServer, interval string) string {
	t.Helper()
	return writeFile(t, filepath.Join(t.TempDir(), "kvwatch.yml"), fmt.Sprintf(`
global: {scrape_interval: %s, scrape_timeout: 1s, evaluation_interval: 1s}
prometheus_sources: [{url: %q}]
route: {receiver: terminal, group_by: [alertname, instance], group_wait: 1s}
receivers: [{name: terminal, terminal_configs: [{}]}]
rules: {TargetDown: {for: 1s}}
`, interval, server.url))
}

// TestPrometheusAsSource reads a simulated fleet that a real server scrapes.
func TestPrometheusAsSource(t *testing.T) {
	t.Parallel()
	for _, server := range queryServers {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			sim, err := fleet.New(fleet.Config{Engines: 2, Start: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = sim.Run(t.Context(), 4) }()
			engines := []*httptest.Server{httptest.NewServer(sim.Handler(0)), httptest.NewServer(sim.Handler(1))}
			gateway := httptest.NewServer(sim.GatewayHandler())
			defer engines[0].Close()
			defer engines[1].Close()
			defer gateway.Close()
			address := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
			s := server.start(t, fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - {job_name: vllm, static_configs: [{targets: [%q, %q], labels: {namespace: models, pod: p}}]}
  - {job_name: gateway, metrics_path: /metrics/, static_configs: [{targets: [%q]}]}
  - {job_name: other, static_configs: [{targets: ["127.0.0.1:1"]}]}
`, address(engines[0]), address(engines[1]), address(gateway)), "")
			eventually(t, "the server has scraped all", func() error {
				got, err := s.query(`count(up==1)`)
				if err != nil || len(got) != 1 || got[0] != 3 {
					return fmt.Errorf("%v up (%w)", got, err)
				}
				return nil
			})

			p := runDaemon(t, behindPrometheus(t, s, "1s"), t.TempDir())
			p.eventually(t, "it shows the fleet", func() error {
				for query, want := range map[string]float64{
					`count(up{job=~"vllm|gateway"}==1)`: 3,
					`count(up{job="prometheus"}==1)`:    1,
					`count(up)`:                         4, // nothing that is no LLM server
					`count(kvwatch_prefix_cache_hit_ratio{job="vllm",window="1m"} > 0)`: 2,
					`count(kvwatch_gateway_in_flight_requests{job="gateway"})`:          1,
					`count(vllm:prompt_tokens_total{engine="0",namespace="",pod=""})`:   2,
				} {
					if got, err := p.query(query); err != nil || len(got) != 1 || got[0] != want {
						return fmt.Errorf("%s is %v (%w), want %g", query, got, err, want)
					}
				}
				return nil
			})
			// Samples have the times of the scrapes, so that both hold the same ones.
			const total = `vllm:prompt_tokens_total`
			p.eventually(t, "both hold the same counters", func() error {
				query := fmt.Sprintf("sum(%s offset 2s)", total)
				want, err := s.query(query)
				if err != nil {
					return err
				}
				got, err := p.query(query)
				if err != nil || len(got) != 1 || len(want) != 1 || math.Abs(got[0]-want[0]) > 0.2*want[0] {
					return fmt.Errorf("%v here, %v there (%w)", got, want, err)
				}
				return nil
			})
			if log := p.stderr.String(); strings.Contains(log, "not filled back whole") {
				t.Error("the start could not fill history back")
			}
			if personal, err := p.query(`count({hashed_api_key!=""})`); err != nil || len(personal) != 0 {
				t.Errorf("series with keys: %v (%v)", personal, err)
			}

			engines[1].CloseClientConnections()
			engines[1].Close()
			p.eventually(t, "the dead engine is down and the others are not", func() error {
				if got, err := p.query(`count(up{job="vllm"}==0)`); err != nil || len(got) != 1 || got[0] != 1 {
					return fmt.Errorf("%v down (%w)", got, err)
				}
				if out := p.stdout.String(); !strings.Contains(out, "TargetDown") || !strings.Contains(out, address(engines[1])) {
					return errors.New("nobody was told")
				}
				return nil
			})
			// A server that is gone is down itself; what it knows is unknown.
			_ = s.cmd.Process.Kill()
			p.eventually(t, "the server is down, its targets unknown", func() error {
				states, err := targetStates(p)
				if err != nil || states["prometheus"] != "down" || states["gateway"] != "unknown" {
					return fmt.Errorf("states %v (%w)", states, err)
				}
				return nil
			})
			if got, err := p.query(`count(up{job="gateway"}==0)`); err != nil || len(got) != 0 {
				t.Errorf("the gateway is called down: %v (%v)", got, err)
			}
		})
	}
}

// targetStates are the states by job.
func targetStates(p *process) (map[string]string, error) {
	body, err := p.get("/api/v1/targets")
	if err != nil {
		return nil, err
	}
	var res struct {
		Data struct {
			Active []struct {
				Labels map[string]string `json:"labels"`
				State  string            `json:"health"`
			} `json:"activeTargets"`
		} `json:"data"`
	}
	err = json.Unmarshal([]byte(body), &res)
	states := map[string]string{}
	for _, t := range res.Data.Active {
		states[t.Labels["job"]] = t.State
	}
	return states, err
}

// past is two hours of a fleet at 15 seconds before now, in OpenMetrics, and
// some minutes after, with the counter of prompt tokens now and at the end.
func past(t *testing.T, now time.Time) (history string, prompts, last float64) {
	t.Helper()
	const step, span = 15 * time.Second, 2 * time.Hour
	sim, err := fleet.New(fleet.Config{Engines: 1, Start: now.Add(-span), Workload: fleet.Workload{Sessions: 6}})
	if err != nil {
		t.Fatal(err)
	}
	families := []string{"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:prompt_tokens_total", "vllm:prompt_tokens_cached_total", "vllm:request_prompt_tokens_sum", "vllm:request_prompt_tokens_count", "vllm:request_success_total", "vllm:cache_config_info"}
	lines := map[string][]string{}
	for since := time.Duration(0); since <= span+5*time.Minute; since += step {
		sim.Step(since)
		var page bytes.Buffer
		if err := sim.EnginePage(0, &page); err != nil {
			t.Fatal(err)
		}
		at := float64(now.Add(since-span).UnixMilli()) / 1000
		lines["up"] = append(lines["up"], fmt.Sprintf("up{job=\"vllm\",instance=\"a:8000\"} 1 %.3f\n", at))
		for line := range strings.Lines(page.String()) {
			for _, name := range families {
				rest, ok := strings.CutPrefix(line, name+"{")
				if !ok {
					continue
				}
				lines[name] = append(lines[name], fmt.Sprintf("%s{job=\"vllm\",instance=\"a:8000\",%s %.3f\n", name, strings.TrimSpace(rest), at))
				if name == "vllm:prompt_tokens_total" {
					_, _ = fmt.Sscan(rest[strings.LastIndexByte(rest, ' '):], &last)
					if since <= span {
						prompts = last
					}
				}
			}
		}
	}
	var b strings.Builder
	for _, name := range append(families, "up") {
		kind := "gauge"
		if strings.HasSuffix(name, "_total") {
			kind = "counter"
		}
		fmt.Fprintf(&b, "# TYPE %s %s\n%s", strings.TrimSuffix(name, "_total"), kind, strings.Join(lines[name], ""))
	}
	return b.String() + "# EOF\n", prompts, last
}

// TestPrometheusBackfill fills two hours of history from a real server.
func TestPrometheusBackfill(t *testing.T) {
	t.Parallel()
	history, prompts, last := past(t, time.Now())
	for _, server := range queryServers {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			s := server.start(t, "scrape_configs: []", history)
			storage := t.TempDir()
			p := runDaemon(t, behindPrometheus(t, s, "15s"), storage)
			check := func(p *process) {
				t.Helper()
				p.eventually(t, "history and what is derived from it are there", func() error {
					for query, want := range map[string][2]float64{
						`count_over_time(up{job="vllm"}[3h])`:                                  {478, 505},
						`max_over_time(vllm:prompt_tokens_total[3h])`:                          {prompts, last},
						`max_over_time(kvwatch_prefix_cache_hit_ratio{window="2h"}[5m])`:       {0.01, 1},
						`max_over_time(kvwatch_kv_capacity_tokens{engine="0",job="vllm"}[5m])`: {1000, 1e9},
					} {
						if got, err := p.query(query); err != nil || len(got) != 1 || got[0] < want[0] || got[0] > want[1] {
							return fmt.Errorf("%s is %v (%w), want %v", query, got, err, want)
						}
					}
					return nil
				})
			}
			check(p)
			// Again over what is there already: nothing is refused, nothing comes twice.
			p.signal(t, syscall.SIGTERM)
			if err := p.wait(t); err != nil {
				t.Fatal(err)
			}
			again := runDaemon(t, behindPrometheus(t, s, "15s"), storage)
			check(again)
			if log := again.stderr.String(); strings.Contains(log, "not filled back whole") {
				t.Errorf("the second start says %s", log)
			}
		})
	}
}
