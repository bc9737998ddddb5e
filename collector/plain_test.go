package collector

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
)

// scripted is a server that answers with what it is told, byte by byte.
type scripted struct {
	address string

	mu sync.Mutex
	// requests is what it was asked, by connection.
	requests [][]string
}

const (
	// hang is an answer after which nothing follows until the client goes.
	hang = "\x00hang"
	// reset is an answer after which the connection is reset, not closed.
	reset = "\x00reset"
)

// newScripted makes a server that takes as many connections as there are scripts,
// gives each request on one the next answer, and closes it after the last.
func newScripted(t testing.TB, scripts ...[]string) *scripted {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{address: l.Addr().String(), requests: make([][]string, len(scripts))}
	var conns sync.WaitGroup
	t.Cleanup(conns.Wait)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		defer l.Close()
		for i, script := range scripts {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { s.play(conn, i, script) })
		}
	}()
	return s
}

func (s *scripted) play(conn net.Conn, i int, script []string) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for _, answer := range script {
		var request strings.Builder
		for line := ""; line != "\r\n"; request.WriteString(line) {
			var err error
			if line, err = r.ReadString('\n'); err != nil {
				return
			}
		}
		s.mu.Lock()
		s.requests[i] = append(s.requests[i], strings.ReplaceAll(request.String(), s.address, "HOST"))
		s.mu.Unlock()
		body, hangs := strings.CutSuffix(answer, hang)
		body, resets := strings.CutSuffix(body, reset)
		if _, err := io.WriteString(conn, body); err != nil {
			return
		}
		if hangs {
			_, _ = r.ReadByte()
			return
		}
		if resets {
			_ = conn.(*net.TCPConn).SetLinger(0)
		}
	}
}

func (s *scripted) asked() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// lengthy is an answer of a given length, chunked one in chunks.
func lengthy(head, body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s", len(body), head, body)
}

func chunked(head, trailer string, chunks ...string) string {
	var b strings.Builder
	b.WriteString("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + head + "\r\n")
	for _, c := range chunks {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(c), c)
	}
	return b.String() + "0\r\n" + trailer + "\r\n"
}

// outcome is what the scrapes of one scripted server gave.
type outcome struct {
	Rounds   []string
	Requests [][]string
}

