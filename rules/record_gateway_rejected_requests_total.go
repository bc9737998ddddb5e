package rules

import "kvwatch/collector"

func init() {
	record(Recording{
		Name: "kvwatch_gateway_rejected_requests_total", Kind: KindCounter,
		Help: "Requests that the gateway's admission control turned away.",
		Gateway: func(w GatewayWindow, _ string) Result {
			return w.total(totalRejected, collector.LiteLLMRejected, "no request was turned away yet, or admission control is off")
		},
	})
}

// total tells a counter of the gateway.
func (w GatewayWindow) total(t total, from, missing string) Result {
	v, ok := w.Total(t)
	if !ok || !w.Fresh() {
		return w.absent(missing)
	}
	return w.known(v, 0, from)
}
