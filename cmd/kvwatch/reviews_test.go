package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kvwatch/alerting"
	"kvwatch/collector/history"
	"kvwatch/dashboards/review"
	"kvwatch/rules"
)

// reviewerOver makes one over a history; it tells its reports to the caller.
func reviewerOver(t *testing.T, storage string, c *Config) (*reviewer, *[]alerting.Report) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := history.Open(history.Options{Dir: storage, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := rules.New(rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	incidents, err := openIncidents(filepath.Join(storage, "incidents.jsonl"), time.Now(), log)
	if err != nil {
		t.Fatal(err)
	}
	var told []alerting.Report
	r, err := openReviewer(&reviewer{
		dir: filepath.Join(storage, "reviews"), externalURL: "http://kvwatch:14600", scan: store.Scan, engine: engine, incidents: incidents, log: log,
		tell: func(_ string, one alerting.Report) error { told = append(told, one); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	r.reload(c)
	return r, &told
}

// scheduled is a configuration with both schedules.
func scheduled(t *testing.T) *Config {
	t.Helper()
	daily, err := parseCron("CRON_TZ=UTC 0 12 * * *")
	if err != nil {
		t.Fatal(err)
	}
	s := &ReviewSchedule{Cron: daily}
	return &Config{Schedules: Schedules{Review: s, Digest: s}}
}

// TestScheduledReview: what is made over a history has its numbers and the alerts
// that were told, is kept and can be read, tells a receiver in a few lines, and
// goes on from the last one, also after a restart.
func TestScheduledReview(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	storage := workedHistory(t, now)
	c := scheduled(t)
	r, told := reviewerOver(t, storage, c)
	fired := rules.Alert{
		Name: "PrefixCacheCollapse", Severity: "critical", State: rules.StateFiring, FiredAt: now.Add(-3 * time.Hour), ActiveAt: now.Add(-4 * time.Hour),
		Labels: map[string]string{"alertname": "PrefixCacheCollapse", "pool": "vllm/m"}, Annotations: map[string]string{"summary": "it collapsed"},
	}
	r.incidents.take(now.Add(-3*time.Hour), []rules.Alert{fired})
	fired.State, fired.ResolvedAt = rules.StateResolved, now.Add(-2*time.Hour)
	r.incidents.take(now.Add(-2*time.Hour), []rules.Alert{fired})

	for _, make := range []func(context.Context, time.Time) error{r.review, r.digest} {
		if err := make(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	if len(*told) != 2 {
		t.Fatalf("%d reports", len(*told))
	}
	long, short := (*told)[0], (*told)[1]
	if long.Title != "Capacity review, 28 November to 29 November 2026" || long.Link != "http://kvwatch:14600/reviews/2026-11-29T120000Z-review.html" {
		t.Errorf("%+v", long)
	}
	if short.Title != "kvwatch digest: well now; 1 incident since 2026-11-28 12:00" || len(short.Lines) > 15 ||
		short.Lines[0] != "Fired: PrefixCacheCollapse (1 h)" || !strings.HasPrefix(short.Lines[1], "vllm/m: 1 engine, 86 thousand requests, cache hits 90 %") {
		t.Errorf("%+v", short)
	}

	list := r.list()
	if len(list) != 2 || list[0].Kind != jobDigest || !list[0].At.Equal(now) {
		t.Fatalf("%+v", list)
	}
	text, err := r.read(list[1].Name, "json")
	var kept review.Review
	if err := errors.Join(err, json.Unmarshal(text, &kept)); err != nil || !kept.From.Equal(now.Add(-24*time.Hour)) || len(kept.Incidents) != 1 || len(kept.Pools) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	if _, err := r.read("../runs", "json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another file: %v", err)
	}
	if last := r.last(jobReview, c.Schedules.Review.Cron); !last.Equal(now) {
		t.Errorf("last %s", last)
	}

	// The next daemon knows of it, and goes on from there.
	again, err := openReviewer(&reviewer{dir: r.dir, scan: r.scan, engine: r.engine, incidents: r.incidents, tell: r.tell, log: r.log})
	if err != nil {
		t.Fatal(err)
	}
	again.reload(c)
	if last := again.last(jobReview, c.Schedules.Review.Cron); !last.Equal(now) {
		t.Errorf("after a restart, last %s", last)
	}
	other, err := parseCron("@daily")
	if err != nil {
		t.Fatal(err)
	}
	if last := again.last(jobReview, other); !last.IsZero() {
		t.Errorf("by another time table, last %s", last)
	}
	later := now.Add(90 * time.Minute)
	if err := again.review(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	if text, err = again.read(again.list()[0].Name, "md"); err != nil || !strings.Contains(string(text), "2026-11-29 12:00 to 2026-11-29 13:30") || !strings.Contains(string(text), "nothing was read from") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestPeriod: from the last one on, or as long as the schedule has between two, a
// month at most.
func TestPeriod(t *testing.T) {
	t.Parallel()
	now := at(t, "10:00:00")
	weekly, err := parseCron("CRON_TZ=UTC 0 8 * * MON")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ last, from time.Time }{
		"the first":                 {time.Time{}, now.Add(-7 * 24 * time.Hour)},
		"the next":                  {now.Add(-50 * time.Hour), now.Add(-50 * time.Hour)},
		"after the clock went back": {now.Add(time.Hour), now.Add(-7 * 24 * time.Hour)},
		"after half a year":         {now.Add(-180 * 24 * time.Hour), now.Add(-longestReview)},
	} {
		if got := period(weekly, c.last, now); !got.from.Equal(c.from) || !got.to.Equal(now) {
			t.Errorf("%s: from %s to %s, want from %s", name, got.from, got.to, c.from)
		}
	}
}

// TestReviewsAreBounded keeps the newest of each kind.
func TestReviewsAreBounded(t *testing.T) {
	t.Parallel()
	r, _ := reviewerOver(t, t.TempDir(), scheduled(t))
	made := review.New(review.Input{})
	for i := range reviewsKept + 3 {
		if err := r.keep(at(t, "10:00:00").Add(time.Duration(i)*time.Hour).Format(reviewStamp)+"-digest", made); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(r.keep("2026-01-01T000000Z-review", made), r.prune(jobDigest)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "*"))
	if list := r.list(); err != nil || len(list) != reviewsKept+1 || list[len(list)-1].Kind != jobReview || len(files) != 3*(reviewsKept+1) {
		t.Errorf("%d reviews in %d files, %v", len(list), len(files), err)
	}
}

// TestIncidentLog: what fired is known after a restart, once, with its end; what
// the rules speak of no more is over.
func TestIncidentLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "incidents.jsonl")
	log := slog.New(slog.DiscardHandler)
	start := at(t, "10:00:00")
	open := func(now time.Time) *incidentLog {
		l, err := openIncidents(path, now, log)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	fires := func(name string, fired time.Time) rules.Alert {
		return rules.Alert{Name: name, Severity: "warning", State: rules.StateFiring, FiredAt: fired, Labels: map[string]string{"alertname": name, "job": "vllm", "instance": "a:8000"}}
	}
	l := open(start)
	first, gone := fires("TargetDown", start), fires("Gone", start)
	pending := rules.Alert{Name: "Pending", State: rules.StatePending}
	for i := range 5 {
		l.take(start.Add(time.Duration(i)*time.Minute), []rules.Alert{first, gone, pending, fires(rules.Watchdog, start)})
	}
	raw, err := os.ReadFile(path)
	if err != nil || strings.Count(string(raw), "\n") != 2 {
		t.Errorf("%v, the file holds\n%s", err, raw)
	}
	writeFile(t, path, string(raw)+`{"key":"cut`)
	l = open(start.Add(5 * time.Minute))
	first.State, first.ResolvedAt = rules.StateResolved, start.Add(6*time.Minute)
	l.take(start.Add(6*time.Minute), []rules.Alert{first})
	l.take(start.Add(20*time.Minute), nil)
	for _, l := range []*incidentLog{l, open(start.Add(time.Hour))} {
		got := l.between(start.Add(-time.Hour), start.Add(time.Hour))
		if len(got) != 2 || got[0].ResolvedAt == nil || !got[1].ResolvedAt.Equal(first.ResolvedAt) || !got[0].ResolvedAt.Equal(start.Add(5*time.Minute)) || got[1].About != "vllm/a:8000" {
			t.Errorf("%+v", got)
		}
	}
	if got := l.between(start.Add(-time.Hour), start.Add(5*time.Minute)); len(got) != 2 || got[1].ResolvedAt != nil {
		t.Errorf("before the end: %+v", got)
	}
	if got := l.between(start.Add(time.Hour), start.Add(2*time.Hour)); len(got) != 0 {
		t.Errorf("after the end: %+v", got)
	}
	if got := open(start.Add(incidentsKept+time.Hour)).between(start.Add(-time.Hour), start.Add(time.Hour)); len(got) != 0 {
		t.Errorf("long after: %+v", got)
	}
}

// TestReviewSchedules: both forms of a schedule load, and what is wrong is named
// with its place.
func TestReviewSchedules(t *testing.T) {
	t.Parallel()
	const rest = `
scrape_configs: [{job_name: vllm, static_configs: [{targets: ["127.0.0.1:1"]}]}]
receivers: [{name: beat, heartbeat_configs: [{url: "http://127.0.0.1:1/"}]}, {name: chat, terminal_configs: [{}]}]
`
	c, err := parseConfig("kvwatch.yml", []byte(`schedules: {review: {cron: "0 8 * * MON", receiver: chat}, digest: "CRON_TZ=Europe/Madrid 0 9 * * *"}`+"\nroute: {receiver: chat}"+rest))
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Schedules; s.Review.Receiver != "chat" || s.Digest.Cron.String() != "CRON_TZ=Europe/Madrid 0 9 * * *" || s.Digest.Receiver != "" || s.Sizing == nil {
		t.Errorf("%+v", s)
	}
	for text, want := range map[string]string{
		"schedules:\n  review: {cron: \"0 8 * * MON\", receiver: none}":   `kvwatch.yml:2:43: schedules: review: receiver: there is no receiver "none": there are beat, chat`,
		"schedules:\n  digest: {cron: \"0 8 * * MON\", receiver: beat}":   `schedules: digest: receiver: receiver "beat" takes alerts alone`,
		"schedules:\n  digest: \"0 8 * * MON\"":                           `kvwatch.yml:2:11: schedules: digest: the root route's receiver "beat" takes alerts alone`,
		"schedules:\n  review: {receiver: chat}":                          "cron is missing",
		"schedules:\n  review: {cron: \"0 8 * * MON\", reciever: chat}":   "reciever",
		"schedules:\n  review: \"8 o'clock\"":                             "8 o'clock",
		"schedules:\n  review: {cron: \"0 8 30 2 *\", receiver: chat}":    "there is no such day",
		"schedules:\n  review: {cron: [\"0 8 * * MON\"], receiver: chat}": "kvwatch.yml:2",
	} {
		if _, err := parseConfig("kvwatch.yml", []byte(text+rest)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", text, err, want)
		}
	}
}

// TestCatchUp: a time that passed while the daemon was down is made up for once,
// soon after the start, and not where nothing was missed.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	daily, err := parseCron("CRON_TZ=UTC 0 9 * * *")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		last time.Time
		want []string
	}{
		"two days down": {at(t, "09:00:00").Add(-48 * time.Hour), []string{"10:02:00"}},
		"done today":    {at(t, "09:00:00"), nil},
		"never done":    {time.Time{}, nil},
	} {
		s := newScheduler(slog.New(slog.DiscardHandler))
		var done []string
		s.add(jobDigest, func(_ context.Context, at time.Time) error { done = append(done, at.Format(time.TimeOnly)); return nil })
		start := at(t, "10:00:00")
		s.set(jobDigest, daily, start)
		s.catchUp(jobDigest, c.last, start)
		for i := range 60 {
			s.step(t.Context(), start.Add(time.Duration(i)*time.Minute))
			s.running.Wait()
		}
		if fmt.Sprint(done) != fmt.Sprint(c.want) {
			t.Errorf("%s: done at %v, want %v", name, done, c.want)
		}
	}
}

// TestDigestOfTheDaemon: the real daemon makes a digest when it is due, tells Slack
// of it, and serves it.
func TestDigestOfTheDaemon(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var came []string
	slack := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct{ Text string }
		_ = json.NewDecoder(r.Body).Decode(&body) // another body has no text
		mu.Lock()
		defer mu.Unlock()
		came = append(came, body.Text)
	}))
	t.Cleanup(slack.Close)
	storage := workedHistory(t, time.Now())
	config := filepath.Join(t.TempDir(), "kvwatch.yml")
	writeFile(t, config, fmt.Sprintf(`
scrape_configs: [{job_name: vllm, static_configs: [{targets: ["127.0.0.1:1"]}]}]
schedules: {digest: {cron: "@every 1s", receiver: chat}}
receivers: [{name: quiet, terminal_configs: [{}]}, {name: chat, slack_configs: [{api_url: %q}]}]
`, slack.URL))
	p := runDaemon(t, config, storage)
	p.eventually(t, "Slack was told", func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(came) == 0 || !strings.HasPrefix(came[0], "kvwatch digest: ") {
			return fmt.Errorf("Slack got %q", came)
		}
		return nil
	})
	list, err := p.get("/api/v1/kvwatch/reviews")
	var answer struct{ Data []struct{ Name, Kind string } }
	if err := errors.Join(err, json.Unmarshal([]byte(list), &answer)); err != nil || len(answer.Data) == 0 || answer.Data[0].Kind != jobDigest {
		t.Fatalf("%v: %s", err, list)
	}
	if page, err := p.get("/reviews/" + answer.Data[0].Name + ".html"); err != nil || !strings.Contains(page, "Capacity review") {
		t.Errorf("%v: %s", err, page)
	}
	if _, err := p.get("/reviews/none.html"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("one that is not there: %v", err)
	}
}
