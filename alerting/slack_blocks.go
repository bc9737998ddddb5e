package alerting

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slack-go/slack"

	"kvwatch/rules"
)

// Slack's limits, in characters; a section may have 3 000.
const (
	slackHeaderLimit  = 150
	slackSectionLimit = 3000
	slackBlockLimit   = 50
	slackTextLimit    = 3000
	slackButtonLimit  = 75
	slackAddressLimit = 3000
	// slackDetailed is how many alerts of an incident get their details in one reply.
	slackDetailed = 5
)

// slackRoot is the message that always shows how the incident stands, short
// enough for a phone: its thread says the rest. buttons says that somebody hears
// those that do something.
func slackRoot(n Notification, buttons bool) []slack.Block {
	if len(n.Alerts) == 0 {
		return nil
	}
	first := n.Alerts[0]
	blocks := slackStanding(n, briefly(statements(first)))
	return append(slackBounded(blocks, 1), slackActions(n, first, buttons)...)
}

// slackStanding says what it is, where and since when, the lines about the first
// alert, and which others there are.
func slackStanding(n Notification, lines []line) []slack.Block {
	first := n.Alerts[0]
	blocks := []slack.Block{
		slackHeader(standing(n.Alerts) + ": " + title(n.Alerts)),
		slackContext(slackBold(place(first.Labels)), period(n.Alerts, n.Now, slackClock(n.Now)), first.Name, remark(onlyMissed(n.Reason))),
	}
	if taken := slackTaken(n); taken != "" {
		blocks = append(blocks, slackContext(taken))
	}
	blocks = append(blocks, slackSection(slackLines(lines))...)
	if more := others(n.Alerts); len(more) > 0 {
		blocks = append(blocks, slackSection(slackList(more))...)
	}
	return blocks
}

// slackTaken says who has taken the incident on, and that it is silenced.
func slackTaken(n Notification) string {
	var parts []string
	if a := n.Acknowledged; a != nil && n.Status() == rules.StateFiring {
		parts = append(parts, "👀 "+slackBold("Acknowledged by "+a.By)+" "+slackClock(n.Now)(a.At))
	}
	if s := n.Silenced; s != nil {
		parts = append(parts, "🔕 "+slackBold("Silenced by "+s.CreatedBy)+" until "+slackClock(n.Now)(s.EndsAt))
	}
	return strings.Join(parts, "  ·  ")
}

// onlyMissed keeps the one remark that stays true for the rest of the incident.
func onlyMissed(r Reason) Reason {
	if r == ReasonMissed {
		return r
	}
	return ReasonNone
}

// slackWhole is root and details in one message, for an incoming webhook.
func slackWhole(n Notification) []slack.Block {
	if len(n.Alerts) == 0 {
		return nil
	}
	first := n.Alerts[0]
	lines := statements(first)
	if n.Status() == rules.StateFiring {
		lines = append(lines, details(first)...)
	}
	blocks := slackStanding(n, lines)
	if r := remark(n.Reason); r != "" && n.Reason != ReasonMissed {
		blocks = append(blocks, slackContext(slackEscape(r)))
	}
	return append(slackBounded(blocks, 1), slackLinks(n, first)...)
}

