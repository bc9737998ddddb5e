package alerting

import (
	"context"
	"fmt"
	"io"
	"strings"

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

func (s *terminalSettings) traits() traits      { return traits{sendResolved: s.SendResolved} }
func (s *terminalSettings) setDirectory(string) {}

func (s *terminalSettings) receiver(e environment) (Receiver, error) {
	return &terminal{out: e.stdout}, nil
}

// terminal prints notifications.
type terminal struct{ out io.Writer }

// Notify prints one notification as a block of text.
func (t *terminal) Notify(ctx context.Context, n Notification) (retry bool, err error) {
	if err := ctx.Err(); err != nil {
		return true, err
	}
	if _, err := io.WriteString(t.out, terminalText(n)); err != nil {
		return true, fmt.Errorf("standard output: %w", err)
	}
	return false, nil
}

// terminalText lays a notification out for eighty columns and more.
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
			fmt.Fprintf(&b, "  %-9s %s\n", name, text)
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
