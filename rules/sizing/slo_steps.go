package sizing

import "fmt"

// throughput works the demand of section 6 out: the rate and the tokens of the
// busy hour, and the capacity to install for them.
func (c *chain) throughput() {
	w := c.plan.Workload
	perDay := given("workload.requests_per_day", w.RequestsPerDay)
	hours := orElse("workload.active_hours", w.ActiveHours, 24, "24")
	peak := orElse("workload.peak_factor", w.PeakFactor, 1, "1: no peak")
	output := c.output()
	c.rps = given("slo.rps_target", c.plan.SLO.RPSTarget).as("rps")
	if !c.rps.known() && perDay.known() {
		c.rps = known("rps", peak.value*perDay.value/(hours.value*3600))
	}
	peakTPS := c.step(
		formula{name: "peak_output_tps", text: "peak_factor x requests_per_day x output_tokens_p50 / (active_hours x 3600)", unit: "tokens/s", source: "S step 1"},
		exact(func(x []float64) float64 { return PeakOutputTPS(x[0], x[1], x[2], x[3]) }), peak, perDay, output, hours)
	c.step(
		formula{name: "average_output_tps", text: "requests_per_day x output_tokens_p50 / 86400", unit: "tokens/s", source: "S step 1"},
		exact(func(x []float64) float64 { return PeakOutputTPS(1, x[0], x[1], 24) }), perDay, output)
	rho := c.utilisation()
	c.requiredTPS = c.step(
		formula{name: "required_tps", text: "peak_output_tps / rho_max", unit: "tokens/s", source: "S step 3"},
		exact(func(x []float64) float64 { return RequiredTPS(x[0], x[1]) }), peakTPS, rho)
}

// output is the output of a call of the whole load: the workload's own, or its
// only profile's. Several profiles have no common one.
func (c *chain) output() operand {
	const key = "workload.output_tokens_p50"
	if c.plan.Workload.OutputTokensP50 == nil && len(c.loads) == 1 {
		return given(c.loads[0].key("output_tokens_p50"), c.loads[0].OutputTokensP50)
	}
	return given(key, c.plan.Workload.OutputTokensP50)
}

// utilisation is the greatest that the wait in the SLO leaves: by the service
// times that the plan gives, else by S's table.
func (c *chain) utilisation() operand {
	wait := given("slo.wait_mean_ms", c.plan.SLO.WaitMeanMs)
	service := given("critical_assumptions."+assumedService, c.plan.assumed(assumedService))
	f := formula{name: "rho_max", unit: "ratio", source: "S step 2, as Pollaczek and Khinchine have it"}
	if !service.known() {
		f.text, f.source = "S's table at wait_mean_ms, interpolated", "S step 2, its table: the plan has no service_ms and service_cv2"
		return c.step(f, func(x []float64) (float64, error) {
			rho, err := RhoMaxFromTable(x[0])
			if err != nil {
				return 0, fmt.Errorf("%w; give critical_assumptions.service_ms and service_cv2", err)
			}
			return rho, nil
		}, wait)
	}
	f.text = "2 x wait_mean_ms / (2 x wait_mean_ms + service_ms x (1 + service_cv2))"
	cv2 := orElse("critical_assumptions."+assumedServiceCV2, c.plan.assumed(assumedServiceCV2), 1, "1: M/M/1")
	return c.step(f, exact(func(x []float64) float64 { return RhoMax(x[0], x[1], x[2]) }), wait, service, cv2)
}

// money works the costs of section 6 out.
func (c *chain) money() {
	cost, currency := c.plan.Cost, c.currency()
	opex, capex := given("cost.node_opex_per_year", cost.NodeOpexPerYear), given("cost.node_capex", cost.NodeCapex)
	perNode, used := given("hardware.gpus_per_node", c.plan.Hardware.GPUsPerNode), given("cost.utilisation", cost.Utilisation)
	cloud := given("cost.cloud_price_per_gpu_hour", cost.CloudPricePerGPUHour)
	c.nodeCost = c.step(
		formula{name: "node_cost_per_year", text: "node_capex / years + node_opex_per_year", unit: currency + " per node and year", source: "S 2.1"},
		exact(func(x []float64) float64 { return NodeCostPerYear(x[0], x[1], x[2]) }), capex, given("cost.years", cost.Years), opex)
	c.gpuHour = c.step(
		formula{name: "eur_per_gpu_hour", text: "node_cost_per_year / (gpus_per_node x 8760 x utilisation)", unit: currency + " per GPU-hour", source: "S 2.2"},
		exact(func(x []float64) float64 { return CostPerGPUHour(x[0], x[1], x[2]) }), c.nodeCost, perNode, used)
	c.perMillion = c.step(
		formula{name: "eur_per_million_tokens", text: "eur_per_gpu_hour x 1e6 / (tokens_per_s_per_gpu x 3600)", unit: currency + " per million output tokens", source: "S 2.3"},
		exact(func(x []float64) float64 { return CostPerMillionTokens(x[0], x[1]) }), c.gpuHour, given("cost.tokens_per_s_per_gpu", cost.TokensPerSPerGPU))
	c.step(
		formula{name: "break_even_utilisation", text: "node_cost_per_year / (gpus_per_node x 8760 x cloud_price_per_gpu_hour)", unit: "ratio", source: "S 3.1"},
		exact(func(x []float64) float64 { return BreakEvenUtilisation(x[0], x[1], x[2]) }), c.nodeCost, perNode, cloud)
	c.step(
		formula{
			name: "payback_months", unit: "months", source: "S 3.2",
			text: "12 x node_capex / (cloud_price_per_gpu_hour x gpus_per_node x 8760 x utilisation - node_opex_per_year)",
		},
		func(x []float64) (float64, error) { return PaybackMonths(x[0], x[4], x[2], x[1], x[3]) }, capex, cloud, perNode, used, opex)
	c.step(
		formula{name: "saturation_years", text: "ln(1 / utilisation) / ln(1 + growth_per_year)", unit: "years", source: "S 5.4"},
		exact(func(x []float64) float64 { return SaturationYears(x[0], x[1]) }), used, given("workload.growth_per_year", c.plan.Workload.GrowthPerYear))
	c.step(
		formula{name: "headroom_cost", text: "headroom_nodes x node_cost_per_year x nodes_before_headroom", unit: currency + " per year", source: "S 5.5"},
		exact(func(x []float64) float64 { return HeadroomCost(x[0], x[1], x[2]) }),
		given("headroom.nodes", c.plan.Headroom.Nodes).as("headroom_nodes"), c.nodeCost, c.nodesBefore.as("nodes_before_headroom"))
}

// currency is the plan's, or the word where it names none.
func (c *chain) currency() string {
	if c.plan.Cost.Currency == "" {
		return "currency"
	}
	return c.plan.Cost.Currency
}
