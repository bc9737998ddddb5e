package sizing

import "errors"

// errNoRoom says that a replica holds not one sequence.
var errNoRoom = errors.New("not one sequence fits a replica: its weights and context leave no room in the KV cache")

// memory works section 2 out: weights, the KV budget, and what a sequence takes.
func (c *chain) memory() {
	m, e, h := c.plan.Model, c.plan.Engine, c.plan.Hardware
	c.tensorParallel = orElse("engine.tensor_parallel", e.TensorParallel, 1, "1, as vLLM's default")
	parameters, perParameter := given("model.parameters", m.Parameters), c.bytesPerParameter()
	weights := c.step(
		formula{name: "weight_bytes", text: "parameters x bytes_per_parameter / tensor_parallel", unit: "B per GPU", source: "C"},
		exact(func(x []float64) float64 { return WeightBytes(x[0], x[1], x[2]) }),
		parameters, perParameter, c.tensorParallel)
	c.activeBytes = c.experts(parameters, perParameter)

	usable := orElse("engine.gpu_memory_utilization", e.GPUMemoryUtilization, 1, "1: all of the memory")
	c.kvBudget = c.step(
		formula{
			name: "kv_budget_bytes", unit: "B per replica", source: "A part 3, C",
			text: "((vram_gb x gpu_memory_utilization - activations_gb - overhead_gb) x 1e9 - weight_bytes) x tensor_parallel",
		},
		exact(func(x []float64) float64 { return KVBudgetBytes(x[0]*x[1]*GB, x[4], x[2]*GB, x[3]*GB, x[5]) }),
		given("hardware.vram_gb", h.VRAMGB), usable,
		orElse("engine.activations_gb", e.ActivationsGB, 0, "0: the KV budget is at most this"),
		orElse("engine.overhead_gb", e.OverheadGB, 0, "0: the KV budget is at most this"),
		weights, c.tensorParallel)

	c.kvElement, c.copies = c.bytesPerKVElement(), known("kv_copies", 1)
	if g := c.config.Geometry; g != nil {
		c.copies.value = g.Copies(c.tensorParallel.value)
	}
	for i, u := range c.loads {
		c.sequenceMemory(u, i == 0)
	}
}

// bytesPerParameter is of the plan's type, else of the type that config.json
// says the weights are in.
func (c *chain) bytesPerParameter() operand {
	const name, key = "bytes_per_parameter", "model.weight_dtype"
	dtype, assumed := c.plan.Model.WeightDType, ""
	if g := c.config.Geometry; dtype == "" && g != nil && !g.Quantised {
		var why string
		dtype, why = g.loaded()
		assumed = key + " " + dtype + ", " + why
	}
	bytes, err := BytesPerParameter(dtype)
	if err != nil {
		return lacking(name, key)
	}
	return operand{name: name, value: bytes, assumed: assumed}
}

// bytesPerKVElement is of the plan's type; auto is the model's own.
func (c *chain) bytesPerKVElement() operand {
	const name, key = "bytes_per_element", "model.kv_dtype"
	dtype, assumed := c.plan.Model.KVDType, ""
	if dtype == "" || dtype == autoDType {
		g := c.config.Geometry
		if g == nil {
			return lacking(name, key)
		}
		var why string
		if dtype, why = g.loaded(); g.KVDType != "" {
			dtype, why = g.KVDType, "as config.json's quantization_config has it"
		}
		assumed = key + " auto: " + dtype + ", " + why
	}
	bytes, err := BytesPerKVElement(dtype)
	if err != nil {
		return lacking(name, key)
	}
	return operand{name: name, value: bytes, assumed: assumed}
}

// experts adds the steps of a mixture of experts, and returns what decoding
// reads of the weights for a token, in bytes over all GPUs.
func (c *chain) experts(parameters, perParameter operand) operand {
	active := given("model.active_parameters", c.plan.Model.ActiveParameters)
	g := c.config.Geometry
	if !active.known() && (g == nil || g.Experts == 0) {
		dense := parameters.as("active_parameters")
		if g == nil && dense.known() {
			dense.assumed = "model.active_parameters is model.parameters: a dense model"
		}
		active = dense
	}
	if g != nil && g.Experts > 0 || g == nil && c.plan.Model.ActiveParameters != nil {
		c.step(formula{name: "moe_weight_bytes", text: "parameters x bytes_per_parameter", unit: "B", source: "C"},
			exact(func(x []float64) float64 { return WeightBytes(x[0], x[1], 1) }), parameters, perParameter)
		c.step(formula{name: "moe_active_bytes_per_token", text: "active_parameters x bytes_per_parameter", unit: "B per token", source: "C"},
			exact(func(x []float64) float64 { return MoEActiveBytesPerToken(x[0], x[1]) }), active, perParameter)
	}
	bytes := product("active_weight_bytes", active, perParameter)
	bytes.assumed = active.assumed
	return bytes
}

