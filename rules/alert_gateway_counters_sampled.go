package rules

import (
	"fmt"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "GatewayCountersSampled",
		Help:     "Several workers of a gateway answer its scrapes in turn, each with its own counters.",
		Severity: SeverityInfo,
		Gateway:  func(*settings) detector[GatewayWindow] { return gatewayCountersSampled{} },
	})
}

type gatewayCountersSampled struct{}

// Judge implements detector.
func (gatewayCountersSampled) Judge(w GatewayWindow, _ time.Time) Verdict {
	switch {
	case !w.Fresh():
		return unknown(gatewayUnread)
	case !w.sampled():
		return Verdict{Phase: PhaseWatching, Text: "one process answers all scrapes"}
	}
	return Verdict{
		Active: true, Phase: PhaseWatching, Value: 1, Text: "several workers answer in turn",
		Summary: fmt.Sprintf("Gateway %s: its counters are those of one worker at a time", w.unit.target.instance),
		Evidence: Evidence{
			Seen:       fmt.Sprintf("The process behind %s changes to and fro between scrapes (its start times alternate): %s.", w.unit.target.instance, sampledReason),
			Against:    "One address should answer with one set of counters.",
			CauseText:  "Several workers without a common metrics directory, or several gateways behind one address.",
			Next:       "Set PROMETHEUS_MULTIPROC_DIR to an empty directory (or serve metrics on a port of their own), and scrape each pod, not the service in front of them. Until then rates, ratios and latencies of this gateway are unknown.",
			Confidence: "high: a process does not become an older one",
		},
	}
}
