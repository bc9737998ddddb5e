package collector

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A file that registers a source is named after it. One whose name ends in a
// platform's would silently not be built: its source would be missing here.
func TestSourcesMatchFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && strings.Contains(string(text), "register(source{") {
			want = append(want, strings.TrimSuffix(file, ".go"))
		}
	}
	var got []string
	for _, s := range registered.sources {
		got = append(got, s.name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("sources %v, files %v", got, want)
	}
}

// Every canonical name is read from somewhere, and every family has one.
func TestFamiliesMatchNames(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			name, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			if name != Up {
				want = append(want, name)
			}
		}
		return true
	})
	var got []string
	for _, f := range registered.families {
		got = append(got, f.name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("families %v\nnames %v", got, want)
	}
}

func TestRegisterTwice(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("two families read the same name")
		}
	}()
	r := newRegistry()
	r.add(&source{name: "a", families: []family{{name: "x_total"}, {name: "y_total", aliases: []string{"x"}}}})
}
