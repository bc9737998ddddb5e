package alerting

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	commoncfg "github.com/prometheus/common/config"

	"kvwatch/rules"
)

func init() {
	register("heartbeat", kind{
		help:    "Asks for an address, as dead man's switches want it: a service that alarms when kvwatch is no longer heard of.",
		example: `{url: "http://127.0.0.1:9/ping"}`,
		new:     func() settings { return &heartbeatSettings{} },
	})
}

// heartbeatSettings is one entry of heartbeat_configs.
type heartbeatSettings struct {
	// URL or URLFile is what is asked for.
	URL     commoncfg.Secret `yaml:"url,omitempty"`
	URLFile string           `yaml:"url_file,omitempty"`
	// Method is GET, HEAD or POST.
	Method     string                     `yaml:"method,omitempty"`
	HTTPConfig commoncfg.HTTPClientConfig `yaml:"http_config,omitempty"`
}

// UnmarshalYAML sets defaults, decodes and checks.
func (s *heartbeatSettings) UnmarshalYAML(unmarshal func(any) error) error {
	*s = heartbeatSettings{Method: http.MethodGet, HTTPConfig: commoncfg.DefaultHTTPClientConfig}
	type plain heartbeatSettings
	if err := unmarshal((*plain)(s)); err != nil {
		return err
	}
	switch s.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		return errors.New("method must be GET, HEAD or POST")
	}
	return checkURL(string(s.URL), s.URLFile)
}

// traits: the end of Watchdog is told by silence alone.
func (s *heartbeatSettings) traits() traits { return traits{deaf: true} }

func (s *heartbeatSettings) setDirectory(dir string) {
	s.URLFile = commoncfg.JoinDir(dir, s.URLFile)
	s.HTTPConfig.SetDirectory(dir)
}

func (s *heartbeatSettings) receiver(environment) (Receiver, error) {
	client, err := commoncfg.NewClientFromConfig(s.HTTPConfig, "heartbeat")
	if err != nil {
		return nil, fmt.Errorf("http_config: %w", err)
	}
	return &heartbeat{settings: *s, client: client}, nil
}

// heartbeat asks for an address each time that it is told of something.
type heartbeat struct {
	settings heartbeatSettings
	client   *http.Client
}

// Notify asks once.
func (h *heartbeat) Notify(ctx context.Context, n Notification) (retry bool, err error) {
	if n.Status() != rules.StateFiring {
		return false, nil
	}
	address, err := addressFrom("url_file", string(h.settings.URL), h.settings.URLFile)
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, h.settings.Method, address, http.NoBody)
	if err != nil {
		return false, fmt.Errorf("the address: %w", withoutURL(err))
	}
	req.Header.Set("User-Agent", "kvwatch")
	resp, err := h.client.Do(req)
	if err != nil {
		return true, withoutURL(err)
	}
	defer drain(resp)
	return checkStatus(resp.StatusCode, resp.Header, n.Now)
}
