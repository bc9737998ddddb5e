package collector

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/targetgroup"
)

const secretKey = "sk-never-to-be-seen"

// smallPage is a page of one engine with the given running requests.
func smallPage(running int) string {
	return fmt.Sprintf(`# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} %d
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} %d
`, running, 1000*running)
}

// smallGatewayPage is a page of a gateway.
const smallGatewayPage = `# HELP litellm_in_flight_requests Requests in flight.
# TYPE litellm_in_flight_requests gauge
litellm_in_flight_requests 3
`

// kept is a copy of a round, which outlives the sink.
type kept struct {
	Round
	values map[string]float64
	stale  []string
}

func keep(r *Round) kept {
	k := kept{Round: *r, values: map[string]float64{}}
	for _, s := range samplesOf(r) {
		k.values[s.Series.Labels.String()] = s.Value
	}
	for _, s := range r.Stale {
		k.stale = append(k.stale, s.Labels.String())
	}
	return k
}

// rig is a scraper of one target whose rounds and logs are kept.
type rig struct {
	*targetScraper
	rounds []kept
	logs   bytes.Buffer
}

// newRig makes a scraper of a target at address with the settings of change.
func newRig(t testing.TB, address string, change func(*ScrapeConfig)) *rig {
	t.Helper()
	c := DefaultScrapeConfig()
	c.JobName = "vllm"
	// Long enough for a busy machine: where a time-out is meant it is set.
	c.ScrapeInterval, c.ScrapeTimeout = model.Duration(10*time.Minute), model.Duration(5*time.Minute)
	c.StaticConfigs = static(strings.TrimPrefix(strings.TrimPrefix(address, "http://"), "https://"))
	if change != nil {
		change(&c)
	}
	r := &rig{}
	col, err := New(Options{
		Global: DefaultGlobalConfig(), Scrapes: []ScrapeConfig{c},
		Sink:   func(_ context.Context, round *Round) { r.rounds = append(r.rounds, keep(round)) },
		Logger: slog.New(slog.NewTextHandler(&r.logs, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	targets, owner, _ := col.targets()
	for id, f := range targets {
		r.targetScraper = col.newScraper(f, owner[id], "")
	}
	if r.targetScraper == nil {
		t.Fatal("the configuration gives no target")
	}
	t.Cleanup(func() {
		r.details.wait()
		r.client.CloseIdleConnections()
	})
	return r
}

func static(addresses ...string) []*targetgroup.Group {
	g := &targetgroup.Group{Source: "0"}
	for _, a := range addresses {
		g.Targets = append(g.Targets, model.LabelSet{model.AddressLabel: model.LabelValue(a)})
	}
	return []*targetgroup.Group{g}
}

// last scrapes once and returns the round.
func (r *rig) last(t *testing.T, now time.Time) kept {
	t.Helper()
	before := len(r.rounds)
	r.scrape(t.Context(), now)
	if len(r.rounds) != before+1 {
		t.Fatalf("a scrape gave %d rounds, want 1", len(r.rounds)-before)
	}
	return r.rounds[before]
}

// at is a moment some seconds into the tests' time.
func at(seconds int) time.Time { return time.Unix(1_800_000_000+int64(seconds), 0).UTC() }

// write answers with a status and a body.
func write(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func gzipped(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

func TestStates(t *testing.T) {
	t.Parallel()
	garbage := make([]byte, 4096)
	for i := range garbage {
		garbage[i] = byte(i * 7)
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		change  func(*ScrapeConfig)
		state   State
		reason  string // a part of it
	}{
		{name: "good page", handler: write(200, smallPage(1)), state: StateUp},
		{name: "gzip", state: StateUp, handler: func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "gzip" || !strings.Contains(r.Header.Get("Accept"), "application/openmetrics-text") {
				w.WriteHeader(http.StatusNotAcceptable)
				return
			}
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(gzipped([]byte(smallPage(1))))
		}},
		{name: "bearer key", state: StateUp, handler: func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+secretKey {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = io.WriteString(w, smallPage(1))
		}, change: withKey},
		{name: "basic auth", state: StateUp, handler: func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "me" || password != secretKey {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = io.WriteString(w, smallPage(1))
		}, change: func(c *ScrapeConfig) {
			c.HTTPClientConfig.BasicAuth = &config.BasicAuth{Username: "me", Password: secretKey}
		}},
		{
			name: "401 without key", handler: write(401, `{"error": "no key"}`), state: StateUnauthorised,
			reason: "wants a key (HTTP 401): set authorization.credentials_file; LiteLLM's /metrics needs a key by default",
		},
		{
			name: "401 with key", handler: write(401, "bad key "+secretKey), change: withKey, state: StateUnauthorised,
			reason: "refuses the key (HTTP 401): check the job's authorization.credentials_file",
		},
		{name: "403", handler: write(403, ""), state: StateUnauthorised, reason: "may not read the page (HTTP 403)"},
		{
			name: "404", handler: write(404, ""), state: StateNotFound,
			reason: "no page at /metrics (HTTP 404): metrics are not enabled, or metrics_path is wrong",
		},
		{
			name: "404 of a gateway", handler: write(404, ""), change: func(c *ScrapeConfig) { c.Source = SourceLiteLLM },
			state: StateNotFound, reason: `callbacks: ["prometheus"]`,
		},
		{name: "503", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":{"type":"overloaded_error"}}`)
		}, state: StateOverloaded, reason: `overloaded (HTTP 503, retry-after "1")`},
		{name: "500", handler: write(500, "Traceback: "+secretKey), state: StateDown, reason: "answers HTTP 500 at /metrics: look into its log"},
		{name: "400", handler: write(400, ""), state: StateDown, reason: "does it want scheme: https"},
		{name: "HTML", handler: write(200, "<!doctype html>\n<html><body>Sign in</body></html>\n"), state: StateNotMetrics, reason: "HTML"},
		{name: "binary", handler: write(200, string(garbage)), state: StateNotMetrics, reason: "no metrics page"},
		{name: "empty", handler: write(200, ""), state: StateNoMetrics, reason: "empty"},
		{name: "no known family", handler: write(200, "# TYPE up gauge\nup 1\n"), state: StateNoMetrics, reason: "no known metric family"},
		{name: "cut by its length", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			_, _ = io.WriteString(w, smallPage(1))
		}, state: StateTruncated, reason: "ended before its announced end"},
		{name: "cut while chunked", handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, smallPage(1))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, state: StateTruncated, reason: "cut it off"},
		{name: "cut within gzip", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzipped([]byte(smallPage(1)))
			_, _ = w.Write(z[:len(z)/2])
		}, state: StateTruncated, reason: "ended before"},
		{name: "gzip that is none", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, smallPage(1))
		}, state: StateNotMetrics, reason: "says that it is gzip, and is not"},
		{name: "another compression", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, "x")
		}, state: StateNotMetrics, reason: `compressed with "br"`},
		{name: "over the limit", handler: write(200, strings.Repeat(smallPage(1), 100)), change: limited, state: StateTooLarge, reason: "body_size_limit"},
		{name: "gzip bomb", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(gzipped(bytes.Repeat([]byte("# nothing\n"), 1<<15)))
		}, change: limited, state: StateTooLarge, reason: "body_size_limit"},
		{
			name: "too many series", handler: write(200, smallPage(1)), change: func(c *ScrapeConfig) { c.SampleLimit = 1 },
			state: StateTooLarge, reason: "sample_limit",
		},
		{name: "NaN and Inf", handler: write(200, smallPage(1)+
			"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} NaN\n"+
			"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} +Inf\n"), state: StateUp},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tt.handler)
			server.Config.ErrorLog = nil
			defer server.Close()
			r := newRig(t, server.URL, tt.change)
			round := r.last(t, at(0))
			if round.State != tt.state || !strings.Contains(round.Reason, tt.reason) || (tt.state == StateUp) != (round.Reason == "") {
				t.Errorf("state %q, reason %q; want %q, …%s…", round.State, round.Reason, tt.state, tt.reason)
			}
			up := `{__name__="up", instance="` + strings.TrimPrefix(server.URL, "http://") + `", job="vllm"}`
			if got, ok := round.values[up]; !ok || (got == 1) != (tt.state == StateUp) {
				t.Errorf("up is %v (%v), want it to tell %s", got, ok, tt.state)
			}
			if status := r.status(); status.State != tt.state || status.Reason != round.Reason || !status.LastScrape.Equal(at(0)) {
				t.Errorf("the status differs: %+v", status)
			}
			if all := round.Reason + r.logs.String(); strings.Contains(all, secretKey) {
				t.Errorf("a secret is told: %s", all)
			}
		})
	}
}

