package history

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// readAttempts is how often a read beside the daemon is tried: it can meet a
// round that is half written, or a block that is just being merged away.
const readAttempts = 5

func checkReadable(dir string) error {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("storage path %s does not exist; give the --storage.path of the daemon", dir)
	case err != nil:
		return fmt.Errorf("storage path %s cannot be read: %w", dir, err)
	case !st.IsDir():
		return fmt.Errorf("storage path %s is a file, not a folder; give the --storage.path of the daemon", dir)
	}
	if _, err := os.Stat(filepath.Join(dir, "wal")); err != nil && len(blockFolders(dir)) == 0 {
		return fmt.Errorf("storage path %s holds no history; give the --storage.path of the daemon: %w", dir, err)
	}
	return nil
}

// blockFolders lists the folders of blocks: a copy or a snapshot of a storage
// may have nothing else.
func blockFolders(dir string) []string {
	metas, _ := filepath.Glob(filepath.Join(dir, "*", "meta.json")) // errors are of the pattern only
	return metas
}

// openReadOnly opens the storage anew for each querier: it then sees what the
// daemon wrote in between, and queriers can be used side by side. A range that
// reaches beyond the last block replays the write-ahead log, which takes
// seconds on a large storage, so read wide ranges.
func openReadOnly(dir string, mint, maxt int64) (q storage.Querier, err error) {
	for range readAttempts {
		if q, err = openReadOnlyOnce(dir, mint, maxt); err == nil {
			return q, nil
		}
	}
	return nil, fmt.Errorf("read storage path %s (run as the user who owns it): %w", dir, err)
}

// removeScratch removes what readers that were killed have left behind: hard
// links that keep the room of deleted files taken. A reader that is alive has
// its files open already, or tries again.
func removeScratch(dir string, log *slog.Logger) {
	left, _ := filepath.Glob(filepath.Join(dir, "tmp_dbro_sandbox*")) // errors are of the pattern only
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			log.Warn("Removing what a killed reader left behind failed", "path", path, "err", err)
		}
	}
}

func openReadOnlyOnce(dir string, mint, maxt int64) (storage.Querier, error) {
	if _, err := os.Stat(filepath.Join(dir, "wal")); err != nil {
		// A copy of blocks: nothing is newer than they are.
		_, end := blockSpan(dir)
		if maxt = min(maxt, end.UnixMilli()-1); maxt < mint {
			return storage.NoopQuerier(), nil
		}
	}
	db, err := openBlocks(dir)
	if err != nil {
		return nil, err
	}
	q, err := db.Querier(mint, maxt)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &readOnlyQuerier{Querier: q, db: db}, nil
}

type readOnlyQuerier struct {
	storage.Querier
	db *tsdb.DBReadOnly
}

func (q *readOnlyQuerier) Close() error {
	return errors.Join(q.Querier.Close(), q.db.Close())
}

// openBlocks opens a storage without its write-ahead log. The scratch folder
// holds hard links to what is in memory, so it should be on the same file system;
// where that cannot be written to, one elsewhere does for blocks.
func openBlocks(dir string) (*tsdb.DBReadOnly, error) {
	db, err := tsdb.OpenDBReadOnly(dir, "", nil)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return tsdb.OpenDBReadOnly(dir, os.TempDir(), nil)
	}
	return db, err
}

// blockSpan is the time that the blocks span; zeros where there are none.
func blockSpan(dir string) (from, to time.Time) {
	db, err := openBlocks(dir)
	if err != nil {
		return from, to
	}
	defer func() { _ = db.Close() }()
	blocks, err := db.Blocks()
	if err != nil || len(blocks) == 0 {
		return from, to
	}
	// They are in order of where they begin.
	from, to = time.UnixMilli(blocks[0].Meta().MinTime).UTC(), time.UnixMilli(blocks[0].Meta().MaxTime).UTC()
	for _, b := range blocks {
		if end := time.UnixMilli(b.Meta().MaxTime).UTC(); end.After(to) {
			to = end
		}
	}
	return from, to
}

// oldestReadOnly knows of blocks only; the last hours would need a replay.
func oldestReadOnly(dir string) time.Time {
	from, _ := blockSpan(dir)
	return from
}
