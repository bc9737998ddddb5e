package rules

import (
	"fmt"
	"strings"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "KVSaturated",
		Help:     "An engine of a pool has its KV cache over 95% in use at every scrape of 3 minutes.",
		Severity: SeverityWarning, For: 3 * time.Minute,
		Settings: []Setting{
			{Name: "ratio", Default: 0.95, Positive: true, Help: "KV usage that is too high"},
			{Name: "window", Default: 3 * time.Minute, Positive: true, Help: "time over which it must be so at every scrape"},
		},
		Pool: func(s *settings) detector[PoolWindow] { return kvSaturated{s} },
	})
}

type kvSaturated struct{ *settings }

// Judge implements detector.
func (d kvSaturated) Judge(w PoolWindow, firing time.Time) Verdict {
	told, worst := 0, 0.0
	var full, idle []string
	for _, u := range w.pool.members {
		e := w.engine(u)
		usage, ok := e.usage()
		if !ok {
			continue
		}
		told++
		worst = max(worst, usage)
		over := func(v float64) bool { return v > d.number("ratio") && v <= 1 }
		if !e.throughout(gaugeUsage, d.duration("window"), over) {
			continue
		}
		full = append(full, fmt.Sprintf("%s %s", u.name(), percent(usage)))
		if running, ok := e.Gauge(gaugeRunning); ok && running == 0 {
			idle = append(idle, u.name())
		}
	}
	if told == 0 {
		return unknown("no engine of the pool tells its KV usage lately")
	}
	v := Verdict{
		Active: len(full) > 0, Phase: PhaseWatching, Value: worst, Text: "highest KV usage " + percent(worst),
		Over:    overText(firing, "Pool %s: no KV cache is full any more, the highest usage is %s", w.pool.name, percent(worst)),
		Numbers: []Number{{Name: "kv_usage_max", Value: worst, Unit: "ratio"}, {Name: "engines_full", Value: float64(len(full)), Unit: "engines"}},
	}
	if v.Active {
		d.tell(w, &v, full, idle)
	}
	return v
}

func (d kvSaturated) tell(w PoolWindow, v *Verdict, full, idle []string) {
	v.Summary = fmt.Sprintf("Pool %s: the KV cache of %s is full", w.pool.name, plural(len(full), "engine"))
	seen := []string{"KV usage: " + strings.Join(full, ", ")}
	if waiting, told := w.sum(func(e EngineWindow) (float64, bool) { return e.waitingForCapacity() }); told > 0 {
		seen = append(seen, plural(int(waiting), "request")+" waiting")
	}
	if preempted, told := w.preempted(); told {
		seen = append(seen, plural(int(preempted), "preemption")+" in 5 min")
	}
	v.Evidence = Evidence{
		Seen:       strings.Join(seen, "; ") + ".",
		Against:    fmt.Sprintf("Fires when the usage is over %s at every scrape of %s.", percent(d.number("ratio")), spell(d.duration("window"))),
		CauseText:  "Running requests hold the cache: their contexts and outputs are longer, or they are more, than it has room for.",
		Next:       "Add an engine or room (gpu-memory-utilization, fp8 KV cache); check for an uneven router if one engine alone is full.",
		Confidence: "high: the engines' own gauge", Numbers: v.Numbers,
	}
	if len(idle) > 0 {
		v.Summary = fmt.Sprintf("Pool %s: KV held by nothing running on %s", w.pool.name, list(idle))
		v.Evidence.CauseText = "KV held by nothing running: blocks wait for a remote transfer, or the gauge is frozen after aborts."
		v.Evidence.Next = "Send one request to the engine: if the usage stays, look at its KV connector, then restart it."
	}
}
