package web

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// The bounds of a lookup that gives none, as Prometheus and its clients have
// them: they send these two to say "always".
const (
	firstSecond = math.MinInt64/1000 + 62135596801
	lastSecond  = math.MaxInt64/1000 - 62135596801
)

// paramError is a request that cannot be understood.
type paramError struct{ err error }

// Error returns the text of the cause.
func (e *paramError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *paramError) Unwrap() error { return e.err }

func badParam(name string, err error) error {
	return &paramError{fmt.Errorf("invalid parameter %q: %w", name, err)}
}

// timeParam reads a time: RFC 3339, or Unix seconds with or without fraction.
func timeParam(r *http.Request, name string, missing time.Time) (time.Time, error) {
	text := r.Form.Get(name)
	if text == "" {
		return missing, nil
	}
	t, err := parseTime(text)
	if err != nil {
		return time.Time{}, badParam(name, err)
	}
	return t, nil
}

func parseTime(text string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		whole, fraction := math.Modf(seconds)
		if math.IsNaN(seconds) || whole < firstSecond || whole > lastSecond {
			return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", text)
		}
		return time.Unix(int64(whole), int64(math.Round(fraction*1000))*int64(time.Millisecond)).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	for _, bound := range []time.Time{time.Unix(firstSecond, 0).UTC(), time.Unix(lastSecond, 999_999_999).UTC()} {
		if text == bound.Format(time.RFC3339Nano) { // years that time.Parse cannot read
			return bound, nil
		}
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", text)
}

// durationParam reads a duration over 0: seconds, or Prometheus's form ("5m").
func durationParam(r *http.Request, name string, missing time.Duration) (time.Duration, error) {
	text := r.Form.Get(name)
	if text == "" {
		return missing, nil
	}
	d, err := parseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%s must be over 0", text)
	}
	if err != nil {
		return 0, badParam(name, err)
	}
	return d, nil
}

func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if math.IsNaN(seconds) || math.Abs(seconds*float64(time.Second)) >= math.MaxInt64 {
			return 0, fmt.Errorf("cannot parse %q to a valid duration: it is too long", text)
		}
		return time.Duration(seconds * float64(time.Second)), nil
	}
	if d, err := model.ParseDuration(text); err == nil {
		return time.Duration(d), nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", text)
}

// rangeParams reads the range of a range query and holds it to the resolution limit.
func rangeParams(r *http.Request) (start, end time.Time, step time.Duration, err error) {
	for _, name := range []string{"start", "end", "step"} {
		if r.Form.Get(name) == "" {
			return start, end, 0, badParam(name, errors.New("it is missing"))
		}
	}
	if start, err = timeParam(r, "start", start); err != nil {
		return start, end, 0, err
	}
	if end, err = timeParam(r, "end", end); err != nil {
		return start, end, 0, err
	}
	if end.Before(start) {
		return start, end, 0, badParam("end", errors.New("end timestamp must not be before start time"))
	}
	if step, err = durationParam(r, "step", 0); err != nil {
		return start, end, 0, err
	}
	if end.Sub(start)/step > maxQueryPoints {
		return start, end, 0, &paramError{fmt.Errorf("over the limit of %d points per series; use a larger step or a shorter range", maxQueryPoints)}
	}
	return start, end, step, nil
}

// limitParam reads how many results are wanted; 0 is all.
func limitParam(r *http.Request) (int, error) {
	limit, err := intParam(r, "limit", 0)
	if err == nil && limit < 0 {
		err = badParam("limit", errors.New("limit must be non-negative"))
	}
	return limit, err
}

func intParam(r *http.Request, name string, missing int) (int, error) {
	text := r.Form.Get(name)
	if text == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, badParam(name, fmt.Errorf("%q is not a number", text))
	}
	return n, nil
}

// lookup is a question for series or labels, with its querier open.
type lookup struct {
	querier    storage.Querier
	matchers   [][]*labels.Matcher
	mint, maxt int64 // ms
	limit      int
	close      func()
}

// hint asks for one more than the limit, so that a truncation is noticed.
func (l *lookup) hint() *storage.LabelHints {
	if l.limit == 0 || l.limit == math.MaxInt {
		return &storage.LabelHints{}
	}
	return &storage.LabelHints{Limit: l.limit + 1}
}

// openLookup reads start, end, limit and match[]. The caller closes the lookup.
func (a *promAPI) openLookup(r *http.Request) (*lookup, error) {
	start, err := timeParam(r, "start", time.Unix(firstSecond, 0))
	if err != nil {
		return nil, err
	}
	end, err := timeParam(r, "end", time.Unix(lastSecond, 0))
	if err != nil {
		return nil, err
	}
	l := &lookup{mint: start.UnixMilli(), maxt: end.UnixMilli()}
	if l.limit, err = limitParam(r); err != nil {
		return nil, err
	}
	if l.matchers, err = a.matchers(r.Form["match[]"]); err != nil {
		return nil, badParam("match[]", err)
	}
	if l.querier, err = a.o.Queryable.Querier(l.mint, l.maxt); err != nil {
		return nil, err
	}
	l.close = func() {
		if err := l.querier.Close(); err != nil {
			a.o.Logger.Warn("Closing a query failed", "err", err)
		}
	}
	return l, nil
}

func (a *promAPI) matchers(selectors []string) ([][]*labels.Matcher, error) {
	sets, err := a.parser.ParseMetricSelectors(selectors)
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		if !narrows(set) {
			return nil, errors.New("match[] must contain at least one non-empty matcher")
		}
	}
	return sets, nil
}

// narrows says whether any matcher refuses the empty value; without one all series match.
func narrows(set []*labels.Matcher) bool {
	for _, m := range set {
		if m != nil && !m.Matches("") {
			return true
		}
	}
	return false
}