func withKey(c *ScrapeConfig) {
	c.HTTPClientConfig.Authorization = &config.Authorization{Type: "Bearer", Credentials: secretKey}
}

func limited(c *ScrapeConfig) { c.BodySizeLimit = 10_000 }

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1"         // a port that no test can be given
	answer := func(text string) string { // a server that is none of HTTP
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 1024))
				_, _ = io.WriteString(conn, text)
				_ = conn.Close()
			}
		}()
		return l.Addr().String()
	}
	blocked := make(chan struct{})
	t.Cleanup(func() { close(blocked) })
	tlsServer := httptest.NewTLSServer(write(200, smallPage(1)))
	tlsServer.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(tlsServer.Close)
	serve := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	soon := func(c *ScrapeConfig) { c.ScrapeTimeout = model.Duration(50 * time.Millisecond) }
	https := func(c *ScrapeConfig) { c.Scheme = "https" }
	tests := []struct {
		name, address string
		change        func(*ScrapeConfig)
		state         State
		reason        string
	}{
		{name: "refused", address: nobody, state: StateDown, reason: "refused the connection: is the server running, and is the port right?"},
		{name: "name", address: "engine-0..svc:8000", state: StateDown, reason: `the name "engine-0..svc" does not resolve`},
		{name: "no answer", address: answer(""), state: StateDown, reason: "closed the connection without an answer"},
		{name: "no HTTP", address: answer("SSH-2.0-" + secretKey + "\r\n"), state: StateNotMetrics, reason: "answers, but not in HTTP"},
		{name: "time-out before the answer", address: serve(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-blocked:
			case <-r.Context().Done():
			}
		}), change: soon, state: StateTimeout, reason: "within the scrape_timeout of 50ms"},
		{name: "time-out within the page", address: serve(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, smallPage(1))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-blocked:
			case <-r.Context().Done():
			}
		}), change: soon, state: StateTimeout, reason: "within the scrape_timeout of 50ms"},
		{name: "unknown authority", address: tlsServer.URL, change: https, state: StateDown, reason: "signed by an unknown authority): check tls_config"},
		{name: "TLS spoken to plain HTTP", address: serve(write(200, "")), change: https, state: StateDown, reason: "speaks plain HTTP: set scheme: http"},
		{name: "plain HTTP spoken to TLS", address: tlsServer.URL, state: StateDown, reason: "HTTP 400"},
		{name: "no key file", address: serve(write(200, "")), change: func(c *ScrapeConfig) {
			c.HTTPClientConfig.Authorization = &config.Authorization{CredentialsFile: "/nowhere/litellm.key"}
		}, state: StateUnauthorised, reason: "the file /nowhere/litellm.key of the job's credentials or tls_config cannot be read: no such file"},
		{name: "secrets in the address", address: nobody, change: func(c *ScrapeConfig) {
			c.Params = map[string][]string{"api_key": {secretKey}}
		}, state: StateDown, reason: "refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.address, tt.change)
			round := r.last(t, at(0))
			if round.State != tt.state || !strings.Contains(round.Reason, tt.reason) {
				t.Errorf("state %q, reason %q; want %q, …%s…", round.State, round.Reason, tt.state, tt.reason)
			}
			if len(round.Samples) != 1 || round.Samples[0].Value != 0 {
				t.Errorf("samples %v, want up 0 only", round.values)
			}
			if all := round.Reason + round.Target.URL + r.logs.String(); strings.Contains(all, secretKey) {
				t.Errorf("a secret is told: %s", all)
			}
		})
	}
}

func TestTrustedCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(write(200, smallPage(1)))
	defer server.Close()
	r := newRig(t, server.URL, func(c *ScrapeConfig) {
		c.Scheme = "https"
		c.HTTPClientConfig.TLSConfig.InsecureSkipVerify = true
	})
	if round := r.last(t, at(0)); round.State != StateUp {
		t.Errorf("%s: %s", round.State, round.Reason)
	}
}

func TestKeyFileIsReadAnew(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer new" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, smallPage(1))
	}))
	defer server.Close()
	r := newRig(t, server.URL, func(c *ScrapeConfig) {
		c.HTTPClientConfig.Authorization = &config.Authorization{CredentialsFile: key}
	})
	for i, step := range []struct {
		key  string
		want State
	}{{"old", StateUnauthorised}, {"new\n", StateUp}} {
		if err := os.WriteFile(key, []byte(step.key), 0o600); err != nil {
			t.Fatal(err)
		}
		if round := r.last(t, at(i)); round.State != step.want {
			t.Errorf("with key %q: %s (%s), want %s", step.key, round.State, round.Reason, step.want)
		}
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	var visits atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		visits.Add(1)
		_, _ = io.WriteString(w, smallPage(1))
	}))
	defer other.Close()
	mux := http.NewServeMux()
	page := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+secretKey {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = io.WriteString(w, body)
		}
	}
	mux.Handle("/once", http.RedirectHandler("/once/", http.StatusTemporaryRedirect))
	mux.Handle("/once/", page(smallPage(1)))
	mux.Handle("/empty", http.RedirectHandler("/empty/", http.StatusTemporaryRedirect))
	mux.Handle("/empty/", page(""))
	mux.Handle("/twice", http.RedirectHandler("/once", http.StatusTemporaryRedirect))
	mux.Handle("/away", http.RedirectHandler(other.URL+"/metrics?token="+secretKey, http.StatusTemporaryRedirect))
	mux.HandleFunc("/secure", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+r.Host+"/secure/", http.StatusMovedPermanently)
	})
	mux.Handle("/nowhere", write(http.StatusTemporaryRedirect, ""))
	server := httptest.NewServer(mux)
	defer server.Close()

	tests := []struct {
		path   string
		follow bool
		state  State
		reason string
	}{
		{"/once", true, StateUp, ""},
		{"/once", false, StateRedirect, "follow_redirects is off: set metrics_path: /once/"},
		{"/empty", true, StateRedirect, "redirects to /empty/ and gives an empty page there"},
		{"/twice", true, StateRedirect, "redirects more than once (now to /once/)"},
		{"/away", true, StateRedirect, "redirects to another host"},
		{"/secure", true, StateRedirect, "redirects from http to https, which is not followed: set metrics_path: /secure/"},
		{"/nowhere", true, StateRedirect, "redirects without saying where (HTTP 307)"},
	}
	for _, tt := range tests {
		r := newRig(t, server.URL, func(c *ScrapeConfig) {
			withKey(c)
			c.MetricsPath, c.HTTPClientConfig.FollowRedirects = tt.path, tt.follow
		})
		round := r.last(t, at(0))
		if round.State != tt.state || !strings.Contains(round.Reason, tt.reason) || strings.Contains(round.Reason, secretKey) {
			t.Errorf("%s: state %q, reason %q; want %q, …%s…", tt.path, round.State, round.Reason, tt.state, tt.reason)
		}
		if warning := r.status().Warning; (tt.state == StateUp) != strings.Contains(warning, "reached by a redirect") {
			t.Errorf("%s: warning %q", tt.path, warning)
		}
	}
	if n := visits.Load(); n != 0 {
		t.Errorf("the other host was asked %d times", n)
	}
}

