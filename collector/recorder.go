package collector

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// Recorder writes a recording that OpenRecording reads. Whatever may name a
// person or a key on the pages is replaced by a hash; host names of targets
// stay, as instances. Its methods are safe for concurrent use.
type Recorder struct {
	mu        sync.Mutex
	out       recordingFile
	anonymous *anonymiser
	targets   map[string]*recordedTarget // by job and instance
	folders   map[string]recordedIdentity
	buf       []byte
	progress  RecorderProgress
	closed    bool
}

// RecorderProgress is how far a Recorder came.
type RecorderProgress struct {
	// Targets were asked at least once.
	Targets int
	// Pages and Failed count scrapes that gave a page and those that did not.
	Pages, Failed int
	// Bytes is the size of the pages before compression.
	Bytes int64
}

// recordedTarget is what was told of one target so far.
type recordedTarget struct {
	folder string
	last   int64 // Unix milliseconds
}

// recordedIdentity is a line of targets.yml.
type recordedIdentity struct {
	Job      string `yaml:"job"`
	Instance string `yaml:"instance"`
	Source   string `yaml:"source,omitempty"`
}

// recordingFile is where a recording is written to.
type recordingFile interface {
	// add writes one file of a folder.
	add(folder string, at int64, kind entryKind, content []byte) error
	// name is given targets.yml each time it changes.
	name(targets []byte) error
	// close finishes the recording.
	close() error
}

// NewRecorder begins a recording at path: an archive where that ends in
// .tar.zst, else a directory, which is a valid recording at any moment. It
// refuses to write over what exists.
func NewRecorder(path string) (*Recorder, error) {
	var out recordingFile
	var err error
	if strings.HasSuffix(path, ".tar.zst") {
		out, err = newRecordingArchive(path)
	} else {
		out, err = newRecordingDirectory(path)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("recording %s exists already: give another name, or remove it", path)
	}
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	return &Recorder{
		out: out, anonymous: newAnonymiser(),
		targets: map[string]*recordedTarget{}, folders: map[string]recordedIdentity{},
	}, nil
}

// Take records one scrape: the page where the round has one, else why not.
func (r *Recorder) Take(round *Round, page []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("recording: it is closed")
	}
	t, err := r.target(round.Target)
	if err != nil {
		return err
	}
	at := max(round.Time.UnixMilli(), t.last+1) // the name of a file must be new
	t.last = at
	r.buf = r.buf[:0]
	kind := pagePlain
	if round.State == StateUp {
		r.buf = r.anonymous.page(r.buf, page)
		r.progress.Pages++
		r.progress.Bytes += int64(len(r.buf))
	} else {
		kind = pageDown
		r.buf = fmt.Appendf(r.buf, "%s: %s\n", round.State, round.Reason)
		r.progress.Failed++
	}
	return r.out.add(t.folder, at, kind, r.buf)
}

// target finds or makes the folder of a target, and keeps targets.yml up to date.
func (r *Recorder) target(t *Target) (*recordedTarget, error) {
	job, instance := t.Labels.Get(model.JobLabel), t.Labels.Get(model.InstanceLabel)
	known := r.targets[targetID(job, instance)]
	if known == nil {
		known = &recordedTarget{folder: r.newFolder(instance)}
		r.targets[targetID(job, instance)] = known
		r.progress.Targets++
	}
	id := recordedIdentity{Job: cmp.Or(t.Source, recordedJob), Instance: instance, Source: t.Source}
	if r.folders[known.folder] == id {
		return known, nil
	}
	r.folders[known.folder] = id
	targets, err := yaml.Marshal(r.folders)
	if err != nil {
		return nil, err
	}
	return known, r.out.name(targets)
}

// newFolder makes a name that any file system takes of an instance.
func (r *Recorder) newFolder(instance string) string {
	name := strings.Trim(strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' {
			return c
		}
		return '_'
	}, instance), ".")
	name = cmp.Or(name, "target")
	for free, n := name, 2; ; free, n = name+"-"+strconv.Itoa(n), n+1 {
		if _, taken := r.folders[free]; !taken {
			return free
		}
	}
}

// Progress says how far it is.
func (r *Recorder) Progress() RecorderProgress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress
}

// Close finishes the recording.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	return r.out.close()
}

// recordingDirectory writes a directory. Each file appears whole or not at all.
type recordingDirectory struct{ path string }

func newRecordingDirectory(path string) (*recordingDirectory, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return &recordingDirectory{path}, os.Mkdir(path, 0o755)
}

func (d *recordingDirectory) add(folder string, at int64, kind entryKind, content []byte) error {
	dir := filepath.Join(d.path, folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if kind == pagePlain {
		kind = pageGzip
		var packed bytes.Buffer
		zw := gzip.NewWriter(&packed)
		if _, err := zw.Write(content); err != nil {
			return err
		}
		if err := zw.Close(); err != nil {
			return err
		}
		content = packed.Bytes()
	}
	return writeWhole(filepath.Join(dir, strconv.FormatInt(at, 10)+kind.ending()), content)
}

func (d *recordingDirectory) name(targets []byte) error {
	return writeWhole(filepath.Join(d.path, targetsFile), targets)
}

func (*recordingDirectory) close() error { return nil }

// writeWhole writes a file under another name first.
func writeWhole(path string, content []byte) error {
	if err := os.WriteFile(path+".part", content, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// recordingArchive writes an archive from front to back; it is whole once it
// is closed.
type recordingArchive struct {
	file    *os.File
	packed  *zstd.Encoder
	archive *tar.Writer
	targets []byte
	last    int64
}

func newRecordingArchive(path string) (*recordingArchive, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	packed, err := zstd.NewWriter(file, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &recordingArchive{file: file, packed: packed, archive: tar.NewWriter(packed)}, nil
}

func (a *recordingArchive) add(folder string, at int64, kind entryKind, content []byte) error {
	a.last = at
	return a.write(folder+"/"+strconv.FormatInt(at, 10)+kind.ending(), content)
}

func (a *recordingArchive) write(name string, content []byte) error {
	head := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644, ModTime: time.UnixMilli(a.last)}
	if err := a.archive.WriteHeader(&head); err != nil {
		return err
	}
	_, err := a.archive.Write(content)
	return err
}

// name keeps the newest: an archive is read as a whole, so that it may come last.
func (a *recordingArchive) name(targets []byte) error {
	a.targets = targets
	return nil
}

func (a *recordingArchive) close() error {
	var err error
	if a.targets != nil {
		err = a.write(targetsFile, a.targets)
	}
	return errors.Join(err, a.archive.Close(), a.packed.Close(), a.file.Close())
}
