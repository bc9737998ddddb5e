package rules

import (
	"fmt"
	"math"
	"time"

	"kvwatch/collector"
)

func init() {
	record(Recording{
		Name: "kvwatch_gateway_proxy_seconds", Kind: KindSummary,
		Help:    "Time of successful requests that was not spent in the engine's call: total less upstream latency. Sum and count only.",
		Gateway: gatewayProxy,
	})
}

// gatewayProxy subtracts the sums of two histograms; their quantiles cannot be
// subtracted.
func gatewayProxy(w GatewayWindow, _ string) Result {
	all, api := w.unit.hists[histTotalLatency], w.unit.hists[histAPILatency]
	if all == nil || api == nil || !w.Fresh() || w.sampled() {
		return w.absent("the page has no total or no upstream latency")
	}
	r := w.known(0, 0, collector.LiteLLMTotalLatency+" - "+collector.LiteLLMAPILatency)
	r.Summary = &Summary{
		Sum:   max(all.sum+all.sumSkipped-api.sum-api.sumSkipped, 0),
		Count: uint64(math.Round(all.count + all.countSkipped)),
	}
	r.Reason = "quantiles of a difference cannot be told from two histograms"
	if t := w.unit.target; t.versionAt > w.ms-summaryWindow.Milliseconds() {
		r.Quality = QualityVersionStep
		r.Reason = fmt.Sprintf("the gateway became %s at %s: total latency holds authentication only in releases after 2026-08-22, so that a step is no slowdown",
			t.version, clock(time.UnixMilli(t.versionAt)))
	}
	return r
}
