package rules

import (
	"fmt"
	"math"

	"kvwatch/collector"
)

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
			r := w.ratio(w.HistCount(histOverhead, summaryWindow), served, summaryWindow,
				collector.LiteLLMOverhead+"_count / "+collector.LiteLLMRequests)
			if twice, ok := w.countedTwice(served); ok && r.Known {
				r.Quality, r.Reason = QualityPartial, twice
			}
			return r
		},
	})
}

const (
	// twiceLeast requests are needed to say that they count twice, and their
	// number over the deployments' successes must be two within twiceSlack.
	twiceLeast = 20
	twiceSlack = 0.1
)

// countedTwice says whether the gateway counts each request twice
// (BerriAI/litellm#19929). Answers from its response cache look alike where
// they are half of all.
func (w GatewayWindow) countedTwice(served float64) (text string, ok bool) {
	answered := w.Increase(totalAnswered, summaryWindow)
	if served < twiceLeast || answered <= 0 || math.Abs(served/answered-2) > twiceSlack {
		return "", false
	}
	return fmt.Sprintf("the gateway counts %s requests for %s answers of its deployments: it counts each twice (BerriAI/litellm#19929), or half are answered from its response cache; the true coverage is up to twice this",
		amount(served), amount(answered)), true
}
