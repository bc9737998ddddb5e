package sizing

import (
	"cmp"
	"fmt"
	"slices"
)

// Lever is a what-if: the plan reckoned again with one thing changed.
type Lever struct {
	Name string
	// Change is what to pass to --set, or what it means in words.
	Change string
	// GPUs and Seats are what the load needs and what a replica holds then; nil where
	// that is unknown.
	GPUs, Seats *float64
	// Note says what has to hold, or what somebody else measured.
	Note string
	// Reported levers are not reckoned: Note is what their source reports.
	Reported bool

	exact float64
}

// levers reckons each lever that applies, and sorts them by what they save; then
// those that only a measurement can tell.
func levers(p *Plan, config Config, base *chain) []Lever {
	var all []Lever
	for _, try := range []func(*Plan, Config, *chain) *Lever{kvInFP8, weightsInFP8, weightsInInt4, speculation, disaggregation, doubledTensorParallel} {
		if l := try(p, config, base); l != nil {
			all = append(all, *l)
		}
	}
	slices.SortStableFunc(all, func(a, b Lever) int {
		if (a.GPUs == nil) != (b.GPUs == nil) {
			if a.GPUs == nil {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.exact, b.exact)
	})
	return append(all, reported...)
}

// reported are levers whose return their sources measured elsewhere (A part 7).
var reported = []Lever{ //nolint:gochecknoglobals // a table of what the sources report, never written.
	{Name: "session affinity at the gateway", Change: "router_settings.optional_pre_call_checks: [session_affinity]", Note: "without it the hit ratio of the plan does not hold (A parts 2 and 7)", Reported: true},
	{Name: "long prefills in pieces", Change: "--long-prefill-token-threshold 512", Note: "+93 % tokens per GPU and second in AgentX's measurement (A part 7)", Reported: true},
	{Name: "a queue with an end", Change: "--max-num-queued-reqs, max_in_flight_requests_per_worker", Note: "saves no GPU: it protects the SLO of those admitted (A part 7)", Reported: true},
	{Name: "fewer tokens per batch", Change: "--max-num-batched-tokens, downwards", Note: "better inter-token latency for worse time to first token (A part 7)", Reported: true},
}

// outcomeOf fills in what a reckoning gives; nil where it is what the plan gives
// without it.
func (l Lever) outcomeOf(base, c *chain) *Lever {
	if gpus, ok := c.required[ResourceGPUs]; ok {
		l.GPUs, l.exact = &gpus, c.exactGPUs.value
	}
	if seats := c.maxNumSeqs(); seats.known() {
		l.Seats = &seats.value
	}
	before := base.maxNumSeqs()
	moves := l.GPUs != nil && l.exact != base.exactGPUs.value || l.Seats != nil && before.known() && *l.Seats != before.value
	if !moves {
		return nil
	}
	return &l
}

func kvInFP8(p *Plan, config Config, base *chain) *Lever {
	if !base.kvElement.known() || base.kvElement.value <= 1 {
		return nil
	}
	what := p.clone()
	what.Model.KVDType = "fp8"
	return Lever{Name: "KV cache in FP8", Change: "model.kv_dtype=fp8", Note: "validate with evals"}.outcomeOf(base, calculate(what, config))
}

func weightsInFP8(p *Plan, config Config, base *chain) *Lever {
	return quantised(p, config, base, "fp8")
}

func weightsInInt4(p *Plan, config Config, base *chain) *Lever {
	return quantised(p, config, base, "int4")
}

// quantised reckons with smaller weights. A time per token that was measured
// shrinks with the bytes that decode reads, as far as it is bound by them.
func quantised(p *Plan, config Config, base *chain, dtype string) *Lever {
	before := base.bytesPerParameter()
	after, err := BytesPerParameter(dtype)
	if err != nil || !before.known() || before.value <= after {
		return nil
	}
	what := p.clone()
	what.Model.WeightDType = dtype
	l := Lever{Name: "weights in " + dtype, Change: "model.weight_dtype=" + dtype, Note: "validate with evals"}
	for i, a := range what.CriticalAssumptions {
		if a.Name == assumedTPOT {
			tpot := *a.Value * after / before.value
			what.CriticalAssumptions[i].Value = &tpot
			l.Note += fmt.Sprintf("; tpot_ms taken as %.3g, in proportion to the weights: measure it", tpot)
		}
	}
	return l.outcomeOf(base, calculate(what, config))
}

// speculation reckons with and without the gain that the plan expects of it;
// without one there is nothing to reckon with.
func speculation(p *Plan, config Config, base *chain) *Lever {
	if p.gain() == nil || !base.asksRate() {
		return nil
	}
	what := p.clone()
	for i := range what.Optimisations {
		if what.Optimisations[i].Name == speculativeDecoding {
			what.Optimisations[i].Gain = nil
		}
	}
	return Lever{
		Name: "without speculative decoding", Change: "optimisations." + speculativeDecoding + ".gain=0",
		Note: fmt.Sprintf("the plan counts on a gain of %.3g", *p.gain()),
	}.outcomeOf(base, calculate(what, config))
}

// disaggregation reckons prefill and decode on replicas of their own.
func disaggregation(p *Plan, _ Config, base *chain) *Lever {
	if len(base.loads) != 1 || !base.asksRate() {
		return nil
	}
	u := base.loads[0]
	rate := scaled(base.rps, 1+base.rateHeadroom().value)
	decode := share(product("", rate, combine("", u.request, u.prefill, func(all, prefill float64) (float64, error) { return all - prefill, nil })), u.seats)
	prefill := product("", rate, u.prefill)
	replicas := combine("", decode, prefill, func(d, p float64) (float64, error) { return Ceil(d) + Ceil(p), nil })
	gpus := product("", replicas, base.tensorParallel)
	if !gpus.known() {
		return nil
	}
	exact := product("", sum("", []operand{decode, prefill}), base.tensorParallel)
	return &Lever{
		Name: "prefill and decode on replicas of their own", Change: fmt.Sprintf("%.0f replicas for decode, %.0f for prefill", Ceil(decode.value), Ceil(prefill.value)),
		GPUs: &gpus.value, Note: "prefill replicas reckoned at their full rate", exact: exact.value,
	}
}

func doubledTensorParallel(p *Plan, config Config, base *chain) *Lever {
	what := p.clone()
	twice := 2 * base.tensorParallel.value
	what.Engine.TensorParallel = &twice
	return Lever{
		Name: "twice the GPUs in a replica", Change: fmt.Sprintf("engine.tensor_parallel=%.0f", twice), Note: "weights are held once for more KV cache",
	}.outcomeOf(base, calculate(what, config))
}
