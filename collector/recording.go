package collector

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"go.yaml.in/yaml/v3"
)

const (
	// recordedJob is the job of a folder that targets.yml does not name.
	recordedJob = "recording"
	// targetsFile says who the folders are.
	targetsFile = "targets.yml"
	// reasonBytes bounds the text of a failed scrape.
	reasonBytes = 4 << 10
)

// Recording is a set of pages as they were received, of one or more targets:
// a directory with one folder per target, or an archive of it. It may be read
// by several goroutines. Of an archive the pages are kept compressed in a
// temporary file, so that memory holds only an index of 32 bytes a page.
type Recording struct {
	path    string
	folders []folder
	entries []entry // in time order; ties in order of the folders
	// store holds the pages of an archive, each compressed by itself; nil for a directory.
	store *os.File
	size  int64 // of the store
	unzip *zstd.Decoder
}

// folder is one target of a recording.
type folder struct {
	name   string
	target Target
}

// entry is one file of a recording.
type entry struct {
	at     int64 // Unix milliseconds
	offset int64 // in the store
	length int32 // in the store
	folder int16
	kind   entryKind
}

type entryKind uint8

const (
	pagePlain entryKind = iota
	pageGzip
	pageDown
)

// ending is the kind's file name after the time.
func (k entryKind) ending() string {
	switch k {
	case pageGzip:
		return ".prom.gz"
	case pageDown:
		return ".down"
	default:
		return ".prom"
	}
}

// parseEntry reads a file name of a recording; other files are left alone.
func parseEntry(name string) (at int64, kind entryKind, ok bool) {
	for _, k := range []entryKind{pagePlain, pageGzip, pageDown} {
		if digits, found := strings.CutSuffix(name, k.ending()); found {
			at, err := strconv.ParseInt(digits, 10, 64)
			// Only what is written back the same way, so that the name need not be kept.
			return at, k, err == nil && at >= 0 && strconv.FormatInt(at, 10) == digits
		}
	}
	return 0, 0, false
}

// OpenRecording opens a directory, or a .tar.zst or .tar.gz archive of one.
func OpenRecording(path string) (*Recording, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	r := &Recording{path: path}
	var targets []byte
	if info.IsDir() {
		targets, err = r.readDirectory()
	} else {
		targets, err = r.readArchive()
	}
	if err == nil {
		err = r.name(targets)
	}
	if err == nil && len(r.entries) == 0 {
		err = errors.New("no pages: it needs one folder per target, with files <unix milliseconds>.prom in it")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("recording %s: %w", path, err), r.Close())
	}
	slices.SortFunc(r.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.folder, b.folder), cmp.Compare(a.kind, b.kind))
	})
	return r, nil
}

// Close gives back what the recording holds on disk.
func (r *Recording) Close() error {
	if r.store == nil {
		return nil
	}
	r.unzip.Close()
	return r.store.Close()
}

func (r *Recording) readDirectory() (targets []byte, err error) {
	targets, err = os.ReadFile(filepath.Join(r.path, targetsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	dirs, err := os.ReadDir(r.path)
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		if !d.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(r.path, d.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if at, kind, ok := parseEntry(f.Name()); ok && !f.IsDir() {
				if err := r.add(d.Name(), entry{at: at, kind: kind}); err != nil {
					return nil, err
				}
			}
		}
	}
	return targets, nil
}

// add appends an entry of a folder; folders come in any order.
func (r *Recording) add(name string, e entry) error {
	i := slices.IndexFunc(r.folders, func(f folder) bool { return f.name == name })
	if i < 0 {
		i = len(r.folders)
		r.folders = append(r.folders, folder{name: name})
	}
	if i >= 1<<15 {
		return errors.New("more than 32768 folders")
	}
	e.folder = int16(i)
	r.entries = append(r.entries, e)
	return nil
}

// name puts the folders in order and gives them their targets.
func (r *Recording) name(targets []byte) error {
	type identity struct {
		Job      string `yaml:"job"`
		Instance string `yaml:"instance"`
		Source   string `yaml:"source"`
	}
	var given map[string]identity
	decoder := yaml.NewDecoder(bytes.NewReader(targets))
	decoder.KnownFields(true)
	if err := decoder.Decode(&given); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", targetsFile, err)
	}
	r.sortFolders()
	owner := map[string]string{}
	for i := range r.folders {
		f := &r.folders[i]
		id := given[f.name]
		switch id.Source {
		case "", SourceVLLM, SourceLiteLLM:
		default:
			return fmt.Errorf("%s: %s: source %q is unknown: use %s or %s, or leave it out", targetsFile, f.name, id.Source, SourceVLLM, SourceLiteLLM)
		}
		job, instance := cmp.Or(id.Job, recordedJob), cmp.Or(id.Instance, f.name)
		if other, twice := owner[job+"\xff"+instance]; twice {
			return fmt.Errorf("%s: folders %s and %s have the same job %q and instance %q", targetsFile, other, f.name, job, instance)
		}
		owner[job+"\xff"+instance] = f.name
		f.target = Target{
			Labels: labels.FromStrings(model.JobLabel, job, model.InstanceLabel, instance),
			URL:    "recording:" + f.name,
			Source: id.Source,
		}
	}
	return nil
}

