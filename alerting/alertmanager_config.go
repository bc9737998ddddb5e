package alerting

import (
	"errors"
	"fmt"

	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"
)

// AlertmanagerConfig says which Alertmanagers are told of every alert, in
// Prometheus's own block.
type AlertmanagerConfig struct {
	promconfig.AlertmanagerConfig
}

// UnmarshalYAML decodes and checks the block.
func (c *AlertmanagerConfig) UnmarshalYAML(unmarshal func(any) error) error {
	if err := unmarshal(&c.AlertmanagerConfig); err != nil {
		return fmt.Errorf("alertmanagers: %w", plainError(err))
	}
	if c.SigV4Config != nil {
		return errors.New("alertmanagers: sigv4 is not supported: use basic_auth, authorization, oauth2 or TLS")
	}
	if len(c.ServiceDiscoveryConfigs) == 0 {
		return errors.New("alertmanagers: an entry names no Alertmanager: give it static_configs, or another discovery of Prometheus")
	}
	if err := c.Validate(model.UTF8Validation); err != nil {
		return fmt.Errorf("alertmanagers: %w", err)
	}
	return nil
}

// MarshalYAML writes the block as it is read.
func (c AlertmanagerConfig) MarshalYAML() (any, error) { return &c.AlertmanagerConfig, nil }