// TestPlainIsAsNetHTTP scrapes the same answers with both transports.
func TestPlainIsAsNetHTTP(t *testing.T) {
	t.Parallel()
	page := smallPage(1)
	good := lengthy("", page)
	status := func(code int, head, body string) string {
		return strings.Replace(lengthy(head, body), "200 OK", fmt.Sprintf("%d Text", code), 1)
	}
	tests := []struct {
		name    string
		scripts [][]string
		scrapes int
		// up is how many of the scrapes give a page.
		up int
	}{
		{"content length", [][]string{{good, good, good}}, 3, 3},
		{"chunks", [][]string{{chunked("", "", page[:10], page[10:]), good}}, 2, 2},
		{"chunks with a trailer", [][]string{{chunked("Trailer: X-Sum\r\n", "X-Sum: 1\r\n", page), good}}, 2, 2},
		{"until the end", [][]string{{"HTTP/1.1 200 OK\r\n\r\n" + page}, {good}}, 2, 2},
		{"HTTP/1.0", [][]string{{"HTTP/1.0 200 OK\r\n\r\n" + page}, {good}}, 2, 2},
		{"HTTP/1.0 kept alive", [][]string{{strings.Replace(lengthy("Connection: keep-alive\r\n", page), "1.1", "1.0", 1), good}}, 2, 2},
		{"said to be closed", [][]string{{lengthy("Connection: close\r\n", page)}, {good}}, 2, 2},
		{"gzip", [][]string{{lengthy("Content-Encoding: gzip\r\n", string(gzipped([]byte(page)))), good}}, 2, 2},
		{"gzip in chunks", [][]string{{chunked("Content-Encoding: gzip\r\n", "", string(gzipped([]byte(page)))), good}}, 2, 2},
		{"closed while idle", [][]string{{good}, {good}, {good}}, 3, 3},
		{"closed when it is asked again", [][]string{{good, reset}, {good}}, 2, 2},
		{"closed by a new connection too", [][]string{{good, reset}, {""}, {good}}, 3, 2},
		{"no answer", [][]string{{""}, {good}}, 2, 1},
		{"half a status line", [][]string{{"HTTP/1."}, {good}}, 2, 1},
		{"half a header", [][]string{{"HTTP/1.1 200 OK\r\nContent-Le"}, {good}}, 2, 1},
		{"cut off", [][]string{{good[:len(good)-20]}, {good}}, 2, 1},
		{"cut off between chunks", [][]string{{strings.TrimSuffix(chunked("", "", page), "0\r\n\r\n")}, {good}}, 2, 1},
		{"bad chunk", [][]string{{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"}, {good}}, 2, 1},
		{"reset within the page", [][]string{{good[:len(good)-20] + reset}, {good}}, 2, 1},
		{"early answers", [][]string{{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + good, good}}, 2, 2},
		{"another protocol", [][]string{{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"}, {good}}, 2, 1},
		{"no content", [][]string{{"HTTP/1.1 204 No Content\r\n\r\n", good}}, 2, 1},
		{"not modified", [][]string{{"HTTP/1.1 304 Not Modified\r\n\r\n", good}}, 2, 1},
		{"nothing", [][]string{{lengthy("", ""), good}}, 2, 1},
		{"unauthorised", [][]string{{status(401, "", "no"), good}}, 2, 1},
		{"not found", [][]string{{status(404, "", "no"), good}}, 2, 1},
		{"overloaded", [][]string{{status(503, "Retry-After: 3\r\n", `{"error": "overloaded_error"}`), good}}, 2, 1},
		{"redirect", [][]string{{status(307, "Location: /there\r\n", "there"), good, good}}, 1, 1},
		{"redirect without a body", [][]string{{status(308, "Location: /there\r\n", ""), good}}, 1, 1},
		{"two redirects", [][]string{{status(307, "Location: /there\r\n", ""), status(307, "Location: /on\r\n", ""), good}}, 2, 1},
		{"redirect elsewhere", [][]string{{status(307, "Location: http://other/\r\n", ""), good}}, 2, 1},
		{"a refusal that is long", [][]string{{status(500, "", strings.Repeat("x", drainBytes+1))}, {good}}, 2, 1},
		{"no HTTP", [][]string{{"SSH-2.0-x\r\n"}, {good}}, 2, 1},
		{"bad code", [][]string{{"HTTP/1.1 20 OK\r\n\r\n"}, {good}}, 2, 1},
		{"bad version", [][]string{{"HTTP/one 200 OK\r\n\r\n"}, {good}}, 2, 1},
		{"bad header", [][]string{{"HTTP/1.1 200 OK\r\nno header\r\n\r\n" + page}, {good}}, 2, 1},
		{"bad length", [][]string{{"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n" + page}, {good}}, 2, 1},
		{"two lengths", [][]string{{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n" + page}, {good}}, 2, 1},
		{"endless header", [][]string{{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", plainHeaders)}, {good}}, 2, 1},
		{"large header", [][]string{{lengthy("X: "+strings.Repeat("x", 100_000)+"\r\n", page), good}}, 2, 2},
		{"page over the limit", [][]string{{lengthy("", strings.Repeat(page, 1000))}, {good}}, 2, 1},
		{"slow answer", [][]string{{hang}, {good}}, 1, 0},
		{"slow page", [][]string{{good[:len(good)-20] + hang}, {good}}, 1, 0},
		{"nobody", nil, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			scrape := func(plain bool) (got outcome) {
				server := newScripted(t, tt.scripts...)
				if tt.scripts == nil {
					server.address = "127.0.0.1:1" // a port that no test can be given
				}
				r := newRig(t, server.address, func(c *ScrapeConfig) {
					c.BodySizeLimit = 64 << 10
					c.MetricsPath = "/page" // beside which nothing is asked
					if strings.HasPrefix(tt.name, "slow") {
						c.ScrapeTimeout = model.Duration(time.Second) // on a busy machine requests take a while to arrive
					}
				})
				if !plain {
					client, err := config.NewClientFromConfig(r.found.config.HTTPClientConfig, "test", config.WithUserAgent("kvwatch"))
					if err != nil {
						t.Fatal(err)
					}
					r.client.Transport = client.Transport
				}
				up := 0
				for i := range tt.scrapes {
					round := r.last(t, at(15*i))
					if round.State == StateUp {
						up++
					}
					told := fmt.Sprintf("%s: %s %v", round.State, round.Reason, round.values)
					got.Rounds = append(got.Rounds, strings.ReplaceAll(told, server.address, "HOST"))
				}
				if up != tt.up {
					t.Errorf("plain %v: %d of the scrapes gave a page, want %d: %q", plain, up, tt.up, got.Rounds)
				}
				r.client.CloseIdleConnections()
				got.Requests = server.asked()
				return got
			}
			if diff := cmp.Diff(scrape(false), scrape(true)); diff != "" {
				t.Errorf("net/http (-) and plain (+) are not as one:\n%s", diff)
			}
		})
	}
}

func TestPlainLeavesTheRest(t *testing.T) {
	t.Parallel()
	left := errors.New("left to the next")
	transport := &plainTransport{next: roundTripper(func(*http.Request) (*http.Response, error) { return nil, left })}
	tests := []struct {
		method, address string
		body            io.Reader
	}{
		{http.MethodGet, "https://engine:8000/metrics", nil},
		{http.MethodHead, "http://engine:8000/metrics", nil},
		{http.MethodGet, "http://engine:8000/metrics", strings.NewReader("x")},
		{http.MethodGet, "http://möwe:8000/metrics", nil},
	}
	for _, tt := range tests {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, tt.address, tt.body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := transport.RoundTrip(req); !errors.Is(err, left) {
			t.Errorf("%s %s: %v", tt.method, tt.address, err)
		}
	}
}

func TestIsBare(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*config.HTTPClientConfig)
		want   bool
	}{
		{"default", func(*config.HTTPClientConfig) {}, true},
		{"no redirects", func(c *config.HTTPClientConfig) { c.FollowRedirects = false }, true},
		{"TLS for others", func(c *config.HTTPClientConfig) { c.TLSConfig.InsecureSkipVerify = true }, true},
		{"key", func(c *config.HTTPClientConfig) { c.Authorization = &config.Authorization{Credentials: "x"} }, false},
		{"bearer token", func(c *config.HTTPClientConfig) { c.BearerToken = "x" }, false},
		{"password", func(c *config.HTTPClientConfig) { c.BasicAuth = &config.BasicAuth{Username: "x"} }, false},
		{"OAuth", func(c *config.HTTPClientConfig) { c.OAuth2 = &config.OAuth2{ClientID: "x"} }, false},
		{"headers", func(c *config.HTTPClientConfig) { c.HTTPHeaders = &config.Headers{} }, false},
		{"proxy of the environment", func(c *config.HTTPClientConfig) { c.ProxyFromEnvironment = true }, false},
	}
	for _, tt := range tests {
		c := config.DefaultHTTPClientConfig
		tt.change(&c)
		if got := isBare(c); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestPlainUnaskedBytes is about a server that says more than it was asked for.
func TestPlainUnaskedBytes(t *testing.T) {
	t.Parallel()
	good := lengthy("", smallPage(1))
	server := newScripted(t, []string{good + good, good}, []string{good})
	r := newRig(t, server.address, func(c *ScrapeConfig) { c.MetricsPath = "/page" })
	for i := range 2 {
		if round := r.last(t, at(15*i)); round.State != StateUp {
			t.Errorf("%s: %s", round.State, round.Reason)
		}
	}
	r.client.CloseIdleConnections()
	if asked := server.asked(); len(asked[0]) != 1 || len(asked[1]) != 1 {
		t.Errorf("the connection with an answer too many was used again: %q", asked)
	}
}

// TestPlainTimedOutWhileIdle is about a server that says so before it closes a
// connection that is idle: that is no answer to a scrape.
func TestPlainTimedOutWhileIdle(t *testing.T) {
	t.Parallel()
	good := lengthy("", smallPage(1))
	server := newScripted(t, []string{good, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, []string{good})
	r := newRig(t, server.address, func(c *ScrapeConfig) { c.MetricsPath = "/page" })
	for i := range 2 {
		if round := r.last(t, at(15*i)); round.State != StateUp {
			t.Errorf("%s: %s", round.State, round.Reason)
		}
	}
}

// TestPlainCancelled is about a caller that goes away within the answer.
func TestPlainCancelled(t *testing.T) {
	t.Parallel()
	server := newScripted(t, []string{lengthy("", smallPage(1)), "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx" + hang}, []string{lengthy("", "y")})
	transport := &plainTransport{}
	get := func(ctx context.Context) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server.address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		return transport.RoundTrip(req)
	}
	read := func(ctx context.Context, before func()) ([]byte, error) {
		resp, err := get(ctx)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		before()
		return io.ReadAll(resp.Body)
	}
	if got, err := read(t.Context(), func() {}); err != nil || string(got) != smallPage(1) {
		t.Errorf("read %q, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if got, err := read(ctx, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled within the body: %q, %v", got, err)
	}
	if resp, err := get(ctx); !errors.Is(err, context.Canceled) {
		if err == nil {
			_ = resp.Body.Close()
		}
		t.Errorf("cancelled before: %v", err)
	}
	if got, err := read(t.Context(), func() {}); err != nil || string(got) != "y" {
		t.Errorf("after it: %q, %v", got, err)
	}
	transport.CloseIdleConnections()
}

func TestPlainClosesIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport := &plainTransport{next: http.DefaultTransport}
		kept := &transport.kept
		var mu sync.Mutex
		closed := map[string]bool{}
		give := func(host string) {
			here, there := net.Pipe()
			go func() {
				_, _ = there.Read(make([]byte, 1))
				mu.Lock()
				defer mu.Unlock()
				closed[host] = true
			}()
			kept.give(&plainConn{Conn: here, host: host})
		}
		check := func(when string, hosts ...string) {
			synctest.Wait()
			want := map[string]bool{}
			for _, h := range hosts {
				want[h] = true
			}
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(want, closed); diff != "" {
				t.Errorf("%s: closed connections (-want +got):\n%s", when, diff)
			}
		}
		give("a")
		give("b")
		<-time.After(plainIdle - time.Minute)
		if c := kept.take("b"); c == nil || !c.reused {
			t.Fatalf("took %+v", c)
		} else {
			kept.give(c)
		}
		check("before its time")
		<-time.After(2 * time.Minute)
		check("the one that nobody used", "a")
		<-time.After(plainIdle)
		check("the other one", "a", "b")
		kept.mu.Lock()
		waited := kept.sweep != nil || len(kept.idle) > 0
		kept.mu.Unlock()
		if waited {
			t.Error("something is still waited for")
		}
		give("c")
		transport.CloseIdleConnections()
		check("when told to", "a", "b", "c")
		if c := kept.take("c"); c != nil {
			t.Error("a closed connection is given out")
		}
	})
}

func BenchmarkTransport(b *testing.B) {
	page := realPage(b)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) }))
	defer server.Close()
	for _, plain := range []bool{false, true} {
		b.Run(fmt.Sprintf("plain=%v", plain), func(b *testing.B) {
			var transport http.RoundTripper = &http.Transport{DisableCompression: true}
			if plain {
				transport = &plainTransport{next: transport}
			}
			client := &http.Client{Transport: transport}
			defer client.CloseIdleConnections()
			b.ReportAllocs()
			b.SetBytes(int64(len(page)))
			buf := make([]byte, chunkBytes)
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL, http.NoBody)
				if err != nil {
					b.Fatal(err)
				}
				resp, err := client.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = resp.Body.Read(buf)
				}
				_ = resp.Body.Close()
				if !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
			}
		})
	}
}
