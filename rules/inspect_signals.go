package rules

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"kvwatch/collector"
)

const (
	reasonOnePage   = "one page does not tell what goes on: totals since the process began make no verdict"
	reasonNothing   = "nothing was added while it was watched"
	reasonNotThatFn = "the page has no %s: %s"
)

// readInto fills in signals and what cannot be told.
func (i *Inspection) readInto(r *TargetReport) {
	t := i.target()
	gateway := false
	for _, u := range t.units {
		if u.engine == "" {
			i.readGateway(u, r)
			gateway = true
			continue
		}
		r.Engines = append(r.Engines, i.readEngine(u, r))
	}
	if i.source == collector.SourceLiteLLM && !gateway {
		i.readGateway(&unit{target: t}, r)
	}
	slices.SortFunc(r.Engines, func(a, b EngineReport) int {
		return cmp.Or(cmp.Compare(len(a.Engine), len(b.Engine)), cmp.Compare(a.Engine, b.Engine))
	})
}

// reading reads the signals of one engine or gateway and notes what is missing.
type reading struct {
	*Inspection
	unitWindow
	report *TargetReport
	// of says which engine of several it is.
	of string
}

// missing notes that a signal is not on the page, and what that disables.
func (r reading) missing(series, family, disables string) {
	r.cannot(series, fmt.Sprintf(reasonNotThatFn, family, disables))
}

func (r reading) cannot(series, reason string) {
	if r.of != "" {
		reason = r.of + ": " + reason
	}
	c := Cannot{Series: series, Reason: reason}
	if !slices.Contains(r.report.Cannot, c) {
		r.report.Cannot = append(r.report.Cannot, c)
	}
}

// name is the exposed name under which a family was read.
func (r reading) name(family string) string { return cmp.Or(r.page.From[family], family) }

// gaugeSignal is a gauge as of the last page; disables says what is lost without it.
func (r reading) gaugeSignal(series, family, unit string, g gauge, disables string) *Signal {
	v, ok := r.Gauge(g)
	if !ok {
		r.missing(series, family, disables)
		return nil
	}
	s := &Signal{Value: written(v), Unit: unit, From: r.name(family), Quality: QualityOK}
	if v < 0 || s.Value == nil {
		s.Value, s.Quality, s.Reason = nil, QualityAbsent, "the page says what cannot be"
	}
	return s
}

// written is a value that JSON can tell; nil for one that overflowed.
func written(v float64) *float64 {
	if !finite(v) {
		return nil
	}
	return &v
}

// counter is a counter's total and what it gained.
func (r reading) counter(series, family, unit string, t total, disables string) *Signal {
	if !r.unit.has(t) {
		r.missing(series, family, disables)
		return nil
	}
	v := r.onPage[pageTotal{r.unit.engine, family}]
	s := &Signal{Value: written(v), Unit: unit, From: r.name(family), Quality: r.trust()}
	if r.good > 1 && s.Quality != QualitySampled {
		s.Watched = written(r.unit.totals[t].sum)
	}
	s.Reason = reasonOf(s.Quality)
	return s
}

// latency is the mean and the 95th percentile of what a histogram gained.
func (r reading) latency(series, family string, h hist, disables string) *Signal {
	f := r.unit.hists[h]
	if f == nil || !r.unit.hasHist(h) {
		r.missing(series, family, disables)
		return nil
	}
	s := &Signal{Unit: "seconds", From: r.name(family), Quality: r.trust()}
	b := watchedBuckets(f)
	switch {
	case s.Quality == QualitySampled:
		s.Reason = sampledReason
		return s
	case r.good < 2:
		s.Quality, s.Reason = QualityAbsent, reasonOnePage
		return s
	case b.count <= 0:
		s.Quality, s.Reason = QualityAbsent, reasonNothing
		return s
	case !b.possible():
		s.Quality, s.Reason = QualityAbsent, reasonImpossible
		return s
	}
	s.Value, s.Watched, s.Reason = written(b.sum/b.count), written(b.count), reasonOf(s.Quality)
	if p95, ok := b.quantile(0.95); ok {
		s.P95 = written(p95)
		if p95 <= b.bounds[0] && s.Reason == "" {
			s.Reason = fmt.Sprintf("the 95th percentile is at most %g: it lies in the lowest bucket", p95)
		}
	} else if s.Reason == "" {
		s.Reason = "the 95th percentile lies above the last finite bucket"
	}
	return s
}

