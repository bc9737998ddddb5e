package web

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"

	"kvwatch/collector"
	"kvwatch/rules"
)

// browse opens an address in a real browser and returns the page as it stands
// when its scripts have run. Whatever the console says is an error.
func browse(t *testing.T, address string) string {
	t.Helper()
	dom, console := visit(t, address)
	for _, line := range console {
		t.Errorf("the console says: %s", line)
	}
	return dom
}

// visit returns the page and what the console says.
func visit(t *testing.T, address string) (dom string, console []string) {
	t.Helper()
	browser := findBrowser(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, browser,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--user-data-dir="+t.TempDir(), "--window-size=1440,900", "--virtual-time-budget=10000",
		"--enable-logging=stderr", "--dump-dom", address)
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s failed: %v\n%s", browser, err, log.String())
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, ":CONSOLE") {
			console = append(console, line)
		}
	}
	return out.String(), console
}

func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium found: apt-get install -y chromium (make test installs it)")
	return ""
}

// holds checks that the page is ready, met no fault, and holds all of the given texts.
func holds(t *testing.T, dom string, want ...string) {
	t.Helper()
	if !strings.Contains(dom, `data-ready="true"`) || !strings.Contains(dom, `data-errors="0"`) {
		t.Errorf("the page is not ready or met a fault: %.200s", dom)
	}
	text := regexp.MustCompile(`\s+`).ReplaceAllString(dom, " ")
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the page does not hold %q", w)
		}
	}
}

// text is what a page says, without its tags.
func text(dom string) string {
	words := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(strings.ReplaceAll(dom, "<wbr>", ""), " ")
	return regexp.MustCompile(`\s+`).ReplaceAllString(strings.ReplaceAll(words, "&nbsp;", " "), " ")
}

