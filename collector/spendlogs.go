package collector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// SourceSpendLogs is LiteLLM's own table of calls in PostgreSQL.
const SourceSpendLogs = "spend_logs"

const (
	// probeEvery is how often the table's columns are looked up again.
	probeEvery = 10 * time.Minute
	// connectTimeout bounds the way to a connection.
	connectTimeout = 5 * time.Second
	// mostBackoff is how long a log that cannot be read is left alone at most.
	mostBackoff = 10 * time.Minute
)

// SpendLogsStatus is what a person sees of a log of calls.
type SpendLogsStatus struct {
	// Name is that of the configuration, Address the server's host, port and database.
	Name, Address string
	State         State
	// Reason says what is wrong; Warning what is not right with a log that is
	// read all the same.
	Reason, Warning string
	Since, LastRead time.Time
	// Duration is how long the last read took.
	Duration time.Duration
	// Rows counts the calls that were read since the start, Newest is when the
	// last of them ended, and Lag how long before the last read that was: a log
	// without traffic lags too.
	Rows   uint64
	Newest time.Time
	Lag    time.Duration
	// TableRows is PostgreSQL's own estimate; 0 is unknown.
	TableRows uint64
}

// SpendLogsOptions is what SpendLogs are made of.
type SpendLogsOptions struct {
	Configs []SpendLogsConfig
	// Sink is given what every read yielded, also the failed ones; rounds of one
	// log come one after another.
	Sink func(ctx context.Context, round *CallRound)
	// Logger is told when a log changes its state; nil discards.
	Logger *slog.Logger
}

// SpendLogs reads the calls of LiteLLM gateways from their databases, each on
// its own schedule. It only ever reads.
type SpendLogs struct {
	sink   func(context.Context, *CallRound)
	logger *slog.Logger
	// seed makes session ids meaningless outside of this process.
	seed  maphash.Seed
	loops sync.WaitGroup

	// mu protects what follows.
	mu      sync.Mutex
	ctx     context.Context // of Run
	readers map[string]*spendReader
}

// NewSpendLogs makes readers; nothing is contacted before Run.
func NewSpendLogs(o SpendLogsOptions) (*SpendLogs, error) {
	if o.Sink == nil {
		return nil, errors.New("spend_logs: no sink given")
	}
	s := &SpendLogs{
		sink: o.Sink, logger: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		seed: maphash.MakeSeed(), readers: map[string]*spendReader{},
	}
	return s, s.Reload(o.Configs)
}

// Run reads until ctx ends.
func (s *SpendLogs) Run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	for _, r := range s.readers {
		s.start(r)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.ctx = nil
	s.mu.Unlock()
	s.loops.Wait()
	return nil
}

// start begins a reader's loop, once there is a Run.
func (s *SpendLogs) start(r *spendReader) {
	if s.ctx == nil || s.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	r.stop = cancel
	s.loops.Go(func() { r.run(ctx) })
}

// Reload takes other entries. A log that keeps its name goes on where it was;
// a failed reload changes nothing.
func (s *SpendLogs) Reload(configs []SpendLogsConfig) error {
	configs = slices.Clone(configs)
	if err := CheckSpendLogs(configs); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[string]bool{}
	for i := range configs {
		c := &configs[i]
		wanted[c.Name] = true
		if r := s.readers[c.Name]; r != nil {
			r.reconfigure(c)
			continue
		}
		r := newSpendReader(c, s)
		s.readers[c.Name] = r
		s.start(r)
	}
	for name, r := range s.readers {
		if !wanted[name] {
			if r.stop != nil {
				r.stop()
			}
			delete(s.readers, name)
		}
	}
	return nil
}

// Status lists the logs in order of name.
func (s *SpendLogs) Status() []SpendLogsStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]SpendLogsStatus, 0, len(s.readers))
	for _, name := range slices.Sorted(maps.Keys(s.readers)) {
		all = append(all, s.readers[name].told())
	}
	return all
}

