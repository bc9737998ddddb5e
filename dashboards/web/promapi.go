package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/annotations"
)

// The limits of the query API: one careless panel must not take the daemon down.
const (
	maxQuerySamples    = 5_000_000 // in memory at once, for one query
	maxQueryTime       = 30 * time.Second
	maxQueryPoints     = 11_000 // of one series in a range: a week at a minute
	maxParallelQueries = 8
)

// PromAPIOptions is what the query API needs.
type PromAPIOptions struct {
	// Queryable is the history that is asked.
	Queryable storage.Queryable
	// Now is the time of a query that names none.
	Now func() time.Time
	// Version is told by /api/v1/status/buildinfo.
	Version string
	// Metadata gives what is known of the metrics by name; nil is nothing.
	Metadata func() map[string][]Metadata
	Logger   *slog.Logger
}

// Metadata describes a metric.
type Metadata struct {
	// Type is counter, gauge, histogram, summary, info or unknown.
	Type string `json:"type"`
	Help string `json:"help"`
	Unit string `json:"unit"`
}

// PromAPI answers the queries of Prometheus's HTTP API below /api/v1/, so that
// Grafana uses kvwatch as its data source. Shapes, error types and status codes
// are Prometheus's, and so is the engine.
func PromAPI(o PromAPIOptions) http.Handler {
	p := parser.NewParser(parser.Options{})
	a := &promAPI{o: o, parser: p, engine: promql.NewEngine(promql.EngineOpts{
		Logger:               o.Logger,
		MaxSamples:           maxQuerySamples,
		Timeout:              maxQueryTime,
		ActiveQueryTracker:   make(queryGate, maxParallelQueries),
		EnableAtModifier:     true,
		EnableNegativeOffset: true,
		Parser:               p,
	})}
	mux := http.NewServeMux()
	for path, f := range map[string]promFunc{
		"/api/v1/query":       a.query,
		"/api/v1/query_range": a.queryRange,
		"/api/v1/series":      a.series,
		"/api/v1/labels":      a.labelNames,
	} {
		mux.HandleFunc("GET "+path, a.handle(f))
		mux.HandleFunc("POST "+path, a.handle(f))
	}
	mux.HandleFunc("GET /api/v1/label/{name}/values", a.handle(a.labelValues))
	mux.HandleFunc("GET /api/v1/metadata", a.handle(a.metadata))
	mux.HandleFunc("GET /api/v1/status/buildinfo", a.handle(a.buildInfo))
	return mux
}

type promAPI struct {
	o      PromAPIOptions
	engine *promql.Engine
	parser parser.Parser
}

// promFunc answers one request. Data is what goes under "data", or its JSON.
type promFunc func(r *http.Request) (data any, notes annotations.Annotations, err error)

func (a *promAPI) handle(f promFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			a.fail(w, badParam("form", err))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), maxQueryTime)
		defer cancel()
		data, notes, err := f(r.WithContext(ctx))
		if err != nil {
			a.fail(w, err)
			return
		}
		body, err := encodeAnswer(data, notes, r.Form.Get("query"))
		if err != nil {
			a.fail(w, err)
			return
		}
		a.send(w, http.StatusOK, body)
	}
}

func (a *promAPI) fail(w http.ResponseWriter, err error) {
	kind := errorKind(err)
	body, merr := json.Marshal(promError{Status: "error", ErrorType: kind, Error: err.Error()})
	if merr != nil {
		a.o.Logger.Error("Encoding an error failed", "err", merr)
	}
	a.send(w, errorStatus(kind), body)
}

func (a *promAPI) send(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		a.o.Logger.Debug("Writing an answer failed", "err", err)
	}
}

func (a *promAPI) query(r *http.Request) (any, annotations.Annotations, error) {
	at, err := timeParam(r, "time", a.o.Now())
	if err != nil {
		return nil, nil, err
	}
	return a.run(r, func(ctx context.Context, opts promql.QueryOpts, expr string) (promql.Query, error) {
		return a.engine.NewInstantQuery(ctx, a.o.Queryable, opts, expr, at)
	})
}

