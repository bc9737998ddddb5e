package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// stateVersion is the version of the state file's form.
const stateVersion = 1

// savedState is what survives a restart.
type savedState struct {
	Version int                   `json:"version"`
	Pools   map[string]poolState  `json:"pools"`
	Watches map[string]savedWatch `json:"watches"`
}

// state gathers it, with what is remembered of subjects that did not appear yet.
func (e *Engine) state() (savedState, error) {
	s := savedState{Version: stateVersion, Pools: maps.Clone(e.remembered.Pools), Watches: maps.Clone(e.remembered.Watches)}
	for name, p := range e.pools {
		learned, err := p.state()
		if err != nil {
			return s, err
		}
		s.Pools[name] = learned
	}
	for _, w := range e.allWatches() {
		saved, err := w.saved()
		if err != nil {
			return s, err
		}
		if saved != nil {
			s.Watches[w.key()] = *saved
		}
	}
	return s, nil
}

// saveDue says whether an alert changed, or whether it is time to save.
func (e *Engine) saveDue(now time.Time, alerts []Alert) bool {
	age := now.Sub(e.savedAt)
	return e.opts.StateFile != "" && (age < 0 || age >= saveEvery || standing(alerts) != e.saved)
}

// save writes the state file, if there is anything to write.
func (e *Engine) save(now time.Time, alerts []Alert, s *savedState) error {
	if s == nil {
		return nil
	}
	if err := writeState(e.opts.StateFile, *s); err != nil {
		return err
	}
	e.saved, e.savedAt = standing(alerts), now
	return nil
}

// standing changes whenever an alert fires or resolves.
func standing(alerts []Alert) string {
	var b strings.Builder
	for _, a := range alerts {
		b.WriteString(a.Key() + string(a.State) + a.FiredAt.String() + "\n")
	}
	return b.String()
}

// Save writes the state file now, for an orderly end.
func (e *Engine) Save() error {
	e.evalMu.Lock()
	defer e.evalMu.Unlock()
	if e.opts.StateFile == "" {
		return nil
	}
	e.mu.Lock()
	s, err := e.state()
	e.mu.Unlock()
	if err != nil {
		return err
	}
	return writeState(e.opts.StateFile, s)
}

// loadState reads the state file; one that is not there is empty.
func loadState(path string) (savedState, error) {
	s := savedState{Version: stateVersion}
	raw, err := readState(path)
	if err != nil {
		return s, err
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &s); err != nil {
			return s, fmt.Errorf("reading %s: %w; move it away to learn anew", path, err)
		}
		if s.Version != stateVersion {
			return s, fmt.Errorf("%s has version %d, this kvwatch reads version %d; move it away to learn anew", path, s.Version, stateVersion)
		}
	}
	if s.Pools == nil {
		s.Pools = map[string]poolState{}
	}
	if s.Watches == nil {
		s.Watches = map[string]savedWatch{}
	}
	return s, nil
}

func readState(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of the rules: %w", err)
	}
	return raw, nil
}

// writeState replaces the file in one step, so that a crash leaves the old or
// the new one whole.
func writeState(path string, s savedState) (err error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("saving the state of the rules: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("saving the state of the rules: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("saving the state of the rules: %w", err)
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(raw)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// syncDirectory makes a rename durable.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
