package score

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// A time to detect may grow by so much before it is worse.
const (
	worseShare   = 1.2
	worseMinutes = 0.5 // two scrapes: what a short one may differ by
)

// Compare says in plain words what of a score is worse than another one was:
// less found, later by over a fifth, more fires, fewer causes right, more false
// alarms, or fewer queues seen before they are there. The naive rules are not
// compared, nor what the other did not have.
func Compare(was, is Result) []string {
	var worse []string
	say := func(s Subject, format string, args ...any) {
		worse = append(worse, fmt.Sprintf("%s, %s: %s", s.entry(), s.Detector, fmt.Sprintf(format, args...)))
	}
	for _, before := range was.Incidents {
		now := of(is.Incidents, before.entry(), before.Detector)
		switch {
		case before.naive():
		case now == nil:
			say(before.Subject, "was not scored")
		case now.Found*before.Incidents < before.Found*now.Incidents:
			say(before.Subject, "found %d of %d, before %d of %d", now.Found, now.Incidents, before.Found, before.Incidents)
		case before.Cause == "" && now.Fires*before.Incidents > before.Fires*now.Incidents:
			say(before.Subject, "fired %d times at what is no incident, before %d times", now.Fires, before.Fires)
		case len(now.Minutes) > 0 && len(before.Minutes) > 0:
			if m, b := quantile(now.Minutes, 0.5), quantile(before.Minutes, 0.5); m > max(worseShare*b, b+worseMinutes) {
				say(before.Subject, "took %s minutes, before %s", minutes(m), minutes(b))
			}
		}
	}
	for _, before := range was.Incidents {
		now := of(is.Incidents, before.entry(), before.Detector)
		if before.naive() || now == nil || before.Cause == "" {
			continue
		}
		if now.Fires*before.Found > before.Fires*now.Found && before.Found > 0 {
			say(before.Subject, "fired %d times in %d incidents, before %d in %d", now.Fires, now.Found, before.Fires, before.Found)
		}
		if now.CausesRight*before.CausesTold < before.CausesRight*now.CausesTold {
			say(before.Subject, "%d of %d causes right, before %d of %d", now.CausesRight, now.CausesTold, before.CausesRight, before.CausesTold)
		}
	}
	for _, before := range was.Queues {
		now := of(is.Queues, before.entry(), before.Detector)
		if !before.naive() && now != nil && len(now.Leads)*before.Queues < len(before.Leads)*now.Queues {
			say(before.Subject, "saw %d of %d queues before they were there, before %d of %d", len(now.Leads), now.Queues, len(before.Leads), before.Queues)
		}
	}
	for _, before := range was.Quiet {
		now := of(is.Quiet, before.entry(), before.Detector)
		if !before.naive() && now != nil && now.False > before.False {
			say(before.Subject, "%d false alarms, before %d", now.False, before.False)
		}
	}
	return worse
}

// naive says whether the subject is one of the rules that people write today.
func (s Subject) naive() bool {
	return slices.Contains([]string{naiveHit5m, naiveHit1h, naiveKV, naiveTTFT}, s.Detector)
}

// WriteJSON writes the result with one score on a line, so that a change of it
// can be read.
func (r Result) WriteJSON(w io.Writer) error {
	var lines lineWriter
	lines.text("{\"seeds\": ")
	lines.value(r.Seeds)
	writeScores(&lines, "incidents", r.Incidents)
	writeScores(&lines, "quiet", r.Quiet)
	writeScores(&lines, "queues", r.Queues)
	writeScores(&lines, "demand", r.Demand)
	writeScores(&lines, "knees", r.Knees)
	writeScores(&lines, "calibration", r.Calibration)
	lines.text("}\n")
	if lines.err != nil {
		return lines.err
	}
	_, err := w.Write(lines.out)
	return err
}

// lineWriter writes JSON in pieces; the first error stays.
type lineWriter struct {
	out []byte
	err error
}

func (l *lineWriter) text(s string) { l.out = append(l.out, s...) }

func (l *lineWriter) value(v any) {
	b, err := json.Marshal(v)
	if err != nil && l.err == nil {
		l.err = err
	}
	l.out = append(l.out, b...)
}

func writeScores[S any](l *lineWriter, name string, scores []S) {
	l.text(fmt.Sprintf(",\n%q: [", name))
	for i, s := range scores {
		if i > 0 {
			l.text(",")
		}
		l.text("\n ")
		l.value(s)
	}
	l.text("\n]")
}
