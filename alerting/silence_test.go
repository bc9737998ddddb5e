package alerting

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestSilenceMatchers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`pool=chat`:             `pool="chat"`,
		`instance=~"vllm-.*"`:   `instance=~"vllm-.*"`,
		`severity!="critical"`:  `severity!="critical"`,
		`alertname!~"Prefix.+"`: `alertname!~"Prefix.+"`,
	} {
		m, err := ParseSilenceMatcher(text)
		if err != nil || m.String() != want {
			t.Errorf("%s is %s (%v), want %s", text, m, err, want)
		}
	}
	_, err := ParseSilenceMatcher("chat")
	wantError(t, "chat", err, `"chat" is no matcher`)
}

func TestSilencesThatAreRefused(t *testing.T) {
	t.Parallel()
	fine := func() Silence {
		return Silence{
			Matchers: []SilenceMatcher{{Name: "pool", Value: "chat"}},
			StartsAt: t0, EndsAt: t0.Add(time.Hour), CreatedBy: "ops", Comment: "why",
		}
	}
	no := false
	for want, spoil := range map[string]func(*Silence){
		"needs a matcher":               func(s *Silence) { s.Matchers = nil },
		"else it would silence":         func(s *Silence) { s.Matchers = []SilenceMatcher{{Name: "pool", Value: ".*", IsRegex: true}} },
		"a label with a value":          func(s *Silence) { s.Matchers = []SilenceMatcher{{Name: "pool", Value: "chat", IsEqual: &no}} },
		`"po ol", which is no label`:    func(s *Silence) { s.Matchers[0].Name = "po ol" },
		"the matcher of pool: error":    func(s *Silence) { s.Matchers = []SilenceMatcher{{Name: "pool", Value: "(", IsRegex: true}} },
		"endsAt is before startsAt":     func(s *Silence) { s.EndsAt = t0.Add(-time.Minute) },
		"needs startsAt and endsAt":     func(s *Silence) { s.EndsAt = time.Time{} },
		"endsAt has passed":             func(s *Silence) { s.EndsAt = t0 },
		"say who silences":              func(s *Silence) { s.CreatedBy = " " },
		"say why it is silenced":        func(s *Silence) { s.Comment = "" },
		"there is no silence with this": func(s *Silence) { s.ID = "00000000-0000-4000-8000-000000000000" },
	} {
		list, err := openSilences("")
		if err != nil {
			t.Fatal(err)
		}
		s := fine()
		if _, err := list.set(s, t0); err != nil {
			t.Fatalf("a silence that is fine: %v", err)
		}
		spoil(&s)
		_, err = list.set(s, t0)
		wantError(t, want, err, want)
		if n := len(list.all(t0)); n != 1 {
			t.Errorf("%s: %d silences, want the first one alone", want, n)
		}
	}
}

func TestSilenceChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list, err := openSilences(dir)
	if err != nil {
		t.Fatal(err)
	}
	set := func(s Silence, now time.Duration) string {
		t.Helper()
		id, err := list.set(s, t0.Add(now))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	states := func(now time.Duration, want map[string]SilenceState) {
		t.Helper()
		if list, err = openSilences(dir); err != nil { // as after a restart
			t.Fatal(err)
		}
		got := map[string]SilenceState{}
		for _, s := range list.all(t0.Add(now)) {
			got[s.ID] = s.Status.State
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", now, diff)
		}
	}
	s := Silence{
		Matchers: []SilenceMatcher{{Name: "pool", Value: "chat"}},
		StartsAt: t0.Add(time.Hour), EndsAt: t0.Add(2 * time.Hour), CreatedBy: "ops", Comment: "why",
	}
	id := set(s, 0)
	states(0, map[string]SilenceState{id: SilencePending})
	states(time.Hour, map[string]SilenceState{id: SilenceActive})
	s.ID, s.EndsAt = id, t0.Add(3*time.Hour)
	if got := set(s, 90*time.Minute); got != id {
		t.Errorf("a silence that is made longer has another ID, %s", got)
	}
	states(150*time.Minute, map[string]SilenceState{id: SilenceActive})
	s.Matchers = []SilenceMatcher{{Name: "pool", Value: "agents"}}
	other := set(s, 151*time.Minute)
	states(151*time.Minute, map[string]SilenceState{id: SilenceExpired, other: SilenceActive})
	if err := list.expire(other, t0.Add(152*time.Minute)); err != nil {
		t.Fatal(err)
	}
	states(152*time.Minute, map[string]SilenceState{id: SilenceExpired, other: SilenceExpired})
	wantError(t, "expired twice", list.expire(other, t0.Add(153*time.Minute)), "has ended already")
	if err := list.expire("nobody", t0); !errors.Is(err, ErrNoSilence) {
		t.Errorf("an unknown silence: %v", err)
	}
	// What ended long ago is forgotten with the next change.
	s.ID, s.StartsAt, s.EndsAt = "", time.Time{}, t0.Add(300*time.Hour)
	last := set(s, 200*time.Hour)
	states(200*time.Hour, map[string]SilenceState{last: SilenceActive})
}

