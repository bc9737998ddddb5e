package collector

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// failure is why a round has no page.
type failure struct {
	state  State
	reason string
}

// rounds makes the rounds of one target out of its pages and failures. Live
// scrapes and recordings share it. It is not safe for concurrent use.
type rounds struct {
	target *Target
	limits Limits
	reader *pageReader
	up     *Series
	round  Round
	// desks lends what a page is read at to one target after another.
	desks *sync.Pool // of *desk
	// down holds the one sample of a failed round.
	down [1]Sample
}

func newRounds(t Target, limits Limits) *rounds {
	return &rounds{
		target: &t,
		limits: limits,
		reader: newReaderOf(t, limits),
		desks:  &sync.Pool{},
		up:     &Series{Labels: labels.NewBuilder(t.Labels).Set(model.MetricNameLabel, Up).Labels()},
	}
}

// newReaderOf gives the page reader a target of its own: the one in the rounds
// is shared with whoever was handed a round, and never changes.
func newReaderOf(t Target, limits Limits) *pageReader { return newPageReader(&t, limits) }

// page makes a round of a body. Where reading the body itself fails, explain
// says why. The round is valid until the next call, or done.
func (r *rounds) page(body io.Reader, contentType string, at time.Time, explain func(error) failure) (*Round, pageInfo) {
	r.sit()
	watched := &watchedBody{body: body}
	got := guarded(func() readPage { return newReadPage(r.reader.read(watched, contentType, at)) })
	if watched.err != nil {
		return r.failed(explain(watched.err), at), got.info
	}
	return r.take(got, at)
}

// sit has the reader take a desk, unless it still has one.
func (r *rounds) sit() {
	if r.reader.desk != nil {
		return
	}
	d, _ := r.desks.Get().(*desk)
	if d == nil {
		d = newDesk()
	}
	r.reader.sit(d)
}

// done says that nobody needs the last round any more: others may have its desk.
func (r *rounds) done() {
	r.round = Round{}
	if d := r.reader.desk; d != nil {
		r.reader.sit(nil)
		r.desks.Put(d)
	}
}

// readPage is what the reader gives of a page.
type readPage struct {
	yield yield
	info  pageInfo
	err   error
}

func newReadPage(y yield, info pageInfo, err error) readPage { return readPage{y, info, err} }

// take makes a round of a page that was read, well or not.
func (r *rounds) take(got readPage, at time.Time) (*Round, pageInfo) {
	info := got.info
	if got.err != nil {
		return r.failed(pageFailure(got.err), at), info
	}
	if info.Source != "" && info.Source != r.target.Source {
		recognised := *r.target
		recognised.Source = info.Source
		r.target = &recognised
	}
	r.round = Round{
		Target: r.target, Time: at, State: StateUp, Sampled: info.Sampled,
		Samples: append(got.yield.samples, Sample{Series: r.up, Value: 1}), Histograms: got.yield.histograms, Stale: got.yield.stale,
	}
	return &r.round, info
}

// failed makes a round of a failure.
func (r *rounds) failed(f failure, at time.Time) *Round {
	r.down[0] = Sample{Series: r.up, Value: 0}
	r.round = Round{Target: r.target, Time: at, State: f.state, Reason: f.reason, Samples: r.down[:], Stale: r.lose()}
	return &r.round
}

// gone makes the last round of a target that is no longer one.
func (r *rounds) gone(at time.Time) *Round {
	r.round = Round{
		Target: r.target, Time: at, State: StateUnknown, Reason: "no longer a target",
		Stale: append(r.lose(), r.up),
	}
	return &r.round
}

// guarded turns a panic of the reader into an error: a page must not take the
// other targets down.
func guarded(read func() readPage) (got readPage) {
	defer func() {
		if p := recover(); p != nil {
			got = readPage{err: &panicError{value: p, stack: stack()}}
		}
	}()
	return read()
}

// lose is the reader's; a reader that panics is replaced.
func (r *rounds) lose() (stale []*Series) {
	defer func() {
		if p := recover(); p != nil {
			stale, r.reader = nil, newReaderOf(*r.target, r.limits)
		}
	}()
	return r.reader.lose()
}

// pageFailure says what a reader's error means.
func pageFailure(err error) failure {
	if page, ok := errors.AsType[*PageError](err); ok {
		return failure{page.State, page.Reason}
	}
	if p, ok := errors.AsType[*panicError](err); ok {
		return failure{StateNotMetrics, "kvwatch itself failed on this page, please report it: " + p.Error()}
	}
	return failure{StateNotMetrics, "the page cannot be read: " + err.Error()}
}

// panicError is a panic while reading a page. The value is told only where it
// comes from the runtime: any other could quote the page.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string {
	if err, ok := e.value.(runtime.Error); ok {
		return fmt.Sprintf("%v at %s", err, e.stack)
	}
	return "panic at " + e.stack
}

// stack names the function that panicked, file and line.
func stack() string {
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		if f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf("%s:%d", f.Function, f.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}

// watchedBody remembers the error that ended a body, so that a broken
// connection is told from a bad page.
type watchedBody struct {
	body io.Reader
	err  error
}

// Read implements io.Reader.
func (w *watchedBody) Read(b []byte) (int, error) {
	n, err := w.body.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}
