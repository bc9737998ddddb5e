package rules

import "kvwatch/collector"

func init() {
	record(Recording{
		Name: "kvwatch_gateway_in_flight_requests", Kind: KindGauge,
		Help: "Requests that the gateway handles now, without the scrape itself.",
		Gateway: func(w GatewayWindow, _ string) Result {
			v, from, ok := w.inFlight()
			if !ok {
				return w.absent("the page has no litellm_in_flight_requests: LiteLLM has it since 1.81.16, from its first request on")
			}
			return w.known(v, 0, from)
		},
	})
}

// inFlight is the gauge without the scrape, which LiteLLM counts too unless
// another process serves the page.
func (w GatewayWindow) inFlight() (v float64, from string, ok bool) {
	v, ok = w.Gauge(gaugeInFlight)
	if w.unit.target.gateway.DedicatedPort {
		return max(v, 0), collector.LiteLLMInFlight, ok
	}
	return max(v-1, 0), collector.LiteLLMInFlight + " - 1 (the scrape itself)", ok
}
