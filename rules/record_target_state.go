package rules

import "kvwatch/collector"

func init() {
	record(Recording{
		Name: "kvwatch_target_state", Kind: KindGauge, Label: "state", Values: stateNames(),
		Help: "1 for the state that the target is in; the other states have no series.",
		Target: func(w TargetWindow, state string) Result {
			if string(w.target.state) != state || !w.Scraped() {
				return Result{}
			}
			return Result{Value: 1, Known: true, Quality: QualityOK, From: "the last scrape", Reason: w.target.reason}
		},
	})
}

func stateNames() []string {
	var names []string
	for _, s := range collector.States() {
		names = append(names, string(s))
	}
	return names
}
