package rules

import "strings"

// Chart says which recorded series a picture of an alert shows.
type Chart struct {
	// Title says in words what is drawn, with the unit where Unit does not say it.
	Title string
	// Unit is the series' unit: ratio, seconds, or anything else for a plain number.
	Unit string
	// Line is what is drawn, Usual what is usual of it; Usual.Name is empty where
	// nothing is.
	Line, Usual Query
	// Limit is the threshold, where HasLimit.
	Limit    float64
	HasLimit bool
}

// Query names recorded series. A label that is empty must be absent or empty.
// The values of several series add up.
type Query struct {
	Name   string
	Labels map[string]string
}

// ChartOf returns what a picture of the alert shows; false for one of which a
// picture over time says nothing more than its text.
func ChartOf(a Alert) (Chart, bool) {
	pool, instance := a.Labels["pool"] != "", a.Labels["instance"] != ""
	switch a.Name {
	case "KVSaturated", "KVSeatShortage", "PreemptionStorm":
		if instance {
			return a.chart("KV cache in use", "ratio", a.ofEngine("kvwatch_kv_usage_ratio")), true
		}
		return a.chart("KV cache in use", "ratio", a.ofPool("kvwatch_pool_kv_usage_ratio")), true
	case "QueueGrowing", "QueueCapReached":
		return a.chart("Requests that wait", "requests", a.ofPool("kvwatch_pool_queue_waiting_requests")), true
	case "SLOBurn":
		return a.sloBurn(), true
	case "InteractivityLow":
		return a.chart("Tokens per second, half of the requests", "tokens/s", a.ofPool("kvwatch_pool_interactivity_tokens_per_second", "quantile", "0.5")), true
	case "PrefillSaturated":
		return a.limited("threshold_occupancy", a.chart("Time spent in prefill, per engine", "ratio", a.ofPool("kvwatch_pool_prefill_occupancy_ratio"))), true
	case "LoadHeadroomLow":
		return a.chart("Load that fits, in times of the present", "times", a.ofPool("kvwatch_pool_load_headroom_ratio")), true
	case "GatewaySaturated":
		return a.limited("threshold_saturation", a.chart("Gateway: requests in flight of what fits", "ratio", a.ofGateway("kvwatch_gateway_saturation_ratio"))), true
	case "TokenCounterOverhead":
		return a.chart("Gateway: time it adds, half of the calls", "seconds", a.ofGateway("kvwatch_gateway_overhead_seconds", "quantile", "0.5")), true
	case "TurnBoundaryCollapse":
		return a.turnBoundaries(), true
	case "ReplicaOutlier":
		c := a.chart("Prefix cache hit rate of one replica", "ratio", a.ofEngine("kvwatch_prefix_cache_hit_ratio", "window", "5m"))
		c.Usual = a.ofPool("kvwatch_pool_prefix_cache_hit_ratio", "window", "5m")
		return c, true
	}
	if !pool || instance {
		return Chart{}, false
	}
	c := a.chart("Prefix cache hit rate", "ratio", a.ofPool("kvwatch_pool_prefix_cache_hit_ratio", "window", "5m"))
	c.Usual = a.ofPool("kvwatch_pool_prefix_cache_hit_ratio_baseline")
	return c, true
}

// turnBoundaries is what calls that begin a turn find, where logs of calls tell
// it, else what is predicted.
func (a Alert) turnBoundaries() Chart {
	for _, n := range a.Evidence.Numbers {
		if n.Name == "boundary_hit_ratio" {
			return a.chart("Cache hit rate of calls that begin a turn", "ratio", a.ofPool("kvwatch_pool_session_hit_ratio", "position", positionTurnBoundary))
		}
	}
	return a.chart("Pauses that cached blocks survive, predicted", "ratio", a.ofPool("kvwatch_pool_predicted_boundary_hit_ratio"))
}

// sloBurn is how well the objective was met whose budget burns the fastest.
func (a Alert) sloBurn() Chart {
	title, slo, ttft, itl := "Requests with their first token in time", sloTTFT, 0.0, 0.0
	for _, n := range a.Evidence.Numbers {
		switch {
		case strings.HasPrefix(n.Name, sloTTFT+"_burn"):
			ttft = max(ttft, n.Value)
		case strings.HasPrefix(n.Name, sloITL+"_burn"):
			itl = max(itl, n.Value)
		}
	}
	if itl > ttft {
		title, slo = "Tokens in time", sloITL
	}
	return a.chart(title, "ratio", a.ofPool("kvwatch_pool_slo_attainment_ratio", "slo", slo))
}

// limited adds the threshold that the evidence has under name.
func (a Alert) limited(name string, c Chart) Chart {
	for _, n := range a.Evidence.Numbers {
		if n.Name == name {
			c.Limit, c.HasLimit = n.Value, true
		}
	}
	return c
}

func (a Alert) chart(title, unit string, line Query) Chart {
	return Chart{Title: title, Unit: unit, Line: line}
}

func (a Alert) ofPool(name string, more ...string) Query {
	return a.query(name, more, "pool", "model_name")
}

func (a Alert) ofEngine(name string, more ...string) Query {
	return a.query(name, more, "job", "instance", "engine", "model_name")
}

func (a Alert) ofGateway(name string, more ...string) Query {
	return a.query(name, more, "job", "instance")
}

// query takes the labels of the alert's subject, and more of its own as name, value.
func (a Alert) query(name string, more []string, subject ...string) Query {
	q := Query{Name: name, Labels: map[string]string{}}
	for _, l := range subject {
		q.Labels[l] = a.Labels[l]
	}
	for i := 0; i < len(more); i += 2 {
		q.Labels[more[i]] = more[i+1]
	}
	return q
}
