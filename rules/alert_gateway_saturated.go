package rules

import (
	"fmt"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "GatewaySaturated",
		Help:     "A gateway holds over 80% of the requests that its workers may hold at once; critical over 95%.",
		Severity: SeverityWarning, For: 2 * time.Minute,
		Settings: []Setting{
			{Name: "ratio", Default: 0.8, Positive: true, Help: "share of workers × max_in_flight_per_worker that is too much"},
			{Name: "critical_ratio", Default: 0.95, Positive: true, Help: "share from which it is critical"},
		},
		Gateway: func(s *settings) detector[GatewayWindow] { return gatewaySaturated{s} },
	})
}

type gatewaySaturated struct{ *settings }

// Judge implements detector.
func (d gatewaySaturated) Judge(w GatewayWindow, firing time.Time) Verdict {
	r := w.saturation()
	if !r.Known {
		return unknown(r.Reason)
	}
	conf := w.unit.target.gateway
	held, _, _ := w.inFlight()
	v := Verdict{
		Active: r.Value > d.number("ratio"), Phase: PhaseWatching, Value: r.Value,
		Text: fmt.Sprintf("%s in flight, %s of what its workers may hold", amount(held), percent(r.Value)),
		Over: overText(firing, "Gateway %s has room again: %s requests in flight, %s of what its workers may hold", w.unit.target.instance, amount(held), percent(r.Value)),
		Numbers: []Number{
			{Name: "saturation", Value: r.Value, Unit: "ratio"},
			{Name: "threshold_saturation", Value: d.number("ratio"), Unit: "ratio"},
			{Name: "in_flight", Value: held, Unit: "requests"},
		},
	}
	if !v.Active {
		return v
	}
	if r.Value > d.number("critical_ratio") {
		v.Severity = SeverityCritical
	}
	v.Summary = fmt.Sprintf("Gateway %s is %s full: %s requests in flight", w.unit.target.instance, percent(r.Value), amount(held))
	seen := fmt.Sprintf("%s requests are in flight, of %d workers × %d.", amount(held), conf.Workers, conf.MaxInFlightPerWorker)
	if r.Quality == QualitySampled {
		seen = fmt.Sprintf("The worker that answered holds %s requests of %d; the others were not seen.", amount(held), conf.MaxInFlightPerWorker)
	}
	v.Evidence = Evidence{
		Seen:       seen,
		Against:    fmt.Sprintf("Fires over %s of the cap, critical over %s.", percent(d.number("ratio")), percent(d.number("critical_ratio"))),
		CauseText:  "Requests come in faster than the engines answer them, or answers take longer; at the cap the gateway queues, and then answers 503.",
		Next:       "Look at the engines' queues first: if they wait, add engines or shed load; if they are idle, the gateway itself is the bottleneck: add workers.",
		Confidence: "high: the gateway's own count", Numbers: v.Numbers,
	}
	return v
}
