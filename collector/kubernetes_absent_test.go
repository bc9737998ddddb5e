//go:build !kubernetes

package collector

import (
	"strings"
	"testing"
)

// TestKubernetesIsAbsent holds a build without it to one error that says so, in
// place of those about keys that it does not know.
func TestKubernetesIsAbsent(t *testing.T) {
	t.Parallel()
	_, err := decodeFile("scrape_configs:\n  - job_name: a\n    kubernetes_sd_configs:\n      - {role: pod, namespaces: {own_namespace: true}}\n      - {role: node}\n")
	want := `line 3: scrape_configs job "a": kubernetes_sd_configs needs Kubernetes discovery, which this build lacks: run the container image, which has it, or build with -tags kubernetes`
	if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "line ") != 1 {
		t.Errorf("got  %v\nwant …%s… once", err, want)
	}
	if f, err := decodeFile("scrape_configs: [{job_name: a, kubernetes_sd_configs: []}]"); err != nil || len(f.Scrapes[0].discoverers()) != 0 {
		t.Errorf("an empty list needs nothing: %v", err)
	}
}
