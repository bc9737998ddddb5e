package rules

import (
	"fmt"
	"math"

	"kvwatch/collector"
)

func init() {
	record(Recording{
		Name: "kvwatch_gateway_overhead_seconds", Kind: KindSummary,
		Help:    "Time that LiteLLM itself adds to a call over the last 5 minutes; see the coverage for how many calls it is measured on.",
		Gateway: gatewayOverhead,
	})
}

const (
	// sampleOnly is the share of requests below which what was measured does
	// not speak for the others.
	sampleOnly = 0.5
	// secondsAtMost is the mean overhead above which the values cannot be
	// seconds: the family's HELP says milliseconds, and they are not.
	secondsAtMost = 60
	// millisecond is one in seconds.
	millisecond = 0.001
)

// gatewayOverhead says beside the number on how few calls it rests.
func gatewayOverhead(w GatewayWindow, _ string) Result {
	if w.streamedOnly() {
		return w.absent(reasonStreamedOnly)
	}
	r := w.summary(histOverhead, collector.LiteLLMOverhead)
	b := w.buckets(histOverhead, summaryWindow)
	if w.Fresh() && b.count >= minRequests && overheadUnit(b) == millisecond {
		r = w.overheadInMilliseconds(b)
	}
	served := w.Increase(totalRequestsOK, summaryWindow)
	if !r.Known || served < minRequests || b.count >= sampleOnly*served {
		return r
	}
	if r.Quality == QualityOK {
		r.Quality, r.Coverage = QualityPartial, b.count/served
	}
	text := fmt.Sprintf("sample only: measured on %s of %s requests, LiteLLM leaves out streamed calls", amount(b.count), amount(served))
	if r.Reason != "" {
		text += "; " + r.Reason
	}
	r.Reason = text
	return r
}

// overheadUnit is what the values of an overhead are in, in seconds.
func overheadUnit(b bucketCounts) float64 {
	if b.sum/b.count > secondsAtMost {
		return millisecond
	}
	return 1
}

// overheadInMilliseconds is the summary where the values must be milliseconds.
func (w GatewayWindow) overheadInMilliseconds(b bucketCounts) Result {
	f := w.unit.hists[histOverhead]
	r := w.known(0, summaryWindow, collector.LiteLLMOverhead)
	r.Summary = &Summary{
		Quantiles: b.summary(), Sum: millisecond * (f.sum + f.sumSkipped), Count: uint64(math.Round(f.count + f.countSkipped)),
	}
	for i := range r.Summary.Quantiles {
		r.Summary.Quantiles[i].Value *= millisecond
	}
	r.Reason = fmt.Sprintf("taken as milliseconds: a mean of %s s is no overhead; LiteLLM's values are seconds in all releases known", amount(b.sum/b.count))
	return r
}

const reasonStreamedOnly = "streamed only: this LiteLLM does not measure its overhead on streamed calls, and there were no others"

// streamedOnly says that requests were served and none had its overhead measured.
func (w GatewayWindow) streamedOnly() bool {
	served, ok := w.Total(totalRequestsOK)
	h := w.unit.hists[histOverhead]
	return ok && served > 0 && w.Fresh() && (h == nil || h.count+h.countSkipped == 0)
}
