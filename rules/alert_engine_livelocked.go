package rules

import (
	"fmt"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "EngineLivelocked",
		Help:     "Requests wait on an engine for 3 minutes while none runs, or none is admitted.",
		Severity: SeverityCritical, For: 3 * time.Minute,
		Settings: []Setting{
			{Name: "window", Default: stallWindow, Positive: true, Help: "time over which none may run or be admitted, at least two scrapes"},
		},
		Engine: func(s *settings) detector[EngineWindow] { return engineLivelocked{s} },
	})
}

type engineLivelocked struct{ *settings }

// Judge implements detector.
func (d engineLivelocked) Judge(w EngineWindow, firing time.Time) Verdict {
	if text := w.unjudged(); text != "" {
		return unknown(text)
	}
	waiting, _ := w.waitingForCapacity()
	running, _ := w.Gauge(gaugeRunning)
	window := w.atLeastTwo(d.duration("window"))
	v := Verdict{
		Active: w.livelocked(window), Phase: PhaseWatching, Value: waiting, Text: w.queueText(),
		Numbers: []Number{{Name: "waiting", Value: waiting, Unit: "requests"}, {Name: "running", Value: running, Unit: "requests"}, {Name: "admitted", Value: w.Requests(window), Unit: "requests"}},
	}
	if !firing.IsZero() {
		v.Over = fmt.Sprintf("%s of pool %s admits requests again: %s", w.unit.name(), w.pool.name, w.queueText())
	}
	if !v.Active {
		return v
	}
	v.Summary = fmt.Sprintf("%s of pool %s lets nobody in: %s", w.unit.name(), w.pool.name, w.queueText())
	v.Evidence = Evidence{
		Seen:       fmt.Sprintf("%s. Within %s no request got its first token.", w.queueText(), spell(window)),
		Against:    fmt.Sprintf("Fires when requests wait and none runs, or none is admitted, for %s.", spell(d.hold)),
		CauseText:  "A livelock: nothing runs and nothing is let in, as when the request at the head of the queue never fits into the KV cache (vllm-metal #479). The other reading: gauges frozen after aborts, since no step sets them to 0 when all that waited was aborted.",
		Next:       "Send one short request to the engine by its own address. Without an answer, take it out of the router and restart it; then bound the prompts (max-model-len) to what its cache holds.",
		Confidence: "medium: a frozen gauge looks the same until a request comes",
		Numbers:    v.Numbers,
	}
	if running > 0 {
		v.Evidence.CauseText = "The head of the queue is blocked: its prompt does not fit beside what runs, or all slots are held by long outputs, and those behind it wait too."
		v.Evidence.Next = "Look at KV usage and at the length of the outputs: bound max_tokens and prompts, or add an engine. If what runs makes no tokens either, EngineStalled says so."
		if w.moved(window) {
			v.Evidence.Confidence = "high: what runs goes on while nobody is let in"
		}
	}
	return v
}
