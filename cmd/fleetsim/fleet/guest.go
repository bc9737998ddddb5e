package fleet

import (
	"context"
	"errors"
	"slices"
	"time"
)

// guest is a request from outside, as it comes by HTTP, at one engine. The
// Fleet's lock guards it; who waits for its answer is told by news.
type guest struct {
	fleet   *Fleet
	engine  *engine
	request request
	// left and news: the engine has no more to do with it, and there is
	// something new about it.
	left, lost bool
	told       int
	news       chan struct{}
}

// progress is how far the answer to a guest is.
type progress struct {
	// Cached of the prompt's tokens were in the cache; 0 before it was scheduled.
	Cached int
	// Tokens of the answer have left.
	Tokens int
	// Finished says that they are all, Lost that the engine went down.
	Finished, Lost bool
}

// newGuest makes a request of so many tokens of prompt and answer to engine i.
func (f *Fleet) newGuest(i int, text blockHashes, promptTokens, outputTokens, maxTokens int) *guest {
	g := &guest{fleet: f, engine: f.engines[i], news: make(chan struct{}, 1)}
	g.request = request{
		prompt:       prompt{tokens: promptTokens, blocks: text},
		outputTokens: outputTokens, maxTokens: maxTokens, call: g,
	}
	return g
}

// send hands the guest to its engine as soon as simulated time has caught up
// with the clock. It waits for Run to be under way.
func (g *guest) send(ctx context.Context) error {
	select {
	case g.fleet.arriving <- g:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// receive gives a guest to its engine at the present simulated time.
func (f *Fleet) receive(g *guest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g.engine.down {
		g.lostBy(g.engine)
		return
	}
	f.guests = append(f.guests, g)
	g.engine.enqueue(&g.request)
}

// hosts says whether any guest waits for an answer.
func (f *Fleet) hosts() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.guests) > 0
}

// watch tells all those of whose answers there is more.
func (f *Fleet) watch() {
	for _, g := range f.guests {
		if tokens := g.engine.generated(&g.request, f.now); tokens > g.told {
			g.told = tokens
			g.tell()
		}
	}
}

// generated is how many tokens of its answer a request has at a time.
func (e *engine) generated(r *request, now time.Duration) int {
	if e.leap.steps > 1 && slices.Contains(e.running, r) {
		return r.generated + e.leap.done(now)
	}
	return r.generated
}

// tell wakes whoever waits for the answer.
func (g *guest) tell() {
	select {
	case g.news <- struct{}{}:
	default: // was woken and has not looked yet
	}
}

// errClientGone ends the wait for an answer that nobody wants any more.
var errClientGone = errors.New("the client is gone")

// next waits until there is more of the answer than so many tokens, or it has
// ended.
func (g *guest) next(ctx context.Context, tokens int) (progress, error) {
	for {
		if p := g.progress(); p.Tokens > tokens || p.Finished || p.Lost {
			return p, nil
		}
		select {
		case <-g.news:
		case <-ctx.Done():
			g.abort()
			return progress{}, errClientGone
		}
	}
}

func (g *guest) progress() progress {
	g.fleet.mu.Lock()
	defer g.fleet.mu.Unlock()
	return progress{Cached: g.request.cached, Tokens: g.told, Finished: g.left && !g.lost, Lost: g.lost}
}

// abort tells the engine that the client is gone.
func (g *guest) abort() {
	g.fleet.mu.Lock()
	defer g.fleet.mu.Unlock()
	if !g.left {
		g.engine.abort(&g.request)
	}
}

// leave is the end of a guest.
func (g *guest) leave() {
	g.left = true
	g.fleet.guests = slices.DeleteFunc(g.fleet.guests, func(other *guest) bool { return other == g })
	g.tell()
}

func (g *guest) answering() {}

func (g *guest) finished() {
	g.told = g.request.generated
	g.leave()
}

func (g *guest) lostBy(*engine) {
	g.lost = true
	g.leave()
}

func (g *guest) released() { g.leave() }
