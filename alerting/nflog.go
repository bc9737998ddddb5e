package alerting

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"kvwatch/rules"
)

// logName is the file of the notification log below Options.Dir.
const logName = "notifications.log"

// logKept is how long an incident that is over is remembered, for the page.
const logKept = 24 * time.Hour

// logKeptOpen is how long an incident is remembered whose route is gone.
const logKeptOpen = 90 * 24 * time.Hour

// compactAbove is how many bytes of outdated lines the log may gather before it
// is written anew while the daemon runs.
const compactAbove = 8 << 20

// notificationLog remembers who was told what. A line is on disk before a
// request goes out (the intent) and another one after it (the outcome), so that
// after a crash an intent without an outcome says which message may or may not
// have arrived.
//
// The file holds one record a line: eight hexadecimal digits of CRC-32C, a
// space, JSON. A line that is torn or damaged is passed over; the last line for
// an incident and integration wins. The file is written anew at every start.
//
// When the disk fails, the log goes on in memory and says so: people are told
// all the same, and what was missed is written as soon as the disk takes it.
type notificationLog struct {
	logger *slog.Logger
	dir    string

	// io protects what follows it. It is held over a write, so nothing that
	// must be quick may wait for it.
	io       sync.Mutex
	out      syncWriter
	written  int64 // bytes since the file was last written anew
	live     int64 // bytes of the file when it was last written anew
	closed   bool
	broken   bool // the last write failed: write anew before the next line
	openFile func(name string) (syncWriter, error)

	// mu protects entries.
	mu      sync.Mutex
	entries map[logKey]entry
}

// syncWriter is what the log needs of a file.
type syncWriter interface {
	io.WriteCloser
	Sync() error
}

// logKey is one incident at one integration.
type logKey struct {
	Group       string `json:"group"`
	Integration string `json:"integration"`
}

// entry is what is known about one incident at one integration.
type entry struct {
	logKey
	// Labels are those by which the incident is grouped.
	Labels map[string]string `json:"labels,omitempty"`
	// Intent is a request that was begun and has no outcome.
	Intent *delivered `json:"intent,omitempty"`
	// Sent is the last one that arrived.
	Sent *delivered `json:"sent,omitempty"`
	// Tried says that a request of this incident went out, arrived or not, or was
	// due and had to wait.
	Tried bool `json:"tried,omitempty"`
	// Sequence counts the requests of this incident that arrived.
	Sequence int `json:"sequence,omitempty"`
	// Memory is what the receiver noted.
	Memory map[string]string `json:"memory,omitempty"`
	// Error is why the last request failed; empty when it did not.
	Error string `json:"error,omitempty"`
	// Over says that the incident ended, told or not.
	Over bool `json:"over,omitempty"`
	// At is the time of the last change.
	At time.Time `json:"at"`
}

// last returns what the integration was last told, or may have been.
func (e entry) last() *delivered {
	if e.Intent != nil {
		return e.Intent
	}
	return e.Sent
}

// believed returns the alerts that the integration's readers may take for firing.
func (e entry) believed() map[string]bool {
	out := map[string]bool{}
	for _, d := range []*delivered{e.Sent, e.Intent} {
		if d != nil {
			maps.Copy(out, firingKeys(d.Alerts))
		}
	}
	return out
}

// delivered is the content of one request.
type delivered struct {
	At time.Time `json:"at"`
	// NotifiedAt is when people were last told, which an edit does not do.
	NotifiedAt time.Time     `json:"notified_at"`
	Reason     Reason        `json:"reason"`
	Alerts     []rules.Alert `json:"alerts"`
	// Acknowledged is when the incident had been acknowledged, as was shown.
	Acknowledged time.Time `json:"acknowledged,omitzero"`
	// Silence is the ID of the silence that was shown.
	Silence string `json:"silence,omitempty"`
}

// The kinds of records. Each changes one entry.
const (
	recordEntry   = "entry"   // the whole entry
	recordIntent  = "intent"  // a request is about to go out
	recordOutcome = "outcome" // it arrived (no error) or was refused for good
	recordNote    = "note"    // the receiver noted something
)

