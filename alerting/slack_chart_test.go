package alerting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"kvwatch/alerting/chart"
	"kvwatch/rules"
)

// flat is a history in which every series is at one value.
func flat(_ context.Context, _ rules.Query, from, to time.Time) ([]chart.Point, error) {
	var out []chart.Point
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		out = append(out, chart.Point{At: at, Value: 0.4})
	}
	return out, nil
}

// charted is a dispatcher that can draw.
func charted(t *testing.T, dir, config string, past Past, logged *lockedBuffer) (*Dispatcher, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	d, err := New(Options{Config: mustConfig(t, config), Dir: dir, Past: past, Registerer: reg, Logger: logTo(logged)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, reg
}

// wantCharts holds the counters of charts to the only outcome that there was one of.
func wantCharts(t *testing.T, reg *prometheus.Registry, one string) {
	t.Helper()
	want := "# HELP kvwatch_notification_charts_total Charts for messages that arrived by outcome: success, failed, dropped (too many wait). A message never waits for its chart.\n" +
		"# TYPE kvwatch_notification_charts_total counter\n"
	for _, outcome := range []string{outcomeDropped, outcomeFailed, outcomeSuccess} {
		n := 0
		if outcome == one {
			n = 1
		}
		want += fmt.Sprintf("kvwatch_notification_charts_total{outcome=%q,receiver=\"oncall\"} %d\n", outcome, n)
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "kvwatch_notification_charts_total"); err != nil {
		t.Error(err)
	}
}

// TestSlackChart has one picture when an incident begins and one when a long one
// ends, none with what happens between, none after a restart.
func TestSlackChart(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	dir := t.TempDir()
	d, reg := charted(t, dir, w.config(), flat, &lockedBuffer{})
	a := fires("PrefixCacheCollapse", "warning", t0, "pool", "agents")
	worse := fires("PrefixCacheCollapse", "critical", t0, "pool", "agents")
	at := func(offset time.Duration, alerts ...rules.Alert) {
		d.Dispatch(t.Context(), t0.Add(offset), alerts)
		d.Tick(t.Context(), t0.Add(offset))
	}
	at(0, a)
	at(5*time.Second, a)
	w.mu.Lock()
	asked, done := w.calls[2], w.calls[4]
	w.mu.Unlock()
	w.want(t, "begins", "postMessage #oncall | 🟠 WARNING", "postMessage C0123 thread=1 | Details",
		"files.getUploadURLExternal  | ", "upload  | chart.png", "files.completeUploadExternal  thread=1 | ")
	wantCharts(t, reg, outcomeSuccess)
	if alt := asked.Get("alt_txt"); alt != "Prefix cache hit rate, pool agents from 11:00 to 14:00 UTC: first 40 %, last 40 %, between 40 % and 40 %; usual 40 %; the incident began at 13:59." {
		t.Errorf("the picture is described as %q", alt)
	}
	if done.Get("channel_id") != "C0123" || !strings.Contains(done.Get("files"), "Prefix cache hit rate") || done.Get("initial_comment") != "" {
		t.Errorf("the upload ends with %v", done)
	}
	img, err := png.Decode(bytes.NewReader(w.files[0]))
	if err != nil || img.Bounds().Dx() < 1000 {
		t.Errorf("the picture: %v", err)
	}
	at(65*time.Second, a)
	at(2*time.Minute+5*time.Second, worse)
	w.take()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, _ = charted(t, dir, w.config(), flat, &lockedBuffer{})
	at(4*time.Minute, worse)
	at(6*time.Minute, worse)
	if calls := fmt.Sprint(w.take()); strings.Contains(calls, "upload") {
		t.Errorf("after a restart: %s", calls)
	}
	at(20*time.Minute, ends(worse, t0.Add(20*time.Minute)))
	w.want(t, "ends", "update C0123 ts=1 | ✅ RESOLVED (was critical)", "postMessage C0123 thread=1 | ✅ Resolved",
		"files.getUploadURLExternal  | ", "upload  | chart.png", "files.completeUploadExternal  thread=1 | ")
}

// TestSlackChartNotDrawn has the messages go out as ever where there is no chart.
func TestSlackChartNotDrawn(t *testing.T) {
	t.Parallel()
	collapse := fires("PrefixCacheCollapse", "warning", t0, "pool", "agents")
	says := func(call, body string, status int) func(string, http.ResponseWriter) bool {
		return func(c string, rw http.ResponseWriter) bool {
			if c != call {
				return false
			}
			rw.WriteHeader(status)
			fmt.Fprint(rw, body)
			return true
		}
	}
	for _, tt := range []struct {
		name    string
		alert   rules.Alert
		past    Past
		fail    func(string, http.ResponseWriter) bool
		config  string // added to the receiver's
		want    string
		warning string
	}{
		{name: "switched off", alert: collapse, past: flat, config: "chart: false, "},
		{name: "no history is wired", alert: collapse},
		{name: "an alert that has none", alert: fires("TargetDown", "critical", t0, "instance", "a:1"), past: flat},
		{name: "too little history", alert: collapse, past: func(context.Context, rules.Query, time.Time, time.Time) ([]chart.Point, error) { return nil, nil }},
		{
			name: "history cannot be read", alert: collapse, want: outcomeFailed, warning: "disk on fire",
			past: func(context.Context, rules.Query, time.Time, time.Time) ([]chart.Point, error) {
				return nil, errors.New("disk on fire")
			},
		},
		{
			name: "drawing panics", alert: collapse, want: outcomeFailed, warning: "out of paper",
			past: func(context.Context, rules.Query, time.Time, time.Time) ([]chart.Point, error) { panic("out of paper") },
		},
		{
			name: "no scope", alert: collapse, past: flat, fail: says("files.getUploadURLExternal", `{"ok":false,"error":"missing_scope"}`, 200), want: outcomeFailed,
			warning: "charts need the scope files:write: add it and install the app again, or set chart: false",
		},
		{name: "the upload is refused", alert: collapse, past: flat, fail: says("upload", "no", 413), want: outcomeFailed, warning: "413"},
		{name: "rate limited", alert: collapse, past: flat, fail: says("files.getUploadURLExternal", "", 429), want: outcomeFailed, warning: "429"},
		{name: "a proxy's page", alert: collapse, past: flat, fail: says("files.completeUploadExternal", "<html>", 200), want: outcomeFailed, warning: "uploading a chart"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			w.breaks(tt.fail)
			var logged lockedBuffer
			d, reg := charted(t, "", strings.Replace(w.config(), "channel:", tt.config+"channel:", 1), tt.past, &logged)
			d.Dispatch(t.Context(), t0, []rules.Alert{tt.alert})
			d.Tick(t.Context(), t0.Add(5*time.Second))
			calls := slices.DeleteFunc(w.take(), func(c string) bool { return !strings.HasPrefix(c, "postMessage") })
			if diff := cmp.Diff([]string{"postMessage #oncall | " + markOf(tt.alert.State, tt.alert.Severity).String(), "postMessage C0123 thread=1 | Details"}, calls); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if got := d.Incidents()[0].Deliveries[0]; got.Outcome != outcomeSuccess {
				t.Errorf("the message: %+v", got)
			}
			wantCharts(t, reg, tt.want)
			if !strings.Contains(logged.String(), tt.warning) || (tt.warning == "") == strings.Contains(logged.String(), "A chart could not be added") {
				t.Errorf("logged %q", logged.String())
			}
			d.Tick(t.Context(), t0.Add(30*time.Second))
			w.want(t, "it is not asked for again")
		})
	}
}

// TestSlackChartsOfAStorm has more incidents at once than pictures may wait: all
// are told, and what is not drawn is counted.
func TestSlackChartsOfAStorm(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	drawn := 0
	d, _ := charted(t, "", w.config(), func(_ context.Context, q rules.Query, _, _ time.Time) ([]chart.Point, error) {
		if q.Labels["window"] != "" {
			drawn++
		}
		return nil, nil
	}, &lockedBuffer{})
	var alerts []rules.Alert
	for i := range mostPictures + 4 {
		alerts = append(alerts, fires("PrefixCacheCollapse", "critical", t0, "pool", fmt.Sprintf("p%02d", i)))
	}
	d.Dispatch(t.Context(), t0, alerts)
	d.Tick(t.Context(), t0.Add(5*time.Second))
	messages := slices.DeleteFunc(w.take(), func(c string) bool { return !strings.HasPrefix(c, "postMessage #oncall") })
	if len(messages) != len(alerts) || drawn != mostPictures {
		t.Errorf("%d messages, %d charts", len(messages), drawn)
	}
	if n := testutil.ToFloat64(d.metrics.charts.WithLabelValues("oncall", outcomeDropped)); n != 4 {
		t.Errorf("%g dropped", n)
	}
}
