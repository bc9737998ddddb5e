package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"kvwatch/collector"
)

// start is when the tests' history begins.
var start = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func series(name, instance string) *collector.Series {
	return &collector.Series{Labels: labels.FromStrings("__name__", name, "job", "vllm", "instance", instance)}
}

func sample(s *collector.Series, v float64) collector.Sample {
	return collector.Sample{Series: s, Value: v}
}

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func appendRound(t testing.TB, s *Store, at time.Time, samples []collector.Sample, stale ...*collector.Series) {
	t.Helper()
	if err := s.Append(t.Context(), at, samples, stale); err != nil {
		t.Fatalf("append at %s: %v", at, err)
	}
}

func matcher(t testing.TB, name, value string) []*labels.Matcher {
	t.Helper()
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, name, value)}
}

// scanAll returns the points by series, as text: "name=value ..." → "offset:value ...".
func scanAll(t testing.TB, scan scanFunc, from, to time.Time, matchers []*labels.Matcher) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := scan(t.Context(), from, to, matchers, func(ls labels.Labels, points []Point) error {
		var b strings.Builder
		for _, p := range points {
			v := fmt.Sprint(p.V)
			if p.IsStale() {
				v = "stale"
			}
			fmt.Fprintf(&b, "%s:%s ", time.UnixMilli(p.T).Sub(start), v)
		}
		got[ls.Get("instance")] += strings.TrimSpace(b.String())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

type scanFunc func(context.Context, time.Time, time.Time, []*labels.Matcher, func(labels.Labels, []Point) error) error

func wantDiff(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestReopenKeepsWhatWasAppended(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	up := series("up", "a")
	s := open(t, Options{Dir: dir})
	appendRound(t, s, start, []collector.Sample{sample(up, 1)})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	// The same Series goes on in the new Store, with the ref of the old one.
	s = open(t, Options{Dir: dir})
	appendRound(t, s, start.Add(15*time.Second), []collector.Sample{sample(up, 0)})
	got := scanAll(t, s.Scan, start, start.Add(time.Hour), matcher(t, "__name__", "up"))
	wantDiff(t, "points", map[string]string{"a": "0s:1 15s:0"}, got)
	if st := s.Stats(); st.Series != 1 || st.Appended != 1 || !st.Oldest.Equal(start) || st.DiskBytes == 0 || st.Repairs != 0 {
		t.Errorf("stats: %+v", st)
	}
}

func TestScanBounds(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	a, b := series("up", "a"), series("up", "b")
	for i := range 4 {
		appendRound(t, s, start.Add(time.Duration(i)*time.Second), []collector.Sample{sample(b, float64(i)), sample(a, float64(10*i))})
	}
	for name, tc := range map[string]struct {
		from, to time.Duration
		want     map[string]string
	}{
		"from is in, to is out": {time.Second, 3 * time.Second, map[string]string{"a": "1s:10 2s:20", "b": "1s:1 2s:2"}},
		"a millisecond more":    {time.Second + time.Millisecond, 3*time.Second + time.Millisecond, map[string]string{"a": "2s:20 3s:30", "b": "2s:2 3s:3"}},
		"empty range":           {time.Second, time.Second, map[string]string{}},
		"backwards":             {3 * time.Second, time.Second, map[string]string{}},
		"before all":            {-time.Hour, 0, map[string]string{}},
		"beyond all":            {-time.Hour, time.Hour, map[string]string{"a": "0s:0 1s:10 2s:20 3s:30", "b": "0s:0 1s:1 2s:2 3s:3"}},
	} {
		got := scanAll(t, s.Scan, start.Add(tc.from), start.Add(tc.to), matcher(t, "__name__", "up"))
		wantDiff(t, name, tc.want, got)
	}
}

func TestScanComesInPiecesAndStops(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	a := series("up", "a")
	const n = scanPoints + 3
	for i := range n {
		appendRound(t, s, start.Add(time.Duration(i)*time.Millisecond), []collector.Sample{sample(a, float64(i))})
	}
	var sizes []int
	next := 0.0
	err := s.Scan(t.Context(), start, start.Add(time.Hour), matcher(t, "job", "vllm"), func(_ labels.Labels, points []Point) error {
		sizes = append(sizes, len(points))
		for _, p := range points {
			if p.V != next {
				t.Fatalf("got %v, want %v", p.V, next)
			}
			next++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantDiff(t, "pieces", []int{scanPoints, 3}, sizes)

	stop := errors.New("enough")
	calls := 0
	err = s.Scan(t.Context(), start, start.Add(time.Hour), matcher(t, "job", "vllm"), func(labels.Labels, []Point) error {
		calls++
		return stop
	})
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("got %v after %d calls", err, calls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = s.Scan(ctx, start, start.Add(time.Hour), matcher(t, "job", "vllm"), func(labels.Labels, []Point) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled scan gave %v", err)
	}
}

func TestStaleMarkers(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	a, b := series("up", "a"), series("up", "b")
	appendRound(t, s, start, []collector.Sample{sample(a, 1), sample(b, 1)})
	appendRound(t, s, start.Add(15*time.Second), []collector.Sample{sample(b, 1)}, a)

	all := matcher(t, "__name__", "up")
	wantDiff(t, "without markers", map[string]string{"a": "0s:1", "b": "0s:1 15s:1"},
		scanAll(t, s.Scan, start, start.Add(time.Hour), all))
	wantDiff(t, "with markers", map[string]string{"a": "0s:1 15s:stale", "b": "0s:1 15s:1"},
		scanAll(t, s.ScanWithStale, start, start.Add(time.Hour), all))
	if got := query(t, s, "count(up)", start.Add(16*time.Second)); got != 1 {
		t.Errorf("%v series alive after the marker, want 1", got)
	}
	// The series comes back under the same Series.
	appendRound(t, s, start.Add(30*time.Second), []collector.Sample{sample(a, 1), sample(b, 1)})
	if got := query(t, s, "count(up)", start.Add(30*time.Second)); got != 2 {
		t.Errorf("%v series alive after the return, want 2", got)
	}
}

func TestOneBadSampleStopsNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		at     time.Duration
		value  float64
		series func(good *collector.Series) *collector.Series
		err    error
		reason string
		text   string
	}{
		"out of order": {at: -time.Second, value: 1, err: storage.ErrOutOfOrderSample, reason: "out_of_order", text: "clock set back"},
		"duplicate":    {at: 0, value: 2, err: storage.ErrDuplicateSampleForTimestamp, reason: "duplicate", text: "two targets"},
		"too old":      {at: -2 * time.Hour, value: 1, err: storage.ErrOutOfBounds, reason: "too_old", text: "clock ahead"},
		"no labels": {at: time.Second, value: 1, reason: "invalid", text: "invalid", series: func(*collector.Series) *collector.Series {
			return &collector.Series{}
		}},
		"a label twice": {at: time.Second, value: 1, reason: "invalid", text: "label name", series: func(*collector.Series) *collector.Series {
			b := labels.NewScratchBuilder(3)
			b.Add("__name__", "up")
			b.Add("job", "x")
			b.Add("job", "y")
			return &collector.Series{Labels: b.Labels()}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Options{Dir: t.TempDir()})
			bad := series("up", "a")
			appendRound(t, s, start, []collector.Sample{sample(bad, 1)})
			if tc.series != nil {
				bad = tc.series(bad)
			}
			fresh := series("up", "b")
			samples := []collector.Sample{sample(bad, tc.value), sample(fresh, 7)}
			err := s.Append(t.Context(), start.Add(tc.at), samples, nil)

			var skipped *SkippedError
			if !errors.As(err, &skipped) {
				t.Fatalf("got %v, want a SkippedError", err)
			}
			if tc.err != nil && !errors.Is(err, tc.err) {
				t.Errorf("%v is not %v", err, tc.err)
			}
			wantSkipped := 1
			if name == "too old" {
				wantSkipped = 2 // too old for the storage, not only for the series
			}
			if skipped.Skipped != wantSkipped || skipped.Total != 2 || labels.Compare(skipped.First, bad.Labels) != 0 {
				t.Errorf("got %+v", skipped)
			}
			if !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%q does not say %q", err, tc.text)
			}
			st := s.Stats()
			if st.SkippedBy[tc.reason] != uint64(wantSkipped) || st.Skipped != uint64(wantSkipped) || st.Appended != uint64(3-wantSkipped) {
				t.Errorf("stats: %+v", st)
			}
			if wantSkipped == 1 && query(t, s, `up{instance="b"}`, start.Add(time.Minute)) != 7 {
				t.Error("the good sample of the round is not there")
			}
		})
	}
}

func TestSameValueAtSameTimeIsNoError(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	up := series("up", "a")
	appendRound(t, s, start, []collector.Sample{sample(up, 1)})
	appendRound(t, s, start, []collector.Sample{sample(up, 1)})
	wantDiff(t, "points", map[string]string{"a": "0s:1"}, scanAll(t, s.Scan, start, start.Add(time.Hour), matcher(t, "__name__", "up")))
}

func TestNaNAndInfAreValues(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	a, b := series("up", "a"), series("up", "b")
	appendRound(t, s, start, []collector.Sample{sample(a, math.NaN()), sample(b, math.Inf(1))})
	wantDiff(t, "points", map[string]string{"a": "0s:NaN", "b": "0s:+Inf"},
		scanAll(t, s.Scan, start, start.Add(time.Hour), matcher(t, "__name__", "up")))
}

func TestOutOfOrderWindowFillsThePast(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir(), OutOfOrderWindow: 48 * time.Hour})
	up := series("up", "a")
	appendRound(t, s, start.Add(24*time.Hour), []collector.Sample{sample(up, 2)})
	appendRound(t, s, start, []collector.Sample{sample(up, 1)})
	wantDiff(t, "points", map[string]string{"a": "0s:1 24h0m0s:2"},
		scanAll(t, s.Scan, start, start.Add(48*time.Hour), matcher(t, "__name__", "up")))
}

func TestRefsOfAnotherStoreAreNotTrusted(t *testing.T) {
	t.Parallel()
	one, two := open(t, Options{Dir: t.TempDir()}), open(t, Options{Dir: t.TempDir()})
	a, b := series("up", "a"), series("up", "b")
	appendRound(t, one, start, []collector.Sample{sample(a, 1)})
	appendRound(t, two, start, []collector.Sample{sample(b, 2)})
	// The database has numbered both as 1.
	appendRound(t, two, start.Add(time.Second), []collector.Sample{sample(a, 3)})
	wantDiff(t, "points", map[string]string{"a": "1s:3", "b": "0s:2"},
		scanAll(t, two.Scan, start, start.Add(time.Hour), matcher(t, "__name__", "up")))
}

// A series that was silent for hours leaves memory; its cached ref then means
// nothing, or worse.
func TestRefsSurviveGarbageCollection(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	gone, kept := series("up", "gone"), series("up", "kept")
	appendRound(t, s, start, []collector.Sample{sample(gone, 1), sample(kept, 1)})
	before := gone.Ref
	for m := time.Minute; m <= 8*time.Hour; m += time.Minute {
		appendRound(t, s, start.Add(m), []collector.Sample{sample(kept, 1)})
	}
	if err := s.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Series; n != 1 {
		t.Fatalf("%d series in memory after compaction, want 1: the test needs one to be gone", n)
	}
	at := start.Add(8*time.Hour + time.Minute)
	appendRound(t, s, at, []collector.Sample{sample(gone, 2), sample(kept, 3)})
	if gone.Ref == before {
		t.Error("the ref of a series that was collected was kept")
	}
	wantDiff(t, "points after", map[string]string{"gone": "8h1m0s:2", "kept": "8h1m0s:3"},
		scanAll(t, s.Scan, at, at.Add(time.Hour), matcher(t, "__name__", "up")))
	wantDiff(t, "points from blocks", map[string]string{"gone": "0s:1", "kept": "0s:1"},
		scanAll(t, s.Scan, start, start.Add(time.Minute), matcher(t, "__name__", "up")))
}

func TestRetentionOptions(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		in                  Options
		retention, maxBlock time.Duration
		size                int64
	}{
		"defaults":          {Options{}, 90 * day, 9 * day, 0},
		"two years":         {Options{RetentionTime: 730 * day}, 730 * day, 31 * day, 0},
		"five hours":        {Options{RetentionTime: 5 * time.Hour}, 5 * time.Hour, time.Hour, 0},
		"limited by a size": {Options{RetentionSize: 1 << 30}, 90 * day, 9 * day, 1 << 30},
	} {
		tc.in.Dir = "x"
		if err := tc.in.complete(); err != nil {
			t.Fatal(err)
		}
		got := tsdbOptions(tc.in)
		if got.RetentionDuration != tc.retention.Milliseconds() || got.MaxBlockDuration != tc.maxBlock.Milliseconds() || got.MaxBytes != tc.size {
			t.Errorf("%s: retention %d ms, longest block %d ms, size %d", name, got.RetentionDuration, got.MaxBlockDuration, got.MaxBytes)
		}
		if got.MinBlockDuration != 3_600_000 || got.WALCompression != "snappy" {
			t.Errorf("%s: shortest block %d ms, WAL compression %q", name, got.MinBlockDuration, got.WALCompression)
		}
	}
}

