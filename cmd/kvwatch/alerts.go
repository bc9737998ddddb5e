package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"kvwatch/alerting"
	"kvwatch/rules"
)

// shownAlert is an alert as the page's API tells it.
type shownAlert struct {
	Name       string            `json:"alertname"`
	Severity   string            `json:"severity"`
	Labels     map[string]string `json:"labels"`
	Summary    string            `json:"summary"`
	Evidence   rules.Evidence    `json:"evidence"`
	ActiveAt   time.Time         `json:"active_at"`
	ResolvedAt *time.Time        `json:"resolved_at,omitempty"`
	Muted      *alerting.Muting  `json:"muted,omitempty"`
}

// shownAlerts are the alerts by state.
type shownAlerts struct {
	Firing   []shownAlert `json:"firing"`
	Pending  []shownAlert `json:"pending"`
	Resolved []shownAlert `json:"resolved"`
}

// alertsCommand prints what a running daemon's page shows: what fires, what is
// pending, what is over.
func alertsCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("alerts", "Lists the alerts of a running daemon: what fires, what is pending, what resolved lately.")
	daemon := clientFor(cmd)
	output := cmd.Flag("output", "text or json.").Default("text").Enum("text", "json")
	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		var answer struct {
			Data struct {
				Now    time.Time   `json:"now"`
				Alerts shownAlerts `json:"alerts"`
			} `json:"data"`
		}
		if err := daemon.get(ctx, "/api/v1/kvwatch/fleet", &answer); err != nil {
			return err
		}
		if *output == "json" {
			e := json.NewEncoder(stdout)
			e.SetIndent("", "  ")
			return e.Encode(answer.Data.Alerts)
		}
		fmt.Fprint(stdout, answer.Data.Alerts.text(answer.Data.Now))
		return nil
	}
}

// text says it to people: the firing ones with why and what next, the rest in one line each.
func (s shownAlerts) text(now time.Time) string {
	var b strings.Builder
	if len(s.Firing) == 0 {
		b.WriteString("No alert fires.\n")
	}
	for _, a := range s.Firing {
		fmt.Fprintf(&b, "%-8s  %s\n", strings.ToUpper(a.Severity), a.Summary)
		fmt.Fprintf(&b, "          %s\n", a.about(now))
		for _, line := range []struct{ name, text string }{
			{"Not told", a.notTold()}, {"Seen", a.Evidence.Seen}, {"Likely cause", a.Evidence.CauseText}, {"Next", a.Evidence.Next},
		} {
			if line.text != "" {
				fmt.Fprintf(&b, "          %s: %s\n", line.name, line.text)
			}
		}
	}
	for _, list := range []struct {
		name   string
		alerts []shownAlert
	}{{"pending", s.Pending}, {"resolved", s.Resolved}} {
		for _, a := range list.alerts {
			fmt.Fprintf(&b, "%-8s  %s (%s)\n", list.name, a.Summary, a.about(now))
		}
	}
	return b.String()
}

// about says which alert it is, of what, and since when or until when.
func (a shownAlert) about(now time.Time) string {
	parts := []string{a.Name}
	for _, name := range []string{"pool", "job", "instance"} {
		if v := a.Labels[name]; v != "" {
			parts = append(parts, name+" "+v)
		}
	}
	out := strings.Join(parts, ", ")
	if a.ResolvedAt != nil {
		return fmt.Sprintf("%s, over since %s, it lasted %s", out, inUTC(*a.ResolvedAt), a.ResolvedAt.Sub(a.ActiveAt).Round(time.Second))
	}
	return fmt.Sprintf("%s, since %s, for %s", out, inUTC(a.ActiveAt), now.Sub(a.ActiveAt).Round(time.Second))
}

// inUTC writes a time for people who may sit anywhere.
func inUTC(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// notTold is why nobody is told, "" when people are.
func (a shownAlert) notTold() string {
	if a.Muted == nil {
		return ""
	}
	return a.Muted.Text
}
