package rules

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// ReceiverHealth is how the requests to one integration of a receiver go.
type ReceiverHealth struct {
	// Receiver is its name in the configuration, Integration its kind and place
	// in the list of that kind, "slack/0"; an Alertmanager's address.
	Receiver, Integration string
	// Tried says that a request went out since the start or the last reload.
	Tried bool
	// FailingSince is when the first request failed that nothing made good
	// since; zero while requests arrive.
	FailingSince time.Time
	// Failures are the requests that failed since one arrived.
	Failures int
	// Waiting are the incidents that it was not told of.
	Waiting int
	// Refused says that the last request was refused for good.
	Refused bool
	// Error is why the last request failed.
	Error string
}

// receiverKey tells integrations apart.
type receiverKey struct{ receiver, integration string }

// receiver is an integration that is watched.
type receiver struct {
	health  ReceiverHealth
	watches []*watch
}

// ReceiverWindow is all that a rule may see of one integration at one instant.
type ReceiverWindow struct {
	now    time.Time
	health ReceiverHealth
}

// SetReceivers takes how the requests to receivers go. Those that are not among
// them any more are watched no longer.
func (e *Engine) SetReceivers(all []ReceiverHealth) {
	e.mu.Lock()
	defer e.mu.Unlock()
	there := map[receiverKey]bool{}
	for _, h := range all {
		key := receiverKey{h.Receiver, h.Integration}
		there[key] = true
		r := e.receivers[key]
		if r == nil {
			r = &receiver{health: h}
			e.receivers[key] = r
			e.watchReceiver(r)
		}
		r.health = h
	}
	for key, r := range e.receivers {
		if !there[key] {
			e.retire(e.instant(e.now), r.watches, "the configuration has the receiver no more")
			delete(e.receivers, key)
		}
	}
}

// watchReceiver gives an integration its watches.
func (e *Engine) watchReceiver(r *receiver) {
	subject := labels.FromStrings("receiver", r.health.Receiver, "integration", r.health.Integration)
	r.watches = e.watchesOf(func(a *Alerting, s *settings) *watch {
		if a.Receiver == nil {
			return nil
		}
		return watchOver(a, s, subject, a.Receiver(s), func(n instant) ReceiverWindow {
			return ReceiverWindow{now: n.now, health: r.health}
		})
	})
}

func (e *Engine) sortedReceivers() []*receiver {
	return slices.SortedFunc(maps.Values(e.receivers), func(a, b *receiver) int {
		return cmp.Or(strings.Compare(a.health.Receiver, b.health.Receiver), strings.Compare(a.health.Integration, b.health.Integration))
	})
}
