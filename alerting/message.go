package alerting

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"kvwatch/rules"
)

// This file says in words what an incident is about, the same for every
// receiver; how it is laid out is each receiver's own business.

// mark is a severity or an end as a symbol and a word, so that neither colour
// nor font is needed to read it.
type mark struct{ symbol, word string }

func markOf(state rules.AlertState, severity string) mark {
	switch {
	case state == rules.StateResolved:
		return mark{"✅", "RESOLVED"}
	case severity == rules.SeverityCritical:
		return mark{"🔴", "CRITICAL"}
	case severity == rules.SeverityWarning:
		return mark{"🟠", "WARNING"}
	case severity == rules.SeverityInfo:
		return mark{"🔵", "INFO"}
	default:
		return mark{"⚪", strings.ToUpper(severity)}
	}
}

// String returns the symbol and the word.
func (m mark) String() string { return strings.TrimSpace(m.symbol + " " + m.word) }

// remark says in words what is new about an incident that was told before, ""
// where the message itself says it.
func remark(r Reason) string {
	switch r {
	case ReasonSeverity:
		return "severity rose"
	case ReasonRepeat:
		return "still firing"
	case ReasonNewAlerts:
		return "more alerts"
	case ReasonSomeResolved:
		return "some resolved"
	case ReasonMissed:
		return "could not be told while it lasted"
	case ReasonNone, ReasonFirst, ReasonResolved, ReasonUnfinished, ReasonChanged, ReasonAcknowledged, ReasonSilenced:
	}
	return ""
}

// standing says how bad the incident is, as symbol and word; of one that is
// over, how bad it was.
func standing(alerts []rules.Alert) string {
	state, severity := statusOf(alerts), worst(alerts)
	text := markOf(state, severity).String()
	if state == rules.StateResolved && severity != "" {
		text += " (was " + severity + ")"
	}
	return text
}

// title says in one line what the alerts are about: the first one's summary,
// and how many there are beside it.
func title(alerts []rules.Alert) string {
	if len(alerts) == 0 {
		return ""
	}
	first := headline(alerts[0])
	others := 0
	for _, a := range alerts[1:] {
		if a.State == alerts[0].State {
			others++
		}
	}
	if others == 0 {
		return first
	}
	return fmt.Sprintf("%s (and %d more)", first, others)
}

// headline says in one line what one alert is about.
func headline(a rules.Alert) string {
	if s := strings.Join(strings.Fields(a.Annotations["summary"]), " "); s != "" {
		return s
	}
	return a.Name
}

// place says where: the pool or the target, the model, and the cluster.
func place(lbls map[string]string) string {
	var out []string
	add := func(format, name string) {
		if v := lbls[name]; v != "" {
			out = append(out, fmt.Sprintf(format, v))
		}
	}
	add("pool %s", "pool")
	if lbls["instance"] != "" {
		add("%s", "instance")
		if lbls["pool"] == "" {
			add("job %s", "job")
		}
		if e := lbls["engine"]; e != "" && e != "0" {
			add("engine %s", "engine")
		}
	} else if lbls["pool"] == "" {
		add("job %s", "job")
	}
	if m := lbls["model_name"]; m != "" && !strings.HasSuffix(lbls["pool"], m) {
		add("%s", "model_name")
	}
	add("receiver %s", "receiver")
	add("cluster %s", "cluster")
	return strings.Join(out, ", ")
}

// since returns when the first of the alerts began.
func since(alerts []rules.Alert) time.Time {
	var out time.Time
	for _, a := range alerts {
		if t := began(a); !t.IsZero() && (out.IsZero() || t.Before(out)) {
			out = t
		}
	}
	return out
}

// until returns when the last of the alerts resolved.
func until(alerts []rules.Alert) time.Time {
	var out time.Time
	for _, a := range alerts {
		if a.ResolvedAt.After(out) {
			out = a.ResolvedAt
		}
	}
	return out
}