// record is one line of the log.
type record struct {
	Kind string `json:"kind"`
	logKey
	At     time.Time         `json:"at"`
	Labels map[string]string `json:"labels,omitempty"`
	Intent *delivered        `json:"intent,omitempty"`
	Fresh  bool              `json:"fresh,omitempty"` // the intent begins an incident
	Error  string            `json:"error,omitempty"`
	Key    string            `json:"key,omitempty"`
	Value  string            `json:"value,omitempty"`
	Entry  *entry            `json:"entry,omitempty"`
}

// openLog reads the log in dir and writes it anew; an empty dir keeps it in memory.
func openLog(dir string, logger *slog.Logger) (*notificationLog, error) {
	l := &notificationLog{logger: logger, dir: dir, entries: map[logKey]entry{}, openFile: openSync}
	if dir == "" {
		return l, nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("notification log: %w", err)
	}
	if err := l.read(); err != nil {
		return nil, fmt.Errorf("notification log: %w", err)
	}
	l.expire(l.latest(), nil)
	if err := l.compact(); err != nil {
		return nil, fmt.Errorf("notification log: %w", err)
	}
	return l, nil
}

func openSync(name string) (syncWriter, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640) //nolint:gosec // below the storage path
}

// read applies the file's records. It is only called before the log is shared.
func (l *notificationLog) read() error {
	f, err := os.Open(filepath.Join(l.dir, logName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	damaged := 0
	for r := bufio.NewReaderSize(f, 64<<10); ; {
		line, err := r.ReadBytes('\n')
		if rec, ok := parseLine(line); ok {
			l.apply(rec)
		} else if len(line) > 0 {
			damaged++
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if damaged > 0 {
		l.logger.Warn("The notification log has damaged lines, as after a power cut; at most that many messages are sent again", "lines", damaged)
	}
	return nil
}

// checksum is CRC-32C, which most processors compute by themselves.
func checksum(body []byte) uint32 {
	return crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
}

// parseLine checks and decodes one line; ok is false for a torn or damaged one.
func parseLine(line []byte) (rec record, ok bool) {
	line, ended := bytes.CutSuffix(line, []byte("\n"))
	sum, body, found := bytes.Cut(line, []byte(" "))
	if !ended || !found {
		return record{}, false
	}
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || len(sum) != 8 || checksum(body) != uint32(want) {
		return record{}, false
	}
	if err := json.Unmarshal(body, &rec); err != nil || rec.Group == "" || rec.Integration == "" {
		return record{}, false
	}
	return rec, true
}

// formatLine is the reverse of parseLine.
func formatLine(rec record) ([]byte, error) {
	body, err := json.Marshal(rec)
	if err != nil {
		return nil, err
	}
	line := fmt.Appendf(make([]byte, 0, len(body)+10), "%08x ", checksum(body))
	return append(append(line, body...), '\n'), nil
}

// apply changes the entry that the record is about.
func (l *notificationLog) apply(rec record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[rec.logKey]
	e.logKey = rec.logKey
	e.At = rec.At
	switch rec.Kind {
	case recordEntry:
		if rec.Entry == nil {
			return
		}
		e = *rec.Entry
		e.logKey = rec.logKey
	case recordIntent:
		if rec.Fresh {
			e = entry{logKey: rec.logKey, At: rec.At}
		}
		e.Labels, e.Intent, e.Tried, e.Over = rec.Labels, rec.Intent, true, false
	case recordOutcome:
		if rec.Error == "" && e.Intent != nil {
			e.Sent, e.Sequence = e.Intent, e.Sequence+1
			e.Over = statusOf(e.Sent.Alerts) == rules.StateResolved
		}
		e.Intent, e.Error = nil, rec.Error
	case recordNote:
		e.Memory = maps.Clone(e.Memory)
		if e.Memory == nil {
			e.Memory = map[string]string{}
		}
		e.Memory[rec.Key] = rec.Value
	default: // written by a later version
		return
	}
	l.entries[rec.logKey] = e
}

// get returns the entry of an incident at an integration. What it points at is
// not to be changed.
func (l *notificationLog) get(k logKey) entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[k]
}

// all returns every entry, in order.
func (l *notificationLog) all() []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]entry, 0, len(l.entries))
	for _, e := range l.entries {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b entry) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return cmpKeys(a.logKey, b.logKey)
	})
	return out
}

// intent notes that d is about to go out. fresh begins a new incident: what was
// known of an earlier one is forgotten.
func (l *notificationLog) intent(k logKey, labels map[string]string, d delivered, fresh bool) {
	l.add(record{Kind: recordIntent, logKey: k, At: d.At, Labels: labels, Intent: &d, Fresh: fresh})
}

