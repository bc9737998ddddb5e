package rules

import (
	"fmt"
	"time"

	"kvwatch/collector"
)

func init() {
	alert(Alerting{
		Name:     "GatewayRejecting",
		Help:     "A gateway's admission control turns away over 1% of the requests of 5 minutes, or it answers most with 429 while it holds none.",
		Severity: SeverityCritical, For: 2 * time.Minute,
		Settings: []Setting{
			{Name: "ratio", Default: 0.01, Positive: true, Help: "share of the requests turned away that is too much"},
			{Name: "window", Default: 5 * time.Minute, Positive: true, Help: "time over which requests are counted"},
		},
		Gateway: func(s *settings) detector[GatewayWindow] { return gatewayRejecting{s} },
	})
}

type gatewayRejecting struct{ *settings }

// leakedShare is the share of requests answered with 429, while none is in
// flight, from which a limiter counts requests that ended long ago.
const leakedShare = 0.5

// Judge implements detector.
func (d gatewayRejecting) Judge(w GatewayWindow, _ time.Time) Verdict {
	if text := w.uncounted(); text != "" {
		return unknown(text)
	}
	window := max(d.duration("window"), leastScrapes*w.unit.target.intervalOr(d.duration("window")/leastScrapes))
	// Who is turned away is not among the requests: that happens before them.
	rejected, taken := w.Increase(totalRejected, window), w.Increase(totalRequests, window)
	limited := w.Increase(totalLimited, window)
	came := rejected + taken
	if came < minRequests {
		return Verdict{Phase: PhaseWatching, Text: fmt.Sprintf("%s came in %s, too few to judge", plural(int(came), "request"), spell(window))}
	}
	share := rejected / came
	v := Verdict{
		Phase: PhaseWatching, Value: share, Text: fmt.Sprintf("%s of %s requests turned away in %s", amount(rejected), amount(came), spell(window)),
		Numbers: []Number{
			{Name: "rejected", Value: share, Unit: "ratio"},
			{Name: "threshold_rejected", Value: d.number("ratio"), Unit: "ratio"},
			{Name: "requests", Value: came, Unit: "requests"},
			{Name: "limited_429", Value: limited, Unit: "requests"},
		},
	}
	held, _, told := w.inFlight()
	switch leaked := told && held < 1 && taken >= minRequests && limited > leakedShare*taken; {
	case share > d.number("ratio"):
		v.Active = true
		v.Summary = fmt.Sprintf("Gateway %s turns requests away: %s of those of %s", w.unit.target.instance, percent(share), spell(window))
		v.Evidence.CauseText = "Admission control: the workers hold as many requests as they may, the queue before them is full or too slow, and callers get 503."
		v.Evidence.Next = "Look at the engines' queues: if they wait, add engines or shed load. If they are idle, raise max_in_flight_requests_per_worker or add workers. Do not restart the gateway: that forgets which engine holds which session."
	case leaked:
		v.Active = true
		v.Summary = fmt.Sprintf("Gateway %s answers %s of its requests with 429 while it holds none", w.unit.target.instance, percent(limited/taken))
		v.Evidence.CauseText = "A leaked limiter, not saturation: a counter of parallel requests was not taken back when requests ended (BerriAI/litellm#20256), so that nobody is let in."
		v.Evidence.Next = "Find the limit (max_parallel_requests of keys, teams or deployments) and restart the gateway, or flush its limits in Redis; then upgrade."
	default:
		return v
	}
	v.Evidence.Seen = fmt.Sprintf("Of %s requests in %s admission control turned %s away, and %s were answered with 429.", amount(came), spell(window), amount(rejected), amount(limited))
	if told {
		v.Evidence.Seen += fmt.Sprintf(" %s in flight now.", amount(held))
	}
	v.Evidence.Against = fmt.Sprintf("Fires when over %s are turned away, or over %s get 429 with none in flight.", percent(d.number("ratio")), percent(leakedShare))
	v.Evidence.Confidence, v.Evidence.Numbers = confidence(came), v.Numbers
	return v
}

// uncounted says why the gateway's counters cannot be judged, "" when they can.
func (w GatewayWindow) uncounted() string {
	if text := w.unrated(); text != "" {
		return text
	}
	if !w.unit.has(totalRequests) && !w.unit.has(totalRejected) {
		return "the page has no " + collector.LiteLLMRequests
	}
	return ""
}

const gatewayUnread = "no page of the gateway was read lately"

// unrated says why nothing of the gateway can be rated now, "" where it can.
func (w GatewayWindow) unrated() string {
	switch {
	case !w.Fresh():
		return gatewayUnread
	case w.sampled():
		return sampledReason
	default:
		return ""
	}
}
