package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"kvwatch/cmd/fleetsim/fleet"
	"kvwatch/collector"
	"kvwatch/rules"
)

// observed feeds rounds to an engine, under one job whatever they came with.
type observed struct {
	mu      sync.Mutex
	engine  *rules.Engine
	targets map[string]*collector.Target
	rounds  int
	last    time.Time
}

func newObserved(t *testing.T) *observed {
	t.Helper()
	engine, err := rules.New(rules.Options{ScrapeInterval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return &observed{engine: engine, targets: map[string]*collector.Target{}}
}

// observe takes a round and returns how many there were.
func (o *observed) observe(r *collector.Round) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	instance := r.Target.Labels.Get(model.InstanceLabel)
	if o.targets[instance] == nil {
		o.targets[instance] = &collector.Target{Labels: labels.FromStrings("job", "fleet", "instance", instance), Source: r.Target.Source}
	}
	same := *r
	same.Target = o.targets[instance]
	same.Time = r.Time.Truncate(time.Millisecond)
	o.engine.Observe(&same)
	o.rounds++
	o.last = same.Time
	return o.rounds
}

// derived evaluates once and returns what is known then.
func (o *observed) derived(t *testing.T, now time.Time) map[string]string {
	t.Helper()
	if err := o.engine.Eval(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, r := range o.engine.Recorded() {
		all[r.Labels.String()] = fmt.Sprint(r.Value, r.Known, r.Summary, r.Quality, r.Reason)
	}
	return all
}

// people are the values by which the simulated fleet names its users.
func people(users int) []string {
	all := []string{`"platform"`, `"payments"`, "agent-cli", "192.0.2."}
	for i := range users {
		sum := sha256.Sum256(fmt.Appendf(nil, "key of simulated user %d", i))
		all = append(all, hex.EncodeToString(sum[:]), fmt.Sprintf("agent-key-%d", i), fmt.Sprintf("%q", fmt.Sprintf("user-%d", i)))
	}
	return all
}

// TestRecordAndReplay records a fleet with people in it, and holds what is
// derived from the recording against what was derived meanwhile.
func TestRecordAndReplay(t *testing.T) {
	t.Parallel()
	const users = 5
	sim, err := fleet.New(fleet.Config{Engines: 2, Users: users, GatewayWorkers: 1, Start: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	engines, gateway, err := sim.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if page := fetchPage(t, "http://"+gateway+"/metrics/"); !strings.Contains(page, people(users)[4]) {
		t.Fatal("the gateway's page names nobody: the test would show nothing")
	}
	for _, name := range []string{"fleet.tar.zst", "fleet"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			live := newObserved(t)
			r := recording{
				urls: append(slices.Clone(engines), "http://"+gateway+"/metrics/"), output: filepath.Join(t.TempDir(), name),
				interval: time.Second, length: time.Hour, progress: io.Discard,
				taken: func(round *collector.Round) {
					if live.observe(round) >= 30 {
						interrupt() // as Ctrl-C does
					}
					sim.Step(sim.Truth().Now + 500*time.Millisecond)
				},
			}
			var stdout bytes.Buffer
			if err := r.run(ctx, &stdout); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(stdout.String(), "pages of 3 targets") {
				t.Errorf("the summary is %q", stdout.String())
			}

			recorded, err := collector.OpenRecording(r.output)
			if err != nil {
				t.Fatal(err)
			}
			defer recorded.Close()
			again := newObserved(t)
			if err := recorded.Replay(t.Context(), func(round *collector.Round) error { again.observe(round); return nil }); err != nil {
				t.Fatal(err)
			}
			now := live.last.Add(time.Second)
			want, got := live.derived(t, now), again.derived(t, now)
			if len(want) < 100 {
				t.Errorf("only %d derived series", len(want))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("derived live and from the recording (-live +recording)\n%s", diff)
			}
			checkNobody(t, recorded, people(users))
			if err := r.run(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "exists already") {
				t.Errorf("recording over a recording gave %v", err)
			}
		})
	}
}

func fetchPage(t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// checkNobody looks for people in every file, and for hashes that do not stay.
func checkNobody(t *testing.T, recorded *collector.Recording, people []string) {
	t.Helper()
	keys := map[string]bool{}
	for p := range recorded.Pages() {
		f, err := p.Open()
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, person := range people {
			if bytes.Contains(page, []byte(person)) {
				t.Fatalf("%s holds %q", p.Name(), person)
			}
		}
		for _, m := range regexp.MustCompile(`hashed_api_key="([^"]+)"`).FindAllSubmatch(page, -1) {
			keys[string(m[1])] = true
		}
	}
	if len(keys) < 2 || len(keys) > len(people) {
		t.Errorf("keys became %v: each should have one hash of its own", slices.Sorted(maps.Keys(keys)))
	}
}

func TestRecordRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want string
		recording
	}{
		{"an address that is none", "address 1 is no http", recording{urls: []string{"ftp://a"}, interval: time.Second, length: time.Second}},
		{"a key in the address", "--bearer-token-file", recording{urls: []string{"http://me:secret@a"}, interval: time.Second, length: time.Second}},
		{"no interval", "--interval", recording{urls: []string{"a"}, length: time.Second}},
		{"nobody there", "no page was recorded", recording{urls: []string{"127.0.0.1:1"}, interval: 100 * time.Millisecond, length: 300 * time.Millisecond}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.output, tt.progress = filepath.Join(t.TempDir(), "r"), io.Discard
			var stdout bytes.Buffer
			err := tt.run(t.Context(), &stdout)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells the key: %v", err)
			}
		})
	}
}

