// Package history keeps what was collected and what was derived from it: an
// embedded Prometheus time series database behind one Store.
//
// What Append has returned without an error is committed: it survives the death
// of the process at any moment, kill -9 included, because it was handed to the
// operating system before Append returned. The write-ahead log is not synced to
// the disk at each round, as in Prometheus: a power cut or a crash of the
// machine can cost the last seconds.
//
// Times are kept in milliseconds. A series takes only samples that are newer
// than its last one. That is on purpose: when a clock is set back, samples in
// between older ones would make counters look as if they had been reset.
package history

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/fileutil"
	"github.com/prometheus/prometheus/util/compression"
)

const (
	// DefaultRetentionTime is how long samples are kept: capacity reviews look
	// back over a quarter.
	DefaultRetentionTime = 90 * 24 * time.Hour

	// minBlockDuration is half of a Prometheus server's. What is not in blocks yet
	// takes memory: an entry of 40 B for each 120 samples of a series, the series
	// that ended, and while a block is made the mapped files that it is read from.
	minBlockDuration = time.Hour
	maxBlockDuration = 31 * 24 * time.Hour

	// stripes is over how many locks the series in memory are spread, and
	// writeBuffer how much of the chunks that go to disk is held back: the
	// database's own choices are for millions of series and dozens of cores.
	stripes     = 1 << 10
	writeBuffer = chunks.MinWriteBufferSize
)

// Errors of a Store that was closed, or opened read-only.
var (
	ErrClosed   = errors.New("history: the storage is closed")
	ErrReadOnly = errors.New("history: the storage was opened read-only")
)

// Options say where and how long history is kept.
type Options struct {
	// Dir is the folder of the storage; made if it does not exist.
	Dir string
	// RetentionTime is how long samples are kept at least; 0 is DefaultRetentionTime.
	RetentionTime time.Duration
	// RetentionSize in bytes limits the blocks on disk, the oldest go first;
	// 0 is no limit. The newest hours are kept in any case.
	RetentionSize int64
	// OutOfOrderWindow is how far behind the newest sample a series' past may
	// still be filled in. 0, the default, refuses what is older than the
	// series' last sample; set it only to replay an old recording into a
	// storage that already holds newer samples.
	OutOfOrderWindow time.Duration
	// Logger takes the database's messages, repairs among them; nil is silent.
	Logger *slog.Logger
	// Registerer takes the database's own metrics (prometheus_tsdb_...); nil is none.
	Registerer prometheus.Registerer
	// Written is told, without waiting for it, each time samples were stored; nil
	// is nobody.
	Written interface{ Notify() }
	// ReadOnly opens the storage beside the daemon that writes it.
	ReadOnly bool
}

// Store is the history on disk. All its methods are safe for concurrent use.
type Store struct {
	opts     Options
	log      *slog.Logger
	unlock   func() error
	counters counters
	forms    forms
	commits  sync.Mutex // one round is written at a time
	// headBegin is the time of the oldest sample that is not in a block.
	headBegin atomic.Int64

	mu   sync.Mutex // protects all below; held while the database is opened and closed
	idle *sync.Cond // users is 0
	// users counts the rounds being stored and the queries being read.
	users  int
	closed bool
	// db is nil when read-only, and while it could not be opened again.
	db      *tsdb.DB
	metrics *prometheus.Registry
	// epoch tells the refs that were cached of this db from those of another one.
	epoch   uint64
	repairs int
	// failed is why the last round could not be written at failedAt, in round time.
	failed   error
	failedAt time.Time
	// doomed says that the open database may end the process, and is to be closed
	// as soon as nobody uses it.
	doomed bool
}

// Open opens the storage, replays its write-ahead log and repairs it where it
// is damaged. It can take seconds: about three per 100 000 series.
func Open(o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Store{opts: o, log: o.Logger}
	s.idle = sync.NewCond(&s.mu)
	if o.ReadOnly {
		if err := checkReadable(o.Dir); err != nil {
			return nil, err
		}
		return s, nil
	}
	// The lock comes before anything else: the database clears temporary
	// folders while it opens, and they may be those of a running daemon.
	unlock, err := lock(o.Dir)
	if err != nil {
		return nil, err
	}
	s.unlock = unlock
	removeScratch(o.Dir, o.Logger)
	if err := s.openDB(); err != nil {
		return nil, errors.Join(err, unlock())
	}
	return s, nil
}

