package sizing

import (
	"fmt"
	"math"
	"strings"
)

// The bases of a cost: what the output within the SLO costs in all, and what of
// that is for computing new prompt tokens, for computing prompt tokens again, for
// generating, and for engines that wait for work. The parts add up to the total.
const (
	BasisTotal           = "total"
	BasisPrefillNew      = "prefill_new"
	BasisPrefillRepeated = "prefill_repeated"
	BasisDecode          = "decode"
	BasisIdle            = "idle"
)

// Bases are all of them, in the order in which they are shown.
func Bases() []string {
	return []string{BasisTotal, BasisPrefillNew, BasisPrefillRepeated, BasisDecode, BasisIdle}
}

// Costs are what the measured output really costs.
type Costs struct {
	Currency string `json:"currency"`
	// Owned says that the price is that of owned nodes, else it is the cloud's.
	Owned bool `json:"owned"`
	// PerGPUHour is the price of an hour of a GPU, used or not.
	PerGPUHour float64 `json:"per_gpu_hour"`
	// GPUHours is how many were paid for in the hours that were read, Goodput the
	// output tokens within the SLO that they gave.
	GPUHours float64 `json:"gpu_hours"`
	Goodput  float64 `json:"goodput_tokens"`
	// PerMillion is the cost of a million output tokens within the SLO, by basis; a
	// basis that is not known is absent.
	PerMillion map[string]float64 `json:"per_million_tokens"`
	// Planned is the plan's own, nil where it has none.
	Planned *float64 `json:"planned_per_million_tokens"`
	// IdleShare is the share of the time in which an engine ran no request.
	IdleShare float64 `json:"idle_share"`
	// Cloud is what the same hours would cost rented, per million; BreakEven is the
	// utilisation above which owning costs less; nil without prices.
	Cloud     *float64 `json:"cloud_per_million_tokens"`
	BreakEven *float64 `json:"break_even_utilisation"`
	// Text says how the measured utilisation compares with it.
	Text string `json:"text,omitempty"`
}

// PricePerGPUHour is what an hour of a GPU costs whether it is used or not: that
// of an owned node, else the cloud's. The missing keys are an error.
func (p *Plan) PricePerGPUHour() (price float64, owned bool, err error) {
	c := calculate(p, Config{})
	perNode := given("hardware.gpus_per_node", p.Hardware.GPUsPerNode)
	if hour := share(c.nodeCost, perNode); hour.known() {
		return hour.value / HoursPerYear, true, nil
	}
	if v := p.Cost.CloudPricePerGPUHour; v != nil {
		return *v, false, nil
	}
	missing := c.nodeCost.missing
	for _, why := range perNode.missing {
		missing = addOnce(missing, why)
	}
	return 0, false, fmt.Errorf("there is no price: it needs %s, or cost.cloud_price_per_gpu_hour", strings.Join(missing, ", "))
}

// costs works out what the output within the SLO costs; text says why not.
func (r *review) costs() (c *Costs, text string) {
	price, owned, err := r.plan.PricePerGPUHour()
	if err != nil {
		return nil, err.Error()
	}
	all := merge(r.slots)
	if all.Output <= 0 || all.EngineSeconds <= 0 {
		return nil, "no output was seen in hours that were read for most of their time"
	}
	c = &Costs{Currency: r.base.currency(), Owned: owned, PerGPUHour: price, GPUHours: all.EngineSeconds / 3600 * r.base.tensorParallel.value}
	c.IdleShare = 1 - min(1, all.BusySeconds/all.EngineSeconds)
	c.Goodput = all.Output
	for _, o := range objectives(r.plan, all) {
		if o.values.Count > 0 {
			c.Goodput *= o.values.Within(o.limit) / o.values.Count
		}
	}
	if c.Goodput <= 0 {
		return nil, "no output met the SLO: it has no price"
	}
	total := c.GPUHours * price / c.Goodput * 1e6
	c.PerMillion = r.phases(all, total, c.IdleShare)
	if r.base.perMillion.known() {
		c.Planned = &r.base.perMillion.value
	}
	if cloud := r.plan.Cost.CloudPricePerGPUHour; cloud != nil {
		rented := total * *cloud / price
		c.Cloud = &rented
		c.breakEven(price, *cloud, all)
	}
	return c, ""
}

// breakEven compares what is used with what would pay owning.
func (c *Costs) breakEven(price, cloud float64, all Slot) {
	if !c.Owned {
		return
	}
	at, used := price/cloud, all.BusySeconds/all.EngineSeconds
	c.BreakEven = &at
	switch {
	case at > 1:
		c.Text = fmt.Sprintf("Renting is cheaper at any utilisation: break-even is at %.0f %%.", 100*at)
	case used < at:
		c.Text = fmt.Sprintf("Engines run requests %.0f %% of the time; owning pays from %.0f %% on.", 100*used, 100*at)
	default:
		c.Text = fmt.Sprintf("Engines run requests %.0f %% of the time, above the break-even of %.0f %%.", 100*used, 100*at)
	}
}

// phases divides the total by time: idle engines, prompts that are computed, new
// or again, and the rest, in which output is generated. What was computed beyond
// the median miss ratio of the slots counts as computed again.
func (r *review) phases(all Slot, total, idle float64) map[string]float64 {
	by := map[string]float64{BasisTotal: total, BasisIdle: total * idle}
	if all.Prompted <= 0 || all.PrefillSeconds <= 0 {
		return by
	}
	prefill := math.Min(all.PrefillSeconds, all.BusySeconds) / all.EngineSeconds
	var ratios []float64
	for _, s := range r.slots {
		if s.Prompted > 0 && s.Requests >= leastSlotRequests {
			ratios = append(ratios, s.Missed/s.Prompted)
		}
	}
	again := 0.0
	if len(ratios) > 0 {
		usual := median(ratios)
		for _, s := range r.slots {
			again += max(0, s.Missed-usual*s.Prompted)
		}
	}
	again = min(again/max(all.Missed, 1), 1)
	by[BasisPrefillRepeated] = total * prefill * again
	by[BasisPrefillNew] = total * prefill * (1 - again)
	by[BasisDecode] = max(0, total*(1-idle-prefill))
	return by
}

// leastHeadroom is the head-room at which LoadHeadroomLow speaks.
const leastHeadroom = 1.2

// weeksLeft says when the head-room is gone at the pace at which demand grows.
func (r *review) weeksLeft() (weeks *float64, text string) {
	g := r.seen.Growth
	switch {
	case g == nil:
		return nil, "Growth is judged once a week, from three weeks of whole days on."
	case g.PerWeek <= 0:
		return nil, fmt.Sprintf("Demand does not grow: %+.1f %% a week over %d days.", 100*g.PerWeek, g.Days)
	case r.seen.Headroom <= 0:
		return nil, fmt.Sprintf("Demand grows by %.1f %% a week; the head-room at the peak of the day is not known.", 100*g.PerWeek)
	}
	v := max(0, math.Log(r.seen.Headroom/leastHeadroom)/math.Log1p(g.PerWeek))
	return &v, fmt.Sprintf("Demand grows by %.1f %% a week over %d days: the head-room at the peak of the day, %.2f, falls to %g in %.1f weeks.",
		100*g.PerWeek, g.Days, r.seen.Headroom, leastHeadroom, v)
}
