package rules

import "kvwatch/collector"

func init() {
	record(Recording{
		Name: "kvwatch_gateway_cooldowns_total", Kind: KindCounter,
		Help: "Times that the gateway put a deployment aside after failures; one outage makes many.",
		Gateway: func(w GatewayWindow, _ string) Result {
			return w.total(totalCooldowns, collector.LiteLLMCooledDown, "the page has no "+collector.LiteLLMCooledDown+": no deployment was put aside yet, or LiteLLM lost the family, as it does under custom labels")
		},
	})
}
