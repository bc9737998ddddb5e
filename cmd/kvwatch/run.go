package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	promslogflag "github.com/prometheus/common/promslog/flag"
	toolkit "github.com/prometheus/exporter-toolkit/web"

	"kvwatch/collector"
)

// runCommand is the daemon. Its flags are those of the Prometheus family.
func runCommand(app *kingpin.Application) (string, action) {
	cmd := app.Command("run", "Runs the daemon: scrapes, derives, detects, alerts, and serves its page.")
	config := cmd.Flag("config.file", "Configuration file.").Default("kvwatch.yml").String()
	addresses := cmd.Flag("web.listen-address", "Address of the page, /metrics and the API. Repeatable.").Default(":14600").Strings()
	webConfig := cmd.Flag("web.config.file", "File that enables TLS or basic authentication, in the format of Prometheus's exporter-toolkit.").String()
	externalURL := cmd.Flag("web.external-url", "The address under which people reach kvwatch; it goes into alerts. Default: this machine's name and the first listen address.").String()
	lifecycle := cmd.Flag("web.enable-lifecycle", "Allow reloads by POST /-/reload.").Bool()
	storage := cmd.Flag("storage.path", "Folder for history, alert states and the notification log.").Default("data").String()
	retention := model.Duration(90 * 24 * time.Hour)
	cmd.Flag("storage.retention.time", "How long history is kept.").Default("90d").SetValue(&retention)
	size := cmd.Flag("storage.retention.size", "How large history may grow, e.g. 50GB; 0 is no limit.").Default("0").Bytes()
	logConfig := &promslog.Config{Writer: os.Stderr}
	addLogFlags(cmd, logConfig)

	return cmd.FullCommand(), func(ctx context.Context, stdout io.Writer) error {
		log := promslog.New(logConfig)
		tuneGC()
		collector.LogKubernetes(log)
		c, err := loadConfig(*config)
		if err != nil {
			return err
		}
		if err := checkStorage(*storage); err != nil {
			return err
		}
		if err := toolkit.Validate(*webConfig); err != nil {
			return fmt.Errorf("--web.config.file %s: %w", *webConfig, err)
		}
		listeners, err := listen(ctx, *addresses)
		if err != nil {
			return err
		}
		if *externalURL == "" {
			*externalURL = defaultURL(listeners[0].Addr().String(), *webConfig)
		}
		path, err := filepath.Abs(*storage)
		if err != nil {
			return err
		}
		d := newDaemon(daemonOptions{
			Config: c, ConfigFile: *config, StoragePath: path, RetentionTime: time.Duration(retention), RetentionSize: int64(*size),
			ExternalURL: strings.TrimSuffix(*externalURL, "/"), EnableLifecycle: *lifecycle, Stdout: stdout, Logger: log,
		})
		stop := reloadOnHangup(d)
		defer stop()
		log.Info("kvwatch starts", "version", versionString(), "config", *config, "url", *externalURL, "storage", path)
		err = d.run(ctx, listeners, webFlags(*webConfig))
		log.Info("kvwatch stopped")
		return err
	}
}

// addLogFlags adds --log.level and --log.format, which promslog offers for whole applications only.
func addLogFlags(cmd *kingpin.CmdClause, c *promslog.Config) {
	c.Level, c.Format = promslog.NewLevel(), promslog.NewFormat()
	cmd.Flag(promslogflag.LevelFlagName, promslogflag.LevelFlagHelp).Default("info").HintOptions(promslog.LevelFlagOptions...).SetValue(c.Level)
	cmd.Flag(promslogflag.FormatFlagName, promslogflag.FormatFlagHelp).Default("logfmt").HintOptions(promslog.FormatFlagOptions...).SetValue(c.Format)
}

// reloadOnHangup reloads at each SIGHUP until the returned function is called.
func reloadOnHangup(d *daemon) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			_ = d.reload() // logs and counts what went wrong
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
	}
}

// webFlags is what the HTTP server takes its TLS and authentication from.
func webFlags(configFile string) *toolkit.FlagConfig {
	addresses, socket := []string{}, false
	return &toolkit.FlagConfig{WebListenAddresses: &addresses, WebConfigFile: &configFile, WebSystemdSocket: &socket}
}

// defaultURL names this machine where the listener is on all addresses. Its
// scheme is that of the web configuration.
func defaultURL(address, webConfig string) string {
	scheme := "http"
	if src, err := os.ReadFile(webConfig); err == nil && bytes.Contains(src, []byte("tls_server_config:")) {
		scheme = "https"
	}
	host, port, found := strings.Cut(strings.TrimPrefix(address, "[::]"), ":")
	if !found || host == "" || host == "0.0.0.0" {
		name, err := os.Hostname()
		if err != nil {
			name = "localhost"
		}
		host = name
	}
	return fmt.Sprintf("%s://%s:%s", scheme, host, port)
}