// sortFolders puts the folders in order of their names.
func (r *Recording) sortFolders() {
	old := slices.Clone(r.folders)
	slices.SortFunc(r.folders, func(a, b folder) int { return cmp.Compare(a.name, b.name) })
	to := make([]int16, len(old))
	for i, f := range old {
		to[i] = int16(slices.IndexFunc(r.folders, func(g folder) bool { return g.name == f.name }))
	}
	for i := range r.entries {
		r.entries[i].folder = to[r.entries[i].folder]
	}
}

// Targets lists the recorded targets in order of their folders.
func (r *Recording) Targets() []*Target {
	all := make([]*Target, len(r.folders))
	for i := range r.folders {
		all[i] = &r.folders[i].target
	}
	return all
}

// Folders lists the folders in the order of Targets.
func (r *Recording) Folders() []string {
	all := make([]string, len(r.folders))
	for i := range r.folders {
		all[i] = r.folders[i].name
	}
	return all
}

// Span is the time of the first page and of the last one.
func (r *Recording) Span() (first, last time.Time) {
	return time.UnixMilli(r.entries[0].at).UTC(), time.UnixMilli(r.entries[len(r.entries)-1].at).UTC()
}

// Page is one recorded scrape.
type Page struct {
	// Target is whose page it is; its Source is empty where nobody told it.
	Target *Target
	// Folder is the target's folder.
	Folder string
	Time   time.Time
	// Down says that the scrape failed; its body then holds the reason.
	Down bool

	recording *Recording
	entry     entry
}

// Pages lists all scrapes in time order over all targets; those of the same
// millisecond in order of their folders.
func (r *Recording) Pages() iter.Seq[Page] {
	return func(yield func(Page) bool) {
		for _, e := range r.entries {
			if !yield(r.page(e)) {
				return
			}
		}
	}
}

func (r *Recording) page(e entry) Page {
	f := &r.folders[e.folder]
	return Page{Target: &f.target, Folder: f.name, Time: time.UnixMilli(e.at).UTC(), Down: e.kind == pageDown, recording: r, entry: e}
}

// Name is the page's file within the recording.
func (p Page) Name() string {
	return p.Folder + "/" + strconv.FormatInt(p.entry.at, 10) + p.entry.kind.ending()
}

// Open opens the body as it was received, without its compression.
func (p Page) Open() (io.ReadCloser, error) {
	raw, err := p.raw()
	if err != nil || p.entry.kind != pageGzip {
		return raw, err
	}
	zr, err := gzip.NewReader(raw)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return readCloser{zr, raw}, nil
}

// raw opens the file as it is in the recording.
func (p Page) raw() (io.ReadCloser, error) {
	r := p.recording
	if r.store == nil {
		return os.Open(filepath.Join(r.path, filepath.FromSlash(p.Name())))
	}
	packed := make([]byte, p.entry.length)
	if _, err := r.store.ReadAt(packed, p.entry.offset); err != nil {
		return nil, err
	}
	page, err := r.unzip.DecodeAll(packed, nil)
	return io.NopCloser(bytes.NewReader(page)), err
}

// readCloser reads from one and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}

// Replay hands on the rounds of the whole recording, in time order, as live
// scrapes would have given them. A page that cannot be read is a failed round
// that names its file. It ends early only when ctx is done or sink fails.
func (r *Recording) Replay(ctx context.Context, sink func(*Round) error) error {
	first, last := r.Span()
	return r.ReplayRange(ctx, RecordingRange{From: first, To: last.Add(time.Millisecond)}, sink)
}

// RecordingRange says what ReplayRange hands on.
type RecordingRange struct {
	// From (inclusive) and To (exclusive) bound it.
	From, To time.Time
	// Complete is given a copy of every target before its first round, and may
	// add what the recording does not hold. nil adds nothing.
	Complete func(*Target)
}

// ReplayRange is Replay for a part of the recording.
func (r *Recording) ReplayRange(ctx context.Context, o RecordingRange, sink func(*Round) error) error {
	all, desks := make([]*rounds, len(r.folders)), &sync.Pool{}
	for i := range r.folders {
		target := r.folders[i].target
		if o.Complete != nil {
			o.Complete(&target)
		}
		all[i] = newRounds(target, DefaultLimits())
		all[i].desks = desks
	}
	var buf bytes.Buffer
	for p := range r.Pages() {
		if p.Time.Before(o.From) || !p.Time.Before(o.To) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		to := all[p.entry.folder]
		round, _ := p.replay(to, p.Time, &buf)
		if err := sink(round); err != nil {
			return err
		}
		to.done()
	}
	return nil
}

