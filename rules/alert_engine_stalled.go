package rules

import (
	"fmt"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "EngineStalled",
		Help:     "Requests run on an engine, and for 2 minutes no token is generated or prompted and none finishes.",
		Severity: SeverityCritical, For: 2 * time.Minute,
		Settings: []Setting{
			{Name: "window", Default: stallWindow, Positive: true, Help: "time over which nothing may move, at least two scrapes"},
		},
		Engine: func(s *settings) detector[EngineWindow] { return engineStalled{s} },
	})
}

type engineStalled struct{ *settings }

// Judge implements detector.
func (d engineStalled) Judge(w EngineWindow, firing time.Time) Verdict {
	if text := w.unjudged(); text != "" {
		return unknown(text)
	}
	running, _ := w.Gauge(gaugeRunning)
	window := w.atLeastTwo(d.duration("window"))
	v := Verdict{
		Active: w.stalled(window), Phase: PhaseWatching, Value: running, Text: w.queueText() + ", tokens move",
		Numbers: []Number{{Name: "running", Value: running, Unit: "requests"}, {Name: "tokens", Value: w.Increase(totalGenerated, window) + w.Increase(totalPrompt, window), Unit: "tokens"}},
	}
	if !firing.IsZero() {
		v.Over = fmt.Sprintf("%s of pool %s moves again: %s", w.unit.name(), w.pool.name, w.queueText())
	}
	if !v.Active {
		return v
	}
	v.Summary = fmt.Sprintf("%s of pool %s stands still: %s running and no token", w.unit.name(), w.pool.name, amount(running))
	v.Evidence = Evidence{
		Seen:       fmt.Sprintf("%s. Within %s no token was generated, no prompt got its first, and no request finished.", w.queueText(), spell(window)),
		Against:    fmt.Sprintf("Fires when requests run and nothing moves for %s.", spell(d.hold)),
		CauseText:  "The engine hangs (a collective that waits for a rank, a crashed worker), or computes one very long prompt. The other reading: gauges frozen after aborts. When all requests were aborted, vLLM takes no step that would set them to 0, and nobody waits for an answer.",
		Next:       "Send one short request to the engine by its own address: an answer means that the gauges were frozen, and sets them. Without one, look at its log and GPUs, take it out of the router and restart it.",
		Confidence: "medium: a frozen gauge looks the same until a request comes",
		Numbers:    v.Numbers,
	}
	if waiting, ok := w.waitingForCapacity(); ok && waiting > 0 {
		v.Evidence.Confidence = "high: requests wait behind those that do not move"
	}
	return v
}
