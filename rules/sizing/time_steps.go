package sizing

// defaultPrefillEfficiency is the middle of the range that C gives.
const defaultPrefillEfficiency = 0.5

// time works section 3 out: how long a token, a prompt and a request take.
func (c *chain) time() {
	h := c.plan.Hardware
	bandwidth := given("hardware.hbm_gb_per_s", h.HBMGBPerS)
	c.tpotFloor = c.step(
		formula{name: "tpot_floor_s", text: "active_weight_bytes / tensor_parallel / (hbm_gb_per_s x 1e9)", unit: "s per token", source: "C"},
		exact(func(x []float64) float64 { return TPOTFloor(x[0]/x[1], 0, x[2]*GB) }), c.activeBytes, c.tensorParallel, bandwidth)
	for _, u := range c.loads {
		c.step(
			formula{
				name: "tpot_at_batch_s", unit: "s per token", source: "C", profile: u.profile,
				text: "tpot_floor_s + operational_concurrency x kv_bytes_per_sequence x kv_copies / tensor_parallel / (hbm_gb_per_s x 1e9)",
			},
			exact(func(x []float64) float64 { return x[0] + TPOTFloor(0, x[1]*x[2]*x[3]/x[4], x[5]*GB) }),
			c.tpotFloor, u.seats, u.kvPerSequence, c.copies, c.tensorParallel, bandwidth)
	}
	active := given("model.active_parameters", c.plan.Model.ActiveParameters)
	if g := c.config.Geometry; !active.known() && (g == nil || g.Experts == 0) {
		active = given("model.parameters", c.plan.Model.Parameters).as("active_parameters")
	}
	c.prefillRate = c.step(
		formula{name: "prefill_tokens_per_s", text: "tensor_parallel x flops x prefill_efficiency / (2 x active_parameters)", unit: "tokens/s per replica", source: "C"},
		exact(func(x []float64) float64 { return PrefillTokensPerSecond(x[0], x[1], x[2], x[3]) }),
		c.tensorParallel, given("hardware.flops", h.FLOPS),
		orElse("hardware.prefill_efficiency", h.PrefillEfficiency, defaultPrefillEfficiency, "0.5, in the middle of C's 0.4 to 0.6"), active)
	c.tpot = c.outputTime()
	for _, u := range c.loads {
		c.requestTime(u)
	}
}

// outputTime is the time per output token that a request is reckoned with: as
// measured, else as promised, else what the memory bus gives.
func (c *chain) outputTime() operand {
	const name = "tpot_s"
	slo := c.plan.SLO
	switch {
	case c.plan.assumed(assumedTPOT) != nil:
		return known(name, *c.plan.assumed(assumedTPOT)/1000)
	case slo.ITLP95Ms != nil:
		return operand{name: name, value: *slo.ITLP95Ms / 1000, assumed: "tpot_s is the SLO's slo.itl_p95_ms: a measured tpot_ms among the critical assumptions is less"}
	case slo.TokensPerSPerUser != nil:
		return operand{name: name, value: 1 / *slo.TokensPerSPerUser, assumed: "tpot_s is 1 / slo.tokens_per_s_per_user"}
	}
	efficiency := given("critical_assumptions."+assumedHBMEfficiency, c.plan.assumed(assumedHBMEfficiency))
	floor := share(c.tpotFloor, efficiency).as(name)
	if !floor.known() {
		return lacking(name, "slo.itl_p95_ms")
	}
	floor.assumed = "tpot_s is tpot_floor_s / hbm_efficiency"
	return floor
}

// requestTime works out how long a call of a profile takes, and how many a
// replica completes.
func (c *chain) requestTime(u *population) {
	prompt := given(u.key("prompt_tokens_p50"), u.PromptTokensP50)
	hit := orElse(u.key("hit_ratio"), u.HitRatio, 0, "0: every prompt token is prefilled")
	u.newTokens = combine("new_tokens", prompt, hit, func(prompt, hit float64) (float64, error) { return prompt * (1 - hit), nil })
	u.prefill = c.step(
		formula{name: "prefill_s", text: "prompt_tokens_p50 x (1 - hit_ratio) / prefill_tokens_per_s", unit: "s", source: "C", profile: u.profile},
		exact(func(x []float64) float64 { return PrefillSeconds(x[0]*(1-x[1]), x[2]) }), prompt, hit, c.prefillRate)
	f := formula{name: "request_s", text: "prefill_s + output_tokens_p50 x tpot_s", unit: "s", source: "C", profile: u.profile}
	inputs := []operand{u.prefill, given(u.key("output_tokens_p50"), u.OutputTokensP50), c.tpot}
	gain := 0.0
	if g := c.plan.gain(); g != nil {
		f.text, gain = "prefill_s + output_tokens_p50 x tpot_s x (1 - gain)", *g
		inputs = append(inputs, known("gain", gain))
	}
	u.request = c.step(f, exact(func(x []float64) float64 { return RequestSeconds(x[0], x[1], SpeculativeTPOT(x[2], gain)) }), inputs...)
	u.replicaRPS = c.step(
		formula{name: "replica_rps", text: "operational_concurrency / request_s", unit: "requests/s per replica", source: "C", profile: u.profile},
		exact(func(x []float64) float64 { return ReplicaRPS(x[0], x[1]) }), u.seats, u.request)
}