func TestBrowserShowsTheIncident(t *testing.T) {
	t.Parallel()
	o := newFixture(t, 90*time.Minute).options()
	o.Demo, o.TimeScaleNote = true, "20 times faster"
	dom := browse(t, serve(t, o).URL+"/?theme=dark")
	holds(t, dom,
		`data-theme="dark"`,
		"Demo: simulated fleet, rules run 20 times faster.",
		"6 of 8 targets up",
		"2 alerts firing: 1 critical, 1 warning",
		"The prefix cache of agents collapsed: hit rate 31 %, usual 89 %",
		"Look at the router: was it restarted or reconfigured at 14:08?",
		"one replica: vllm-3 carries 31 % of the excess",
		`href="runbooks/PrefixCacheCollapse"`,
		"usual: learning: 3 of 6 hours",
		"2 requests in the last minute; a ratio needs 5",
		"of 48 at once, 85 %",
		"36 ms / 61 ms",
		"measured for 2 % of the requests",
		"Targets that are not up (2)",
		"401 from http://vllm-4:8000/metrics: the page wants credentials",
		"learning, 3 of 6 hours",
		"Take it as the new normal",
		"Told by people", "2 events within 24 h", "router 2.4 &lt;b&gt;", "switch replaced (until 15:30)",
	)
	words := text(dom)
	for _, want := range []string{
		"All targets (8)", // with what each says of itself
		"litellm-0:4000 gateway, litellm up 1.102.0 214 4 s ago 12 ms 12 requests in flight, 9 admitted, 3 queued on the worker that answered 20 s ago",
		"chat-0:8000 models, vllm up 0.9.2 0 4 s ago 12 ms the page has no first-token histogram",
		"chat-1:8000 models not scraped yet – – – –",
		"agents 1634 calls with tokens in the last hour",
		"First call of a session 74 %",
		"Within a turn 42 %",
		"Turn boundary 18 % * the first call after a pause: affinity and residency show here; partial: covers 88 %; rows of 88 %",
		"After another model – no switch of the model in the last hour",
		"After another replica 3 %",
		"Coverage 83 % of the calls have a place in a session",
		"Turn gap p50 / p90 47 s / 3.5 min a turn begins after 30 s, as configured",
		"Calls of a session p50 / p90 17 / 44",
		"Full task P90 6.8 min",
		"Interactivity P90 21 tok/s",
		"Prompt p50 / p90 18k / 41k tokens; p95 52k, p99 88k",
		"Rows that never arrived 12 %",
		"Sessions tell nothing: 96 of 98 sessions have a single call",
		"Coverage 0 %",
		"Interactivity P90 – fewer than 5 such calls in the last hour",
		"agents-30b pool agents; 161 hours that pages cover",
		"workload.people drifted 41.2 / 20 2.06 times, 2.00 times to 2.15 times by chance (90,210 samples in 161 hours)",
		"workload.hit_ratio holds 0.91 / 0.9",
		"1 assumption cannot be told workload.session_s cannot tell – / 3,756 when a person's session ends is in no log",
		"replicas 4 2 2 short",
		"gateway workers – – 1",
		"Passive knee: the SLO held up to 0.7 requests/s per replica and not above (confidence medium)",
		"Cost: 0.94 EUR per million output tokens within the SLO (prefill new 0.1, prefill repeated 0.05, decode 0.5, idle 0.29), planned 0.57, rented 1.5. Engines ran no request 31 % of the time.",
		"Rows that never arrived – no gateway whose page is read tells",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if got := strings.Count(dom, "<canvas"); got != 8 {
		t.Errorf("the page holds %d charts, want 4 for each of 2 pools", got)
	}
	// The charts' own words are read from history: a chart without data says so.
	if !regexp.MustCompile(`aria-label="Prefix-cache hit rate, 1 min window\. vllm-0:8000: now 3\d %, from 3\d % to`).MatchString(dom) {
		t.Error("the chart of the hit rate does not show what history holds")
	}
}

func TestBrowserShowsTheQuietFleet(t *testing.T) {
	t.Parallel()
	dom := browse(t, serve(t, quiet(newFixture(t, 20*time.Minute).options())).URL)
	holds(t, dom, "No alert", "How far from firing", "5 % of the threshold", "nothing waits", "2 are watched")
	if strings.Contains(dom, "alerts firing") {
		t.Error("the page shows an alert where there is none")
	}
}

// A link to ?why= opens the detector's panel: what makes it fire, and how near
// it came.
func TestBrowserExplainsADetector(t *testing.T) {
	t.Parallel()
	o := quiet(newFixture(t, time.Minute).options())
	holds(t, browse(t, serve(t, o).URL+"/?why=PrefixCacheCollapse"), `aria-expanded="true"`,
		"<b>Fires when: </b>A pool computes prompts again. It must hold for 2 min.", "excess prompts", "Share of the threshold (dashed)", "highest 108 %")
}

func TestBrowserShowsNothingYet(t *testing.T) {
	t.Parallel()
	o := newFixture(t, time.Minute).options()
	o.Targets = func() []collector.TargetStatus { return nil }
	o.Recorded = func() []rules.Recorded { return nil }
	o.Alerts = func() []rules.Alert { return nil }
	o.Detectors = func() []rules.DetectorStatus { return nil }
	o.Pools = func() []rules.PoolStatus { return nil }
	o.Sessions = func() []rules.PoolSessions { return nil }
	o.Plans = func() []rules.PlanReview { return nil }
	holds(t, browse(t, serve(t, o).URL), "No targets: add them to scrape_configs", "nothing scraped yet", "No pool yet")
}

// Labels, reasons and evidence come from outside; none of it may become HTML.
func TestBrowserEscapesWhatItShows(t *testing.T) {
	t.Parallel()
	const hostile = `"><img src=x onerror="document.documentElement.dataset.pwned=1"><script>document.documentElement.dataset.pwned=1</script>`
	o := newFixture(t, time.Minute).options()
	o.Targets = func() []collector.TargetStatus {
		return []collector.TargetStatus{{Job: hostile, Instance: hostile, URL: "javascript:alert(1)", State: collector.StateDown, Reason: hostile}}
	}
	o.Pools = func() []rules.PoolStatus {
		return []rules.PoolStatus{{
			Name: hostile, ModelName: "qwen3-coder-30b", Problem: hostile,
			Engines: []rules.PoolMember{{Job: "vllm", Instance: "vllm-0:8000", Engine: "0"}},
		}}
	}
	o.Alerts = func() []rules.Alert {
		return []rules.Alert{{
			Name: hostile, Severity: hostile, State: rules.StateFiring, Labels: map[string]string{"pool": hostile},
			Evidence: rules.Evidence{Seen: hostile, Next: hostile, RunnersUp: []string{hostile}}, ActiveAt: fixtureNow,
		}}
	}
	dom := browse(t, serve(t, o).URL)
	holds(t, dom, "&lt;img src=x")
	if strings.Contains(dom, "<img") || strings.Contains(dom, "data-pwned") {
		t.Error("a label became HTML")
	}
}

// brokenHistory is a store that cannot be read.
type brokenHistory struct{}

func (brokenHistory) Querier(int64, int64) (storage.Querier, error) {
	return nil, errors.New("the disk is gone")
}

func TestBrowserSaysThatHistoryFails(t *testing.T) {
	t.Parallel()
	o := newFixture(t, time.Minute).options()
	o.Queryable = brokenHistory{}
	dom, _ := visit(t, serve(t, o).URL) // the console tells of the failed requests
	holds(t, dom, "The charts cannot be drawn", "the disk is gone", "The prefix cache of agents collapsed")
}
