package alerting

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"kvwatch/rules"
)

func init() {
	register("terminal", kind{
		help:    "Prints to the daemon's standard output when something begins, changes and ends.",
		example: `{send_resolved: true}`,
		new:     func() settings { return &terminalSettings{} },
	})
}

// terminalSettings is one entry of terminal_configs.
type terminalSettings struct {
	SendResolved bool `yaml:"send_resolved"`
}

// UnmarshalYAML sets defaults and decodes.
func (s *terminalSettings) UnmarshalYAML(unmarshal func(any) error) error {
	*s = terminalSettings{SendResolved: true}
	type plain terminalSettings
	return unmarshal((*plain)(s))
}

func (s *terminalSettings) traits() traits {
	return traits{sendResolved: s.SendResolved, reports: true}
}

func (s *terminalSettings) setDirectory(string) {}

func (s *terminalSettings) receiver(e environment) (Receiver, error) {
	return &terminal{out: e.stdout}, nil
}

// terminal prints notifications.
type terminal struct{ out io.Writer }

// Notify prints one notification as a block of text.
func (t *terminal) Notify(ctx context.Context, n Notification) (retry bool, err error) {
	return t.print(ctx, terminalText(n))
}

// Report prints a report as it stands.
func (t *terminal) Report(ctx context.Context, r Report, _ time.Time) (retry bool, err error) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n■ %s\n", r.Title)
	for _, l := range r.Lines {
		fmt.Fprintf(&b, "  %s\n", wrapped(l, terminalWidth, "    "))
	}
	if r.Link != "" {
		fmt.Fprintf(&b, "  %s\n", r.Link)
	}
	return t.print(ctx, b.String())
}

func (t *terminal) print(ctx context.Context, text string) (retry bool, err error) {
	if err := ctx.Err(); err != nil {
		return true, err
	}
	if _, err := io.WriteString(t.out, text); err != nil {
		return true, fmt.Errorf("standard output: %w", err)
	}
	return false, nil
}

// terminalWidth is how many columns a statement may take.
const terminalWidth = 88

// wrapped breaks text between words; lines after the first begin with indent.
func wrapped(text string, width int, indent string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+length > width:
			b.WriteString("\n" + indent)
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += length
	}
	return b.String()
}

// terminalText lays a notification out for a hundred columns.
func terminalText(n Notification) string {
	if len(n.Alerts) == 0 {
		return ""
	}
	var b strings.Builder
	first := n.Alerts[0]
	clock := clockAt(n.Now, "15:04:05")
	symbol, word := "▲", strings.TrimPrefix(standing(n.Alerts), markOf(n.Status(), worst(n.Alerts)).symbol+" ")
	if n.Status() == rules.StateResolved {
		symbol = "✔"
	}
	if r := remark(n.Reason); r != "" {
		word += ", " + r
	}
	fmt.Fprintf(&b, "\n%s %s: %s\n", symbol, word, title(n.Alerts))
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-9s %s\n", name, wrapped(text, terminalWidth, strings.Repeat(" ", 12)))
		}
	}
	row("time", clock(n.Now))
	row("alert", first.Name)
	row("where", place(first.Labels))
	row("when", period(n.Alerts, n.Now, clock))
	for _, l := range statements(first) {
		row(strings.ToLower(l.name), l.text)
	}
	for _, l := range details(first) {
		row(strings.ToLower(l.name), l.text)
	}
	for _, text := range others(n.Alerts) {
		row("also", text)
	}
	for _, l := range links(n, first) {
		row(strings.ToLower(l.name), l.text)
	}
	return b.String()
}
