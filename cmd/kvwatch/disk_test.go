package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// runProgram is runDaemon for one of the names to which the test binary answers.
func runProgram(t *testing.T, name string, k *killing) *process {
	t.Helper()
	p := startProgram(t, name, "run", "--config.file="+k.config, "--storage.path="+k.storage, "--web.listen-address=127.0.0.1:0")
	p.eventually(t, "it is ready", func() error { _, err := p.get("/-/ready"); return err })
	return p
}

// change lets the target go down or come back, and people must be told so.
func (k *killing) change(t *testing.T, down bool, when string) {
	t.Helper()
	k.begin(down, false)
	if err := k.settled(); err != nil {
		t.Fatalf("%s: people are not told that it is %s: %v; told %v", when, k.want(), err, k.statuses())
	}
	if got := k.statuses(); len(got) != 1 {
		t.Errorf("%s: people were told %v, want %s alone", when, got, k.want())
	}
}

// TestDiskFillsUp goes on telling people while nothing can be written, writes again
// when there is room, and then loses and repeats nothing by a kill.
func TestDiskFillsUp(t *testing.T) {
	t.Parallel()
	k := newKilling(t)
	p := runProgram(t, "kvwatch-cramped", k)
	k.change(t, true, "before")

	p.signal(t, syscall.SIGUSR1)
	p.eventually(t, "no round is stored any more", func() error {
		if !strings.Contains(p.stderr.String(), "is full; free some space") {
			return errors.New("the log does not say that the storage is full")
		}
		return nil
	})
	k.change(t, false, "on the full disk")
	k.change(t, true, "still")
	if !strings.Contains(p.stderr.String(), "The notification log cannot be written") {
		t.Error("the log does not say that the notification log cannot be written")
	}
	if _, err := p.get("/-/healthy"); err != nil {
		t.Error(err)
	}

	p.signal(t, syscall.SIGUSR2)
	k.change(t, false, "with room again")
	k.change(t, true, "and on")
	p.signal(t, syscall.SIGKILL)
	_ = p.wait(t)
	p = runProgram(t, "kvwatch-cramped", k)
	k.change(t, false, "after a kill")
	p.signal(t, syscall.SIGTERM)
	if err := p.wait(t); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// TestStorageTurnsReadOnly does the same where no file can be made or replaced, and
// says at a start what is wrong.
func TestStorageTurnsReadOnly(t *testing.T) {
	t.Parallel()
	k := newKilling(t)
	open := func(path string) { // to the user that kvwatch runs as
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{k.storage, filepath.Dir(k.storage), k.config, filepath.Dir(k.config)} {
		open(path)
	}
	p := runProgram(t, "kvwatch-bystander", k)
	k.change(t, true, "before")
	folders := func(mode fs.FileMode) {
		t.Helper()
		if err := filepath.WalkDir(k.storage, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(path, mode)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	folders(0o555)
	k.change(t, false, "read-only")
	if !strings.Contains(p.stderr.String(), "permission denied") {
		t.Error("the log does not say that the storage cannot be written")
	}
	p.signal(t, syscall.SIGKILL)
	_ = p.wait(t)

	p = launch(t, "kvwatch-bystander", "run", "--config.file="+k.config, "--storage.path="+k.storage, "--web.listen-address=127.0.0.1:0")
	if err := p.wait(t); err == nil || !strings.Contains(p.stderr.String(), k.storage+" is not writable; change its owner") {
		t.Errorf("a start on read-only storage: %v: %s", err, p.stderr)
	}

	folders(0o777)
	p = runProgram(t, "kvwatch-bystander", k)
	k.change(t, true, "writable again")
	p.signal(t, syscall.SIGTERM)
	if err := p.wait(t); err != nil {
		t.Errorf("it ends with %v", err)
	}
}
