package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// Run lets simulated time catch up with the clock so often: seldom, and so often
// that its clients see each token at its time while somebody waits for an
// answer.
const (
	tickEvery      = 50 * time.Millisecond
	tickWithGuests = 2 * time.Millisecond
)

// EngineVersion is the newest version of vLLM that the engines may be.
const EngineVersion = "0.32.0"

// contentType is what both servers send with their pages.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// Handler serves engine i: its page under /metrics, its version under /version,
// its health under /health, and its model under /v1/models and
// /v1/chat/completions. While the engine is down, connections are cut without
// an answer.
func (f *Fleet) Handler(i int) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		servePage(w, func(page *bytes.Buffer) error { return f.EnginePage(i, page) })
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"version":%q}`, f.release.version)
	})
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v1/models", f.serveModels)
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { f.serveChat(i, w, r) })
	return mux
}

// GatewayHandler serves the gateway's page under /metrics/ and redirects
// /metrics there, as LiteLLM does. Unlike LiteLLM it asks for no key.
func (f *Fleet) GatewayHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics/{$}", func(w http.ResponseWriter, _ *http.Request) {
		servePage(w, func(page *bytes.Buffer) error { return f.GatewayPage(page) })
	})
	mux.Handle("GET /metrics", http.RedirectHandler("/metrics/", http.StatusTemporaryRedirect))
	return mux
}

// servePage answers with a page, or not at all when its process is down.
func servePage(w http.ResponseWriter, write func(*bytes.Buffer) error) {
	var page bytes.Buffer
	if err := write(&page); errors.Is(err, ErrDown) || errors.Is(err, ErrAbsent) || errors.Is(err, ErrLost) {
		panic(http.ErrAbortHandler)
	} else if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(page.Bytes()) // the client has gone: nobody to tell
}

// Run drives Step from the wall clock, speed simulated seconds a second from
// where the simulation is now, until ctx ends. Requests from outside are taken
// while it runs.
func (f *Fleet) Run(ctx context.Context, speed float64) error {
	if speed <= 0 {
		return fmt.Errorf("speed %g: must be positive", speed)
	}
	began, from := time.Now(), f.Truth().Now
	catchUp := func(now time.Time) { f.Step(from + time.Duration(float64(now.Sub(began))*speed)) }
	every := tickEvery
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case g := <-f.arriving:
			catchUp(time.Now())
			f.receive(g)
		case now := <-ticker.C:
			catchUp(now)
		}
		wanted := tickEvery
		if f.hosts() {
			wanted = tickWithGuests
		}
		if wanted != every {
			every = wanted
			ticker.Reset(every)
		}
	}
}

// Serve listens on free ports of 127.0.0.1, one per engine and one for the
// gateway, and returns their host:port. The servers stop when ctx ends. Nothing
// moves until Run is called.
func (f *Fleet) Serve(ctx context.Context) (engines []string, gateway string, err error) {
	var listeners []net.Listener
	var listen net.ListenConfig
	for range len(f.engines) + 1 {
		l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			for _, l := range listeners {
				_ = l.Close()
			}
			return nil, "", fmt.Errorf("serve the simulated fleet: %w", err)
		}
		listeners = append(listeners, l)
		engines = append(engines, l.Addr().String())
	}
	last := len(engines) - 1
	go func() { _ = f.ServeOn(ctx, listeners) }()
	return engines[:last], engines[last], nil
}

// ServeOn serves on listeners that are open already, one per engine and the
// last one for the gateway, until ctx ends. It closes them.
func (f *Fleet) ServeOn(ctx context.Context, listeners []net.Listener) error {
	if len(listeners) != len(f.engines)+1 {
		return fmt.Errorf("serve the simulated fleet: %d listeners for %d engines and a gateway", len(listeners), len(f.engines))
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, l := range listeners {
		handler := f.GatewayHandler()
		if i < len(f.engines) {
			handler = f.Handler(i)
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		group.Go(func() error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			return server.Close()
		})
	}
	return group.Wait()
}
