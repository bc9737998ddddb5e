package score

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// kept is a folder with what each run came to, so that a corpus of hours can be
// interrupted. It knows nothing of the rules and the simulator that made it.
type kept struct {
	dir string
	// kind tells apart what was scored of the same runs.
	kind string
}

// file is where a run is kept.
func (k kept) file(r Run) string {
	return filepath.Join(k.dir, fmt.Sprintf("%s-%s-%d-%s%s.json", r.Scenario, r.Profile, r.Seed, r.Length, k.kind))
}

// load finds what a run came to; false where it is not kept.
func (k kept) load(r Run) (result Result, found bool, err error) {
	if k.dir == "" {
		return Result{}, false, nil
	}
	text, err := os.ReadFile(k.file(r))
	if errors.Is(err, fs.ErrNotExist) {
		return Result{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	if err != nil {
		return Result{}, false, fmt.Errorf("%s: %w (remove it, and it is run again)", k.file(r), err)
	}
	return result, true, nil
}

// save keeps what a run came to.
func (k kept) save(r Run, result Result) error {
	if k.dir == "" {
		return nil
	}
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(k.dir, 0o750); err != nil {
		return err
	}
	// Renamed when it is whole: an interrupted score leaves no half of a file.
	half := k.file(r) + ".part"
	if err := os.WriteFile(half, text, 0o600); err != nil {
		return err
	}
	return os.Rename(half, k.file(r))
}
