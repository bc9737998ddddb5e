package rules

import "kvwatch/collector"

func init() {
	record(Recording{
		Name: "kvwatch_gateway_overhead_coverage_ratio", Kind: KindGauge,
		Help: "Share of the requests of the last 5 minutes that the gateway's overhead was measured on.",
		Gateway: func(w GatewayWindow, _ string) Result {
			if w.streamedOnly() {
				return w.absent(reasonStreamedOnly)
			}
			served := w.Increase(totalRequestsOK, summaryWindow)
			switch {
			case w.unit.hists[histOverhead] == nil:
				return w.absent("the page has no " + collector.LiteLLMOverhead)
			case served < minRequests:
				return w.absent("fewer than 5 requests in 5 minutes")
			}
			return w.ratio(w.HistCount(histOverhead, summaryWindow), served, summaryWindow,
				collector.LiteLLMOverhead+"_count / "+collector.LiteLLMRequests)
		},
	})
}