func (a *promAPI) queryRange(r *http.Request) (any, annotations.Annotations, error) {
	start, end, step, err := rangeParams(r)
	if err != nil {
		return nil, nil, err
	}
	return a.run(r, func(ctx context.Context, opts promql.QueryOpts, expr string) (promql.Query, error) {
		return a.engine.NewRangeQuery(ctx, a.o.Queryable, opts, expr, start, end, step)
	})
}

// run makes a query with newQuery and executes it.
func (a *promAPI) run(r *http.Request, newQuery func(context.Context, promql.QueryOpts, string) (promql.Query, error)) (any, annotations.Annotations, error) {
	limit, err := limitParam(r)
	if err != nil {
		return nil, nil, err
	}
	timeout, err := durationParam(r, "timeout", maxQueryTime)
	if err != nil {
		return nil, nil, err
	}
	lookback, err := durationParam(r, "lookback_delta", 0)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	q, err := newQuery(ctx, promql.NewPrometheusQueryOpts(false, lookback, nil), r.Form.Get("query"))
	if err != nil {
		if errorKind(err) == kindExecution { // whatever else it is, it is in the expression
			err = badParam("query", err)
		}
		return nil, nil, err
	}
	defer q.Close()
	res := q.Exec(ctx)
	if res.Err != nil {
		return nil, nil, res.Err
	}
	notes := res.Warnings
	value := res.Value
	switch v := value.(type) {
	case promql.Vector:
		value = promql.Vector(truncate(v, limit, &notes))
	case promql.Matrix:
		value = promql.Matrix(truncate(v, limit, &notes))
	}
	// Encoded here because the result's memory is the query's.
	data, err := encodeResult(value)
	return data, notes, err
}

func (a *promAPI) series(r *http.Request) (any, annotations.Annotations, error) {
	if len(r.Form["match[]"]) == 0 {
		return nil, nil, &paramError{errors.New("no match[] parameter provided")}
	}
	l, err := a.openLookup(r)
	if err != nil {
		return nil, nil, err
	}
	defer l.close()
	sets := make([]storage.SeriesSet, 0, len(l.matchers))
	for _, m := range l.matchers {
		// There is no function "series": it says that no samples are needed.
		hints := &storage.SelectHints{Start: l.mint, End: l.maxt, Func: "series", Limit: l.hint().Limit}
		sets = append(sets, l.querier.Select(r.Context(), true, hints, m...))
	}
	set := storage.NewMergeSeriesSet(sets, 0, storage.ChainedSeriesMerge)
	found := []labels.Labels{}
	for set.Next() {
		found = append(found, set.At().Labels())
		if l.limit > 0 && len(found) > l.limit {
			break
		}
		if err := r.Context().Err(); err != nil {
			return nil, nil, err
		}
	}
	if err := set.Err(); err != nil {
		return nil, nil, err
	}
	notes := set.Warnings()
	// Encoded here because the labels may live in files that are unmapped after the query.
	data, err := json.Marshal(truncate(found, l.limit, &notes))
	return data, notes, err
}

func (a *promAPI) labelNames(r *http.Request) (any, annotations.Annotations, error) {
	return a.lookup(r, func(l *lookup, m []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return l.querier.LabelNames(r.Context(), l.hint(), m...)
	})
}

func (a *promAPI) labelValues(r *http.Request) (any, annotations.Annotations, error) {
	name := r.PathValue("name")
	if strings.HasPrefix(name, "U__") { // how a name that is not plain travels in a path
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return nil, nil, &paramError{fmt.Errorf("invalid label name: %q", name)}
	}
	return a.lookup(r, func(l *lookup, m []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return l.querier.LabelValues(r.Context(), name, l.hint(), m...)
	})
}

