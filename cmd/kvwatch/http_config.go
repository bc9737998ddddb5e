package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/config"
)

// httpOptions are the flags that say how a command reaches live servers.
type httpOptions struct {
	// tokenFile holds a key, configFile the settings of Prometheus's HTTP client.
	tokenFile, configFile string
}

func (o *httpOptions) flags(cmd *kingpin.CmdClause, token string) {
	cmd.Flag("bearer-token-file", token).StringVar(&o.tokenFile)
	cmd.Flag("http.config.file", "File with the settings of Prometheus's HTTP client, as in scrape_configs: basic_auth, authorization, oauth2, tls_config, proxy_url, http_headers. They hold for every server that is named.").StringVar(&o.configFile)
}

// client is the HTTP client's configuration; bearer adds the key.
func (o httpOptions) client(bearer bool) (config.HTTPClientConfig, error) {
	c := config.DefaultHTTPClientConfig
	if o.configFile != "" {
		if err := readHTTPConfig(o.configFile, &c); err != nil {
			return c, err
		}
	}
	if bearer && o.tokenFile != "" {
		if hasCredentials(c) {
			return c, fmt.Errorf("--bearer-token-file and %s both hold credentials: give one", o.configFile)
		}
		file, err := filepath.Abs(o.tokenFile)
		if err != nil {
			return c, err
		}
		c.Authorization = &config.Authorization{Type: "Bearer", CredentialsFile: file}
	}
	return c, nil
}

// hasCredentials says whether requests are authorised already.
func hasCredentials(c config.HTTPClientConfig) bool {
	return c.BasicAuth != nil || c.Authorization != nil || c.OAuth2 != nil
}

// readHTTPConfig reads the settings and whatever they name; no error holds a secret.
func readHTTPConfig(file string, c *config.HTTPClientConfig) error {
	src, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--http.config.file: %w", err)
	}
	if _, err := decodeYAML(file, src, c); err != nil {
		return err
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return err
	}
	c.SetDirectory(dir)
	if _, err := config.NewClientFromConfig(*c, "check"); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