// trust judges counters that were watched.
func (r reading) trust() Quality {
	switch {
	case r.takesTurns():
		return QualitySampled
	case r.unit.resetAt > 0:
		return QualityReset
	default:
		return QualityOK
	}
}

func reasonOf(q Quality) string {
	switch q {
	case QualityReset:
		return "the counter began again while it was watched; nothing was added or lost"
	case QualitySampled:
		return sampledReason
	default:
		return ""
	}
}

func (i *Inspection) readEngine(u *unit, report *TargetReport) EngineReport {
	r := reading{Inspection: i, unitWindow: i.window(u), report: report}
	if u.target.engines() > 1 {
		r.of = "engine " + u.engine
	}
	e := EngineReport{Engine: u.engine, ModelName: u.modelName}
	if v, ok := r.capacity(); ok {
		e.KVCapacityTokens = written(v)
	} else {
		r.cannot("kv_capacity_tokens", noCapacity(u)+"; without it nobody can say how many prompts the cache holds")
	}
	e.Signals = EngineSignals{
		PrefixCacheQueries: r.counter("prefix_cache_queries", collector.VLLMCacheQueries, "tokens", totalQueries, "no second source for the hit ratio"),
		PrefixCacheHits:    r.counter("prefix_cache_hits", collector.VLLMCacheHits, "tokens", totalHits, "no second source for the hit ratio"),
		PromptTokens:       r.counter("prompt_tokens", collector.VLLMPromptTokens, "tokens", totalPrompt, "no rate of prompts"),
		PromptTokensCached: r.counter("prompt_tokens_cached", collector.VLLMPromptCached, "tokens", totalCached, "the hit ratio is read from other counters (vLLM has it since 0.16)"),
		GenerationTokens:   r.counter("generation_tokens", collector.VLLMGenerationTokens, "tokens", totalGenerated, "no rate of outputs, and a stall cannot be told"),
		KVCacheUsage:       r.gaugeSignal("kv_cache_usage", collector.VLLMKVUsage, "ratio", gaugeUsage, "no KV pressure (vLLM's multiprocess mode has it from the first request on)"),
		RequestsRunning:    r.gaugeSignal("requests_running", collector.VLLMRunning, "requests", gaugeRunning, "no load (vLLM's multiprocess mode has it from the first request on)"),
		RequestsWaiting:    r.gaugeSignal("requests_waiting", collector.VLLMWaiting, "requests", gaugeWaiting, "no queue (vLLM's multiprocess mode has it from the first request on)"),
		Preemptions:        r.counter("preemptions", collector.VLLMPreemptions, "events", totalPreemptions, "KV pressure is judged by usage alone"),
		TTFT:               r.latency("ttft", collector.VLLMTTFT, histTTFT, "no time to first token, and requests are counted when they end"),
		ITL:                r.latency("itl", collector.VLLMITL, histITL, "no inter-token latency"),
		QueueTime:          r.latency("queue_time", collector.VLLMQueueTime, histQueueTime, "prefill and queue cannot be told apart"),
	}
	if s := e.Signals.KVCacheUsage; s != nil && (s.Value == nil || *s.Value > 1) {
		s.Value, s.Quality, s.Reason = nil, QualityAbsent, "the page says a usage outside of 0 to 1"
	}
	i.cannotHit(r, u)
	return e
}

