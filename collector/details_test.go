package collector

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/config"
)

// sideServer serves a page and whatever a test wants beside it, and remembers
// what was asked for.
type sideServer struct {
	*httptest.Server
	mu sync.Mutex
	// page is the present page; answers are those of other paths, by path.
	page    string
	answers map[string]http.HandlerFunc
	asked   []string
}

func newSideServer(t *testing.T, page string, answers map[string]http.HandlerFunc) *sideServer {
	t.Helper()
	s := &sideServer{page: page, answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		page, answer := s.page, s.answers[r.URL.Path]
		if !strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), "/metrics") {
			s.asked = append(s.asked, r.URL.Path)
		}
		s.mu.Unlock()
		switch {
		case answer != nil:
			answer(w, r)
		case strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), "/metrics"):
			write(http.StatusOK, page)(w, r)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *sideServer) set(page string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.page = page
}

// paths are those asked for beside the page since the last call.
func (s *sideServer) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// settled scrapes, waits for what was asked beside it and gives the round.
func (r *rig) settled(t *testing.T, seconds int) kept {
	t.Helper()
	round := r.last(t, at(seconds))
	r.details.wait()
	return round
}

func started(page string, start int) string {
	return fmt.Sprintf("%s%s %d\n", page, ProcessStart, start)
}

func TestVLLMVersion(t *testing.T) {
	t.Parallel()
	version := "0.26.1"
	s := newSideServer(t, started(smallPage(1), 5), nil)
	s.answers = map[string]http.HandlerFunc{"/version": func(w http.ResponseWriter, r *http.Request) {
		write(http.StatusOK, fmt.Sprintf(`{"version":%q}`, version))(w, r)
	}}
	r := newRig(t, s.URL, nil)
	for i, want := range []string{"", "0.26.1", "0.26.1"} {
		if got := r.settled(t, 15*i).Version; got != want {
			t.Errorf("round %d: version %q, want %q", i, got, want)
		}
	}
	if got := s.paths(); !slices.Equal(got, []string{"/version"}) {
		t.Errorf("asked for %v, want the version once", got)
	}
	if got := r.status().Version; got != "0.26.1" {
		t.Errorf("status tells version %q", got)
	}
	version = "0.27.0"
	s.set(started(smallPage(1), 9)) // another process
	if got := r.settled(t, 60).Version; got != "" {
		t.Errorf("a new process has the old one's version %q", got)
	}
	if got := r.settled(t, 75).Version; got != "0.27.0" {
		t.Errorf("version %q after the restart", got)
	}
	s.set("broken")
	r.settled(t, 90)
	s.set(started(smallPage(1), 9)) // it was away: it may be another
	r.settled(t, 105)
	if got := s.paths(); !slices.Equal(got, []string{"/version", "/version"}) {
		t.Errorf("asked for %v", got)
	}
}