// TestRecordingAsSource plays half an hour of real engines into a daemon, as
// fast as it goes.
func TestRecordingAsSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	archive, err := filepath.Abs(testdata + "recording.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	var overrides strings.Builder
	for _, a := range rules.Registered().Alerts {
		fmt.Fprintf(&overrides, "  %s: {time_scale: 0.01}\n", a.Name)
	}
	config := writeFile(t, filepath.Join(dir, "kvwatch.yml"), fmt.Sprintf(`
global: {scrape_interval: 5s, scrape_timeout: 5s}
scrape_configs:
  - job_name: incident
    source: recording
    recordings: [{path: %q, speed: 0}]
route: {receiver: terminal, group_by: [alertname, pool], group_wait: 0s}
receivers: [{name: terminal, terminal_configs: [{}]}]
rules:
%s`, archive, overrides.String()))
	p := runDaemon(t, config, filepath.Join(dir, "data"))
	for query, least := range map[string]float64{
		`sum(count_over_time(up{job="vllm"}[2h]))`:                                                                  750, // 2 engines, some pages are failures
		`sum(count_over_time(kvwatch_prefix_cache_hit_ratio{instance="engine-a:8000",window="1m"}[2h]))`:            200,
		`max(max_over_time(kvwatch_prefix_cache_hit_ratio{instance="engine-a:8000",window="1m",job="vllm"}[2h]))`:   0.7,
		`1-min(min_over_time(kvwatch_prefix_cache_hit_ratio{instance="engine-a:8000",window="1m",job="vllm"}[2h]))`: 0.7,
	} {
		if got, err := p.query(query); err != nil || len(got) != 1 || got[0] < least {
			t.Errorf("%s is %v (%v), want at least %g", query, got, err, least)
		}
	}
	p.eventually(t, "the collapse in the recording was told", func() error {
		if out := p.stdout.String(); !strings.Contains(out, "PrefixCacheCollapse") {
			return fmt.Errorf("the terminal shows %q", out)
		}
		return nil
	})
	if body, err := p.get("/api/v1/targets"); err != nil || !strings.Contains(body, "gateway:4000") {
		t.Errorf("targets %s (%v)", body, err)
	}
}
