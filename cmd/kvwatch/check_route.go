package main

import (
	"fmt"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/rules"
)

// alertLabels reads name=value pairs between commas.
func alertLabels(text string) (map[string]string, error) {
	out := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(pair), "=")
		if !found || name == "" {
			return nil, fmt.Errorf("--alert: %q is no label: write name=value, with commas between", pair)
		}
		out[name] = strings.Trim(value, `"`)
	}
	if out["alertname"] == "" {
		return nil, fmt.Errorf("--alert: alertname is missing in %q", text)
	}
	return out, nil
}

// waysText says who is told of an alert with these labels, and what may keep
// it from being told. As in the daemon, the alert's rule gives the severity
// where none is given, the configuration adds labels.
func waysText(c *Config, lbls map[string]string) string {
	add := func(name, value string) {
		if lbls[name] == "" {
			lbls[name] = value
		}
	}
	rule := c.Rules[lbls["alertname"]]
	add("severity", rule.Severity)
	for _, a := range rules.Registered().Alerts {
		if a.Name == lbls["alertname"] {
			add("severity", a.Severity)
		}
	}
	for name, value := range rule.Labels {
		add(name, value)
	}
	c.Global.ExternalLabels.Range(func(l labels.Label) { add(l.Name, l.Value) })

	var b strings.Builder
	fmt.Fprintf(&b, "An alert with %s\n", labels.FromMap(lbls))
	ways := c.Alerting.Ways(lbls)
	if len(ways) == 0 {
		b.WriteString("  is told to nobody: " + whyNobody(lbls["alertname"]) + "\n")
	}
	for _, w := range ways {
		goes := "goes"
		if w.Instead {
			goes = "where that cannot be told either, goes"
		}
		fmt.Fprintf(&b, "  %s to receiver %s, by the route %s\n", goes, w.Receiver, w.Route)
		fmt.Fprintf(&b, "    incident %s; first told after %s, what joins it after %s, again after %s\n", w.Group, w.GroupWait, w.GroupInterval, w.RepeatInterval)
		if len(w.Quiet) > 0 {
			fmt.Fprintf(&b, "    not in the time intervals %s\n", strings.Join(w.Quiet, ", "))
		}
		if len(w.Active) > 0 {
			fmt.Fprintf(&b, "    only in the time intervals %s\n", strings.Join(w.Active, ", "))
		}
	}
	for _, source := range c.Alerting.InhibitedWhile(lbls) {
		fmt.Fprintf(&b, "  is not told while an alert with %s fires\n", source)
	}
	return b.String()
}

func whyNobody(name string) string {
	if name == rules.Watchdog {
		return "it always fires, so that a route must ask for it by alertname"
	}
	return "there are no receivers"
}
