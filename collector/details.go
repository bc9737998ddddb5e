package collector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	// detailTimeout is how long one detail may take, and detailBytes how large
	// it may be.
	detailTimeout = 5 * time.Second
	detailBytes   = 64 << 10
	// detailRetry is how long a detail that could not be had is left alone.
	detailRetry = 10 * time.Minute
	// gatewayDetails is how often a gateway is asked: each answer takes one of
	// its workers away from the requests for a moment.
	gatewayDetails = time.Minute
	// maxVersion is longer than any version that a server tells.
	maxVersion = 64
)

// A detail is what a server tells at another path than that of its page. It is
// asked for beside the scrapes, never within one, and what becomes of it does
// not touch them.
type detail struct {
	// path takes the place of /metrics in the page's address.
	path string
	// every is how often it is asked; 0 is once in the life of a process.
	every time.Duration
	// keyed says that it is only asked where the job has credentials.
	keyed bool
	// read takes an answer into what the server told.
	read func(body []byte, at time.Time, to *selfTold) error
	// lose takes back what is no longer true when there is no answer; nil where
	// it stays true while the process lives.
	lose func(to *selfTold)
}

// selfTold is what a server told beside its page.
type selfTold struct {
	version string
	backlog *Backlog
}

// details asks one target for its details. The zero value is ready to use.
type details struct {
	asking sync.WaitGroup

	// mu protects what follows.
	mu   sync.Mutex
	told selfTold
	// process counts the processes that were seen to answer; an answer of an
	// earlier one is thrown away.
	process int
	busy    bool
	// turns is when each path may be asked again; one that is not in it is due.
	turns map[string]turn
}

// turn is when a path may be asked again: at next, unless it is done for as
// long as the process lives. Paced paths are not asked sooner for a new process.
type turn struct {
	next        time.Time
	done, paced bool
}

// errNoDetail is an answer that says that there is no such thing.
var errNoDetail = errors.New("the server does not have it")

// last is what was told last.
func (d *details) last() selfTold {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.told
}

// renew forgets what an earlier process told.
func (d *details) renew() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = selfTold{}
	d.process++
	for path, t := range d.turns {
		if t.done = false; !t.paced {
			t.next = time.Time{}
		}
		d.turns[path] = t
	}
}

// ask begins to ask what is due, and returns at once.
func (d *details) ask(ctx context.Context, list []detail, now time.Time, get func(ctx context.Context, path string) ([]byte, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var due []detail
	for _, one := range list {
		if t := d.turns[one.path]; !t.done && !now.Before(t.next) {
			due = append(due, one)
		}
	}
	if len(due) == 0 || d.busy {
		return
	}
	d.busy = true
	process := d.process
	d.asking.Go(func() {
		for _, one := range due {
			body, err := get(ctx, one.path)
			d.take(one, process, now, body, err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.busy = false
	})
}

// take notes an answer, or that there was none.
func (d *details) take(one detail, process int, now time.Time, body []byte, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if process != d.process {
		return
	}
	answer := d.told
	if err == nil {
		err = one.read(body, now, &answer)
	}
	t := turn{next: now.Add(detailRetry), paced: one.every > 0}
	switch {
	case errors.Is(err, errNoDetail):
		t.done = true
	case err == nil:
		d.told = answer
		t.next, t.done = now.Add(one.every), one.every == 0
	}
	if err != nil && one.lose != nil {
		one.lose(&d.told)
	}
	if d.turns == nil {
		d.turns = map[string]turn{}
	}
	d.turns[one.path] = t
}

// wait returns when nothing is asked any more.
func (d *details) wait() { d.asking.Wait() }

// readVersion reads a version from the given key of a JSON object.
func readVersion(key string) func([]byte, time.Time, *selfTold) error {
	return func(body []byte, _ time.Time, to *selfTold) error {
		var object map[string]json.RawMessage
		var version string
		if err := json.Unmarshal(body, &object); err != nil {
			return err
		}
		if err := json.Unmarshal(object[key], &version); err != nil {
			return err
		}
		if !isVersion(version) {
			return errors.New("that is no version")
		}
		to.version = version
		return nil
	}
}

// isVersion keeps what a server says of itself short and plain.
func isVersion(s string) bool {
	if s == "" || len(s) > maxVersion || s[0] != 'v' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			return false
		default:
			return !strings.ContainsRune(".+-_!", r)
		}
	})
}

// readBacklog reads LiteLLM's /health/backlog.
func readBacklog(body []byte, at time.Time, to *selfTold) error {
	var answer struct {
		InFlight *int `json:"in_flight_requests"`
		Admitted *int `json:"admitted_requests"`
		Queued   *int `json:"queued_requests"`
		Rejected *int `json:"rejected_requests"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	if answer.InFlight == nil {
		return errors.New("in_flight_requests is missing")
	}
	to.backlog = &Backlog{
		At: at.UTC(), InFlight: *answer.InFlight,
		Admitted: answer.Admitted, Queued: answer.Queued, Rejected: answer.Rejected,
	}
	return nil
}

// loseBacklog takes the backlog back: what was true a minute ago is not told as of now.
func loseBacklog(to *selfTold) { to.backlog = nil }

// askDetails asks for what is due after a page of a server that answers, and
// returns what was known before: an answer belongs to the next page, however soon
// it comes.
func (s *targetScraper) askDetails(ctx context.Context, round *Round, info pageInfo) (known selfTold) {
	if round.State != StateUp && round.State != StateMetricsDisabled {
		s.away = true
		return s.details.last()
	}
	// Workers that take turns are no new processes.
	if s.away || info.Restarted && !info.Sampled {
		s.details.renew()
		s.away = false
	}
	known = s.details.last()
	src := registered.named(round.Target.Source)
	if src == nil || round.Target.Gateway.DedicatedPort { // a process of its own, which knows nothing of these
		return known
	}
	list := src.details
	if !s.hasKey() {
		list = nil
		for _, one := range src.details {
			if !one.keyed {
				list = append(list, one)
			}
		}
	}
	s.details.ask(ctx, list, round.Time, s.detail)
	return known
}

// hasKey says whether the job has credentials.
func (s *targetScraper) hasKey() bool {
	c := s.found.config.HTTPClientConfig
	return c.Authorization != nil || c.BasicAuth != nil || c.OAuth2 != nil || c.HTTPHeaders != nil
}

// detail asks for one path beside the page.
func (s *targetScraper) detail(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, min(detailTimeout, s.found.timeout))
	defer cancel()
	address, ok := beside(s.found.address, path)
	if !ok {
		return nil, errNoDetail
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, detailBytes+1))
	switch {
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed:
		return nil, errNoDetail
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("HTTP %d", resp.StatusCode)
	case len(body) > detailBytes:
		return nil, errNoDetail
	}
	return body, nil
}

// beside puts a path in the place of /metrics; false where the page is
// elsewhere, since then nothing is known of the server's other paths.
func beside(address, path string) (string, bool) {
	u, err := url.Parse(address)
	if err != nil {
		return "", false
	}
	base, ok := strings.CutSuffix(strings.TrimSuffix(u.Path, "/"), "/metrics")
	if !ok {
		return "", false
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: base + path}).String(), true
}
