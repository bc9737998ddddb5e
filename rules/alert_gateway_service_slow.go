package rules

import (
	"fmt"
	"strings"
	"time"
)

func init() {
	alert(Alerting{
		Name:     "GatewayServiceSlow",
		Help:     "A gateway's Redis or PostgreSQL answers slowly (p95 over 50 ms in 5 minutes), or over 1% of its calls to it fail.",
		Severity: SeverityWarning, For: 5 * time.Minute,
		Settings: []Setting{
			{Name: "latency", Default: 0.05, Positive: true, Help: "p95 that is too slow, in seconds"},
			{Name: "failed_ratio", Default: 0.01, Positive: true, Help: "share of failed calls that is too much"},
			{Name: "least_calls", Default: 20.0, Positive: true, Help: "calls in 5 minutes from which a service is judged"},
		},
		Gateway: func(s *settings) detector[GatewayWindow] { return gatewayServiceSlow{s} },
	})
}

type gatewayServiceSlow struct{ *settings }

// gatewayService is what a gateway tells of a service that it uses.
type gatewayService struct {
	name          string
	latency       hist
	calls, failed total
}

func gatewayServices() []gatewayService {
	return []gatewayService{
		{"Redis", histRedis, totalRedis, totalRedisFailed},
		{"PostgreSQL", histPostgres, totalPostgres, totalPostgresFailed},
	}
}

// Judge implements detector.
func (d gatewayServiceSlow) Judge(w GatewayWindow, _ time.Time) Verdict {
	if text := w.unrated(); text != "" {
		return unknown(text)
	}
	var texts, bad []string
	v := Verdict{Phase: PhaseWatching}
	calls := 0.0
	for _, s := range gatewayServices() {
		text, n, wrong := d.judge(w, s, &v)
		if text == "" {
			continue
		}
		calls += n
		texts = append(texts, text)
		if wrong {
			bad = append(bad, s.name)
		}
	}
	switch {
	case len(texts) == 0:
		return unknown(`the page tells nothing of Redis and PostgreSQL, or too few calls: add "prometheus_system" to LiteLLM's service_callbacks`)
	case len(bad) == 0:
		v.Text = strings.Join(texts, "; ")
		return v
	}
	v.Active, v.Text = true, strings.Join(texts, "; ")
	v.Summary = fmt.Sprintf("Gateway %s: %s is slow or fails", w.unit.target.instance, list(bad))
	v.Evidence = Evidence{
		Seen:       strings.Join(texts, "; ") + ".",
		Against:    fmt.Sprintf("Fires at a p95 over %s or over %s failed, from %g calls on.", spellSeconds(d.number("latency")), percent(d.number("failed_ratio")), d.number("least_calls")),
		CauseText:  "Every request waits for these services (keys, limits, routing state): what they take is added to the time to first token, and failures turn into refused keys and forgotten sessions.",
		Next:       "Look at the service itself (connections, CPU, network) and at the gateway's event loop: one that is busy counting tokens measures its own delay here.",
		Confidence: confidence(calls), Numbers: v.Numbers,
	}
	return v
}

// judge tells of one service; "" where nothing can be told.
func (d gatewayServiceSlow) judge(w GatewayWindow, s gatewayService, v *Verdict) (text string, calls float64, wrong bool) {
	b := w.buckets(s.latency, summaryWindow)
	failed := w.Increase(s.failed, summaryWindow)
	calls = max(b.count, w.Increase(s.calls, summaryWindow), failed)
	if calls < d.number("least_calls") {
		return "", 0, false
	}
	text = fmt.Sprintf("%s: %s of %s calls failed in %s", s.name, amount(failed), amount(calls), spell(summaryWindow))
	key := strings.ToLower(s.name)
	v.Numbers = append(v.Numbers, Number{Name: key + "_failed", Value: failed / calls, Unit: "ratio"})
	wrong = failed/calls > d.number("failed_ratio")
	if p95, ok := b.quantile(0.95); ok && b.count >= d.number("least_calls") {
		text += ", p95 " + spellSeconds(p95)
		v.Numbers = append(v.Numbers, Number{Name: key + "_p95", Value: p95, Unit: "seconds"})
		v.Value = max(v.Value, p95)
		wrong = wrong || p95 > d.number("latency")
	}
	return text, calls, wrong
}
