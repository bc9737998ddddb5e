package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestKillAnywhere kills the daemon at every step on the way of a notification.
// make slow does it 200 times.
func TestKillAnywhere(t *testing.T) {
	t.Parallel()
	killAnywhere(t, 20)
}

// killLimit bounds one wait of the test, with the race detector on a busy machine.
const killLimit = 2 * time.Minute

// moments are the steps at which the daemon is killed, in the order in which it
// takes them.
var moments = []struct {
	name string
	wait func(k *killing) error
}{
	{"a target has changed and no scrape has shown it", func(*killing) error { return nil }},
	{"the scrape that shows it has come", func(k *killing) error { return k.event("scrape") }},
	{"the next scrape has come: the rules have judged it", func(k *killing) error {
		return errors.Join(k.event("scrape"), k.event("scrape"))
	}},
	{"the rules' state is being written", func(k *killing) error { return k.stateWritten() }},
	{"the intent is being written", func(k *killing) error { return k.written(1) }},
	{"the request has come and has no answer", func(k *killing) error { return k.event("request") }},
	{"the request is answered", func(k *killing) error { return k.event("answer") }},
	{"the outcome is being written", func(k *killing) error { return k.written(2) }},
	{"all is done", func(k *killing) error { return k.settled() }},
}

// killAnywhere lets one target go down and come back, kills the daemon once on
// the way of each message, starts it again, and counts what people were told.
func killAnywhere(t *testing.T, kills int) {
	k := newKilling(t)
	p := runDaemon(t, k.config, k.storage)
	down := false
	for i := range kills {
		// One more each round, so that each step is killed on the way down and up.
		moment := moments[(i+i/len(moments))%len(moments)]
		down = !down
		k.begin(down, moment.name == "the request has come and has no answer")
		if err := moment.wait(k); err != nil {
			t.Fatalf("kill %d, %s: %v; told %v", i, moment.name, err, k.statuses())
		}
		p.signal(t, syscall.SIGKILL)
		_ = p.wait(t)
		k.release()
		p = runDaemon(t, k.config, k.storage)
		if err := k.settled(); err != nil {
			t.Fatalf("kill %d, %s: people are not told that it is %s: %v; told %v", i, moment.name, k.want(), err, k.statuses())
		}
		k.check(t, i, moment.name)
	}
	t.Logf("%d kills: %d changes, all told; %d messages twice", kills, kills, k.twice)
}

// killing is a target that goes down and up, and people who are told.
type killing struct {
	config, storage string
	events          chan string

	mu       sync.Mutex
	down     bool
	hold     chan struct{} // requests wait for it; nil: they do not
	told     []string      // status of each message, in the order of its coming
	answered bool          // the last message has its answer
	size     int64         // of the notification log when the target changed
	state    time.Time     // of the rules' state file then
	before   int           // messages before the target changed
	twice    int
}

func newKilling(t *testing.T) *killing {
	t.Helper()
	k := &killing{storage: t.TempDir(), events: make(chan string, 1000)}
	page, err := os.ReadFile("testdata/vllm-0.24.0.prom")
	if err != nil {
		t.Fatal(err)
	}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		k.mu.Lock()
		down := k.down
		k.mu.Unlock()
		k.tell("scrape")
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(page)
	}))
	t.Cleanup(engine.Close)
	people := httptest.NewServer(http.HandlerFunc(k.serve))
	t.Cleanup(people.Close)
	k.config = writeFile(t, filepath.Join(t.TempDir(), "kvwatch.yml"), fmt.Sprintf(`
global: {scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}
scrape_configs: [{job_name: vllm, static_configs: [{targets: [%q]}]}]
rules: {TargetDown: {for: 0s}}
resolve_timeout: 2s
route:
  receiver: nobody
  routes: [{matchers: [alertname="TargetDown"], receiver: people, group_by: [alertname], group_wait: 0s, group_interval: 250ms, repeat_interval: 1h}]
receivers: [{name: nobody}, {name: people, webhook_configs: [{url: %q}]}]
`, strings.TrimPrefix(engine.URL, "http://"), people.URL))
	return k
}

