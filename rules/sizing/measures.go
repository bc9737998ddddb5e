package sizing

import (
	"slices"
	"strings"
)

// measures are all assumptions of the plan with what was measured of them, in
// the plan's order.
func (r *review) measures() []measure {
	var all []measure
	for _, n := range r.plan.clone().numbers() {
		key := strings.TrimSuffix(n.key, ".value")
		if *n.value == nil || !isAssumption(key) || isPrice(key) {
			continue
		}
		m, ok := r.measure(key)
		if !ok {
			continue
		}
		m.name, m.planned = key, **n.value
		if m.apply == nil && m.promise == 0 {
			m.apply = func(p *Plan, v float64) { put64(p, key, clamp(v, n.bounds)) }
			m.written = true
		}
		all = append(all, m)
	}
	return append(all, r.derived()...)
}

// isPrice says whether a number is a price or a decision about head-room, which
// nothing measures.
func isPrice(key string) bool {
	return strings.HasPrefix(key, "headroom.") ||
		strings.HasPrefix(key, "cost.") && key != "cost.utilisation" && key != "cost.tokens_per_s_per_gpu" ||
		strings.HasPrefix(key, "optimisations.") && !strings.HasSuffix(key, ".acceptance")
}

// measure finds what was measured of a key.
func (r *review) measure(key string) (measure, bool) {
	name := key[strings.LastIndexByte(key, '.')+1:]
	if isLoad(name) && strings.HasPrefix(key, "workload.") {
		return r.load(key, name), true
	}
	switch key {
	case "slo.ttft_p95_ms":
		return measure{unit: "ms", promise: 1, live: r.quantile(0.95, func(s Slot) Histogram { return s.TTFT }).times(1000)}, true
	case "slo.itl_p95_ms":
		return measure{unit: "ms", promise: 1, live: r.quantile(0.95, gaps).times(1000)}, true
	case "slo.wait_mean_ms":
		return measure{unit: "ms", promise: 1, live: r.of(50, func(s Slot) float64 { return s.WaitSeconds }, func(s Slot) float64 { return s.Waited }).times(1000)}, true
	case "slo.tokens_per_s_per_user":
		return r.speed(), true
	case "slo.rps_target":
		return measure{unit: "requests/s", live: r.peak(rate)}, true
	case "workload.requests_per_day", "workload.active_hours", "workload.peak_factor", "workload.growth_per_year":
		return r.demand(key), true
	case "hardware.prefill_efficiency":
		return r.prefill(), true
	case "engine.concurrency":
		return r.concurrency(), true
	case "cost.utilisation":
		m := measure{unit: "ratio", how: "the share of the time in which a request ran"}
		m.live = r.of(3600, func(s Slot) float64 { return s.BusySeconds }, func(s Slot) float64 { return s.EngineSeconds })
		return m, true
	case "cost.tokens_per_s_per_gpu":
		return r.tokensPerGPU(), true
	case "engine.activations_gb", "engine.overhead_gb", "engine.gpu_memory_utilization":
		return measure{}, false // judged together, by what they leave for the KV cache
	}
	if assumed, ok := strings.CutPrefix(key, "critical_assumptions."); ok {
		return r.critical(assumed), true
	}
	return measure{live: cannot("nothing that kvwatch reads tells it")}, true
}

// load is what was measured of a key of a profile.
func (r *review) load(key, name string) measure {
	u := r.only()
	if u == nil { // of profiles that share a pool only their sum is seen
		return measure{live: cannot("what is measured is of the whole pool, which %d profiles share: give them pools or plans of their own", len(r.base.loads))}
	}
	m := measure{unit: "tokens"}
	switch name {
	case "prompt_tokens_p50":
		m.live = r.quantile(0.5, prompts)
	case "prompt_tokens_p95":
		m.live = r.quantile(0.95, prompts)
	case "output_tokens_p50":
		m.live = r.quantile(0.5, outputs)
	case "output_tokens_p95":
		m.live = r.quantile(0.95, outputs)
	case "context_tokens_max":
		m.live, m.how = r.context(), "the P99 of prompts and the median of outputs"
	case "hit_ratio":
		m.unit, m.misses, m.live = "ratio", true, r.hits()
	case "people":
		m.unit, m.live = "people", r.people(u)
		m.how = "inferred from the rate of calls, at " + r.pace() + " and the plan's session_s"
	case "calls_per_session":
		m.unit, m.live = "calls", r.callsPerSession()
	case "duty_cycle":
		m.unit, m.live = "ratio", r.dutyCycle(u)
		m.how = "the time that calls run, at the plan's calls_per_session and session_s"
	case "session_s":
		m.unit, m.live = "s", cannot("when a person's session ends is in no log")
	default:
		m.unit = ""
		m.live = cannot("turns, tools and subagents are in no metric: %s only shows in the rate of calls", name)
	}
	return m
}