// period says since when, or from when to when, and how long. clock writes a
// time as the receiver wants it.
func period(alerts []rules.Alert, now time.Time, clock func(time.Time) string) string {
	from := since(alerts)
	if from.IsZero() {
		return ""
	}
	if statusOf(alerts) == rules.StateFiring {
		return fmt.Sprintf("since %s (%s)", clock(from), duration(now.Sub(from)))
	}
	to := until(alerts)
	if to.IsZero() {
		to = now
	}
	return fmt.Sprintf("lasted %s, %s to %s", duration(to.Sub(from)), clock(from), clock(to))
}

// clockAt writes times in UTC, with the date where it is not the day of now.
func clockAt(now time.Time, layout string) func(time.Time) string {
	return func(t time.Time) string {
		text := t.UTC().Format(layout) + " UTC"
		if t.UTC().Format(time.DateOnly) != now.UTC().Format(time.DateOnly) {
			return t.UTC().Format("2 Jan ") + text
		}
		return text
	}
}

// line is one named statement of a message.
type line struct{ name, text string }

// statements says what was seen, why, what it costs and what to do next. What
// an alert does not say is left out; what to do is left out when it is over.
func statements(a rules.Alert) []line {
	e := a.Evidence
	seen := e.Seen
	if seen == "" {
		seen = a.Annotations["description"]
	}
	out := []line{{"Seen", seen}, {"Why", e.CauseText}, {"Cost", e.Cost}}
	if a.State == rules.StateFiring {
		out = append(out, line{"Next", e.Next})
	}
	return notEmpty(out)
}

// details says what statements leave out.
func details(a rules.Alert) []line {
	e := a.Evidence
	out := []line{{"Marks", strings.Join(e.Events, "; ")}, {"Against", e.Against}, {"Or else", strings.Join(e.RunnersUp, "; ")}, {"How sure", e.Confidence}}
	// A description that is made of the evidence would say everything twice.
	if d := a.Annotations["description"]; e.Seen != "" && !strings.Contains(d, e.Seen) {
		out = append([]line{{"More", d}}, out...)
	}
	return notEmpty(out)
}

func notEmpty(lines []line) []line {
	var out []line
	for _, l := range lines {
		if l.text = strings.TrimSpace(l.text); l.text != "" {
			out = append(out, l)
		}
	}
	return out
}

const (
	// briefLength is about how many letters four lines of a phone hold.
	briefLength = 170
	// leastBrief keeps a text from being cut after its first words.
	leastBrief = 16
)

// sentence returns the first sentence of a text.
func sentence(text string) string {
	if i := strings.Index(text, ". "); i >= leastBrief {
		return text[:i+1]
	}
	return text
}

// brief keeps of a text what is read within a glance: its first sentence, and of
// a long one what stands before the first semicolon or colon.
func brief(text string) string {
	text = sentence(text)
	if utf8.RuneCountInString(text) <= briefLength {
		return text
	}
	for _, mark := range []string{"; ", ": "} {
		if i := strings.Index(text, mark); i >= leastBrief && utf8.RuneCountInString(text[:i]) <= briefLength {
			return text[:i] + "."
		}
	}
	return text
}

// briefly does so with each of the lines; what to do next stays a whole sentence.
func briefly(lines []line) []line {
	out := make([]line, 0, len(lines))
	for _, l := range lines {
		if l.name == "Next" {
			l.text = sentence(l.text)
		} else {
			l.text = brief(l.text)
		}
		out = append(out, l)
	}
	return out
}

// links returns where to read on, in order; only http and https addresses.
func links(n Notification, a rules.Alert) []line {
	var out []line
	page, dashboard := n.ExternalURL, a.Annotations["dashboard_url"]
	if strings.TrimSuffix(page, "/") == strings.TrimSuffix(dashboard, "/") {
		dashboard = ""
	}
	for _, l := range []line{{"Runbook", a.Annotations["runbook_url"]}, {"Dashboard", dashboard}, {"kvwatch", page}} {
		if strings.HasPrefix(l.text, "http://") || strings.HasPrefix(l.text, "https://") {
			out = append(out, l)
		}
	}
	return out
}