func TestRetentionDropsOldBlocks(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir(), RetentionTime: 4 * time.Hour})
	up := series("up", "a")
	for m := time.Duration(0); m <= 24*time.Hour; m += 5 * time.Minute {
		appendRound(t, s, start.Add(m), []collector.Sample{sample(up, 1)})
		if m%(2*time.Hour) == 0 {
			if err := s.db.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if oldest := s.Stats().Oldest; oldest.Before(start.Add(12 * time.Hour)) {
		t.Errorf("the oldest sample is of %s, want the last few hours before %s", oldest, start.Add(24*time.Hour))
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	for name, tc := range map[string]struct {
		o    Options
		want string
	}{
		"no folder":           {Options{}, "set --storage.path"},
		"negative retention":  {Options{Dir: empty, RetentionTime: -1}, "must not be negative"},
		"a file":              {Options{Dir: file}, "is a file, not a folder"},
		"below a file":        {Options{Dir: filepath.Join(file, "x")}, "is below a file"},
		"not there, to read":  {Options{Dir: filepath.Join(empty, "x"), ReadOnly: true}, "does not exist"},
		"empty, to read":      {Options{Dir: empty, ReadOnly: true}, "holds no history"},
		"a file, to read":     {Options{Dir: file, ReadOnly: true}, "is a file, not a folder"},
		"nothing can be made": {Options{Dir: "/proc/kvwatch-test"}, "storage path /proc/kvwatch-test"},
	} {
		s, err := Open(tc.o)
		if err == nil {
			t.Errorf("%s: opened", name)
			_ = s.Close()
			continue
		}
		if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %q does not say %q", name, err, tc.want)
		}
		if s != nil {
			t.Errorf("%s: a Store came with the error", name)
		}
	}
}

func TestExplainSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		syscall.ENOSPC: "storage path /d is full; free some space",
		syscall.EDQUOT: "storage path /d is full",
		syscall.EACCES: "storage path /d is not writable; change its owner",
		syscall.EROFS:  "storage path /d is not writable",
		syscall.EIO:    "storage path /d cannot be used",
	} {
		wrapped := fmt.Errorf("write to WAL: %w", &os.PathError{Op: "write", Path: "/d/wal", Err: err})
		got := explain("/d", wrapped)
		if !strings.HasPrefix(got.Error(), want) || !errors.Is(got, err) {
			t.Errorf("%v: got %q", err, got)
		}
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	_, err := Open(Options{Dir: dir})
	if err == nil {
		t.Fatal("opened twice")
	}
	for _, want := range []string{dir, "in use by another kvwatch", fmt.Sprintf("pid %d", os.Getpid()), "--storage.path"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Dir: dir}) // free again
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	up := series("up", "a")
	appendRound(t, s, start, []collector.Sample{sample(up, 1)})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), start, []collector.Sample{sample(up, 1)}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if err := s.Scan(t.Context(), start, start.Add(time.Hour), nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("scan: %v", err)
	}
	if st := s.Stats(); st.Appended != 1 {
		t.Errorf("stats: %+v", st)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestMetricsComeAndGoWithTheStore(t *testing.T) {
	t.Parallel()
	dir, reg := t.TempDir(), prometheus.NewPedanticRegistry()
	for range 2 { // a second Store may use the registry of a closed one
		s := open(t, Options{Dir: dir, Registerer: reg})
		if n, err := testutil.GatherAndCount(reg, "prometheus_tsdb_head_series"); err != nil || n != 1 {
			t.Errorf("got %d metrics, %v", n, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err := testutil.GatherAndCount(reg); err != nil || n != 0 {
			t.Errorf("%d metrics are left, %v", n, err)
		}
	}
}

func TestWriteFailureIsOvercome(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	s := open(t, Options{Dir: t.TempDir(), Registerer: reg})
	a, b := series("up", "a"), series("up", "b")
	appendRound(t, s, start, []collector.Sample{sample(a, 1), sample(b, 1)})
	failed := errors.New("the disk is full")
	s.fail(start, failed)

	at := start.Add(retryAfter / 2)
	if err := s.Append(t.Context(), at, []collector.Sample{sample(a, 1)}, nil); !errors.Is(err, failed) {
		t.Errorf("soon after: %v", err)
	}
	if got := query(t, s, "count(up)", at); got != 2 {
		t.Errorf("reading meanwhile: %v", got)
	}
	at = start.Add(retryAfter)
	q, err := s.Queryable().Querier(0, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), at, []collector.Sample{sample(a, 1)}, nil); !errors.Is(err, failed) {
		t.Errorf("while somebody reads: %v", err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	appendRound(t, s, at, []collector.Sample{sample(b, 2), sample(a, 3)})
	wantDiff(t, "points", map[string]string{"a": "0s:1 1m0s:3", "b": "0s:1 1m0s:2"},
		scanAll(t, s.Scan, start, start.Add(time.Hour), matcher(t, "__name__", "up")))
	if n, err := testutil.GatherAndCount(reg, "prometheus_tsdb_head_series"); err != nil || n != 1 {
		t.Errorf("got %d metrics, %v", n, err)
	}
}

func TestLeftoversOfKilledReaders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	scratch := filepath.Join(dir, "tmp_dbro_sandbox123", "chunks_head")
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Dir: dir})
	if left, _ := filepath.Glob(filepath.Join(dir, "tmp_*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestDamagedLogIsRepairedAndReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	up := series("up", "a")
	for i := range 200 {
		appendRound(t, s, start.Add(time.Duration(i)*time.Second), []collector.Sample{sample(up, float64(i))})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	segment := filepath.Join(dir, "wal", "00000000")
	b, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	const damage = 3000 // well past the first rounds, well before the last
	for i := damage; i < damage+100; i++ {
		b[i] ^= 0xff
	}
	if err := os.WriteFile(segment, b, 0o600); err != nil {
		t.Fatal(err)
	}

	var logged bytes.Buffer
	s = open(t, Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if n := s.Stats().Repairs; n != 1 {
		t.Errorf("%d repairs, want 1", n)
	}
	if !strings.Contains(logged.String(), "has been repaired") {
		t.Errorf("the log does not tell of the repair:\n%s", &logged)
	}
	n := 0
	err = s.Scan(t.Context(), start, start.Add(time.Hour), matcher(t, "__name__", "up"), func(_ labels.Labels, points []Point) error {
		n += len(points)
		return nil
	})
	if err != nil || n == 0 || n == 200 {
		t.Errorf("%d of 200 points after the repair, %v", n, err)
	}
	appendRound(t, s, start.Add(time.Hour), []collector.Sample{sample(up, 1)})
}

func TestReadOnlyBesideTheDaemon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	live := open(t, Options{Dir: dir})
	up := series("up", "a")
	for m := time.Duration(0); m <= 6*time.Hour; m += 5 * time.Minute {
		appendRound(t, live, start.Add(m), []collector.Sample{sample(up, m.Minutes())})
	}
	if err := live.db.Compact(t.Context()); err != nil { // some in blocks, some in the log
		t.Fatal(err)
	}
	ro := open(t, Options{Dir: dir, ReadOnly: true})
	end := start.Add(12 * time.Hour)
	count := func() (n int) {
		err := ro.Scan(t.Context(), start, end, matcher(t, "__name__", "up"), func(_ labels.Labels, points []Point) error {
			n += len(points)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 73 {
		t.Errorf("%d points, want 73", n)
	}
	appendRound(t, live, start.Add(7*time.Hour), []collector.Sample{sample(up, 420)})
	if n := count(); n != 74 {
		t.Errorf("%d points after one more round of the daemon, want 74", n)
	}
	if got := query(t, ro, "up", start.Add(7*time.Hour)); got != 420 {
		t.Errorf("query: %v", got)
	}
	if err := ro.Append(t.Context(), end, nil, nil); !errors.Is(err, ErrReadOnly) {
		t.Errorf("append: %v", err)
	}
	if st := ro.Stats(); !st.Oldest.Equal(start) {
		t.Errorf("stats: %+v", st)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "tmp_*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPromQL(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	c := series("vllm:prompt_tokens_total", "a")
	for i := range 41 {
		appendRound(t, s, start.Add(time.Duration(i)*15*time.Second), []collector.Sample{sample(c, float64(i)*30)})
	}
	if got := query(t, s, `rate({__name__="vllm:prompt_tokens_total"}[5m])`, start.Add(10*time.Minute)); math.Abs(got-2) > 1e-9 {
		t.Errorf("rate %v, want 2 a second", got)
	}
}

func query(t testing.TB, s *Store, expr string, at time.Time) float64 {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{}),
	})
	t.Cleanup(func() { _ = engine.Close() })
	q, err := engine.NewInstantQuery(t.Context(), s.Queryable(), nil, expr, at)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	v, err := q.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	if len(v) != 1 {
		t.Fatalf("%s at %s: %v", expr, at, v)
	}
	return v[0].F
}
