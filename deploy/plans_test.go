package deploy

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSizingIsDocumented holds sizing.md to the keys of a plan, their aliases and
// the steps of a worksheet.
func TestSizingIsDocumented(t *testing.T) {
	t.Parallel()
	doc := string(read(t, "docs/sizing.md"))
	files, err := filepath.Glob("../rules/sizing/*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`yaml:"([a-z0-9_]+)|formula\{\s*name: "([a-z0-9_]+)"`)
	names := 0
	for _, file := range files {
		// worksheet.go and sensitivity.go have the format of the result, which its schema describes.
		if base := filepath.Base(file); strings.HasSuffix(base, "_test.go") || base == "worksheet.go" || base == "sensitivity.go" {
			continue
		}
		for _, m := range named.FindAllSubmatch(read(t, file), -1) {
			name := string(m[1]) + string(m[2])
			names++
			if !strings.Contains(doc, "`"+name+"`") && !strings.Contains(doc, "."+name+"`") {
				t.Errorf("docs/sizing.md says nothing of %s (%s)", name, file)
			}
		}
	}
	if names < 100 {
		t.Errorf("only %d names were found: this test looks in the wrong place", names)
	}
}