// slackReply is what the thread is told, if anything, and whether the channel
// is told as well. begins says that the thread has nothing in it yet.
func slackReply(n Notification, begins bool) (text string, blocks []slack.Block, broadcast bool) {
	if len(n.Alerts) == 0 {
		return "", nil, false
	}
	m, head := markOf(n.Status(), worst(n.Alerts)), title(n.Alerts)
	var body []slack.Block
	switch n.Reason {
	case ReasonSeverity:
		text, broadcast = fmt.Sprintf("%s Severity rose to %s: %s", m.symbol, strings.ToLower(m.word), head), true
		body = slackEvidence(slackNews(n))
	case ReasonNewAlerts:
		text = fmt.Sprintf("%s More alerts: %s", m.symbol, title(slackNews(n)))
		body = slackEvidence(slackNews(n))
	case ReasonSomeResolved:
		text = fmt.Sprintf("%s Some resolved, still firing: %s", m.symbol, head)
		body = slackSection(slackList(others(n.Alerts)))
	case ReasonRepeat:
		text, broadcast = fmt.Sprintf("%s Still firing after %s: %s", m.symbol, duration(n.Now.Sub(since(n.Alerts))), head), true
		body = slackSection(slackLines(briefly(statements(n.Alerts[0]))))
	case ReasonResolved:
		text = fmt.Sprintf("%s Resolved: %s", m.symbol, head)
		body = slackSection(period(n.Alerts, n.Now, slackClock(n.Now)))
	case ReasonAcknowledged:
		if n.Acknowledged == nil {
			return "", nil, false
		}
		text = fmt.Sprintf("👀 Acknowledged by %s: no repeats until it is over or gets worse", n.Acknowledged.By)
	case ReasonSilenced:
		if n.Silenced == nil {
			return "", nil, false
		}
		text = fmt.Sprintf("🔕 Silenced by %s", n.Silenced.CreatedBy)
		body = slackSection(fmt.Sprintf("until %s: %s", slackClock(n.Now)(n.Silenced.EndsAt), slackEscape(n.Silenced.Comment)))
	case ReasonFirst, ReasonMissed, ReasonUnfinished, ReasonChanged, ReasonNone:
		if !begins {
			return "", nil, false
		}
		// The evidence alone: the message above it has the headline.
		text = slackCut(slackEscape("Details: "+head), slackTextLimit)
		return text, slackBounded(slackEvidence(n.Alerts), 0), false
	}
	blocks = append(slackSection(slackBold(text)), body...)
	return slackCut(slackEscape(text), slackTextLimit), slackBounded(blocks, 0), broadcast
}

// slackNews are the firing alerts that the thread has not heard of; all that
// fire when it has heard of each, as where a severity alone rose.
func slackNews(n Notification) []rules.Alert {
	var all, news []rules.Alert
	for _, a := range n.Alerts {
		if a.State != rules.StateFiring {
			continue
		}
		all = append(all, a)
		if !n.Told[a.Key()] {
			news = append(news, a)
		}
	}
	if len(news) == 0 {
		return all
	}
	return news
}

// slackEvidence is the evidence of the first alerts of a list.
func slackEvidence(alerts []rules.Alert) []slack.Block {
	var blocks []slack.Block
	for i, a := range alerts {
		if i == slackDetailed {
			return append(blocks, slackContext(fmt.Sprintf("and %d more alerts", len(alerts)-i)))
		}
		blocks = append(blocks, slackDetails(a)...)
	}
	return blocks
}

// slackDetails is the evidence of one alert.
func slackDetails(a rules.Alert) []slack.Block {
	m := markOf(a.State, a.Severity)
	head := fmt.Sprintf("%s %s", slackEscape(m.String()), slackBold(a.Name))
	if where := place(a.Labels); where != "" {
		head += ", " + slackEscape(where)
	}
	return append([]slack.Block{slackContext(head)}, slackSection(slackLines(append(statements(a), details(a)...)))...)
}

// slackFallback is the text of the push notification on a phone.
func slackFallback(n Notification) string {
	if len(n.Alerts) == 0 {
		return ""
	}
	text := standing(n.Alerts) + ": " + title(n.Alerts)
	lbls := n.Alerts[0].Labels
	if where := place(lbls); where != "" && !placed(text, lbls) {
		text += ", " + where
	}
	if next := n.Alerts[0].Evidence.Next; next != "" && n.Status() == rules.StateFiring {
		text += ". Next: " + sentence(next)
	}
	return slackCut(slackEscape(text), slackTextLimit)
}

// slackClock writes a time that Slack shows in the reader's own time zone.
func slackClock(now time.Time) func(time.Time) string {
	utc := clockAt(now, "15:04")
	return func(t time.Time) string {
		form := "{time}"
		if t.UTC().Format(time.DateOnly) != now.UTC().Format(time.DateOnly) {
			form = "{date_short_pretty} {time}"
		}
		return fmt.Sprintf("<!date^%d^%s|%s>", t.Unix(), form, utc(t))
	}
}

