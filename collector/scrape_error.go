package collector

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// explainRequest says why there was no answer. Error texts of the HTTP client
// hold addresses and may hold credentials: they are never passed on.
func (s *targetScraper) explainRequest(err error) failure {
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	host := s.host()
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !errors.Is(err, context.DeadlineExceeded) {
		return failure{StateDown, fmt.Sprintf("the name %q does not resolve: check the target's host and the name server", dns.Name)}
	}
	if isTimeout(err) {
		return timeoutFailure(s.found.timeout)
	}
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return failure{StateUnauthorised, fmt.Sprintf("the file %s of the job's credentials or tls_config cannot be read: %v", file.Path, file.Err)}
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return failure{StateDown, fmt.Sprintf("%s refused the connection: is the server running, and is the port right?", host)}
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return failure{StateDown, fmt.Sprintf("there is no route to %s: check the network and the address", host)}
	case errors.Is(err, http.ErrSchemeMismatch):
		return failure{StateDown, fmt.Sprintf("%s speaks plain HTTP: set scheme: http", host)}
	case isTLS(err):
		return failure{StateDown, fmt.Sprintf("no TLS connection to %s (%s): check tls_config (ca_file, server_name) and scheme", host, tlsReason(err))}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return failure{StateDown, fmt.Sprintf("%s closed the connection without an answer: is it starting, stopping or out of memory?", host)}
	case strings.Contains(err.Error(), "malformed HTTP"):
		return failure{StateNotMetrics, fmt.Sprintf("%s answers, but not in HTTP: is the port right, does it want scheme: https?", host)}
	default:
		return failure{StateDown, fmt.Sprintf("no answer from %s (%s): check the target's address, proxy and credentials", host, kindOf(err))}
	}
}

// explainBody says why a body could not be read to its end.
func explainBody(err error, timeout time.Duration) failure {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	switch {
	case isTimeout(err):
		return timeoutFailure(timeout)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), corrupt:
		return failure{StateNotMetrics, "the page says that it is gzip, and is not: check what proxies it"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return failure{StateTruncated, "the page ended before its announced end: the server or a proxy before it cut it off"}
	default:
		return failure{StateTruncated, "the connection broke while the page was read: is the server stopping, or a proxy limiting it?"}
	}
}

func timeoutFailure(timeout time.Duration) failure {
	return failure{StateTimeout, fmt.Sprintf("no whole page within the scrape_timeout of %s: the server is blocked or overloaded, or a firewall drops packets", timeout)}
}

// explainStatus says what an answer other than 200 means; nil is a good one.
func (s *targetScraper) explainStatus(resp *http.Response) *failure {
	code, path := resp.StatusCode, resp.Request.URL.Path
	switch {
	case code == http.StatusOK:
		return nil
	case code == http.StatusUnauthorized:
		return &failure{StateUnauthorised, s.keyHint()}
	case code == http.StatusForbidden:
		return &failure{StateUnauthorised, "the key may not read the page (HTTP 403): use one that may, or allow this client's address"}
	case code == http.StatusNotFound:
		return &failure{StateNotFound, s.notFoundHint(path)}
	case code == http.StatusServiceUnavailable:
		after := ""
		if v := resp.Header.Get("Retry-After"); v != "" {
			after = fmt.Sprintf(", retry-after %q", clip(v))
		}
		if admissionRefused(resp.Body) {
			return &failure{StateOverloaded, fmt.Sprintf("the gateway is overloaded (HTTP 503%s): its admission control refuses the scrape too, which is saturation and no outage; scrape its dedicated metrics port", after)}
		}
		return &failure{StateOverloaded, fmt.Sprintf("the server is overloaded (HTTP 503%s): it sheds load, which is no outage, unless it is a proxy with nothing behind it that answers so", after)}
	case code >= 300 && code < 400 && code != http.StatusNotModified:
		return &failure{StateRedirect, s.redirectHint(resp)}
	case code == http.StatusBadRequest:
		return &failure{StateDown, "the server does not take the request (HTTP 400): does it want scheme: https, or other params?"}
	case code == http.StatusInternalServerError:
		return &failure{StateDown, fmt.Sprintf("the server runs but answers HTTP 500 at %s: look into its log; a multiprocess directory on a network volume does this", path)}
	default:
		return &failure{StateDown, fmt.Sprintf("the server answers HTTP %d at %s: look into its log", code, path)}
	}
}

// admissionRefused says whether LiteLLM's admission control made the answer.
func admissionRefused(body io.Reader) bool {
	text, _ := io.ReadAll(io.LimitReader(body, refusalBytes)) // what came of a broken body does as well
	return bytes.Contains(text, []byte("overloaded_error"))
}

// refusalBytes is how much of a refusal is looked at.
const refusalBytes = 4 << 10

// keyHint says what to do about a 401.
func (s *targetScraper) keyHint() string {
	c := s.found.config.HTTPClientConfig
	if c.Authorization != nil || c.BasicAuth != nil || c.OAuth2 != nil {
		return "the server refuses the key (HTTP 401): check the job's authorization.credentials_file, or its basic_auth"
	}
	return "the server wants a key (HTTP 401): set authorization.credentials_file; LiteLLM's /metrics needs a key by default"
}

func (s *targetScraper) notFoundHint(path string) string {
	hint := fmt.Sprintf("no page at %s (HTTP 404): metrics are not enabled, or metrics_path is wrong", path)
	if s.rounds.target.Source == SourceLiteLLM {
		hint += `; LiteLLM serves them with callbacks: ["prometheus"] and the path /metrics/`
	}
	return hint
}

// redirectHint says why a redirect was not followed. The address it points to
// may hold secrets in its query: only host and path are told.
func (s *targetScraper) redirectHint(resp *http.Response) string {
	to, err := resp.Location()
	from := resp.Request.URL
	switch {
	case err != nil:
		return fmt.Sprintf("the server redirects without saying where (HTTP %d): set metrics_path to the page itself", resp.StatusCode)
	case !strings.EqualFold(to.Host, from.Host):
		return fmt.Sprintf("the server redirects to another host (%s), which is not followed since the key would go along: make that host the target", to.Host)
	case to.Scheme != from.Scheme:
		return fmt.Sprintf("the server redirects from %s to %s, which is not followed: set metrics_path: %s", from.Scheme, to.Scheme, to.Path)
	case !s.found.config.HTTPClientConfig.FollowRedirects:
		return fmt.Sprintf("the server redirects to %s and follow_redirects is off: set metrics_path: %s", to.Path, to.Path)
	default:
		return fmt.Sprintf("the server redirects more than once (now to %s): set metrics_path to the page itself", to.Path)
	}
}

// host is the target's host and port.
func (s *targetScraper) host() string {
	if u, err := url.Parse(s.found.address); err == nil {
		return u.Host
	}
	return "the target"
}

func isTimeout(err error) bool {
	netErr, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || (ok && netErr.Timeout())
}

func isTLS(err error) bool {
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, verify := errors.AsType[*tls.CertificateVerificationError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	return record || verify || alert || strings.Contains(err.Error(), "tls: ")
}

// tlsReason tells the usual mistakes apart.
func tlsReason(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the certificate is signed by an unknown authority"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is for another name"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "the certificate has expired or is not yet valid"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the server does not speak TLS"
	}
	return "the handshake failed"
}

// kindOf names an error that is not known better by its innermost type.
func kindOf(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
}

// clip bounds a text that a server chose.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
