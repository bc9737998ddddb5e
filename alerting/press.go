package alerting

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"kvwatch/rules"
)

// press is a button that a person pressed below a message.
type press struct {
	// message names the message as its receiver noted it, under note.
	note, message string
	// by is the person's name.
	by string
	// silence is for how long to silence; 0 acknowledges.
	silence time.Duration
}

// pressed does what the button says and returns a sentence for the person who
// pressed it, "" where the message itself will say it.
//
// What was pressed is on disk when it returns: an acknowledgement in the
// notification log, a silence with the other silences. Both name the person; no
// other name of a person is kept, and none is logged.
func (d *Dispatcher) pressed(p press, now time.Time) string {
	e, ok := d.log.noted(p.note, p.message)
	switch {
	case !ok:
		return "kvwatch does not know this message: its incident was over more than a day ago, or another kvwatch posted it. Nothing was changed."
	case e.Over:
		return "This incident is over. Nothing was changed."
	}
	d.mu.Lock()
	g, ok := d.groups[e.Group]
	var v view
	if ok {
		v = d.view(g, now)
	}
	d.mu.Unlock()
	switch {
	case !ok, statusOf(v.shown()) != rules.StateFiring:
		return "This incident is over. Nothing was changed."
	case p.silence > 0:
		return d.pressSilence(p, v, now)
	case v.acknowledged != nil:
		return fmt.Sprintf("%s acknowledged it already, at %s.", v.acknowledged.By, moment(v.acknowledged.At))
	}
	text, err := json.Marshal(Acknowledgement{By: p.by, At: now, Severity: worst(v.shown())})
	if err != nil {
		return d.notKept(err)
	}
	memory{d.log, e.logKey, now}.Set(acknowledgedNote, string(text))
	d.hasten(e.Group, now)
	return ""
}

// pressSilence silences what all alerts of the incident have in common.
func (d *Dispatcher) pressSilence(p press, v view, now time.Time) string {
	until := now.Add(p.silence)
	if v.silence != nil && !v.silence.EndsAt.Before(until) {
		return fmt.Sprintf("%s silenced it already, until %s.", v.silence.CreatedBy, moment(v.silence.EndsAt))
	}
	s := Silence{StartsAt: now, EndsAt: until, CreatedBy: p.by, Comment: "by a button below its message"}
	lbls := common(v.shown())
	for _, name := range sortedNames(lbls) {
		s.Matchers = append(s.Matchers, SilenceMatcher{Name: name, Value: lbls[name]})
	}
	if len(s.Matchers) == 0 {
		return "The alerts of this incident have no label in common, so that one silence cannot cover them: use kvwatch silence add. Nothing was changed."
	}
	if _, err := d.Silence(s, now); err != nil {
		return d.notKept(err)
	}
	d.hasten(v.key, now)
	return ""
}

func (d *Dispatcher) notKept(err error) string {
	d.logger.Error("What somebody pressed below a message could not be kept", "err", err)
	return "kvwatch could not write this down, so it is not in effect: " + err.Error()
}

// common returns the labels that all firing alerts share. The severity is one of
// them: what is silenced as a warning is told when it is critical.
func common(alerts []rules.Alert) map[string]string {
	var out map[string]string
	for _, a := range alerts {
		if a.State != rules.StateFiring {
			continue
		}
		if out == nil {
			out = map[string]string{}
			for name, value := range a.Labels {
				if value != "" {
					out[name] = value
				}
			}
			continue
		}
		for name, value := range out {
			if a.Labels[name] != value {
				delete(out, name)
			}
		}
	}
	return out
}

// hasten has an incident looked at now.
func (d *Dispatcher) hasten(group string, now time.Time) {
	d.mu.Lock()
	if g, ok := d.groups[group]; ok {
		g.nextFlush = now
	}
	d.mu.Unlock()
	d.poke()
}

// noted finds the entry that keeps value under a note.
func (l *notificationLog) noted(note, value string) (entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if value != "" && e.Memory[note] == value {
			return e, true
		}
	}
	return entry{}, false
}

// mostName bounds the name of a person.
const mostName = 60

// errNobody is returned for a press without a person.
var errNobody = errors.New("it does not say who pressed")

// personName makes a name one short line.
func personName(names ...string) (string, error) {
	for _, name := range names {
		if name = strings.Join(strings.Fields(name), " "); name != "" {
			return cut(name, mostName), nil
		}
	}
	return "", errNobody
}
