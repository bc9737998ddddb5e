package history

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/prometheus/prometheus/tsdb/fileutil"
)

// lock takes the storage for this process. The lock dies with the process; the
// file stays, and tells a second daemon who holds it.
func lock(dir string) (unlock func() error, err error) {
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		return nil, fmt.Errorf("storage path %s is a file, not a folder; give another --storage.path", dir)
	}
	path := filepath.Join(dir, "lock")
	held, _, err := fileutil.Flock(path)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("storage path %s is in use by another kvwatch (%s); stop it or give another --storage.path", dir, holder(path))
	}
	if err != nil {
		return nil, explain(dir, err)
	}
	host, _ := os.Hostname() // only for the message
	if err := os.WriteFile(path, fmt.Appendf(nil, "pid %d on %s\n", os.Getpid(), host), 0o644); err != nil {
		return nil, errors.Join(explain(dir, err), held.Release())
	}
	return held.Release, nil
}

func holder(path string) string {
	b, err := os.ReadFile(path)
	if text := strings.TrimSpace(string(b)); err == nil && text != "" {
		return text
	}
	return "pid unknown"
}

// explain says what to do about an error that the file system gave.
func explain(dir string, err error) error {
	var what string
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		what = "is full; free some space or set --storage.retention.size"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		what = "is not writable; change its owner or give another --storage.path"
	case errors.Is(err, syscall.ENOTDIR):
		what = "is below a file; give another --storage.path"
	default:
		what = "cannot be used"
	}
	return fmt.Errorf("storage path %s %s: %w", dir, what, err)
}
