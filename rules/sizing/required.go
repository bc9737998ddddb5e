package sizing

import "fmt"

// Resources that a plan has and a load needs.
const (
	ResourceGPUs            = "gpus"
	ResourceNodes           = "nodes"
	ResourceReplicas        = "replicas"
	ResourceMaxNumSeqs      = "max_num_seqs"
	ResourceGatewayWorkers  = "gateway_workers"
	ResourceGatewayReplicas = "gateway_replicas"
	ResourceDBConnections   = "db_connections"
	ResourceKVGB            = "kv_gb"
)

// Resources are all of them, in the order in which they are shown.
func Resources() []string {
	return []string{
		ResourceGPUs, ResourceNodes, ResourceReplicas, ResourceMaxNumSeqs,
		ResourceGatewayWorkers, ResourceGatewayReplicas, ResourceDBConnections, ResourceKVGB,
	}
}

// require collects what the load needs. GPUs that follow from a throughput are
// those of whole nodes, head-room included; workers are those of one replica.
func (c *chain) require() {
	gpus := c.gpus
	if perNode := c.plan.Hardware.GPUsPerNode; perNode != nil && c.requiredTPS.known() && c.nodes.known() {
		gpus = known("", c.nodes.value**perNode)
	}
	c.required = map[string]float64{}
	for resource, need := range map[string]operand{
		ResourceGPUs: gpus, ResourceNodes: c.nodes, ResourceReplicas: c.replicas, ResourceMaxNumSeqs: c.maxNumSeqs(),
		ResourceGatewayWorkers: c.gateway.workersPerReplica, ResourceGatewayReplicas: c.gateway.replicas,
		ResourceDBConnections: c.gateway.connections, ResourceKVGB: scaled(c.kvRequired, 1.0/GB),
	} {
		if need.known() {
			c.required[resource] = need.value
		}
	}
}

// maxNumSeqs is how many sequences a replica may run at once, so that all of
// them fit whichever profile they are of.
func (c *chain) maxNumSeqs() operand {
	least := c.loads[0].seats
	for _, u := range c.loads[1:] {
		if !u.seats.known() || least.known() && u.seats.value < least.value {
			least = u.seats
		}
	}
	if least.known() {
		least.value = Floor(least.value)
	}
	if least.known() && least.value < 1 {
		return lacking("", errNoRoom.Error())
	}
	return least
}

// planned is what the plan has of each resource.
func (c *chain) planned() map[string]float64 {
	h, g := c.plan.Hardware, c.plan.Gateway
	has := map[string]float64{}
	for resource, v := range map[string]*float64{
		ResourceGPUs: h.GPUs, ResourceNodes: h.Nodes, ResourceReplicas: h.Replicas, ResourceMaxNumSeqs: c.plan.Engine.MaxNumSeqs,
		ResourceGatewayWorkers: g.Workers, ResourceGatewayReplicas: g.Replicas, ResourceDBConnections: g.MaxConnections,
	} {
		if v != nil {
			has[resource] = *v
		}
	}
	if h.Replicas != nil && c.kvBudget.known() {
		has[ResourceKVGB] = max(0, c.kvBudget.value) * *h.Replicas / GB
	}
	return has
}

// findings are where the plan contradicts itself or falls short.
func (c *chain) findings(w *Worksheet) []string {
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, resource := range Resources() {
		need, told := w.Required[resource]
		has, planned := w.Planned[resource]
		if told && planned && resource != ResourceMaxNumSeqs && need > has*(1+rounding) {
			say("%s: %.4g are planned, %.4g are needed.", resource, has, need)
		}
	}
	if need, has := w.Required[ResourceMaxNumSeqs], w.Planned[ResourceMaxNumSeqs]; need > 0 && has > need {
		say("max_num_seqs: %.4g are planned, %.4g fit: more are preempted.", has, need)
	}
	if need, has := w.Required[ResourceReplicas], w.Planned[ResourceReplicas]; need > 0 && has == need {
		say("replicas: all %.4g are needed, none is spare for maintenance; one more takes %.4g GPUs.", has, c.tensorParallel.value)
	}
	if c.kvBudget.known() && c.kvBudget.value <= 0 {
		say("The model does not fit: weights, activations and overhead take more than a GPU has.")
	}
	for _, u := range c.loads {
		if u.DutyCycle == nil {
			continue
		}
		alone := product("", known("", 1), dutyOf(c.dutyInputs(u)))
		if alone.known() && alone.value > *u.DutyCycle {
			say("%sduty_cycle is %.3g, but decode alone takes %.3g of a session at %.3g tokens/s per user: it holds only from %.3g tokens/s.",
				u.prefix, *u.DutyCycle, alone.value, c.dutyInputs(u)[2].value, c.dutyInputs(u)[2].value*alone.value / *u.DutyCycle)
		}
	}
	for _, o := range c.plan.Optimisations {
		if o.Acceptance != nil && o.AcceptanceMin != nil && *o.Acceptance < *o.AcceptanceMin {
			say("optimisations.%s: acceptance %.3g is below acceptance_min %.3g.", o.Name, *o.Acceptance, *o.AcceptanceMin)
		}
	}
	return all
}

// dutyOf is the duty cycle of decode alone.
func dutyOf(in []operand) operand {
	return share(share(product("", in[0], in[1]), in[2]), in[3])
}
