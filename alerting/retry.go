package alerting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// attemptTimeout bounds one request to a receiver.
	attemptTimeout = 20 * time.Second
	// stopGrace is how long a request that is under way may take when the
	// daemon is asked to stop. Cutting it off would leave it open whether the
	// message arrived.
	stopGrace = 5 * time.Second
	// firstBackoff, lastBackoff bound the wait after failures in a row.
	firstBackoff = time.Second
	lastBackoff  = time.Minute
	// longestRetryAfter bounds what a server may ask for.
	longestRetryAfter = time.Hour
)

// sender tells one integration of one receiver, one message after another. It
// queues incidents, not messages: what goes out is the incident's state at that
// moment, so that a newer state takes the place of an older one, and a receiver
// that is down for hours costs one queue entry for each incident.
type sender struct {
	id     string // receiver/kind/index
	name   string // of the receiver
	logger *slog.Logger
	d      *Dispatcher
	wake   chan struct{}
	// pictures wait to be drawn and added; gone is closed when the sender is stopped.
	pictures chan picture
	gone     chan struct{}

	health health

	// busy is held during a request.
	busy sync.Mutex

	// mu protects what follows.
	mu        sync.Mutex
	receiver  Receiver
	traits    traits
	queue     []string
	queued    map[string]bool // what is in queue
	unwritten map[string]bool // what is in queue and may not be in the log yet
	failures  int
	notBefore time.Time
	stopped   bool
}

// replace takes the receiver that a new configuration made. The queue stays.
func (s *sender) replace(r Receiver, t traits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receiver, s.traits = r, t
	// The new settings may be the cure.
	s.failures, s.notBefore = 0, time.Time{}
	s.health.reset()
}

// stop ends the sender after the request that is under way.
func (s *sender) stop() {
	s.mu.Lock()
	s.stopped, s.queue, s.queued, s.unwritten = true, nil, nil, nil
	s.mu.Unlock()
	close(s.gone)
	s.poke()
}

// enqueue asks for an incident to be told.
func (s *sender) enqueue(group string) {
	s.mu.Lock()
	s.push(group)
	s.mu.Unlock()
	s.poke()
}

// push puts an incident at the end of the queue, once. The caller holds mu.
func (s *sender) push(group string) {
	if !s.stopped && !s.queued[group] {
		s.queue = append(s.queue, group)
		s.queued[group], s.unwritten[group] = true, true
	}
}

func (s *sender) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take returns the next incident when it is time for it.
func (s *sender) take(now time.Time) (group string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 || s.wait(now) > 0 {
		return "", false
	}
	group, s.queue = s.queue[0], s.queue[1:]
	delete(s.queued, group)
	delete(s.unwritten, group)
	return group, true
}

// wait returns how long the sender has to pause. A pause longer than any that
// is given is the mark of a clock that was set back.
func (s *sender) wait(now time.Time) time.Duration {
	if d := s.notBefore.Sub(now); d <= longestRetryAfter {
		return d
	}
	return 0
}

