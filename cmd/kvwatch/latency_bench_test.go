package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slack-go/slack/slacktest"
)

// BenchmarkScrapeToSlack lets 500 engines die, ten a second, under the real daemon
// at its own intervals, and tells how long it takes from the answer to the scrape
// that shows it to the message at Slack. `for` and group_wait are 0, and each alert
// is an incident of its own. It is a measurement: nothing is asserted but that all
// are told.
func BenchmarkScrapeToSlack(b *testing.B) {
	for b.Loop() {
		times := scrapeToSlack(b, 500)
		slices.Sort(times)
		at := func(q float64) time.Duration { return times[min(int(q*float64(len(times))), len(times)-1)] }
		for _, q := range []float64{0.1, 0.5, 0.9, 0.99, 1} {
			b.ReportMetric(at(q).Seconds(), fmt.Sprintf("p%g-s", 100*q))
		}
		b.ReportMetric(float64(len(times)), "alerts")
	}
}

// dying are engines that die, and people at Slack.
type dying struct {
	mu     sync.Mutex
	dead   map[string]bool      // by host:port
	seen   map[string]time.Time // when a scrape first met one dead
	told   map[string]time.Time
	posted int
}

var messageAbout = regexp.MustCompile(`127\.0\.0\.1:\d+`)

func scrapeToSlack(b *testing.B, engines int) []time.Duration {
	b.Helper()
	d := &dying{dead: map[string]bool{}, seen: map[string]time.Time{}, told: map[string]time.Time{}}
	page, err := os.ReadFile("testdata/vllm-0.24.0.prom")
	if err != nil {
		b.Fatal(err)
	}
	addresses := make([]string, 0, engines)
	for range engines {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.scrape(w, r, page) }))
		b.Cleanup(s.Close)
		addresses = append(addresses, strings.TrimPrefix(s.URL, "http://"))
	}
	slack := slacktest.NewTestServer(func(c slacktest.Customize) {
		for _, method := range []string{"chat.postMessage", "chat.update"} {
			c.Handle("/"+method, d.post)
		}
	})
	slack.Start()
	b.Cleanup(slack.Stop)
	config := writeFile(b, filepath.Join(b.TempDir(), "kvwatch.yml"), fmt.Sprintf(`
scrape_configs: [{job_name: vllm, static_configs: [{targets: ["%s"]}]}]
rules: {TargetDown: {for: 0s, severity: warning}}
route:
  receiver: nobody
  routes: [{matchers: [alertname="TargetDown"], receiver: slack, group_by: [instance], group_wait: 0s}]
receivers:
  - {name: nobody}
  - {name: slack, slack_configs: [{token: xoxb-1, channel: "#ops", api_url: %q}]}
`, strings.Join(addresses, `", "`), slack.GetAPIURL()))
	p := runDaemon(b, config, b.TempDir())
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	for _, address := range addresses {
		<-pace.C
		d.mu.Lock()
		d.dead[address] = true
		d.mu.Unlock()
	}
	p.eventually(b, "all are told", func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.told) < engines {
			return fmt.Errorf("%d of %d dead engines are told of, %d seen dead, by %d messages", len(d.told), engines, len(d.seen), d.posted)
		}
		return nil
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []time.Duration
	for address, at := range d.told {
		out = append(out, at.Sub(d.seen[address]))
	}
	return out
}

// scrape answers one scrape.
func (d *dying) scrape(w http.ResponseWriter, r *http.Request, page []byte) {
	d.mu.Lock()
	dead := d.dead[r.Host]
	if _, seen := d.seen[r.Host]; dead && !seen {
		d.seen[r.Host] = time.Now()
	}
	d.mu.Unlock()
	if dead {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write(page)
}

// post takes a message at Slack.
func (d *dying) post(w http.ResponseWriter, r *http.Request) {
	text := r.FormValue("text") + r.FormValue("blocks") + r.FormValue("attachments")
	d.mu.Lock()
	d.posted++
	n := d.posted
	if about := messageAbout.FindString(text); about != "" && d.dead[about] && r.FormValue("thread_ts") == "" {
		if _, told := d.told[about]; !told {
			d.told[about] = time.Now()
		}
	}
	d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"ok":true,"channel":"C0000001","ts":"1700000000.%06d","message":{"text":"x"}}`, n)
}
