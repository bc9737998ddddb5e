package history

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// retryAfter is how long, in round time, a storage that could not be written is
// left alone.
const retryAfter = time.Minute

// commit writes a round.
//
// A write that fails can leave half a record in the write-ahead log. The
// database would write on behind it, and at the next start its repair would
// throw away everything from there on: rounds that Append had called committed.
// So nothing more is written, nor by rounds under way, until the database has
// been opened again, which cuts the half record off.
func (s *Store) commit(db *tsdb.DB, app storage.AppenderV2, at time.Time) error {
	s.commits.Lock()
	defer s.commits.Unlock()
	if err := s.failure(); err != nil {
		return errors.Join(err, app.Rollback())
	}
	if err := app.Commit(); err != nil {
		err = fmt.Errorf("history: the round of %s was not stored: %w", at.UTC().Format(time.RFC3339), explain(s.opts.Dir, err))
		s.fail(at, err)
		s.settle(db)
		return err
	}
	return nil
}

func (s *Store) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

func (s *Store) fail(at time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.failedAt = err, at
}

// settle moves what the database would move from memory into files within the next
// minute: it ends the whole process when it cannot, and on a disk that is full it
// cannot. Nothing is left to move afterwards, since no round is stored; where the
// move fails here, the database is closed, as if it had never held more than is in
// the write-ahead log. It is called by a round, which keeps the database open.
func (s *Store) settle(db *tsdb.DB) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Warn("History cannot be read until the storage can be written again", "path", s.opts.Dir, "err", p)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.doomed = true
		}
	}()
	db.ForceHeadMMap()
}

// abandon closes a database that could not be written. The caller holds mu, and
// nobody uses the database.
func (s *Store) abandon() {
	defer func() {
		if p := recover(); p != nil { // from what settle tells of
			s.db = nil
		}
	}()
	s.doomed = false
	if err := s.closeDB(); err != nil {
		s.log.Warn("Closing the storage after a failed write", "path", s.opts.Dir, "err", err)
	}
}

// enterToAppend is enter for a round of the time at. After a failure it opens
// the database again first, as soon as nobody reads it.
func (s *Store) enterToAppend(at time.Time) (*tsdb.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil && !s.closed {
		since := at.Sub(s.failedAt)
		if s.users > 0 || (since >= 0 && since < retryAfter) {
			return nil, s.failed
		}
		if err := s.reopen(); err != nil {
			s.failed, s.failedAt = err, at
			return nil, err
		}
		s.log.Info("The storage can be written again", "path", s.opts.Dir)
	}
	return s.enterLocked()
}

func (s *Store) reopen() error {
	if err := ensureRoom(s.opts.Dir); err != nil {
		return explain(s.opts.Dir, err)
	}
	s.abandon()
	if err := s.openDB(); err != nil {
		return err
	}
	s.failed = nil
	return nil
}

// ensureRoom fails when there is no room to rewrite the largest file of the
// write-ahead log. A repair does that, and one that runs out of room half-way
// loses what it has not rewritten yet.
func ensureRoom(dir string) error {
	need := int64(1 << 20)
	segments, err := os.ReadDir(filepath.Join(dir, "wal"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range segments {
		if st, err := e.Info(); err == nil && st.Mode().IsRegular() {
			need = max(need, st.Size()+1<<20)
		}
	}
	return reserve(filepath.Join(dir, "room.tmp"), need)
}

// reserve writes a file of that size and removes it again.
func reserve(path string, size int64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(path)) }()
	for zeros := make([]byte, 1<<20); size > 0; size -= int64(len(zeros)) {
		if _, err := f.Write(zeros[:min(size, int64(len(zeros)))]); err != nil {
			return fmt.Errorf("no room to repair the write-ahead log if that is needed: %w", err)
		}
	}
	return nil
}
