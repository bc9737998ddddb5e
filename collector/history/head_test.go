package history

import (
	"os"
	"path/filepath"
	"testing"
)

// A storage may be given by a path from a working directory that is one by a link.
func TestRealPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "data", headChunks)
	if err := os.MkdirAll(want, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(link)
	if got, err := realPath(filepath.Join("data", headChunks)); err != nil || got != want {
		t.Errorf("%q, error %v; want %q", got, err, want)
	}
}