// A silence that cannot be kept is not in effect: it would be gone after a restart.
func TestSilenceOnADiskThatFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list, err := openSilences(dir)
	if err != nil {
		t.Fatal(err)
	}
	// A folder in the place of the temporary file cannot be written to.
	if err := os.Mkdir(filepath.Join(dir, silencesName+".tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := Silence{Matchers: []SilenceMatcher{{Name: "pool", Value: "chat"}}, EndsAt: t0.Add(time.Hour), CreatedBy: "ops", Comment: "why"}
	_, err = list.set(s, t0)
	wantError(t, "the disk fails", err, "is not in effect")
	if n := len(list.active(t0)); n != 0 {
		t.Errorf("%d silences are in effect", n)
	}
	if err := os.WriteFile(filepath.Join(dir, silencesName), []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = openSilences(dir)
	wantError(t, "a damaged file", err, "mend it, or move it away")
}

func TestSilenceAPI(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), "receivers: [{name: all}]")
	server := httptest.NewServer(d.AlertmanagerAPI(t0, func() time.Time { return t0 }))
	t.Cleanup(server.Close)
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, strings.TrimSpace(string(text))
	}
	const body = `{"matchers":[{"name":"pool","value":"chat","isRegex":false}],"startsAt":"2026-03-02T14:00:00Z","endsAt":"2026-03-02T15:00:00Z","createdBy":"ops","comment":"roll-out","unknown":1}`
	code, text := ask(http.MethodPost, "/api/v2/silences", body)
	var made struct {
		ID string `json:"silenceID"`
	}
	if err := json.Unmarshal([]byte(text), &made); code != http.StatusOK || err != nil || len(made.ID) != 36 {
		t.Fatalf("posting: %d %s (%v)", code, text, err)
	}
	code, text = ask(http.MethodGet, "/api/v2/silences?filter=pool%3Dchat", "")
	var list []Silence
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	want := []Silence{{
		ID: made.ID, Status: SilenceStatus{SilenceActive}, UpdatedAt: t0, Matchers: []SilenceMatcher{{Name: "pool", Value: "chat"}},
		StartsAt: t0, EndsAt: t0.Add(time.Hour), CreatedBy: "ops", Comment: "roll-out",
	}}
	if diff := cmp.Diff(want, list, cmpopts.IgnoreUnexported(Silence{})); code != http.StatusOK || diff != "" {
		t.Errorf("the list, %d (-want +got):\n%s", code, diff)
	}
	for _, tt := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{http.MethodGet, "/api/v2/silences?filter=pool%3Dagents", "", 200, "[]"},
		{http.MethodGet, "/api/v2/silences?filter=pool", "", 400, "is no matcher"},
		{http.MethodGet, "/api/v2/silence/" + made.ID, "", 200, `"comment":"roll-out"`},
		{http.MethodGet, "/api/v2/silence/nobody", "", 404, "there is no silence"},
		{http.MethodPost, "/api/v2/silences", "{", 400, "the body is no silence"},
		{http.MethodPost, "/api/v2/silences", "{}", 400, "needs a matcher"},
		{http.MethodPost, "/api/v2/silences", strings.Replace(body, "{", `{"id":"nobody",`, 1), 404, "there is no silence"},
		{http.MethodDelete, "/api/v2/silence/nobody", "", 404, "there is no silence"},
		{http.MethodDelete, "/api/v2/silence/" + made.ID, "", 200, ""},
		{http.MethodDelete, "/api/v2/silence/" + made.ID, "", 400, "has ended already"},
		{http.MethodGet, "/api/v2/silences", "", 200, `"state":"expired"`},
		{http.MethodPut, "/api/v2/silences", "", 405, "Method Not Allowed"},
	} {
		if code, text := ask(tt.method, tt.path, tt.body); code != tt.code || !strings.Contains(text, tt.want) {
			t.Errorf("%s %s: %d %s, want %d with %q", tt.method, tt.path, code, text, tt.code, tt.want)
		}
	}
}
