package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEventCheck(t *testing.T) {
	t.Parallel()
	at := testStart
	tests := []struct {
		name  string
		event Event
		want  string // "" is fine
	}{
		{"deploy", Event{Kind: EventDeploy}, ""},
		{"maintenance that lasts", Event{Kind: EventMaintenance, Text: "switch", Until: at.Add(time.Hour)}, ""},
		{"note", Event{Kind: EventNote, Text: "load test ☎"}, ""},
		{"no kind", Event{}, `kind is "": it is deploy, maintenance or note`},
		{"accept is not told", Event{Kind: EventAccept}, `kind is "accept"`},
		{"empty note", Event{Kind: EventNote}, "text is empty"},
		{"two lines", Event{Kind: EventNote, Text: "a\nb"}, "one line"},
		{"no text", Event{Kind: EventNote, Text: "a\xff"}, "plain text"},
		{"too long", Event{Kind: EventNote, Text: strings.Repeat("ä", 301)}, "301 characters: at most 300"},
		{"ends before it begins", Event{Kind: EventDeploy, Until: at}, "must be after now"},
		{"ends too late", Event{Kind: EventDeploy, Until: at.Add(31 * 24 * time.Hour)}, "at most 30 days"},
	}
	for _, tt := range tests {
		tt.event.At = at
		err := tt.event.Check()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestQuotes(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time { return testStart.Add(time.Duration(minutes) * time.Minute) }
	onset, now := at(60), at(65)
	tests := []struct {
		name   string
		events []Event
		want   string // the texts of those quoted
	}{
		{"none", nil, ""},
		{"half an hour before", []Event{{At: at(30), Pool: "p", Text: "x"}}, "x"},
		{"earlier", []Event{{At: at(29), Pool: "p", Text: "x"}}, ""},
		{"earlier and it lasts", []Event{{At: at(0), Pool: "p", Text: "x", Until: at(31)}}, "x"},
		{"after the onset", []Event{{At: at(64), Pool: "p", Text: "x"}}, "x"},
		{"of all pools", []Event{{At: at(50), Text: "x"}}, "x"},
		{"of another pool", []Event{{At: at(50), Pool: "q", Text: "x"}}, ""},
		{"after now, as when the clock was set back", []Event{{At: at(66), Pool: "p", Text: "x"}}, ""},
		{"the newest three", []Event{{At: at(50), Text: "a"}, {At: at(51), Text: "b"}, {At: at(52), Text: "c"}, {At: at(53), Text: "d"}}, "bcd"},
	}
	for _, tt := range tests {
		var got strings.Builder
		for i, q := range quotes(tt.events, "p", onset, now) {
			if i > 0 && !strings.Contains(q, "UTC") {
				t.Errorf("%s: %q has no time", tt.name, q)
			}
			_, text, _ := strings.Cut(q, ": ")
			got.WriteString(text)
		}
		if got.String() != tt.want {
			t.Errorf("%s: quotes %q, want %q", tt.name, got.String(), tt.want)
		}
	}
}

func TestJournalSurvives(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j, _, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, kind := range []string{EventDeploy, EventNote} {
		if err := j.add(Event{At: testStart.Add(time.Duration(i) * time.Minute), Kind: kind, Text: "<&>"}); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A crash may cut the last line short anywhere: the lines before it stay, and
	// what is added later does too.
	end := strings.LastIndex(strings.TrimSuffix(string(whole), "\n"), "\n") + 1
	for cut := end; cut <= len(whole); cut++ {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, _, err := openJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		before := len(j.events)
		if before == 0 || j.events[0].Kind != EventDeploy || j.events[0].Text != "<&>" {
			t.Fatalf("cut at %d: %+v", cut, j.events)
		}
		if err := j.add(Event{At: testStart.Add(time.Hour), Kind: EventMaintenance}); err != nil {
			t.Fatal(err)
		}
		again, skipped, err := openJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(again.events) != before+1 || again.events[before].Kind != EventMaintenance {
			t.Fatalf("cut at %d: %d events, then %d, %d lines skipped", cut, before, len(again.events), skipped)
		}
	}
}

func TestJournalKeepsTheNewest(t *testing.T) {
	t.Parallel()
	j := &journal{}
	for i := range journalKept + 5 {
		j.take(Event{At: testStart.Add(time.Duration(i) * time.Second)})
	}
	if n := len(j.events); n != journalKept || !j.events[0].At.Equal(testStart.Add(5*time.Second)) {
		t.Errorf("%d events from %s on", n, j.events[0].At)
	}
}

func TestMarkAndEvents(t *testing.T) {
	t.Parallel()
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Mark(Event{Kind: EventDeploy, Pool: "nobody"}, testStart); err == nil || !strings.Contains(err.Error(), `there is no pool "nobody": no engine was seen yet`) {
		t.Errorf("unknown pool: %v", err)
	}
	if err := e.Mark(Event{Kind: EventMaintenance, Until: testStart.Add(time.Hour)}, testStart); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[time.Duration]int{-time.Hour: 1, 30 * time.Minute: 1, 61 * time.Minute: 0} {
		if got := e.Events(testStart.Add(from), testStart.Add(2*time.Hour)); len(got) != want {
			t.Errorf("from %s: %v, want %d", from, got, want)
		}
	}
}
