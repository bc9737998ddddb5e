package rules

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// journalKept is how many events are kept, the newest.
const journalKept = 10_000

// journal keeps the events in order of time, in memory and in a file of one
// JSON object a line.
type journal struct {
	// path is "" where nothing is kept on disk.
	path   string
	events []Event
}

// openJournal reads the file; one that is not there is empty. Lines that cannot
// be read, as the last one after a crash, are skipped and counted.
func openJournal(path string) (j *journal, skipped int, err error) {
	j = &journal{path: path}
	if path == "" {
		return j, 0, nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading the journal of events: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, len(raw)+1)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.At.IsZero() || e.Kind == "" {
			skipped++
			continue
		}
		j.take(e)
	}
	return j, skipped, lines.Err()
}

// take puts an event in its place.
func (j *journal) take(e Event) {
	i, _ := slices.BinarySearchFunc(j.events, e.At, func(o Event, at time.Time) int {
		if o.At.After(at) {
			return 1
		}
		return -1
	})
	j.events = slices.Insert(j.events, i, e)
	if n := len(j.events); n > journalKept {
		j.events = slices.Delete(j.events, 0, n-journalKept)
	}
}

// add keeps an event; it is on disk when add returns.
func (j *journal) add(e Event) (err error) {
	if j.path == "" {
		j.take(e)
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("keeping the event in %s: %w", filepath.Base(j.path), err)
		}
	}()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(j.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	// A line that a crash cut short must not swallow this one.
	if err := endLine(f); err != nil {
		return errors.Join(err, f.Close())
	}
	_, err = f.Write(append(line, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	j.take(e)
	return nil
}

// endLine ends the last line of f where it has no end.
func endLine(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	_, err = f.WriteString("\n")
	return err
}

// Mark keeps an event of an operator, from now on. The error says what is wrong
// with it.
func (e *Engine) Mark(event Event, now time.Time) error {
	event.At = now
	if err := event.Check(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if event.Pool != "" && e.pools[event.Pool] == nil {
		return fmt.Errorf("there is no pool %q: %s", event.Pool, e.poolsThere())
	}
	return e.journal.add(event)
}

// ReadEvents returns what a journal's file has of the time between; of one that is
// not there, nothing.
func ReadEvents(path string, from, to time.Time) ([]Event, error) {
	j, _, err := openJournal(path)
	if err != nil {
		return nil, err
	}
	return j.between(from, to), nil
}

// Events returns what is in the journal of the time between (both inclusive),
// also what lasts into it, in order of time.
func (e *Engine) Events(from, to time.Time) []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.journal.between(from, to)
}

func (j *journal) between(from, to time.Time) []Event {
	found := []Event{}
	for _, event := range j.events {
		if !event.end().Before(from) && !event.At.After(to) {
			found = append(found, event)
		}
	}
	return found
}

// poolsThere says which pools there are.
func (e *Engine) poolsThere() string {
	var names []string
	for _, p := range e.sortedPools() {
		names = append(names, p.name)
	}
	if len(names) == 0 {
		return "no engine was seen yet"
	}
	return "there are " + strings.Join(names, ", ")
}
