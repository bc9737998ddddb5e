package alerting

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kvwatch/rules"
)

// copyLog is what a kill -9 at this moment would leave behind.
func copyLog(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	raw, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, logName), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestKilled ends the daemon at the moments that matter and looks at what the
// next one sends.
func TestKilled(t *testing.T) {
	t.Parallel()
	a := fires("A", "warning", t0, "pool", "chat")
	b := fires("B", "critical", t0, "pool", "chat")
	later := t0.Add(2 * time.Minute)
	for _, tt := range []struct {
		name string
		// before happens in the first life; the kill comes inside the last
		// request, or after it.
		before func(t *testing.T, d *Dispatcher, h *hook)
		inside bool
		// after is what the rules say in the second life.
		after []rules.Alert
		want  []string
	}{
		{
			name:   "before anything was told",
			before: func(t *testing.T, d *Dispatcher, _ *hook) { d.Dispatch(t.Context(), t0, []rules.Alert{a}) },
			after:  []rules.Alert{a}, want: []string{"firing: +A"},
		},
		{
			name:   "inside the first request: it is sent again",
			before: first(a), inside: true,
			after: []rules.Alert{a}, want: []string{"firing: +A"},
		},
		{
			name:   "after the first request: nothing is sent again",
			before: first(a),
			after:  []rules.Alert{a},
		},
		{
			name:   "inside the first request, and it resolved meanwhile",
			before: first(a), inside: true,
			after: []rules.Alert{ends(a, t0.Add(time.Minute))}, want: []string{"resolved: -A"},
		},
		{
			name:   "inside the first request, and the rules have forgotten it",
			before: first(a), inside: true,
			after: nil, want: []string{"firing: +A", "resolved: -A"},
		},
		{
			name:   "after the first request, and it resolved meanwhile",
			before: first(a),
			after:  []rules.Alert{ends(a, t0.Add(time.Minute))}, want: []string{"resolved: -A"},
		},
		{
			name:   "after the first request, and the rules have forgotten it",
			before: first(a),
			after:  nil, want: []string{"resolved: -A"},
		},
		{
			name:   "inside the request about a second alert, which resolved meanwhile",
			before: then(first(a), a, b), inside: true,
			after: []rules.Alert{a, ends(b, t0.Add(time.Minute))}, want: []string{"firing: +A -B"},
		},
		{
			name:   "inside the last request: it is sent again",
			before: then(first(a), ends(a, t0.Add(time.Minute))), inside: true,
			after: []rules.Alert{ends(a, t0.Add(time.Minute))}, want: []string{"resolved: -A"},
		},
		{
			name:   "inside the last request, and it fires again",
			before: then(first(a), ends(a, t0.Add(time.Minute))), inside: true,
			after: []rules.Alert{a}, want: []string{"firing: +A"},
		},
		{
			name:   "after the last request: the end is not told twice",
			before: then(first(a), ends(a, t0.Add(time.Minute))),
			after:  []rules.Alert{ends(a, t0.Add(time.Minute))},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHook(t)
			dir, left := t.TempDir(), ""
			h.behave(func(http.ResponseWriter, *http.Request) bool {
				if tt.inside {
					left = copyLog(t, dir) // the last request wins
				}
				return true
			})
			d := open(t, dir, hookConfig(h))
			tt.before(t, d, h)
			if !tt.inside {
				left = copyLog(t, dir)
			}
			h.take()
			h.behave(nil)

			d = open(t, left, hookConfig(h))
			for offset := time.Duration(0); offset < 20*time.Minute; offset += 15 * time.Second {
				d.Dispatch(t.Context(), later.Add(offset), tt.after)
				d.Tick(t.Context(), later.Add(offset))
			}
			h.want(t, "the second life", tt.want...)
		})
	}
}

// first tells of an alert.
func first(a rules.Alert) func(*testing.T, *Dispatcher, *hook) {
	return func(t *testing.T, d *Dispatcher, _ *hook) {
		d.Dispatch(t.Context(), t0, []rules.Alert{a})
		d.Tick(t.Context(), t0.Add(5*time.Second))
	}
}

// then tells of more a minute later.
func then(before func(*testing.T, *Dispatcher, *hook), alerts ...rules.Alert) func(*testing.T, *Dispatcher, *hook) {
	return func(t *testing.T, d *Dispatcher, h *hook) {
		before(t, d, h)
		d.Dispatch(t.Context(), t0.Add(65*time.Second), alerts)
		d.Tick(t.Context(), t0.Add(65*time.Second))
	}
}

// TestUnfinishedWithoutRules sends an unfinished message before the rules have
// spoken, and nothing else.
func TestUnfinishedWithoutRules(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	dir, left := t.TempDir(), ""
	h.behave(func(http.ResponseWriter, *http.Request) bool { left = copyLog(t, dir); return true })
	first(fires("A", "warning", t0, "pool", "chat"))(t, open(t, dir, hookConfig(h)), h)
	h.behave(nil)
	h.take()
	d := open(t, left, hookConfig(h))
	for range 2 {
		for offset := time.Duration(0); offset < 3*time.Hour; offset += time.Minute {
			d.Tick(t.Context(), t0.Add(time.Minute+offset))
		}
	}
	h.want(t, "in three hours of silence", "firing: +A")
}