func (o *Options) complete() error {
	if o.Dir == "" {
		return errors.New("history: no folder given; set --storage.path")
	}
	if o.RetentionTime < 0 || o.RetentionSize < 0 || o.OutOfOrderWindow < 0 {
		return fmt.Errorf("history: retention time %s, retention size %d and out-of-order window %s must not be negative",
			o.RetentionTime, o.RetentionSize, o.OutOfOrderWindow)
	}
	if o.RetentionTime == 0 {
		o.RetentionTime = DefaultRetentionTime
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

func (s *Store) openDB() error {
	if err := ensureRoom(s.opts.Dir); err != nil {
		return explain(s.opts.Dir, err)
	}
	metrics := prometheus.NewRegistry()
	db, err := tsdb.Open(s.opts.Dir, s.log, metrics, tsdbOptions(s.opts), nil)
	if err != nil {
		return explain(s.opts.Dir, err)
	}
	if s.opts.Written != nil {
		db.SetWriteNotified(s.opts.Written)
	}
	if s.opts.Registerer != nil {
		if err := s.opts.Registerer.Register(metrics); err != nil {
			return errors.Join(fmt.Errorf("history: register the metrics of the storage: %w", err), db.Close())
		}
	}
	s.db, s.metrics, s.epoch = db, metrics, newEpoch()
	s.noteRepairs()
	return nil
}

func (s *Store) closeDB() error {
	if s.db == nil {
		return nil
	}
	if s.opts.Registerer != nil {
		s.opts.Registerer.Unregister(s.metrics)
	}
	err := s.db.Close()
	s.db = nil
	return err
}

// tsdbOptions sets what the Prometheus server sets on top of the library's
// defaults. The unit of its durations is the millisecond.
func tsdbOptions(o Options) *tsdb.Options {
	t := tsdb.DefaultOptions()
	t.RetentionDuration = o.RetentionTime.Milliseconds()
	t.MaxBytes = o.RetentionSize
	t.MinBlockDuration = minBlockDuration.Milliseconds()
	t.MaxBlockDuration = max(minBlockDuration, min(o.RetentionTime/10, maxBlockDuration)).Milliseconds()
	t.WALCompression = compression.Snappy
	t.OutOfOrderTimeWindow = o.OutOfOrderWindow.Milliseconds()
	// A query may see a round that is being stored in part: the next evaluation
	// sees it whole. Keeping it out costs memory and time for each series.
	t.IsolationDisabled = true
	t.StripeSize, t.HeadChunksWriteBufferSize = stripes, writeBuffer
	t.NoLockfile = true // lock holds it, from before the database is opened
	return t
}

// noteRepairs counts what had to be repaired at opening: the database itself
// tells it in a log line and a metric only.
func (s *Store) noteRepairs() {
	families, err := s.metrics.Gather()
	if err != nil {
		s.log.Warn("Reading the storage's own metrics failed", "err", err)
		return
	}
	repairs := 0
	for _, f := range families {
		if f.GetName() == "prometheus_tsdb_wal_corruptions_total" {
			repairs = int(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	s.repairs += repairs
	if repairs > 0 {
		s.log.Warn("The write-ahead log was damaged and has been repaired; samples after the damage are lost",
			"path", s.opts.Dir)
	}
}

// Close waits for the rounds and queries under way, then closes the storage.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	for s.users > 0 {
		s.idle.Wait()
	}
	if s.opts.ReadOnly {
		return nil
	}
	return errors.Join(s.closeDB(), s.unlock())
}

// enter returns the database and keeps it open until leave is called.
func (s *Store) enter() (*tsdb.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enterLocked()
}

func (s *Store) enterLocked() (*tsdb.DB, error) {
	if s.closed {
		return nil, ErrClosed
	}
	if s.doomed || s.db == nil && !s.opts.ReadOnly {
		return nil, s.failed
	}
	s.users++
	return s.db, nil
}

func (s *Store) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		if s.doomed {
			s.abandon()
		}
		s.idle.Broadcast()
	}
}

// Stats are figures about a Store.
type Stats struct {
	// Series is the number of series in memory: those with samples in the last hours.
	Series uint64
	// Appended and Skipped count samples since the Store was opened.
	Appended uint64
	Skipped  uint64
	// SkippedBy splits Skipped by reason: out_of_order, duplicate, too_old, invalid.
	SkippedBy map[string]uint64
	// DiskBytes is the size of all files of the storage.
	DiskBytes int64
	// Oldest is the time of the oldest sample; zero when there is none. A
	// read-only Store knows that of the blocks only, not of the last hours.
	Oldest time.Time
	// Repairs is how often damage was repaired at opening.
	Repairs int
}

// Stats returns the figures as they stand now. It walks the storage's folder:
// call it for a page or a scrape, not per sample.
func (s *Store) Stats() Stats {
	var st Stats
	s.counters.addTo(&st)
	db, err := s.enter()
	if err != nil {
		return st
	}
	defer s.leave()
	if n, err := fileutil.DirSize(s.opts.Dir); err == nil {
		st.DiskBytes = n
	}
	if db == nil {
		st.Oldest = oldestReadOnly(s.opts.Dir)
		return st
	}
	st.Series = db.Head().NumSeries()
	if t, err := db.StartTime(); err == nil && t != math.MaxInt64 { // MaxInt64: empty
		st.Oldest = time.UnixMilli(t).UTC()
	}
	s.mu.Lock()
	st.Repairs = s.repairs
	s.mu.Unlock()
	return st
}
