package main

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestRemoteWrite sends the derived series to a real Prometheus, and to an
// address where nobody listens.
func TestRemoteWrite(t *testing.T) {
	t.Parallel()
	s := startPrometheus(t, "scrape_configs: []", "")
	config := writeFile(t, filepath.Join(t.TempDir(), "kvwatch.yml"), fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s, external_labels: {cluster: madrid}}
scrape_configs: [{job_name: vllm, static_configs: [{targets: [%q]}]}]
receivers: [{name: terminal, terminal_configs: [{}]}]
remote_write:
  - url: http://127.0.0.1:1/dead
  - url: %s/api/v1/write
    write_relabel_configs: [{source_labels: [__name__], regex: kvwatch_preemptions_total, action: drop}]
`, newEngine(t).address(), s.url))
	p := runDaemon(t, config, t.TempDir())
	eventually(t, "the derived series have arrived", func() error {
		for query, want := range map[string]float64{
			`count(kvwatch_target_up{cluster="madrid",job="vllm"} == 1)`:            1,
			`count(kvwatch_kv_capacity_tokens{cluster="madrid",engine="0"} > 1000)`: 1,
			`clamp_max(count({__name__=~"kvwatch_.+"}), 20)`:                        20,
			`clamp_max(max(count_over_time(kvwatch_target_up[5m])), 3)`:             3,
		} {
			if got, err := s.query(query); err != nil || len(got) != 1 || got[0] != want {
				return fmt.Errorf("%s is %v (%w), want %g", query, got, err, want)
			}
		}
		return nil
	})
	for _, query := range []string{`{__name__=~".+",__name__!~"kvwatch_.+"}`, `{__name__=~".+",cluster!="madrid"}`, `kvwatch_preemptions_total`} {
		if got, err := s.query(query); err != nil || len(got) != 0 {
			t.Errorf("%s is %v (%v), want nothing", query, got, err)
		}
	}
	if _, err := p.get("/-/healthy"); err != nil {
		t.Error(err)
	}
}