// Interval is the usual time between two scrapes of the folder; 0 where there
// is one at most.
func (r *Recording) Interval(name string) time.Duration {
	i := slices.IndexFunc(r.folders, func(f folder) bool { return f.name == name })
	var times []int64
	for _, e := range r.entries {
		if int(e.folder) == i {
			times = append(times, e.at)
		}
	}
	return UsualInterval(times)
}

// UsualInterval is the median of the gaps between scrapes, whose times are in
// Unix milliseconds and in order; 0 of fewer than two.
func UsualInterval(times []int64) time.Duration {
	if len(times) < 2 {
		return 0
	}
	gaps := make([]int64, 0, len(times)-1)
	for i := 1; i < len(times); i++ {
		gaps = append(gaps, times[i]-times[i-1])
	}
	slices.Sort(gaps)
	return time.Duration(gaps[len(gaps)/2]) * time.Millisecond
}

// replay makes the page's round, as one of the time at.
func (p Page) replay(to *rounds, at time.Time, buf *bytes.Buffer) (*Round, pageInfo) {
	limit := to.limits.BodyBytes + 1 // one more, so that the reader sees that it is too large
	if p.Down {
		limit = reasonBytes
	}
	if err := p.load(buf, limit); err != nil {
		why := explainFile(err)
		return to.failed(failure{why.state, p.Name() + ": " + why.reason}, at), pageInfo{}
	}
	if p.Down {
		return to.failed(downFailure(buf.String()), at), pageInfo{}
	}
	round, info := to.page(buf, contentType(buf.Bytes()), at, explainFile)
	if round.State != StateUp {
		round.Reason = p.Name() + ": " + round.Reason
	}
	return round, info
}

// load reads at most limit bytes of the page into buf.
func (p Page) load(buf *bytes.Buffer, limit int64) error {
	buf.Reset()
	f, err := p.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(buf, io.LimitReader(f, limit))
	return err
}

// explainFile says why a recorded page cannot be read.
func explainFile(err error) failure {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return failure{StateTruncated, "the file ends early: record it again, or remove it"}
	}
	return failure{StateNotMetrics, fmt.Sprintf("the file cannot be read (%v): record it again, or remove it", err)}
}

// downFailure reads the text of a failed scrape: "<state>: <reason>", or any
// other text, in which a time-out is told from the rest.
func downFailure(text string) failure {
	text = strings.TrimSpace(text)
	if state, reason, ok := strings.Cut(text, ": "); ok && slices.Contains(States(), State(state)) && State(state) != StateUp {
		return failure{State(state), reason}
	}
	reason := "recorded as failed"
	if text != "" {
		reason += " (" + text + ")"
	}
	if lower := strings.ToLower(text); strings.Contains(lower, "timeout") || strings.Contains(lower, "timed out") {
		return failure{StateTimeout, reason}
	}
	return failure{StateDown, reason}
}

// contentType tells OpenMetrics, which ends in a mark of its own, from the
// text format: recordings keep bodies without their headers.
func contentType(page []byte) string {
	if bytes.HasSuffix(bytes.TrimRight(page, "\n"), []byte("\n# EOF")) {
		return "application/openmetrics-text; version=1.0.0; charset=utf-8"
	}
	return "text/plain; version=0.0.4; charset=utf-8"
}

// Handler serves a folder as its target would have done: at any path, the
// newest page at or before clock's time. Where that scrape had failed, or before
// the first page, the connection is closed without an answer.
func (r *Recording) Handler(name string, clock func() time.Time) http.Handler {
	i := slices.IndexFunc(r.folders, func(f folder) bool { return f.name == name })
	if i < 0 {
		return http.NotFoundHandler()
	}
	var own []entry
	for _, e := range r.entries {
		if int(e.folder) == i {
			own = append(own, e)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := clock().UnixMilli()
		after, _ := slices.BinarySearchFunc(own, now+1, func(e entry, at int64) int { return cmp.Compare(e.at, at) })
		if after == 0 || own[after-1].kind == pageDown {
			hangUp(w)
			return
		}
		var buf bytes.Buffer
		if err := r.page(own[after-1]).load(&buf, DefaultLimits().BodyBytes+1); err != nil {
			http.Error(w, "the recorded page cannot be read", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", contentType(buf.Bytes()))
		_, _ = buf.WriteTo(w)
	})
}

// hangUp closes the connection as a dead process does.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2: the server resets the stream
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
