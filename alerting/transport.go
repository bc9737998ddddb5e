package alerting

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// RetryAfterError is a refusal that names the time after which to try again.
type RetryAfterError struct {
	// After is how long to wait.
	After time.Duration
	// Err says what was refused.
	Err error
}

// Error says what was refused and for how long.
func (e *RetryAfterError) Error() string {
	return fmt.Sprintf("%v; it asks to wait %s", e.Err, e.After)
}

// Unwrap returns what was refused.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// checkStatus turns an answer that is not 2xx into an error. Refusals that may
// pass (408, 429 and 5xx) are to be tried again; the rest is a mistake in the
// settings, which the same request will not mend. What the server writes beside
// the status is left out: it may repeat what we sent, keys included.
func checkStatus(code int, header http.Header, now time.Time) (retry bool, err error) {
	if code/100 == 2 {
		return false, nil
	}
	err = fmt.Errorf("the server answered %d %s", code, http.StatusText(code))
	if code != http.StatusRequestTimeout && code != http.StatusTooManyRequests && code < 500 {
		return false, err
	}
	if after, ok := retryAfter(header.Get("Retry-After"), now); ok {
		err = &RetryAfterError{After: after, Err: err}
	}
	return true, err
}

// retryAfter reads a Retry-After header: seconds, or a date.
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now)), true
	}
	return 0, false
}

// withoutURL takes the address out of an error of net/http: a webhook's address
// is its secret. Only the words of the cause remain, since the full error
// prints the address again.
func withoutURL(err error) error {
	var ue *url.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("the request was given up: %w", context.Canceled)
	case errors.As(err, &ue):
		return fmt.Errorf("the request failed: %w", withoutURL(ue.Err))
	default:
		return err
	}
}

// postJSON posts body as JSON. now dates a Retry-After that is a date.
func postJSON(ctx context.Context, c *http.Client, address string, body any, now time.Time) (retry bool, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return false, fmt.Errorf("the payload: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(raw))
	if err != nil {
		return false, fmt.Errorf("the address: %w", withoutURL(err))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "kvwatch")
	resp, err := c.Do(req)
	if err != nil {
		return true, withoutURL(err)
	}
	defer drain(resp)
	return checkStatus(resp.StatusCode, resp.Header, now)
}

// drain reads what is left of a short answer, so that the connection is used again.
func drain(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
}

// checkAddress says whether an address can be posted to. The error does not
// repeat the address, which may be secret.
func checkAddress(key, address string) error {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%s must be an address that begins with http:// or https://", key)
	}
	return nil
}

// checkURL says whether exactly one of url and url_file is given, and whether
// the first can be asked.
func checkURL(address, file string) error {
	switch {
	case (address == "") == (file == ""):
		return errors.New("give either url or url_file")
	case address != "":
		return checkAddress("url", address)
	default:
		return nil
	}
}

// addressFrom returns an address of the settings as secretFrom does, checked:
// one from a file may be wrong only now.
func addressFrom(key, text, file string) (string, error) {
	address, err := secretFrom(key, text, file)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(address), checkAddress(key, address)
}

// secretFrom returns a secret of the settings: the text itself, or what its
// file holds now, so that a secret can change while the daemon runs.
func secretFrom(key, text, file string) (string, error) {
	if file == "" {
		return text, nil
	}
	raw, err := os.ReadFile(file) //nolint:gosec // the file is named in the configuration
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	secret := strings.TrimSpace(string(raw))
	if secret == "" {
		return "", fmt.Errorf("%s: %s is empty", key, file)
	}
	return secret, nil
}
