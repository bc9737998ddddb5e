package rules

import (
	"fmt"
	"time"

	"kvwatch/collector"
)

func init() {
	alert(Alerting{
		Name:     "TargetUnauthorised",
		Help:     "A target asks for a key that kvwatch does not have.",
		Severity: SeverityWarning, For: time.Minute,
		Target: func(settings) targetDetector { return targetUnauthorised{} },
	})
}

type targetUnauthorised struct{}

// Judge implements targetDetector.
func (targetUnauthorised) Judge(w TargetWindow, _ time.Time) Verdict {
	t := w.target
	switch {
	case !w.Scraped():
		return unknown("the target was not scraped lately")
	case t.state != collector.StateUnauthorised:
		return Verdict{Phase: PhaseWatching, Text: "state " + string(t.state)}
	}
	v := Verdict{Active: true, Phase: PhaseWatching, Since: t.stateSince, Value: 1, Text: "state unauthorised"}
	v.Summary = fmt.Sprintf("%s of job %s refuses kvwatch's key", t.instance, t.job)
	seen := fmt.Sprintf("For %s %s answered 401 or 403.", spell(w.now.Sub(v.Since)), t.instance)
	if t.reason != "" {
		seen += " " + t.reason
	}
	v.Evidence = Evidence{
		Seen: seen, Against: "The server runs; it only does not let kvwatch read its metrics.",
		Next:       "Give the scrape configuration a valid key (authorization.credentials_file). LiteLLM asks for one since 1.84; any virtual key will do. While its database is away it may refuse valid keys too.",
		Confidence: "high: the server's own answer",
	}
	return v
}
