package main_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the module's folder, seen from this package's.
const root = "../.."

// imports says which of our packages each may import: the way of a sample run
// backwards, so that a stage knows the ones before it and never the next. A
// package that is not listed fails the test: say here where it stands.
var imports = map[string][]string{
	"collector":         {},
	"collector/history": {"collector"},
	"rules":             {"collector", "collector/history", "rules/sizing"},
	"rules/sizing":      {},
	// It turns reports of a load test into what sizing reckons with.
	"rules/sizing/guidellm": {"rules/sizing"},
	"alerting":              {"alerting/chart", "rules"},
	// It draws numbers, and knows nothing of where they are from.
	"alerting/chart": {},
	"dashboards":     {"rules"},
	// It shows what rules measured, and knows nothing of how.
	"dashboards/review": {"rules/sizing"},
	"dashboards/web":    {"alerting", "collector", "collector/history", "rules", "rules/sizing"},
	// Only the commands know every package, the simulated fleet too.
	"cmd/kvwatch": {
		"alerting", "alerting/chart", "cmd/fleetsim/fleet", "collector", "collector/history", "dashboards", "dashboards/review", "dashboards/web", "rules", "rules/sizing", "rules/sizing/guidellm",
	},
	// It replays recordings, and scores the rules.
	"cmd/fleetsim":        {"cmd/fleetsim/fleet", "cmd/fleetsim/score", "cmd/fleetsim/scrape", "collector"},
	"cmd/fleetsim/scrape": {"cmd/fleetsim/fleet", "collector"},
	"cmd/fleetsim/score":  {"cmd/fleetsim/fleet", "cmd/fleetsim/scrape", "collector", "collector/history", "rules", "rules/sizing"},
	// The simulator imitates servers that know nothing of kvwatch.
	"cmd/fleetsim/fleet": {},
	"deploy":             {},
}

// testImports are what only the tests of a package may import besides.
var testImports = map[string][]string{
	// What the simulator writes is read back as kvwatch reads it.
	"cmd/fleetsim/scrape": {"collector/history"},
	// Plans are held against a history whose truth is known.
	"cmd/fleetsim/score": {"collector/history", "rules/sizing"},
}

// TestImports pins the import graph, whatever the build tags.
func TestImports(t *testing.T) {
	t.Parallel()
	for dir, files := range goFiles(t) {
		allowed, known := imports[dir]
		if !known {
			t.Errorf("%s: this package is not in the import graph: add it to the table in structure_test.go", dir)
			continue
		}
		for _, file := range files {
			may := append(slices.Clone(allowed), dir)
			if strings.HasSuffix(file.path, "_test.go") {
				may = append(may, testImports[dir]...)
			}
			for _, imported := range ours(t, file.syntax) {
				if !slices.Contains(may, imported) {
					t.Errorf("%s imports kvwatch/%s: %s may import %v", file.path, imported, dir, allowed)
				}
			}
		}
	}
}

// TestPackageDocs fails a package that does not say what it is for.
func TestPackageDocs(t *testing.T) {
	t.Parallel()
	for dir, files := range goFiles(t) {
		name, docs := "", 0
		for _, file := range files {
			if strings.HasSuffix(file.path, "_test.go") {
				continue
			}
			name = file.syntax.Name.Name
			if doc := file.syntax.Doc.Text(); strings.HasPrefix(doc, "Package "+name+" ") || name == "main" && strings.HasPrefix(doc, "Command "+path.Base(dir)+" ") {
				docs++
			}
		}
		if name != "" && docs != 1 {
			t.Errorf("%s: package %s has %d package comments: it needs one", dir, name, docs)
		}
	}
}

// TestRegisteredFilesAreBuilt catches a file in a registration folder that some
// platform leaves out of the build without a word: record_burn_windows.go is
// built on Windows only, and its series would just be missing.
func TestRegisteredFilesAreBuilt(t *testing.T) {
	t.Parallel()
	// Whatever system or processor a name or a constraint asks for, one of the two is another.
	platforms := [][2]string{{"linux", "amd64"}, {"windows", "arm64"}}
	for _, dir := range []string{"collector", "rules", "alerting"} {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() || filepath.Ext(e.Name()) != ".go" {
				continue
			}
			for _, p := range platforms {
				c := build.Default
				c.GOOS, c.GOARCH, c.BuildTags = p[0], p[1], []string{"slow", "kubernetes"}
				built, err := c.MatchFile(filepath.Join(root, dir), e.Name())
				if err != nil {
					t.Fatal(err)
				}
				if !built { // it may be what the build without a tag has in its place
					c.BuildTags = nil
					if built, err = c.MatchFile(filepath.Join(root, dir), e.Name()); err != nil {
						t.Fatal(err)
					}
				}
				if !built {
					t.Errorf("%s/%s is not built on %s/%s: give it a name without a platform in it", dir, e.Name(), p[0], p[1])
				}
			}
		}
	}
}

// TestLayout holds the top level and the names of folders to what was agreed.
func TestLayout(t *testing.T) {
	t.Parallel()
	fixed := []string{
		"cmd", "collector", "rules", "alerting", "dashboards", "deploy", "go.mod", "go.sum", "README.md",
		"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile",
	}
	for _, name := range fixed {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	// What is built or run in the checkout, and ignored by git.
	made := []string{"bin", "data"}
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") && !slices.Contains(fixed, name) && !slices.Contains(made, name) {
			t.Errorf("%s does not belong to the top level: it has %v", name, fixed)
		}
	}
	for dir := range goFiles(t) {
		for part := range strings.SplitSeq(dir, "/") {
			if slices.Contains([]string{"pkg", "internal", "util", "utils", "common", "helpers", "types", "models"}, part) {
				t.Errorf("%s: a folder is named after what is in it, and %q says nothing", dir, part)
			}
		}
	}
}

// goFile is one parsed source file, as far as its imports.
type goFile struct {
	path   string
	syntax *ast.File
}

// goFiles returns the module's files by folder, those of any build tag too.
func goFiles(t *testing.T) map[string][]goFile {
	t.Helper()
	found := map[string][]goFile{}
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() && (name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") && name != "..") {
			return filepath.SkipDir
		}
		if e.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		found[path.Dir(rel)] = append(found[path.Dir(rel)], goFile{path: rel, syntax: syntax})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// ours lists the packages of this module that the file imports, without the module's name.
func ours(t *testing.T, file *ast.File) []string {
	t.Helper()
	var found []string
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if rest, ok := strings.CutPrefix(name, "kvwatch/"); ok {
			found = append(found, rest)
		}
	}
	return found
}
