package collector

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/config"
)

const (
	// plainHeaders is how large the header of an answer may be, in bytes.
	plainHeaders = 10 << 20
	// plainBuffer is what a connection is read through. It is lent for one answer.
	plainBuffer = 16 << 10
)

// plainTransport asks plain HTTP/1.1 in the goroutine of its caller. net/http's
// own transport keeps two goroutines and two buffers for each connection, which
// are most of what a target needs between its scrapes, and hands each answer from
// one to the other. It only does what scrapes need: GET without a body; next does
// the rest.
type plainTransport struct {
	next    http.RoundTripper
	dialer  net.Dialer
	readers sync.Pool // of *bufio.Reader
	writers sync.Pool // of *bufio.Writer

	kept keptConns
}

var (
	// errStale is that a kept connection was closed by its server meanwhile.
	errStale = errors.New("the connection was closed while idle")
	// errHeaders and errClosed are as plain as those of net/http.
	errHeaders = errors.New("the headers of the answer are too large")
	errClosed  = errors.New("read of a closed body")
)

// isBare says whether requests to plain HTTP targets are sent as they are: no
// proxy, no credentials, no further headers.
func isBare(c config.HTTPClientConfig) bool {
	c.TLSConfig, c.FollowRedirects, c.EnableHTTP2 = config.TLSConfig{}, false, false
	return reflect.DeepEqual(c, config.HTTPClientConfig{})
}

// RoundTrip asks over a kept connection, or over a new one. The answer's body
// has to be read by one goroutine, and gives the connection back at its end.
func (t *plainTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	u := req.URL
	if u.Scheme != "http" || req.Method != http.MethodGet || req.Body != nil && req.Body != http.NoBody || !isASCII(u.Host) {
		return t.next.RoundTrip(req)
	}
	for c := t.kept.take(u.Host); c != nil; c = t.kept.take(u.Host) {
		if resp, err := t.exchange(req, c); !errors.Is(err, errStale) {
			return resp, err
		}
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	conn, err := t.dialer.DialContext(req.Context(), "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	return t.exchange(req, &plainConn{Conn: conn, host: u.Host})
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// CloseIdleConnections closes the connections that nobody uses now.
func (t *plainTransport) CloseIdleConnections() {
	t.kept.close(time.Now())
	(&http.Client{Transport: t.next}).CloseIdleConnections() // it knows which transports can
}

// exchange sends the request and reads the answer's header.
func (t *plainTransport) exchange(req *http.Request, c *plainConn) (*http.Response, error) {
	a := &answerBody{transport: t, conn: c, ctx: req.Context()}
	a.release = context.AfterFunc(a.ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }) // whatever waits for it returns
	a.reader, _ = t.readers.Get().(*bufio.Reader)
	if a.reader == nil {
		a.reader = bufio.NewReaderSize(nil, plainBuffer)
	}
	a.limited = io.LimitedReader{R: c, N: plainHeaders}
	a.reader.Reset(&a.limited)
	err := t.send(req, c)
	if err == nil {
		_, err = a.reader.Peek(1)
	}
	if err != nil && c.reused && a.ctx.Err() == nil {
		err = errStale
	}
	var resp *http.Response
	for err == nil && (resp == nil || resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols) {
		resp, err = http.ReadResponse(a.reader, req)
	}
	if err == nil && c.reused && resp.StatusCode == http.StatusRequestTimeout {
		err = errStale // said before the request came: the server is about to close
	}
	if err != nil {
		err = a.explain(err)
		a.end(err, false)
		return nil, err
	}
	a.limited.N = 1<<63 - 1 // the body has a limit of its own
	a.keep = !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols
	a.body, resp.Body = resp.Body, a
	return resp, nil
}

func (t *plainTransport) send(req *http.Request, c *plainConn) error {
	w, _ := t.writers.Get().(*bufio.Writer)
	if w == nil {
		w = bufio.NewWriter(nil)
	}
	defer t.writers.Put(w)
	w.Reset(c)
	defer w.Reset(nil)
	if err := req.Write(w); err != nil {
		return err
	}
	return w.Flush()
}

// answerBody is the body of an answer, and what it holds until its end.
type answerBody struct {
	transport *plainTransport
	conn      *plainConn
	ctx       context.Context
	// release takes the connection back from the context.
	release func() bool
	limited io.LimitedReader
	reader  *bufio.Reader
	body    io.Reader
	// keep says that the connection can be used again after the body.
	keep bool
	err  error
}

func (a *answerBody) Read(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.body.Read(p)
	if err != nil {
		err = a.explain(err)
		a.end(err, errors.Is(err, io.EOF) && a.keep && a.reader.Buffered() == 0)
	}
	return n, err
}

// Close gives up what was not read, and the connection with it.
func (a *answerBody) Close() error {
	if a.err == nil {
		a.end(errClosed, false)
	}
	return nil
}

// explain says what is behind an error of the connection.
func (a *answerBody) explain(err error) error {
	switch {
	case errors.Is(err, io.EOF): // the end of a body that came whole
		return err
	case a.ctx.Err() != nil:
		return a.ctx.Err()
	case a.limited.N <= 0:
		return errHeaders
	default:
		return err
	}
}

// end gives back, once, all that the answer holds.
func (a *answerBody) end(err error, keep bool) {
	a.err = err
	if a.release() && keep {
		a.transport.kept.give(a.conn)
	} else {
		_ = a.conn.Close()
	}
	a.reader.Reset(nil)
	a.transport.readers.Put(a.reader)
	a.reader, a.body = nil, nil
}
