package main

import (
	"os"
	"strings"
	"testing"
)

// FuzzConfig reads whole configurations: what is wrong is an error that names
// the file, never a panic, and tells no Go type.
func FuzzConfig(f *testing.F) {
	shipped, err := os.ReadFile("../../deploy/kvwatch.yml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(shipped)
	const job = "scrape_configs: [{job_name: a, source: vllm, static_configs: [{targets: ['a:1']}]}]\n"
	for _, text := range []string{
		"", "[]", "a: &a [*a]", "%", "scrape_configs: null", "prometheus_sources: [null]\nremote_write: [null]\nspend_logs: [null]",
		job + "remote_write: [{url: 'http://p', name: x, write_relabel_configs: [{action: drop, source_labels: [a], regex: '('}]}]",
		job + "remote_write: [{url: 'http://p', queue_config: {capacity: -1, max_shards: 0}, sigv4: {}}, {url: 'http://p'}]",
		job + "remote_write: [{url: 'http://u:p@h'}, {url: ''}, {remote_timeout: 1s}]",
		job + "spend_logs: [{dsn: 'postgres://u:p@h/d', interval: 1s}]\npools: [{name: a, turn_gap: -1s}]\nrules: {TargetDown: {for: x}}",
		"scrape_configs: [{job_name: r, source: recording, recordings: [{path: a.tar.zst, speed: -1}]}]",
		"prometheus_sources: [{url: 'http://p', match: ['{']}]\nglobal: {scrape_interval: 1y}\nroute: {receiver: a}\nreceivers: [{name: a, webhook_configs: [{url: x}]}]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := parseConfig("kvwatch.yml", src)
		switch {
		case err == nil && len(c.ScrapeConfigs)+len(c.PrometheusSources) == 0:
			t.Error("a configuration without targets was taken")
		case err != nil && !strings.HasPrefix(err.Error(), "kvwatch.yml"):
			t.Errorf("it does not name the file: %v", err)
		case err != nil && strings.Contains(err.Error(), " into collector."), err != nil && strings.Contains(err.Error(), " into main."):
			t.Errorf("it names a Go type: %v", err)
		}
	})
}
