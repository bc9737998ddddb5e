package alerting

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kvwatch/rules"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("0a1B", 16)
	for in, want := range map[string]string{
		"vllm-0:8000 holds 60 % of the excess":            "vllm-0:8000 holds 60 % of the excess",
		"10.0.0.7:8000 holds 60 % of the excess":          "10.0.0.7:8000 holds 60 % of the excess",
		"seen from 10.0.0.7":                              "seen from <redacted>",
		"seen from 203.0.113.9, twice":                    "seen from <redacted>, twice",
		"http://10.0.0.7/runbook":                         "http://10.0.0.7/runbook",
		"from fd00:1234::17 today":                        "from <redacted> today",
		"[fd00::17]:8000 is down":                         "[fd00::17]:8000 is down",
		"replica 10.0.0.7:45893 carries 81%":              "replica 10.0.0.7:45893 carries 81%",
		"since 13:52:10 UTC, 00:00:00:00":                 "since 13:52:10 UTC, 00:00:00:00",
		"vLLM 0.16.0, std::vector":                        "vLLM 0.16.0, std::vector",
		"most from jane.doe+test@example.co.uk":           "most from <redacted>",
		"agents@4":                                        "agents@4",
		"key sk-abcdef1234567890 is over its budget":      "key <redacted> is over its budget",
		"key " + hash + ".":                               "key <redacted>.",
		"task-force and ask-me":                           "task-force and ask-me",
		"commit 1234567890abcdef1234567890abcdef12345678": "commit 1234567890abcdef1234567890abcdef12345678",
		"xoxb-123456-abcdef":                              "<redacted>",
		"":                                                "",
	} {
		if got := redact(in); got != want {
			t.Errorf("redact(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	in := rules.Alert{
		Name:        "A",
		Labels:      map[string]string{"alertname": "A", "instance": "10.0.0.7:8000", "end_user": "jane", "team": "inference"},
		Annotations: map[string]string{"summary": "by jane@example.com"},
		Value:       math.NaN(),
		Evidence: rules.Evidence{
			Seen: "from 10.0.0.7", RunnersUp: []string{"or a@b.example"},
			Numbers: []rules.Number{{Name: "a", Value: math.Inf(1)}, {Name: "b", Value: 1}},
		},
	}
	before, err := json.Marshal(in.Labels)
	if err != nil {
		t.Fatal(err)
	}
	got, changed := clean(in)
	want := rules.Alert{
		Name:        "A",
		Labels:      map[string]string{"alertname": "A", "instance": "10.0.0.7:8000", "end_user": redacted, "team": "inference"},
		Annotations: map[string]string{"summary": "by " + redacted},
		Evidence: rules.Evidence{
			Seen: "from " + redacted, RunnersUp: []string{"or " + redacted},
			Numbers: []rules.Number{{Name: "b", Value: 1}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"end_user", "runners_up", "seen", "summary"}, changed); diff != "" {
		t.Error(diff)
	}
	if after, err := json.Marshal(in.Labels); err != nil || string(after) != string(before) {
		t.Error("the caller's alert was changed")
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("from 203.0.113.9:51234 by jane@example.com with sk-abcdef1234567890")
	f.Add("[fd00::17]:50000 and fd00:1234::17")
	f.Fuzz(func(t *testing.T, s string) {
		once := redact(s)
		if again := redact(once); again != once {
			t.Errorf("%q becomes %q, then %q", s, once, again)
		}
	})
}
