package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// firstPid is the process id of the gateway's first worker.
const firstPid = 19

// gatewayMetrics are the families of the gateway's page. Most of their series
// are made when they are first counted, as LiteLLM's are.
type gatewayMetrics struct {
	page  *page
	fleet *Fleet
	// perCall are the series that a good call of a user on an engine counts,
	// looked up once.
	perCall map[[2]int]*callSeries
	// healthy are the states of the deployments, by engine and worker.
	healthy  map[[2]int]*series
	inFlight *series
	started  time.Time
}

// callSeries are the series of one user and one engine.
type callSeries struct {
	requests, oldRequests, spend, total, input, output *series
	cached, oldCached, cacheMisses                     *series
	success, attempts, perOutputToken                  *series
	latency, apiLatency, ttft, queueTime, overhead     *series
}

// newGatewayMetrics begins a page as a fresh process does.
func newGatewayMetrics(f *Fleet) *gatewayMetrics {
	started := f.wallClock()
	multiprocess := f.config.GatewayWorkers > 1
	p := newPage(f.litellm, pageOptions{
		multiprocess: multiprocess, now: started, life: uint64(f.gateway.life),
		seeded: func(name string) bool { return seededAtStart(name, multiprocess) },
	})
	m := &gatewayMetrics{page: p, fleet: f, perCall: map[[2]int]*callSeries{}, healthy: map[[2]int]*series{}, started: started}
	m.inFlight = p.find("litellm_in_flight_requests")
	if multiprocess {
		p.perProcess("litellm_in_flight_requests")
	} else {
		p.find("process_start_time_seconds").set(unixSeconds(started))
	}
	return m
}

// seededAtStart says which families have series before the first call. The
// gauges among them that have a pid in the multiprocess mode are left out there.
func seededAtStart(name string, multiprocess bool) bool {
	switch name {
	case "litellm_in_flight_requests":
		return true
	case "litellm_redis_circuit_breaker_state", "litellm_total_users", "litellm_active_users", "litellm_teams_count":
		return !multiprocess
	}
	return !strings.HasPrefix(name, "litellm_")
}

// identity are the labels of the person behind a call. All of it is made up.
func (m *gatewayMetrics) identity(user int) map[string]string {
	team := user % 3
	sum := sha256.Sum256(fmt.Appendf(nil, "key of simulated user %d", user))
	return map[string]string{
		"hashed_api_key": hex.EncodeToString(sum[:]), "api_key_alias": fmt.Sprintf("agent-key-%d", user),
		"team": fmt.Sprintf("team-%d", team), "team_alias": []string{"platform", "payments", "search"}[team],
		"user": fmt.Sprintf("user-%d", user), "client_ip": fmt.Sprintf("192.0.2.%d", user%250+1),
		"user_agent": "agent-cli/2.4.1", "route": "/v1/chat/completions",
		"requested_model": m.fleet.config.GatewayModel, "model_group": m.fleet.config.GatewayModel,
		"api_provider": "hosted_vllm",
	}
}

// deployment adds the labels of an engine as LiteLLM sees it while calls reach it.
func (m *gatewayMetrics) deployment(lset map[string]string, engine int) map[string]string {
	lset["model"] = m.fleet.config.Model
	lset["litellm_model_name"] = m.fleet.config.Model
	lset["model_id"] = EngineName(engine)
	lset["api_base"] = fmt.Sprintf("http://%s:8000/v1/chat/completions", EngineName(engine))
	return lset
}

// EngineName is the gateway's name of an engine: its model_id, and its host.
func EngineName(i int) string { return fmt.Sprintf("vllm-%d", i) }

// forCall returns the series that a good call counts.
func (m *gatewayMetrics) forCall(user, engine int) *callSeries {
	key := [2]int{user, engine}
	if s := m.perCall[key]; s != nil {
		return s
	}
	lset := m.deployment(m.identity(user), engine)
	lset["status_code"] = "200"
	get := func(name string) *series { return m.page.with(m.fleet.wallClock(), name, lset) }
	s := &callSeries{
		requests:       get("litellm_proxy_total_requests_metric_total"),
		oldRequests:    get("litellm_requests_metric_total"),
		spend:          get("litellm_spend_metric_total"),
		total:          get("litellm_total_tokens_metric_total"),
		input:          get("litellm_input_tokens_metric_total"),
		output:         get("litellm_output_tokens_metric_total"),
		cacheMisses:    get("litellm_cache_misses_metric_total"),
		success:        get("litellm_deployment_success_responses_total"),
		attempts:       get("litellm_deployment_total_requests_total"),
		perOutputToken: get("litellm_deployment_latency_per_output_token"),
		latency:        get("litellm_request_total_latency_metric"),
		apiLatency:     get("litellm_llm_api_latency_metric"),
		queueTime:      get("litellm_request_queue_time_seconds"),
	}
	for _, name := range []string{
		"litellm_remaining_api_key_requests_for_model", "litellm_remaining_api_key_tokens_for_model",
	} {
		m.gauge(name, lset, 0).set(9.223372036854776e18) // no limit is set
	}
	for _, name := range []string{"litellm_remaining_api_key_budget_metric", "litellm_remaining_user_budget_metric"} {
		m.gauge(name, lset, 0).set(math.Inf(1)) // nor a budget
	}
	m.perCall[key] = s
	return s
}

