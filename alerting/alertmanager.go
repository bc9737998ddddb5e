package alerting

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"

	"kvwatch/rules"
)

const (
	// pushAgain is after how long an alert that fires is pushed again, so that an
	// Alertmanager that lost it learns of it.
	pushAgain = time.Minute
	// pushHolds is how long an Alertmanager goes by what was pushed; then it
	// takes the alert for resolved. Prometheus gives it four times pushAgain too.
	pushHolds = 4 * pushAgain
	// pushBatch bounds the alerts in one request, as in Prometheus.
	pushBatch = 256
	// pushedTo is the name of the Alertmanagers in kvwatch's own metrics.
	pushedTo = "alertmanagers"
)

// pushes keeps the alerts that Alertmanagers are told of: those that fire or
// resolved lately, as the rules last said. What an Alertmanager misses while it
// is down it is told when it is back, so nothing is queued.
//
// Prometheus's own package notifier is not used: it imports Alertmanager's API
// models with go-openapi, and drops what it cannot send.
type pushes struct {
	mu     sync.Mutex
	alerts map[string]rules.Alert // by key
	peers  map[string]*peer       // by address
}

// set takes all alerts, and wakes the peers.
func (p *pushes) set(alerts map[string]rules.Alert) {
	p.mu.Lock()
	p.alerts = alerts
	peers := slices.Collect(maps.Values(p.peers))
	p.mu.Unlock()
	for _, to := range peers {
		to.poke()
	}
}

// now returns the alerts, firing before resolved, the worst first.
func (p *pushes) now() []rules.Alert {
	p.mu.Lock()
	out := slices.Collect(maps.Values(p.alerts))
	p.mu.Unlock()
	slices.SortFunc(out, compareAlerts)
	return out
}

// status says how the requests to each Alertmanager go.
func (p *pushes) status() []rules.ReceiverHealth {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []rules.ReceiverHealth
	for address, to := range p.peers {
		out = append(out, to.health.status(pushedTo, address, nil))
	}
	return out
}

// audible says that an Alertmanager takes alerts.
func (p *pushes) audible() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, to := range p.peers {
		if !to.health.failing() {
			return true
		}
	}
	return false
}

// pushed is what a peer was last told of an alert.
type pushed struct {
	at    time.Time
	state rules.AlertState
	fired time.Time
}

// peer is one Alertmanager. Only its own goroutine uses what is not wake or health.
type peer struct {
	d       *Dispatcher
	config  *AlertmanagerConfig
	address string
	client  *http.Client
	timeout time.Duration
	relabel []*relabel.Config
	wake    chan struct{}
	stop    context.CancelFunc

	health health // which others read

	told      map[string]pushed
	failures  int
	notBefore time.Time
}

func (p *peer) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run pushes what is due until ctx ends.
func (p *peer) run(ctx context.Context) {
	for ctx.Err() == nil {
		timer := time.NewTimer(p.push(ctx, time.Now()))
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// push tells the Alertmanager what it does not know, or has to be told again, and
// returns the time until the next look.
func (p *peer) push(ctx context.Context, now time.Time) time.Duration {
	if wait := p.notBefore.Sub(now); wait > 0 && wait <= longestRetryAfter {
		return wait
	}
	due := p.due(now)
	for batch := range slices.Chunk(due, pushBatch) {
		if body := p.body(batch, now); len(body) > 0 {
			retry, err := p.post(ctx, body, now)
			if retry {
				return p.pause(now, err)
			}
			p.note(len(body), now, err)
		}
		for _, a := range batch {
			p.told[a.Key()] = pushed{at: now, state: a.State, fired: a.FiredAt}
		}
	}
	return pushAgain
}

// pause notes a failure that may pass and returns how long to wait.
func (p *peer) pause(now time.Time, err error) time.Duration {
	p.failures++
	pause := backoff(p.failures, p.d.jitter())
	p.notBefore = now.Add(pause)
	p.health.failed(pushedTo, now, true, err)
	p.d.metrics.count(pushedTo, outcomeRetried)
	p.d.logger.Warn("An Alertmanager does not take alerts; they are pushed again", "alertmanager", p.address, "failures", p.failures, "pause", pause, "err", err)
	return pause
}

// note notes that alerts arrived, or were refused for good.
func (p *peer) note(alerts int, now time.Time, err error) {
	p.failures, p.notBefore = 0, time.Time{}
	if err == nil {
		p.health.arrived(pushedTo)
		p.d.metrics.count(pushedTo, outcomeSuccess)
		return
	}
	p.health.failed(pushedTo, now, false, err)
	p.d.metrics.count(pushedTo, outcomeFailed)
	p.d.logger.Error("An Alertmanager refused alerts; they are pushed again in a while", "alertmanager", p.address, "alerts", alerts, "err", err)
}

// due returns the alerts that the peer must be told of, and forgets those that
// the rules have forgotten.
func (p *peer) due(now time.Time) []rules.Alert {
	all := p.d.pushes.now()
	p.d.mu.Lock()
	all = slices.DeleteFunc(all, func(a rules.Alert) bool { return p.d.dead(a, now) })
	p.d.mu.Unlock()
	present := map[string]bool{}
	due := slices.DeleteFunc(all, func(a rules.Alert) bool {
		present[a.Key()] = true
		last, known := p.told[a.Key()]
		if !known || last.state != a.State || !last.fired.Equal(a.FiredAt) {
			return false
		}
		// The end is told once; a clock that was set back counts as time gone.
		return a.State == rules.StateResolved || now.Sub(last.at).Abs() < pushAgain
	})
	maps.DeleteFunc(p.told, func(key string, _ pushed) bool { return !present[key] })
	return due
}

// pushedAlert is an alert in the format of /api/v2/alerts.
type pushedAlert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// body returns the alerts as they are pushed: those that relabelling leaves.
func (p *peer) body(batch []rules.Alert, now time.Time) []pushedAlert {
	body := make([]pushedAlert, 0, len(batch))
	for _, a := range batch {
		w := newWebhookAlert(a, p.d.externalURL)
		b := labels.NewBuilder(labels.FromMap(w.Labels))
		if !relabel.ProcessBuilder(b, p.relabel...) || b.Labels().IsEmpty() {
			continue
		}
		out := pushedAlert{Labels: b.Labels().Map(), Annotations: w.Annotations, StartsAt: w.StartsAt, EndsAt: w.EndsAt, GeneratorURL: w.GeneratorURL}
		if a.State == rules.StateFiring {
			out.EndsAt = now.Add(pushHolds)
		}
		body = append(body, out)
	}
	return body
}

// post makes one request.
func (p *peer) post(ctx context.Context, body []pushedAlert, now time.Time) (retry bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return postJSON(bounded, p.client, p.address, body, now)
}
