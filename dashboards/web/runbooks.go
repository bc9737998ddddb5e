package web

import (
	"bytes"
	_ "embed" // the frame of a runbook
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

//go:embed runbook.html
var runbookFrame string

// renderRunbooks turns every <alert name>.md of the file system into a page.
func renderRunbooks(files fs.FS) (map[string][]byte, error) {
	pages := map[string][]byte{}
	if files == nil {
		return pages, nil
	}
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		return nil, fmt.Errorf("list the runbooks: %w", err)
	}
	frame, err := template.New("runbook").Parse(runbookFrame)
	if err != nil {
		return nil, fmt.Errorf("the frame of the runbooks: %w", err)
	}
	markdown := goldmark.New(goldmark.WithExtensions(extension.Table))
	for _, file := range names {
		source, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, fmt.Errorf("read the runbook %s: %w", file, err)
		}
		name := strings.TrimSuffix(path.Base(file), ".md")
		var body, page bytes.Buffer
		if err := markdown.Convert(source, &body); err != nil {
			return nil, fmt.Errorf("render the runbook %s: %w", file, err)
		}
		// Goldmark drops raw HTML and unsafe addresses; the frame escapes the name.
		err = frame.Execute(&page, map[string]any{"Name": name, "Body": template.HTML(body.String())})
		if err != nil {
			return nil, fmt.Errorf("render the runbook %s: %w", file, err)
		}
		pages[name] = page.Bytes()
	}
	return pages, nil
}

// runbook serves a rendered runbook.
func (p *page) runbook(w http.ResponseWriter, r *http.Request) {
	body, ok := p.runbooks[r.PathValue("name")]
	if !ok {
		http.Error(w, "There is no runbook of that name.", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	p.write(w, body)
}
