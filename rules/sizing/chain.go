package sizing

import (
	"fmt"
	"strings"
)

// chain is a plan being worked out: its steps so far, and the results that later
// ones need.
type chain struct {
	sheet
	plan   *Plan
	config Config
	loads  []*population

	tensorParallel, activeBytes, kvBudget, copies, kvElement operand
	tpotFloor, tpot, prefillRate                             operand
	rps, replicas, gpus, nodesBefore, nodes, requiredTPS     operand
	gateway                                                  gatewayNeed
	sequences, kvRequired                                    operand
	nodeCost, gpuHour, perMillion                            operand
	// exactGPUs is the need of GPUs before any rounding, for comparisons.
	exactGPUs operand
	required  map[string]float64
}

// population is one profile being worked out.
type population struct {
	Profile
	// prefix of its keys, and its name where there are several.
	prefix, profile string

	context, newTokens                             operand
	kvPerToken, kvPerSequence, maxSequences, seats operand
	prefill, request, replicaRPS                   operand
	duty, amplification, sequences, exactSequences operand
	kvRequired, peakRPS                            operand
}

// calculate works the plan out as far as its keys go.
func calculate(p *Plan, config Config) *chain {
	c := &chain{plan: p, config: config}
	loads := p.loads()
	for _, l := range loads {
		u := &population{Profile: l, prefix: "workload."}
		if len(p.Workload.Profiles) > 0 {
			u.prefix = "workload.profiles." + l.Name + "."
			if l.Name == "" {
				u.prefix = "workload.profiles.0."
			}
		}
		if len(loads) > 1 {
			u.profile = l.Name
		}
		c.loads = append(c.loads, u)
	}
	c.memory()
	c.time()
	c.agents()
	c.throughput()
	c.fleet()
	c.admission()
	c.money()
	c.require()
	return c
}

// key names a key of the profile.
func (u *population) key(name string) string { return u.prefix + name }

// drives says whether the profile has people, who drive its sequences.
func (u *population) drives() bool { return u.People != nil }

// contextTokens is the longest context that must fit: as given, else prompt and
// output at their 95th percentiles, else at their medians.
func (u *population) contextTokens() operand {
	const name = "context_tokens_max"
	switch {
	case u.ContextTokensMax != nil:
		return given(u.key(name), u.ContextTokensMax)
	case u.PromptTokensP95 != nil && u.OutputTokensP95 != nil:
		return orElse(u.key(name), nil, *u.PromptTokensP95+*u.OutputTokensP95, "is prompt and output at P95")
	case u.PromptTokensP50 != nil && u.OutputTokensP50 != nil:
		return orElse(u.key(name), nil, *u.PromptTokensP50+*u.OutputTokensP50, "is prompt and output at P50: half of the sequences are longer")
	default:
		return lacking(name, u.key(name))
	}
}

// fleet turns what is needed into replicas, GPUs and nodes: by what the people
// of all profiles hold at once, by a rate, and by a throughput; the greatest of
// those that the plan asks for.
func (c *chain) fleet() {
	var ways, exactWays []operand
	if c.anyPeople() {
		ways, exactWays = append(ways, c.replicasByPeople()), append(exactWays, c.exactByPeople())
	}
	if c.asksRate() {
		byRate := c.replicasByRate()
		ways, exactWays = append(ways, byRate), append(exactWays, byRate)
	}
	c.replicas = c.greatest(formula{name: "replicas", unit: "replicas", source: "A part 4, C"}, ways, "workload.people, slo.rps_target")
	c.exactGPUs = product("", largest(exactWays), c.tensorParallel)

	var needs []operand
	if len(ways) > 0 {
		needs = append(needs, product("gpus_of_replicas", c.replicas, c.tensorParallel))
	}
	throughput := share(c.requiredTPS, given("cost.tokens_per_s_per_gpu", c.plan.Cost.TokensPerSPerGPU)).as("gpus_of_throughput")
	if throughput.known() {
		c.exactGPUs = largest([]operand{throughput, c.exactGPUs})
	}
	if throughput.known() || len(needs) == 0 && c.plan.Workload.RequestsPerDay != nil {
		needs = append(needs, throughput)
	}
	c.gpus = c.greatest(formula{name: "gpus", unit: "GPUs", source: "C, S step 4"}, needs, "workload.people, slo.rps_target, workload.requests_per_day")
	c.wholeNodes(throughput)
}

// asksRate says whether the plan has a rate that replicas are to complete, and
// not only a throughput: there is one profile whose requests can be timed, or
// the rate is the SLO's.
func (c *chain) asksRate() bool {
	return c.plan.SLO.RPSTarget != nil || c.plan.Workload.RequestsPerDay != nil && len(c.loads) == 1 && c.loads[0].replicaRPS.known()
}