// mostOthers is how many further alerts of an incident are listed by name.
const mostOthers = 10

// others lists the alerts after the first in one line each.
func others(alerts []rules.Alert) []string {
	var out []string
	for i, a := range alerts {
		if i == 0 {
			continue
		}
		if i > mostOthers {
			out = append(out, fmt.Sprintf("and %d more: %s", len(alerts)-i, tally(alerts[i:])))
			break
		}
		text := fmt.Sprintf("%s: %s", markOf(a.State, a.Severity), headline(a))
		if where := place(a.Labels); where != "" && !placed(text, a.Labels) {
			text += " (" + where + ")"
		}
		out = append(out, text)
	}
	return out
}

// placed says whether a text names already what an alert is about.
func placed(text string, lbls map[string]string) bool {
	for _, name := range []string{"instance", "pool", "plan"} {
		if lbls[name] != "" {
			return strings.Contains(text, lbls[name])
		}
	}
	return false
}

// mostTallied is how many names of alerts are counted one by one.
const mostTallied = 4

// tally counts alerts by name, the most frequent first.
func tally(alerts []rules.Alert) string {
	counts := map[string]int{}
	for _, a := range alerts {
		counts[a.Name]++
	}
	names := sortedNames(counts)
	slices.SortStableFunc(names, func(a, b string) int { return counts[b] - counts[a] })
	var out []string
	for i, name := range names {
		if i == mostTallied {
			out = append(out, "others")
			break
		}
		out = append(out, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(out, ", ")
}

// duration writes a length of time in its two largest units.
func duration(d time.Duration) string {
	d = max(d, 0)
	pair := func(a int, ua string, b int, ub string) string {
		if b == 0 {
			return fmt.Sprintf("%d %s", a, ua)
		}
		return fmt.Sprintf("%d %s %d %s", a, ua, b, ub)
	}
	seconds, minutes, hours := int(d.Seconds()), int(d.Minutes()), int(d.Hours())
	switch {
	case seconds < 90:
		return fmt.Sprintf("%d s", seconds)
	case minutes < 60:
		return fmt.Sprintf("%d min", minutes)
	case hours < 24:
		return pair(hours, "h", minutes%60, "min")
	default:
		return pair(hours/24, "d", hours%24, "h")
	}
}

// quantity writes a figure with its unit: ratios in per cent, long times in
// minutes and hours, large counts in thousands and millions.
func quantity(v float64, unit string) string {
	switch {
	case !finite(v):
		return "unknown"
	case unit == "ratio":
		return significant(100*v) + " %"
	case (unit == "seconds" || unit == "s") && math.Abs(v) >= 90:
		return duration(time.Duration(v * float64(time.Second)))
	case unit == "seconds":
		unit = "s"
	}
	return strings.TrimSpace(scaled(v) + " " + unit)
}

// scaled writes a number with three significant digits and a word for its scale.
func scaled(v float64) string {
	for _, s := range []struct {
		from float64
		word string
	}{{1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}, {1e4, "thousand"}} {
		if math.Abs(v) >= s.from {
			div := s.from
			if s.from == 1e4 {
				div = 1e3
			}
			return significant(v/div) + " " + s.word
		}
	}
	return significant(v)
}

// significant writes a number with three significant digits, whole numbers whole.
func significant(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e6 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	digits := 0
	for limit := 100.0; digits < 4 && math.Abs(v) < limit; limit /= 10 {
		digits++
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// cutNote ends a text that was cut.
const cutNote = "… (cut)"

// cut shortens a text to at most limit characters and says so.
func cut(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	keep := []rune(s)[:max(0, limit-utf8.RuneCountInString(cutNote))]
	return string(keep) + cutNote
}