func slackHeader(text string) slack.Block {
	return slack.NewHeaderBlock(slack.NewTextBlockObject(slack.PlainTextType, cut(text, slackHeaderLimit), true, false))
}

// slackContext is a small grey line; its parts are marked up already.
func slackContext(parts ...string) slack.Block {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	text := slackCut(strings.Join(kept, "  ·  "), slackSectionLimit)
	return slack.NewContextBlock("", slack.NewTextBlockObject(slack.MarkdownType, text, false, true))
}

// slackSection is a paragraph that is marked up already; an empty one is none.
func slackSection(text string) []slack.Block {
	if text == "" {
		return nil
	}
	return []slack.Block{slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, slackCut(text, slackSectionLimit), false, true), nil, nil)}
}

func slackLines(lines []line) string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, slackBold(l.name)+"  "+slackEscape(l.text))
	}
	return strings.Join(out, "\n\n")
}

func slackList(items []string) string {
	out := make([]string, 0, len(items))
	for _, item := range items {
		out = append(out, "• "+slackEscape(item))
	}
	return strings.Join(out, "\n")
}

// slackActions are the buttons below a message. One that opens an address is a
// link where nobody hears buttons: Slack puts a warning beside a button that no
// app answers, though it opens the address all the same.
func slackActions(n Notification, a rules.Alert, buttons bool) []slack.Block {
	if !buttons {
		return slackLinks(n, a)
	}
	var elements []slack.BlockElement
	if n.Status() == rules.StateFiring {
		if n.Acknowledged == nil {
			elements = append(elements, slackButton(slackAcknowledge, "Acknowledge").WithStyle(slack.StylePrimary))
		}
		if n.Silenced == nil {
			elements = append(elements, slackButton(slackSilence1h, "Silence 1 h"), slackButton(slackSilence4h, "Silence 4 h"))
		}
	}
	for i, l := range links(n, a) {
		if len(l.text) > slackAddressLimit {
			continue
		}
		b := slackButton(fmt.Sprintf("%s_%d", slackFollow, i), l.name)
		b.URL = l.text
		elements = append(elements, b)
	}
	if len(elements) == 0 {
		return nil
	}
	return []slack.Block{slack.NewActionBlock("", elements...)}
}

func slackButton(action, text string) *slack.ButtonBlockElement {
	return slack.NewButtonBlockElement(action, "", slack.NewTextBlockObject(slack.PlainTextType, cut(text, slackButtonLimit), true, false))
}

// slackLinks are the addresses as text, large enough for a thumb.
func slackLinks(n Notification, a rules.Alert) []slack.Block {
	var out []string
	for _, l := range append(links(n, a), silenceLink(n)...) {
		if len(l.text) <= slackAddressLimit {
			out = append(out, slackLink(l.text, l.name))
		}
	}
	return slackSection(strings.Join(out, "   ·   "))
}

// slackBold marks text as bold; a star in it would end the mark.
func slackBold(text string) string {
	if text == "" {
		return ""
	}
	return "*" + slackEscape(strings.ReplaceAll(text, "*", "∗")) + "*"
}

// slackEscape keeps text from being read as a link or a mention.
func slackEscape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// slackCut shortens marked-up text and leaves no half of an entity at the end.
func slackCut(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	kept := strings.TrimSuffix(cut(text, limit), cutNote)
	if i := strings.LastIndexAny(kept, "&<"); i >= 0 && !strings.ContainsAny(kept[i:], ";>") {
		kept = kept[:i]
	}
	return kept + cutNote
}

// slackBounded keeps a message within the number of blocks that Slack takes, and
// leaves room for some more.
func slackBounded(blocks []slack.Block, room int) []slack.Block {
	most := slackBlockLimit - room
	if len(blocks) <= most {
		return blocks
	}
	return append(blocks[:most-1:most-1], slackContext("More was left out to keep within Slack's limits."))
}
