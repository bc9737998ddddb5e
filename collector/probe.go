package collector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// PageInfo is what reading one page told beside its round.
type PageInfo struct {
	// From gives for each canonical family the exposed name that was read. It
	// is not to be changed.
	From map[string]string
	// ProcessStart is the process' start in Unix seconds; 0 where the page does
	// not tell it, as in the multiprocess modes.
	ProcessStart float64
	// Sampled says that several workers answer behind one address.
	Sampled bool
	// Redirected says that the page was reached by a redirect.
	Redirected bool
	// BadLines is the number of lines that could not be read, NotNumbers that of
	// wanted samples that are NaN or infinite and were left out.
	BadLines, NotNumbers int
}

func (i pageInfo) public() PageInfo {
	return PageInfo{
		From: namesRead(i.names), ProcessStart: i.ProcessStart, Sampled: i.Sampled, BadLines: i.BadLines, NotNumbers: i.NotNumbers,
	}
}

// Prober scrapes one target when it is told to, without a schedule. It is not
// safe for concurrent use.
type Prober struct {
	scraper *targetScraper
}

// NewProber makes a prober of an entry with exactly one static target. It fails
// where the entry is wrong or a file that it names cannot be read; nothing is
// contacted before Scrape.
func NewProber(c ScrapeConfig, userAgent string) (*Prober, error) {
	global := DefaultGlobalConfig()
	if err := CheckConfig(global, []ScrapeConfig{c}); err != nil {
		return nil, err
	}
	c = c.withDefaults(global)
	targets, errs := targetsOf(&c, c.StaticConfigs)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if len(targets) != 1 {
		return nil, fmt.Errorf("%s: has %d targets, not one", c.where(), len(targets))
	}
	client, err := newClient(&c, userAgent)
	if err != nil {
		return nil, err
	}
	found := targets[0]
	found.target.Interval = 0 // it has no schedule
	return &Prober{&targetScraper{
		found: found, client: client, gzips: new(sync.Pool),
		sink: func(context.Context, *Round) {}, logger: slog.New(slog.DiscardHandler),
		rounds: newRounds(found.target, c.limits()), details: &details{},
	}}, nil
}

// Scrape reads the page once. now is the time of the round; the round is valid
// until the next call. What the server tells beside its page is asked for while
// ctx lasts, and is in a later round.
func (p *Prober) Scrape(ctx context.Context, now time.Time) (*Round, PageInfo) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, p.scraper.found.timeout)
	defer cancel()
	round, info, redirected := p.scraper.fetch(limited, now)
	round.Duration = time.Since(began)
	p.scraper.askDetails(ctx, round, info)
	round.Version = p.Version()
	public := info.public()
	public.Redirected = redirected
	return round, public
}

// Version is what the server said of itself so far; empty while unknown.
func (p *Prober) Version() string { return p.scraper.details.last().version }

// Close waits for what is still asked, until the context of the scrapes is
// done, and gives back the prober's connections.
func (p *Prober) Close() {
	p.scraper.details.wait()
	p.scraper.client.CloseIdleConnections()
}

// SavedReader makes rounds of pages that are at hand. It is not safe for
// concurrent use.
type SavedReader struct {
	rounds *rounds
	buf    bytes.Buffer
}

// NewSavedReader makes a reader of one target's pages; its Source may be empty.
func NewSavedReader(t Target) *SavedReader {
	return &SavedReader{rounds: newRounds(t, DefaultLimits())}
}

// Page reads a body as it was received at that time; the round is valid until
// the next call.
func (s *SavedReader) Page(body io.Reader, at time.Time) (*Round, PageInfo) {
	s.buf.Reset()
	// One more than the limit, so that the reader sees that it is too large.
	if _, err := io.Copy(&s.buf, io.LimitReader(body, s.rounds.limits.BodyBytes+1)); err != nil {
		return s.rounds.failed(explainFile(err), at), PageInfo{}
	}
	round, info := s.rounds.page(&s.buf, contentType(s.buf.Bytes()), at, explainFile)
	return round, info.public()
}

// Failed makes the round of a scrape that failed, from a text as a recording
// has it: "<state>: <reason>".
func (s *SavedReader) Failed(text string, at time.Time) (*Round, PageInfo) {
	return s.rounds.failed(downFailure(text), at), PageInfo{}
}

// Recorded reads a page of a recording, a failed scrape too.
func (s *SavedReader) Recorded(p Page) (*Round, PageInfo) {
	if p.Down {
		round, info := p.replay(s.rounds, p.Time, &s.buf)
		return round, info.public()
	}
	f, err := p.Open()
	if err != nil {
		return s.rounds.failed(explainFile(err), p.Time), PageInfo{}
	}
	defer f.Close()
	return s.Page(f, p.Time)
}