// context is the longest that must fit: prompts at their P99, and outputs at
// their median, which are not long at the same time.
func (r *review) context() Estimate {
	longest, output := r.quantile(0.99, prompts), r.quantile(0.5, outputs)
	if !longest.known() || !output.known() {
		return longest
	}
	return Estimate{
		Value: longest.Value + output.Value, Low: longest.Low + output.Low, High: longest.High + output.High,
		Samples: longest.Samples, Hours: longest.Hours,
	}
}

// hits is the share of prompt tokens that the cache held.
func (r *review) hits() Estimate {
	missed := r.level(50, func(s Slot) float64 {
		if s.Prompted <= 0 {
			return 0
		}
		return s.Requests
	}, func(s Slot) (float64, bool) { return s.Missed / s.Prompted, s.Prompted > 0 })
	if !missed.known() {
		return missed
	}
	missed.Value, missed.Low, missed.High = 1-missed.Value, max(0, 1-missed.High), max(0, 1-missed.Low)
	return missed
}

// callsPerSession is the mean over the sessions that went quiet.
func (r *review) callsPerSession() Estimate {
	sessions := func(s Slot) float64 { return s.Sessions }
	for _, h := range r.hours {
		if h.Sessions > 0 {
			return r.of(20, func(s Slot) float64 { return s.SessionCalls }, sessions)
		}
	}
	return cannot("only the gateway's log tells sessions apart: give spend_logs")
}

// pace says whose calls per session people are inferred at.
func (r *review) pace() string {
	if r.callsPerSession().known() {
		return "the calls per session that were measured"
	}
	return "the plan's calls_per_session"
}

// people are as many as make the calls of the busiest hours, or on average where
// the plan has a factor for the peak. It is hours, and not their peaks: a burst of
// calls is not more people.
func (r *review) people(u *population) Estimate {
	calls, session := u.CallsPerSession, u.SessionS
	if e := r.callsPerSession(); e.known() {
		calls = &e.Value
	}
	if calls == nil || session == nil || !u.amplification.known() {
		return cannot("calls_per_session and session_s are needed: people are inferred from the rate of calls")
	}
	rates := r.busy(rate)
	if r.plan.Workload.PeakFactor != nil {
		rates, _ = r.meanRate(r.peak(rate))
	}
	if !rates.known() {
		return rates
	}
	return rates.times(*session / *calls / u.amplification.value)
}

// dutyCycle is the share of a session in which a call runs: the seconds of a
// call times the calls of a session, over its length.
func (r *review) dutyCycle(u *population) Estimate {
	if u.CallsPerSession == nil || u.SessionS == nil {
		return cannot("calls_per_session and session_s are needed")
	}
	seconds := r.callSeconds()
	if !seconds.known() {
		return seconds
	}
	return seconds.times(*u.CallsPerSession / *u.SessionS)
}

// callSeconds is how long a call runs, by Little's law: the requests that run at
// once over the rate at which they come.
func (r *review) callSeconds() Estimate {
	e := r.level(50, requests, func(s Slot) (float64, bool) { return s.RunningSeconds / s.Requests, s.Requests > 0 })
	return e
}

// speed is the tokens per second that a request gets while it is decoded. Where
// the plan reckons with it, it is an expectation, else a promise.
func (r *review) speed() measure {
	m := measure{unit: "tokens/s", live: r.mean(perToken), promise: -1, how: "one over the mean time per output token"}
	if m.live.known() {
		m.live = m.live.inverse()
	}
	if u := r.only(); u != nil && u.drives() && u.DutyCycle == nil {
		m.promise = 0
		// What is promised stays; the written plan takes the duty cycle instead.
		m.apply = func(p *Plan, v float64) { put64(p, "slo.tokens_per_s_per_user", v) }
	}
	return m
}

// demand is what was measured of the demand by days.
func (r *review) demand(key string) measure {
	peak := r.peak(rate)
	mean, active := r.meanRate(peak)
	switch key {
	case "workload.requests_per_day":
		m := measure{unit: "requests"}
		m.live = mean.times(active * 3600)
		return m
	case "workload.active_hours":
		m := measure{unit: "hours", how: "those with over a tenth of the rate of the peak"}
		if m.live = peak; peak.known() {
			m.live = Estimate{Value: active, Low: active, High: active, Samples: peak.Samples, Hours: peak.Hours}
		}
		return m
	case "workload.peak_factor":
		m := measure{unit: "ratio"}
		if m.live = peak; peak.known() {
			m.live = peak.times(1 / mean.Value)
		}
		return m
	default:
		m := measure{unit: "ratio per year"}
		g := r.seen.Growth
		if g == nil {
			m.live = cannot("growth is judged once a week, from three weeks of whole days on")
			return m
		}
		m.live = cannot("%+.1f %% a week over %d days, which says little of a year", 100*g.PerWeek, g.Days)
		return m
	}
}