// Targets lists the logs as targets are listed.
func (s *SpendLogs) Targets() []TargetStatus {
	var all []TargetStatus
	for _, st := range s.Status() {
		all = append(all, TargetStatus{
			Job: SourceSpendLogs, Instance: st.Name, URL: "postgres://" + st.Address, Source: SourceSpendLogs,
			State: st.State, Reason: st.Reason, Since: st.Since, LastScrape: st.LastRead, Duration: st.Duration,
			Samples: int(min(st.Rows, math.MaxInt)), Warning: st.Warning,
		})
	}
	return all
}

// spendReader reads one log.
type spendReader struct {
	sink   func(context.Context, *CallRound)
	logger *slog.Logger
	seed   maphash.Seed
	stop   context.CancelFunc

	// What follows belongs to the loop.
	used     *SpendLogsConfig // the settings that conn was made with
	conn     *pgx.Conn
	schema   string
	address  string // host:port/database
	host     string // host:port
	table    *spendTable
	from     time.Time        // the first read's beginning
	high     time.Time        // when the newest call that was read began
	seen     map[uint64]int64 // hash of request_id to when it began, in Unix milliseconds
	forgetAt int              // how many of them are too many while catching up
	names    interned
	calls    []Call
	failures int

	// mu protects what others read.
	mu     sync.Mutex
	config *SpendLogsConfig
	status SpendLogsStatus
}

func newSpendReader(c *SpendLogsConfig, s *SpendLogs) *spendReader {
	return &spendReader{
		sink: s.sink, logger: s.logger, seed: s.seed, seen: map[uint64]int64{},
		config: c, status: SpendLogsStatus{Name: c.Name, State: StateUnknown},
	}
}

func (r *spendReader) reconfigure(c *SpendLogsConfig) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.config = c
}

func (r *spendReader) settings() *SpendLogsConfig {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.config
}

func (r *spendReader) told() SpendLogsStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// run polls until ctx ends.
func (r *spendReader) run(ctx context.Context) {
	defer r.disconnect()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-timer.C:
			r.poll(ctx, now)
			timer.Reset(r.pause())
		}
	}
}

// pause is the time to the next read: longer after each failure in a row.
func (r *spendReader) pause() time.Duration {
	interval := time.Duration(r.settings().Interval)
	if r.failures == 0 {
		return interval
	}
	return max(min(interval<<min(r.failures-1, 10), mostBackoff), interval)
}

// poll reads what is new at now and hands it on. A connection that died while
// it was idle is made again at once.
func (r *spendReader) poll(ctx context.Context, now time.Time) {
	began := time.Now()
	idle := r.conn != nil
	err := r.read(ctx, now)
	if err != nil && idle && r.conn == nil && ctx.Err() == nil {
		err = r.read(ctx, now)
	}
	if ctx.Err() != nil {
		return // we were told to stop; the log is not to blame
	}
	round := CallRound{Source: r.used.Name, Time: now, From: r.from, State: StateUp}
	if err == nil {
		r.failures = 0
	} else {
		f := explainDatabase(err, r.host, r.used.Table, time.Duration(r.used.Timeout))
		round.State, round.Reason = f.state, f.reason
		r.failures++
	}
	r.tell(round.State, round.Reason, now, time.Since(began))
	r.sink(ctx, &round)
}

// tell notes how the read went, and logs a change of state.
func (r *spendReader) tell(state State, reason string, now time.Time, took time.Duration) {
	r.mu.Lock()
	st := &r.status
	changed := st.State != state
	if changed {
		st.State, st.Since = state, now
	}
	st.Reason, st.LastRead, st.Duration, st.Address = reason, now, took, r.address
	if !st.Newest.IsZero() {
		st.Lag = max(now.Sub(st.Newest), 0)
	}
	st.Warning, st.TableRows = "", 0
	if r.table != nil {
		st.Warning, st.TableRows = r.table.warning(), uint64(max(r.table.rows, 0))
	}
	warning := st.Warning
	r.mu.Unlock()
	switch {
	case changed && state == StateUp:
		r.logger.Info("a log of calls is read", "spend_logs", r.used.Name, "warning", warning)
	case changed:
		r.logger.Warn("a log of calls cannot be read", "spend_logs", r.used.Name, "state", state, "reason", reason)
	}
}

