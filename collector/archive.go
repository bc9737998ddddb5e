package collector

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// targetsBytes bounds targets.yml in an archive.
const targetsBytes = 1 << 20

// readArchive reads an archive once, from front to back, and keeps its pages
// in a temporary file, each compressed by itself.
func (r *Recording) readArchive() (targets []byte, err error) {
	f, err := os.Open(r.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unpacked, done, err := unpack(f, r.path)
	if err != nil {
		return nil, err
	}
	defer done()
	if r.unzip, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0)); err != nil {
		return nil, err
	}
	if r.store, err = temporaryFile(); err != nil {
		return nil, err
	}
	return r.keep(tar.NewReader(unpacked))
}

// unpack undoes an archive's compression, which its name tells.
func unpack(f io.Reader, name string) (unpacked io.Reader, done func(), err error) {
	switch {
	case strings.HasSuffix(name, ".tar.zst"):
		zr, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, err
		}
		return zr, zr.Close, nil
	case strings.HasSuffix(name, ".tar.gz"), strings.HasSuffix(name, ".tgz"):
		zr, err := gzip.NewReader(f)
		if err != nil {
			return nil, nil, err
		}
		return zr, func() { _ = zr.Close() }, nil
	default:
		return nil, nil, errors.New("is neither a directory nor a .tar.zst or .tar.gz archive")
	}
}

// temporaryFile makes a file that is gone when the process is, however it ends.
func temporaryFile() (*os.File, error) {
	f, err := os.CreateTemp("", "kvwatch-recording-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// keep copies the pages of an archive to the store. The folders may lie below
// a common folder of any depth.
func (r *Recording) keep(archive *tar.Reader) (targets []byte, err error) {
	zw, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	root, rooted, targetsOf := "", false, map[string][]byte{}
	for {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return targetsOf[root], nil
		}
		if err != nil {
			return nil, fmt.Errorf("the archive is broken: %w", err)
		}
		name := path.Clean(strings.TrimPrefix(head.Name, "/"))
		dir, base := path.Dir(name), path.Base(name)
		if head.Typeflag != tar.TypeReg {
			continue
		}
		if base == targetsFile {
			if targetsOf[dir], err = io.ReadAll(io.LimitReader(archive, targetsBytes)); err != nil {
				return nil, fmt.Errorf("the archive is broken in %s: %w", name, err)
			}
			continue
		}
		at, kind, ok := parseEntry(base)
		if !ok || dir == "." {
			continue
		}
		if rooted && path.Dir(dir) != root {
			return nil, fmt.Errorf("pages lie in %s and in %s: an archive holds one recording, with its folders side by side", root, path.Dir(dir))
		}
		root, rooted = path.Dir(dir), true
		e, err := r.write(zw, archive, head.Size, entry{at: at, kind: kind})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := r.add(path.Base(dir), e); err != nil {
			return nil, err
		}
	}
}

// write appends one page to the store. A page over the limit is cut one byte
// over it, so that it is refused for its size when it is read.
func (r *Recording) write(zw *zstd.Encoder, page io.Reader, size int64, e entry) (entry, error) {
	whole := make([]byte, min(size, DefaultLimits().BodyBytes+1))
	if _, err := io.ReadFull(page, whole); err != nil {
		return e, err
	}
	packed := zw.EncodeAll(whole, nil)
	e.offset, e.length = r.size, int32(len(packed))
	r.size += int64(len(packed))
	_, err := r.store.WriteAt(packed, e.offset)
	return e, err
}