// lookup asks for strings, for each set of matchers, and merges the answers.
func (a *promAPI) lookup(r *http.Request, ask func(*lookup, []*labels.Matcher) ([]string, annotations.Annotations, error)) (any, annotations.Annotations, error) {
	l, err := a.openLookup(r)
	if err != nil {
		return nil, nil, err
	}
	defer l.close()
	if len(l.matchers) == 0 {
		l.matchers = [][]*labels.Matcher{nil}
	}
	found := map[string]struct{}{}
	var notes annotations.Annotations
	for _, m := range l.matchers {
		names, more, err := ask(l, m)
		if err != nil {
			return nil, nil, err
		}
		notes.Merge(more)
		for _, name := range names {
			// A copy: the strings live in files that are unmapped after the query.
			found[strings.Clone(name)] = struct{}{}
		}
	}
	all := slices.AppendSeq([]string{}, maps.Keys(found)) // never null in JSON
	slices.Sort(all)
	return truncate(all, l.limit, &notes), notes, nil
}

func (a *promAPI) metadata(r *http.Request) (any, annotations.Annotations, error) {
	limit, err := intParam(r, "limit", -1)
	if err != nil {
		return nil, nil, err
	}
	perMetric, err := intParam(r, "limit_per_metric", -1)
	if err != nil {
		return nil, nil, err
	}
	all := map[string][]Metadata{}
	if a.o.Metadata != nil {
		all = a.o.Metadata()
	}
	metric := r.Form.Get("metric")
	found := map[string][]Metadata{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if metric != "" && name != metric {
			continue
		}
		if limit >= 0 && len(found) >= limit {
			break
		}
		entries := all[name]
		if perMetric > 0 && len(entries) > perMetric {
			entries = entries[:perMetric]
		}
		found[name] = entries
	}
	return found, nil, nil
}

func (a *promAPI) buildInfo(*http.Request) (any, annotations.Annotations, error) {
	return map[string]string{
		"application": "kvwatch",
		"version":     a.o.Version,
		"revision":    "", "branch": "", "buildUser": "", "buildDate": "",
		"goVersion": runtime.Version(),
	}, nil, nil
}

// truncate cuts off what is over the limit (0 is none) and notes it.
func truncate[T any](all []T, limit int, notes *annotations.Annotations) []T {
	if limit == 0 || len(all) <= limit {
		return all
	}
	notes.Add(errors.New("results truncated due to limit"))
	return all[:limit]
}

// queryGate lets so many queries run at once; the others wait, within their time.
type queryGate chan struct{}

func (g queryGate) GetMaxConcurrent() int { return cap(g) }

func (g queryGate) Insert(ctx context.Context, _ string) (int, error) {
	select {
	case g <- struct{}{}:
		return 0, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (g queryGate) Delete(int) { <-g }

func (g queryGate) Close() error { return nil }

// The error types of Prometheus that kvwatch gives.
const (
	kindBadData     = "bad_data"
	kindExecution   = "execution"
	kindTimeout     = "timeout"
	kindCanceled    = "canceled"
	kindInternal    = "internal"
	kindUnavailable = "unavailable"
)

type promError struct {
	Status    string `json:"status"`
	ErrorType string `json:"errorType"`
	Error     string `json:"error"`
}

func errorKind(err error) string {
	var (
		param    *paramError
		timeout  promql.ErrQueryTimeout
		canceled promql.ErrQueryCanceled
		broken   promql.ErrStorage
	)
	switch {
	case errors.As(err, &param):
		return kindBadData
	case errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded):
		return kindTimeout
	case errors.As(err, &canceled), errors.Is(err, context.Canceled):
		return kindCanceled
	case errors.Is(err, tsdb.ErrNotReady):
		return kindUnavailable
	case errors.As(err, &broken):
		if errors.Is(broken.Err, tsdb.ErrNotReady) { // ErrStorage does not unwrap
			return kindUnavailable
		}
		return kindInternal
	default:
		return kindExecution
	}
}

func errorStatus(kind string) int {
	switch kind {
	case kindBadData:
		return http.StatusBadRequest
	case kindExecution:
		return http.StatusUnprocessableEntity
	case kindTimeout, kindUnavailable:
		return http.StatusServiceUnavailable
	case kindCanceled:
		return 499 // nobody reads it: the client has gone
	default:
		return http.StatusInternalServerError
	}
}
