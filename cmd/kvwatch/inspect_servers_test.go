package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kvwatch/collector"
	"kvwatch/rules"
)

// servedRecording serves the recording so many times as fast as it was, from a
// moment on, at which it is when it is asked first; it returns the addresses by folder.
func servedRecording(t *testing.T, at time.Time, speed int) map[string]string {
	t.Helper()
	rec, err := collector.OpenRecording(testdata + "recording.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close() })
	began := sync.OnceValue(time.Now)
	now := func() time.Time { return at.Add(time.Duration(speed) * time.Since(began())) }
	addresses := map[string]string{}
	for _, folder := range rec.Folders() {
		server := httptest.NewServer(rec.Handler(folder, now))
		t.Cleanup(server.Close)
		addresses[folder] = strings.TrimPrefix(server.URL, "http://")
	}
	return addresses
}

// What inspect says of real servers that scrape the recording.
func TestInspectRealServers(t *testing.T) {
	t.Parallel()
	for _, server := range queryServers {
		for phase, test := range map[string]struct {
			part float64 // of the phase, at which it begins
			want []string
		}{
			"9 broken_prefix": {0.75, []string{"gateway up none", "engine-a up prefix_cache", "engine-b up prefix_cache"}},
			// An engine is known by the series that it had before it died.
			"8 steady_restart": {0.05, []string{"gateway up none", "engine-a up none", "engine-b down unknown"}},
		} {
			t.Run(server.name+"/"+phase, func(t *testing.T) {
				t.Parallel()
				const speed = 3
				want, address := test.want, servedRecording(t, phaseMoments(t, test.part)[phase], speed)
				s := server.start(t, fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: vllm
    static_configs:
      - {targets: [%q], labels: {instance: engine-a}}
      - {targets: [%q], labels: {instance: engine-b}}
  - {job_name: gateway, static_configs: [{targets: [%q], labels: {instance: gateway}}]}
  - {job_name: other, static_configs: [{targets: ["127.0.0.1:1"]}]}
`, address["engine-a"], address["engine-b"], address["gateway"]), "")
				var last []rules.TargetReport
				eventually(t, "the verdicts are there", func() error {
					var out bytes.Buffer
					if err := run(t.Context(), []string{"inspect", "--output=json", s.url}, &out); err != nil {
						return err
					}
					last = decodeInspect(t, out.Bytes()).Targets
					var got []string
					for _, r := range last {
						_, name, _ := strings.Cut(r.URL, "#")
						got = append(got, fmt.Sprintf("%s %s %s", name[strings.Index(name, "/")+1:], r.State, r.Bottleneck.Name))
					}
					if !slices.Equal(got, want) {
						return fmt.Errorf("%q, not %q", got, want)
					}
					return nil
				})
				for _, r := range last {
					checkBehindServer(t, r, s.url)
				}
			})
		}
	}
}

// checkBehindServer holds a report to what can be told of a target by way of a server.
func checkBehindServer(t *testing.T, r rules.TargetReport, url string) {
	t.Helper()
	if !strings.HasPrefix(r.URL, url+"#") {
		t.Errorf("it is found at %s", r.URL)
	}
	if !slices.ContainsFunc(r.Quirks, func(q string) bool { return strings.HasPrefix(q, "it is read from a Prometheus-compatible server") }) {
		t.Errorf("%s: it does not say that a server stands between: %q", r.URL, r.Quirks)
	}
	cannot := map[string]bool{}
	for _, c := range r.Cannot {
		cannot[c.Series] = c.Reason != ""
	}
	switch {
	case r.State == collector.StateDown:
		if r.Source != collector.SourceVLLM || !strings.Contains(r.Bottleneck.Summary, "its up is 0") {
			t.Errorf("%s (%s): %+v", r.URL, r.Source, r.Bottleneck)
		}
	case r.Source == collector.SourceLiteLLM:
		if !cannot["gateway_saturation_ratio"] {
			t.Errorf("%s: it does not say that the saturation is unknown: %+v", r.URL, r.Cannot)
		}
	case r.Source == collector.SourceVLLM:
		if len(r.Cannot) != 0 || len(r.Engines) != 1 || r.Engines[0].KVCapacityTokens == nil || *r.Engines[0].KVCapacityTokens != 25600 {
			t.Errorf("%s: engines %+v, cannot tell %+v", r.URL, r.Engines, r.Cannot)
		}
	default:
		t.Errorf("%s is %q", r.URL, r.Source)
	}
}
