package rules

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
)

// read are the alerts whose texts were read, whatever test made them fire.
var read = struct {
	sync.Mutex
	names map[string]bool
}{names: map[string]bool{}}

// TestMain fails a whole run in which an alert never fired, so that nobody read
// what it says.
func TestMain(m *testing.M) {
	code := m.Run()
	whole := !slices.ContainsFunc([]string{"run", "skip", "list", "fuzz"}, func(part string) bool {
		return flag.Lookup("test."+part).Value.String() != ""
	})
	if code == 0 && whole {
		for _, a := range Registered().Alerts {
			if !read.names[a.Name] {
				fmt.Fprintf(os.Stderr, "%s never fired: nobody read its text\n", a.Name)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// personal is what identifies people: addresses, keys and their hashes.
var personal = regexp.MustCompile(`[\w.+-]+@[\w-]+\.\w+|\bsk-\w+|\b[0-9a-f]{32,}\b|\bchatcmpl-\w+`)

// checkEvidence reads the text of a firing alert: figures, over which time or of
// how many, against what, what to do and how sure it is, and nobody's name.
func checkEvidence(t testing.TB, a Alert) {
	t.Helper()
	read.Lock()
	read.names[a.Name] = true
	read.Unlock()
	e := a.Evidence
	for what, text := range map[string]string{
		"summary": a.Annotations["summary"], "description": a.Annotations["description"],
		"seen": e.Seen, "against": e.Against, "next": e.Next, "confidence": e.Confidence,
	} {
		if text == "" {
			t.Errorf("%s tells no %s", a.Name, what)
		}
		if found := personal.FindString(text); found != "" {
			t.Errorf("%s names %q in its %s", a.Name, found, what)
		}
	}
	if found := personal.FindString(e.CauseText + e.Cost + fmt.Sprint(e.RunnersUp)); found != "" {
		t.Errorf("%s names %q", a.Name, found)
	}
	if told := e.Seen + " " + e.Against; !regexp.MustCompile(`\d`).MatchString(told) {
		t.Errorf("%s tells no figures: %s", a.Name, told)
	}
	if told := e.Seen + " " + e.Against + " " + e.Confidence; !regexp.MustCompile(`\b\d[\d.,]* ?(s|min|h|days?|hours?|minutes?|seconds?)\b|\bof \d|\bsince\b|\d+ \w+s\b|\bover \d+ \w+`).MatchString(told) {
		t.Errorf("%s tells neither a time nor how many: %s", a.Name, told)
	}
	if e.Cause != "" && !slices.Contains([]string{"restart", "residency", "replica", "routing", "content", "routing_or_content", "counter_untrusted", "unknown"}, e.Cause) {
		t.Errorf("%s tells the cause %q", a.Name, e.Cause)
	}
	if e.Cause != "" && e.CauseText == "" {
		t.Errorf("%s does not explain the cause %q", a.Name, e.Cause)
	}
}