// outcome notes that the intent arrived, or was refused for good with an error.
func (l *notificationLog) outcome(k logKey, at time.Time, err error) {
	rec := record{Kind: recordOutcome, logKey: k, At: at}
	if err != nil {
		rec.Error = err.Error()
	}
	l.add(rec)
}

// over notes, in memory, that an incident ended although its end was not told.
// After a restart the incident ends once more, which tells nobody anything.
func (l *notificationLog) over(k logKey, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[k]; ok && !e.Over {
		e.Over, e.Intent, e.At = true, nil, at
		l.entries[k] = e
	}
}

// failing keeps the error of a request that will be tried again, in memory only.
func (l *notificationLog) failing(k logKey, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[k]
	e.Error = err.Error()
	l.entries[k] = e
}

// add writes the record, syncs it and then applies it.
func (l *notificationLog) add(rec record) {
	l.io.Lock()
	defer l.io.Unlock()
	defer l.apply(rec)
	if l.dir == "" {
		return
	}
	if err := l.write(rec); err != nil {
		l.broken = true
		l.logger.Error("The notification log cannot be written; after a crash messages may be sent twice", "err", err)
	}
}

func (l *notificationLog) write(rec record) error {
	if l.closed {
		return os.ErrClosed
	}
	if l.broken || l.written > compactAbove+4*l.live {
		if err := l.compact(); err != nil {
			return err
		}
		l.broken = false
	}
	line, err := formatLine(rec)
	if err != nil {
		return err
	}
	l.written += int64(len(line))
	if _, err := l.out.Write(line); err != nil {
		return err
	}
	return l.out.Sync()
}

// compact writes the log anew, one record for each entry, and puts it in the
// place of the old one.
func (l *notificationLog) compact() error {
	name := filepath.Join(l.dir, logName)
	f, err := l.openFile(name + ".tmp")
	if err != nil {
		return err
	}
	size, err := l.writeAll(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if err := os.Rename(name+".tmp", name); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := syncDir(l.dir); err != nil {
		return errors.Join(err, f.Close())
	}
	if l.out != nil {
		if err := l.out.Close(); err != nil {
			l.logger.Debug("Closing the old notification log failed", "err", err)
		}
	}
	l.out, l.live, l.written = f, size, 0
	return nil
}

func (l *notificationLog) writeAll(f syncWriter) (size int64, err error) {
	w := bufio.NewWriter(f)
	for _, e := range l.all() {
		line, err := formatLine(record{Kind: recordEntry, logKey: e.logKey, At: e.At, Entry: &e})
		if err != nil {
			return 0, err
		}
		size += int64(len(line))
		if _, err := w.Write(line); err != nil {
			return 0, err
		}
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	return size, f.Sync()
}

// syncDir makes a rename in dir survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// latest returns the time of the newest entry: the log's own idea of now.
func (l *notificationLog) latest() time.Time {
	var out time.Time
	for _, e := range l.all() {
		if e.At.After(out) {
			out = e.At
		}
	}
	return out
}

// expire forgets incidents that have been over for a while, and those that nothing
// is heard of any more; never one that goes on, however far the clock jumps. The
// file forgets them when it is next written anew.
func (l *notificationLog) expire(now time.Time, going map[string]*group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.entries, func(_ logKey, e entry) bool {
		age := now.Sub(e.At)
		if _, ok := going[e.Group]; ok {
			return false
		}
		return e.Over && age > logKept || age > logKeptOpen
	})
}

// close ends the log; it may be called again. Later writes are errors that are logged.
func (l *notificationLog) close() error {
	l.io.Lock()
	defer l.io.Unlock()
	if l.out == nil {
		return nil
	}
	out := l.out
	l.out, l.closed = nil, true
	return out.Close()
}

// memory is a receiver's view of one entry.
type memory struct {
	log *notificationLog
	key logKey
	at  time.Time
}

// Get returns what was set under key, "" if nothing.
func (m memory) Get(key string) string { return m.log.get(m.key).Memory[key] }

// Set keeps value under key.
func (m memory) Set(key, value string) {
	m.log.add(record{Kind: recordNote, logKey: m.key, At: m.at, Key: key, Value: value})
}
