package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// pager takes what Alertmanagers tell.
type pager struct {
	*httptest.Server

	mu   sync.Mutex
	told []string // status and instance of each message
}

func newPager(t *testing.T) *pager {
	p := &pager{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var message struct {
			Status       string
			CommonLabels map[string]string
			Alerts       []struct {
				GeneratorURL string
				Annotations  map[string]string
			}
		}
		raw, err := io.ReadAll(r.Body)
		if err := errors.Join(err, json.Unmarshal(raw, &message)); err != nil || len(message.Alerts) != 1 {
			http.Error(w, fmt.Sprintf("%s: %v", raw, err), http.StatusBadRequest)
			return
		}
		if a := message.Alerts[0]; !strings.Contains(a.GeneratorURL, "/#alert-") || a.Annotations["summary"] == "" {
			http.Error(w, "no way back to kvwatch", http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.told = append(p.told, message.Status+" "+message.CommonLabels["instance"])
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *pager) messages() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.told)
}

// startAlertmanagers starts two real Alertmanagers in a cluster. The second waits
// for the first for peer-timeout, which must be shorter than group_interval.
func startAlertmanagers(t *testing.T, p *pager) [2]*realServer {
	t.Helper()
	config := writeFile(t, filepath.Join(t.TempDir(), "alertmanager.yml"), fmt.Sprintf(`
route: {receiver: pager, group_by: [alertname, instance], group_wait: 1s, group_interval: 5s, repeat_interval: 1h}
receivers: [{name: pager, webhook_configs: [{url: %q}]}]
`, p.URL))
	var servers [2]*realServer
	peers := [2]string{freeAddress(t), freeAddress(t)}
	for i := range servers {
		servers[i] = startServer(t, "/-/ready", "prometheus-alertmanager", func(address string) []string {
			return []string{
				"--config.file=" + config, "--storage.path=" + t.TempDir(), "--web.listen-address=" + address,
				"--cluster.listen-address=" + peers[i], "--cluster.peer=" + peers[1-i], "--cluster.gossip-interval=50ms", "--cluster.peer-timeout=1s",
			}
		})
	}
	return servers
}

// TestAlertmanagerCluster lets two kvwatches watch the same fleet and push to two
// real Alertmanagers that know each other: people are told once when a target
// is down, and once when it is back.
func TestAlertmanagerCluster(t *testing.T) {
	t.Parallel()
	told := newPager(t)
	alertmanagers := startAlertmanagers(t, told)
	address := freeAddress(t) // nobody listens there yet
	var daemons []*process
	for _, replica := range []string{"a", "b"} {
		config := writeFile(t, filepath.Join(t.TempDir(), "kvwatch.yml"), fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, external_labels: {cluster: lab, replica: %s}}
scrape_configs: [{job_name: vllm, static_configs: [{targets: [%q]}]}]
rules: {TargetDown: {for: 0s}, KvwatchBlind: {disabled: true}}
alertmanagers:
  - static_configs: [{targets: [%q, %q]}]
    alert_relabel_configs: [{regex: replica, action: labeldrop}, {source_labels: [alertname], regex: TargetDown, action: keep}]
`, replica, address, strings.TrimPrefix(alertmanagers[0].url, "http://"), strings.TrimPrefix(alertmanagers[1].url, "http://")))
		daemons = append(daemons, runDaemon(t, config, t.TempDir()))
	}
	for i, d := range daemons {
		d.eventually(t, "it pushes to both Alertmanagers", func() error {
			body, err := d.get("/metrics")
			if n := sampleOf(body, `kvwatch_notifications_total{outcome="success",receiver="alertmanagers"}`); err != nil || n < 2 {
				return fmt.Errorf("daemon %d: %g pushes (%w)", i, n, err)
			}
			return nil
		})
	}
	// A message of the second Alertmanager that should not be would come within
	// peer-timeout of the first one's: its next look into its log is after that.
	expect := func(what string, want ...string) {
		t.Helper()
		eventually(t, what+": people are told", func() error {
			if got := told.messages(); len(got) < len(want) {
				return fmt.Errorf("told %v", got)
			}
			return nil
		})
		for i, am := range alertmanagers {
			before := looks(am)
			eventually(t, fmt.Sprintf("%s: Alertmanager %d has thought about it", what, i), func() error {
				if n := looks(am); n <= before {
					return fmt.Errorf("%g looks into the notification log", n)
				}
				return nil
			})
		}
		if got := told.messages(); !slices.Equal(got, want) {
			t.Errorf("%s: people were told %v, want %v", what, got, want)
		}
	}
	expect("down", "firing "+address)
	newEngineAt(t, address)
	eventually(t, "it is over for all", func() error {
		if got := told.messages(); len(got) < 2 {
			return fmt.Errorf("told %v", got)
		}
		for _, am := range alertmanagers {
			if left := groupsOf(am); left != 0 {
				return fmt.Errorf("an Alertmanager still holds %g incidents", left)
			}
		}
		return nil
	})
	if got, want := told.messages(), []string{"firing " + address, "resolved " + address}; !slices.Equal(got, want) {
		t.Errorf("back: people were told %v, want %v", got, want)
	}
}

// looks is how often an Alertmanager has asked its notification log whether an
// incident was told; groupsOf is how many incidents it holds.
func looks(am *realServer) float64 { return sampleAt(am, "alertmanager_nflog_queries_total") }

func groupsOf(am *realServer) float64 {
	return sampleAt(am, "alertmanager_dispatcher_aggregation_groups")
}

func sampleAt(s *realServer, series string) float64 {
	page, err := s.get("/metrics")
	if err != nil {
		return -1
	}
	return sampleOf(page, series)
}

// sampleOf reads one sample of a page in the text format; -1 when it is not there.
func sampleOf(page, series string) float64 {
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(page)
	if m == nil {
		return -1
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return -1
	}
	return v
}
