package rules

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// snake writes an alert's name as its file is called: KVSaturated is kv_saturated.
func snake(name string) string {
	var b strings.Builder
	rs := []rune(name)
	for i, r := range rs {
		next := i+1 < len(rs) && unicode.IsLower(rs[i+1])
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(rs[i-1]) || next) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// TestEveryFileHoldsOneEntry holds files against tables both ways. A file whose
// name ends like a platform's would vanish from the build without an error.
func TestEveryFileHoldsOneEntry(t *testing.T) {
	t.Parallel()
	want := map[string]bool{}
	for name := range recordings {
		want["record_"+strings.TrimPrefix(name, "kvwatch_")+".go"] = true
	}
	for name := range alertings {
		want["alert_"+snake(name)+".go"] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		entry := strings.HasPrefix(f, "record_") || strings.HasPrefix(f, "alert_")
		if !entry || strings.HasSuffix(f, "_test.go") {
			continue
		}
		if !want[f] {
			t.Errorf("%s: no entry has its name", f)
		}
		delete(want, f)
	}
	for f := range want {
		t.Errorf("%s is missing", f)
	}
}

func TestEntriesAreWhole(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^kvwatch_[a-z0-9_]+$`)
	for _, r := range Registered().Recordings {
		if !name.MatchString(r.Name) || !strings.HasSuffix(r.Help, ".") {
			t.Errorf("%s: name or help is wrong: %q", r.Name, r.Help)
		}
		if total := strings.HasSuffix(r.Name, "_total"); total != (r.Kind == KindCounter) {
			t.Errorf("%s is a %s", r.Name, r.Kind)
		}
		if len(r.Labels) == 0 {
			t.Errorf("%s has no labels", r.Name)
		}
	}
	for _, a := range Registered().Alerts {
		if a.Help == "" || a.Severity == "" {
			t.Errorf("%s has no help or no severity", a.Name)
		}
		text, err := fs.ReadFile(Runbooks(), a.Name+".md")
		if err != nil || !strings.HasPrefix(string(text), "# "+a.Name+"\n") {
			t.Errorf("%s has no runbook", a.Name)
		}
		for _, s := range a.Settings {
			if s.Help == "" || s.Default == nil {
				t.Errorf("%s: setting %s has no help or no default", a.Name, s.Name)
			}
		}
	}
	files, err := os.ReadDir("runbooks")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(alertings) {
		t.Errorf("%d runbooks for %d alerts", len(files), len(alertings))
	}
}