// Whatever is not a version is none, and is not asked for again soon.
func TestVLLMVersionThatIsNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		again  bool // after ten minutes
	}{
		"not there":       {http.NotFound, false},
		"refused":         {write(http.StatusUnauthorized, "{}"), true},
		"broken":          {write(http.StatusInternalServerError, "oops"), true},
		"not JSON":        {write(http.StatusOK, "<html>"), true},
		"another object":  {write(http.StatusOK, `{"v":"1"}`), true},
		"no text":         {write(http.StatusOK, `{"version":7}`), true},
		"empty":           {write(http.StatusOK, `{"version":""}`), true},
		"prose":           {write(http.StatusOK, `{"version":"ask bob@example.com"}`), true},
		"long":            {write(http.StatusOK, `{"version":"0.`+strings.Repeat("1", 100)+`"}`), true},
		"larger than any": {write(http.StatusOK, `{"version":"0.1`+strings.Repeat(" ", detailBytes)), false},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://localhost:1/version", http.StatusFound)
		}, true},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"version":`))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSideServer(t, smallPage(1), map[string]http.HandlerFunc{"/version": c.answer})
			r := newRig(t, s.URL, nil)
			for i := range 4 {
				if round := r.settled(t, 15*i); round.State != StateUp || round.Version != "" {
					t.Errorf("round %d: %s, version %q", i, round.State, round.Version)
				}
			}
			r.settled(t, 599)
			if got := s.paths(); len(got) != 1 {
				t.Errorf("asked for %v within ten minutes", got)
			}
			r.settled(t, 601)
			if got := s.paths(); (len(got) == 1) != c.again {
				t.Errorf("asked for %v after ten minutes", got)
			}
		})
	}
}

// A server that does not answer beside its page does not hold up its scrapes,
// and is asked once only.
func TestVLLMVersionDoesNotBlock(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	s := newSideServer(t, smallPage(1), map[string]http.HandlerFunc{"/version": func(w http.ResponseWriter, r *http.Request) {
		<-answer
		write(http.StatusOK, `{"version":"0.30.0"}`)(w, r)
	}})
	r := newRig(t, s.URL, nil)
	for i := range 5 {
		if round := r.last(t, at(15*i)); round.State != StateUp || round.Version != "" {
			t.Errorf("round %d: %s, version %q", i, round.State, round.Version)
		}
	}
	close(answer)
	r.details.wait()
	if got := s.paths(); len(got) != 1 {
		t.Errorf("asked for %v", got)
	}
	if got := r.settled(t, 90).Version; got != "0.30.0" {
		t.Errorf("version %q", got)
	}
}

// An answer that an earlier process gave is not the present one's.
func TestVersionOfAnEarlierProcess(t *testing.T) {
	t.Parallel()
	var d details
	one := detail{path: "/version", read: readVersion("version")}
	release := make(chan struct{})
	get := func(context.Context, string) ([]byte, error) {
		<-release
		return []byte(`{"version":"0.20.0"}`), nil
	}
	d.ask(t.Context(), []detail{one}, at(0), get)
	d.renew()
	close(release)
	d.wait()
	if got := d.last().version; got != "" {
		t.Errorf("version %q", got)
	}
	d.ask(t.Context(), []detail{one}, at(1), get)
	d.wait()
	if got := d.last().version; got != "0.20.0" {
		t.Errorf("version %q of the new process", got)
	}
}

func TestBeside(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://h:8000/metrics":           "http://h:8000/version",
		"http://h:8000/metrics/":          "http://h:8000/version",
		"https://h/llm/a/metrics?token=x": "https://h/llm/a/version",
		"http://h:8000/federate":          "",
		"http://h:8000/vllm-metrics":      "",
		"http://h:8000":                   "",
	} {
		got, ok := beside(address, "/version")
		if got != want || ok != (want != "") {
			t.Errorf("beside %s is %q", address, got)
		}
	}
}

func TestGatewayDetails(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(secretKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keyed := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+secretKey {
				http.Error(w, "{}", http.StatusUnauthorized)
				return
			}
			write(http.StatusOK, body)(w, r)
		}
	}
	withKey := func(c *ScrapeConfig) {
		c.Source = SourceLiteLLM
		c.HTTPClientConfig.Authorization = &config.Authorization{Type: "Bearer", CredentialsFile: key}
	}
	answers := func() map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{
			"/health/readiness/details": keyed(`{"status":"healthy","db":"connected","litellm_version":"1.102.0","success_callbacks":["sk-123"]}`),
			"/health/backlog":           keyed(`{"in_flight_requests":47,"admitted_requests":24,"queued_requests":23,"rejected_requests":0}`),
			"/health": func(http.ResponseWriter, *http.Request) {
				t.Error("/health calls the models: it must never be asked for")
			},
		}
	}
	both := []string{"/health/readiness/details", "/health/backlog"}

	t.Run("with a key", func(t *testing.T) {
		t.Parallel()
		s := newSideServer(t, smallGatewayPage, answers())
		r := newRig(t, s.URL, withKey)
		r.settled(t, 0)
		round := r.settled(t, 15)
		n := func(v int) *int { return &v }
		want := &Backlog{At: at(0), InFlight: 47, Admitted: n(24), Queued: n(23), Rejected: n(0)}
		if got := r.status(); round.Version != "1.102.0" || got.Version != "1.102.0" || !cmp.Equal(got.Backlog, want) {
			t.Errorf("version %q, status %q, backlog %s", round.Version, got.Version, cmp.Diff(want, got.Backlog))
		}
		for i := range 18 {
			r.settled(t, 30+15*i)
		}
		// 300 seconds hold five minutes: never more than once in each.
		if got := s.paths(); len(got) != 2*5 || !slices.Equal(got[:2], both) {
			t.Errorf("asked for %v", got)
		}
		// Also where the gateway restarts all the time.
		for i := range 4 {
			s.set(started(smallGatewayPage, i+1))
			r.settled(t, 360+10*i)
		}
		if got := s.paths(); len(got) > 2 {
			t.Errorf("asked for %v of a gateway that restarts", got)
		}
	})
	t.Run("workers that take turns are not asked more often", func(t *testing.T) {
		t.Parallel()
		s := newSideServer(t, "", answers())
		r := newRig(t, s.URL, withKey)
		for i := range 12 {
			s.set(started(smallGatewayPage, 5+i%2))
			r.settled(t, 5*i)
		}
		if got := s.paths(); len(got) != 2 {
			t.Errorf("asked for %v within a minute", got)
		}
		for i := range 6 {
			s.set(started(smallGatewayPage, 5+i%2))
			if round := r.settled(t, 60+5*i); i > 0 && round.Version != "1.102.0" {
				t.Errorf("what one of them told is forgotten when another answers: version %q", round.Version)
			}
		}
	})
	t.Run("a backlog that cannot be had any more is gone", func(t *testing.T) {
		t.Parallel()
		s := newSideServer(t, smallGatewayPage, answers())
		r := newRig(t, s.URL, withKey)
		r.settled(t, 0)
		s.mu.Lock()
		s.answers["/health/backlog"] = write(http.StatusOK, `{"detail":"no"}`)
		s.mu.Unlock()
		r.settled(t, 61)
		r.settled(t, 76)
		if got := r.status(); got.Backlog != nil || got.Version != "1.102.0" || got.State != StateUp {
			t.Errorf("%+v", got)
		}
	})
	t.Run("without a key nothing is asked", func(t *testing.T) {
		t.Parallel()
		s := newSideServer(t, smallGatewayPage, answers())
		r := newRig(t, s.URL, func(c *ScrapeConfig) { c.Source = SourceLiteLLM })
		r.settled(t, 0)
		if got := s.paths(); len(got) > 0 {
			t.Errorf("asked for %v", got)
		}
	})
	t.Run("a wrong key does not hurt the scrape and is not told", func(t *testing.T) {
		t.Parallel()
		s := newSideServer(t, smallGatewayPage, answers())
		r := newRig(t, s.URL, func(c *ScrapeConfig) {
			withKey(c)
			c.HTTPClientConfig.Authorization = &config.Authorization{Type: "Bearer", Credentials: "sk-wrong"}
		})
		r.settled(t, 0)
		for i := range 10 {
			if round := r.settled(t, 61+15*i); round.State != StateUp || round.Version != "" || round.Reason != "" {
				t.Errorf("%+v", round.Round)
			}
		}
		if got := s.paths(); !slices.Equal(got, both) {
			t.Errorf("asked for %v", got)
		}
		if strings.Contains(r.logs.String(), "sk-wrong") {
			t.Error("the key is in the log")
		}
	})
	t.Run("a metrics process of its own is not asked", func(t *testing.T) {
		t.Parallel()
		s := newSideServer(t, smallGatewayPage, answers())
		r := newRig(t, s.URL, func(c *ScrapeConfig) {
			withKey(c)
			c.Gateway.DedicatedPort = true
		})
		r.settled(t, 0)
		if got := s.paths(); len(got) > 0 {
			t.Errorf("asked for %v", got)
		}
	})
	t.Run("a reload keeps what was told", func(t *testing.T) {
		t.Parallel()
		s := newSideServer(t, smallGatewayPage, answers())
		before := newRig(t, s.URL, withKey)
		before.settled(t, 0)
		after := newRig(t, s.URL, withKey)
		after.inherit(before.targetScraper)
		if round := after.settled(t, 15); round.Version != "1.102.0" {
			t.Errorf("version %q after a reload", round.Version)
		}
	})
}
