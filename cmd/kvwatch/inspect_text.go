package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"kvwatch/collector"
	"kvwatch/rules"
)

// inspectText is the result for a person with ten seconds: of each target one
// line with the verdict, then the evidence, the numbers, what cannot be told and
// what to distrust.
func inspectText(out inspectOutput) string {
	var b strings.Builder
	for i, t := range out.Targets {
		if i > 0 {
			b.WriteByte('\n')
		}
		writeTarget(&b, t)
	}
	return b.String()
}

func writeTarget(b *strings.Builder, t rules.TargetReport) {
	line := func(format string, args ...any) { // what servers name stays on its line
		b.WriteString(plain(fmt.Sprintf(format, args...)))
		b.WriteByte('\n')
	}
	verdict, summary := t.Bottleneck.Name, t.Bottleneck.Summary
	if t.State != collector.StateUp && t.State != collector.StateUnknown {
		verdict, summary = string(t.State), t.Reason
	}
	line("%s (%s)  %s: %s", t.URL, whatItIs(t), strings.ToUpper(verdict), summary)
	if t.State == collector.StateUp {
		line("  %s, confidence %s", watchedText(t.Watched), t.Bottleneck.Confidence)
	}
	for _, e := range t.Bottleneck.Evidence {
		line("  - %s", e)
	}
	for _, e := range t.Engines {
		line("  engine %s (%s): %s", e.Engine, cmp.Or(e.ModelName, "model unknown"), strings.Join(engineNumbers(e), ", "))
	}
	if numbers := gatewayNumbers(t.Signals); len(numbers) > 0 {
		line("  gateway: %s", strings.Join(numbers, ", "))
	}
	for i, c := range t.Cannot {
		if i == shownCannot && len(t.Cannot) > shownCannot+1 {
			line("  cannot tell: and %d more, see --output=json", len(t.Cannot)-i)
			break
		}
		line("  cannot tell: %s: %s", c.Series, c.Reason)
	}
	for _, q := range t.Quirks {
		line("  note: %s", q)
	}
}

// shownCannot is how much of what cannot be told a person wants to read.
const shownCannot = 8

// whatItIs is "vllm 0.32.0", or what is known of it.
func whatItIs(t rules.TargetReport) string {
	what := cmp.Or(t.Source, "unknown server")
	if t.Version != "" {
		what += " " + t.Version
	}
	return what
}

func watchedText(w rules.Watched) string {
	text := "read " + count(w.Pages, "page")
	if w.Pages != w.Scrapes {
		text += fmt.Sprintf(" in %s", count(w.Scrapes, "scrape"))
	}
	if w.Seconds > 0 {
		text += fmt.Sprintf(" over %s s", number(w.Seconds))
	}
	if w.Pages > 1 {
		text += fmt.Sprintf(" with %s", count(int(w.Requests), "request"))
	}
	return text
}

// number keeps three digits, and all of those before the point.
func number(v float64) string {
	if v >= 1000 || v <= -1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func engineNumbers(e rules.EngineReport) []string {
	var all []string
	if e.KVCapacityTokens != nil {
		all = append(all, "KV cache of "+number(*e.KVCapacityTokens)+" tokens")
	}
	s := e.Signals
	add := func(text string, ok bool) {
		if ok {
			all = append(all, text)
		}
	}
	add(gaugeText("running", s.RequestsRunning))
	add(gaugeText("waiting", s.RequestsWaiting))
	if u := s.KVCacheUsage; u != nil && u.Value != nil {
		all = append(all, "KV usage "+number(100**u.Value)+"%")
	}
	add(gainedText("prompted", s.PromptTokens))
	add(gainedText("cached", s.PromptTokensCached))
	add(gainedText("generated", s.GenerationTokens))
	add(gainedText("preemptions", s.Preemptions))
	add(latencyText("TTFT", s.TTFT))
	add(latencyText("ITL", s.ITL))
	add(latencyText("queue time", s.QueueTime))
	return all
}

func gatewayNumbers(s rules.GatewaySignals) []string {
	var all []string
	add := func(text string, ok bool) {
		if ok {
			all = append(all, text)
		}
	}
	add(gaugeText("in flight", s.InFlightRequests))
	add(gainedText("requests", s.TotalRequests))
	add(gainedText("failed", s.FailedRequests))
	add(latencyText("overhead", s.OverheadLatency))
	return all
}

func gaugeText(name string, s *rules.Signal) (string, bool) {
	if s == nil || s.Value == nil {
		return "", false
	}
	return number(*s.Value) + " " + name, true
}

func gainedText(name string, s *rules.Signal) (string, bool) {
	switch {
	case s == nil:
		return "", false
	case s.Watched != nil:
		return fmt.Sprintf("%s%s %s", number(*s.Watched), unitText(s.Unit), name), true
	case s.Value != nil && s.Quality == rules.QualityOK:
		return fmt.Sprintf("%s%s %s since it began", number(*s.Value), unitText(s.Unit), name), true
	default:
		return "", false
	}
}

func latencyText(name string, s *rules.Signal) (string, bool) {
	if s == nil || s.Value == nil {
		return "", false
	}
	text := fmt.Sprintf("%s %s s", name, number(*s.Value))
	if s.P95 != nil {
		text += fmt.Sprintf(" (p95 %s s)", number(*s.P95))
	}
	return text, true
}

// unitText is the unit where the name that follows does not say it.
func unitText(unit string) string {
	if unit == "tokens" {
		return " tokens"
	}
	return ""
}