func (c *chain) replicasByPeople() operand {
	var inputs []operand
	text := ""
	for _, u := range c.loads {
		if !u.drives() {
			continue
		}
		sequences, seats := u.sequences.as("concurrent_sequences"), u.seats.as("operational_concurrency")
		if u.profile != "" {
			sequences.name, seats.name = sequences.name+"."+u.profile, seats.name+"."+u.profile
		}
		if text != "" {
			text += " + "
		}
		text += sequences.name + " / " + seats.name
		inputs = append(inputs, sequences, seats)
	}
	return c.step(formula{name: "replicas_by_people", text: text, unit: "replicas", source: "A part 4"}, func(x []float64) (float64, error) {
		all := 0.0
		for i := 0; i < len(x); i += 2 {
			if x[i+1] == 0 {
				return 0, errNoRoom
			}
			all += x[i] / x[i+1]
		}
		return all, nil
	}, inputs...)
}

// exactByPeople is the same before sequences and seats are rounded.
func (c *chain) exactByPeople() operand {
	var parts []operand
	for _, u := range c.loads {
		if u.drives() {
			parts = append(parts, share(u.exactSequences, u.exactSeats(c)))
		}
	}
	return sum("", parts)
}

func (c *chain) replicasByRate() operand {
	f := formula{name: "replicas_by_rate", text: "rps x (1 + peak_over_p95) / replica_rps", unit: "replicas", source: "C"}
	perReplica := lacking("replica_rps", fmt.Sprintf("how the rate divides among %d profiles", len(c.loads)))
	if len(c.loads) == 1 {
		perReplica = c.loads[0].replicaRPS
	}
	return c.step(f, func(x []float64) (float64, error) {
		if x[2] == 0 {
			return 0, errNoRoom
		}
		return x[0] * (1 + x[1]) / x[2], nil
	}, c.rps, c.rateHeadroom(), perReplica)
}

func (c *chain) rateHeadroom() operand {
	return orElse("headroom.peak_over_p95", c.plan.Headroom.PeakOverP95, 0, "0")
}

// wholeNodes puts the GPUs into nodes. Head-room for nodes is S's, for what
// follows from a throughput; replicas have theirs already.
func (c *chain) wholeNodes(throughput operand) {
	perNode := given("hardware.gpus_per_node", c.plan.Hardware.GPUsPerNode)
	c.nodesBefore = share(c.gpus, perNode)
	c.nodesBefore.value = Ceil(c.nodesBefore.value)
	f := formula{name: "nodes", text: "ceil(gpus / gpus_per_node)", unit: "nodes", source: "S step 4"}
	if !throughput.known() {
		c.nodes = c.step(f, exact(func(x []float64) float64 { return Nodes(x[0], x[1]) }), c.gpus, perNode)
		return
	}
	f.text = "ceil(ceil(gpus / gpus_per_node) x (1 + headroom_nodes))"
	headroom := orElse("headroom.nodes", c.plan.Headroom.Nodes, 0, "0").as("headroom_nodes")
	c.nodes = c.step(f, exact(func(x []float64) float64 { return NodesWithHeadroom(Nodes(x[0], x[1]), x[2]) }), c.gpus, perNode, headroom)
}

// greatest is the greatest of several needs, rounded up. Without any it lacks
// the keys that would ask for one. A way that is unknown leaves the others as
// what is at least needed, which is not known to be enough: the result is
// unknown.
func (c *chain) greatest(f formula, ways []operand, keys string) operand {
	if len(ways) == 0 {
		ways = []operand{lacking("need", "one of "+keys)}
	}
	names := make([]string, len(ways))
	for i, w := range ways {
		names[i] = w.name
	}
	f.text = "ceil(" + names[0] + ")"
	if len(ways) > 1 {
		f.text = "ceil(max(" + strings.Join(names, ", ") + "))"
	}
	return c.step(f, exact(func(x []float64) float64 {
		most := x[0]
		for _, v := range x[1:] {
			most = max(most, v)
		}
		return Ceil(most)
	}), ways...)
}

func (c *chain) anyPeople() bool {
	for _, u := range c.loads {
		if u.drives() {
			return true
		}
	}
	return false
}

// combine is f of two operands; what is missing of one is missing of the result.
func combine(name string, a, b operand, f func(a, b float64) (float64, error)) operand {
	o := operand{name: name}
	for _, in := range []operand{a, b} {
		for _, why := range in.missing {
			o.missing = addOnce(o.missing, why)
		}
	}
	if o.known() {
		o.value, o.missing = finite(f(a.value, b.value))
	}
	return o
}

// share is a over b; nothing over nothing that fits is unknown.
func share(a, b operand) operand {
	return combine(a.name, a, b, func(a, b float64) (float64, error) {
		if b == 0 {
			return 0, errNoRoom
		}
		return a / b, nil
	})
}

func product(name string, a, b operand) operand {
	return combine(name, a, b, func(a, b float64) (float64, error) { return a * b, nil })
}

func scaled(o operand, by float64) operand {
	o.value *= by
	return o
}

// largest of those that are known; unknown when none is.
func largest(all []operand) operand {
	best := lacking("", "nothing asks for it")
	for _, o := range all {
		if o.known() && (!best.known() || o.value > best.value) {
			best = o
		}
	}
	return best
}
