package collector

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/file"
	"github.com/prometheus/prometheus/model/labels"
)

func ignore(context.Context, *Round) {}

// rounded keeps what a running collector gives.
type rounded struct {
	mu     sync.Mutex
	rounds []kept
	came   chan struct{} // one token for each round
}

func newRounded() *rounded { return &rounded{came: make(chan struct{}, 10_000)} }

func (r *rounded) sink(_ context.Context, round *Round) {
	r.mu.Lock()
	r.rounds = append(r.rounds, keep(round))
	r.mu.Unlock()
	r.came <- struct{}{}
}

func (r *rounded) all() []kept {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.rounds)
}

// fake makes all jobs of a collector ask a function instead of the network.
func fake(c *Collector, answer roundTripper) {
	for _, j := range c.jobs {
		j.client = &http.Client{Transport: answer}
	}
}

func scrapeJob(name string, addresses ...string) ScrapeConfig {
	c := DefaultScrapeConfig()
	c.JobName = name
	c.StaticConfigs = static(addresses...)
	return c
}

func good() roundTripper {
	return answer(func() io.ReadCloser { return io.NopCloser(strings.NewReader(smallPage(1))) })
}

func TestRunScrapesOnSchedule(t *testing.T) {
	t.Parallel()
	times := func() map[string][]time.Time {
		got := map[string][]time.Time{}
		synctest.Test(t, func(t *testing.T) {
			seen := newRounded()
			c, err := New(Options{Global: DefaultGlobalConfig(), Scrapes: []ScrapeConfig{scrapeJob("vllm", "a:1", "b:1", "c:1")}, Sink: seen.sink})
			if err != nil {
				t.Fatal(err)
			}
			fake(c, good())
			if c.Ready() {
				t.Error("ready before it runs")
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- c.Run(ctx) }()
			synctest.Wait()
			if n := len(c.Targets()); n != 3 || c.Ready() {
				t.Errorf("%d targets, ready %v before the first round", n, c.Ready())
			}
			<-time.After(46 * time.Second)
			synctest.Wait()
			if !c.Ready() {
				t.Error("not ready after three rounds")
			}
			for _, s := range c.Targets() {
				if s.State != StateUp || s.Source != SourceVLLM {
					t.Errorf("status %+v", s)
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run ended with %v", err)
			}
			for _, r := range seen.all() {
				i := r.Target.Labels.Get(model.InstanceLabel)
				got[i] = append(got[i], r.Time)
				if r.State != StateUp {
					t.Errorf("%s: %s", i, r.Reason)
				}
			}
		})
		return got
	}
	got := times()
	offsets := map[time.Duration]bool{}
	for instance, ts := range got {
		if len(ts) < 3 || len(ts) > 4 {
			t.Errorf("%s: %d rounds in 46 s, want 3 or 4", instance, len(ts))
		}
		for i := 1; i < len(ts); i++ {
			if d := ts[i].Sub(ts[i-1]); d != 15*time.Second {
				t.Errorf("%s: %s between rounds", instance, d)
			}
		}
		offsets[time.Duration(ts[0].UnixNano())%(15*time.Second)] = true
	}
	if len(got) != 3 || len(offsets) != 3 {
		t.Errorf("3 targets are not spread: %v", got)
	}
	if diff := cmp.Diff(got, times()); diff != "" {
		t.Errorf("the schedule is another one the second time:\n%s", diff)
	}
}

func TestNextScrape(t *testing.T) {
	t.Parallel()
	base := time.Unix(1_800_000_000, 0).UTC() // a multiple of 15 s
	tests := []struct{ now, offset, want time.Duration }{
		{0, 0, 15 * time.Second},
		{0, time.Second, time.Second},
		{time.Second, time.Second, 16 * time.Second},
		{14 * time.Second, 7 * time.Second, 22 * time.Second},
		{time.Nanosecond, 0, 15 * time.Second},
	}
	for _, tt := range tests {
		if got := nextScrape(base.Add(tt.now), 15*time.Second, tt.offset); !got.Equal(base.Add(tt.want)) {
			t.Errorf("after %s with offset %s: %s, want %s", tt.now, tt.offset, got.Sub(base), tt.want)
		}
	}
}

func TestOffset(t *testing.T) {
	t.Parallel()
	places := map[time.Duration]int{}
	for i := range 1000 {
		s := &targetScraper{found: found{interval: 15 * time.Second, target: Target{Labels: labels.FromStrings(model.JobLabel, "vllm", model.InstanceLabel, fmt.Sprintf("10.0.0.%d:8000", i))}}}
		place := s.offset()
		if place != s.offset() || place < 0 || place >= s.found.interval || place%grid != 0 {
			t.Fatalf("target %d is scraped at %s", i, place)
		}
		places[place]++
	}
	if len(places) != int(15*time.Second/grid) {
		t.Errorf("1 000 targets are spread over %d places only", len(places))
	}
	for place, n := range places {
		if n > 35 { // 17 on average
			t.Errorf("%d targets are scraped at %s", n, place)
		}
	}
}

func TestOneTargetDoesNotHoldUpTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newRounded()
		c, err := New(Options{Global: DefaultGlobalConfig(), Scrapes: []ScrapeConfig{scrapeJob("vllm", "hangs:1", "panics:1", "good:1")}, Sink: seen.sink})
		if err != nil {
			t.Fatal(err)
		}
		fake(c, func(req *http.Request) (*http.Response, error) {
			switch req.URL.Hostname() {
			case "hangs":
				<-req.Context().Done()
				return nil, req.Context().Err()
			case "panics":
				return answer(func() io.ReadCloser { return brokenBody{} })(req)
			default:
				return good()(req)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		<-time.After(61 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		states := map[string]map[State]int{}
		for _, r := range seen.all() {
			host, _, _ := strings.Cut(r.Target.Labels.Get(model.InstanceLabel), ":")
			if states[host] == nil {
				states[host] = map[State]int{}
			}
			states[host][r.State]++
		}
		if states["good"][StateUp] < 4 || len(states["good"]) != 1 || states["hangs"][StateTimeout] < 3 || states["panics"][StateNotMetrics] < 4 {
			t.Errorf("states %v", states)
		}
	})
}

func TestReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newRounded()
		c, err := New(Options{Global: DefaultGlobalConfig(), Scrapes: []ScrapeConfig{scrapeJob("vllm", "stays:1", "goes:1")}, Sink: seen.sink})
		if err != nil {
			t.Fatal(err)
		}
		fake(c, good())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		<-time.After(16 * time.Second)
		synctest.Wait()

		before := len(seen.all())
		if err := c.Reload(DefaultGlobalConfig(), []ScrapeConfig{scrapeJob("vllm", "x@y")}); err == nil {
			t.Error("a wrong configuration was taken")
		}
		if n := len(c.Targets()); n != 2 || len(seen.all()) != before {
			t.Errorf("a wrong configuration changed something: %d targets", n)
		}

		since := c.Targets()[1].Since
		faster := DefaultGlobalConfig()
		faster.ScrapeInterval, faster.ScrapeTimeout = model.Duration(5*time.Second), model.Duration(5*time.Second)
		if err := c.Reload(faster, []ScrapeConfig{scrapeJob("vllm", "stays:1", "comes:1")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		after := seen.all()[before:]
		if len(after) != 1 || after[0].State != StateUnknown || after[0].Target.Labels.Get(model.InstanceLabel) != "goes:1" || len(after[0].stale) != 3 || len(after[0].Samples) != 0 {
			t.Errorf("the target that goes gave %+v, want one round with its 3 series stale", after)
		}
		<-time.After(16 * time.Second)
		synctest.Wait()
		count, pointers := map[string]int{}, map[*Series]bool{}
		for _, r := range seen.all() {
			count[r.Target.Labels.Get(model.InstanceLabel)]++
			if r.Target.Labels.Get(model.InstanceLabel) == "stays:1" {
				pointers[r.Samples[0].Series] = true
				if len(r.stale) != 0 {
					t.Errorf("stale series of the target that stays: %v", r.stale)
				}
			}
		}
		if len(pointers) != 1 {
			t.Errorf("the series of the target that stays has %d pointers", len(pointers))
		}
		if count["stays:1"] < 4 || count["comes:1"] < 3 {
			t.Errorf("rounds %v, want the shorter interval", count)
		}
		status := c.Targets()
		if len(status) != 2 || status[0].Instance != "comes:1" || status[1].Instance != "stays:1" || !status[1].Since.Equal(since) {
			t.Errorf("status %+v", status)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestFileDiscovery(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(write(200, smallPage(1)))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	list := filepath.Join(t.TempDir(), "engines.yml")
	text := "- targets: [\"" + address + "\", \"http://wrong\"]\n  labels: {rack: a}\n"
	if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	job := DefaultScrapeConfig()
	job.JobName = "found"
	job.ScrapeInterval, job.ScrapeTimeout = model.Duration(200*time.Millisecond), model.Duration(200*time.Millisecond)
	job.FileSDConfigs = []*file.SDConfig{{Files: []string{list}, RefreshInterval: model.Duration(time.Hour)}}
	static := scrapeJob("static", address) // the same page: scraped once, for the job that stands first
	seen, logs := newRounded(), &syncedLog{}
	c, err := New(Options{
		Global: DefaultGlobalConfig(), Scrapes: []ScrapeConfig{job, static},
		Sink: seen.sink, Logger: slog.New(slog.NewTextHandler(logs, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	for {
		<-seen.came
		rounds := seen.all()
		if r := rounds[len(rounds)-1]; r.Target.Labels.Get("rack") == "a" && r.State == StateUp {
			break
		}
	}
	status := c.Targets()
	if len(status) != 1 || status[0].Job != "found" {
		t.Errorf("status %+v", status)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, want := range []string{`duplicate target http://` + address, `\"http://wrong\" is a URL`} {
		if n := strings.Count(logs.String(), want); n != 1 {
			t.Errorf("%q was logged %d times, want once:\n%s", want, n, logs.String())
		}
	}
}

// syncedLog is a log that several goroutines write.
type syncedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *syncedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *syncedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
