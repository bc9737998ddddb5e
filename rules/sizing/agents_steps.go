package sizing

// agents works section 4 out: from people to sequences and their KV memory.
func (c *chain) agents() {
	var sequences, kv []operand
	for _, u := range c.loads {
		c.people(u)
		if u.drives() {
			sequences, kv = append(sequences, u.sequences.as(u.Name)), append(kv, u.kvRequired.as(u.Name))
		}
	}
	switch {
	case len(c.loads) == 1:
		c.sequences, c.kvRequired = c.loads[0].sequences, c.loads[0].kvRequired
		return
	case len(sequences) == 0:
		c.sequences, c.kvRequired = lacking("", "workload.people"), lacking("", "workload.people")
		return
	}
	total := func(x []float64) float64 {
		all := 0.0
		for _, v := range x {
			all += v
		}
		return all
	}
	c.sequences = c.step(formula{name: "concurrent_sequences", text: "the sum over profiles", unit: "sequences", source: "A part 4"}, exact(total), sequences...)
	c.kvRequired = c.step(formula{name: "kv_required", text: "the sum over profiles", unit: "B", source: "A part 4"}, exact(total), kv...)
}

// people works one profile out.
func (c *chain) people(u *population) {
	u.duty = c.dutyCycle(u)
	u.amplification = c.step(
		formula{
			name: "amplification", unit: "ratio", source: "A part 4", profile: u.profile,
			text: "(1 + fail_share x (fail_factor - 1)) x (1 + subagent_share x (subagents - 1))",
		},
		exact(func(x []float64) float64 { return Amplification(x[0], x[1], x[2], x[3]) }), u.factors()...)
	people := given(u.key("people"), u.People)
	margin := orElse("headroom.sequence_margin", c.plan.Headroom.SequenceMargin, 0, "0")
	u.sequences = c.step(
		formula{name: "concurrent_sequences", text: "ceil(people x duty_cycle x amplification x (1 + sequence_margin))", unit: "sequences", source: "A part 4", profile: u.profile},
		exact(func(x []float64) float64 { return ConcurrentSequences(x[0], x[1], x[2], x[3]) }), people, u.duty, u.amplification, margin)
	u.exactSequences = scaled(product("", product("", people, u.duty), u.amplification), 1+margin.value)
	u.kvRequired = c.step(
		formula{name: "kv_required", text: "concurrent_sequences x kv_bytes_per_sequence", unit: "B", source: "A part 4", profile: u.profile},
		exact(func(x []float64) float64 { return KVRequired(x[0], x[1]) }), u.sequences, u.kvPerSequence)
	c.step(
		formula{name: "miss_amplification", text: "prompt_tokens_p50 / new_tokens", unit: "ratio", source: "A part 2", profile: u.profile},
		exact(func(x []float64) float64 { return MissAmplification(x[0], x[1]) }), given(u.key("prompt_tokens_p50"), u.PromptTokensP50), u.newTokens)
}

// dutyCycle is the plan's where it provisions one, else what decode alone takes.
func (c *chain) dutyCycle(u *population) operand {
	f := formula{name: "duty_cycle", unit: "ratio", source: "A part 4", profile: u.profile}
	if u.DutyCycle != nil {
		f.text, f.source = "as the plan provisions it", "the plan"
		return c.step(f, exact(func(x []float64) float64 { return x[0] }), given(u.key("duty_cycle"), u.DutyCycle))
	}
	f.text = "calls_per_session x output_tokens_p50 / tokens_per_s_per_user / session_s"
	return c.step(f, exact(func(x []float64) float64 { return DutyCycle(x[0], x[1], x[2], x[3]) }), c.dutyInputs(u)...)
}

func (c *chain) dutyInputs(u *population) []operand {
	speed := given("slo.tokens_per_s_per_user", c.plan.SLO.TokensPerSPerUser)
	if itl := c.plan.SLO.ITLP95Ms; !speed.known() && itl != nil {
		speed = orElse("slo.tokens_per_s_per_user", nil, 1000 / *itl, "is 1000 / slo.itl_p95_ms")
	}
	return []operand{
		given(u.key("calls_per_session"), u.CallsPerSession), given(u.key("output_tokens_p50"), u.OutputTokensP50), speed,
		given(u.key("session_s"), u.SessionS),
	}
}

// factors are what multiplies calls; a share that the plan does not name is 0,
// and then its factor says nothing.
func (u *population) factors() []operand {
	pair := func(shareKey string, shareOf *float64, factorKey string, factor *float64) []operand {
		s := orElse(u.key(shareKey), shareOf, 0, "0")
		if s.value == 0 && factor == nil {
			return []operand{s, known(factorKey, 1)}
		}
		return []operand{s, given(u.key(factorKey), factor)}
	}
	return append(pair("fail_share", u.FailShare, "fail_factor", u.FailFactor), pair("subagent_share", u.SubagentShare, "subagents", u.Subagents)...)
}
