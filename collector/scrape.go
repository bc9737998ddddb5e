package collector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
)

const (
	// acceptHeader prefers the text format, in which all versions give the same
	// names. Some frontends give OpenMetrics whatever is asked for.
	acceptHeader = "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"
	// slowGateway is how long a scrape of a gateway may take before it is told:
	// the page is made by the process that serves the requests.
	slowGateway = 2 * time.Second
	// drainBytes is how much of a refused body is read so that its connection can be used again.
	drainBytes = 64 << 10
)

// targetScraper scrapes one target, again and again. Its scrape method is
// called by one goroutine at a time; status may be called by any.
type targetScraper struct {
	found  found
	client *http.Client
	gzips  *sync.Pool // of *gzip.Reader
	sink   func(context.Context, *Round)
	// tap is given each page beside, tapped is its copy; nil is nobody.
	tap    func(*Round, []byte)
	tapped bytes.Buffer
	logger *slog.Logger
	rounds *rounds
	// details is what the server tells beside its page. away says that the last
	// scrape failed, so that another process may answer now.
	details *details
	away    bool
	// twins are the other gateways, to be compared with; nil where there is one only.
	twins *twins
	// warning is what discovery has to say about the target.
	warning string

	mu     sync.Mutex
	public TargetStatus // but for From
	names  []*sampleName
}

func (s *targetScraper) status() TargetStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.public
	told.From = namesRead(s.names)
	return told
}

// tried says whether the target was scraped once.
func (s *targetScraper) tried() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.public.LastScrape.IsZero()
}

// scrape reads the page once, hands the round on and reports it. now is when
// the scrape begins; only its duration is taken from a clock here.
func (s *targetScraper) scrape(ctx context.Context, now time.Time) {
	began := time.Now()
	s.tapped.Reset()
	limited, cancel := context.WithTimeout(ctx, s.found.timeout)
	defer cancel()
	defer s.rounds.done()
	round, info, redirected := s.fetch(limited, now)
	if ctx.Err() != nil {
		return // shutting down: that is not the target's failure
	}
	round.Duration = time.Since(began)
	if s.tap != nil {
		s.tap(round, s.tapped.Bytes())
	}
	info.Twin = s.twins.note(s, round)
	about := s.askDetails(ctx, round, info)
	round.Version = about.version
	s.sink(ctx, round)
	s.report(round, info, about, redirected)
}

// fetch makes the request and reads what comes back.
func (s *targetScraper) fetch(ctx context.Context, now time.Time) (round *Round, info pageInfo, redirected bool) {
	defer func() {
		if p := recover(); p != nil { // one target must not take the others down
			round = s.rounds.failed(pageFailure(&panicError{value: p, stack: stack()}), now)
		}
	}()
	explain := func(err error) failure { return explainBody(err, s.found.timeout) }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.found.address, http.NoBody)
	if err != nil {
		return s.rounds.failed(failure{StateDown, "the target's address cannot be asked: check its host, port, metrics_path and params"}, now), info, false
	}
	req.Header.Set("Accept", acceptHeader)
	req.Header.Set("Accept-Encoding", "gzip")
	req.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", strconv.FormatFloat(s.found.timeout.Seconds(), 'f', -1, 64))
	resp, err := s.client.Do(req)
	if err != nil {
		return s.rounds.failed(s.explainRequest(err), now), info, false
	}
	defer resp.Body.Close()
	redirected = resp.Request != nil && resp.Request.URL.Path != req.URL.Path
	if f := s.explainStatus(resp); f != nil {
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
		return s.rounds.failed(*f, now), info, redirected
	}
	body, done, f := s.decoded(resp)
	if f != nil {
		return s.rounds.failed(*f, now), info, redirected
	}
	defer done()
	if s.tap != nil {
		body = io.TeeReader(body, &s.tapped)
	}
	round, info = s.rounds.page(body, resp.Header.Get("Content-Type"), now, explain)
	if redirected && round.State == StateNoMetrics && info.Bytes == 0 {
		round.State = StateRedirect
		round.Reason = fmt.Sprintf("the server redirects to %s and gives an empty page there: set metrics_path to the page itself", resp.Request.URL.Path)
	}
	return round, info, redirected
}

// decoded undoes the body's compression. The limit of the page counts what
// comes out of it.
func (s *targetScraper) decoded(resp *http.Response) (body io.Reader, done func(), f *failure) {
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
		return resp.Body, func() {}, nil
	case "gzip":
		zr, _ := s.gzips.Get().(*gzip.Reader)
		if zr == nil {
			zr = new(gzip.Reader)
		}
		done = func() { s.gzips.Put(zr) }
		err := zr.Reset(resp.Body)
		if errors.Is(err, io.EOF) {
			return http.NoBody, done, nil
		}
		if err != nil {
			done()
			why := explainBody(err, s.found.timeout)
			return nil, nil, &why
		}
		return zr, done, nil
	default:
		return nil, nil, &failure{StateNotMetrics, fmt.Sprintf("the page is compressed with %q, though only gzip was asked for: check what proxies it", clip(encoding))}
	}
}

