package alerting

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"unicode/utf8"

	"kvwatch/rules"
)

// stormSize is how many alerts begin at once in a storm.
const stormSize = 5000

// bigStorm are alerts of 20 pools, each about an engine of its own.
func bigStorm(at time.Time) []rules.Alert {
	out := make([]rules.Alert, stormSize)
	for i := range out {
		a := fires("TargetDown", []string{"warning", "critical"}[i%2], at, "pool", fmt.Sprintf("pool-%02d", i%20), "instance", fmt.Sprintf("10.0.%d.%d:8000", i/250, i%250))
		a.Evidence = sample.Evidence
		out[i] = a
	}
	return out
}

// stormConfig is a route as people have it: one incident for a pool.
func stormConfig(w *workspace) string {
	return fmt.Sprintf(`
route: {receiver: slack, group_by: [alertname, pool], group_wait: 5s, group_interval: 1m}
receivers: [{name: slack, slack_configs: [{token: xoxb-1, channel: "#ops", api_url: %q}]}]
`, w.GetAPIURL())
}

// TestStorm tells 5 000 alerts that begin at once as twenty incidents that can be
// read, and their end, each within Slack's limits, with little kept in memory and
// on disk.
func TestStorm(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	dir := t.TempDir()
	d := open(t, dir, stormConfig(w))
	alerts := bigStorm(t0)
	calls := func(when string, most int) {
		t.Helper()
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.calls) < 20 || len(w.calls) > most {
			t.Errorf("%s: %d requests, want 20 to %d", when, len(w.calls), most)
		}
		for _, c := range w.calls {
			checkSlackLimits(t, when, c.Get("text"), c.Get("blocks"), c.Get("attachments"))
		}
		w.calls = nil
	}
	for offset := time.Duration(0); offset <= 30*time.Second; offset += 5 * time.Second {
		d.Dispatch(t.Context(), t0.Add(offset), alerts)
		d.Tick(t.Context(), t0.Add(offset))
	}
	calls("the storm", 4*20)
	for _, s := range d.Receivers() {
		if s.Waiting != 0 || !s.FailingSince.IsZero() {
			t.Errorf("after the storm %+v", s)
		}
	}
	for i := range alerts {
		alerts[i] = ends(alerts[i], t0.Add(time.Minute))
	}
	d.Dispatch(t.Context(), t0.Add(2*time.Minute), alerts)
	d.Tick(t.Context(), t0.Add(2*time.Minute))
	calls("its end", 4*20)
	d.Tick(t.Context(), t0.Add(4*time.Minute))
	if n := len(d.groups); n != 0 {
		t.Errorf("%d incidents are left", n)
	}
	info, err := os.Stat(filepath.Join(dir, logName))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 16<<20 {
		t.Errorf("the notification log has %d bytes", info.Size())
	}
}

// checkSlackLimits holds a message against what Slack takes: 40 000 characters of
// text, 50 blocks, 3 000 characters in a block's text.
func checkSlackLimits(t *testing.T, when, text, blocks, attachments string) {
	t.Helper()
	if len(text) > 40000 {
		t.Errorf("%s: a text of %d characters", when, len(text))
	}
	type block struct{ Text struct{ Text string } }
	var lists [][]block
	decode := func(raw string, to any) {
		if err := json.Unmarshal([]byte(raw), to); raw != "" && err != nil {
			t.Fatalf("%s: %v: %s", when, err, raw)
		}
	}
	var top []block
	decode(blocks, &top)
	lists = append(lists, top)
	var attached []struct{ Blocks []block }
	decode(attachments, &attached)
	for _, a := range attached {
		lists = append(lists, a.Blocks)
	}
	for _, list := range lists {
		if len(list) > 50 {
			t.Errorf("%s: %d blocks", when, len(list))
		}
		for _, b := range list {
			if n := utf8.RuneCountInString(b.Text.Text); n > 3000 {
				t.Errorf("%s: a block of %d characters", when, n)
			}
		}
	}
}

// BenchmarkStorm takes 5 000 alerts that begin at once from the rules to Slack.
func BenchmarkStorm(b *testing.B) {
	alerts := bigStorm(t0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ReportAllocs()
	requests, kept := 0, uint64(0)
	for b.Loop() {
		w := newWorkspace(b)
		d := open(b, b.TempDir(), stormConfig(w))
		d.Dispatch(b.Context(), t0, alerts)
		d.Tick(b.Context(), t0.Add(5*time.Second))
		w.mu.Lock()
		requests = len(w.calls)
		w.mu.Unlock()
		runtime.GC()
		runtime.ReadMemStats(&after)
		kept = after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
		runtime.KeepAlive(d)
	}
	b.ReportMetric(float64(requests), "requests/storm")
	b.ReportMetric(float64(kept)/(1<<20), "heap-MiB")
}
