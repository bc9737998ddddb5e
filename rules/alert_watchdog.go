package rules

import (
	"fmt"
	"time"
)

func init() {
	alert(Alerting{
		Name:     Watchdog,
		Help:     "Always: whoever receives it notices when kvwatch, or the way to them, is dead. It is told only where a route names it.",
		Severity: SeverityInfo,
		Fleet:    func(*settings) detector[FleetWindow] { return watchdog{} },
	})
}

type watchdog struct{}

// Judge implements detector.
func (watchdog) Judge(w FleetWindow, _ time.Time) Verdict {
	return Verdict{
		Active: true, Phase: PhaseWatching, Value: 1, Text: "kvwatch evaluates its rules",
		Summary: "kvwatch is alive: this alert always fires",
		Evidence: Evidence{
			Seen:       fmt.Sprintf("The rules were evaluated just now, over %s.", plural(len(w.targets), "target")),
			Against:    "It never ends while kvwatch runs.",
			Next:       "Nothing. Act when it stops coming: then kvwatch, or the way from it to you, is dead.",
			Confidence: "high: it is the proof itself",
		},
	}
}