// report keeps the round for people and logs when the state flips.
func (s *targetScraper) report(round *Round, info pageInfo, about selfTold, redirected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.public
	if p.State != round.State {
		s.logFlip(p.State, round)
		p.State, p.Since = round.State, round.Time
	}
	p.Source, p.Reason = round.Target.Source, round.Reason
	p.Version, p.Backlog = about.version, about.backlog
	p.LastScrape, p.Duration = round.Time, round.Duration
	p.Samples, p.Sampled = 0, info.Sampled
	if round.State == StateUp {
		p.Samples = round.Len() - 1 // without up
		s.names = info.names
	}
	p.Warning = s.warnings(round, info, redirected)
}

func (s *targetScraper) logFlip(from State, round *Round) {
	level := slog.LevelWarn
	if round.State == StateUp {
		level = slog.LevelInfo
	}
	s.logger.LogAttrs(context.Background(), level, "Target changed its state",
		slog.String("job", round.Target.Labels.Get(model.JobLabel)),
		slog.String("instance", round.Target.Labels.Get(model.InstanceLabel)),
		slog.String("url", round.Target.URL),
		slog.String("from", string(from)), slog.String("to", string(round.State)),
		slog.String("reason", round.Reason))
}

// warnings says what a person should know of a target that is up.
func (s *targetScraper) warnings(round *Round, info pageInfo, redirected bool) string {
	var ws []string
	if s.warning != "" {
		ws = append(ws, s.warning)
	}
	if round.Target.Source == SourceLiteLLM && round.Duration > slowGateway {
		ws = append(ws, fmt.Sprintf("the scrape took %.1f s, in which the gateway's worker serves nobody: use its dedicated metrics port, fewer labels or a longer scrape_interval", round.Duration.Seconds()))
	}
	if redirected && round.State == StateUp {
		ws = append(ws, "the page is reached by a redirect: set metrics_path to the page itself")
	}
	if info.BadLines > 0 && round.State == StateUp {
		ws = append(ws, fmt.Sprintf("%d lines of the page could not be read", info.BadLines))
	}
	if info.NotNumbers > 0 && round.State == StateUp {
		ws = append(ws, fmt.Sprintf("%d values of the page are NaN or infinite and were left out", info.NotNumbers))
	}
	if len(info.Missing) > 0 && round.State == StateUp {
		ws = append(ws, fmt.Sprintf("the page has no %s under any name that is known, so that what rests on it is unknown: the server has served nothing yet, was told to leave it out, or is too old or too new", strings.Join(info.Missing, ", ")))
	}
	if info.Twin != "" {
		ws = append(ws, info.Twin)
	}
	if info.Sampled {
		ws = append(ws, "several workers answer behind one address, each with counters of its own, so that counters are not rated: use the multiprocess mode, and scrape each pod by itself")
	}
	return strings.Join(ws, "; ")
}

// newClient makes the HTTP client of a job. It follows one redirect, to the
// same host only: the key goes along.
func newClient(c *ScrapeConfig, userAgent string) (*http.Client, error) {
	client, err := config.NewClientFromConfig(c.HTTPClientConfig, c.JobName, config.WithUserAgent(userAgent))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.where(), err)
	}
	if isBare(c.HTTPClientConfig) {
		client.Transport = config.NewUserAgentRoundTripper(userAgent, &plainTransport{next: client.Transport})
	}
	follow := c.HTTPClientConfig.FollowRedirects
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if !follow || len(via) > 1 || !sameHost(req.URL, via[0].URL) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	return client, nil
}

// sameHost says whether a redirect stays on the scheme, host and port asked.
func sameHost(to, from *url.URL) bool {
	return to.Scheme == from.Scheme && strings.EqualFold(to.Host, from.Host)
}

// inherit takes over the series and the state of the scraper before this one,
// which has ended.
func (s *targetScraper) inherit(old *targetScraper) {
	s.rounds, s.details, s.away = old.rounds, old.details, old.away
	public := old.status()
	s.mu.Lock()
	defer s.mu.Unlock()
	public.URL, public.Warning = s.public.URL, s.public.Warning
	s.public, s.names = public, old.names
	target := *s.rounds.target
	target.URL, target.Interval = public.URL, s.found.interval
	s.rounds.target = &target
}

// retire hands on the target's last round, in which all its series go stale.
func (s *targetScraper) retire(ctx context.Context) {
	if ctx.Err() == nil {
		s.sink(ctx, s.rounds.gone(time.Now()))
	}
}

// warn replaces what discovery has to say about the target.
func (s *targetScraper) warn(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warning = text
}
