// Package web is the page that the daemon serves at /, and its JSON API. It
// shows what the stages before it hand over and judges nothing itself.
package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/prometheus/storage"

	"kvwatch/alerting"
	"kvwatch/collector"
	"kvwatch/rules"
)

// defaultInterval is how often the page refreshes when nobody says.
const defaultInterval = 15 * time.Second

// Options is what the page needs of the stages before it.
type Options struct {
	// Version is shown beside the product's name.
	Version string
	// ExternalURL is the address at which people reach the page. A path in it is
	// served as well as the root, for proxies that pass it on. Empty is fine.
	ExternalURL string
	// Demo says that the fleet is simulated; a banner tells so.
	Demo bool
	// TimeScaleNote says how fast the rules run: "20 times faster".
	TimeScaleNote string
	// Interval is the scrape interval, at which the page refreshes; 0 is 15 s.
	Interval time.Duration

	// Targets, Recorded, Alerts, Detectors, Pools and Sessions give the present state.
	// They are called for each request, so they must be safe for concurrent
	// use; what they return is only read.
	Targets   func() []collector.TargetStatus
	Recorded  func() []rules.Recorded
	Alerts    func() []rules.Alert
	Detectors func() []rules.DetectorStatus
	Pools     func() []rules.PoolStatus
	Sessions  func() []rules.PoolSessions
	// Events gives the events of the time between; the same holds for it.
	Events func(from, to time.Time) []rules.Event
	// Plans gives the sizing plans as they were worked out last; the same holds.
	Plans func() []rules.PlanReview
	// Reviews lists the reviews that are kept, the newest first, and ReadReview
	// returns one in a form: json, md or html. Without them there are none.
	Reviews    func() []KeptReview
	ReadReview func(name, form string) ([]byte, error)
	// Muted says why an alert with these labels is not told; nil says that all are.
	Muted func(lbls map[string]string, now time.Time) alerting.Muting

	// Queryable answers the charts' queries.
	Queryable storage.Queryable
	// Now is the clock.
	Now    func() time.Time
	Logger *slog.Logger
	// Runbooks holds <alert name>.md; nil means that there are none.
	Runbooks fs.FS
}

// page is the handler's state: the options and what was made of them once.
type page struct {
	o        Options
	assets   map[string]asset
	runbooks map[string][]byte
}

// New makes the handler of the page and its API. It fails when a function is
// missing, the external URL is no address or a runbook cannot be read.
func New(o Options) (http.Handler, error) {
	if o.Targets == nil || o.Recorded == nil || o.Alerts == nil || o.Detectors == nil || o.Pools == nil || o.Sessions == nil || o.Events == nil || o.Plans == nil {
		return nil, errors.New("web: Targets, Recorded, Alerts, Detectors, Pools, Sessions, Events and Plans must be set")
	}
	if o.Queryable == nil || o.Now == nil || o.Logger == nil {
		return nil, errors.New("web: Queryable, Now and Logger must be set")
	}
	if o.Interval <= 0 {
		o.Interval = defaultInterval
	}
	prefix, err := pathOf(o.ExternalURL)
	if err != nil {
		return nil, err
	}
	assets, err := loadAssets()
	if err != nil {
		return nil, err
	}
	runbooks, err := renderRunbooks(o.Runbooks)
	if err != nil {
		return nil, err
	}
	p := &page{o: o, assets: assets, runbooks: runbooks}
	return secure(gzhttp.GzipHandler(underPrefix(prefix, p.routes()))), nil
}

// routes lists every address of the page. A pattern with GET serves HEAD too.
// Only queries are also taken by POST: Grafana sends them so.
func (p *page) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { p.serveAsset(w, r, "index.html") })
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, r *http.Request) { p.serveAsset(w, r, "icon.svg") })
	mux.HandleFunc("GET /static/{path...}", func(w http.ResponseWriter, r *http.Request) { p.serveAsset(w, r, r.PathValue("path")) })
	mux.HandleFunc("GET /runbooks/{name}", p.runbook)

	mux.Handle("/api/v1/", PromAPI(PromAPIOptions{
		Queryable: p.o.Queryable, Now: p.o.Now, Version: p.o.Version, Metadata: metadata, Logger: p.o.Logger,
	}))
	mux.HandleFunc("GET /api/v1/targets", p.targets)
	mux.HandleFunc("GET /api/v1/alerts", p.alerts)
	mux.HandleFunc("GET /api/v1/rules", p.rules)
	mux.HandleFunc("GET /api/v1/kvwatch/fleet", p.fleet)
	mux.HandleFunc("GET /api/v1/kvwatch/explain", p.explain)
	mux.HandleFunc("GET /api/v1/kvwatch/events", p.events)
	mux.HandleFunc("GET /api/v1/kvwatch/plans", p.plans)
	mux.HandleFunc("GET /api/v1/kvwatch/reviews", p.reviews)
	mux.HandleFunc("GET /reviews/{name}", p.review)
	return mux
}

// fleet answers /api/v1/kvwatch/fleet.
func (p *page) fleet(w http.ResponseWriter, _ *http.Request) {
	p.success(w, p.fleetNow())
}

// metadata tells Grafana the kind and the meaning of the derived series.
func metadata() map[string][]Metadata {
	known := map[string][]Metadata{}
	for _, r := range rules.Registered().Recordings {
		known[r.Name] = []Metadata{{Type: r.Kind, Help: r.Help}}
	}
	return known
}

// pathOf returns the path of the external URL without a slash at its end.
func pathOf(external string) (string, error) {
	if external == "" {
		return "", nil
	}
	u, err := url.Parse(external)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", fmt.Errorf("external URL %q: give a whole address such as https://kvwatch.example.com/", external)
	}
	return strings.TrimSuffix(u.EscapedPath(), "/"), nil
}

// underPrefix serves the same under a path, as well as at the root.
func underPrefix(prefix string, next http.Handler) http.Handler {
	if prefix == "" {
		return next
	}
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.Handle(prefix+"/", http.StripPrefix(prefix, next))
	return mux
}

// secure sets the headers that keep a browser from running or framing anything
// that is not the page's own.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}

// response is the frame of every answer of the API, as Prometheus has it.
type response struct {
	Status    string `json:"status"`
	Data      any    `json:"data,omitempty"`
	ErrorType string `json:"errorType,omitempty"`
	Error     string `json:"error,omitempty"`
}

func (p *page) success(w http.ResponseWriter, data any) {
	p.answer(w, http.StatusOK, response{Status: "success", Data: data})
}

func (p *page) failure(w http.ResponseWriter, status int, errorType, text string) {
	p.answer(w, status, response{Status: "error", ErrorType: errorType, Error: text})
}

func (p *page) answer(w http.ResponseWriter, status int, r response) {
	body, err := json.Marshal(r)
	if err != nil {
		p.o.Logger.Error("cannot encode an answer", "err", err)
		http.Error(w, "cannot encode the answer; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	p.write(w, body)
}

// write sends a body. A client that went away is its own affair: debug level.
func (p *page) write(w http.ResponseWriter, body []byte) {
	if _, err := w.Write(body); err != nil {
		p.o.Logger.Debug("an answer was not taken", "err", err)
	}
}
