package collector

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// queryClient asks one server by Prometheus's query API.
type queryClient struct {
	client *http.Client
	base   *url.URL
	// asker explains requests that fail.
	asker *targetScraper
	// series bounds the series of one answer.
	series int
}

// querySeries is one series of an answer.
type querySeries struct {
	Metric map[string]string `json:"metric"`
	Value  *queryPoint       `json:"value"`
	Values []queryPoint      `json:"values"`
}

// queryPoint is one value; it is written [1700000000.123, "4.2"].
type queryPoint struct {
	at    int64 // Unix milliseconds
	value float64
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *queryPoint) UnmarshalJSON(b []byte) error {
	var at float64
	var value string
	if err := json.Unmarshal(b, &[]any{&at, &value}); err != nil {
		return err
	}
	v, err := strconv.ParseFloat(value, 64)
	p.at, p.value = int64(math.Round(at*1000)), v
	return err
}

// queryError is an answer that cannot be used.
type queryError struct {
	failure
	// tooMany says that the answer was over a bound.
	tooMany bool
}

// Error gives the reason.
func (e *queryError) Error() string { return e.reason }

func queryFailure(state State, format string, args ...any) *queryError {
	return &queryError{failure: failure{state, fmt.Sprintf(format, args...)}}
}

// instant asks for the present values.
func (q *queryClient) instant(ctx context.Context, query string, each func(*querySeries) error) (partial bool, err error) {
	return q.ask(ctx, "query", url.Values{"query": {query}}, each)
}

// between asks for the values at start and every step after it until end, in
// Unix milliseconds.
func (q *queryClient) between(ctx context.Context, query string, start, end int64, step time.Duration, each func(*querySeries) error) (partial bool, err error) {
	seconds := func(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) }
	return q.ask(ctx, "query_range", url.Values{
		"query": {query}, "start": {seconds(start)}, "end": {seconds(end)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	}, each)
}

// ask calls each for every series of the answer, without holding the others.
// Errors are *queryError; none holds a secret.
func (q *queryClient) ask(ctx context.Context, call string, form url.Values, each func(*querySeries) error) (partial bool, err error) {
	address := q.base.JoinPath("/api/v1", call)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return false, queryFailure(StateDown, "the server's address cannot be asked: check the url")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	resp, err := q.client.Do(req)
	if isTimeout(err) {
		return false, queryFailure(StateTimeout, "no answer in time: the server is blocked or overloaded, or a firewall drops packets")
	}
	if err != nil {
		return false, &queryError{failure: q.asker.explainRequest(err)}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, q.refused(resp)
	}
	answer := queryAnswer{decoder: json.NewDecoder(resp.Body), limit: q.series, each: each}
	err = answer.read()
	var refused *queryError
	switch {
	case err == nil && answer.status == "success":
		return answer.partial, nil
	case errors.As(err, &refused):
		return false, refused
	case isTimeout(err), ctx.Err() != nil: // a body that is read then only says that it was closed
		return false, queryFailure(StateTimeout, "no whole answer in time: the server is overloaded, or match selects too much")
	case errors.Is(err, io.ErrUnexpectedEOF) && answer.status != "":
		return false, queryFailure(StateTruncated, "the answer breaks off: the server or a proxy before it cut it off")
	default:
		return false, queryFailure(StateNotMetrics, "the server does not answer as Prometheus's query API does at %s: check the url", resp.Request.URL.Path)
	}
}

// refused says why the server answers with another status than 200.
func (q *queryClient) refused(resp *http.Response) *queryError {
	var told struct {
		Type string `json:"errorType"`
	}
	_ = json.NewDecoder(io.LimitReader(resp.Body, drainBytes)).Decode(&told) // what is none says nothing
	kind := clip(told.Type)
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return queryFailure(StateUnauthorised, "the server refuses the key (HTTP %d): check authorization, basic_auth or the tenant in http_headers", code)
	case code == http.StatusNotFound:
		return queryFailure(StateNotFound, "there is no query API at %s (HTTP 404): the url may lack a path, as /prometheus of Mimir", resp.Request.URL.Path)
	case code == http.StatusServiceUnavailable, code == http.StatusTooManyRequests:
		return queryFailure(StateOverloaded, "the server is overloaded (HTTP %d)", code)
	case code == http.StatusUnprocessableEntity:
		e := queryFailure(StateTooLarge, "the server refuses the query (HTTP 422, %s): narrow match, or raise the server's limits", cmp.Or(kind, "no reason"))
		e.tooMany = true
		return e
	case code == http.StatusBadRequest:
		return queryFailure(StateDown, "the server does not take the query (HTTP 400, %s): check match", cmp.Or(kind, "no reason"))
	case code >= 300 && code < 400:
		return &queryError{failure: failure{StateRedirect, q.asker.redirectHint(resp)}}
	default:
		return queryFailure(StateDown, "the server answers HTTP %d: look into its log", code)
	}
}

// queryAnswer reads an answer of the query API as a stream.
type queryAnswer struct {
	decoder *json.Decoder
	limit   int
	each    func(*querySeries) error

	status  string
	partial bool
	n       int
}

func (a *queryAnswer) read() error {
	return a.object(func(key string) error {
		switch key {
		case "status":
			return a.decoder.Decode(&a.status)
		case "isPartial": // VictoriaMetrics
			return a.decoder.Decode(&a.partial)
		case "warnings": // Prometheus, Thanos
			var warnings []json.RawMessage
			err := a.decoder.Decode(&warnings)
			a.partial = a.partial || len(warnings) > 0
			return err
		case "data":
			return a.object(a.data)
		default:
			var other json.RawMessage
			return a.decoder.Decode(&other)
		}
	})
}

func (a *queryAnswer) data(key string) error {
	if key != "result" {
		var other json.RawMessage
		return a.decoder.Decode(&other)
	}
	if err := a.delimiter('['); err != nil {
		return err
	}
	for a.decoder.More() {
		if a.n++; a.n > a.limit {
			e := queryFailure(StateTooLarge, "the answer holds more than %d series: narrow match, or raise sample_limit", a.limit)
			e.tooMany = true
			return e
		}
		var s querySeries
		if err := a.decoder.Decode(&s); err != nil {
			return err
		}
		if err := a.each(&s); err != nil {
			return err
		}
	}
	return a.delimiter(']')
}

// object calls member for every key of an object; member reads the value.
func (a *queryAnswer) object(member func(key string) error) error {
	if err := a.delimiter('{'); err != nil {
		return err
	}
	for a.decoder.More() {
		token, err := a.decoder.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		if err := member(key); err != nil {
			return err
		}
	}
	return a.delimiter('}')
}

func (a *queryAnswer) delimiter(want json.Delim) error {
	token, err := a.decoder.Token()
	if err != nil {
		return err
	}
	if token != want {
		return errors.New("another shape")
	}
	return nil
}

// exposed are the labels that a series has on its page, without those that say
// whose it is.
func exposed(metric map[string]string) labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	for name, value := range metric {
		if name != model.JobLabel && name != model.InstanceLabel {
			b.Set(name, value)
		}
	}
	return b.Labels()
}
