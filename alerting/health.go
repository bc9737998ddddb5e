package alerting

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"kvwatch/rules"
)

// health is how the requests of one integration go: what could not be told since
// when. It is told by what asks for a request, not by the last request alone: an
// incident that is refused for good beside others that arrive is not told either.
type health struct {
	mu    sync.Mutex
	tried bool
	// unheard holds since when each incident cannot be told.
	unheard map[string]time.Time
	// moot is since when what need not be told any more could not be told, zero
	// when something arrived since: an outage is not over because the incidents of
	// its time are.
	moot     time.Time
	failures int
	refused  bool
	text     string
}

// failed notes a request about an incident that failed.
func (h *health) failed(incident string, now time.Time, retry bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unheard == nil {
		h.unheard = map[string]time.Time{}
	}
	if since, known := h.unheard[incident]; !known || since.After(now) {
		h.unheard[incident] = now
	}
	h.tried, h.refused, h.text = true, !retry, err.Error()
	h.failures++
}

// arrived notes a request about an incident that arrived.
func (h *health) arrived(incident string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried, h.failures, h.moot = true, 0, time.Time{}
	delete(h.unheard, incident)
}

// drop notes that there is nothing to tell of an incident any more.
func (h *health) drop(incident string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	since, failed := h.unheard[incident]
	if !failed {
		return
	}
	delete(h.unheard, incident)
	if h.moot.IsZero() || since.Before(h.moot) {
		h.moot = since
	}
}

// reset forgets everything: other settings may be the cure.
func (h *health) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried, h.unheard, h.moot, h.failures = false, nil, time.Time{}, 0
}

// status returns it as the rules take it. queued are the incidents that wait for
// their turn; those that could not be told wait as well.
func (h *health) status(receiver, integration string, queued map[string]bool) rules.ReceiverHealth {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := rules.ReceiverHealth{
		Receiver: receiver, Integration: integration, Tried: h.tried, FailingSince: h.moot, Failures: h.failures, Waiting: len(queued),
	}
	for incident, since := range h.unheard {
		if out.FailingSince.IsZero() || since.Before(out.FailingSince) {
			out.FailingSince = since
		}
		if !queued[incident] {
			out.Waiting++
		}
	}
	if !out.FailingSince.IsZero() {
		out.Refused, out.Error = h.refused, h.text
	}
	return out
}

// failing says whether something cannot be told.
func (h *health) failing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.unheard) > 0 || !h.moot.IsZero()
}

// status says how the sender's requests go.
func (s *sender) status() rules.ReceiverHealth {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.status(s.name, strings.TrimPrefix(s.id, s.name+"/"), s.queued)
}

// Receivers says how the requests to each integration of each receiver go, and to
// each Alertmanager.
func (d *Dispatcher) Receivers() []rules.ReceiverHealth {
	d.mu.Lock()
	out := make([]rules.ReceiverHealth, 0, len(d.senders))
	for _, s := range d.senders {
		out = append(out, s.status())
	}
	d.mu.Unlock()
	out = append(out, d.pushes.status()...)
	slices.SortFunc(out, func(a, b rules.ReceiverHealth) int {
		return cmp.Or(strings.Compare(a.Receiver, b.Receiver), strings.Compare(a.Integration, b.Integration))
	})
	return out
}