func TestFailureMakesSeriesStaleOnce(t *testing.T) {
	t.Parallel()
	var status, running atomic.Int32
	status.Store(http.StatusOK)
	running.Store(5)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		write(int(status.Load()), smallPage(int(running.Load())))(w, r)
	}))
	defer server.Close()
	r := newRig(t, server.URL, nil)

	first := r.last(t, at(0))
	if first.Target.Source != SourceVLLM || r.status().Source != SourceVLLM || r.status().Samples != 2 || len(r.status().From) != 2 {
		t.Errorf("the page was not recognised: %+v", r.status())
	}
	pointer := first.Samples[0].Series
	status.Store(http.StatusInternalServerError)
	if down := r.last(t, at(15)); len(down.stale) != 2 || down.Target.Source != SourceVLLM {
		t.Errorf("stale after a failure: %v, want both series", down.stale)
	}
	if again := r.last(t, at(30)); len(again.stale) != 0 {
		t.Errorf("stale again: %v", again.stale)
	}
	status.Store(http.StatusOK)
	running.Store(3) // the counter went down: passed on as it is
	back := r.last(t, at(45))
	if back.Samples[0].Series != pointer {
		t.Error("the series came back under another pointer")
	}
	total := `{__name__="vllm:prompt_tokens_total", engine="0", instance="` + strings.TrimPrefix(server.URL, "http://") + `", job="vllm", model_name="m"}`
	if got := back.values[total]; got != 3000 {
		t.Errorf("the counter is %v, want 3000: %v", got, back.values)
	}
	if n := strings.Count(r.logs.String(), "Target changed its state"); n != 3 {
		t.Errorf("%d log lines, want one for each flip (3):\n%s", n, r.logs.String())
	}
	if s := r.status(); s.State != StateUp || !s.Since.Equal(at(45)) || s.Reason != "" {
		t.Errorf("status %+v", s)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	gateway := &Target{Source: SourceLiteLLM}
	tests := []struct {
		name       string
		round      Round
		info       pageInfo
		redirected bool
		want       string
	}{
		{"nothing", Round{Target: gateway, State: StateUp, Duration: 1900 * time.Millisecond}, pageInfo{}, false, ""},
		{"slow gateway", Round{Target: gateway, State: StateUp, Duration: 2500 * time.Millisecond}, pageInfo{}, false, "the scrape took 2.5 s"},
		{"slow engine", Round{Target: &Target{Source: SourceVLLM}, State: StateUp, Duration: 2500 * time.Millisecond}, pageInfo{}, false, ""},
		{"redirect", Round{Target: gateway, State: StateUp}, pageInfo{}, true, "reached by a redirect"},
		{"workers", Round{Target: gateway, State: StateUp}, pageInfo{Sampled: true}, false, "several workers answer behind one address"},
		{"not read", Round{Target: gateway, State: StateUp}, pageInfo{BadLines: 3, NotNumbers: 2}, false, "3 lines of the page could not be read; 2 values of the page are NaN or infinite"},
	}
	for _, tt := range tests {
		got := (&targetScraper{}).warnings(&tt.round, tt.info, tt.redirected)
		if !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// brokenBody panics when it is read.
type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { panic("at " + secretKey) }
func (brokenBody) Close() error             { return nil }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer makes a transport that gives every request the body.
func answer(body func() io.ReadCloser) roundTripper {
	return func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body(), Request: req}, nil
	}
}

func TestPanicIsTheTargetsFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t, "broken:8000", nil)
	broken := true
	r.client = &http.Client{Transport: answer(func() io.ReadCloser {
		if broken {
			return brokenBody{}
		}
		return io.NopCloser(strings.NewReader(smallPage(1)))
	})}
	round := r.last(t, at(0))
	if round.State != StateNotMetrics || !strings.Contains(round.Reason, "kvwatch itself failed on this page") ||
		!strings.Contains(round.Reason, "brokenBody.Read") || strings.Contains(round.Reason, secretKey) {
		t.Errorf("%s: %s", round.State, round.Reason)
	}
	broken = false
	if round := r.last(t, at(15)); round.State != StateUp {
		t.Errorf("after it: %s: %s", round.State, round.Reason)
	}
}

func TestShutdownIsNoFailure(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	r := newRig(t, server.URL, nil)
	r.scrape(ctx, at(0))
	if len(r.rounds) != 0 || r.status().State != StateUnknown {
		t.Errorf("rounds %v, status %+v", r.rounds, r.status())
	}
}

// realPage is a page of a vLLM engine under load, from the recording.
func realPage(t testing.TB) []byte {
	t.Helper()
	rec, err := OpenRecording("testdata/recording.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	var page bytes.Buffer
	for p := range rec.Pages() {
		if p.Folder == "engine-a" && !p.Down && p.entry.at > 1795984700000 {
			if err := p.load(&page, 1<<20); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	return page.Bytes()
}

// BenchmarkScrape is one whole scrape of a real vLLM page over loopback HTTP,
// the server's side included.
func BenchmarkScrape(b *testing.B) {
	page := realPage(b)
	for _, bm := range []struct {
		name string
		body []byte
		gzip bool
	}{{"plain", page, false}, {"gzip", gzipped(page), true}} {
		b.Run(bm.name, func(b *testing.B) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if bm.gzip {
					w.Header().Set("Content-Encoding", "gzip")
				}
				_, _ = w.Write(bm.body)
			}))
			defer server.Close()
			r := newRig(b, server.URL, nil)
			samples := 0
			r.sink = func(_ context.Context, round *Round) { samples = round.Len() }
			now := at(0)
			r.scrape(b.Context(), now)
			b.SetBytes(int64(len(page)))
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(15 * time.Second)
				r.scrape(b.Context(), now)
			}
			b.ReportMetric(float64(samples), "samples")
		})
	}
}