// serve takes a message. People have seen it when it has come, answered or not.
func (k *killing) serve(w http.ResponseWriter, r *http.Request) {
	var message struct{ Status string }
	if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	k.mu.Lock()
	k.told, k.answered = append(k.told, message.Status), false
	hold := k.hold
	k.mu.Unlock()
	k.tell("request")
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
		return
	}
	_ = http.NewResponseController(w).Flush()
	k.mu.Lock()
	k.answered = true
	k.mu.Unlock()
	k.tell("answer")
}

// tell says that something has happened. Nobody has to listen.
func (k *killing) tell(event string) {
	select {
	case k.events <- event:
	default:
	}
}

// begin changes the target.
func (k *killing) begin(down, hold bool) {
	info, err := os.Stat(k.log())
	written := k.stateTime()
	for len(k.events) > 0 {
		<-k.events
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.size = 0
	if err == nil {
		k.size = info.Size()
	}
	k.down, k.before, k.state = down, len(k.told), written
	if hold {
		k.hold = make(chan struct{})
	}
}

// release lets requests through again.
func (k *killing) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hold != nil {
		close(k.hold)
		k.hold = nil
	}
}

func (k *killing) log() string { return filepath.Join(k.storage, "alerting", "notifications.log") }

// event waits for something to happen.
func (k *killing) event(name string) error {
	limit := time.After(killLimit)
	for {
		select {
		case got := <-k.events:
			if got == name {
				return nil
			}
		case <-limit:
			return fmt.Errorf("no %s came", name)
		}
	}
}

// stateTime is when the rules' state was written last.
func (k *killing) stateTime() time.Time {
	info, err := os.Stat(filepath.Join(k.storage, "rules.json"))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// stateWritten waits until the rules' state, with the alert that came or went, is
// in its place: nobody has been told yet.
func (k *killing) stateWritten() error {
	return k.poll(func() error {
		if k.stateTime().Equal(k.state) {
			return errors.New("the rules' state is not written")
		}
		return nil
	})
}

// written waits until the notification log has grown so often.
func (k *killing) written(times int) error {
	return k.poll(func() error {
		info, err := os.Stat(k.log())
		if err != nil {
			return err
		}
		if info.Size() <= k.size {
			return errors.New("the notification log does not grow")
		}
		k.size = info.Size()
		if times--; times > 0 {
			return errors.New("the notification log grew once")
		}
		return nil
	})
}

// want is what people must believe now.
func (k *killing) want() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return map[bool]string{true: "firing", false: "resolved"}[k.down]
}

// settled waits until the last word to people is true, and answered.
func (k *killing) settled() error {
	want := k.want()
	return k.poll(func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.told) == k.before || k.told[len(k.told)-1] != want || !k.answered {
			return errors.New("not yet")
		}
		return nil
	})
}

func (k *killing) poll(check func() error) error {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	limit := time.After(killLimit)
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-limit:
			return err
		}
	}
}

func (k *killing) statuses() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.told[k.before:]...)
}

// check counts what one change of the target has told people: once, or twice
// around the kill, and nothing else.
func (k *killing) check(t *testing.T, kill int, moment string) {
	t.Helper()
	want, got := k.want(), k.statuses()
	if len(got) > 1 && got[0] != want {
		got = got[1:] // what was told at the kill before comes again, late
		k.twice++
	}
	for _, status := range got {
		if status != want {
			t.Errorf("kill %d, %s: people were told %v, want %s alone", kill, moment, got, want)
			return
		}
	}
	if len(got) > 2 {
		t.Errorf("kill %d, %s: people were told %v: at most one message may come twice", kill, moment, got)
	}
	k.twice += len(got) - 1
}
