package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"kvwatch/collector"
	"kvwatch/collector/history"
)

// answers stores nothing: it gives an answer.
type answers struct{ err error }

func (a *answers) Append(context.Context, time.Time, []collector.Sample, []*collector.Series) error {
	return a.err
}

func (a *answers) AppendRound(context.Context, *collector.Round) error { return a.err }

func TestHistoryWriterSaysOnceWhatFails(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var to answers
	w := newHistoryWriter(&to, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
	for i, answer := range []error{nil, errors.New("no space left"), errors.New("no space left"), nil, nil, &history.SkippedError{Skipped: 3, Total: 9, Err: errors.New("out of order")}} {
		to.err = answer
		if i%2 == 0 {
			w.appendRound(t.Context(), &collector.Round{Time: time.Unix(1, 0)})
		} else if err := w.append(t.Context(), time.Unix(1, 0), nil, nil); err != nil {
			t.Errorf("append: %v", err)
		}
	}
	if n := strings.Count(log.String(), "cannot be written"); n != 1 {
		t.Errorf("a failure that lasts was logged %d times:\n%s", n, log.String())
	}
	if n := strings.Count(log.String(), "written again"); n != 1 {
		t.Errorf("its end was logged %d times:\n%s", n, log.String())
	}
	if f, s := testutil.ToFloat64(w.failures), testutil.ToFloat64(w.skipped); f != 2 || s != 3 {
		t.Errorf("%g failures and %g skipped samples counted, want 2 and 3", f, s)
	}
}