// leastAlone is the occupancy below which prompts are mostly computed alone.
const leastAlone = 0.3

// prefill is the share of the GPUs' peak that computing prompts reaches, of
// slots in which prompts seldom wait for each other.
func (r *review) prefill() measure {
	m := measure{unit: "ratio", promise: -1, least: true, how: "by the time to the first token less the wait, in which other requests are computed too"}
	scale := share(r.base.prefillRate, given("hardware.prefill_efficiency", r.plan.Hardware.PrefillEfficiency))
	if !scale.known() {
		m.live = cannot("it needs %s", strings.Join(scale.missing, ", "))
		return m
	}
	alone := gather(r.slots)
	alone.hours = nil
	for _, h := range r.hours {
		if h.PrefillSeconds < leastAlone*h.EngineSeconds {
			alone.hours = append(alone.hours, h)
		}
	}
	m.live = alone.of(60, func(s Slot) float64 { return s.Missed }, func(s Slot) float64 { return s.PrefillSeconds })
	if m.live.known() {
		m.live = m.live.times(1 / scale.value)
	}
	return m
}

// concurrency is how many sequences a replica runs within the SLO.
func (r *review) concurrency() measure {
	m := measure{unit: "sequences per replica"}
	if !r.knee.Reached {
		m.live = cannot("only the passive knee tells it: %s", r.knee.Text)
		return m
	}
	m.live = Estimate{Value: r.knee.Sequences, Low: r.knee.Sequences / driftFactor, High: r.knee.Sequences * driftFactor, Samples: r.knee.Samples, Hours: len(r.hours)}
	return m
}

// tokensPerGPU is the output within the SLO that a GPU gives at the knee.
func (r *review) tokensPerGPU() measure {
	m := measure{unit: "tokens/s per GPU"}
	if !r.knee.Reached {
		m.live = cannot("only the passive knee tells it: %s", r.knee.Text)
		return m
	}
	v := r.knee.Goodput / r.base.tensorParallel.value
	m.live = Estimate{Value: v, Low: v / driftFactor, High: v * driftFactor, Samples: r.knee.Samples, Hours: len(r.hours)}
	return m
}

// critical is what was measured of a critical assumption.
func (r *review) critical(name string) measure {
	switch name {
	case assumedTPOT:
		return measure{unit: "ms", live: r.mean(perToken).times(1000)}
	case assumedService:
		return measure{unit: "ms", live: r.callSeconds().times(1000), how: "the requests that run at once over the rate at which they come"}
	case assumedCount:
		m := measure{unit: "ms", most: true, how: "the gateway's own time on a call, of which counting its tokens is a part"}
		m.live = r.mean(overhead).times(1000)
		if len(r.slots) > 0 && !slices.ContainsFunc(r.slots, func(s Slot) bool { return s.Overhead.Count > 0 }) {
			m.live = cannot("no gateway tells its own time on a call, or there is more than one pool and it is not known whose calls it holds")
		}
		return m
	case assumedHBMEfficiency:
		return measure{live: cannot("only the GPU's own counters tell it, which kvwatch does not read")}
	default:
		return measure{live: cannot("nothing that kvwatch reads tells it")}
	}
}

// derived are results of the plan that are measured as such. What engines say of
// a model with windows is held against what vLLM would say of the plan, for which
// it has to give max_num_batched_tokens.
func (r *review) derived() []measure {
	live, ok := r.capacity()
	name := "max_live_tokens"
	if g := r.base.config.Geometry; g != nil && g.SlidingLayers > 0 {
		name = "kv_cache_size_tokens"
	}
	step, told := Step{}, false
	for _, s := range r.base.steps {
		if s.Name == name && s.Value != nil {
			step, told = s, true
		}
	}
	if !ok || !told || *step.Value <= 0 {
		return nil
	}
	m := measure{name: step.Name, unit: "tokens of KV cache per replica", planned: *step.Value, live: live, written: true}
	m.apply = func(p *Plan, v float64) {
		overhead := (1 - v / *step.Value) * r.base.kvBudget.value / r.base.tensorParallel.value / GB
		if p.Engine.OverheadGB != nil {
			overhead += *p.Engine.OverheadGB
		}
		overhead = max(0, overhead)
		p.Engine.OverheadGB = &overhead
	}
	m.how = "as the engines say"
	return []measure{m}
}

// capacity is the KV cache of a replica, as the engines say: no noise.
func (r *review) capacity() (Estimate, bool) {
	for _, s := range slices.Backward(r.slots) {
		if s.Capacity != nil && s.Engines > 0 {
			v := *s.Capacity / float64(s.Engines)
			return Estimate{Value: v, Low: v, High: v, Hours: len(r.hours)}, true
		}
	}
	return Estimate{}, false
}