// answered books a call that ended well, as LiteLLM does after the answer.
func (m *gatewayMetrics) answered(c *call) {
	now := m.fleet.now
	s := m.forCall(c.session.user, c.engine)
	s.requests.add(1)
	s.oldRequests.add(1)
	s.spend.add(0) // nothing has a price
	s.total.add(float64(c.promptTokens + c.outputTokens))
	s.input.add(float64(c.promptTokens))
	s.output.add(float64(c.outputTokens))
	s.cacheMisses.add(1)
	s.success.add(1)
	s.attempts.add(1)
	s.latency.observe((now - c.began).Seconds())
	s.apiLatency.observe((now - c.passed).Seconds())
	s.queueTime.observe(max(0, c.passed-c.began-perCall/2).Seconds())
	m.sparse(c, s)
	m.answers(c.engine, c.worker).set(0)
}

// sparse books what only some calls have: cached tokens, a first token, an
// overhead (plain calls only, as in this version).
func (m *gatewayMetrics) sparse(c *call, s *callSeries) {
	get := func(known **series, name string) *series {
		if *known == nil {
			lset := m.deployment(m.identity(c.session.user), c.engine)
			*known = m.page.with(m.fleet.wallClock(), name, lset)
		}
		return *known
	}
	if cached := c.request.cached; cached > 0 {
		get(&s.cached, "litellm_input_cached_tokens_metric_total").add(float64(cached))
		get(&s.oldCached, "litellm_provider_cache_read_input_tokens_metric_total").add(float64(cached))
	}
	if !c.streamed {
		get(&s.overhead, "litellm_overhead_latency_metric").observe((perCall + perAnswer).Seconds())
		s.perOutputToken.observe((m.fleet.now - c.sent).Seconds() / float64(c.outputTokens))
		return
	}
	ttft := (c.firstToken - c.sent).Seconds()
	get(&s.ttft, "litellm_llm_api_time_to_first_token_metric").observe(ttft)
	s.perOutputToken.observe(ttft / float64(c.outputTokens))
}

// attemptFailed books one try at an engine that ended badly.
func (m *gatewayMetrics) attemptFailed(c *call) {
	lset := m.deployment(m.identity(c.session.user), c.engine)
	lset["exception_status"], lset["exception_class"] = "500", "Hosted_vllm.InternalServerError"
	m.count("litellm_deployment_failure_responses_total", lset)
	m.count("litellm_deployment_total_requests_total", lset)
	m.count("litellm_llm_api_failed_requests_metric_total", lset)
	m.answers(c.engine, c.worker).set(1)
}

// cooledDown books that a deployment gets no calls for a while. LiteLLM writes
// its state under other labels then: those of the configuration.
func (m *gatewayMetrics) cooledDown(engine int) {
	m.count("litellm_deployment_cooled_down_total", map[string]string{
		"api_base": fmt.Sprintf("http://%s:8000/v1", EngineName(engine)), "api_provider": "hosted_vllm",
		"litellm_model_name": m.fleet.config.GatewayModel, "model_id": EngineName(engine), "exception_status": "500",
	})
	m.state(engine, m.fleet.config.GatewayModel, "", 0).set(2)
}

// failed books a call that ended badly for the client.
func (m *gatewayMetrics) failed(c *call, status, class string) {
	lset := m.deployment(m.identity(c.session.user), c.engine)
	if !c.asked {
		lset["model_id"] = "None"
	}
	lset["status_code"], lset["exception_status"], lset["exception_class"] = status, status, class
	m.count("litellm_proxy_total_requests_metric_total", lset)
	m.count("litellm_proxy_failed_requests_metric_total", lset)
}

func (m *gatewayMetrics) count(name string, lset map[string]string) {
	m.page.with(m.fleet.wallClock(), name, lset).add(1)
}

// answers is what one worker last thought of a deployment after a call.
func (m *gatewayMetrics) answers(engine, worker int) *series {
	key := [2]int{engine, worker}
	if m.healthy[key] == nil {
		m.healthy[key] = m.state(engine, m.fleet.config.Model, "/chat/completions", worker)
	}
	return m.healthy[key]
}

// state is what one worker last thought of a deployment: 0 healthy, 1 partial
// outage, 2 complete outage.
func (m *gatewayMetrics) state(engine int, modelName, path string, worker int) *series {
	return m.gauge("litellm_deployment_state", map[string]string{
		"api_base": fmt.Sprintf("http://%s:8000/v1%s", EngineName(engine), path), "api_provider": "hosted_vllm",
		"litellm_model_name": modelName, "model_id": EngineName(engine),
	}, worker)
}

// gauge returns a gauge's series; in the multiprocess mode each worker has its own.
func (m *gatewayMetrics) gauge(name string, lset map[string]string, worker int) *series {
	if m.fleet.config.GatewayWorkers > 1 {
		lset["pid"] = strconv.Itoa(firstPid + worker)
		defer delete(lset, "pid")
	}
	return m.page.with(m.fleet.wallClock(), name, lset)
}

// refresh sets the gauges to the present. The scrape itself is one of the
// requests in flight.
func (m *gatewayMetrics) refresh(g *gateway) {
	m.inFlight.set(float64(g.inFlight + 1))
	if m.fleet.config.GatewayWorkers > 1 {
		return
	}
	m.page.find("process_cpu_seconds_total").set(0.3 * m.fleet.wallClock().Sub(m.started).Seconds())
}

// check makes sure that every family that may be counted is in the shape.
func (m *gatewayMetrics) check() error {
	for _, name := range []string{
		"litellm_deployment_failure_responses_total", "litellm_llm_api_failed_requests_metric_total",
		"litellm_deployment_cooled_down_total", "litellm_proxy_failed_requests_metric_total",
		"litellm_llm_api_time_to_first_token_metric", "litellm_overhead_latency_metric", "litellm_deployment_state",
		"litellm_input_cached_tokens_metric_total", "litellm_provider_cache_read_input_tokens_metric_total",
	} {
		if f := m.page.byName[name]; f == nil || f.kind == model.MetricTypeUnknown {
			return fmt.Errorf("the shape has no family %s", name)
		}
	}
	return m.page.err
}