// cannotHit says why the hit ratio of what was watched is unknown.
func (i *Inspection) cannotHit(r reading, u *unit) {
	c, requests := i.cacheWatched(u), requestsWatched(u)
	switch {
	case i.takesTurns():
		r.cannot("prefix_cache_hit_ratio", sampledReason)
	case !c.known:
		r.cannot("prefix_cache_hit_ratio", c.why)
	case i.good < 2:
		r.cannot("prefix_cache_hit_ratio", reasonOnePage)
	case c.prompted <= 0:
		r.cannot("prefix_cache_hit_ratio", "nothing was prompted while it was watched")
	case requests < minRequests:
		r.cannot("prefix_cache_hit_ratio", fmt.Sprintf("only %.0f requests were watched: a ratio needs 5", requests))
	}
}

func (i *Inspection) readGateway(u *unit, report *TargetReport) {
	r := reading{Inspection: i, unitWindow: i.window(u), report: report}
	const counts = "LiteLLM has it from its first request on, with prometheus in its callbacks"
	report.Signals = GatewaySignals{
		InFlightRequests: r.gaugeSignal("in_flight_requests", collector.LiteLLMInFlight, "requests", gaugeInFlight, "no load (LiteLLM has it since 1.81.16, from its first request on)"),
		OverheadLatency:  r.overhead(),
		TotalRequests:    r.counter("total_requests", collector.LiteLLMRequests, "requests", totalRequests, counts),
		FailedRequests:   r.counter("failed_requests", collector.LiteLLMFailed, "requests", totalFailed, "LiteLLM has it from the first failure on"),
	}
	r.deployments(&report.Signals)
	if i.opts.MaxInFlight <= 0 {
		r.cannot("gateway_saturation_ratio", "the page does not tell how many requests the gateway may hold: give --max-in-flight (workers × limit of each)")
	}
}

// overhead is the gateway's own latency, which not every call has.
func (r reading) overhead() *Signal {
	const series = "overhead_latency"
	if f := r.unit.hists[histOverhead]; f == nil || f.count+f.countSkipped == 0 {
		r.cannot(series, "no samples: LiteLLM measures it on calls that are not streamed, and all were streamed, or there was none")
		return nil
	}
	s := r.latency(series, collector.LiteLLMOverhead, histOverhead, "")
	if s != nil && s.Value != nil && *s.Value > secondsAtMost {
		*s.Value *= millisecond
		if s.P95 != nil {
			*s.P95 *= millisecond
		}
		s.Reason = "taken as milliseconds: LiteLLM's values are seconds in all releases known, and these cannot be"
	}
	return s
}

// deployments lists what is told of each.
func (r reading) deployments(to *GatewaySignals) {
	for _, id := range slices.Sorted(maps.Keys(r.Inspection.deployments)) {
		d := r.Inspection.deployments[id]
		if d.hasState {
			to.DeploymentState = append(to.DeploymentState, DeploymentSignal{id, Signal{
				Value: written(d.state), Unit: "state", From: r.name(collector.LiteLLMDeployState), Quality: QualityOK,
			}})
		}
		if d.hasCooled {
			s := Signal{Value: written(d.cooledDown), Unit: "events", From: r.name(collector.LiteLLMCooledDown), Quality: r.trust()}
			if r.good > 1 && s.Quality != QualitySampled {
				s.Watched = written(d.cooledWhileSeen)
			}
			to.DeploymentCooledDown = append(to.DeploymentCooledDown, DeploymentSignal{id, s})
		}
	}
	if to.DeploymentState == nil {
		r.missing("deployment_state", collector.LiteLLMDeployState, "LiteLLM has it from the first answer of a deployment on")
	}
	if to.DeploymentCooledDown == nil {
		r.missing("deployment_cooled_down", collector.LiteLLMCooledDown, "LiteLLM has it from the first cool-down on")
	}
}

// deploymentEvidence names the deployments that the gateway avoids.
func (i *Inspection) deploymentEvidence() []string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(i.deployments)) {
		d := i.deployments[id]
		if d.hasState && d.state > 0 {
			all = append(all, fmt.Sprintf("deployment %s is in state %.0f (1 partial, 2 outage)", id, d.state))
		}
		if d.cooledWhileSeen > 0 {
			all = append(all, fmt.Sprintf("deployment %s was cooled down %.0f times while watched", id, math.Round(d.cooledWhileSeen)))
		}
	}
	return all
}
