package alerting

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	commoncfg "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"kvwatch/rules"
)

func init() {
	register("webhook", kind{
		help:    "Posts the payload of Alertmanager's webhook receiver, version 4, to any address.",
		example: `{url: "http://127.0.0.1:9/hook"}`,
		new:     func() settings { return &webhookSettings{} },
	})
}

// webhookSettings is one entry of webhook_configs.
type webhookSettings struct {
	SendResolved bool `yaml:"send_resolved"`
	// URL or URLFile is where to post to.
	URL        commoncfg.Secret           `yaml:"url,omitempty"`
	URLFile    string                     `yaml:"url_file,omitempty"`
	HTTPConfig commoncfg.HTTPClientConfig `yaml:"http_config,omitempty"`
	// MaxAlerts bounds the alerts in one payload; 0 is no bound.
	MaxAlerts uint64 `yaml:"max_alerts,omitempty"`
	// Timeout bounds one request; 0 leaves it to the daemon's own bound.
	Timeout model.Duration `yaml:"timeout,omitempty"`
}

// UnmarshalYAML sets defaults, decodes and checks.
func (s *webhookSettings) UnmarshalYAML(unmarshal func(any) error) error {
	*s = webhookSettings{SendResolved: true, HTTPConfig: commoncfg.DefaultHTTPClientConfig}
	type plain webhookSettings
	if err := unmarshal((*plain)(s)); err != nil {
		return err
	}
	return checkURL(string(s.URL), s.URLFile)
}

func (s *webhookSettings) traits() traits { return traits{sendResolved: s.SendResolved, reports: true} }

func (s *webhookSettings) setDirectory(dir string) {
	s.URLFile = commoncfg.JoinDir(dir, s.URLFile)
	s.HTTPConfig.SetDirectory(dir)
}

func (s *webhookSettings) receiver(environment) (Receiver, error) {
	client, err := commoncfg.NewClientFromConfig(s.HTTPConfig, "webhook")
	if err != nil {
		return nil, fmt.Errorf("http_config: %w", err)
	}
	return &webhook{settings: *s, client: client}, nil
}

// webhook posts notifications as Alertmanager does.
type webhook struct {
	settings webhookSettings
	client   *http.Client
}

// Notify posts one notification.
func (w *webhook) Notify(ctx context.Context, n Notification) (retry bool, err error) {
	return w.post(ctx, newWebhookPayload(n, w.settings.MaxAlerts), n.Now)
}

// Report posts a payload of the same form that has no alert in it.
func (w *webhook) Report(ctx context.Context, r Report, now time.Time) (retry bool, err error) {
	return w.post(ctx, newReportPayload(r), now)
}

// post posts a payload.
func (w *webhook) post(ctx context.Context, payload any, now time.Time) (retry bool, err error) {
	address, err := addressFrom("url_file", string(w.settings.URL), w.settings.URLFile)
	if err != nil {
		return false, err
	}
	if w.settings.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(w.settings.Timeout))
		defer cancel()
	}
	return postJSON(ctx, w.client, address, payload, now)
}

// webhookPayload is what Alertmanager's webhook receiver posts. The order of
// the fields is its order.
type webhookPayload struct {
	Receiver          string            `json:"receiver"`
	Status            rules.AlertState  `json:"status"`
	Alerts            []webhookAlert    `json:"alerts"`
	GroupLabels       map[string]string `json:"groupLabels"`
	CommonLabels      map[string]string `json:"commonLabels"`
	CommonAnnotations map[string]string `json:"commonAnnotations"`
	ExternalURL       string            `json:"externalURL"`
	Version           string            `json:"version"`
	GroupKey          string            `json:"groupKey"`
	TruncatedAlerts   uint64            `json:"truncatedAlerts"`
}

// reportPayload is a report: what reads Alertmanager's payload finds no alert in it.
type reportPayload struct {
	webhookPayload

	Report Report `json:"report"`
}

// statusReport is the status of a payload that is a report.
const statusReport rules.AlertState = "report"

func newReportPayload(r Report) reportPayload {
	return reportPayload{
		webhookPayload: webhookPayload{
			Receiver: r.Receiver, Status: statusReport, Alerts: []webhookAlert{}, GroupLabels: map[string]string{"report": r.Kind}, CommonLabels: map[string]string{"report": r.Kind},
			CommonAnnotations: map[string]string{"summary": r.Title, "description": strings.Join(r.Lines, "\n")}, Version: "4", GroupKey: r.ID,
		},
		Report: r,
	}
}

type webhookAlert struct {
	Status       rules.AlertState  `json:"status"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"` // year 1 while firing
	GeneratorURL string            `json:"generatorURL"`
	Fingerprint  string            `json:"fingerprint"`
}

func newWebhookPayload(n Notification, maxAlerts uint64) webhookPayload {
	p := webhookPayload{
		Receiver: n.Receiver, Status: n.Status(), Alerts: []webhookAlert{},
		GroupLabels: notNil(n.GroupLabels), ExternalURL: n.ExternalURL, Version: "4", GroupKey: n.GroupKey,
	}
	for i, a := range n.Alerts {
		w := newWebhookAlert(a, n.ExternalURL)
		if i == 0 {
			p.CommonLabels, p.CommonAnnotations = maps.Clone(w.Labels), maps.Clone(w.Annotations)
		}
		keepCommon(p.CommonLabels, w.Labels)
		keepCommon(p.CommonAnnotations, w.Annotations)
		if maxAlerts > 0 && uint64(len(p.Alerts)) == maxAlerts {
			p.TruncatedAlerts++
			continue
		}
		p.Alerts = append(p.Alerts, w)
	}
	p.CommonLabels, p.CommonAnnotations = notNil(p.CommonLabels), notNil(p.CommonAnnotations)
	return p
}

func newWebhookAlert(a rules.Alert, externalURL string) webhookAlert {
	lset := model.LabelSet{}
	for name, value := range a.Labels {
		lset[model.LabelName(name)] = model.LabelValue(value)
	}
	w := webhookAlert{
		Status: a.State, Labels: notNil(a.Labels), Annotations: webhookAnnotations(a),
		StartsAt: a.FiredAt, Fingerprint: lset.Fingerprint().String(),
	}
	if w.StartsAt.IsZero() {
		w.StartsAt = a.ActiveAt
	}
	if a.State == rules.StateResolved {
		w.EndsAt = a.ResolvedAt
	}
	if externalURL != "" {
		w.GeneratorURL = strings.TrimSuffix(externalURL, "/") + "/#alert-" + w.Fingerprint
	}
	return w
}

// webhookAnnotations are the alert's own and what its evidence says, which has
// no other place in this format.
func webhookAnnotations(a rules.Alert) map[string]string {
	out := map[string]string{}
	for _, l := range notEmpty([]line{
		{"seen", a.Evidence.Seen},
		{"against", a.Evidence.Against},
		{"cause", a.Evidence.Cause},
		{"cause_text", a.Evidence.CauseText},
		{"cost", a.Evidence.Cost},
		{"next", a.Evidence.Next},
		{"confidence", a.Evidence.Confidence},
		{"events", strings.Join(a.Evidence.Events, "; ")},
	}) {
		out[l.name] = l.text
	}
	maps.Copy(out, a.Annotations)
	return out
}

// keepCommon takes out of common what b has otherwise.
func keepCommon(common, b map[string]string) {
	maps.DeleteFunc(common, func(name, value string) bool { return b[name] != value })
}

// notNil makes JSON write {} and not null.
func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
