package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kvwatch/rules"
)

// server answers HTTP from the first moment: it is alive while it is still
// replaying history, and ready once the first round of scrapes is done.
type server struct {
	registry *prometheus.Registry
	// metrics gathers what /metrics shows.
	metrics prometheus.Gatherer
	// reload rereads the configuration; nil refuses.
	reload func() error
	// accept takes the present cache behaviour of a pool as its new normal.
	accept func(pool string) error
	// mark keeps an event that an operator told of.
	mark func(rules.Event) error
	// alertmanager serves what clients of Alertmanager ask for; 503 until it is there.
	alertmanager http.Handler
	// alive says whether the daemon's loop still ticks.
	alive func() error
	// ready says what is still missing, or nil.
	ready func() error
	log   *slog.Logger
	// page is the built-in page and API; nil until history is open.
	page atomic.Pointer[http.Handler]
}

// handler returns the daemon's routes.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{
		EnableOpenMetrics: true,
		Registry:          s.registry,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelError),
	}))
	mux.HandleFunc("GET /-/healthy", healthHandler(s.alive, "kvwatch is healthy."))
	mux.HandleFunc("GET /-/ready", healthHandler(s.ready, "kvwatch is ready."))
	mux.HandleFunc("/-/reload", s.serveReload)
	mux.HandleFunc("POST /api/v1/kvwatch/accept", s.serveAccept)
	mux.HandleFunc("POST /api/v1/kvwatch/events", s.serveMark)
	mux.Handle("/api/v2/", s.alertmanager)
	mux.Handle("/silence", s.alertmanager)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		page := s.page.Load()
		if page == nil {
			http.Error(w, "kvwatch is starting: it is replaying its history. Try again in a few seconds.", http.StatusServiceUnavailable)
			return
		}
		(*page).ServeHTTP(w, r)
	})
	// A page of another site, open in an operator's browser, must not act here.
	return http.NewCrossOriginProtection().Handler(mux)
}

func (s *server) serveAccept(w http.ResponseWriter, r *http.Request) {
	pool := r.FormValue("pool")
	if err := s.accept(pool); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "Pool %s: what its cache does now is its new normal; it is learning again.\n", pool)
}

// mostEvent bounds the body of an event, in bytes.
const mostEvent = 16 << 10

func (s *server) serveMark(w http.ResponseWriter, r *http.Request) {
	var e struct {
		Pool  string    `json:"pool"`
		Kind  string    `json:"kind"`
		Text  string    `json:"text"`
		Until time.Time `json:"until"`
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostEvent))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		http.Error(w, `the body is no event: `+err.Error()+`; send {"pool": "agents", "kind": "deploy", "text": "vLLM 0.33", "until": "2026-01-31T10:00:00Z"}, where pool ("" is all), text and until may be left out`,
			http.StatusBadRequest)
		return
	}
	if err := s.mark(rules.Event{Pool: e.Pool, Kind: e.Kind, Text: strings.TrimSpace(e.Text), Until: e.Until}); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintln(w, "Kept. It is drawn on the page and quoted in alerts of the next 30 minutes; it silences nothing.")
}

func healthHandler(check func() error, fine string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, fine)
	}
}

func (s *server) serveReload(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodPost && r.Method != http.MethodPut:
		w.Header().Set("Allow", "POST, PUT")
		http.Error(w, "This endpoint takes a POST or PUT request.", http.StatusMethodNotAllowed)
	case s.reload == nil:
		http.Error(w, "Lifecycle API is not enabled: start kvwatch with --web.enable-lifecycle, or send it SIGHUP.", http.StatusForbidden)
	default:
		if err := s.reload(); err != nil {
			http.Error(w, "failed to reload the configuration: "+err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "Configuration reloaded.")
	}
}

// newHTTPServer bounds what a slow client can hold open.
func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
}

// listen opens every address, or none.
func listen(ctx context.Context, addresses []string) ([]net.Listener, error) {
	var open []net.Listener
	for _, a := range addresses {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", a)
		if err != nil {
			for _, o := range open {
				err = errors.Join(err, o.Close())
			}
			if errors.Is(err, syscall.EADDRINUSE) {
				err = fmt.Errorf("%w; is another kvwatch running there?", err)
			}
			return nil, fmt.Errorf("--web.listen-address %s: %w", a, err)
		}
		open = append(open, l)
	}
	return open, nil
}