// sequenceMemory works out what a sequence of a profile takes, and how many fit.
// What no context changes is written down with the first profile only.
func (c *chain) sequenceMemory(u *population, first bool) {
	g := c.config.Geometry
	u.context = u.contextTokens()
	if first || g != nil && g.SlidingLayers > 0 {
		u.kvPerToken = c.kvBytesPerToken(u)
	} else {
		u.kvPerToken = c.loads[0].kvPerToken
	}
	u.kvPerSequence = c.step(
		formula{name: "kv_bytes_per_sequence", text: "kv_bytes_per_token x context_tokens_max", unit: "B", source: "A part 3", profile: u.profile},
		exact(func(x []float64) float64 { return KVBytesPerSequence(x[0], x[1]) }), u.kvPerToken, u.context)
	u.maxSequences = c.step(
		formula{name: "max_sequences", text: "floor(kv_budget_bytes / (kv_bytes_per_sequence x kv_copies))", unit: "sequences per replica", source: "A part 3, C", profile: u.profile},
		exact(func(x []float64) float64 { return MaxSequences(x[0], x[1], x[2]) }), c.kvBudget, u.kvPerSequence, c.copies)
	if first || g != nil && g.SlidingLayers > 0 {
		c.step(
			formula{name: "max_live_tokens", text: "floor(kv_budget_bytes / (kv_bytes_per_token x kv_copies))", unit: "tokens per replica", source: "C", profile: u.profile},
			exact(func(x []float64) float64 { return MaxLiveTokens(x[0], x[1], x[2]) }), c.kvBudget, u.kvPerToken, c.copies)
	}
	if g != nil && g.SlidingLayers > 0 {
		c.engineCapacity(u)
	}
	u.seats = c.operational(u)
}

func (c *chain) kvBytesPerToken(u *population) operand {
	f := formula{name: "kv_bytes_per_token", unit: "B", source: "A part 3, C"}
	g := c.config.Geometry
	layers := func(n int) operand { return known("layers", float64(n)) }
	switch {
	case g == nil:
		f.text = "2 x layers x kv_heads x head_dim x bytes_per_element"
		why := "model.config_json"
		if c.config.Problem != "" {
			why += ": " + c.config.Problem
		}
		return c.step(f, exact(func(x []float64) float64 { return 0 }), lacking("layers", why))
	case g.Latent > 0:
		f.text, f.source = "layers x (kv_lora_rank + qk_rope_head_dim) x bytes_per_element", "DeepSeek-V2, arXiv 2405.04434"
		return c.step(f, exact(func(x []float64) float64 { return x[0] * x[1] * x[2] }), layers(g.FullLayers), known("latent", float64(g.Latent)), c.kvElement)
	case g.SlidingLayers > 0:
		f.profile = u.profile
		f.text = "2 x kv_heads x head_dim x bytes_per_element x group_layers x (full_groups + sliding_groups x min(window, context_tokens_max) / context_tokens_max)"
		groups := g.Groups()
		return c.step(f, exact(func(x []float64) float64 { return g.BytesPerToken(x[7], x[2]) }),
			known("kv_heads", float64(g.KVHeads)), known("head_dim", float64(g.HeadDim)), c.kvElement, known("group_layers", float64(groups.Layers)),
			known("full_groups", float64(groups.Full)), known("sliding_groups", float64(groups.Sliding)), known("window", float64(g.Window)), u.context)
	default:
		f.text = "2 x layers x kv_heads x head_dim x bytes_per_element"
		return c.step(f, exact(func(x []float64) float64 { return KVBytesPerToken(x[0], x[1], x[2], x[3]) }),
			layers(g.FullLayers), known("kv_heads", float64(g.KVHeads)), known("head_dim", float64(g.HeadDim)), c.kvElement)
	}
}

// defaultBlockTokens and batchesAhead are vLLM's own on GPUs: its block size, and
// how many batches are under way with its asynchronous scheduling.
const (
	defaultBlockTokens = 16
	batchesAhead       = 2
)

// engineCapacity is what the engine's page will say. With windows that is not
// max_live_tokens: vLLM sets aside what a sequence holds while full batches of it
// are prefilled.
func (c *chain) engineCapacity(u *population) {
	g := c.config.Geometry
	c.step(
		formula{
			name: "kv_cache_size_tokens", unit: "tokens per replica, as vLLM says", source: "vLLM 0.32", profile: u.profile,
			text: "blocks in kv_budget_bytes / blocks of a sequence of context_tokens_max with max_num_batched_tokens x batches_ahead in its windows x context_tokens_max",
		},
		exact(func(x []float64) float64 {
			p := Paged{Geometry: *g, BytesPerElement: x[1], Copies: x[2], BlockTokens: x[5]}
			return p.CapacityTokens(max(0, x[0]), x[3], x[4]*x[6])
		}),
		c.kvBudget, c.kvElement, c.copies, u.context, given("engine.max_num_batched_tokens", c.plan.Engine.MaxNumBatchedTokens),
		known("block_size", defaultBlockTokens), known("batches_ahead", batchesAhead))
}

// operational is at how many sequences a replica runs: what its memory holds, or
// fewer where the SLO was measured to break.
func (c *chain) operational(u *population) operand {
	f := formula{name: "operational_concurrency", unit: "sequences per replica", source: "C", profile: u.profile}
	first := exact(func(x []float64) float64 { return x[0] })
	measured := given("engine.concurrency", c.plan.Engine.Concurrency)
	switch {
	case !measured.known():
		ceiling := u.maxSequences
		if ceiling.known() {
			ceiling.assumed = "engine.concurrency is what memory holds: no measurement says where TTFT and ITL break"
		}
		f.text = "max_sequences"
		return c.step(f, first, ceiling)
	case !u.maxSequences.known():
		f.text = "concurrency"
		measured.assumed = "max_sequences is no less than engine.concurrency"
		return c.step(f, first, measured)
	default:
		f.text = "min(max_sequences, concurrency)"
		return c.step(f, exact(func(x []float64) float64 { return min(x[0], x[1]) }), u.maxSequences, measured)
	}
}

// exactSeats is the operational concurrency before rounding.
func (u *population) exactSeats(c *chain) operand {
	perSequence := product("", u.kvPerSequence, c.copies)
	seats := share(c.kvBudget, perSequence)
	if v := c.plan.Engine.Concurrency; v != nil && (!seats.known() || *v < seats.value) {
		return known("", *v)
	}
	return seats
}