// run sends what is queued until ctx ends or the sender is stopped.
func (s *sender) run(ctx context.Context, clock func() time.Time) {
	for {
		s.drain(ctx, clock)
		s.mu.Lock()
		stopped, pause := s.stopped, time.Hour
		if len(s.queue) > 0 {
			pause = max(s.wait(clock()), 0)
		}
		s.mu.Unlock()
		if stopped {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// drain tells all incidents that are due.
func (s *sender) drain(ctx context.Context, clock func() time.Time) {
	for more := true; more && ctx.Err() == nil; {
		more = s.step(ctx, clock())
	}
	s.writeDown(clock())
}

// writeDown keeps the incidents that wait out a pause in the log, as if they had
// been tried: one that ends before its turn comes is told all the same, also after
// a crash.
func (s *sender) writeDown(now time.Time) {
	s.busy.Lock()
	defer s.busy.Unlock()
	s.mu.Lock()
	var waiting []string
	if s.wait(now) > 0 {
		waiting = sortedNames(s.unwritten)
		clear(s.unwritten)
	}
	s.mu.Unlock()
	for _, key := range waiting {
		v, ok := s.d.begin(key, now)
		if !ok {
			continue
		}
		q := question{now: now, view: v, known: s.d.log.get(logKey{key, s.id}), traits: s.traitsNow()}
		if reason := q.reason(); reason != ReasonNone && !q.open() {
			s.d.log.intent(logKey{key, s.id}, v.labels, delivered{At: now, NotifiedAt: now, Reason: reason, Alerts: v.alerts}, true)
		}
		s.d.end(key)
	}
}

// step tells the next incident that is due, if there is one.
func (s *sender) step(ctx context.Context, now time.Time) (more bool) {
	s.busy.Lock()
	defer s.busy.Unlock()
	key, ok := s.take(now)
	if !ok {
		return false
	}
	v, ok := s.d.begin(key, now)
	if !ok {
		s.health.drop(key)
		return true
	}
	defer s.d.end(key)
	q := question{now: now, view: v, known: s.d.log.get(logKey{key, s.id}), traits: s.traitsNow()}
	if reason := q.reason(); reason != ReasonNone {
		s.send(ctx, q, v, reason)
	} else {
		s.health.drop(key)
	}
	return true
}

func (s *sender) traitsNow() traits {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.traits
}

func (s *sender) receiverNow() Receiver {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.receiver
}

// send writes the intent, makes the request and writes the outcome.
func (s *sender) send(ctx context.Context, q question, v view, reason Reason) {
	k := logKey{v.key, s.id}
	d := delivered{At: q.now, NotifiedAt: q.now, Reason: reason, Alerts: v.shown()}
	switch {
	case reason == ReasonSeverity:
		s.d.worsened(v, q.now)
		v.acknowledged = nil
	case reason.quiet():
		d.NotifiedAt = q.known.Sent.NotifiedAt
	}
	if v.acknowledged != nil {
		d.Acknowledged = v.acknowledged.At
	}
	if v.silence != nil {
		d.Silence = v.silence.ID
	}
	sequence, told := 0, map[string]bool{}
	if q.open() {
		sequence = q.known.Sequence
	}
	if q.open() && q.known.Sent != nil {
		told = firingKeys(q.known.Sent.Alerts)
	}
	s.d.log.intent(k, v.labels, d, !q.open())
	n := Notification{
		Receiver: s.name, GroupKey: v.key, GroupLabels: v.labels, Reason: reason, Sequence: sequence, Told: told,
		Alerts: d.Alerts, Now: q.now, ExternalURL: s.d.externalURL, Memory: memory{s.d.log, k, q.now},
		Acknowledged: v.acknowledged, Silenced: v.silence,
	}
	r := s.receiverNow()
	retry, err := attempt(ctx, s.d.timeout, func(bounded context.Context) (bool, error) { return r.Notify(bounded, n) })
	if err == nil {
		s.health.arrived(v.key)
	} else {
		s.health.failed(v.key, q.now, retry, err)
	}
	switch {
	case err == nil:
		s.d.log.outcome(k, q.now, nil)
		s.succeeded()
		s.addPicture(r, n)
	case retry:
		s.d.log.failing(k, err)
		s.retryLater(v.key, q.now, err)
	default:
		s.d.log.outcome(k, q.now, err)
		s.d.metrics.count(s.name, outcomeFailed)
		s.logger.Error("A notification was refused and is not sent again as it is; the incident is tried anew after its group_interval", "incident", v.key, "err", err)
	}
}

// attempt makes one bounded request. A receiver that panics has failed.
func attempt(ctx context.Context, timeout time.Duration, do func(ctx context.Context) (retry bool, err error)) (retry bool, err error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		grace := time.NewTimer(stopGrace)
		defer grace.Stop()
		select {
		case <-grace.C:
			cancel()
		case <-bounded.Done():
		}
	})()
	defer func() {
		if p := recover(); p != nil {
			retry, err = false, fmt.Errorf("the receiver panicked: %v", p)
		}
	}()
	return do(bounded)
}

func (s *sender) succeeded() {
	s.mu.Lock()
	recovered := s.failures > 0
	s.failures, s.notBefore = 0, time.Time{}
	s.mu.Unlock()
	s.d.metrics.count(s.name, outcomeSuccess)
	if recovered {
		s.logger.Info("The receiver takes notifications again")
	}
}

// retryLater puts the incident at the end of the queue, so that one that the
// receiver chokes on does not keep the others waiting, and pauses the sender.
func (s *sender) retryLater(group string, now time.Time, err error) {
	s.mu.Lock()
	s.failures++
	failures := s.failures
	pause := retryPause(failures, s.d.jitter(), err)
	s.notBefore = now.Add(pause)
	s.push(group)
	s.mu.Unlock()
	s.d.metrics.count(s.name, outcomeRetried)
	s.logger.Warn("A notification failed and will be tried again", "incident", group, "failures", failures, "pause", pause, "err", err)
}

// retryPause is the pause after a number of failures in a row, the last of which
// was err: at least what the server asked for.
func retryPause(failures int, jitter float64, err error) time.Duration {
	pause := backoff(failures, jitter)
	if asked, ok := errors.AsType[*RetryAfterError](err); ok {
		pause = max(pause, min(asked.After, longestRetryAfter))
	}
	return pause
}

// backoff returns the pause after a number of failures in a row: it doubles
// from a second to a minute, and jitter in [0, 1) takes up to half of it off.
func backoff(failures int, jitter float64) time.Duration {
	pause := lastBackoff
	if failures < 7 {
		pause = min(firstBackoff<<(failures-1), lastBackoff)
	}
	return pause - time.Duration(jitter*float64(pause)/2)
}