// TestTornLog cuts the log after every byte: it always opens, and knows what
// whole lines say.
func TestTornLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := openLog(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	k := logKey{"group", "oncall/webhook/0"}
	a := fires("A", "warning", t0)
	l.intent(k, map[string]string{"pool": "chat"}, delivered{At: t0, NotifiedAt: t0, Reason: ReasonFirst, Alerts: []rules.Alert{a}}, true)
	memory{l, k, t0}.Set("thread", "C1 2")
	l.outcome(k, t0, nil)
	whole := l.get(k)
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(raw, []byte("\n")); lines != 3 {
		t.Fatalf("%d lines", lines)
	}
	torn := t.TempDir()
	for size := range len(raw) + 1 {
		if err := os.WriteFile(filepath.Join(torn, logName), raw[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		l := &notificationLog{logger: slog.New(slog.DiscardHandler), dir: torn, entries: map[logKey]entry{}}
		if err := l.read(); err != nil {
			t.Fatalf("at %d: %v", size, err)
		}
		e := l.get(k)
		switch lines := bytes.Count(raw[:size], []byte("\n")); lines {
		case 0:
			if e.Tried {
				t.Errorf("at %d: half a line counts", size)
			}
		case 1, 2:
			if e.Intent == nil || e.Sent != nil || (e.Memory["thread"] != "") != (lines == 2) {
				t.Errorf("at %d: %+v", size, e)
			}
		default:
			if diff := cmp.Diff(whole, e, cmp.AllowUnexported(entry{})); diff != "" {
				t.Errorf("at %d: %s", size, diff)
			}
		}
	}
	// Whatever was torn, the next lines are whole again.
	if err := os.WriteFile(filepath.Join(torn, logName), raw[:len(raw)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		l, err := openLog(torn, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		memory{l, k, t0}.Set("thread", l.get(k).Memory["thread"]+"+")
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
	}
	if l, err = openLog(torn, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if got := l.get(k).Memory["thread"]; got != "C1 2++" {
		t.Errorf("after two more starts %q", got)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedLine breaks a line in the middle: the others count.
func TestDamagedLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var good []byte
	for i := range 3 {
		e := entry{logKey: logKey{fmt.Sprint("group", i), "x/y/0"}, Tried: true, At: t0}
		line, err := formatLine(record{Kind: recordEntry, logKey: e.logKey, At: t0, Entry: &e})
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			line[len(line)/2] ^= 1
		}
		good = append(good, line...)
	}
	if err := os.WriteFile(filepath.Join(dir, logName), good, 0o600); err != nil {
		t.Fatal(err)
	}
	var logged lockedBuffer
	l, err := openLog(dir, logTo(&logged))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(l.all()); n != 2 {
		t.Errorf("%d entries", n)
	}
	if !strings.Contains(logged.String(), "lines=1") {
		t.Errorf("the log says %q", logged.String())
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
}

// brokenDisk fails every write while broken.
type brokenDisk struct {
	syncWriter

	broken *bool
}

var errDiskFull = errors.New("no space left on device")

func (b brokenDisk) Write(p []byte) (int, error) {
	if *b.broken {
		n, _ := b.syncWriter.Write(p[:len(p)/2])
		return n, errDiskFull
	}
	return b.syncWriter.Write(p)
}

// TestDiskFull goes on telling people, and writes everything down when it can.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	dir := t.TempDir()
	var logged lockedBuffer
	d, err := New(Options{Config: mustConfig(t, hookConfig(h)), Dir: dir, Logger: logTo(&logged)})
	if err != nil {
		t.Fatal(err)
	}
	broken := true
	d.log.out = brokenDisk{d.log.out, &broken}
	d.log.openFile = func(name string) (syncWriter, error) {
		f, err := openSync(name)
		return brokenDisk{f, &broken}, err
	}
	a, b := fires("A", "warning", t0, "pool", "chat"), fires("B", "warning", t0, "pool", "chat")
	first(a)(t, d, h)
	h.want(t, "people are told", "firing: +A")
	if !strings.Contains(logged.String(), "no space left") {
		t.Errorf("the log says %q", logged.String())
	}
	broken = false
	d.Dispatch(t.Context(), t0.Add(2*time.Minute), []rules.Alert{a, b})
	d.Tick(t.Context(), t0.Add(2*time.Minute))
	h.want(t, "and of more", "firing: +A +B")
	left := copyLog(t, dir)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, left, hookConfig(h))
	d.Dispatch(t.Context(), t0.Add(3*time.Minute), []rules.Alert{a, b})
	d.Tick(t.Context(), t0.Add(4*time.Minute))
	h.want(t, "the next daemon knows all of it")
}

// TestLogStaysSmall writes far more than it keeps.
func TestLogStaysSmall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := openLog(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	k := logKey{"group", "x/y/0"}
	big := fires("A", "warning", t0)
	big.Evidence.Seen = strings.Repeat("x", compactAbove/4)
	for i := range 10 {
		l.intent(k, nil, delivered{At: t0.Add(time.Duration(i) * time.Second), Alerts: []rules.Alert{big}}, false)
		l.outcome(k, t0, nil)
	}
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, logName))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	if got := size(); got > 5*compactAbove {
		t.Errorf("%d bytes", got)
	}
	if got := l.get(k).Sequence; got != 10 {
		t.Errorf("%d outcomes", got)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	if l, err = openLog(dir, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if got := size(); got > compactAbove {
		t.Errorf("%d bytes after a start", got)
	}
	if got := l.get(k).Sequence; got != 10 {
		t.Errorf("%d outcomes after a start", got)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
}

func TestUnusableDir(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Dir: filepath.Join(file, "below")}); err == nil || !strings.Contains(err.Error(), "notification log") {
		t.Errorf("got %v", err)
	}
}

func FuzzParseLine(f *testing.F) {
	line, err := formatLine(record{Kind: recordNote, logKey: logKey{"g", "i"}, At: t0, Key: "a", Value: "b"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add(line[:len(line)-1])
	f.Add([]byte("00000000 {}\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		rec, ok := parseLine(line)
		if !ok {
			return
		}
		again, err := formatLine(rec)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := parseLine(again); !ok {
			t.Errorf("%q is read, %q is not", line, again)
		}
	})
}
