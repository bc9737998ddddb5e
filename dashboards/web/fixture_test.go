package web

import (
	"io/fs"
	"log/slog"
	"math"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/collector"
	"kvwatch/collector/history"
	"kvwatch/rules"
	"kvwatch/rules/sizing"
)

// fixtureNow is the fixture's present: 22 minutes after the collapse began.
var fixtureNow = time.Date(2026, 11, 29, 14, 30, 0, 0, time.UTC)

const fixtureStep = 15 * time.Second

// fixture is a fleet in the middle of an incident: pool agents lost its prefix
// cache 22 minutes ago, pool chat is quiet and still learning, one engine wants
// credentials, and the gateway measures its overhead for few calls only.
type fixture struct {
	t     *testing.T
	store *history.Store
	past  time.Duration
}

// newFixture opens a real store and fills it with the given past.
func newFixture(t *testing.T, past time.Duration) *fixture {
	t.Helper()
	store, err := history.Open(history.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &fixture{t: t, store: store, past: past}
	f.fill()
	return f
}

func (f *fixture) options() Options {
	return Options{
		Version:   "0.1.0-test",
		Targets:   fixtureTargets,
		Recorded:  fixtureRecorded,
		Alerts:    fixtureAlerts,
		Detectors: fixtureDetectors,
		Pools:     fixturePools,
		Sessions:  fixtureSessions,
		Events:    fixtureEvents,
		Plans:     fixturePlans,
		Reviews:   fixtureReviews,
		ReadReview: func(name, form string) ([]byte, error) {
			if name != fixtureReviews()[0].Name {
				return nil, fs.ErrNotExist
			}
			return []byte("the review as " + form), nil
		},
		Queryable: f.store.Queryable(),
		Now:       func() time.Time { return fixtureNow },
		Logger:    slog.New(slog.DiscardHandler),
		Runbooks: fstest.MapFS{
			"PrefixCacheCollapse.md": {Data: []byte("# PrefixCacheCollapse\n\nThe pool computes prompts again.\n\n| look at | why |\n|---|---|\n| the router | affinity |\n\n<script>alert(1)</script>\n\n[bad](javascript:alert(1))\n")},
		},
	}
}

// track is one series of the fixture with its value so many seconds before now.
type track struct {
	labels labels.Labels
	at     func(ago float64) float64
}

// fill appends the whole past of all tracks. NaN is a gap: the series is
// marked stale there, as the daemon does it.
func (f *fixture) fill() {
	var tracks []track
	series := map[int]*collector.Series{}
	tracks = append(tracks, agentsTracks()...)
	tracks = append(tracks, chatTracks()...)
	tracks = append(tracks, gatewayTracks()...)
	for i, tr := range tracks {
		series[i] = &collector.Series{Labels: tr.labels}
	}
	for at := fixtureNow.Add(-f.past); !at.After(fixtureNow); at = at.Add(fixtureStep) {
		var samples []collector.Sample
		var stale []*collector.Series
		for i, tr := range tracks {
			v := tr.at(fixtureNow.Sub(at).Seconds())
			if math.IsNaN(v) {
				stale = append(stale, series[i])
				continue
			}
			samples = append(samples, collector.Sample{Series: series[i], Value: v})
		}
		if err := f.store.Append(f.t.Context(), at, samples, stale); err != nil {
			f.t.Fatal(err)
		}
	}
}

const (
	collapseAgo = 22 * 60.0 // the collapse began so many seconds ago
	gapFrom     = 55 * 60.0 // a scrape outage of engine 2 of agents
	gapTo       = 47 * 60.0
)

// ramp goes from a to b over the ten minutes after the collapse began, with a small wave on it.
func ramp(a, b, wave float64) func(ago float64) float64 {
	return func(ago float64) float64 {
		part := min(1, max(0, (collapseAgo-ago)/600))
		return a + (b-a)*part + wave*math.Sin(ago/97) + wave/2*math.Sin(ago/41)
	}
}

func whole(f func(float64) float64) func(float64) float64 {
	return func(ago float64) float64 { return math.Max(0, math.Round(f(ago))) }
}

func growing(perSecond float64) func(float64) float64 {
	return func(ago float64) float64 { return math.Floor(1e5 + perSecond*(1e5-ago)) }
}

func withGap(f func(float64) float64) func(float64) float64 {
	return func(ago float64) float64 {
		if ago < gapFrom && ago > gapTo {
			return math.NaN()
		}
		return f(ago)
	}
}

func engineLabels(name, instance string, more ...string) labels.Labels {
	return labels.FromStrings(append([]string{
		model.MetricNameLabel, name, "job", "vllm", "instance", instance, "engine", "0", "model_name", "qwen3-coder-30b",
	}, more...)...)
}

func poolLabels(name, pool, modelName string, more ...string) labels.Labels {
	return labels.FromStrings(append([]string{model.MetricNameLabel, name, "pool", pool, "model_name", modelName}, more...)...)
}

func gatewayLabels(name string, more ...string) labels.Labels {
	return labels.FromStrings(append([]string{model.MetricNameLabel, name, "job", "gateway", "instance", "litellm-0:4000"}, more...)...)
}

func agentsTracks() []track {
	const pool, modelName = "agents", "qwen3-coder-30b"
	tracks := []track{
		{poolLabels("kvwatch_pool_prefix_cache_hit_ratio_baseline", pool, modelName), func(float64) float64 { return 0.89 }},
		{poolLabels("kvwatch_pool_kv_usage_ratio", pool, modelName), ramp(0.31, 0.78, 0.02)},
		{poolLabels("kvwatch_pool_queue_waiting_requests", pool, modelName, "reason", "capacity"), whole(ramp(0, 11, 0.6))},
		{poolLabels("kvwatch_pool_ttft_seconds", pool, modelName, "quantile", "0.5"), ramp(0.42, 3.1, 0.05)},
		{poolLabels("kvwatch_pool_ttft_seconds", pool, modelName, "quantile", "0.95"), ramp(1.9, 14.2, 0.3)},
	}
	for _, window := range []string{"1m", "5m"} {
		tracks = append(tracks, track{poolLabels("kvwatch_pool_prefix_cache_hit_ratio", pool, modelName, "window", window), ramp(0.89, 0.31, 0.012)})
	}
	for i, instance := range []string{"vllm-0:8000", "vllm-1:8000", "vllm-2:8000", "vllm-3:8000"} {
		shift := float64(i) * 0.03
		perEngine := []track{
			{engineLabels("kvwatch_prefix_cache_hit_ratio", instance, "window", "1m"), ramp(0.90-shift/3, 0.36-shift, 0.03)},
			{engineLabels("kvwatch_prefix_cache_hit_ratio", instance, "window", "5m"), ramp(0.90-shift/3, 0.36-shift, 0.015)},
			{engineLabels("kvwatch_kv_usage_ratio", instance), ramp(0.28+shift, 0.70+shift, 0.03)},
			{engineLabels("kvwatch_queue_waiting_requests", instance, "reason", "capacity"), whole(ramp(0, 2+float64(i), 0.5))},
			{engineLabels("kvwatch_preemptions_total", instance), growing(0.002 * float64(i))},
			{engineLabels("vllm:num_requests_running", instance), whole(ramp(4, 8, 1))},
		}
		for _, tr := range perEngine {
			if i == 2 {
				tr.at = withGap(tr.at)
			}
			tracks = append(tracks, tr)
		}
	}
	return tracks
}

func chatTracks() []track {
	const pool, modelName = "models/chat", "chat-8b"
	steady := func(a, wave float64) func(float64) float64 { return ramp(a, a, wave) }
	return []track{
		{poolLabels("kvwatch_pool_prefix_cache_hit_ratio", pool, modelName, "window", "1m"), steady(0.62, 0.03)},
		{poolLabels("kvwatch_pool_prefix_cache_hit_ratio", pool, modelName, "window", "5m"), steady(0.62, 0.01)},
		{poolLabels("kvwatch_pool_kv_usage_ratio", pool, modelName), steady(0.12, 0.02)},
		{poolLabels("kvwatch_pool_queue_waiting_requests", pool, modelName, "reason", "capacity"), steady(0, 0)},
		{poolLabels("kvwatch_pool_ttft_seconds", pool, modelName, "quantile", "0.5"), steady(0.18, 0.01)},
		{poolLabels("kvwatch_pool_ttft_seconds", pool, modelName, "quantile", "0.95"), steady(0.44, 0.05)},
	}
}

func gatewayTracks() []track {
	return []track{
		{gatewayLabels("kvwatch_gateway_in_flight_requests"), whole(ramp(14, 41, 2))},
		{gatewayLabels("kvwatch_gateway_rejected_requests_total"), growing(0.004)},
		{gatewayLabels("kvwatch_gateway_cooldowns_total"), growing(0)},
	}
}

func fixtureTargets() []collector.TargetStatus {
	target := func(job, instance, source string, state collector.State, reason string) collector.TargetStatus {
		return collector.TargetStatus{
			Job: job, Instance: instance, URL: "http://" + instance + "/metrics", Source: source, State: state, Reason: reason,
			Since: fixtureNow.Add(-3 * time.Hour), LastScrape: fixtureNow.Add(-4 * time.Second), Duration: 12 * time.Millisecond,
		}
	}
	list := []collector.TargetStatus{
		target("gateway", "litellm-0:4000", collector.SourceLiteLLM, collector.StateUp, ""),
		target("vllm", "vllm-4:8000", collector.SourceVLLM, collector.StateUnauthorised, "401 from http://vllm-4:8000/metrics: the page wants credentials"),
		target("models", "chat-1:8000", "", collector.StateUnknown, ""),
		target("models", "chat-0:8000", collector.SourceVLLM, collector.StateUp, ""),
	}
	list[2].LastScrape = time.Time{}
	list[0].Version, list[0].Samples = "1.102.0", 214
	queued, admitted := 3, 9
	list[0].Backlog = &collector.Backlog{At: fixtureNow.Add(-20 * time.Second), InFlight: 12, Queued: &queued, Admitted: &admitted}
	list[3].Version, list[3].Warning = "0.9.2", "the page has no first-token histogram"
	for _, i := range []string{"0", "1", "2", "3"} {
		list = append(list, target("vllm", "vllm-"+i+":8000", collector.SourceVLLM, collector.StateUp, ""))
	}
	return list
}

func fixturePools() []rules.PoolStatus {
	member := func(i string) rules.PoolMember {
		return rules.PoolMember{Job: "vllm", Instance: "vllm-" + i + ":8000", Engine: "0"}
	}
	return []rules.PoolStatus{
		{Name: "agents", ModelName: "qwen3-coder-30b", Engines: []rules.PoolMember{member("0"), member("1"), member("2"), member("3")}},
		{Name: "models/chat", ModelName: "chat-8b", Engines: []rules.PoolMember{{Job: "models", Instance: "chat-0:8000", Engine: "0"}}},
	}
}

const cachedFrom = "vllm:prompt_tokens_cached_total / vllm:prompt_tokens_total"

func known(l labels.Labels, v float64, from string) rules.Recorded {
	return rules.Recorded{Labels: l, Value: v, Known: true, Quality: rules.QualityOK, From: from}
}

func unknown(l labels.Labels, reason string) rules.Recorded {
	return rules.Recorded{Labels: l, Quality: rules.QualityAbsent, Reason: reason}
}

func summary(l labels.Labels, from string, p50, p90, p95, p99 float64) rules.Recorded {
	return rules.Recorded{Labels: l, Known: true, Quality: rules.QualityOK, From: from, Summary: &rules.Summary{
		Quantiles: []rules.Quantile{{Q: 0.5, Value: p50}, {Q: 0.9, Value: p90}, {Q: 0.95, Value: p95}, {Q: 0.99, Value: p99}},
		Sum:       1234.5, Count: 987,
	}}
}

func fixtureRecorded() []rules.Recorded {
	list := recordedPools()
	list = append(list, recordedEngines()...)
	list = append(list, recordedSessions()...)
	return append(list, recordedGateway()...)
}

// recordedSessions is what the log of calls tells: of agents all, of chat that
// its session ids are invented ones.
func recordedSessions() []rules.Recorded {
	of := func(name string, more ...string) labels.Labels {
		return poolLabels(name, "agents", "qwen3-coder-30b", more...)
	}
	const from = "LiteLLM_SpendLogs cached_tokens / prompt_tokens, 15m, 412 calls, a turn begins after 30s (as configured)"
	boundary := known(of("kvwatch_pool_session_hit_ratio", "position", "turn_boundary"), 0.18, from)
	boundary.Quality, boundary.Coverage, boundary.Reason = rules.QualityPartial, 0.88, "rows of 88 % of the calls that the gateway counted came to its log"
	return []rules.Recorded{
		known(of("kvwatch_pool_session_hit_ratio", "position", "first_call"), 0.74, from),
		known(of("kvwatch_pool_session_hit_ratio", "position", "within_turn"), 0.42, from),
		boundary,
		unknown(of("kvwatch_pool_session_switch_hit_ratio", "switch", "model"), "no switch of the model in the last hour"),
		known(of("kvwatch_pool_session_switch_hit_ratio", "switch", "replica"), 0.03, from),
		known(of("kvwatch_pool_session_coverage_ratio"), 0.83, "LiteLLM_SpendLogs"),
		summary(of("kvwatch_pool_turn_gap_seconds"), "LiteLLM_SpendLogs", 47, 210, 260, 290),
		summary(of("kvwatch_pool_session_calls"), "LiteLLM_SpendLogs", 17, 44, 61, 120),
		summary(of("kvwatch_pool_session_task_seconds"), "LiteLLM_SpendLogs", 96, 410, 530, 780),
		known(poolLabels("kvwatch_pool_session_coverage_ratio", "models/chat", "chat-8b"), 0, "LiteLLM_SpendLogs"),
		unknown(poolLabels("kvwatch_pool_session_hit_ratio", "models/chat", "chat-8b", "position", "turn_boundary"), gateRefused),
	}
}

const gateRefused = "96 of 98 sessions have a single call: the gateway invents a session for each call that names none; clients should send x-litellm-session-id"

func fixtureSessions() []rules.PoolSessions {
	arrived := 0.88
	return []rules.PoolSessions{
		{
			Pool: "agents", Calls: 1634, Coverage: 0.83, ArrivedShare: &arrived, TurnGapSeconds: 30,
			PromptTokens:    []rules.Quantile{{Q: 0.5, Value: 18_400}, {Q: 0.9, Value: 41_200}, {Q: 0.95, Value: 52_000}, {Q: 0.99, Value: 88_000}},
			TaskSeconds:     []rules.Quantile{{Q: 0.5, Value: 96}, {Q: 0.9, Value: 410}, {Q: 0.95, Value: 530}, {Q: 0.99, Value: 780}},
			TokensPerSecond: []rules.Quantile{{Q: 0.1, Value: 21.3}, {Q: 0.5, Value: 38}, {Q: 0.9, Value: 55}},
		},
		{Pool: "models/chat", Reason: gateRefused, Calls: 98, TurnGapSeconds: 30, PromptTokens: []rules.Quantile{{Q: 0.5, Value: 900}, {Q: 0.9, Value: 2100}, {Q: 0.95, Value: 2600}, {Q: 0.99, Value: 4000}}},
	}
}

func recordedPools() []rules.Recorded {
	const modelName = "qwen3-coder-30b"
	return []rules.Recorded{
		known(poolLabels("kvwatch_pool_prefix_cache_hit_ratio", "agents", modelName, "window", "1m"), 0.305, cachedFrom),
		known(poolLabels("kvwatch_pool_prefix_cache_hit_ratio", "agents", modelName, "window", "5m"), 0.312, cachedFrom),
		known(poolLabels("kvwatch_pool_prefix_cache_hit_ratio", "agents", modelName, "window", "30m"), 0.521, cachedFrom),
		known(poolLabels("kvwatch_pool_prefix_cache_hit_ratio_baseline", "agents", modelName), 0.89, ""),
		known(poolLabels("kvwatch_pool_reprefill_excess_prompts", "agents", modelName), 43.2, ""),
		known(poolLabels("kvwatch_pool_kv_usage_ratio", "agents", modelName), 0.78, collector.VLLMKVUsage),
		known(poolLabels("kvwatch_pool_kv_capacity_tokens", "agents", modelName), 4*412_672, "kv_cache_size_tokens"),
		known(poolLabels("kvwatch_pool_kv_free_seats", "agents", modelName), 5.2, ""),
		known(poolLabels("kvwatch_pool_queue_waiting_requests", "agents", modelName, "reason", "capacity"), 11, collector.VLLMWaitingByReason),
		known(poolLabels("kvwatch_pool_queue_waiting_requests", "agents", modelName, "reason", "deferred"), 1, collector.VLLMWaitingByReason),
		summary(poolLabels("kvwatch_pool_ttft_seconds", "agents", modelName), collector.VLLMTTFT, 3.1, 9.8, 14.2, 21),
		known(poolLabels("kvwatch_pool_prefix_cache_hit_ratio", "models/chat", "chat-8b", "window", "1m"), 0.63, cachedFrom),
		known(poolLabels("kvwatch_pool_prefix_cache_hit_ratio", "models/chat", "chat-8b", "window", "5m"), 0.62, cachedFrom),
		unknown(poolLabels("kvwatch_pool_prefix_cache_hit_ratio_baseline", "models/chat", "chat-8b"), "learning: 3 of 6 hours"),
		known(poolLabels("kvwatch_pool_kv_usage_ratio", "models/chat", "chat-8b"), 0.12, collector.VLLMKVUsage),
		known(poolLabels("kvwatch_pool_queue_waiting_requests", "models/chat", "chat-8b", "reason", "capacity"), 0, collector.VLLMWaiting),
		summary(poolLabels("kvwatch_pool_ttft_seconds", "models/chat", "chat-8b"), collector.VLLMTTFT, 0.18, 0.4, 0.44, 0.7),
	}
}

func recordedEngines() []rules.Recorded {
	var list []rules.Recorded
	for i, hit := range []float64{0.36, 0.33, 0.30, 0.27} {
		instance := "vllm-" + string(rune('0'+i)) + ":8000"
		list = append(list,
			known(engineLabels("kvwatch_prefix_cache_hit_ratio", instance, "window", "1m"), hit-0.01, cachedFrom),
			known(engineLabels("kvwatch_prefix_cache_hit_ratio", instance, "window", "5m"), hit, cachedFrom),
			known(engineLabels("kvwatch_prefix_cache_hit_ratio", instance, "window", "30m"), hit+0.2, cachedFrom),
			known(engineLabels("kvwatch_kv_usage_ratio", instance), 0.70+0.03*float64(i), collector.VLLMKVUsage),
			known(engineLabels("kvwatch_queue_waiting_requests", instance, "reason", "capacity"), 2+float64(i), collector.VLLMWaitingByReason),
			known(engineLabels("kvwatch_preemptions_total", instance), 40*float64(i), collector.VLLMPreemptions),
			known(engineLabels("kvwatch_kv_capacity_tokens", instance), 412_672, "kv_cache_size_tokens"),
			summary(engineLabels("kvwatch_ttft_seconds", instance), collector.VLLMTTFT, 3, 9, 13.5, 20),
		)
	}
	chat := func(name string, more ...string) labels.Labels {
		return labels.FromStrings(append([]string{model.MetricNameLabel, name, "job", "models", "instance", "chat-0:8000", "engine", "0", "model_name", "chat-8b"}, more...)...)
	}
	few := "2 requests in the last minute; a ratio needs 5"
	return append(list,
		unknown(chat("kvwatch_prefix_cache_hit_ratio", "window", "1m"), few),
		rules.Recorded{Labels: chat("kvwatch_prefix_cache_hit_ratio", "window", "5m"), Value: 0.62, Known: true, Quality: rules.QualityReset, Reason: "the engine restarted 3 minutes ago", From: cachedFrom},
		known(chat("kvwatch_kv_usage_ratio"), 0.12, "vllm:gpu_cache_usage_perc"),
		known(chat("kvwatch_queue_waiting_requests", "reason", "capacity"), 0, collector.VLLMWaiting),
		unknown(chat("kvwatch_kv_capacity_tokens"), "the page has no cache_config_info; give the pool's config_json"),
	)
}

func recordedGateway() []rules.Recorded {
	overhead := summary(gatewayLabels("kvwatch_gateway_overhead_seconds"), collector.LiteLLMOverhead, 0.036, 0.052, 0.061, 0.2)
	overhead.Quality, overhead.Coverage = rules.QualityPartial, 0.02
	return []rules.Recorded{
		known(gatewayLabels("kvwatch_gateway_in_flight_requests"), 41, collector.LiteLLMInFlight),
		known(gatewayLabels("kvwatch_gateway_saturation_ratio"), 41.0/48, ""),
		known(gatewayLabels("kvwatch_gateway_overhead_coverage_ratio"), 0.02, ""),
		overhead,
		known(gatewayLabels("kvwatch_gateway_rejected_requests_total"), 517, collector.LiteLLMRejected),
		known(gatewayLabels("kvwatch_gateway_cooldowns_total"), 3, collector.LiteLLMCooledDown),
	}
}

func fixtureAlerts() []rules.Alert {
	alert := func(name, severity string, active, fired time.Duration, e rules.Evidence, summary string) rules.Alert {
		return rules.Alert{
			Name: name, Severity: severity, State: rules.StateFiring,
			Labels:      map[string]string{"alertname": name, "severity": severity, "pool": "agents", "model_name": "qwen3-coder-30b"},
			Annotations: map[string]string{"summary": summary},
			Evidence:    e, ActiveAt: fixtureNow.Add(-active), FiredAt: fixtureNow.Add(-fired), Value: 43.2,
		}
	}
	collapse := rules.Evidence{
		Seen:       "Since 14:08 (22 min) this pool computed 4.1M prompt tokens more than 2 times its usual (43 full prompts). Miss ratio over 10 min 69 %, 212 requests.",
		Against:    "Usual miss ratio 11 % (median of 31 hours); fires at 40 full prompts.",
		Cause:      "routing_or_content",
		CauseText:  "Routing or prompt content: blocks still lived 260 s before the onset, and no engine restarted.",
		RunnersUp:  []string{"residency: the working set outgrew the cache", "one replica: vllm-3 carries 31 % of the excess, its peers much the same"},
		Cost:       "4.1M tokens prefilled again, about 171 GPU seconds.",
		Next:       "Look at the router: was it restarted or reconfigured at 14:08? Then compare the first 2k tokens of today's prompts with yesterday's.",
		Confidence: "High: 212 requests, source prompt_tokens_cached, all four engines agree.",
	}
	queue := rules.Evidence{
		Seen:       "12 requests wait in the pool, 3 more than 10 minutes ago; drain time 74 s.",
		Against:    "Fires when requests wait in every scrape of 5 min and grow, or drain time is over 60 s.",
		CauseText:  "Prefill binds: 61 % of the time goes into prompts.",
		Next:       "Cure the cache first: the queue follows the prefill work.",
		Confidence: "High: 40 scrapes.",
	}
	old := alert("TargetDown", rules.SeverityWarning, 96*time.Minute, 95*time.Minute, rules.Evidence{Seen: "vllm-2:8000 did not answer for 8 minutes.", Next: "Nothing: it is back."}, "vllm-2:8000 was down")
	old.State, old.ResolvedAt = rules.StateResolved, fixtureNow.Add(-47*time.Minute)
	pending := alert("KVSaturated", rules.SeverityWarning, time.Minute, 0, rules.Evidence{Seen: "KV usage over 95 % for 1 min.", Next: "Wait."}, "KV cache of agents is nearly full")
	pending.State, pending.FiredAt = rules.StatePending, time.Time{}
	return []rules.Alert{
		alert("QueueGrowing", rules.SeverityWarning, 9*time.Minute, 7*time.Minute, queue, "The queue of agents grows: 12 wait"),
		alert("PrefixCacheCollapse", rules.SeverityCritical, 22*time.Minute, 18*time.Minute, collapse, "The prefix cache of agents collapsed: hit rate 31 %, usual 89 %"),
		old, pending,
	}
}

func fixtureReviews() []KeptReview {
	return []KeptReview{{Name: "2026-11-30T080000Z-review", Kind: "review", At: fixtureNow.Add(-time.Hour)}}
}

// fixtureEvents are a deploy shortly before the collapse, a note and a
// maintenance that lasts.
func fixtureEvents(from, to time.Time) []rules.Event {
	all := []rules.Event{
		{At: fixtureNow.Add(-30 * time.Hour), Kind: rules.EventNote, Text: "too old to show"},
		{At: fixtureNow.Add(-50 * 24 * time.Hour), Plan: "agents-30b", Kind: rules.EventRecommendation, Text: "plan agents-30b: review it: 4 replicas instead of 3"},
		{At: fixtureNow.Add(-26 * time.Minute), Pool: "agents", Kind: rules.EventDeploy, Text: "router 2.4 <b>"},
		{At: fixtureNow.Add(-5 * time.Minute), Kind: rules.EventMaintenance, Text: "switch replaced", Until: fixtureNow.Add(time.Hour)},
	}
	return slices.DeleteFunc(all, func(e rules.Event) bool { return e.At.Before(from) || e.At.After(to) })
}

func fixtureDetectors() []rules.DetectorStatus {
	status := func(alert, pool, phase, text string, s float64) rules.DetectorStatus {
		share := s / 40
		return rules.DetectorStatus{
			Alert: alert, Labels: map[string]string{"pool": pool}, Phase: phase, Text: text, Severity: rules.SeverityWarning, Share: &share,
			Numbers: []rules.Number{{Name: "excess_prompts", Value: s, Unit: "prompts"}, {Name: "threshold_prompts", Value: 40, Unit: "prompts"}},
			Fires:   "A pool computes prompts again.", For: 2 * time.Minute,
			Past: []rules.PastShare{{At: fixtureNow.Add(-2 * time.Hour), Share: 0.1}, {At: fixtureNow.Add(-time.Hour), Share: 0.02}, {At: fixtureNow, Share: share}},
		}
	}
	plain := status("QueueGrowing", "models/chat", "watching", "nothing waits", 0)
	plain.Numbers, plain.Share = nil, nil
	down := func(instance string) rules.DetectorStatus {
		return rules.DetectorStatus{Alert: "TargetDown", Labels: map[string]string{"job": "vllm", "instance": instance}, Phase: "watching", Text: "up"}
	}
	return []rules.DetectorStatus{
		down("vllm-0:8000"), down("vllm-1:8000"),
		status("PrefixCacheCollapse", "agents", "firing", "43 of 40 full prompts recomputed beyond twice the usual", 43.2),
		status("PrefixCacheMissRising", "agents", "firing", "68 of 40 full prompts recomputed beyond 1.5 times the usual", 68),
		status("PrefixCacheCollapse", "models/chat", "learning", "learning, 3 of 6 hours", 2),
		status("PrefixCacheMissRising", "models/chat", "learning", "learning, 3 of 6 hours", 6),
		plain,
	}
}

// quiet is the fixture without an alert.
func quiet(o Options) Options {
	o.Alerts = func() []rules.Alert { return nil }
	return o
}

func nan() float64 { return math.NaN() }

// fixturePlans is a plan with an assumption that drifted, one that holds and one
// that cannot be told.
func fixturePlans() []rules.PlanReview {
	live := sizing.Reevaluate(&sizing.Plan{Plan: "agents-30b", Pool: "agents", Owner: "platform"}, sizing.Config{}, sizing.Evidence{From: fixtureNow.Add(-7 * 24 * time.Hour), To: fixtureNow})
	live.Hours = 161
	live.Assumptions = []sizing.Judged{
		{
			Name: "workload.people", Unit: "people", Planned: 20, Live: new(41.2), Low: new(40.0), High: new(43.0), Ratio: new(2.06), Samples: 90_210, Hours: 161,
			Verdict: sizing.Drifted, Why: "2.06 times, 2.00 times to 2.15 times by chance", Changes: []sizing.Change{{Resource: "replicas", From: 2, To: 4}},
		},
		{Name: "workload.hit_ratio", Unit: "ratio", Planned: 0.9, Live: new(0.91), Low: new(0.9), High: new(0.92), Ratio: new(1.01), Samples: 90_210, Hours: 161, Verdict: sizing.Holds, Why: "0.90 times of the misses"},
		{Name: "workload.session_s", Unit: "s", Planned: 3756, Verdict: sizing.CannotTell, Why: "when a person's session ends is in no log"},
	}
	live.Required = map[string]float64{"replicas": 4, "max_num_seqs": 8}
	live.Before = map[string]float64{"replicas": 2, "max_num_seqs": 8}
	live.Planned = map[string]float64{"replicas": 2, "gateway_workers": 1}
	live.Knee = sizing.PassiveKnee{Reached: true, Confidence: "medium", Text: "the SLO held up to 0.7 requests/s per replica and not above"}
	live.Costs = &sizing.Costs{
		Currency: "EUR", Owned: true, PerGPUHour: 2.28, GPUHours: 322, IdleShare: 0.31, Planned: new(0.57), Cloud: new(1.5), BreakEven: new(0.63),
		PerMillion: map[string]float64{"total": 0.94, "prefill_new": 0.1, "prefill_repeated": 0.05, "decode": 0.5, "idle": 0.29},
		Text:       "Engines run requests 69 % of the time, above the break-even of 63 %.",
	}
	return []rules.PlanReview{{At: fixtureNow.Add(-4 * time.Minute), Live: live}}
}
