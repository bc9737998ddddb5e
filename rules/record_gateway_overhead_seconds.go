package rules

import "kvwatch/collector"

func init() {
	record(Recording{
		Name: "kvwatch_gateway_overhead_seconds", Kind: KindSummary,
		Help: "Time that LiteLLM itself adds to a call over the last 5 minutes; see the coverage for how many calls it is measured on.",
		Gateway: func(w GatewayWindow, _ string) Result {
			if w.streamedOnly() {
				return w.absent(reasonStreamedOnly)
			}
			return w.summary(histOverhead, collector.LiteLLMOverhead)
		},
	})
}

const reasonStreamedOnly = "streamed only: this LiteLLM does not measure its overhead on streamed calls, and there were no others"

// streamedOnly says that requests were served and none had its overhead measured.
func (w GatewayWindow) streamedOnly() bool {
	served, ok := w.Total(totalRequestsOK)
	h := w.unit.hists[histOverhead]
	return ok && served > 0 && w.Fresh() && (h == nil || h.count+h.countSkipped == 0)
}
