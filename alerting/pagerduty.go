package alerting

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	commoncfg "github.com/prometheus/common/config"

	"kvwatch/rules"
)

func init() {
	register("pagerduty", kind{
		help:    "Opens, updates and resolves an incident of PagerDuty by its Events API, version 2.",
		example: `{routing_key: pd-example, url: "http://127.0.0.1:9/v2/enqueue"}`,
		new:     func() settings { return &pagerdutySettings{} },
	})
}

// pagerdutyURL is where PagerDuty takes events.
const pagerdutyURL = "https://events.pagerduty.com/v2/enqueue"

// The bounds of PagerDuty on an event.
const (
	pagerdutySummary = 1024      // characters
	pagerdutyDetails = 400 << 10 // bytes; the whole event may have 512 KiB
)

// pagerdutySettings is one entry of pagerduty_configs.
type pagerdutySettings struct {
	SendResolved bool `yaml:"send_resolved"`
	// RoutingKey or RoutingKeyFile is the integration key of the service.
	RoutingKey     commoncfg.Secret `yaml:"routing_key,omitempty"`
	RoutingKeyFile string           `yaml:"routing_key_file,omitempty"`
	// URL is another address than PagerDuty's own.
	URL        commoncfg.Secret           `yaml:"url,omitempty"`
	HTTPConfig commoncfg.HTTPClientConfig `yaml:"http_config,omitempty"`
}

// UnmarshalYAML sets defaults, decodes and checks.
func (s *pagerdutySettings) UnmarshalYAML(unmarshal func(any) error) error {
	*s = pagerdutySettings{SendResolved: true, URL: pagerdutyURL, HTTPConfig: commoncfg.DefaultHTTPClientConfig}
	type plain pagerdutySettings
	if err := unmarshal((*plain)(s)); err != nil {
		return err
	}
	if (s.RoutingKey == "") == (s.RoutingKeyFile == "") {
		return errors.New("give either routing_key or routing_key_file")
	}
	return checkAddress("url", string(s.URL))
}

func (s *pagerdutySettings) traits() traits { return traits{sendResolved: s.SendResolved} }

func (s *pagerdutySettings) setDirectory(dir string) {
	s.RoutingKeyFile = commoncfg.JoinDir(dir, s.RoutingKeyFile)
	s.HTTPConfig.SetDirectory(dir)
}

func (s *pagerdutySettings) receiver(environment) (Receiver, error) {
	client, err := commoncfg.NewClientFromConfig(s.HTTPConfig, "pagerduty")
	if err != nil {
		return nil, fmt.Errorf("http_config: %w", err)
	}
	return &pagerduty{settings: *s, client: client}, nil
}

// pagerduty sends events to PagerDuty.
type pagerduty struct {
	settings pagerdutySettings
	client   *http.Client
}

// Notify sends one event. PagerDuty takes events with the same key for the same
// incident, so that one that is sent twice pages once.
func (p *pagerduty) Notify(ctx context.Context, n Notification) (retry bool, err error) {
	key, err := secretFrom("routing_key_file", string(p.settings.RoutingKey), p.settings.RoutingKeyFile)
	if err != nil {
		return false, err
	}
	return postJSON(ctx, p.client, string(p.settings.URL), newPagerdutyEvent(key, n), n.Now)
}

// pagerdutyEvent is an event of the API, version 2.
type pagerdutyEvent struct {
	RoutingKey string            `json:"routing_key"`
	Action     string            `json:"event_action"`
	DedupKey   string            `json:"dedup_key"`
	Client     string            `json:"client,omitempty"`
	ClientURL  string            `json:"client_url,omitempty"`
	Payload    *pagerdutyPayload `json:"payload,omitempty"`
	Links      []pagerdutyLink   `json:"links,omitempty"`
}

type pagerdutyPayload struct {
	Summary   string            `json:"summary"`
	Source    string            `json:"source"`
	Severity  string            `json:"severity"`
	Timestamp time.Time         `json:"timestamp"`
	Component string            `json:"component,omitempty"`
	Class     string            `json:"class"`
	Details   map[string]string `json:"custom_details"`
}

type pagerdutyLink struct {
	Href string `json:"href"`
	Text string `json:"text"`
}

func newPagerdutyEvent(key string, n Notification) pagerdutyEvent {
	sum := sha256.Sum256([]byte(n.GroupKey))
	out := pagerdutyEvent{RoutingKey: key, Action: "resolve", DedupKey: hex.EncodeToString(sum[:])}
	if n.Status() != rules.StateFiring {
		return out
	}
	first := n.Alerts[0]
	source := place(first.Labels)
	if source == "" {
		source = "kvwatch"
	}
	out.Action, out.Client, out.ClientURL = "trigger", "kvwatch", n.ExternalURL
	out.Payload = &pagerdutyPayload{
		Summary: cut(title(n.Alerts), pagerdutySummary), Source: cut(source, pagerdutySummary), Severity: pagerdutySeverity(worst(n.Alerts)),
		Timestamp: since(n.Alerts), Component: first.Labels["pool"], Class: first.Name, Details: pagerdutyDetailsOf(n),
	}
	for _, l := range links(n, first) {
		out.Links = append(out.Links, pagerdutyLink{Href: l.text, Text: l.name})
	}
	return out
}

// pagerdutyDetailsOf is what the incident shows below its summary.
func pagerdutyDetailsOf(n Notification) map[string]string {
	first := n.Alerts[0]
	out := map[string]string{"When": period(n.Alerts, n.Now, clockAt(n.Now, "15:04"))}
	room := pagerdutyDetails
	lines := append(statements(first), details(first)...)
	lines = append(lines, notEmpty([]line{{"Also", strings.Join(others(n.Alerts), "\n")}})...)
	for _, l := range lines {
		text := cut(l.text, min(room/4, 10<<10))
		room -= len(text)
		out[l.name] = text
	}
	return out
}

// pagerdutySeverity is a severity that PagerDuty knows.
func pagerdutySeverity(severity string) string {
	switch severity {
	case rules.SeverityCritical, rules.SeverityWarning, rules.SeverityInfo:
		return severity
	default:
		return "error"
	}
}