// warning says what a table that can be read lacks.
func (t *spendTable) warning() string {
	var ws []string
	if len(t.forbidden) > 0 {
		ws = append(ws, fmt.Sprintf("the role may not read %s", list(t.forbidden)))
	}
	if len(t.missing) > 0 {
		ws = append(ws, fmt.Sprintf("there is no %s", list(t.missing)))
	}
	if t.columns["metadata"] == "" && t.columns["cached_tokens"] == "" {
		ws = append(ws, "without metadata nothing tells the cached tokens")
	}
	if !t.indexed {
		ws = append(ws, "no index begins with startTime: each read scans the table")
	}
	return strings.Join(ws, "; ")
}

// read reads page by page what is new.
func (r *spendReader) read(ctx context.Context, now time.Time) error {
	if err := r.connect(ctx, now); err != nil {
		return err
	}
	if r.from.IsZero() {
		r.from = now.Add(-time.Duration(r.used.Lookback)).UTC()
	}
	begin := r.begin(now)
	r.forget(begin)
	at := spendKey{start: begin}
	for {
		began := time.Now()
		next, more, err := r.page(ctx, now, at)
		if err != nil {
			r.afterFailure()
			return err
		}
		if !more {
			return nil
		}
		at = next
		if len(r.seen) > r.forgetAt {
			r.forget(r.begin(now))
		}
		// Catching up takes no more than half of the time of one connection.
		if err := rest(ctx, min(time.Since(began), time.Second)); err != nil {
			return err
		}
	}
}

// rest waits, or until ctx ends.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// begin is from when on calls are looked for: those that take long appear after
// others that began later.
func (r *spendReader) begin(now time.Time) time.Time {
	if r.high.IsZero() {
		return r.from
	}
	newest := r.high
	if newest.After(now) { // a gateway's clock runs ahead of ours
		newest = now.UTC()
	}
	begin := newest.Add(-time.Duration(r.used.Overlap))
	if begin.Before(r.from) {
		return r.from
	}
	return begin
}

// forget drops what no read will meet again.
func (r *spendReader) forget(begin time.Time) {
	oldest := begin.UnixMilli()
	maps.DeleteFunc(r.seen, func(_ uint64, start int64) bool { return start < oldest })
	r.forgetAt = 2*len(r.seen) + 2*r.used.PageSize
}

// connect makes a connection where there is none, or where the settings
// changed, and looks at the table.
func (r *spendReader) connect(ctx context.Context, now time.Time) error {
	if c := r.settings(); c != r.used {
		r.disconnect()
		r.used = c
	}
	if r.conn == nil {
		if err := r.dial(ctx); err != nil {
			return err
		}
	}
	if r.table != nil && now.Sub(r.table.probed) < probeEvery {
		return nil
	}
	var found *spendTable
	err := r.inTransaction(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		found, err = probe(ctx, tx, r.used, r.schema)
		return err
	})
	if err != nil {
		r.afterFailure()
		return err
	}
	found.probed = now
	r.table = found
	return nil
}

// dial connects to the server.
func (r *spendReader) dial(ctx context.Context) error {
	r.host, r.address, r.schema = "the database", "", r.used.Schema
	dsn, err := r.used.address()
	if err != nil {
		return addressError{err.Error()}
	}
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		// The error quotes the string, with all that is in it.
		return addressError{"the dsn is no connection string of PostgreSQL: write postgres://user:password@host:5432/database, special characters percent-encoded"}
	}
	r.host = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	r.address = r.host + "/" + c.Database
	if schema := c.RuntimeParams["schema"]; r.schema == "" {
		r.schema = schema
	}
	// What LiteLLM's own client has in its address is no setting of the server.
	for _, key := range []string{
		"schema", "connection_limit", "pool_timeout", "pgbouncer", "sslaccept", "sslidentity", "socket_timeout", "statement_cache_size",
	} {
		delete(c.RuntimeParams, key)
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "kvwatch"
	}
	// A pooler in transaction mode knows no prepared statements.
	c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	c.ConnectTimeout = connectTimeout
	ctx, cancel := context.WithTimeout(ctx, 2*connectTimeout)
	defer cancel()
	r.conn, err = pgx.ConnectConfig(ctx, c)
	return err
}

