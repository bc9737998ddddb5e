package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kvwatch/collector"
)

func init() {
	alert(Alerting{
		Name:     "KvwatchBlind",
		Help:     "kvwatch reads no page of over half of its targets, of two at least: what it says of the fleet says little.",
		Severity: SeverityCritical, For: 2 * time.Minute,
		Settings: []Setting{
			{Name: "ratio", Default: 0.5, Positive: true, Help: "share of the targets without a page that is too much"},
			{Name: "least_targets", Default: 2.0, Positive: true, Help: "targets that there must be"},
		},
		Fleet: func(s *settings) detector[FleetWindow] { return kvwatchBlind{s} },
	})
}

type kvwatchBlind struct{ *settings }

// Judge implements detector.
func (d kvwatchBlind) Judge(w FleetWindow, _ time.Time) Verdict {
	all := len(w.targets)
	if float64(all) < d.number("least_targets") {
		return Verdict{Phase: PhaseWatching, Text: plural(all, "target") + ": its own alerts speak for it"}
	}
	blind := map[string]int{}
	unread := 0
	for _, t := range w.targets {
		if why := w.now.target(t).unread(); why != "" {
			blind[why]++
			unread++
		}
	}
	share := float64(unread) / float64(all)
	v := Verdict{
		Active: share > d.number("ratio"), Phase: PhaseWatching, Value: share,
		Text:    fmt.Sprintf("%d of %s cannot be read", unread, plural(all, "target")),
		Numbers: []Number{{Name: "targets_unread", Value: share, Unit: "ratio"}, {Name: "threshold_unread", Value: d.number("ratio"), Unit: "ratio"}, {Name: "targets", Value: float64(all), Unit: "targets"}},
	}
	if !v.Active {
		return v
	}
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(blind)) {
		parts = append(parts, fmt.Sprintf("%d %s", blind[why], why))
	}
	v.Summary = fmt.Sprintf("kvwatch is blind: %d of its %s cannot be read", unread, plural(all, "target"))
	v.Evidence = Evidence{
		Seen:       fmt.Sprintf("No fresh page of %d of %s: %s.", unread, plural(all, "target"), strings.Join(parts, ", ")),
		Against:    fmt.Sprintf("Fires when over %s of the targets cannot be read.", percent(d.number("ratio"))),
		CauseText:  "So many at once are rarely engines that fail: look for a network, a name server, a key or a configuration that they share with kvwatch.",
		Next:       "Read one target's page from kvwatch's own machine (kvwatch inspect URL). Until it is mended, silence of the other alerts means nothing.",
		Confidence: "high: kvwatch's own scrapes", Numbers: v.Numbers,
	}
	return v
}

// unread says why the target has no fresh page; "" when it has one.
func (w TargetWindow) unread() string {
	t := w.target
	switch {
	case w.unseen() != "":
		return "not scraped lately"
	case t.state != collector.StateUp:
		return string(t.state)
	default:
		return ""
	}
}
