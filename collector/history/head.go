package history

import (
	"path/filepath"

	"github.com/prometheus/prometheus/tsdb"
)

// headChunks is the folder of the chunks that are not in blocks yet.
const headChunks = "chunks_head"

// noteHead sees, once a round is stored, whether the database has made a block
// since the last: what it holds itself begins later then. What went into the
// block was read from mapped files, all of it, and would stay resident for the
// hour until they are deleted, 60 MB for 1 000 engines, though nobody needs it.
func (s *Store) noteHead(db *tsdb.DB) {
	begin := db.Head().MinTime()
	if s.headBegin.Swap(begin) >= begin {
		return
	}
	dir, err := realPath(filepath.Join(s.opts.Dir, headChunks))
	if err == nil {
		err = pageOut(dir)
	}
	if err != nil {
		s.log.Debug("The mapped files of the storage stay in memory", "path", s.opts.Dir, "err", err)
	}
}

// realPath is the path of a file as the system tells it of mapped ones: absolute
// and without links, of which the working directory may have one too.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}
