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
		Target: func(*settings) detector[TargetWindow] { return targetUnauthorised{} },
	})
}

type targetUnauthorised struct{}

// sinceOr is when the target came into its state, or when the alert fired where
// that was before a restart.
func (t *target) sinceOr(firing time.Time) time.Time {
	if !firing.IsZero() && firing.Before(t.stateSince) {
		return firing
	}
	return t.stateSince
}

// Judge implements detector.
func (targetUnauthorised) Judge(w TargetWindow, firing time.Time) Verdict {
	t := w.target
	switch {
	case w.unseen() != "":
		return unknown(w.unseen())
	case t.state != collector.StateUnauthorised:
		return watchingState(t, firing)
	}
	v := Verdict{Active: true, Phase: PhaseWatching, Since: t.sinceOr(firing), Value: 1, Text: "state unauthorised"}
	v.Summary = fmt.Sprintf("%s of job %s refuses kvwatch's key", t.instance, t.job)
	next := "Give the scrape configuration a valid key (authorization.credentials_file)."
	if t.source == collector.SourceLiteLLM {
		next += " LiteLLM asks for one since 1.84; any virtual key will do. While its database is away it may refuse valid keys too."
	}
	v.Evidence = Evidence{
		Seen:    fmt.Sprintf("For %s %s could not be read: %s", spell(w.now.Sub(v.Since)), t.instance, t.because()),
		Against: "The server runs; it only does not let kvwatch read its metrics.",
		Next:    next, Confidence: "high: the server's own answer",
	}
	return v
}
