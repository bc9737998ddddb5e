package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"kvwatch/dashboards/review"
	"kvwatch/rules"
)

const (
	// incidentsKept is how long what fired is kept: twice the longest review.
	incidentsKept = 2 * longestReview
	// forgottenAfter is how long the rules must not speak of what fires before it
	// counts as over: its rule or its target is gone.
	forgottenAfter = 10 * time.Minute
)

// incidentLog keeps what fired, for reviews: in memory, and in a file of one JSON
// object a line, of which a later one of the same incident counts.
type incidentLog struct {
	path string
	log  *slog.Logger

	mu   sync.Mutex
	kept map[string]*keptIncident
	// broken says that the file could not be written; it is said once.
	broken bool
}

// keptIncident is an incident and what names it: labels and when it fired.
type keptIncident struct {
	Key string `json:"key"`
	review.Incident

	// spoken is when the rules told of it last.
	spoken time.Time
}

// openIncidents reads the file and writes it again without what is too old. Lines
// that cannot be read, as the last one after a crash, are left out.
func openIncidents(path string, now time.Time, log *slog.Logger) (*incidentLog, error) {
	l := &incidentLog{path: path, log: log, kept: map[string]*keptIncident{}}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what fired: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, len(raw)+1)
	for lines.Scan() {
		k := &keptIncident{spoken: now}
		if err := json.Unmarshal(lines.Bytes(), k); err == nil && k.Key != "" && !k.FiredAt.IsZero() {
			l.kept[k.Key] = k
		}
	}
	for key, k := range l.kept {
		if k.ResolvedAt != nil && now.Sub(*k.ResolvedAt) > incidentsKept {
			delete(l.kept, key)
		}
	}
	return l, l.rewrite()
}

// rewrite writes the file as a whole.
func (l *incidentLog) rewrite() error {
	var b bytes.Buffer
	for _, k := range l.sorted() {
		line, err := json.Marshal(k)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	return replaceFile(l.path, b.Bytes())
}

func (l *incidentLog) sorted() []*keptIncident {
	var all []*keptIncident
	for _, k := range l.kept {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *keptIncident) int {
		return cmp.Or(a.FiredAt.Compare(b.FiredAt), cmp.Compare(a.Key, b.Key))
	})
	return all
}

// take notes what the rules tell at now.
func (l *incidentLog) take(now time.Time, alerts []rules.Alert) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var changed []*keptIncident
	for i := range alerts {
		a := &alerts[i]
		if a.Name == rules.Watchdog || a.FiredAt.IsZero() || a.State != rules.StateFiring && a.State != rules.StateResolved {
			continue
		}
		key := incidentKey(a)
		k := l.kept[key]
		fresh := k == nil
		if fresh {
			told := newBacktestAlert(*a)
			k = &keptIncident{Key: key, Incident: newIncident(&told)}
			l.kept[key] = k
		}
		k.spoken = now
		if a.State == rules.StateResolved && k.ResolvedAt == nil {
			k.ResolvedAt, k.Cost = new(a.ResolvedAt.UTC()), cmp.Or(a.Evidence.Cost, k.Cost)
			fresh = true
		}
		if fresh {
			changed = append(changed, k)
		}
	}
	for _, k := range l.kept {
		if k.ResolvedAt == nil && now.Sub(k.spoken) > forgottenAfter {
			k.ResolvedAt = new(k.spoken.UTC())
			changed = append(changed, k)
		}
	}
	l.write(changed)
}

// incidentKey names an alert that fired among all.
func incidentKey(a *rules.Alert) string {
	sum := sha256.Sum256([]byte(a.Key() + a.FiredAt.UTC().Format(time.RFC3339Nano)))
	return hex.EncodeToString(sum[:12])
}

// write adds lines to the file. Where it cannot, what fired is kept in memory, and
// alerts are told all the same.
func (l *incidentLog) write(changed []*keptIncident) {
	if len(changed) == 0 {
		return
	}
	err := func() error {
		f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		for _, k := range changed {
			line, errLine := json.Marshal(k)
			_, errWrite := f.Write(append(line, '\n'))
			err = errors.Join(err, errLine, errWrite)
		}
		return errors.Join(err, f.Close())
	}()
	if err != nil && !l.broken {
		l.log.Error("what fired cannot be kept; reviews after a restart will not know of it", "err", err)
	}
	l.broken = err != nil
}

// between lists what fired between two times or before, and was not over by then.
func (l *incidentLog) between(from, to time.Time) []review.Incident {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []review.Incident
	for _, k := range l.sorted() {
		if !k.FiredAt.Before(to) || k.ResolvedAt != nil && k.ResolvedAt.Before(from) {
			continue
		}
		i := k.Incident
		if i.ResolvedAt != nil && i.ResolvedAt.After(to) {
			i.ResolvedAt = nil
		}
		all = append(all, i)
	}
	return all
}