// afterFailure drops a connection that died, and what was known of the table:
// it may have changed.
func (r *spendReader) afterFailure() {
	r.table = nil
	if r.conn != nil && r.conn.IsClosed() {
		r.conn = nil
	}
}

// disconnect closes the connection.
func (r *spendReader) disconnect() {
	if r.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = r.conn.Close(ctx) // what failed to close is closed
	}
	r.conn, r.table = nil, nil
}

// inTransaction runs f in a short transaction that may only read.
func (r *spendReader) inTransaction(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	timeout := time.Duration(r.used.Timeout)
	// The server keeps to its timeout; this one is for a server that is gone.
	ctx, cancel := context.WithTimeout(ctx, 3*timeout+connectTimeout)
	defer cancel()
	return pgx.BeginTxFunc(ctx, r.conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, settings(timeout)); err != nil {
			return err
		}
		return f(ctx, tx)
	})
}

// spendKey is a place in the order in which the table is read.
type spendKey struct {
	start time.Time
	id    string
}

// page reads the rows after a key that were not read yet, hands them on, and
// tells where the next page begins.
func (r *spendReader) page(ctx context.Context, now time.Time, after spendKey) (next spendKey, more bool, err error) {
	r.calls = r.calls[:0]
	next = after
	var read map[uint64]int64
	err = r.inTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		keys, err := r.keys(ctx, tx, after)
		if err != nil {
			return err
		}
		if more = len(keys) == r.used.PageSize; len(keys) > 0 {
			next = keys[len(keys)-1]
		}
		read, err = r.details(ctx, tx, keys)
		return err
	})
	if err != nil {
		return after, false, err
	}
	maps.Copy(r.seen, read)
	if next.start.After(r.high) && next != after {
		r.high = next.start
	}
	if len(r.calls) == 0 {
		return next, more, nil
	}
	r.count()
	r.sink(ctx, &CallRound{Source: r.used.Name, Time: now, From: r.from, State: StateUp, Calls: r.calls, More: more})
	return next, more, nil
}

// count notes the calls of a page in the status.
func (r *spendReader) count() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Rows += uint64(len(r.calls))
	for i := range r.calls {
		if end := r.calls[i].End; end.After(r.status.Newest) {
			r.status.Newest = end
		}
	}
}

// keys reads the next keys in order: index entries alone, so that looking for
// late rows costs little.
func (r *spendReader) keys(ctx context.Context, tx pgx.Tx, after spendKey) ([]spendKey, error) {
	rows, err := tx.Query(ctx, r.table.keys, after.start.UTC().Format(sqlTime), after.id, r.used.PageSize)
	if err != nil {
		return nil, err
	}
	var k spendKey
	var keys []spendKey
	_, err = pgx.ForEachRow(rows, []any{&k.start, &k.id}, func() error {
		keys = append(keys, spendKey{k.start.UTC(), k.id})
		return nil
	})
	return keys, err
}

// details reads the rows of the keys that were not seen yet into r.calls.
func (r *spendReader) details(ctx context.Context, tx pgx.Tx, keys []spendKey) (read map[uint64]int64, err error) {
	read = map[uint64]int64{}
	fresh := keys[:0]
	for _, k := range keys {
		hash := maphash.String(r.seed, k.id)
		if _, ok := r.seen[hash]; !ok {
			fresh = append(fresh, k)
			read[hash] = k.start.UnixMilli()
		}
	}
	if len(fresh) == 0 {
		return read, nil
	}
	ids := make([]string, len(fresh))
	for i, k := range fresh {
		ids[i] = k.id
	}
	rows, err := tx.Query(ctx, r.table.details, fresh[0].start.Format(sqlTime), fresh[len(fresh)-1].start.Format(sqlTime), ids)
	if err != nil {
		return nil, err
	}
	var row spendRow
	_, err = pgx.ForEachRow(rows, row.into(), func() error {
		r.calls = append(r.calls, row.call(r.seed, &r.names))
		return nil
	})
	return read, err
}
